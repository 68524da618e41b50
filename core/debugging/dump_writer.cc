#include "core/debugging/dump_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/debugging/first_failure.h"
#include "core/debugging/runs.h"
#include "core/tensor/half.h"
#include "tutti/v1/debug_event.pb.h"

namespace tutti {

namespace {

constexpr int32_t kFormatVersion = 1;
constexpr size_t kMaxMatchedBytes = 256;
constexpr size_t kMaxKnownOps = 1000;
constexpr const char* kWriterVersion = "0.1";

void AppendFixed(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// A TFRecord of `message`.
void AppendRecord(const std::string& message, std::string* out) {
  std::string length;
  AppendFixed(message.size(), 8, &length);
  *out += length;
  AppendFixed(MaskCrc32c(Crc32c(length.data(), length.size())), 4, out);
  *out += message;
  AppendFixed(MaskCrc32c(Crc32c(message.data(), message.size())), 4, out);
}

int64_t WallMicroseconds(const Clock& clock) { return clock.WallNs() / 1000; }

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

template <class T>
void CountSign(T value, int64_t* negative, int64_t* zero, int64_t* positive) {
  if (value < 0) {
    ++*negative;
  } else if (value > 0) {
    ++*positive;
  } else {
    ++*zero;
  }
}

// Reals of a floating or complex element, one after the other.
template <class T, class Fn>
void EachReal(const T& item, Fn&& fn) {
  if constexpr (kIsComplex<T>) {
    fn(static_cast<double>(item.real));
    fn(static_cast<double>(item.imag));
  } else if constexpr (kIsHalf<T>) {
    fn(static_cast<double>(ToFloat(item)));
  } else if constexpr (std::is_floating_point_v<T>) {
    fn(static_cast<double>(item));
  }
}

// Never destroyed: threads may outlive the end of the program's main function.
struct WorkerOfProcess {
  std::atomic<int64_t> number{-1};
  std::mutex mutex;  // guards the rest
  std::string task;
};
WorkerOfProcess& TheWorker() {
  static WorkerOfProcess& worker = *new WorkerOfProcess;
  return worker;
}

}  // namespace

void SetDumpedWorker(int64_t worker, std::string task) {
  const std::lock_guard<std::mutex> lock(TheWorker().mutex);
  TheWorker().task = std::move(task);
  TheWorker().number.store(worker, std::memory_order_relaxed);
}

const char* DebugModeName(DebugMode mode) {
  switch (mode) {
    case DebugMode::kNoTensor: return "NO_TENSOR";
    case DebugMode::kCurtHealth: return "CURT_HEALTH";
    case DebugMode::kConciseHealth: return "CONCISE_HEALTH";
    case DebugMode::kFullHealth: return "FULL_HEALTH";
    case DebugMode::kShape: return "SHAPE";
  }
  return "?";
}

DumpWriter::DumpWriter(Disk& disk, const Clock& clock, const DumpOptions& options,
                       std::optional<std::regex> op_regex, std::string prefix)
    : disk_(disk),
      clock_(clock),
      options_(options),
      op_regex_(std::move(op_regex)),
      prefix_(std::move(prefix)) {}

Result<Ref<DumpWriter>> DumpWriter::Create(Disk& disk, const Clock& clock,
                                           const DumpOptions& options) {
  std::optional<std::regex> expression;
  if (options.op_regex.size() > kMaxRegexBytes) {
    return InvalidArgument("enable_dump_debug_info: op_regex has {} bytes; expected at most {}",
                           options.op_regex.size(), kMaxRegexBytes);
  }
  if (!options.op_regex.empty()) {
    try {
      expression.emplace(options.op_regex, std::regex::ECMAScript);
    } catch (const std::regex_error& error) {
      return InvalidArgument("enable_dump_debug_info: op_regex {} does not read: {}",
                             Quote(options.op_regex), error.what());
    }
  }
  TUTTI_RETURN_IF_ERROR(
      disk.MakeDirectories(options.root).WithPrefix("enable_dump_debug_info: dump_root"));
  std::string prefix = Format("{}/tutti_debug.{}.{}.{}", options.root, HostName(), getpid(),
                              WallMicroseconds(clock));
  Ref<DumpWriter> writer =
      MakeRef<DumpWriter>(disk, clock, options, std::move(expression), std::move(prefix));
  TUTTI_RETURN_IF_ERROR(writer->FlushNonExecution());
  return writer;
}

bool DumpWriter::Takes(const TensorSighting& sighting, DType dtype) {
  if (options_.dtypes != 0 && (options_.dtypes >> static_cast<int>(dtype) & 1) == 0) return false;
  if (!op_regex_.has_value()) return true;
  if (taken_.contains(sighting.op)) return true;
  if (refused_.contains(sighting.op)) return false;
  // The library's matcher calls itself for each character: long names are looked at in part.
  const std::string op(sighting.op.substr(0, kMaxMatchedBytes));
  bool takes = false;
  try {
    takes = std::regex_search(op, *op_regex_, std::regex_constants::match_continuous);
  } catch (const std::regex_error&) {
    // Too complex for this name.
  }
  std::set<std::string, std::less<>>& known = takes ? taken_ : refused_;
  if (known.size() < kMaxKnownOps) known.insert(std::string(sighting.op));
  return takes;
}

DumpWriter::Health DumpWriter::HealthOf(const Tensor& tensor, DebugMode mode) {
  Health health;
  health.bad = FirstNotFinite(tensor) != kNothingFails;
  if (mode == DebugMode::kCurtHealth) return health;
  health.elements = tensor.num_elements();
  const NumericsCounts counts = CountNotFinite(tensor);
  health.nan = counts.nan;
  health.positive_infinity = counts.positive_infinity;
  health.negative_infinity = counts.negative_infinity;
  if (mode != DebugMode::kFullHealth) return health;
  const Runs runs(tensor.shape(), {&tensor});
  VisitDType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    runs.First([&](const Run& run) {
      for (int64_t i = 0; i < run.size; ++i) {
        EachReal(static_cast<const T*>(run.at[0])[i * run.step[0]], [&](double value) {
          if (!std::isfinite(value)) return;
          CountSign(value, &health.negative, &health.zero, &health.positive);
        });
      }
      return kNothingFails;
    });
  });
  return health;
}

