#include "core/cluster/job/cluster.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/control_channel.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/reaper.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/cluster/control/grpc_control_network.h"
#include "core/cluster/control/loop_connection.h"
#include "core/cluster/job/cluster_state.h"
#include "core/cluster/membership/coordinator.h"
#include "core/cluster/membership/member.h"
#include "core/cluster/sockets/local_address.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/cluster/watch/process_facts.h"
#include "core/cluster/watch/process_watch.h"

namespace tutti {
namespace {

// How long a goodbye waits for its answer.
constexpr int64_t kGoodbyeNs = 1 * kSecondNs;
// How long a close that has no time left still sends what has been said.
constexpr int64_t kSendingNs = 100 * kMillisecondNs;
// What such a process has sent lies in this host's memory.
constexpr int64_t kEndedPatienceNs = 100 * kMillisecondNs;
// How long a host's name may stay unknown between two looks.
constexpr int64_t kResolveRetryNs = 500 * kMillisecondNs;

Status CheckOptions(const ClusterOptions& options) {
  const std::string& name = options.name;
  const auto num_workers = static_cast<int64_t>(options.tasks.size());
  if (num_workers < 1 || num_workers > kMaxWorkers) {
    return InvalidArgument("{}: a job has 1 to {} workers, got {}", name, kMaxWorkers, num_workers);
  }
  if (options.addresses.size() != options.tasks.size()) {
    return InvalidArgument("{}: {} tasks and {} addresses; each task has one", name, num_workers,
                           options.addresses.size());
  }
  if (options.worker < 0 || options.worker >= num_workers) {
    return InvalidArgument("{}: this is worker {} of {}; workers count from 0", name,
                           options.worker, num_workers);
  }
  if (options.num_replicas < 1) {
    return InvalidArgument("{}: a worker has 1 or more replicas, got {}", name,
                           options.num_replicas);
  }
  if (!MembershipTiming{options.silence_limit_ns, options.heartbeat_interval_ns}.IsPossible()) {
    return InvalidArgument("{}: the limit of silence and the interval of heartbeats must be "
                           "positive and no longer than 73 years, got {} and {}",
                           name, HumanDuration(options.silence_limit_ns),
                           HumanDuration(options.heartbeat_interval_ns));
  }
  return OkStatus();
}

// A loopback address among others is a mistake: from the other hosts it leads nowhere.
Status CheckReachable(const ClusterOptions& options) {
  const bool loopback = IsLoopbackAddress(options.addresses[0]);
  for (size_t i = 1; i < options.addresses.size(); ++i) {
    if (IsLoopbackAddress(options.addresses[i]) == loopback) continue;
    const size_t at_fault = loopback ? 0 : i;
    const size_t other = loopback ? i : 0;
    return InvalidArgument(
        "{}: worker {} ({}) has the loopback address {}, which only processes of its own machine "
        "reach, but worker {} ({}) is at {}; give {} an address that the others can reach, or all "
        "of them loopback addresses when they share one machine",
        options.name, at_fault, options.tasks[at_fault], options.addresses[at_fault], other,
        options.tasks[other], options.addresses[other], options.tasks[at_fault]);
  }
  return OkStatus();
}

}  // namespace

Cluster::Cluster(Ref<Environment> environment, ClusterOptions options)
    : Closable(std::move(environment), options.name),
      worker_(options.worker),
      secret_(options.secret),
      state_(std::make_unique<State>(std::move(options))) {}

Cluster::~Cluster() = default;

// ---- Joining

Result<Ref<Cluster>> Cluster::Join(Ref<Environment> environment, ClusterOptions options,
                                   const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable(options.name));
  TUTTI_RETURN_IF_ERROR(CheckOptions(options));
  const bool alone = options.tasks.size() == 1;
  const bool has_network = options.network.get() != nullptr;
  if (!alone && !has_network) TUTTI_RETURN_IF_ERROR(CheckReachable(options));
  Ref<Cluster> cluster = MakeRef<Cluster>(environment, std::move(options));
  TUTTI_RETURN_IF_ERROR(cluster->Register());
  const auto join = [&]() -> Status {
    if (!alone && !has_network) TUTTI_RETURN_IF_ERROR(cluster->FindOwnAddress(call));
    TUTTI_RETURN_IF_ERROR(cluster->StartUnlessClosed([&] { return cluster->Start(); }));
    if (alone) return OkStatus();
    TUTTI_RETURN_IF_ERROR(cluster->AwaitJoin(call));
    if (has_network) return OkStatus();
    return cluster->StartUnlessClosed([&] { return cluster->WatchProcesses(); });
  };
  Status status = join();
  if (status.ok()) return cluster;
  // What cannot be closed in time is the reaper's.
  (void)cluster->Close(CallOptions::WithTimeout(environment->clock(), 3 * kGoodbyeNs));
  return std::move(status).WithPrefix(cluster->state_->options.name);
}

