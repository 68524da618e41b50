#include "core/cluster/membership/coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/cluster/membership/coordinator_session.h"
#include "core/cluster/membership/rendezvous.h"

namespace tutti {

namespace {

class Acceptor final : public ControlAcceptor {
 public:
  explicit Acceptor(Coordinator& coordinator) : coordinator_(coordinator) {}
  std::unique_ptr<ControlHandler> OnAccept(Ref<ControlConnection> connection) override {
    return coordinator_.Accept(std::move(connection));
  }

 private:
  Coordinator& coordinator_;
};

}  // namespace

Coordinator::Coordinator(Environment& environment, Ref<ControlNetwork> network, Options options)
    : environment_(environment),
      network_(std::move(network)),
      options_(std::move(options)),
      timing_(options_.timing.Checked()),
      seats_(options_.tasks.size()),
      exchanges_(static_cast<int64_t>(options_.tasks.size())),
      regroupings_(static_cast<int64_t>(options_.tasks.size())) {}

Coordinator::~Coordinator() = default;

void Coordinator::Start() { ScheduleTick(); }

std::unique_ptr<ControlAcceptor> Coordinator::MakeAcceptor() {
  return std::make_unique<Acceptor>(*this);
}

std::unique_ptr<ControlHandler> Coordinator::Accept(Ref<ControlConnection> connection) {
  if (strangers_.size() >= kMaxStrangers) return nullptr;
  auto session = std::make_unique<Session>(*this, std::move(connection));
  session->silence.Heard(environment_.clock().NowNs());
  strangers_.insert(session.get());
  return session;
}

void Coordinator::OnMessage(Session& session, std::string_view bytes) {
  MessageToCoordinator message;
  if (const Status status = Decode(bytes, &message); !status.ok()) {
    session.End(status.WithPrefix("worker 0 received"));
    return;
  }
  if (session.worker < 0 && !std::holds_alternative<Hello>(message)) {
    session.End(InvalidArgument("worker 0 received another message before the hello"));
    return;
  }
  if (session.worker >= 0) SeatOf(session).silence.Heard(environment_.clock().NowNs());
  std::visit([&](auto& content) { On(session, content); }, message);
}

void Coordinator::OnClosed(Session& session, const Status& reason) {
  strangers_.erase(&session);
  if (session.worker < 0) return;
  const int64_t worker = session.worker;
  Seat& seat = SeatOf(session);
  session.worker = -1;
  if (phase_ == Phase::kGathering) {
    FreeSeat(seat, reason.ok() ? "its connection closed" : std::string(reason.message()));
    return;
  }
  seat.session = nullptr;
  TellOwnWorkerIfOthersKnow();
  if (phase_ != Phase::kRunning || seat.left) return;
  if (seat.suspected) {
    DeclareDead(worker, seat.suspicion);
  } else {
    DeclareDead(worker, reason.ok() ? "its connection closed without a goodbye"
                                    : Format("its connection closed without a goodbye ({})",
                                             reason.message()));
  }
}

// ---- Gathering

void Coordinator::On(Session& session, Hello& hello) {
  if (session.worker >= 0) {
    session.End(InvalidArgument("worker 0 received a second hello on one connection"));
    return;
  }
  strangers_.erase(&session);
  if (phase_ == Phase::kEnded) return Refuse(session, end_);
  if (const Status status = CheckHasSeat(hello, options_.tasks); !status.ok()) {
    return Refuse(session, status);
  }
  const int64_t worker = hello.info.worker;
  Seat& seat = seats_[static_cast<size_t>(worker)];
  if (phase_ == Phase::kRunning && options_.elastic) return TakeIn(session, hello);
  if (phase_ == Phase::kRunning && (seat.left || seat.session == nullptr)) {
    return Refuse(session,
                  FailedPrecondition("{} has left this job, and a job that has begun takes nobody "
                                     "in; start all workers again",
                                     Describe(worker)));
  }
  if (seat.session != nullptr) {
    const bool same = seat.hello.incarnation == hello.incarnation;
    if (same && phase_ == Phase::kRunning) {
      // It has not seen the welcome on a connection whose end we have not seen.
      DeclareDead(worker, "its connection closed while the job began");
      return Refuse(session, end_);
    }
    if (!same) {
      return Refuse(session,
                    AlreadyExists("worker {} is here already: pid {} on {}, and now pid {} on {} "
                                  "says that it is worker {} too; give every process its own task",
                                  worker, seat.hello.info.pid, seat.hello.info.host,
                                  hello.info.pid, hello.info.host, worker));
    }
    // The same process, whose former connection broke without our knowing.
    Session& former = *std::exchange(seat.session, nullptr);
    former.worker = -1;
    former.End(Unavailable("worker {} has come on a newer connection", worker));
  }
  session.worker = worker;
  last_to_come_ = worker;
  seat.session = &session;
  seat.hello = std::move(hello);
  seat.silence.Heard(environment_.clock().NowNs());
  if (seat.hello.major == kMembershipMajor) Send(session, WhoIsMissing());
  CompleteIfAllAreHere();
}

void Coordinator::FreeSeat(Seat& seat, std::string loss) {
  seat.session = nullptr;
  seat.loss = std::move(loss);
  if (!misfit_.ok()) CompleteIfAllAreHere();  // it may have been the one that did not fit
}

Gathering Coordinator::WhoIsMissing() const {
  constexpr size_t kNamed = 8;
  Gathering gathering;
  gathering.misfit = misfit_;
  std::vector<std::string> missing;
  size_t unnamed = 0;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].session != nullptr) continue;
    if (missing.size() == kNamed) {
      ++unnamed;
      continue;
    }
    std::string text =
        DescribeSeat(static_cast<int64_t>(i), options_.tasks, options_.addresses);
    if (!seats_[i].loss.empty()) text += Format(", which came and was lost: {}", seats_[i].loss);
    missing.push_back(std::move(text));
  }
  if (missing.empty()) {
    gathering.waiting_for = Format(
        "all {} workers have come, {} last, and worker 0 was too slow to begin the job: give it "
        "longer (the setting join_timeout), or more of a processor",
        seats_.size(), DescribeSeat(last_to_come_, options_.tasks, options_.addresses));
    return gathering;
  }
  gathering.waiting_for =
      Format("{} of {} workers have not come: {}", missing.size() + unnamed, seats_.size(),
             Join(missing, "; "));
  if (unnamed > 0) gathering.waiting_for += Format("; and {} more", unnamed);
  return gathering;
}

