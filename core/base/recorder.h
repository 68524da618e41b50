// The flight recorder: the last few thousand events of this process, always on, a few nanoseconds
// per event, written as JSON when something goes wrong.
//
//   inline constexpr FlightEventType kStep{"step", {"subject", "number", "rows"}};
//   const int64_t trainer = recorder.AddSubject({"trainer", "digits", {{"replica", 0}}});
//   recorder.Record(kStep, FlightPhase::kBegin, {trainer, number, rows});
//
// Threads that record at the same time have a *lane* each, a ring of slots that no other thread
// writes: so recording moves no cache line between cores, and takes plain stores. Threads for which
// there is no lane left share one, in which a slot is claimed by atomic instructions. Readers put
// the lanes together by time, and skip slots that are being overwritten. Event types live forever
// (constants of the program). What many events say alike, such as the name of a communicator and
// the rank in it, is a subject: said once, and named by its number.
//
// Records of the workers of one job are to be read together ("tutti trace"), so they carry what
// tells whose they are: the job and the worker, and the two clocks at one moment. Under the
// directory that the user names, they lie in one of the job's own:
//
//   DIRECTORY/job-5f0c1e6a90d7b342/flight-1.json       worker 1
//   DIRECTORY/process-4711/flight-0.json               a process outside of a job
//
// Both directories are made with mode 0700, the file with 0600. A later record replaces the
// earlier one of the same process.

#ifndef TUTTI_CORE_BASE_RECORDER_H_
#define TUTTI_CORE_BASE_RECORDER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/tick_clock.h"

namespace tutti {

inline constexpr int kFlightArguments = 7;
using FlightArguments = std::array<int64_t, kFlightArguments>;

struct FlightEventType {
  const char* name;
  std::array<const char*, kFlightArguments> argument_names;  // unused ones are null
};

enum class FlightPhase : int32_t { kInstant = 0, kBegin = 1, kEnd = 2 };

struct FlightEvent {
  uint64_t index;  // counts all events since the start, in the order of time
  int64_t time_ns;
  uint64_t thread;
  FlightPhase phase;
  const FlightEventType* type;
  FlightArguments arguments;
};

// What events are about: a rank of a communicator, say.
struct FlightSubject {
  const char* kind;
  std::string name;
  std::vector<std::pair<const char*, int64_t>> facts;
};

class Recorder {
 public:
  static constexpr uint64_t kDefaultCapacity = 4096;

  // The capacity is rounded up to a power of two.
  explicit Recorder(const Clock& clock, uint64_t capacity = kDefaultCapacity);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Arguments that are not given are 0.
  void Record(const FlightEventType& type, FlightPhase phase,
              std::initializer_list<int64_t> arguments = {}) noexcept;
  // The same with all of them.
  void Record(const FlightEventType& type, FlightPhase phase,
              const FlightArguments& arguments) noexcept;

  // The number that events name the subject by, as an argument called "subject". Takes a lock. The
  // last kMaxSubjects are kept: of older ones only their numbers are known any more.
  static constexpr size_t kMaxSubjects = 1024;
  int64_t AddSubject(FlightSubject subject);
  // From now on this process is that worker of that job.
  void SetProcess(uint64_t job, int64_t worker);
  // Where the record of this process goes within the user's directory: "job-.../flight-1.json".
  std::string FileName() const;
  // Where the last record of this process was written or is being written; empty: nowhere.
  std::string last_path() const;
  void set_last_path(std::string path);

  uint64_t capacity() const noexcept { return mask_ + 1; }
  // The last events, at most capacity(), oldest first.
  std::vector<FlightEvent> Snapshot() const;
  // {"tutti_flight_record":2,"job":"5f0c1e6a90d7b342","worker":1,"host":"a","boot":"...",
  // "pid":4711,"wall_ns":...,"monotonic_ns":...,
  // "subjects":[{"number":0,"kind":"communicator","name":"x","rank":1,"size":4,"epoch":1},...],
  // "events":[{"index":...,"time_ns":...,"thread":...,"name":"all_reduce","phase":"begin",
  // "arguments":{"subject":0,"sequence":7,...}},...]}
  // Processes with the same "boot" (of the kernel; "" where it is not known) have the same
  // monotonic clock. A process outside of a job has the job "".
  std::string ToJson() const;

 private:
  struct Slot;
  struct Lane;

  // Of the last lane, which may have several writers.
  bool ClaimShared(Lane& lane, Slot* slots, uint64_t* index) const noexcept;
  // The lane's ring, made when the first event comes; null when there is no memory.
  Slot* MakeSlots(Lane& lane) const noexcept;
  void AppendEvents(const Lane& lane, const TickClock::Scale& scale,
                    std::vector<FlightEvent>* events) const;

  const Clock& clock_;
  const TickClock ticks_;
  const uint64_t mask_;
  const std::unique_ptr<Lane[]> lanes_;

  mutable std::mutex mutex_;  // guards all below
  std::deque<FlightSubject> subjects_;
  int64_t first_subject_ = 0;  // the number of subjects_.front()
  bool in_job_ = false;
  uint64_t job_ = 0;
  int64_t worker_ = 0;
  std::string last_path_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_RECORDER_H_