// The address at which peers reach this process is the one that packets to the coordinator leave
// from. A host's name may become known only when the host has started.
Status Cluster::FindOwnAddress(const CallOptions& call) {
  State& state = *state_;
  Clock& clock = environment().clock();
  int64_t warning_ns = state.options.join_warning_ns;
  Deadline warning =
      warning_ns == kNeverNs ? Deadline::Infinite() : Deadline::After(clock, warning_ns);
  for (;;) {
    const std::string& coordinator = state.options.addresses[0];
    Result<std::string> host = LocalAddressTowards(coordinator);
    if (host.ok()) {
      state.self.tcp_address = JoinHostPort(*host, 0);
      return OkStatus();
    }
    if (host.status().code() != StatusCode::kUnavailable) return host.status();
    if (warning.Expired(clock)) {
      environment().log().Warning(
          Format("{}: worker {} looks for worker 0 ({}) and goes on looking: {}",
                 state.options.name, worker_, state.options.tasks[0], host.status().message()));
      warning_ns = warning_ns < kNeverNs / 4 ? 2 * warning_ns : kNeverNs;
      warning = Deadline::After(clock, warning_ns);
    }
    CallOptions pause = call;
    pause.deadline =
        Deadline::Earlier(call.deadline, Deadline::After(clock, kResolveRetryNs));
    std::unique_lock<std::mutex> lock(state.mutex);
    const Status waited = WaitUntil(
        lock, state.changed, clock, pause, [&] { return state.closed; }, "join");
    if (waited.ok()) return FailedPrecondition("it was closed while it joined");
    if (waited.code() != StatusCode::kDeadlineExceeded || call.deadline.Expired(clock)) {
      return Status(waited.code() == StatusCode::kDeadlineExceeded ? StatusCode::kUnavailable
                                                                   : waited.code(),
                    Format("worker {} has not found worker 0 ({}): {}", worker_,
                           state.options.tasks[0], host.status().message()))
          .WithCause(host.status());
    }
  }
}

Status Cluster::Start() {
  State& state = *state_;
  const ClusterOptions& options = state.options;
  const ProcessFacts facts = ReadProcessFacts();
  state.self.worker = worker_;
  state.self.task = options.tasks[static_cast<size_t>(worker_)];
  state.self.num_replicas = options.num_replicas;
  state.self.usable_cores = options.usable_cores;
  state.self.pid = facts.pid;
  state.self.pid_start_time = facts.start_time;
  state.self.host = facts.host;
  state.self.boot_id = options.machine.empty() ? facts.boot_id : options.machine;
  state.self.pid_namespace = facts.pid_namespace;
  state.self.build = TUTTI_BUILD;
  if (options.tasks.size() == 1) {
    job_id_ = environment().random().Next();
    elastic_ = options.elastic;
    std::lock_guard<std::mutex> lock(state.mutex);
    state.Keep(state.self);
    return OkStatus();
  }
  if (options.network.get() != nullptr) {
    state.network = options.network;
  } else {
    TUTTI_ASSIGN_OR_RETURN(
        listener_, PeerListener::Create(Ref<Environment>::Retain(&environment()),
                                        {options.secret, worker_, state.self.tcp_address}));
    state.self.tcp_address = listener_->tcp_address();
    state.self.local_address = listener_->local_address();
    TUTTI_ASSIGN_OR_RETURN(
        state.network,
        GrpcControlNetwork::Create(Ref<Environment>::Retain(&environment()),
                                   {options.secret, Format("worker {}", worker_)}));
  }
  state.started = true;
  const MembershipTiming timing{options.silence_limit_ns, options.heartbeat_interval_ns};
  const std::string& coordinator_address = options.addresses[0];
  Member::Connect connect = [&state, coordinator_address](std::unique_ptr<ControlHandler> handler) {
    return state.network->Connect(coordinator_address, Member::kConnectTimeoutNs,
                                  std::move(handler));
  };
  if (worker_ == 0) {
    state.coordinator = std::make_unique<Coordinator>(
        environment(), state.network,
        Coordinator::Options{options.tasks, options.addresses, state.self.host, timing,
                             options.elastic});
    TUTTI_RETURN_IF_ERROR(
        state.network->Listen(coordinator_address, state.coordinator->MakeAcceptor()).status());
    state.loop = std::make_unique<LoopConnection>(state.network);
    connect = [&state](std::unique_ptr<ControlHandler> handler) {
      return state.loop->Connect(std::move(handler), [&state](Ref<ControlConnection> connection) {
        return state.coordinator->Accept(std::move(connection));
      });
    };
  }
  Member::Options self;
  self.tasks = options.tasks;
  self.addresses = options.addresses;
  self.self = state.self;
  self.timing = timing;
  state.member = std::make_unique<Member>(environment(), state.network, std::move(self),
                                          std::move(connect), &state);
  (void)state.network->Post([&state] {
    if (state.coordinator != nullptr) state.coordinator->Start();
    state.member->Start();
  });
  return OkStatus();
}

