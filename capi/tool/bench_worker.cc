// The side of `tutti bench` that measures: a worker of the job, or all ranks as threads.

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "capi/tool/bench_command.h"
#include "capi/tool/bench_options.h"
#include "capi/tool/bench_picture.h"
#include "capi/tool/bench_rank.h"
#include "capi/tool/bench_report.h"
#include "capi/tool/c_handles.h"
#include "capi/tool/core_round_trip.h"
#include "capi/tool/machine_cores.h"

namespace tutti::tool {
namespace {

// Whoever measures longer than that in one call hangs.
constexpr const char* kCallTimeout = "10min";

class BenchWorker {
 public:
  explicit BenchWorker(const BenchOptions& options)
      : options_(options),
        usable_cores_(ReadMachineCores().usable),
        first_core_(UsableCore(0)),
        second_core_(UsableCore(1)) {}

  int Run() {
    if (CStatus failed = Start()) return Failed("", failed);
    const int status = options_.in_process ? RunThreads() : RunOne();
    communicators_.clear();
    if (cluster_ != nullptr) CStatus(tutti_cluster_close(cluster_.get(), nullptr));
    CStatus(tutti_runtime_shutdown(runtime_.get(), nullptr));
    return status;
  }

 private:
  CStatus Start() {
    const char* keys[] = {"default_timeout", "transport"};
    const char* values[] = {kCallTimeout, options_.transport.c_str()};
    tutti_runtime_options runtime_options = TUTTI_RUNTIME_OPTIONS_INIT;
    runtime_options.setting_count = options_.in_process ? 1 : 2;
    runtime_options.setting_keys = keys;
    runtime_options.setting_values = values;
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_runtime_create(&runtime_options, Out(&runtime_)));
    tutti_communicator_options communicator_options = TUTTI_COMMUNICATOR_OPTIONS_INIT;
    communicator_options.name = "bench";
    if (options_.in_process) {
      std::vector<tutti_communicator*> raw(static_cast<size_t>(options_.workers));
      TUTTI_TOOL_RETURN_IF_FAILED(tutti_communicator_create_local(
          runtime_.get(), raw.size(), &communicator_options, raw.data()));
      for (tutti_communicator* communicator : raw) communicators_.emplace_back(communicator);
      return nullptr;
    }
    TUTTI_TOOL_RETURN_IF_FAILED(
        tutti_cluster_join(runtime_.get(), nullptr, nullptr, nullptr, Out(&cluster_)));
    communicators_.emplace_back();
    return CStatus(tutti_communicator_create(cluster_.get(), &communicator_options, nullptr,
                                             Out(&communicators_.back())));
  }

  int RunThreads() {
    std::vector<int> statuses(communicators_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < communicators_.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = RunRank(communicators_[i].get()); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int status : statuses) {
      if (status != 0) return status;
    }
    return 0;
  }

  // Not on this thread, from which the runtime's threads would inherit the core.
  int RunOne() {
    int status = 0;
    std::thread([&] { status = RunRank(communicators_.front().get()); }).join();
    return status;
  }

  int RunRank(tutti_communicator* communicator) {
    const int64_t rank = tutti_communicator_get_rank(communicator);
    BenchRank bench(options_, runtime_.get(), communicator);
    const bool enough_cores = UsableCore(options_.workers - 1).has_value();
    const bool bind = options_.bind && enough_cores && options_.workers > 1;
    if (bind) BindThisThread(*UsableCore(static_cast<int>(rank)));
    // The others wait, asleep, while rank 0 looks at the cores.
    if (rank == 0) Begin(communicator, bind);
    CStatus failed = bench.Barrier();
    if (!failed) failed = bench.Run([this](const BenchRow& row) { OnRow(row); });
    if (failed) {
      // The rank's error ends the others' calls too.
      return Failed(fmt::format("rank {}: ", rank), failed);
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
    report_.transport = tutti_communicator_get_transport(communicator);
    report_.dtype = tutti_dtype_get_name(options_.dtype);
    report_.op = options_.op_name;
    report_.usable_cores = usable_cores_;
    report_.bound = bound;
    report_.round_trip_before = RoundTrip();
    Print(report_.TextHeader());
  }

  void OnRow(const BenchRow& row) {
    report_.rows.push_back(row);
    Print(report_.TextRow(row));
  }

  void Print(const std::string& text) const {
    if (options_.as_json) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  int Conclude() {
    report_.round_trip_after = RoundTrip();
    Print(report_.TextFooter());
    if (options_.as_json) fmt::print("{}", report_.ToJson());
    std::fflush(stdout);
    const std::string error = options_.svg.empty() ? "" : WritePicture(options_, report_);
    if (!error.empty()) {
      fmt::print(stderr, "tutti bench: {}\n", error);
      return 1;
    }
    return report_.wrong() == 0 ? 0 : 1;
  }

  static int Failed(const std::string& who, const CStatus& status) {
    fmt::print(stderr, "tutti bench: {}{}: {}\n", who,
               tutti_code_get_name(tutti_status_get_code(status.get())),
               tutti_status_get_message(status.get()));
    return 1;
  }

  const BenchOptions& options_;
  // Of the process; a rank that is bound sees its own core only.
  const int usable_cores_;
  const std::optional<int> first_core_, second_core_;
  CRuntime runtime_;
  CCluster cluster_;
  std::vector<CCommunicator> communicators_;
  BenchReport report_;  // rank 0's
};

}  // namespace

int BenchWorkerCommand(const std::vector<std::string>& words) {
  BenchOptions options;
  if (const std::optional<int> status = ReadBenchOptions(words, &options)) return *status;
  return BenchWorker(options).Run();
}

}  // namespace tutti::tool
