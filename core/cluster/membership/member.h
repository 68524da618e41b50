// Member: a worker's side of the membership protocol. It finds the coordinator (worker 0), says who
// it is, waits until the job has gathered, and from then on tells its observer what happens to the
// job.
//
// Until the job runs it tries again whatever may be a matter of time (nobody listens yet, a
// connection broke), at growing intervals. A refusal is final.
//
// When the job runs the coordinator decides what ended it, so that all workers name the same
// reason. A member decides by itself only about the coordinator: its connection closed, its process
// ended, or it is silent.
//
// Threads: the network's strand alone, but for the constructor and the destructor, which comes
// after the network's Shutdown.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_MEMBER_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_MEMBER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/control_channel.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/task.h"
#include "core/cluster/membership/membership_messages.h"
#include "core/cluster/membership/silence.h"

namespace tutti {

class Environment;

class Member {
 public:
  // Called on the strand.
  class Observer {
   public:
    virtual ~Observer() = default;
    // One of these two, once.
    virtual void OnJoined(const Welcome& welcome) = 0;
    virtual void OnNotJoined(Status reason) = 0;
    // The job has failed; once.
    virtual void OnFailed(const Status& reason) = 0;
    virtual void OnLeft(int64_t worker, const Status& reason) = 0;
    // Somebody has taken the seat of one that had left.
    virtual void OnArrived(const WorkerInfo& info, uint64_t arrival) = 0;
    virtual void OnNote(const Note& note) = 0;
  };
  // Connects to the coordinator once.
  using Connect = std::function<Ref<ControlConnection>(std::unique_ptr<ControlHandler>)>;
  using ExchangeDone = std::function<void(Result<std::vector<std::string>>)>;
  struct Regrouped {
    int64_t epoch = 0;
    std::vector<MemberId> members;
    std::vector<WorkerInfo> infos;   // of the members, as are:
    std::vector<std::string> parts;
  };
  using RegroupDone = std::function<void(Result<Regrouped>)>;

  struct Options {
    std::vector<std::string> tasks;
    std::vector<std::string> addresses;
    WorkerInfo self;
    MembershipTiming timing;
    int64_t major = kMembershipMajor;
    int64_t minor = kMembershipMinor;
    uint64_t capabilities = 0;
  };
  static constexpr int64_t kFirstRetryNs = 50 * kMillisecondNs;
  static constexpr int64_t kLastRetryNs = 1 * kSecondNs;
  static constexpr int64_t kConnectTimeoutNs = 5 * kSecondNs;
  // How long last words of a coordinator whose process has ended may be on their way. In so many
  // turns of this process: where it hardly gets to run, what has come waits to be read for longer.
  static constexpr int64_t kLastWordsNs = 100 * kMillisecondNs;
  static constexpr int64_t kLastWordsTurns = 10;
  // How long a coordinator may take to act upon an abort or a suspicion where silence has no limit.
  static constexpr int64_t kVerdictNs = 10 * kSecondNs;
  // How long it may take to say what became of something withdrawn. It answers within milliseconds,
  // or its silence ends the wait; this is for silence that has no limit, or a longer one.
  static constexpr int64_t kAnswerNs = 5 * kSecondNs;
  // A departure has it of a process on this host that has ended: it sends nothing any more.
  static constexpr const char* kEndedDetail = "ended";

  Member(Environment& environment, Ref<ControlNetwork> network, Options options, Connect connect,
         Observer* observer);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void Start();
  // Ends joining, if it has not ended: OnNotJoined follows at once, saying what was missing. `why`
  // is DEADLINE_EXCEEDED or CANCELLED.
  void GiveUpJoining(const Status& why);
  // While it joins, who has not come or what stands between this worker and worker 0; else empty.
  std::string DescribeJoining() const;