void Coordinator::CompleteIfAllAreHere() {
  std::vector<const Hello*> hellos;
  for (const Seat& seat : seats_) {
    if (seat.session != nullptr) hellos.push_back(&seat.hello);
  }
  Status misfit = CheckWorkersFit(hellos);
  if (!misfit.ok()) {
    if (misfit_.ok()) misfit_since_ns_ = environment_.clock().NowNs();
    misfit_ = std::move(misfit);
    if (hellos.size() == seats_.size()) RefuseAll(misfit_);
    return;
  }
  misfit_ = OkStatus();
  if (hellos.size() < seats_.size()) return;
  // Whoever lost patience while this process was stopped may have gone again: the next tick knows.
  if (!attention_.IsUpToDate(environment_.clock().NowNs(), timing_.heartbeat_interval_ns)) return;
  phase_ = Phase::kRunning;
  job_id_ = environment_.random().Next();
  SendAll(MakeWelcome());
}

Welcome Coordinator::MakeWelcome() const {
  Welcome welcome;
  welcome.job_id = job_id_;
  welcome.minor = kMembershipMinor;
  welcome.capabilities = ~uint64_t{0};
  for (size_t i = 0; i < seats_.size(); ++i) {
    const Seat& seat = seats_[i];
    const auto worker = static_cast<int64_t>(i);
    welcome.minor = std::min(welcome.minor, seat.hello.minor);
    welcome.capabilities &= seat.hello.capabilities;
    welcome.workers.push_back(seat.hello.info);
    if (seat.left) welcome.absent.push_back({worker, seat.departure});
    if (seat.arrival != 0) welcome.newcomers.push_back({worker, seat.arrival});
  }
  welcome.silence_limit_ns = timing_.silence_limit_ns;
  welcome.heartbeat_interval_ns = timing_.heartbeat_interval_ns;
  welcome.elastic = options_.elastic;
  return welcome;
}

// ---- An elastic job takes processes in while it runs