void DumpWriter::Note(const TensorSighting& sighting, int64_t wall_us, DType dtype,
                      Event* event) const {
  event->wall_us = wall_us;
  event->op.assign(sighting.op);
  event->name.assign(sighting.name);
  event->replica = sighting.replica;
  event->step = ObservedStep();
  event->worker = TheWorker().number.load(std::memory_order_relaxed);
  event->dtype = dtype;
}

DumpWriter::Event& DumpWriter::NextSlot() {
  const auto room = static_cast<size_t>(std::max<int64_t>(options_.circular_buffer_size, 0));
  if (room == 0 || events_.size() < room) return events_.emplace_back();
  Event& oldest = events_[first_];
  first_ = (first_ + 1) % room;
  return oldest;
}

std::vector<DumpWriter::Event> DumpWriter::TakeEvents() {
  std::vector<Event> events;
  events.swap(events_);
  std::rotate(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(first_), events.end());
  first_ = 0;
  return events;
}

Status DumpWriter::Observe(const TensorSighting& sighting, const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  const int64_t wall_us = WallMicroseconds(clock_);
  Event known;  // of what takes time to find out
  const bool looks = options_.mode != DebugMode::kNoTensor;
  if (looks) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (closed_ || !Takes(sighting, dtype)) return OkStatus();
    }
    if (options_.mode == DebugMode::kShape) {
      known.shape = tensor.shape();
    } else if ((IsFloating(dtype) || IsComplex(dtype)) && tensor.device().is_cpu()) {
      known.health = HealthOf(tensor, options_.mode);
      known.rank = static_cast<int64_t>(tensor.rank());
    }
  }
  std::vector<Event> full;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_ || (!looks && !Takes(sighting, dtype))) return OkStatus();
    Event& event = NextSlot();
    Note(sighting, wall_us, dtype, &event);
    event.sequence = num_events_++;
    if (looks) {
      event.shape = std::move(known.shape);
      event.health = known.health;
      event.rank = known.rank;
    }
    if (options_.circular_buffer_size > 0 || events_.size() < kEventsAFile) return OkStatus();
    full = TakeEvents();
  }
  Status status = WriteEvents(full);
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }
  return OkStatus();
}

