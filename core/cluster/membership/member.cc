#include "core/cluster/membership/member.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/cluster/membership/rendezvous.h"

namespace tutti {

// One connection to the coordinator. Detached from the member when the member has given it up.
class Member::Session final : public ControlHandler {
 public:
  explicit Session(Member* member) : member(member) {}
  void OnConnected() override {
    if (member != nullptr) member->OnConnected();
  }
  void OnMessage(std::string_view message) override {
    if (member != nullptr) member->OnMessage(message);
  }
  void OnClosed(Status reason) override {
    if (member != nullptr) member->OnClosed(std::move(reason));
  }

  Member* member;
};

Member::Member(Environment& environment, Ref<ControlNetwork> network, Options options,
               Connect connect, Observer* observer)
    : environment_(environment),
      network_(std::move(network)),
      options_(std::move(options)),
      connect_(std::move(connect)),
      observer_(observer),
      timing_(options_.timing.Checked()),
      arrivals_(options_.tasks.size(), 0),
      departures_(options_.tasks.size()),
      seen_to_end_(options_.tasks.size()) {}

Member::~Member() = default;

// ---- Joining

void Member::Start() {
  phase_ = Phase::kJoining;
  incarnation_ = environment_.random().Next();
  ScheduleTick();
  TryToConnect();
}

void Member::TryToConnect() {
  if (phase_ != Phase::kJoining) return;
  ++attempts_;
  connected_ = false;
  was_heard_ = false;
  auto session = std::make_unique<Session>(this);
  session_ = session.get();
  connection_ = connect_(std::move(session));
}

void Member::RetryLater(const Status& reason) {
  last_attempt_ = reason;
  // Spread over half of the interval, so that many workers do not come all at once.
  const auto half = static_cast<uint64_t>(retry_ns_ / 2);
  const auto delay = static_cast<int64_t>(half + environment_.random().Next() % (half + 1));
  retry_ns_ = std::min(2 * retry_ns_, kLastRetryNs);
  (void)network_->PostAfter(delay, [this] { TryToConnect(); });
}

void Member::OnConnected() {
  connected_ = true;
  silence_.Heard(environment_.clock().NowNs());
  Hello hello;
  hello.major = options_.major;
  hello.minor = options_.minor;
  hello.capabilities = options_.capabilities;
  hello.incarnation = incarnation_;
  hello.tasks = options_.tasks;
  hello.addresses = options_.addresses;
  hello.info = options_.self;
  Send(hello);
}

void Member::OnClosed(Status reason) {
  session_ = nullptr;
  connection_.reset();
  connected_ = false;
  switch (phase_) {
    case Phase::kJoining: return OnClosedWhileJoining(std::move(reason));
    case Phase::kJoined:
      return CoordinatorIsGone(reason.ok() ? "its connection closed without a goodbye"
                                           : Format("its connection closed without a goodbye ({})",
                                                    reason.message()));
    case Phase::kLeaving:
      phase_ = Phase::kEnded;
      if (on_left_) std::exchange(on_left_, Task())();
      return;
    case Phase::kIdle:
    case Phase::kAlone:
    case Phase::kEnded: return;
  }
}

void Member::OnClosedWhileJoining(Status reason) {
  // Another secret, or another protocol, will not become right by trying again.
  if (reason.code() == StatusCode::kUnauthenticated ||
      reason.code() == StatusCode::kInvalidArgument) {
    return NotJoined(std::move(reason).WithPrefix(
        Format("worker {} cannot join {}", options_.self.worker,
               DescribeSeat(0, options_.tasks, options_.addresses))));
  }
  if (reason.ok()) reason = Unavailable("the connection closed");
  RetryLater(reason);
}

std::string Member::DescribeJoining() const {
  if (phase_ != Phase::kJoining) return "";
  if (was_heard_ && !gathering_.misfit.ok()) return std::string(gathering_.misfit.message());
  if (was_heard_) return gathering_.waiting_for;
  return options_.self.worker == 0 ? NobodyHasCome() : "it has not reached " + Unreached("");
}

std::string Member::Unreached(std::string_view why) const {
  const std::string seen =
      connected_ ? "it accepted the connection, and did not answer"
      : last_attempt_.ok() ? "no attempt has ended yet"
                           : Format("the last attempt: {}", last_attempt_.message());
  return Format("{} in {} attempts{}; {}; is worker 0 running, and is this its address?",
                DescribeSeat(0, options_.tasks, options_.addresses), attempts_, why, seen);
}

void Member::GiveUpJoining(const Status& why) {
  if (phase_ != Phase::kJoining) return;
  const std::string who = Format("worker {}", options_.self.worker);
  // The reason travels: the coordinator tells it to the others, or notes it for this seat.
  if (connected_) Send(Goodbye{why});
  if (was_heard_ && !gathering_.misfit.ok()) return NotJoined(gathering_.misfit);
  if (was_heard_ || options_.self.worker == 0) {
    return NotJoined(Status(why.code(), Format("{} has given up waiting ({}); {}", who,
                                               why.message(), DescribeJoining())));
  }
  const StatusCode code =
      why.code() == StatusCode::kDeadlineExceeded ? StatusCode::kUnavailable : why.code();
  Status status(code, Format("{} has not reached {}", who,
                             Unreached(Format(" ({})", why.message()))));
  if (!last_attempt_.ok()) status = std::move(status).WithCause(last_attempt_);
  NotJoined(std::move(status));
}

// As worker 0 knows it before its own coordinator has told it anything.
std::string Member::NobodyHasCome() const {
  constexpr int64_t kNamed = 8;
  const auto num_workers = static_cast<int64_t>(options_.tasks.size());
  std::vector<std::string> missing;
  for (int64_t worker = 1; worker < std::min(num_workers, 1 + kNamed); ++worker) {
    missing.push_back(DescribeSeat(worker, options_.tasks, options_.addresses));
  }
  std::string text = Format("{} of {} workers have not come: {}", num_workers - 1, num_workers,
                            Join(missing, "; "));
  if (num_workers > 1 + kNamed) text += Format("; and {} more", num_workers - 1 - kNamed);
  return text;
}

void Member::NotJoined(Status reason) {
  if (phase_ != Phase::kJoining) return;
  phase_ = Phase::kEnded;
  CloseConnection(OkStatus());
  observer_->OnNotJoined(std::move(reason));
}

void Member::On(Refusal& refusal) {
  if (phase_ == Phase::kJoining) NotJoined(std::move(refusal.reason));
}

void Member::On(Gathering& gathering) {
  if (phase_ != Phase::kJoining) return;
  was_heard_ = true;
  gathering_ = std::move(gathering);
}

void Member::On(Welcome& welcome) {
  if (phase_ != Phase::kJoining) return;
  if (welcome.workers.size() != options_.tasks.size()) {
    const Status status = InvalidArgument("worker 0 welcomes {} workers, the cluster has {}",
                                          welcome.workers.size(), options_.tasks.size());
    CloseConnection(status);
    return NotJoined(status);
  }
  phase_ = Phase::kJoined;
  timing_ = MembershipTiming{welcome.silence_limit_ns, welcome.heartbeat_interval_ns}.Checked();
  workers_ = welcome.workers;
  const auto num_workers = static_cast<int64_t>(workers_.size());
  for (const MemberId& newcomer : welcome.newcomers) {
    if (newcomer.worker >= num_workers) continue;
    arrivals_[static_cast<size_t>(newcomer.worker)] = newcomer.arrival;
  }
  for (const Departure& absent : welcome.absent) {
    if (absent.worker >= num_workers) continue;
    departures_[static_cast<size_t>(absent.worker)] = absent.reason;
  }
  observer_->OnJoined(welcome);
}

// ---- The job runs

void Member::OnMessage(std::string_view bytes) {
  silence_.Heard(environment_.clock().NowNs());
  MessageToMember message;
  Status status = Decode(bytes, &message);
  if (!status.ok()) {
    status = std::move(status).WithPrefix("from worker 0 came");
    if (phase_ == Phase::kJoining) return NotJoined(status);
    if (phase_ != Phase::kJoined) return;
    CloseConnection(status);
    return CoordinatorIsGone(status.message());
  }
  if (phase_ == Phase::kLeaving || phase_ == Phase::kEnded) return;
  std::visit([&](auto& content) { On(content); }, message);
}

void Member::On(Heartbeat&) {}

void Member::On(ExchangeResult& result) {
  const auto it = exchanges_.find(result.key);
  if (it == exchanges_.end()) return;  // withdrawn, and no longer waited for
  std::vector<std::string>& parts = it->second.parts;
  for (std::string& part : result.parts) parts.push_back(std::move(part));
  if (!result.last && parts.size() < workers_.size()) return;
  if (parts.size() != workers_.size()) {
    return FinishExchange(result.key, Internal("exchange {}: worker 0 gave {} parts of {}",
                                               Quote(result.key), parts.size(), workers_.size()));
  }
  FinishExchange(result.key, std::move(parts));
}

void Member::On(ExchangeFailure& failure) { FinishExchange(failure.key, failure.reason); }

void Member::On(JobFailure& failure) {
  if (phase_ != Phase::kJoined) return;
  Send(Heartbeat{/*knows_of_failure=*/true});
  const StatusDetail* const worker = failure.reason.FindDetail("worker");
  const bool this_one = failure.reason.code() == StatusCode::kUnavailable && worker != nullptr &&
                        worker->value == StatusDetail{"worker", options_.self.worker}.value;
  Fail(this_one ? failure.reason.WithPrefix(
                      "this worker was given up by the others, which have gone on without it")
                : failure.reason);
}

void Member::On(Departure& departure) {
  if (phase_ != Phase::kJoined || departure.worker >= static_cast<int64_t>(departures_.size())) {
    return;
  }
  Status& known = departures_[static_cast<size_t>(departure.worker)];
  if (!known.ok()) return;
  known = departure.reason;
  if (departure.worker == 0) {
    phase_ = Phase::kAlone;
    FailExchanges(departure.reason);
  }
  observer_->OnLeft(departure.worker, departure.reason);
  if (departure.worker != 0) return;
  // What worker 0 has not come to say of them it says no more.
  for (size_t i = 0; i < seen_to_end_.size(); ++i) {
    if (!seen_to_end_[i].empty() && departures_[i].ok()) {
      EndUnheard(static_cast<int64_t>(i), seen_to_end_[i]);
    }
  }
}

void Member::On(Arrival& arrival) {
  const int64_t worker = arrival.info.worker;
  if (phase_ != Phase::kJoined || worker >= static_cast<int64_t>(workers_.size())) return;
  const auto index = static_cast<size_t>(worker);
  workers_[index] = arrival.info;
  arrivals_[index] = arrival.arrival;
  departures_[index] = OkStatus();
  seen_to_end_[index].clear();
  observer_->OnArrived(arrival.info, arrival.arrival);
}

void Member::On(Note& note) {
  if (phase_ == Phase::kJoined) observer_->OnNote(note);
}

void Member::Tell(std::vector<MemberId> to, std::string topic, std::string content) {
  if (phase_ != Phase::kJoined) return;
  Send(Note{std::move(topic), {}, std::move(to), std::move(content)});
}

// ---- Regrouping

uint64_t Member::Regroup(RegroupPart part, RegroupDone done) {
  const std::string what = Format("regrouping {}", Quote(part.name));
  const uint64_t id = ++last_regrouping_;
  if (phase_ == Phase::kAlone) {
    done(departures_[0].WithPrefix(what));
  } else if (!failure_.ok()) {
    done(failure_.WithPrefix(what));
  } else if (phase_ != Phase::kJoined) {
    done(FailedPrecondition("{}: this worker has left the job", what));
  } else if (std::any_of(regroupings_.begin(), regroupings_.end(), [&](const auto& entry) {
               const PendingRegroup& other = entry.second;
               return other.name == part.name && other.all == part.all &&
                      other.among == part.among;
             })) {
    // The coordinator would take the second part for a broken protocol, and this worker for lost.
    done(FailedPrecondition(
        "{}: another thread of worker {} is in it already; one thread at a time makes a "
        "communicator of one name, and shrinks it or grows it",
        what, options_.self.worker));
  } else {
    regroupings_.emplace(id, PendingRegroup{part.name, part.all, part.among, std::move(done), {}});
    part.id = id;
    Send(std::move(part));
  }
  return id;
}

void Member::WithdrawRegroup(uint64_t id, const Status& why) {
  if (regroupings_.count(id) == 0) return;
  Send(RegroupWithdrawal{id, why});
  (void)network_->PostAfter(kAnswerNs, [this, id, why] { FinishRegroup(id, why); });
}

void Member::Resign(Resignation resignation) {
  if (phase_ == Phase::kJoined) Send(std::move(resignation));
}

void Member::On(RegroupResult& result) {
  const auto it = regroupings_.find(result.id);
  if (it == regroupings_.end()) return;  // withdrawn, and no longer waited for
  Regrouped& came = it->second.came;
  came.epoch = result.epoch;
  if (came.members.size() + result.members.size() > workers_.size()) {
    return FinishRegroup(result.id,
                         Internal("regrouping {}: worker 0 gave {} parts, and the job has {} "
                                  "workers",
                                  Quote(it->second.name),
                                  came.members.size() + result.members.size(), workers_.size()));
  }
  for (size_t i = 0; i < result.members.size(); ++i) {
    const MemberId& member = result.members[i];
    const auto index = static_cast<size_t>(member.worker);
    // Arrivals are told before what comes of them.
    if (index >= workers_.size() || arrivals_[index] != member.arrival) {
      return FinishRegroup(result.id, Internal("regrouping {}: worker 0 gave a part of worker {}, "
                                               "which is not known here",
                                               Quote(it->second.name), member.worker));
    }
    came.members.push_back(member);
    came.infos.push_back(workers_[index]);
    came.parts.push_back(std::move(result.parts[i]));
  }
  if (result.last) FinishRegroup(result.id, Regrouped(std::move(came)));
}

void Member::On(RegroupFailure& failure) { FinishRegroup(failure.id, failure.reason); }

void Member::FinishRegroup(uint64_t id, Result<Regrouped> result) {
  auto node = regroupings_.extract(id);
  if (!node.empty()) node.mapped().done(std::move(result));
}

// ---- Exchanges

uint64_t Member::Exchange(const std::string& key, std::string part, ExchangeDone done) {
  const std::string what = Format("exchange {}", Quote(key));
  const uint64_t id = ++last_exchange_;
  if (phase_ == Phase::kAlone) {
    done(departures_[0].WithPrefix(what));
  } else if (!failure_.ok()) {
    done(failure_.WithPrefix(what));
  } else if (phase_ != Phase::kJoined) {
    done(FailedPrecondition("{}: this worker has left the job", what));
  } else if (exchanges_.count(key) != 0) {
    done(FailedPrecondition("{}: this worker is in an exchange of this key already", what));
  } else {
    exchanges_.emplace(key, Pending{id, std::move(done), {}});
    Send(ExchangePart{key, std::move(part)});
  }
  return id;
}

void Member::WithdrawExchange(uint64_t id, const Status& why) {
  const auto it = FindExchange(id);
  if (it == exchanges_.end()) return;
  Send(ExchangeWithdrawal{it->first, why});
  (void)network_->PostAfter(kAnswerNs, [this, id, why] {
    const auto still = FindExchange(id);
    if (still != exchanges_.end()) FinishExchange(std::string(still->first), why);
  });
}

std::map<std::string, Member::Pending>::iterator Member::FindExchange(uint64_t id) {
  return std::find_if(exchanges_.begin(), exchanges_.end(),
                      [&](const auto& entry) { return entry.second.id == id; });
}

void Member::FinishExchange(const std::string& key, Result<std::vector<std::string>> result) {
  auto node = exchanges_.extract(key);
  if (!node.empty()) node.mapped().done(std::move(result));
}

void Member::FailExchanges(const Status& reason) {
  for (auto& [key, pending] : std::exchange(exchanges_, {})) {
    pending.done(reason.WithPrefix(Format("exchange {}", Quote(key))));
  }
  for (auto& [id, pending] : std::exchange(regroupings_, {})) {
    pending.done(reason.WithPrefix(Format("regrouping {}", Quote(pending.name))));
  }
}

void Member::Abort(Status reason) {
  if (phase_ == Phase::kAlone) return Fail(std::move(reason));
  if (phase_ != Phase::kJoined) return;
  Send(JobAbort{reason});
  AwaitVerdict(-1, std::move(reason));
}

void Member::Suspect(const MemberId& member, const std::string& what) {
  const int64_t worker = member.worker;
  if (worker < 0 || worker >= static_cast<int64_t>(workers_.size())) return;
  if (member.arrival != arrivals_[static_cast<size_t>(worker)]) return;  // a former one
  if (!departures_[static_cast<size_t>(worker)].ok()) return;
  if (phase_ == Phase::kAlone) return EndUnheard(worker, what);
  if (phase_ != Phase::kJoined) return;
  if (worker != 0) {
    seen_to_end_[static_cast<size_t>(worker)] = what;
    Send(Suspicion{worker, what, member.arrival});
    AwaitVerdict(worker, BlameWorker(worker, Format("{} is gone: {}", Describe(worker), what)));
    return;
  }
  // Its last words, or the end of its connection, may be on their way.
  if (std::exchange(coordinator_suspected_, true)) return;
  AwaitLastWords(what, kLastWordsTurns);
}

// Nobody is left who would pass on a goodbye: it may have been one.
void Member::EndUnheard(int64_t worker, const std::string& what) {
  Status& departure = departures_[static_cast<size_t>(worker)];
  departure = BlameWorker(worker, Format("{} is not there any more: {}", Describe(worker), what))
                  .With(kEndedDetail, 1);
  observer_->OnLeft(worker, departure);
}

void Member::AwaitLastWords(std::string what, int64_t turns) {
  if (phase_ != Phase::kJoined) return;
  if (turns == 0) return CoordinatorIsGone(what);
  (void)network_->PostAfter(kLastWordsNs / kLastWordsTurns,
                            [this, what = std::move(what), turns]() mutable {
                              AwaitLastWords(std::move(what), turns - 1);
                            });
}

void Member::AwaitVerdict(int64_t about, Status reason) {
  // With a limit of silence, either its word or its silence comes.
  if (timing_.silence_limit_ns != kNeverNs) return;
  (void)network_->PostAfter(kVerdictNs, [this, about, reason = std::move(reason)] {
    if (phase_ != Phase::kJoined) return;
    if (about >= 0 && !departures_[static_cast<size_t>(about)].ok()) return;
    Fail(reason);
  });
}

void Member::CoordinatorIsGone(std::string_view how) {
  coordinator_lost_ = true;
  Fail(BlameWorker(0, Format("{} is gone: {}", Describe(0), how)));
}

void Member::Fail(Status reason) {
  phase_ = Phase::kEnded;
  failure_ = std::move(reason);
  FailExchanges(failure_);
  observer_->OnFailed(failure_);
}

void Member::Leave(Task done) {
  if (phase_ == Phase::kJoining) GiveUpJoining(Cancelled("this worker leaves"));
  FailExchanges(FailedPrecondition("this worker leaves the job"));
  if (connection_.get() == nullptr || phase_ == Phase::kIdle) {
    phase_ = Phase::kEnded;
    return done();
  }
  // After a failure too: the connection is to end in order.
  phase_ = Phase::kLeaving;
  Send(Goodbye{});
  if (coordinator_lost_) return done();  // nobody will answer
  on_left_ = std::move(done);
}

// ---- Time, and the connection

void Member::ScheduleTick() {
  (void)network_->PostAfter(timing_.heartbeat_interval_ns, [this] { Tick(); });
}

void Member::Tick() {
  if (phase_ == Phase::kAlone || phase_ == Phase::kLeaving || phase_ == Phase::kEnded) return;
  const int64_t now = environment_.clock().NowNs();
  const bool counts = attention_.OnTick(now, timing_.heartbeat_interval_ns);
  ScheduleTick();
  if (!connected_) return;
  if (counts) silence_.OnTick();
  Send(Heartbeat{});
  if (!silence_.Exceeds(timing_)) return;
  const std::string silent = DescribeSilence(
      phase_ == Phase::kJoined ? Describe(0) : "worker 0", silence_.DurationNs(now));
  if (phase_ == Phase::kJoining) {
    CloseConnection(Unavailable("{}", silent));
    return RetryLater(Unavailable("{}", silent));
  }
  // Should it only have been stopped, it is to know when it goes on.
  const Status failure = BlameWorker(0, silent);
  coordinator_lost_ = true;
  Send(JobAbort{failure, true});
  Fail(failure);
}

void Member::Send(const MessageToCoordinator& message) {
  if (connection_.get() != nullptr) connection_->Send(Encode(message));
}

void Member::CloseConnection(const Status& reason) {
  if (session_ != nullptr) session_->member = nullptr;
  session_ = nullptr;
  connected_ = false;
  if (connection_.get() != nullptr) connection_->Close(reason);
  connection_.reset();
}

std::string Member::Describe(int64_t worker) const {
  return DescribeWorker(workers_[static_cast<size_t>(worker)], options_.self.host);
}

}  // namespace tutti