void Coordinator::TakeIn(Session& session, Hello& hello) {
  const int64_t worker = hello.info.worker;
  Seat& seat = seats_[static_cast<size_t>(worker)];
  if (const Status misfit = CheckWorkersFit({&seats_[0].hello, &hello}); !misfit.ok()) {
    return Refuse(session, misfit);
  }
  if (!seat.left && seat.hello.incarnation == hello.incarnation) {
    // It has not seen the welcome on a connection whose end we may not have seen.
    Lose(worker, BlameWorker(worker, Format("{} is gone: its connection closed while it joined",
                                            Describe(worker))));
    if (phase_ != Phase::kRunning) return Refuse(session, end_);
  }
  if (!seat.left) {
    // Not a refusal: should the other one be dead, we shall know soon, and this one tries again.
    session.End(Unavailable("worker {} is here already: pid {} on {}, and now pid {} on {} says "
                            "that it is worker {} too; give every process its own task, or wait "
                            "until the former one is found dead",
                            worker, seat.hello.info.pid, seat.hello.info.host, hello.info.pid,
                            hello.info.host, worker));
    return;
  }
  session.worker = worker;
  seat = Seat();
  seat.session = &session;
  seat.hello = std::move(hello);
  seat.arrival = ++num_arrivals_;
  seat.silence.Heard(environment_.clock().NowNs());
  regroupings_.Arrive({worker, seat.arrival});
  environment_.log().Info(Format("{} has taken the seat of worker {}", Describe(worker), worker));
  Send(session, MakeWelcome());
  const Arrival arrival{seat.hello.info, seat.arrival};
  for (Seat& other : seats_) {
    if (other.session != nullptr && other.session != &session) Send(*other.session, arrival);
  }
}

void Coordinator::RefuseAll(Status reason) {
  phase_ = Phase::kEnded;
  end_ = std::move(reason);
  for (Seat& seat : seats_) {
    if (seat.session == nullptr) continue;
    seat.session->worker = -1;
    Refuse(*std::exchange(seat.session, nullptr), end_);
  }
}

void Coordinator::Refuse(Session& session, const Status& reason) {
  Send(session, Refusal{reason});
  session.End(OkStatus());
}

// ---- Running

void Coordinator::On(Session& session, Heartbeat& heartbeat) {
  if (!heartbeat.knows_of_failure) return;
  SeatOf(session).knows_end = true;
  TellOwnWorkerIfOthersKnow();
}

void Coordinator::On(Session& session, Suspicion& suspicion) {
  if (phase_ != Phase::kRunning || suspicion.worker >= static_cast<int64_t>(seats_.size())) return;
  Seat& seat = seats_[static_cast<size_t>(suspicion.worker)];
  // Nobody can have seen the end of this very process.
  if (seat.left || seat.suspected || seat.session == nullptr || suspicion.worker == 0) return;
  if (seat.arrival != suspicion.arrival) return;  // its predecessor
  (void)session;
  seat.suspected = true;
  seat.suspicion = std::move(suspicion.what);
  (void)network_->PostAfter(kGoodbyeGraceNs, [this, worker = suspicion.worker,
                                              arrival = suspicion.arrival] {
    const Seat& suspect = seats_[static_cast<size_t>(worker)];
    if (phase_ == Phase::kRunning && !suspect.left && suspect.arrival == arrival) {
      DeclareDead(worker, std::string(suspect.suspicion));
    }
    if (speaks_now_) SpeakNow();
    LetOwnWorkerGo();
  });
}

void Coordinator::On(Session& session, JobAbort& abort) {
  if (abort.gives_up_worker_0) {
    SeatOf(session).knows_end = true;  // it hears nothing more
    TellOwnWorkerIfOthersKnow();
  }
  if (phase_ != Phase::kRunning) return;
  if (options_.elastic && abort.gives_up_worker_0 && session.worker != 0) {
    // The sender has ended the job for itself; whether the others do is theirs to say.
    return DeclareDead(session.worker,
                       Format("it has given up worker 0 ({})", abort.reason.message()));
  }
  Fail(std::move(abort.reason));
}

void Coordinator::On(Session& session, Note& note) {
  if (phase_ != Phase::kRunning) return;
  note.from = {session.worker, SeatOf(session).arrival};
  const std::vector<MemberId> to = std::exchange(note.to, {});
  const std::string bytes = Encode(MessageToMember(note));
  for (const MemberId& member : to) {
    if (!regroupings_.IsPresent(member)) continue;
    Session* const other = seats_[static_cast<size_t>(member.worker)].session;
    if (other != nullptr) other->connection->Send(bytes);
  }
}

void Coordinator::On(Session& session, Goodbye& goodbye) {
  // The coordinator goes with worker 0: not before it has said what became of the others.
  if (session.worker == 0 && HasToSpeakFirst()) {
    own_goodbye_ = std::move(goodbye);
    if (speaks_now_) SpeakNow();
    return;
  }
  TakeGoodbye(session, goodbye);
}

bool Coordinator::HasToSpeakFirst() const {
  if (own_worker_waits_) return true;
  return phase_ == Phase::kRunning &&
         std::any_of(seats_.begin(), seats_.end(), [](const Seat& seat) {
           return seat.suspected && !seat.left && seat.session != nullptr;
         });
}