std::string DumpWriter::Encode(const Event& event) const {
  v1::DebugEvent message;
  message.set_wall_time_us(event.wall_us);
  v1::TensorTrace& trace = *message.mutable_trace();
  trace.set_op(event.op);
  trace.set_name(event.name);
  trace.set_replica(event.replica + 1);
  trace.set_step(event.step + 1);
  trace.set_worker(event.worker + 1);
  trace.set_dtype(static_cast<int32_t>(event.dtype));
  trace.set_sequence(event.sequence);
  if (event.shape.has_value()) {
    v1::TensorShape& shape = *trace.mutable_shape();
    for (const int64_t dim : event.shape->dims()) shape.add_dims(dim);
  }
  if (event.health.has_value()) {
    const Health& known = *event.health;
    v1::TensorHealth& health = *trace.mutable_health();
    health.set_has_nan_or_infinity(known.bad);
    health.set_elements(known.elements);
    health.set_nan(known.nan);
    health.set_positive_infinity(known.positive_infinity);
    health.set_negative_infinity(known.negative_infinity);
    if (options_.mode == DebugMode::kFullHealth) {
      health.set_rank(event.rank);
      health.set_negative(known.negative);
      health.set_zero(known.zero);
      health.set_positive(known.positive);
    }
  }
  return message.SerializeAsString();
}

Status DumpWriter::WriteEvents(const std::vector<Event>& events) {
  if (events.empty()) return OkStatus();
  std::string bytes;
  for (const Event& event : events) AppendRecord(Encode(event), &bytes);
  const std::lock_guard<std::mutex> lock(file_mutex_);
  // The process may have joined a job since.
  if (TheWorker().number.load(std::memory_order_relaxed) != written_worker_) {
    TUTTI_RETURN_IF_ERROR(WriteMetadata());
  }
  TUTTI_RETURN_IF_ERROR(
      disk_.WriteFile(Format("{}.execution-{:05}", prefix_, num_files_), bytes)
          .WithPrefix("writing a dump"));
  ++num_files_;
  return OkStatus();
}

Status DumpWriter::FlushExecution() {
  std::vector<Event> events;
  Status failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    events = TakeEvents();
    std::swap(failure, failure_);
  }
  Status status = WriteEvents(events);
  if (!status.ok()) {
    // They wait for the next flush, as far as there is room.
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Event> later = TakeEvents();
    events.insert(events.end(), std::make_move_iterator(later.begin()),
                  std::make_move_iterator(later.end()));
    const auto room = static_cast<size_t>(std::max<int64_t>(options_.circular_buffer_size, 0));
    if (room > 0 && events.size() > room) {
      events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(room));
    }
    if (!closed_) events_ = std::move(events);
  }
  return failure.ok() ? status : failure;
}

Status DumpWriter::WriteMetadata() {
  v1::DebugEvent message;
  message.set_wall_time_us(WallMicroseconds(clock_));
  v1::DumpMetadata& metadata = *message.mutable_metadata();
  metadata.set_format_version(kFormatVersion);
  metadata.set_host(HostName());
  metadata.set_pid(getpid());
  metadata.set_library_version(kWriterVersion);
  metadata.set_tensor_debug_mode(static_cast<int32_t>(options_.mode));
  metadata.set_circular_buffer_size(options_.circular_buffer_size);
  metadata.set_op_regex(options_.op_regex);
  metadata.set_dtypes(options_.dtypes);
  int64_t worker = -1;
  {
    const std::lock_guard<std::mutex> lock(TheWorker().mutex);
    worker = TheWorker().number.load(std::memory_order_relaxed);
    metadata.set_task(TheWorker().task);
  }
  metadata.set_worker(worker + 1);
  std::string bytes;
  AppendRecord(message.SerializeAsString(), &bytes);
  TUTTI_RETURN_IF_ERROR(
      disk_.WriteFile(prefix_ + ".metadata", bytes).WithPrefix("writing a dump"));
  written_worker_ = worker;
  return OkStatus();
}

Status DumpWriter::FlushNonExecution() {
  const std::lock_guard<std::mutex> lock(file_mutex_);
  return WriteMetadata();
}

void DumpWriter::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  events_.clear();
  first_ = 0;
}

}  // namespace tutti
