#include "core/runtime/dumps.h"

#include <mutex>
#include <utility>

#include "core/base/clock.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

// The process's own. Never destroyed.
struct DumpOfProcess {
  std::mutex mutex;  // guards all below
  int64_t number = 0;
  Ref<DumpWriter> writer;
};
DumpOfProcess& TheDump() {
  static DumpOfProcess& dump = *new DumpOfProcess;
  return dump;
}

Status CheckUnchanged(const DumpOptions& now, const DumpOptions& asked) {
  if (now.mode != asked.mode) {
    return InvalidArgument(
        "enable_dump_debug_info: the mode is {} and cannot become {}; disable the dump first",
        DebugModeName(now.mode), DebugModeName(asked.mode));
  }
  if (now.circular_buffer_size != asked.circular_buffer_size) {
    return InvalidArgument(
        "enable_dump_debug_info: the circular buffer has the size {} and cannot get {}; disable "
        "the dump first",
        now.circular_buffer_size, asked.circular_buffer_size);
  }
  return OkStatus();
}

}  // namespace

Result<int64_t> EnableDump(const DumpOptions& options) {
  DumpOfProcess& dump = TheDump();
  const std::lock_guard<std::mutex> lock(dump.mutex);
  if (dump.writer) {
    TUTTI_RETURN_IF_ERROR(CheckUnchanged(dump.writer->options(), options));
    if (dump.writer->options().root == options.root) return dump.number;
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<DumpWriter> writer,
                         DumpWriter::Create(RealDisk(), RealClock(), options));
  if (dump.writer) dump.writer->Close();
  dump.writer = std::move(writer);
  InstallTensorRecorder(dump.writer);
  return ++dump.number;
}

Status FlushDump(int64_t writer, bool execution) {
  Ref<DumpWriter> current;
  {
    const std::lock_guard<std::mutex> lock(TheDump().mutex);
    if (!TheDump().writer || TheDump().number != writer) {
      return FailedPrecondition("flushing a dump: it has ended, because it was disabled or another "
                                "one has begun");
    }
    current = TheDump().writer;
  }
  return execution ? current->FlushExecution() : current->FlushNonExecution();
}

void DisableDump() {
  Ref<DumpWriter> ended;
  {
    const std::lock_guard<std::mutex> lock(TheDump().mutex);
    ended = std::move(TheDump().writer);
    TheDump().writer = nullptr;
    InstallTensorRecorder(nullptr);
  }
  if (ended) ended->Close();
}

}  // namespace tutti