Status Cluster::WaitWarning(std::unique_lock<std::mutex>& lock, const CallOptions& call,
                            const std::function<bool()>& done,
                            const std::function<void()>& warn) {
  Clock& clock = environment().clock();
  int64_t warning_ns = state_->options.join_warning_ns;
  while (warning_ns != kNeverNs) {
    CallOptions until_warning = call;
    const Deadline warning = Deadline::After(clock, warning_ns);
    until_warning.deadline = Deadline::Earlier(call.deadline, warning);
    Status status = WaitUntil(lock, state_->changed, clock, until_warning, done, "join");
    if (status.code() != StatusCode::kDeadlineExceeded || !warning.Expired(clock) ||
        call.deadline.Expired(clock)) {
      return status;
    }
    lock.unlock();
    warn();
    lock.lock();
    warning_ns = warning_ns < kNeverNs / 4 ? 2 * warning_ns : kNeverNs;
  }
  return WaitUntil(lock, state_->changed, clock, call, done, "join");
}

Status Cluster::AwaitJoin(const CallOptions& call) {
  State& state = *state_;
  Clock& clock = environment().clock();
  const int64_t start_ns = clock.NowNs();
  const auto decided = [&] {
    return state.joined.has_value() || !state.not_joined.ok() || state.closed;
  };
  const auto warn = [&] {
    const int64_t waited_ns = clock.NowNs() - start_ns;
    // The member knows who is missing.
    (void)state.network->Post([this, &state, waited_ns] {
      const std::string missing = state.member->DescribeJoining();
      if (missing.empty()) return;
      environment().log().Warning(
          Format("{}: worker {} has waited for {} to join and goes on waiting: {}",
                 state.options.name, worker_, HumanDuration(waited_ns), missing));
    });
  };
  std::unique_lock<std::mutex> lock(state.mutex);
  Status status = WaitWarning(lock, call, decided, warn);
  if (!status.ok()) {
    // The member knows what was missing.
    lock.unlock();
    Status why = status;
    if (status.code() == StatusCode::kDeadlineExceeded) {
      const int64_t waited_ns = clock.NowNs() - start_ns;
      why = DeadlineExceeded("not done after {:.1f} s",
                             static_cast<double>(waited_ns) / static_cast<double>(kSecondNs));
    }
    (void)state.network->Post([&state, why] { state.member->GiveUpJoining(why); });
    lock.lock();
    const Status answered =
        WaitUntil(lock, state.changed, clock, CallOptions::WithTimeout(clock, Member::kAnswerNs),
                  decided, "join");
    if (!answered.ok()) return status;
  }
  if (!state.joined.has_value()) {
    return state.not_joined.ok() ? FailedPrecondition("it was closed while it joined")
                                 : state.not_joined;
  }
  job_id_ = state.joined->job_id;
  elastic_ = state.joined->elastic;
  const int64_t limit_ns = state.joined->silence_limit_ns;
  patience_ns_ = limit_ns == kNeverNs ? Member::kVerdictNs : limit_ns;
  return OkStatus();
}

