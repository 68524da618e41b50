#include "core/cluster/cluster.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/control_channel.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/wait.h"
#include "core/cluster/coordinator.h"
#include "core/cluster/grpc_control_network.h"
#include "core/cluster/local_address.h"
#include "core/cluster/loop_connection.h"
#include "core/cluster/member.h"
#include "core/cluster/peer_listener.h"
#include "core/cluster/process_facts.h"
#include "core/cluster/process_watch.h"

namespace tutti {
namespace {

// How long a goodbye waits for its answer.
constexpr int64_t kGoodbyeNs = 1 * kSecondNs;
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
  if (options.silence_limit_ns <= 0 || options.heartbeat_interval_ns <= 0) {
    return InvalidArgument("{}: the limit of silence and the interval of heartbeats must be "
                           "positive, got {} ns and {} ns",
                           name, options.silence_limit_ns, options.heartbeat_interval_ns);
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

struct Cluster::State final : public Member::Observer {
  explicit State(ClusterOptions given)
      : options(std::move(given)),
        workers(options.tasks.size(), nullptr),
        arrivals(options.tasks.size(), 0),
        departures(options.tasks.size()) {}

  using Event = ClusterEvent;
  struct NoteBox {
    std::shared_ptr<NoteListener> listener;
    std::deque<Note> waiting;
    bool running = false;
    std::thread::id thread;
  };
  // Topics that nobody listens to (yet), and notes about one of them.
  static constexpr size_t kMaxBoxes = 1024;
  static constexpr size_t kMaxWaiting = 1024;
  struct Subscriber {
    Listener listener;
    size_t next = 0;  // of events
    bool running = false;
    bool removed = false;
    std::thread::id thread;
  };

  // ---- On the strand
  void OnJoined(const Welcome& welcome) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      joined = welcome;
      for (const WorkerInfo& info : welcome.workers) Keep(info);
      const auto num_workers = static_cast<int64_t>(workers.size());
      for (const MemberId& newcomer : welcome.newcomers) {
        if (newcomer.worker >= num_workers) continue;
        arrivals[static_cast<size_t>(newcomer.worker)] = newcomer.arrival;
      }
      changed.notify_all();
    }
    for (const Departure& absent : welcome.absent) OnLeft(absent.worker, absent.reason);
  }
  void OnNotJoined(Status reason) override {
    std::lock_guard<std::mutex> lock(mutex);
    not_joined = std::move(reason);
    changed.notify_all();
  }
  void OnFailed(const Status& reason) override { Happened({-1, 0, reason}); }
  void OnLeft(int64_t worker, const Status& reason) override {
    const auto index = static_cast<size_t>(worker);
    if (index >= workers.size()) return;
    uint64_t arrival = 0;
    {
      std::lock_guard<std::mutex> lock(mutex);
      arrival = arrivals[index];
    }
    Happened({worker, arrival, reason});
  }
  void OnArrived(const WorkerInfo& info, uint64_t arrival) override {
    ProcessWatch* watching = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex);
      const auto index = static_cast<size_t>(info.worker);
      Keep(info);
      arrivals[index] = arrival;
      departures[index] = OkStatus();
      watching = watch.get();
    }
    // Without a watch, its connection and heartbeats remain.
    if (watching != nullptr) watching->Add(info, arrival).rep();
  }
  void OnNote(const Note& note) override {
    std::unique_lock<std::mutex> lock(mutex);
    if (boxes.count(note.topic) == 0 && boxes.size() >= kMaxBoxes) return;
    NoteBox& box = boxes[note.topic];
    if (box.waiting.size() >= kMaxWaiting) return;
    box.waiting.push_back(note);
    Deliver(lock, note.topic);
  }
  void Deliver(std::unique_lock<std::mutex>& lock, const std::string& topic) {
    for (bool first = true;; first = false) {
      const auto it = boxes.find(topic);
      if (it == boxes.end()) break;  // removed meanwhile
      NoteBox& box = it->second;
      if (first && box.running) return;
      box.running = box.listener != nullptr && !box.waiting.empty();
      if (!box.running) break;
      box.thread = std::this_thread::get_id();
      const Note note = std::move(box.waiting.front());
      box.waiting.pop_front();
      const std::shared_ptr<NoteListener> listener = box.listener;
      lock.unlock();
      (*listener)(note.from, note.content);
      lock.lock();
    }
    changed.notify_all();
  }
  // Under the lock.
  void Keep(const WorkerInfo& info) {
    workers[static_cast<size_t>(info.worker)] = &known.emplace_back(info);
  }

  // ---- Events and their listeners
  void Happened(Event event) {
    std::unique_lock<std::mutex> lock(mutex);
    if (event.worker < 0) {
      if (has_failed.load(std::memory_order_relaxed)) return;
      failure = event.status;
      has_failed.store(true, std::memory_order_release);
    } else {
      departures[static_cast<size_t>(event.worker)] = event.status;
    }
    events.push_back(std::move(event));
    changed.notify_all();
    std::vector<std::shared_ptr<Subscriber>> all;
    for (const auto& [id, subscriber] : subscribers) all.push_back(subscriber);
    for (const std::shared_ptr<Subscriber>& one : all) Deliver(lock, *one);
  }
  // Calls the listener, without the lock, for all that it has not heard of. One thread at a time
  // does so for one listener, so that it hears in order.
  void Deliver(std::unique_lock<std::mutex>& lock, Subscriber& subscriber) {
    if (subscriber.running) return;
    subscriber.running = true;
    subscriber.thread = std::this_thread::get_id();
    while (!subscriber.removed && subscriber.next < events.size()) {
      const Event event = events[subscriber.next++];
      lock.unlock();
      subscriber.listener(event);
      lock.lock();
    }
    subscriber.running = false;
    changed.notify_all();
  }

  const ClusterOptions options;
  WorkerInfo self;
  Ref<ControlNetwork> network;
  // The strand's, from Start until the network's Shutdown.
  std::unique_ptr<LoopConnection> loop;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<Member> member;
  bool started = false;

  std::atomic<bool> has_failed{false};
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::unique_ptr<ProcessWatch> watch;  // set once
  std::optional<Welcome> joined;
  Status not_joined;
  bool said_goodbye = false;
  bool closed = false;
  Status failure;
  std::deque<WorkerInfo> known;  // of all that ever had a seat
  std::vector<const WorkerInfo*> workers;
  std::vector<uint64_t> arrivals;
  std::vector<Status> departures;
  std::map<std::string, NoteBox> boxes;
  std::vector<Event> events;
  std::map<uint64_t, std::shared_ptr<Subscriber>> subscribers;
  uint64_t next_subscriber = 1;
};

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
  for (;;) {
    const std::string& coordinator = state.options.addresses[0];
    Result<std::string> host = LocalAddressTowards(coordinator);
    if (host.ok()) {
      state.self.tcp_address = JoinHostPort(*host, 0);
      return OkStatus();
    }
    if (host.status().code() != StatusCode::kUnavailable) return host.status();
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
  state.self.boot_id = facts.boot_id;
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

Status Cluster::AwaitJoin(const CallOptions& call) {
  State& state = *state_;
  Clock& clock = environment().clock();
  const int64_t start_ns = clock.NowNs();
  const auto decided = [&] {
    return state.joined.has_value() || !state.not_joined.ok() || state.closed;
  };
  std::unique_lock<std::mutex> lock(state.mutex);
  Status status = WaitUntil(lock, state.changed, clock, call, decided, "join");
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
    const Status answered = WaitUntil(lock, state.changed, clock,
                                      CallOptions::WithTimeout(clock, kGoodbyeNs), decided, "join");
    if (!answered.ok()) return status;
  }
  if (!state.joined.has_value()) {
    return state.not_joined.ok() ? FailedPrecondition("it was closed while it joined")
                                 : state.not_joined;
  }
  job_id_ = state.joined->job_id;
  elastic_ = state.joined->elastic;
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
      if (!same && state.departures[i].ok()) missed.emplace_back(*state.workers[i], state.arrivals[i]);
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

Result<std::vector<std::string>> Cluster::Exchange(std::string_view key, std::string bytes,
                                                   const CallOptions& call) {
  static_assert(kMaxExchangeBytes == kMaxExchangePartBytes);
  State& state = *state_;
  const std::string what = Format("exchange {}", Quote(key));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  if (key.size() > kMaxExchangeKeyBytes) {
    return InvalidArgument("exchange: the key has {} bytes, at most {} are allowed", key.size(),
                           kMaxExchangeKeyBytes);
  }
  if (bytes.size() > kMaxExchangeBytes) {
    return InvalidArgument("{}: {} bytes, a worker may bring at most {}", what, bytes.size(),
                           kMaxExchangeBytes);
  }
  const auto left = [&] {
    return FailedPrecondition("{}: this worker has left the job", what);
  };
  if (closed()) return left();
  TUTTI_RETURN_IF_ERROR(failure().WithPrefix(what));
  if (num_workers() == 1) return std::vector<std::string>{std::move(bytes)};

  struct Pending {
    std::optional<Result<std::vector<std::string>>> result;
  };
  const auto pending = std::make_shared<Pending>();
  const std::string name(key);
  if (!state.network->Post([&state, pending, name, bytes = std::move(bytes)]() mutable {
        state.member->Exchange(name, std::move(bytes), [&state, pending](auto result) {
          std::lock_guard<std::mutex> lock(state.mutex);
          pending->result = std::move(result);
          state.changed.notify_all();
        });
      })) {
    return left();
  }
  std::unique_lock<std::mutex> lock(state.mutex);
  Status status = WaitUntil(
      lock, state.changed, environment().clock(), call,
      [&] { return pending->result.has_value() || state.closed; }, what);
  if (pending->result.has_value()) return std::move(*pending->result);
  lock.unlock();
  if (status.ok()) return left();
  (void)state.network->Post(
      [&state, name, status] { state.member->WithdrawExchange(name, status); });
  return status;
}

Result<Regrouped> Cluster::Regroup(RegroupRequest request, const CallOptions& call) {
  State& state = *state_;
  const std::string what = Format("regrouping {}", Quote(request.name));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  if (request.name.size() > kMaxExchangeKeyBytes) {
    return InvalidArgument("regrouping: the name has {} bytes, at most {} are allowed",
                           request.name.size(), kMaxExchangeKeyBytes);
  }
  if (request.bytes.size() > kMaxExchangeBytes) {
    return InvalidArgument("{}: {} bytes, a worker may bring at most {}", what,
                           request.bytes.size(), kMaxExchangeBytes);
  }
  if (request.at_least > num_workers()) {
    return InvalidArgument("{}: waits for {} workers, and the cluster has {} seats", what,
                           request.at_least, num_workers());
  }
  const auto left = [&] {
    return FailedPrecondition("{}: this worker has left the job", what);
  };
  if (closed()) return left();
  TUTTI_RETURN_IF_ERROR(failure().WithPrefix(what));
  if (num_workers() == 1) {
    return Regrouped{request.all ? 0 : request.epoch + 1,
                     {member(0)},
                     {info(0)},
                     {std::move(request.bytes)}};
  }

  struct Pending {
    uint64_t id = 0;  // the strand's
    std::optional<Result<Regrouped>> result;
  };
  const auto pending = std::make_shared<Pending>();
  RegroupPart part{0,
                   std::move(request.name),
                   std::move(request.among),
                   request.all,
                   request.at_least,
                   request.epoch,
                   std::move(request.bytes)};
  if (!state.network->Post([&state, pending, part = std::move(part)]() mutable {
        pending->id = state.member->Regroup(std::move(part), [&state, pending](auto result) {
          std::lock_guard<std::mutex> lock(state.mutex);
          if (result.ok()) {
            pending->result = Regrouped{result->epoch, std::move(result->members),
                                        std::move(result->infos), std::move(result->parts)};
          } else {
            pending->result = result.status();
          }
          state.changed.notify_all();
        });
      })) {
    return left();
  }
  std::unique_lock<std::mutex> lock(state.mutex);
  Status status = WaitUntil(
      lock, state.changed, environment().clock(), call,
      [&] { return pending->result.has_value() || state.closed; }, what);
  if (pending->result.has_value()) return std::move(*pending->result);
  lock.unlock();
  if (status.ok()) return left();
  (void)state.network->Post(
      [&state, pending, status] { state.member->WithdrawRegroup(pending->id, status); });
  return status;
}

void Cluster::Tell(std::vector<MemberId> to, std::string topic, std::string content) {
  static_assert(kMaxNoteBytes == tutti::kMaxNoteBytes);
  // A longer one would cost this worker its connection.
  if (environment().LeftBehindByFork() || to.empty() || topic.size() > kMaxExchangeKeyBytes ||
      content.size() > kMaxNoteBytes) {
    return;
  }
  State& state = *state_;
  if (state.network.get() == nullptr) return;  // alone
  (void)state.network->Post([&state, to = std::move(to), topic = std::move(topic),
                             content = std::move(content)]() mutable {
    state.member->Tell(std::move(to), std::move(topic), std::move(content));
  });
}

void Cluster::SetNoteListener(const std::string& topic, NoteListener listener) {
  if (environment().LeftBehindByFork()) return;
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  state.boxes[topic].listener = std::make_shared<NoteListener>(std::move(listener));
  state.Deliver(lock, topic);
}

void Cluster::RemoveNoteListener(const std::string& topic) {
  if (environment().LeftBehindByFork()) return;
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto it = state.boxes.find(topic);
  if (it == state.boxes.end()) return;
  it->second.listener.reset();
  if (it->second.running && it->second.thread != std::this_thread::get_id()) {
    (void)WaitUntil(
        lock, state.changed, environment().clock(), CallOptions::Default(),
        [&] { return !it->second.running; }, "removal of a listener of the cluster");
  }
  state.boxes.erase(topic);
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

Status Cluster::OnClose(const CallOptions& options) {
  State& state = *state_;
  Clock& clock = environment().clock();
  ProcessWatch* watch = nullptr;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    watch = state.watch.get();
  }
  if (watch != nullptr) TUTTI_RETURN_IF_ERROR(watch->Stop(options));
  if (state.member != nullptr) {
    (void)state.network->Post([&state] {
      state.member->Leave([&state] {
        std::lock_guard<std::mutex> lock(state.mutex);
        state.said_goodbye = true;
        state.changed.notify_all();
      });
    });
    CallOptions bounded = options;
    bounded.deadline = Deadline::Earlier(options.deadline, Deadline::After(clock, kGoodbyeNs));
    std::unique_lock<std::mutex> lock(state.mutex);
    // Who does not answer a goodbye finds the connection closed.
    (void)WaitUntil(
        lock, state.changed, clock, bounded, [&] { return state.said_goodbye; }, "goodbye");
  }
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.closed = true;
    state.changed.notify_all();
  }
  if (state.network.get() != nullptr) {
    TUTTI_RETURN_IF_ERROR(state.network->Shutdown(OkStatus(), options));
  }
  if (listener_.get() != nullptr) TUTTI_RETURN_IF_ERROR(listener_->Close(options));
  return OkStatus();
}

}  // namespace tutti