void Coordinator::LetOwnWorkerGo() {
  if (!own_goodbye_ || HasToSpeakFirst()) return;
  Goodbye goodbye = *std::exchange(own_goodbye_, std::nullopt);
  if (seats_[0].session != nullptr) TakeGoodbye(*seats_[0].session, goodbye);
}

void Coordinator::SpeakNow() {
  speaks_now_ = true;
  if (own_goodbye_) TellOwnWorker();
  LetOwnWorkerGo();
}

void Coordinator::TakeGoodbye(Session& session, const Goodbye& goodbye) {
  const int64_t worker = session.worker;
  Seat& seat = SeatOf(session);
  if (phase_ == Phase::kGathering) {
    session.worker = -1;
    std::string loss = goodbye.reason.ok() ? "it left" : std::string(goodbye.reason.message());
    if (worker != 0) {
      session.End(OkStatus());
      return FreeSeat(seat, std::move(loss));
    }
    const Gathering gathering = WhoIsMissing();
    seat.session = nullptr;
    Status reason = goodbye.reason.ok()
                        ? Unavailable("worker 0 left before all workers had come")
                        : Status(goodbye.reason.code(),
                                 Format("worker 0 has given up waiting ({}); {}",
                                        goodbye.reason.message(), gathering.waiting_for));
    if (!gathering.misfit.ok()) reason = gathering.misfit;
    session.End(OkStatus());
    return RefuseAll(std::move(reason));
  }
  if (phase_ == Phase::kRunning) {
    OnWorkerLeft(worker, goodbye.reason);
  }
  session.worker = -1;
  seat.session = nullptr;
  session.End(OkStatus());
  TellOwnWorkerIfOthersKnow();
  LetOwnWorkerGo();
}

void Coordinator::OnWorkerLeft(int64_t worker, const Status& reason) {
  std::string message = Format("{} has left the job", Describe(worker));
  if (!reason.ok()) message += Format(": {}", reason.message());
  const Status departure = BlameWorker(worker, std::move(message));
  NoteDeparture(worker, departure);
  if (worker != 0) return;
  // The coordinator goes with worker 0.
  phase_ = Phase::kEnded;
  end_ = departure;
  for (Seat& seat : seats_) {
    if (seat.session == nullptr || seat.session->worker == worker) continue;
    seat.session->worker = -1;
    std::exchange(seat.session, nullptr)->End(OkStatus());
  }
}

void Coordinator::NoteDeparture(int64_t worker, const Status& departure) {
  Seat& gone = seats_[static_cast<size_t>(worker)];
  gone.left = true;
  gone.departure = departure;
  for (Seat& seat : seats_) {
    if (seat.session == nullptr || seat.session->worker == worker) continue;
    Send(*seat.session, Departure{worker, departure});
  }
  for (const ExchangeTable::Outcome& outcome : exchanges_.Leave(worker, departure)) Tell(outcome);
  for (const RegroupTable::Answer& answer : regroupings_.Leave(worker, departure)) Tell(answer);
}

void Coordinator::DeclareDead(int64_t worker, std::string_view how) {
  Lose(worker, BlameWorker(worker, Format("{} is gone: {}", Describe(worker), how)));
}

void Coordinator::Lose(int64_t worker, Status loss) {
  if (!options_.elastic || worker == 0) return Fail(std::move(loss));
  environment_.log().Info(Format("the job goes on without one worker: {}", loss.ToString()));
  Session* const session = std::exchange(seats_[static_cast<size_t>(worker)].session, nullptr);
  if (session != nullptr) {
    // A worker that was only stopped reads it when it goes on.
    Send(*session, JobFailure{loss});
    session->worker = -1;
    session->End(OkStatus());
  }
  // A goodbye ends what it had to do; a loss does not.
  NoteDeparture(worker, loss.With("lost", 1));
  LetOwnWorkerGo();
}