Status Cluster::WatchProcesses() {
  State& state = *state_;
  std::vector<WorkerInfo> infos;
  std::vector<uint64_t> arrivals;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    for (size_t i = 0; i < state.workers.size(); ++i) {
      if (!state.departures[i].ok()) continue;
      infos.push_back(*state.workers[i]);
      arrivals.push_back(state.arrivals[i]);
    }
  }
  TUTTI_ASSIGN_OR_RETURN(
      std::unique_ptr<ProcessWatch> watch,
      ProcessWatch::Start(environment(), infos, state.self,
                          [&state](const MemberId& member, const std::string& what) {
                            (void)state.network->Post([&state, member, what] {
                              state.member->Suspect(member, what);
                            });
                          },
                          arrivals));
  // Who has come meanwhile; from now on OnArrived adds.
  std::vector<std::pair<WorkerInfo, uint64_t>> missed;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.watch = std::move(watch);
    for (size_t i = 0, known = 0; i < state.workers.size(); ++i) {
      const bool was_there = known < infos.size() && infos[known].worker == static_cast<int64_t>(i);
      const bool same = was_there && arrivals[known] == state.arrivals[i];
      if (was_there) ++known;
      if (!same && state.departures[i].ok())
        missed.emplace_back(*state.workers[i], state.arrivals[i]);
    }
  }
  for (const auto& [info, arrival] : missed) {
    TUTTI_RETURN_IF_ERROR(state.watch->Add(info, arrival));
  }
  return OkStatus();
}

// ---- What a member may do

int64_t Cluster::num_workers() const {
  return static_cast<int64_t>(state_->options.tasks.size());
}

const WorkerInfo& Cluster::info(int64_t worker) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return *state_->workers[static_cast<size_t>(worker)];
}

MemberId Cluster::member(int64_t worker) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return {worker, state_->arrivals[static_cast<size_t>(worker)]};
}

std::vector<MemberId> Cluster::present() const {
  std::vector<MemberId> present;
  std::lock_guard<std::mutex> lock(state_->mutex);
  for (size_t i = 0; i < state_->workers.size(); ++i) {
    if (!state_->departures[i].ok()) continue;
    present.push_back({static_cast<int64_t>(i), state_->arrivals[i]});
  }
  return present;
}

std::string Cluster::Describe(int64_t worker) const {
  return DescribeWorker(info(worker), info(worker_).host);
}

Status Cluster::failure() const {
  if (environment().LeftBehindByFork()) return environment().CheckUsable(closable_name());
  if (!state_->has_failed.load(std::memory_order_acquire)) return OkStatus();
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->failure;
}

Status Cluster::departure(int64_t worker) const {
  if (environment().LeftBehindByFork()) return environment().CheckUsable(closable_name());
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->departures[static_cast<size_t>(worker)];
}

void Cluster::Abort(Status reason) {
  if (environment().LeftBehindByFork()) return;
  State& state = *state_;
  if (reason.ok()) reason = Aborted("{}: the job was aborted", state.options.name);
  if (state.network.get() == nullptr) return state.Happened({-1, 0, std::move(reason)});
  (void)state.network->Post(
      [&state, reason = std::move(reason)] { state.member->Abort(reason); });
}

void Cluster::Fail(Status reason) {
  if (elastic() || environment().LeftBehindByFork()) return;
  Abort(std::move(reason));
  State& state = *state_;
  const auto all_know = [&] {
    if (state.closed) return true;
    if (!state.has_failed.load(std::memory_order_relaxed)) return false;
    return std::all_of(state.subscribers.begin(), state.subscribers.end(), [&](const auto& one) {
      return !one.second->running && one.second->next == state.events.size();
    });
  };
  Clock& clock = environment().clock();
  std::unique_lock<std::mutex> lock(state.mutex);
  // In vain where the others are gone: then there is nobody to tell.
  const CallOptions limit = CallOptions::WithTimeout(clock, Member::kAnswerNs);
  WaitUntil(lock, state.changed, clock, limit, all_know, "the end of the job").rep();
}

