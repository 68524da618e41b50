#include "core/base/recorder.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <new>
#include <utility>

#include "core/base/text.h"

namespace tutti {
namespace {

// Lanes that threads have for themselves; one more is for all others.
constexpr uint32_t kOwnLanes = 32;
constexpr uint32_t kSharedLane = kOwnLanes;
constexpr uint32_t kNoLane = kOwnLanes + 1;

std::atomic<uint32_t> lanes_in_use{0};  // a bit for each lane that a thread has

// Of the thread that records. Without a constructor: looking at it is looking at memory.
struct RecordingThread {
  uint32_t lane = kNoLane;
  uint32_t number = 0;
};
constinit thread_local RecordingThread recording_thread;

// Gives the lane back when the thread ends. Who has it next sees all that was recorded before.
struct LaneReturn {
  ~LaneReturn() {
    const uint32_t lane = recording_thread.lane;
    recording_thread.lane = kSharedLane;  // what is recorded from now on
    if (lane < kOwnLanes) lanes_in_use.fetch_and(~(1u << lane), std::memory_order_release);
  }
};

void TakeLane() noexcept {
  thread_local LaneReturn lane_return;
  static_cast<void>(lane_return);
  recording_thread.number = static_cast<uint32_t>(gettid());
  uint32_t in_use = lanes_in_use.load(std::memory_order_relaxed);
  uint32_t lane = kSharedLane;
  do {
    lane = std::min(static_cast<uint32_t>(std::countr_one(in_use)), kSharedLane);
  } while (lane < kOwnLanes &&
           !lanes_in_use.compare_exchange_weak(in_use, in_use | 1u << lane,
                                               std::memory_order_acquire));
  recording_thread.lane = lane;
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// Of the running kernel; nothing where it does not say.
std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

const char* PhaseName(FlightPhase phase) {
  switch (phase) {
    case FlightPhase::kInstant: return "instant";
    case FlightPhase::kBegin: return "begin";
    case FlightPhase::kEnd: return "end";
  }
  return "unknown";
}

template <size_t... kIndices>
void StoreAll(const FlightArguments& arguments,
              std::array<std::atomic<int64_t>, kFlightArguments>* places,
              std::index_sequence<kIndices...>) noexcept {
  ((*places)[kIndices].store(arguments[kIndices], std::memory_order_release), ...);
}

}  // namespace

// A slot is a sequence lock made of atomics. `state` is 2 * index + 1 while event `index` is being
// written and 2 * index + 2 afterwards; 0 is an empty slot. Stores of the contents release and
// loads acquire, so that a reader that sees any word of a later event also sees its state.
struct Recorder::Slot {
  std::atomic<uint64_t> state{0};
  std::atomic<uint64_t> ticks{0};
  std::atomic<uint32_t> thread{0};
  std::atomic<FlightPhase> phase{FlightPhase::kInstant};
  std::atomic<const FlightEventType*> type{nullptr};
  std::array<std::atomic<int64_t>, kFlightArguments> arguments{};
};

// Of lanes that lie side by side different threads write.
struct alignas(128) Recorder::Lane {
  ~Lane() { delete[] slots.load(std::memory_order_relaxed); }