void Coordinator::Fail(Status reason) {
  phase_ = Phase::kEnded;
  end_ = std::move(reason);
  environment_.log().Info(Format("the job has failed: {}", end_.ToString()));
  // Also whom it names: a worker that was only stopped reads it when it goes on. This process's own
  // worker comes last: it may end of the news, and take what has not yet reached others with it,
  // which would then find worker 0 gone.
  const StatusDetail* lost = end_.FindDetail("worker");
  const int64_t* lost_worker = lost == nullptr ? nullptr : std::get_if<int64_t>(&lost->value);
  for (size_t i = 1; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    if (seat.session == nullptr) continue;
    Send(*seat.session, JobFailure{end_});
    const bool is_lost = lost_worker != nullptr && *lost_worker == static_cast<int64_t>(i);
    // No answer will come.
    if (is_lost || seat.suspected || seat.silence.IsQuiet()) seat.knows_end = true;
  }
  own_worker_waits_ = true;
  TellOwnWorkerIfOthersKnow();
  if (!own_worker_waits_) return;
  (void)network_->PostAfter(std::min(kOthersFirstNs, timing_.silence_limit_ns / 4),
                            [this] { TellOwnWorker(); });
}

void Coordinator::TellOwnWorkerIfOthersKnow() {
  if (!own_worker_waits_) return;
  for (size_t i = 1; i < seats_.size(); ++i) {
    if (seats_[i].session != nullptr && !seats_[i].knows_end) return;
  }
  TellOwnWorker();
}

void Coordinator::TellOwnWorker() {
  if (!std::exchange(own_worker_waits_, false)) return;
  if (seats_[0].session != nullptr) Send(*seats_[0].session, JobFailure{end_});
  LetOwnWorkerGo();
}

// ---- Time

void Coordinator::ScheduleTick() {
  (void)network_->PostAfter(timing_.heartbeat_interval_ns, [this] { Tick(); });
}

void Coordinator::Tick() {
  const int64_t now = environment_.clock().NowNs();
  const bool counts = attention_.OnTick(now, timing_.heartbeat_interval_ns);
  std::vector<Session*> mute;
  for (Session* const stranger : strangers_) {
    if (counts) stranger->silence.OnTick();
    if (stranger->silence.Exceeds(timing_) && !stranger->ending) mute.push_back(stranger);
  }
  for (Session* const stranger : mute) {
    stranger->End(DeadlineExceeded("worker 0 has waited {} for a hello",
                                   HumanDuration(stranger->silence.DurationNs(now))));
  }
  if (phase_ == Phase::kGathering) TickGathering(now, counts);
  if (phase_ == Phase::kRunning) TickRunning(now, counts);
  // Strangers come even when the job has ended: they are refused.
  ScheduleTick();
}

void Coordinator::TickGathering(int64_t now, bool counts) {
  if (!misfit_.ok() && now - misfit_since_ns_ > kMisfitGraceNs) return RefuseAll(misfit_);
  const Gathering gathering = WhoIsMissing();
  for (Seat& seat : seats_) {
    if (seat.session == nullptr) continue;
    if (counts) seat.silence.OnTick();
    if (seat.silence.Exceeds(timing_)) {
      const std::string loss =
          Format("it was silent for {:.1f} s", static_cast<double>(seat.silence.DurationNs(now)) /
                                                   static_cast<double>(kSecondNs));
      seat.session->worker = -1;
      seat.session->End(Unavailable("this worker was lost while the job gathered: {}", loss));
      FreeSeat(seat, loss);
      if (phase_ != Phase::kGathering) return;
      continue;
    }
    // Another major version may know a refusal only.
    if (seat.hello.major == kMembershipMajor) Send(*seat.session, gathering);
  }
  if (counts) CompleteIfAllAreHere();
}

void Coordinator::TickRunning(int64_t now, bool counts) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    if (seat.session == nullptr) continue;
    if (counts) seat.silence.OnTick();
    Send(*seat.session, Heartbeat{});
  }
  for (size_t i = 0; i < seats_.size(); ++i) {
    const Seat& seat = seats_[i];
    if (seat.session == nullptr || !seat.silence.Exceeds(timing_)) continue;
    const auto worker = static_cast<int64_t>(i);
    Lose(worker,
         BlameWorker(worker, DescribeSilence(Describe(worker), seat.silence.DurationNs(now))));
    if (phase_ != Phase::kRunning) return;
  }
}

// ---- Small things

void Coordinator::Send(Session& session, const MessageToMember& message) {
  session.connection->Send(Encode(message));
}

void Coordinator::SendAll(const MessageToMember& message) {
  const std::string bytes = Encode(message);
  for (Seat& seat : seats_) {
    if (seat.session != nullptr) seat.session->connection->Send(bytes);
  }
}

Coordinator::Seat& Coordinator::SeatOf(const Session& session) {
  return seats_[static_cast<size_t>(session.worker)];
}

std::string Coordinator::Describe(int64_t worker) const {
  return DescribeWorker(seats_[static_cast<size_t>(worker)].hello.info, options_.host);
}

}  // namespace tutti