uint64_t Cluster::AddListener(Listener listener) {
  if (environment().LeftBehindByFork()) return 0;
  State& state = *state_;
  const auto subscriber = std::make_shared<State::Subscriber>();
  subscriber->listener = std::move(listener);
  std::unique_lock<std::mutex> lock(state.mutex);
  const uint64_t id = state.next_subscriber++;
  state.subscribers.emplace(id, subscriber);
  state.Deliver(lock, *subscriber);
  return id;
}

void Cluster::RemoveListener(uint64_t id) {
  if (environment().LeftBehindByFork()) return;
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto it = state.subscribers.find(id);
  if (it == state.subscribers.end()) return;
  const std::shared_ptr<State::Subscriber> subscriber = it->second;
  state.subscribers.erase(it);
  subscriber->removed = true;
  if (subscriber->thread == std::this_thread::get_id()) return;  // it removes itself
  (void)WaitUntil(
      lock, state.changed, environment().clock(), CallOptions::Default(),
      [&] { return !subscriber->running; }, "removal of a listener of the cluster");
}

// ---- Leaving

int64_t Cluster::PatienceAfterNs(const Status& departure) const {
  if (departure.FindDetail(Member::kEndedDetail) == nullptr) return patience_ns_;
  return std::min(patience_ns_, kEndedPatienceNs);
}

void Cluster::SayGoodbye(const CallOptions& options) {
  State& state = *state_;
  Clock& clock = environment().clock();
  if (!state.network->Post([&state] {
        state.member->Leave([&state] {
          std::lock_guard<std::mutex> lock(state.mutex);
          state.said_goodbye = true;
          state.changed.notify_all();
        });
      })) {
    return;  // in a Close before this one
  }
  const auto await = [&](const CallOptions& call) {
    std::unique_lock<std::mutex> lock(state.mutex);
    return WaitUntil(
        lock, state.changed, clock, call, [&] { return state.said_goodbye; }, "goodbye");
  };
  // What the others are not told now they never learn. It takes a few turns of the strand, which
  // the caller's patience does not count.
  const auto speak_now = [&] {
    if (state.coordinator == nullptr) return;
    if (!state.network->Post([&state] { state.coordinator->SpeakNow(); })) return;
    await(CallOptions::WithTimeout(clock, kGoodbyeNs)).rep();
  };
  CallOptions bounded = options;
  bounded.deadline = Deadline::Earlier(options.deadline, Deadline::After(clock, kGoodbyeNs));
  try {
    // Who does not answer a goodbye finds the connection closed.
    if (await(bounded).ok()) return;
  } catch (...) {
    speak_now();
    throw;
  }
  speak_now();
}

Status Cluster::OnClose(const CallOptions& options) {
  State& state = *state_;
  Clock& clock = environment().clock();
  ProcessWatch* watch = nullptr;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    watch = state.watch.get();
  }
  // Communicators that were released say goodbye to their peers before the worker does: of one
  // that has not, the peers would take the rank for lost. What takes long is not waited for.
  CallOptions released = options;
  released.deadline = Deadline::Earlier(options.deadline, Deadline::After(clock, kGoodbyeNs));
  environment().reaper().AwaitTakenBefore(*this, released).rep();
  // Right before the goodbye, and whatever the caller's patience: what has ended by now is told.
  const CallOptions moment = CallOptions::WithTimeout(clock, kGoodbyeNs);
  const bool watches = watch != nullptr && !watch->Stop(moment).ok();
  if (state.member != nullptr) SayGoodbye(options);
  if (watches) TUTTI_RETURN_IF_ERROR(watch->Stop(options));
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.closed = true;
    state.changed.notify_all();
  }
  if (state.network.get() != nullptr) {
    // What has been said is sent, whatever the caller's patience.
    const CallOptions sending = CallOptions::WithTimeout(clock, kSendingNs);
    if (!state.network->Shutdown(OkStatus(), sending).ok()) {
      TUTTI_RETURN_IF_ERROR(state.network->Shutdown(OkStatus(), options));
    }
  }
  if (listener_.get() != nullptr) TUTTI_RETURN_IF_ERROR(listener_->Close(options));
  return OkStatus();
}

}  // namespace tutti
