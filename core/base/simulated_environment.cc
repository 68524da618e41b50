#include "core/base/simulated_environment.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/callback_scope.h"
#include "core/base/clock.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/memory_account.h"
#include "core/base/random.h"
#include "core/base/serial_thread.h"
#include "core/base/thread.h"

namespace tutti {
namespace {

// Virtual time begins at zero, and at the start of 2020 on the wall.
constexpr int64_t kWallStartNs = 1'577'836'800 * kSecondNs;

enum class EventKind { kTask, kTimer, kCallback, kReap };

const char* KindName(EventKind kind) {
  switch (kind) {
    case EventKind::kTask: return "task";
    case EventKind::kTimer: return "timer";
    case EventKind::kCallback: return "callback";
    case EventKind::kReap: return "reap";
  }
  return "unknown";
}

struct Event {
  int64_t time_ns;
  uint64_t id;
  EventKind kind;
  Task task;
};

}  // namespace

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  ~Simulation();

  uint64_t Post(EventKind kind, int64_t delay_ns, Task&& task) {
    if (stopped) return 0;
    const int64_t delay = std::max<int64_t>(0, delay_ns);
    events.push_back({delay > kNeverNs - now_ns ? kNeverNs : now_ns + delay, next_id, kind,
                      std::move(task)});
    return next_id++;
  }

  int64_t NextTime() const {
    int64_t next = kNeverNs;
    for (const Event& event : events) next = std::min(next, event.time_ns);
    return next;
  }

  bool Step();
  void Trace(std::string_view line) { trace += Format("{} {}\n", now_ns, line); }

  const uint64_t seed;
  SplitMix64 schedule;
  SplitMix64 entropy;
  int64_t now_ns = 0;
  uint64_t next_id = 1;
  bool stopped = false;
  std::vector<Event> events;
  std::string trace;

  std::unique_ptr<Clock> clock;
  std::unique_ptr<Random> random;
  std::unique_ptr<Disk> disk;
  std::unique_ptr<Reaper> reaper;
  Ref<Executor> executor;
  Ref<CallbackExecutor> callbacks;
};

namespace {

class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Simulation* simulation) : simulation_(simulation) {}
  int64_t NowNs() const override { return simulation_->now_ns; }
  int64_t WallNs() const override { return kWallStartNs + simulation_->now_ns; }
  bool is_virtual() const override { return true; }
  Status Wait(std::unique_lock<std::mutex>& lock, std::condition_variable&,
              int64_t until_ns) override {
    const int64_t next = simulation_->NextTime();
    if (next == kNeverNs && until_ns == kNeverNs) {
      return Internal(
          "simulation (seed {}): waiting for ever at {} ns, no event is left that could end it",
          simulation_->seed, simulation_->now_ns);
    }
    if (next > until_ns) {
      simulation_->now_ns = std::max(simulation_->now_ns, until_ns);
      return OkStatus();
    }
    lock.unlock();
    simulation_->Step();
    lock.lock();
    return OkStatus();
  }

 private:
  Simulation* const simulation_;
};

// The executors may outlive the simulation, held by stored callbacks: it detaches them.
class SimulatedExecutor final : public Executor {
 public:
  explicit SimulatedExecutor(Simulation* simulation) : simulation_(simulation) {}
  bool Post(Task&& task) override {
    return simulation_ != nullptr && simulation_->Post(EventKind::kTask, 0, std::move(task)) != 0;
  }
  uint64_t PostAfter(int64_t delay_ns, Task&& task) override {
    if (simulation_ == nullptr) return 0;
    return simulation_->Post(EventKind::kTimer, delay_ns, std::move(task));
  }
  bool CancelTimer(uint64_t timer) override {
    if (simulation_ == nullptr) return false;
    std::vector<Event>& events = simulation_->events;
    const auto it = std::find_if(events.begin(), events.end(), [&](const Event& event) {
      return event.id == timer && event.kind == EventKind::kTimer;
    });
    if (it == events.end()) return false;
    const Task cancelled = std::move(it->task);
    events.erase(it);
    return true;
  }
  void Detach() { simulation_ = nullptr; }

 private:
  Simulation* simulation_;
};

class SimulatedCallbacks final : public CallbackExecutor {
 public:
  explicit SimulatedCallbacks(Simulation* simulation) : simulation_(simulation) {}
  bool Post(Task&& task) override {
    return simulation_ != nullptr &&
           simulation_->Post(EventKind::kCallback, 0, std::move(task)) != 0;
  }
  void Detach() { simulation_ = nullptr; }

 private:
  Simulation* simulation_;
};

class SimulatedReaper final : public Reaper {
 public:
  explicit SimulatedReaper(Simulation* simulation) : simulation_(simulation) {}
  void Take(Closable* object) noexcept override {
    simulation_->Post(EventKind::kReap, 0, [object] { Reap(object); });
  }
  // An event of its own is to come; nobody can wait for it inside one.
  Status AwaitTakenBefore(const Closable&, const CallOptions&) override { return OkStatus(); }

