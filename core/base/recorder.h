// The flight recorder: the last few thousand events of this process, always on, a few nanoseconds
// per event, written as JSON when something goes wrong.
//
//   inline constexpr FlightEventType kAllReduce{"all_reduce", {"sequence", "bytes", "rank"}};
//   recorder.Record(kAllReduce, FlightPhase::kBegin, {sequence, bytes, rank});
//
// A ring of slots; a writer claims the next slot with one atomic add and publishes it by its
// sequence number. Readers skip slots that are being overwritten. Event types live forever
// (constants of the program).

#ifndef TUTTI_CORE_BASE_RECORDER_H_
#define TUTTI_CORE_BASE_RECORDER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace tutti {

inline constexpr int kFlightArguments = 5;

struct FlightEventType {
  const char* name;
  std::array<const char*, kFlightArguments> argument_names;  // unused ones are null
};

enum class FlightPhase : int32_t { kInstant = 0, kBegin = 1, kEnd = 2 };

struct FlightEvent {
  uint64_t index;  // counts all events since the start
  int64_t time_ns;
  uint64_t thread;
  FlightPhase phase;
  const FlightEventType* type;
  std::array<int64_t, kFlightArguments> arguments;
};

class Recorder {
 public:
  static constexpr uint64_t kDefaultCapacity = 4096;

  // The capacity is rounded up to a power of two.
  explicit Recorder(const Clock& clock, uint64_t capacity = kDefaultCapacity);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void Record(const FlightEventType& type, FlightPhase phase,
              std::initializer_list<int64_t> arguments = {}) noexcept;

  uint64_t capacity() const noexcept { return mask_ + 1; }
  // What is in the ring, oldest first.
  std::vector<FlightEvent> Snapshot() const;
  // {"version":1,"pid":...,"wall_ns":...,"monotonic_ns":...,"events":[{"index":...,"time_ns":...,
  // "thread":...,"name":"all_reduce","phase":"begin","arguments":{"sequence":7,...}},...]}
  std::string ToJson() const;

 private:
  struct Slot;

  const Clock& clock_;
  const uint64_t mask_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_RECORDER_H_
