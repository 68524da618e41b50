// DumpWriter: what has passed through operations, in files for people to look at later.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<DumpWriter> writer, DumpWriter::Create(disk, clock, options));
//   InstallTensorRecorder(writer);                     // and from here on it is shown everything
//   TUTTI_RETURN_IF_ERROR(writer->FlushExecution());   // the last events go to the disk
//
// Events wait in a circular buffer, of which the oldest goes when it is full, until they are
// flushed; without one (a size of 0 or less) they are written a thousand at a time, and none is
// lost. The files and their format stand in proto/tutti/v1/debug_event.proto. Every flush makes a
// new file, which appears whole: what was flushed is there whatever becomes of the process.
// Threads: any.
#ifndef TUTTI_CORE_DEBUGGING_DUMP_WRITER_H_
#define TUTTI_CORE_DEBUGGING_DUMP_WRITER_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/disk.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

// The same numbers as TUTTI_DEBUG_*.
enum class DebugMode : int32_t {
  kNoTensor = 1,
  kCurtHealth = 2,
  kConciseHealth = 3,
  kFullHealth = 4,
  kShape = 5,
};
// "NO_TENSOR" and so on; static.
const char* DebugModeName(DebugMode mode);

struct DumpOptions {
  std::string root;
  DebugMode mode = DebugMode::kNoTensor;
  int64_t circular_buffer_size = 1000;
  // ECMAScript's syntax, matched at the beginning of an operation's name; empty: all.
  std::string op_regex;
  // A bit for the number of each dtype (1 << kFloat32); 0: all.
  int64_t dtypes = 0;
};

// Which worker of a job this process is, for the dumps that it writes: its number and its task,
// "worker:1". Until it is said the process is none. Events have the worker of their time, a dump's
// metadata the one of its last flush. Threads: any.
void SetDumpedWorker(int64_t worker, std::string task);

class DumpWriter final : public TensorObserver {
 public:
  static constexpr size_t kMaxRegexBytes = 1024;
  static constexpr size_t kEventsAFile = 1000;  // without a circular buffer

  // Makes the directory and writes the file of metadata, once more for each call. INVALID_ARGUMENT
  // for a regular expression that does not read or is longer than kMaxRegexBytes; the disk's own
  // errors. `disk` and `clock` outlive it.
  static Result<Ref<DumpWriter>> Create(Disk& disk, const Clock& clock, const DumpOptions& options);

  const DumpOptions& options() const { return options_; }

  // Always OK: what cannot be written is the next flush's error.
  Status Observe(const TensorSighting& sighting, const Tensor& tensor) override;

  // Writes the events since the last flush, and the metadata. Events that could not be written
  // wait for the next flush.
  Status FlushExecution();
  Status FlushNonExecution();
  // What is left in the buffer is gone; later events are not taken.
  void Close();

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);

  struct Health {
    bool bad = false;
    int64_t elements = 0;
    int64_t nan = 0;
    int64_t positive_infinity = 0;
    int64_t negative_infinity = 0;
    int64_t negative = 0;
    int64_t zero = 0;
    int64_t positive = 0;
  };
  struct Event {
    int64_t wall_us = 0;
    int64_t sequence = 0;
    std::string op;
    std::string name;
    int64_t replica = -1;
    int64_t step = -1;
    int64_t worker = -1;
    DType dtype = DType::kInvalid;
    std::optional<Shape> shape;
    std::optional<Health> health;
    int64_t rank = 0;
  };

  DumpWriter(Disk& disk, const Clock& clock, const DumpOptions& options,
             std::optional<std::regex> op_regex, std::string prefix);

  static Health HealthOf(const Tensor& tensor, DebugMode mode);
  bool Takes(const TensorSighting& sighting, DType dtype);
  std::string Encode(const Event& event) const;
  // Of what is not the tensor's own.
  void Note(const TensorSighting& sighting, int64_t wall_us, DType dtype, Event* event) const;
  // The place of the next event, of which one that is full gives up its oldest; `mutex_` is held.
  Event& NextSlot();
  // The events that wait, oldest first; `mutex_` is held.
  std::vector<Event> TakeEvents();
  Status WriteEvents(const std::vector<Event>& events);
  // `file_mutex_` is held.
  Status WriteMetadata();

  Disk& disk_;
  const Clock& clock_;
  const DumpOptions options_;
  const std::optional<std::regex> op_regex_;
  const std::string prefix_;

  std::mutex mutex_;  // guards all below
  bool closed_ = false;
  int64_t num_events_ = 0;
  std::set<std::string, std::less<>> taken_;    // operations that the expression takes
  std::set<std::string, std::less<>> refused_;  // and those that it does not
  // A ring that grows up to its size and keeps its events' memory; the oldest is at first_.
  std::vector<Event> events_;
  size_t first_ = 0;
  Status failure_;  // of a file that was written on the way

  std::mutex file_mutex_;  // guards all below; taken before or without the other
  int64_t num_files_ = 0;
  int64_t written_worker_ = -1;  // of the metadata
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEBUGGING_DUMP_WRITER_H_