  std::atomic<uint64_t> next{0};
  std::atomic<Slot*> slots{nullptr};
};

Recorder::Recorder(const Clock& clock, uint64_t capacity)
    : clock_(clock),
      ticks_(clock),
      mask_(std::bit_ceil(capacity < 2 ? uint64_t{2} : capacity) - 1),
      lanes_(new Lane[kOwnLanes + 1]) {}

Recorder::~Recorder() = default;

Recorder::Slot* Recorder::MakeSlots(Lane& lane) const noexcept {
  std::unique_ptr<Slot[]> made(new (std::nothrow) Slot[mask_ + 1]);
  Slot* slots = nullptr;
  // In the shared lane another thread may have been first.
  if (lane.slots.compare_exchange_strong(slots, made.get(), std::memory_order_acq_rel)) {
    slots = made.release();
  }
  return slots;
}

bool Recorder::ClaimShared(Lane& lane, Slot* slots, uint64_t* index) const noexcept {
  *index = lane.next.fetch_add(1, std::memory_order_relaxed);
  std::atomic<uint64_t>& state = slots[*index & mask_].state;
  uint64_t found = state.load(std::memory_order_relaxed);
  // A writer that slept for a whole round still owns the slot, or has been overtaken: the event
  // that would mix with another one is dropped.
  if ((found & 1) != 0 || found > 2 * *index) return false;
  return state.compare_exchange_strong(found, 2 * *index + 1, std::memory_order_acquire);
}

void Recorder::Record(const FlightEventType& type, FlightPhase phase,
                      std::initializer_list<int64_t> arguments) noexcept {
  FlightArguments all = {};
  std::copy_n(arguments.begin(), std::min(arguments.size(), all.size()), all.begin());
  Record(type, phase, all);
}

void Recorder::Record(const FlightEventType& type, FlightPhase phase,
                      const FlightArguments& arguments) noexcept {
  RecordingThread& self = recording_thread;
  if (self.lane == kNoLane) TakeLane();
  Lane& lane = lanes_[self.lane];
  Slot* slots = lane.slots.load(std::memory_order_acquire);
  if (slots == nullptr && (slots = MakeSlots(lane)) == nullptr) return;
  uint64_t index = 0;
  if (self.lane == kSharedLane) {
    if (!ClaimShared(lane, slots, &index)) return;
  } else {
    index = lane.next.load(std::memory_order_relaxed);
    lane.next.store(index + 1, std::memory_order_release);
    slots[index & mask_].state.store(2 * index + 1, std::memory_order_relaxed);
  }
  Slot& slot = slots[index & mask_];
  slot.ticks.store(ticks_.Now(), std::memory_order_release);
  slot.thread.store(self.number, std::memory_order_release);
  slot.phase.store(phase, std::memory_order_release);
  slot.type.store(&type, std::memory_order_release);
  StoreAll(arguments, &slot.arguments, std::make_index_sequence<kFlightArguments>());
  slot.state.store(2 * index + 2, std::memory_order_release);
}

void Recorder::AppendEvents(const Lane& lane, const TickClock::Scale& scale,
                            std::vector<FlightEvent>* events) const {
  const Slot* const slots = lane.slots.load(std::memory_order_acquire);
  if (slots == nullptr) return;
  const uint64_t end = lane.next.load(std::memory_order_acquire);
  for (uint64_t index = end > capacity() ? end - capacity() : 0; index < end; ++index) {
    const Slot& slot = slots[index & mask_];
    if (slot.state.load(std::memory_order_acquire) != 2 * index + 2) continue;
    FlightEvent event;
    event.index = 0;
    event.time_ns = scale.ToNs(slot.ticks.load(std::memory_order_acquire));
    event.thread = slot.thread.load(std::memory_order_acquire);
    event.phase = slot.phase.load(std::memory_order_acquire);
    event.type = slot.type.load(std::memory_order_acquire);
    for (size_t i = 0; i < kFlightArguments; ++i) {
      event.arguments[i] = slot.arguments[i].load(std::memory_order_acquire);
    }
    if (slot.state.load(std::memory_order_relaxed) == 2 * index + 2) events->push_back(event);
  }
}

std::vector<FlightEvent> Recorder::Snapshot() const {
  std::vector<FlightEvent> events;
  const TickClock::Scale scale = ticks_.ReadScale();
  uint64_t count = 0;
  for (uint32_t lane = 0; lane <= kSharedLane; ++lane) {
    AppendEvents(lanes_[lane], scale, &events);
    count += lanes_[lane].next.load(std::memory_order_relaxed);
  }
  // Those of a lane stay in their order where their times are equal.
  std::stable_sort(events.begin(), events.end(), [](const FlightEvent& a, const FlightEvent& b) {
    return a.time_ns < b.time_ns;
  });
  if (events.size() > capacity()) {
    events.erase(events.begin(), events.end() - static_cast<ptrdiff_t>(capacity()));
  }
  uint64_t index = count - events.size();
  for (FlightEvent& event : events) event.index = index++;
  return events;
}

int64_t Recorder::AddSubject(FlightSubject subject) {
  std::lock_guard<std::mutex> lock(mutex_);
  subjects_.push_back(std::move(subject));
  if (subjects_.size() > kMaxSubjects) {
    subjects_.pop_front();
    ++first_subject_;
  }
  return first_subject_ + static_cast<int64_t>(subjects_.size()) - 1;
}

void Recorder::SetProcess(uint64_t job, int64_t worker) {
  std::lock_guard<std::mutex> lock(mutex_);
  in_job_ = true;
  job_ = job;
  worker_ = worker;
}

std::string Recorder::FileName() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!in_job_) return Format("process-{}/flight-0.json", getpid());
  return Format("job-{:016x}/flight-{}.json", job_, worker_);
}

std::string Recorder::last_path() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_path_;
}

void Recorder::set_last_path(std::string path) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_path_ = std::move(path);
}

std::string Recorder::ToJson() const {
  std::string json = "{\"tutti_flight_record\":2,";
  const char* separator = "";
  {
    std::lock_guard<std::mutex> lock(mutex_);
    json += Format(
        "\"job\":\"{}\",\"worker\":{},\"host\":{},\"boot\":{},\"pid\":{},\"wall_ns\":{},"
        "\"monotonic_ns\":{},\"subjects\":[",
        in_job_ ? Format("{:016x}", job_) : "", worker_, JsonQuote(HostName()),
        JsonQuote(BootId()), getpid(), clock_.WallNs(), clock_.NowNs());
    int64_t number = first_subject_;
    for (const FlightSubject& subject : subjects_) {
      json += Format("{}\n{{\"number\":{},\"kind\":{},\"name\":{}", separator, number++,
                     JsonQuote(subject.kind), JsonQuote(subject.name));
      for (const auto& [key, value] : subject.facts) json += Format(",\"{}\":{}", key, value);
      json += "}";
      separator = ",";
    }
  }
  json += "],\n\"events\":[";
  separator = "";
  for (const FlightEvent& event : Snapshot()) {
    json += separator;
    json += Format("\n{{\"index\":{},\"time_ns\":{},\"thread\":{},\"name\":{},\"phase\":\"{}\"",
                   event.index, event.time_ns, event.thread, JsonQuote(event.type->name),
                   PhaseName(event.phase));
    json += ",\"arguments\":{";
    const char* argument_separator = "";
    for (size_t i = 0; i < kFlightArguments && event.type->argument_names[i] != nullptr; ++i) {
      json += Format("{}{}:{}", argument_separator, JsonQuote(event.type->argument_names[i]),
                     event.arguments[i]);
      argument_separator = ",";
    }
    json += "}}";
    separator = ",";
  }
  return json + "]}\n";
}

}  // namespace tutti
