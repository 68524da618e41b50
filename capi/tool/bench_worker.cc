// The side of `tutti bench` that measures: a worker of the job, or all ranks as threads.

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "capi/tool/bench_command.h"
#include "capi/tool/bench_job.h"
#include "capi/tool/bench_options.h"
#include "capi/tool/bench_picture.h"
#include "capi/tool/bench_rank.h"
#include "capi/tool/bench_report.h"
#include "capi/tool/bench_tune.h"
#include "capi/tool/c_handles.h"
#include "capi/tool/core_round_trip.h"
#include "capi/tool/machine_cores.h"
#include "capi/tool/progress_line.h"

namespace tutti::tool {
namespace {

class BenchWorker {
 public:
  explicit BenchWorker(const BenchOptions& options)
      : options_(options),
        usable_cores_(ReadMachineCores().usable),
        first_core_(UsableCore(0)),
        second_core_(UsableCore(1)),
        job_(options_) {}

  int Run() {
    if (CStatus failed = job_.Start()) return BenchJob::Failed("", failed);
    options_.workers = job_.workers();
    std::vector<CCommunicator> communicators;
    if (CStatus failed = job_.Connect("bench", &communicators)) return BenchJob::Failed("", failed);
    return job_.OnRanks([&](size_t place) { return RunRank(communicators[place].get()); });
  }

 private:
  int RunRank(tutti_communicator* communicator) {
    const int64_t rank = tutti_communicator_get_rank(communicator);
    BenchRank bench(options_, job_.runtime(), communicator);
    const bool bind = job_.BindsRanks();
    if (bind) job_.BindRank(rank);
    CStatus failed = bench.Prepare();
    if (!failed && bench.refusal().empty()) {
      // The others wait, asleep, while rank 0 looks at the cores.
      if (rank == 0) Begin(communicator, bind);
      failed = bench.Barrier();
      if (!failed) failed = bench.Run([this](const BenchRow& row) { OnRow(row); });
    }
    if (failed) {
      // The rank's error ends the others' calls too.
      return BenchJob::Failed(fmt::format("rank {}: ", rank), failed);
    }
    if (!bench.refusal().empty()) {
      if (rank == 0) fmt::print(stderr, "tutti bench: {}\n", bench.refusal());
      return 1;
    }
    if (rank == 0) return Conclude();
    return 0;
  }

  std::optional<double> RoundTrip() const {
    if (!first_core_ || !second_core_) return std::nullopt;
    return MeasureCoreRoundTrip(*first_core_, *second_core_);
  }

  void Begin(tutti_communicator* communicator, bool bound) {
    report_.system = fmt::format("tutti {}", tutti_api_version_string());
    report_.collective = options_.collective->name;
    report_.workers = options_.workers;
    report_.hosts = job_.hosts().count;
    report_.transport = tutti_communicator_get_transport(communicator);
    report_.dtype = tutti_dtype_get_name(options_.dtype);
    report_.op = options_.op_name;
    report_.in_flight = options_.in_flight;
    report_.tensors = options_.tensors;
    report_.mapped = options_.mapped;
    report_.usable_cores = usable_cores_;
    report_.bound = bound;
    report_.round_trip_before = RoundTrip();
    Print(report_.TextHeader());
    progress_.emplace(ProgressFormOf(options_.progress),
                      fmt::format("tutti bench: {}", report_.collective), "sizes",
                      options_.Sizes().size());
  }

  void OnRow(const BenchRow& row) {
    report_.rows.push_back(row);
    Print(report_.TextRow(row));
    progress_->Tell(report_.rows.size());
  }

  void Print(const std::string& text) const {
    if (options_.as_json) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  int Conclude() {
    progress_.reset();
    report_.round_trip_after = RoundTrip();
    Print(report_.TextFooter());
    if (options_.as_json) fmt::print("{}", report_.ToJson());
    std::fflush(stdout);
    const std::string error = options_.svg.empty() ? "" : WritePicture(options_, report_);
    if (!error.empty()) {
      fmt::print(stderr, "tutti bench: {}\n", error);
      return 1;
    }
    if (!options_.svg.empty()) Print(fmt::format("# drawn in {}\n", options_.svg));
    return report_.wrong() == 0 ? 0 : 1;
  }

  BenchOptions options_;
  // Of the process; a rank that is bound sees its own core only.
  const int usable_cores_;
  const std::optional<int> first_core_, second_core_;
  BenchJob job_;
  BenchReport report_;  // rank 0's
  std::optional<ProgressLine> progress_;  // the same
};

}  // namespace

int BenchWorkerCommand(const std::vector<std::string>& words) {
  BenchOptions options;
  if (const std::optional<int> status = ReadBenchOptions(words, &options)) return *status;
  // Started by nobody of ours.
  if (options.progress.empty()) options.progress = ProgressOfTerminal(options.as_json);
  return options.tune.empty() ? BenchWorker(options).Run() : TuneWorker(options).Run();
}

}  // namespace tutti::tool
