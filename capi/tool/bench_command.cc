#include "capi/tool/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "capi/tool/bench_devices.h"
#include "capi/tool/bench_options.h"
#include "capi/tool/bench_picture.h"
#include "capi/tool/job_supervision.h"
#include "capi/tool/progress_line.h"
#include "capi/tool/run_options.h"
#include "capi/tool/text_file.h"

namespace tutti::tool {

int BenchCommand(const std::vector<std::string>& words) {
  if (AsksForDevices(words)) return BenchDevicesCommand(words);
  BenchOptions options;
  if (const std::optional<int> status = ReadBenchOptions(words, &options)) return *status;
  if (options.join) return BenchWorkerCommand(words);
  // What is wrong with the picture is said before anything is measured.
  if (!options.svg.empty()) {
    std::vector<PlotSeries> series;
    std::string error = ReadPeers(options, &series);
    if (error.empty()) error = CheckPictureCanBeWritten(options.svg);
    if (!error.empty()) {
      fmt::print(stderr, "tutti bench: {}\n", error);
      return kExitUsage;
    }
  }
  if (!options.tune.empty() && options.tune != "-") {
    const std::string error = CheckCanWriteTextFile(options.tune);
    if (!error.empty()) {
      fmt::print(stderr, "tutti bench: --tune: {}\n", error);
      return kExitUsage;
    }
  }
  RunOptions job;
  job.workers = options.in_process ? 1 : options.workers;
  job.prefix = false;
  job.program = {"tutti", "bench-worker"};
  job.program.insert(job.program.end(), words.begin(), words.end());
  // Workers write to us, and cannot see what we write to.
  if (options.progress.empty()) {
    job.program.insert(job.program.end(), {"--progress", ProgressOfTerminal(options.as_json)});
  }
  return RunJob("tutti bench", job, "/proc/self/exe");
}

}  // namespace tutti::tool
