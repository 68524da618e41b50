#include "core/base/recorder.h"

#include <unistd.h>

#include <bit>

#include "core/base/text.h"

namespace tutti {
namespace {

uint64_t CurrentThreadNumber() noexcept {
  thread_local const uint64_t number = static_cast<uint64_t>(gettid());
  return number;
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
  std::atomic<int64_t> time_ns{0};
  std::atomic<uint64_t> thread{0};
  std::atomic<FlightPhase> phase{FlightPhase::kInstant};
  std::atomic<const FlightEventType*> type{nullptr};
  std::array<std::atomic<int64_t>, kFlightArguments> arguments{};
};

Recorder::Recorder(const Clock& clock, uint64_t capacity)
    : clock_(clock),
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
  slot.time_ns.store(clock_.NowNs(), std::memory_order_release);
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
  for (uint64_t index = begin; index < end; ++index) {
    const Slot& slot = slots_[index & mask_];
    if (slot.state.load(std::memory_order_acquire) != 2 * index + 2) continue;
    FlightEvent event;
    event.index = index;
    event.time_ns = slot.time_ns.load(std::memory_order_acquire);
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

std::string Recorder::ToJson() const {
  std::string json =
      Format("{{\"version\":1,\"pid\":{},\"wall_ns\":{},\"monotonic_ns\":{},\"events\":[", getpid(),
             clock_.WallNs(), clock_.NowNs());
  const char* separator = "";
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
