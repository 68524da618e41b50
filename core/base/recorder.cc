#include "core/base/recorder.h"

#include <limits.h>
#include <unistd.h>

#include <bit>
#include <fstream>
#include <utility>

#include "core/base/text.h"

namespace tutti {
namespace {

uint32_t CurrentThreadNumber() noexcept {
  thread_local const auto number = static_cast<uint32_t>(gettid());
  return number;
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

Recorder::Recorder(const Clock& clock, uint64_t capacity)
    : clock_(clock),
      ticks_(clock),
      mask_(std::bit_ceil(capacity < 2 ? uint64_t{2} : capacity) - 1),
      slots_(new Slot[mask_ + 1]) {}

Recorder::~Recorder() = default;

void Recorder::Record(const FlightEventType& type, FlightPhase phase,
                      std::initializer_list<int64_t> arguments) noexcept {
  const uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots_[index & mask_];
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  // A writer that slept for a whole round still owns the slot, or has been overtaken: the event
  // that would mix with another one is dropped.
  if ((state & 1) != 0 || state > 2 * index) return;
  if (!slot.state.compare_exchange_strong(state, 2 * index + 1, std::memory_order_acquire)) return;
  slot.ticks.store(ticks_.Now(), std::memory_order_release);
  slot.thread.store(CurrentThreadNumber(), std::memory_order_release);
  slot.phase.store(phase, std::memory_order_release);
  slot.type.store(&type, std::memory_order_release);
  size_t i = 0;
  for (const int64_t argument : arguments) {
    if (i == kFlightArguments) break;
    slot.arguments[i++].store(argument, std::memory_order_release);
  }
  for (; i < kFlightArguments; ++i) slot.arguments[i].store(0, std::memory_order_release);
  slot.state.store(2 * index + 2, std::memory_order_release);
}

std::vector<FlightEvent> Recorder::Snapshot() const {
  std::vector<FlightEvent> events;
  const uint64_t end = next_.load(std::memory_order_acquire);
  const uint64_t begin = end > capacity() ? end - capacity() : 0;
  events.reserve(end - begin);
  const TickClock::Scale scale = ticks_.ReadScale();
  for (uint64_t index = begin; index < end; ++index) {
    const Slot& slot = slots_[index & mask_];
    if (slot.state.load(std::memory_order_acquire) != 2 * index + 2) continue;
    FlightEvent event;
    event.index = index;
    event.time_ns = scale.ToNs(slot.ticks.load(std::memory_order_acquire));
    event.thread = slot.thread.load(std::memory_order_acquire);
    event.phase = slot.phase.load(std::memory_order_acquire);
    event.type = slot.type.load(std::memory_order_acquire);
    for (size_t i = 0; i < kFlightArguments; ++i) {
      event.arguments[i] = slot.arguments[i].load(std::memory_order_acquire);
    }
    if (slot.state.load(std::memory_order_relaxed) == 2 * index + 2) events.push_back(event);
  }
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