 private:
  Simulation* const simulation_;
};

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(Simulation* simulation) : simulation_(simulation) {}
  void Fill(void* data, size_t bytes) override {
    auto* out = static_cast<unsigned char*>(data);
    while (bytes > 0) {
      const uint64_t word = simulation_->entropy.Next();
      const size_t count = std::min(bytes, sizeof(word));
      std::memcpy(out, &word, count);
      out += count;
      bytes -= count;
    }
  }

 private:
  Simulation* const simulation_;
};

class TraceSink final : public LogSink {
 public:
  explicit TraceSink(Simulation* simulation) : simulation_(simulation) {}
  void Write(const LogRecord& record) override {
    simulation_->Trace(Format("log {} {}", LogLevelName(record.level), record.message));
  }

 private:
  Simulation* const simulation_;
};

}  // namespace

Simulation::Simulation(uint64_t seed_value)
    : seed(seed_value),
      schedule(seed_value),
      entropy(SplitMix64::Mix(seed_value) + 1),
      clock(std::make_unique<VirtualClock>(this)),
      random(std::make_unique<SeededRandom>(this)),
      disk(MakeMemoryDisk()),
      reaper(std::make_unique<SimulatedReaper>(this)),
      executor(MakeRef<SimulatedExecutor>(this)),
      callbacks(MakeRef<SimulatedCallbacks>(this)) {}

Simulation::~Simulation() {
  static_cast<SimulatedExecutor&>(*executor).Detach();
  static_cast<SimulatedCallbacks&>(*callbacks).Detach();
}

bool Simulation::Step() {
  const int64_t next = NextTime();
  if (next == kNeverNs) return false;
  // Candidates are the tasks and timers that are due, and the oldest callback and object to reap:
  // those two are worked off in order.
  std::vector<size_t> candidates;
  bool has_callback = false;
  bool has_reap = false;
  for (size_t i = 0; i < events.size(); ++i) {  // in the order of posting
    if (events[i].time_ns != next) continue;
    if (events[i].kind == EventKind::kCallback && std::exchange(has_callback, true)) continue;
    if (events[i].kind == EventKind::kReap && std::exchange(has_reap, true)) continue;
    candidates.push_back(i);
  }
  const size_t chosen = candidates[schedule.Next() % candidates.size()];
  Event event = std::move(events[chosen]);
  events.erase(events.begin() + static_cast<ptrdiff_t>(chosen));
  now_ns = std::max(now_ns, event.time_ns);
  Trace(Format("{} {}", KindName(event.kind), event.id));
  if (event.kind == EventKind::kCallback) {
    CallbackScope scope(CallbackClass::kNotification);
    event.task();
    event.task = Task();
  } else {
    event.task();
  }
  return true;
}

SimulatedEnvironment::SimulatedEnvironment(uint64_t seed)
    : simulation_(std::make_unique<Simulation>(seed)),
      log_(*simulation_->clock, LogLevel::kDebug),
      recorder_(*simulation_->clock),
      memory_(MakeRef<MemoryAccount>("simulation")) {
  Services services;
  services.clock = simulation_->clock.get();
  services.executor = simulation_->executor.get();
  services.callback_executor = simulation_->callbacks.get();
  services.random = simulation_->random.get();
  services.disk = simulation_->disk.get();
  services.log = &log_;
  services.recorder = &recorder_;
  services.reaper = simulation_->reaper.get();
  services.memory = memory_.get();
  SetServices(services);
  (void)log_.SetSink(MakeRef<TraceSink>(simulation_.get()));  // nobody logs yet
}

SimulatedEnvironment::~SimulatedEnvironment() {
  // What is left in the queue goes while the services still stand. Callbacks are owed to the host.
  simulation_->stopped = true;
  for (Event& event : std::exchange(simulation_->events, {})) {
    if (event.kind != EventKind::kCallback) continue;
    CallbackScope scope(CallbackClass::kNotification);
    event.task();
  }
}

uint64_t SimulatedEnvironment::seed() const noexcept { return simulation_->seed; }

bool SimulatedEnvironment::Step() { return simulation_->Step(); }

uint64_t SimulatedEnvironment::RunUntilIdle(uint64_t max_events) {
  uint64_t events = 0;
  while (events < max_events && simulation_->Step()) ++events;
  return events;
}

void SimulatedEnvironment::RunFor(int64_t duration_ns) {
  const int64_t end = simulation_->now_ns + duration_ns;
  while (simulation_->NextTime() <= end) simulation_->Step();
  simulation_->now_ns = std::max(simulation_->now_ns, end);
}

const std::string& SimulatedEnvironment::trace() const noexcept { return simulation_->trace; }

void SimulatedEnvironment::Note(std::string_view text) {
  simulation_->Trace(Format("note {}", text));
}

Result<Thread> SimulatedEnvironment::StartThread(std::string_view name, Task) {
  return Unimplemented(
      "{}: a simulated environment has one thread and starts no other; post tasks to its executor",
      name);
}

Status SimulatedEnvironment::OnShutdown(const CallOptions&) {
  // Timers are dropped; tasks, callbacks and the reaper are worked off.
  std::vector<Event> dropped;
  for (Event& event : std::exchange(simulation_->events, {})) {
    (event.kind == EventKind::kTimer ? dropped : simulation_->events).push_back(std::move(event));
  }
  dropped.clear();
  RunUntilIdle();
  simulation_->stopped = true;
  return OkStatus();
}

}  // namespace tutti