  // `done` is called once, at once with FAILED_PRECONDITION where this worker is in an exchange of
  // this key already. Gives the number by which it can be withdrawn.
  uint64_t Exchange(const std::string& key, std::string part, ExchangeDone done);
  // Nothing when the exchange is over. The coordinator decides what comes first. When all have come
  // before, `done` gets the result, as the others do: they count on this worker from then on. Else
  // they are told `why`, and so is `done`, with who has not come. Where no answer comes within
  // kAnswerNs, `done` gets `why` alone.
  void WithdrawExchange(uint64_t id, const Status& why);
  // As RegroupTable has it; `part` needs no id. `done` is called once, at once with
  // FAILED_PRECONDITION where this worker is in the same round already. Gives the number by which
  // it can be withdrawn.
  uint64_t Regroup(RegroupPart part, RegroupDone done);
  void WithdrawRegroup(uint64_t id, const Status& why);
  // As RegroupTable has it.
  void Resign(Resignation resignation);
  // Reaches those of `to` that are there, in order for each sender and receiver.
  void Tell(std::vector<MemberId> to, std::string topic, std::string content);
  void Abort(Status reason);
  // Another worker was seen to end: "its process has ended".
  void Suspect(const MemberId& member, const std::string& what);
  void Suspect(int64_t worker, const std::string& what) { Suspect({worker, 0}, what); }
  // Says goodbye; `done` is called when the coordinator has heard it, or cannot. Exchanges fail.
  void Leave(Task done);

 private:
  class Session;
  enum class Phase {
    kIdle,
    kJoining,
    kJoined,
    kAlone,    // the coordinator has left
    kLeaving,  // has said goodbye
    kEnded,
  };

  // Worker 0 as it is out of reach; `why` stands behind the number of attempts.
  std::string Unreached(std::string_view why) const;
  void TryToConnect();
  void RetryLater(const Status& reason);
  void OnConnected();
  void OnMessage(std::string_view bytes);
  void OnClosed(Status reason);
  void OnClosedWhileJoining(Status reason);
  void On(Refusal& refusal);
  void On(Gathering& gathering);
  void On(Welcome& welcome);
  void On(Heartbeat&);
  void On(ExchangeResult& result);
  void On(ExchangeFailure& failure);
  void On(JobFailure& failure);
  void On(Departure& departure);
  void On(Arrival& arrival);
  void On(RegroupResult& result);
  void On(RegroupFailure& failure);
  void On(Note& note);

  void ScheduleTick();
  void Tick();
  void NotJoined(Status reason);
  std::string NobodyHasCome() const;
  void Fail(Status reason);
  // Fails by itself when the coordinator neither decides nor counts as silent.
  void AwaitVerdict(int64_t about, Status reason);
  void EndUnheard(int64_t worker, const std::string& what);
  void AwaitLastWords(std::string what, int64_t turns);
  void CoordinatorIsGone(std::string_view how);
  void FailExchanges(const Status& reason);
  void FinishExchange(const std::string& key, Result<std::vector<std::string>> result);
  void FinishRegroup(uint64_t id, Result<Regrouped> result);
  void Send(const MessageToCoordinator& message);
  void CloseConnection(const Status& reason);
  std::string Describe(int64_t worker) const;

  struct Pending {
    uint64_t id = 0;
    ExchangeDone done;
    std::vector<std::string> parts;
  };
  struct PendingRegroup {
    std::string name;  // of the round, as are:
    bool all = false;
    std::vector<MemberId> among;
    RegroupDone done;
    Regrouped came;
  };

  std::map<std::string, Pending>::iterator FindExchange(uint64_t id);

  Environment& environment_;
  const Ref<ControlNetwork> network_;
  const Options options_;
  const Connect connect_;
  Observer* const observer_;
  uint64_t incarnation_ = 0;
  MembershipTiming timing_;
  Phase phase_ = Phase::kIdle;

  Session* session_ = nullptr;  // the open connection's; the network owns it
  Ref<ControlConnection> connection_;
  bool connected_ = false;
  Silence silence_;             // of the coordinator
  Attention attention_;
  int64_t retry_ns_ = kFirstRetryNs;
  int64_t attempts_ = 0;
  Status last_attempt_;
  bool was_heard_ = false;      // the coordinator has answered on this connection
  Gathering gathering_;

  std::vector<WorkerInfo> workers_;
  Status failure_;
  std::vector<uint64_t> arrivals_;
  std::vector<Status> departures_;
  std::vector<std::string> seen_to_end_;  // what Suspect was told
  bool coordinator_suspected_ = false;
  bool coordinator_lost_ = false;
  std::map<std::string, Pending> exchanges_;
  uint64_t last_exchange_ = 0;
  std::map<uint64_t, PendingRegroup> regroupings_;
  uint64_t last_regrouping_ = 0;
  Task on_left_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_MEMBER_H_
