// Coordinator: what worker 0 does for the job besides its own work. It gathers the workers, finds
// out whether they fit together, watches them, carries their exchanges, and decides what has ended
// the job: the first failure that it hears of is the one that everybody is told.
//
//   gathering --all are there and fit--> running --somebody died, or aborted--> ended
//       \--------they do not fit, or worker 0 gave up------------------------->/
//
// In an elastic job only the end of worker 0, or an abort, ends it. Any other worker that dies or
// falls silent has left, for the rest; its seat is free then, as is that of one that said goodbye:
// another process may take it, and the others are told so.
//
// While it gathers, a worker that goes away again leaves its seat free. When the job runs, a
// connection that closes without a goodbye is a death at once; silence is one after the limit; a
// process that was seen to end is one after a moment in which a goodbye on its way may still
// arrive.
//
// Threads: the network's strand alone, but for the constructor and the destructor, which comes
// after the network's Shutdown.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_COORDINATOR_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/control_channel.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/membership/exchange_table.h"
#include "core/cluster/membership/membership_messages.h"
#include "core/cluster/membership/regroup_table.h"
#include "core/cluster/membership/silence.h"

namespace tutti {

class Environment;

class Coordinator {
 public:
  struct Options {
    std::vector<std::string> tasks;
    std::vector<std::string> addresses;
    std::string host;  // of this machine, for messages
    MembershipTiming timing;
    bool elastic = false;
  };
  // How long workers that do not fit wait for the rest, so that all are told the same.
  static constexpr int64_t kMisfitGraceNs = 2'500 * kMillisecondNs;
  // How long a goodbye of a process that has ended may be on its way.
  static constexpr int64_t kGoodbyeGraceNs = 100 * kMillisecondNs;
  // How long worker 0 itself is not told of a failure while others have not said that they know of
  // it; a quarter of the limit of silence where that is less. Its caller is to know of a death
  // within 200 ms, whoever else is slow.
  static constexpr int64_t kOthersFirstNs = 100 * kMillisecondNs;
  // Connections that have not said who they are.
  static constexpr size_t kMaxStrangers = 256;

  Coordinator(Environment& environment, Ref<ControlNetwork> network, Options options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  void Start();
  // For Listen.
  std::unique_ptr<ControlAcceptor> MakeAcceptor();
  // This process's worker, which leaves, cannot wait until others have said that they know of a
  // failure. Who was seen to end may still have said goodbye, for kGoodbyeGraceNs.
  void SpeakNow();
  // A new connection; null when there are too many.
  std::unique_ptr<ControlHandler> Accept(Ref<ControlConnection> connection);

 private:
  class Session;
  enum class Phase { kGathering, kRunning, kEnded };
  struct Seat {
    Session* session = nullptr;  // null: nobody is connected
    Hello hello;                 // of whom is, or was, here
    uint64_t arrival = 0;        // 0: the job began with it
    bool left = false;
    Status departure;            // once it has left
    bool suspected = false;
    std::string suspicion;       // what the process was seen to do
    bool knows_end = false;      // that the job has failed
    Silence silence;
    std::string loss;            // while gathering: how the last one was lost
  };

  void OnMessage(Session& session, std::string_view bytes);
  void OnClosed(Session& session, const Status& reason);
  void On(Session& session, Hello& hello);
  void On(Session& session, Heartbeat& heartbeat);
  void On(Session& session, ExchangePart& part);
  void On(Session& session, ExchangeWithdrawal& withdrawal);
  void On(Session& session, Suspicion& suspicion);
  void On(Session& session, JobAbort& abort);
  void On(Session& session, Goodbye& goodbye);
  void On(Session& session, RegroupPart& part);
  void On(Session& session, RegroupWithdrawal& withdrawal);
  void On(Session& session, Resignation& resignation);
  void On(Session& session, Note& note);

  void Tick();
  void ScheduleTick();
  void TickGathering(int64_t now, bool counts);
  void TickRunning(int64_t now, bool counts);
  // While gathering.
  void FreeSeat(Seat& seat, std::string loss);
  Gathering WhoIsMissing() const;
  void CompleteIfAllAreHere();
  Welcome MakeWelcome() const;
  // Refuses everybody, now and later.
  void RefuseAll(Status reason);
  void Refuse(Session& session, const Status& reason);
  // While running.
  void DeclareDead(int64_t worker, std::string_view how);
  void Fail(Status reason);
  // Worker 0's is held back while HasToSpeakFirst.
  void TakeGoodbye(Session& session, const Goodbye& goodbye);
  bool HasToSpeakFirst() const;
  void LetOwnWorkerGo();
  // After Fail, once.
  void TellOwnWorkerIfOthersKnow();
  void TellOwnWorker();
  // One worker less, in an elastic job; worker 0 cannot be spared.
  void Lose(int64_t worker, Status loss);
  void OnWorkerLeft(int64_t worker, const Status& reason);
  // Tells the others, and whoever waits for it.
  void NoteDeparture(int64_t worker, const Status& departure);
  // A process that comes when the job runs.
  void TakeIn(Session& session, Hello& hello);
  // `reason` of a worker that waits no longer, and for whom it has waited.
  Status NamingTheMissing(const Status& reason, const std::vector<int64_t>& missing,
                          int64_t more) const;
  void Tell(const ExchangeTable::Outcome& outcome);
  void Tell(const RegroupTable::Answer& answer);

  void Send(Session& session, const MessageToMember& message);
  void SendAll(const MessageToMember& message);
  Seat& SeatOf(const Session& session);
  std::string Describe(int64_t worker) const;

  Environment& environment_;
  const Ref<ControlNetwork> network_;
  const Options options_;
  const MembershipTiming timing_;
  Phase phase_ = Phase::kGathering;
  Status end_;  // why it ended
  bool own_worker_waits_ = false;  // it is to be told of the failure, after the others
  std::optional<Goodbye> own_goodbye_;  // held back
  bool speaks_now_ = false;             // SpeakNow has been called
  std::vector<Seat> seats_;
  std::set<Session*> strangers_;
  ExchangeTable exchanges_;
  RegroupTable regroupings_;
  uint64_t num_arrivals_ = 0;  // since the job runs
  uint64_t job_id_ = 0;
  Attention attention_;
  Status misfit_;
  int64_t misfit_since_ns_ = 0;
  int64_t last_to_come_ = 0;  // the worker of the last hello
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_COORDINATOR_H_
