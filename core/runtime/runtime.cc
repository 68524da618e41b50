#include "core/runtime/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/log.h"
#include "core/base/memory_account.h"
#include "core/base/real_environment.h"
#include "core/base/recorder.h"
#include "core/base/thread.h"
#include "core/base/usable_cores.h"
#include "core/cluster/resolve/cluster_resolver.h"
#include "core/cluster/resolve/http_client.h"
#include "core/cluster/resolve/tf_config_cluster_resolver.h"
#include "core/cluster/sockets/local_address.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/debugging/assertion_function.h"
#include "core/debugging/dump_writer.h"
#include "core/debugging/numerics_observer.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {
namespace {

// The process's own state. Never destroyed.
struct Process {
  std::mutex mutex;  // guards all below
  Ref<Runtime> default_runtime;
  bool default_ended = false;  // for good
  // Released without shutdown while threads ran; each holds no reference any more.
  std::vector<Environment*> orphans;
};

Process& TheProcess() {
  static Process* const process = new Process();
  return *process;
}

constexpr const char* kTableSetting = "collective_table";
constexpr std::string_view kRowsPrefix = "rows:";

const char* VariableOfProcess(const char* name) { return std::getenv(name); }

Status CheckNotForked(std::string_view what) {
  if (!InForkedChild()) return OkStatus();
  return FailedPrecondition(
      "{}: this process was forked off while a runtime was running, and has none of its threads; "
      "start workers as fresh processes (spawn or exec), or fork before the first use",
      what);
}

}  // namespace

Runtime::Runtime(Ref<Environment> world)
    : world_(std::move(world)), functions_(MakeRef<FunctionRegistry>()) {
  SetServices(ServicesOf(*world_));
  (void)AddAssertionKind(functions_.get());  // nobody has added one before
}

Runtime::~Runtime() = default;

Result<Ref<Runtime>> Runtime::Create(const RuntimeOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckNotForked("starting a runtime"));
  Ref<Environment> world = options.world;
  if (!world) world = MakeRef<RealEnvironment>();
  auto runtime = MakeRef<Runtime>(std::move(world));
  TUTTI_RETURN_IF_ERROR(runtime->Start(options));
  return runtime;
}

Status Runtime::Start(const RuntimeOptions& options) {
  TUTTI_RETURN_IF_ERROR(settings_.Load(options.settings, &VariableOfProcess, disk()));
  const auto devices = static_cast<int>(settings_.Number("logical_cpu_devices"));
  DeviceSetOptions device_options;
  device_options.logical_gpus = static_cast<int>(settings_.Number("logical_gpu_devices"));
  TUTTI_ASSIGN_OR_RETURN(device_options.cuda_plugin, settings_.Text("cuda_plugin"));
  // The log is the world's, which outlives the devices.
  device_options.log = [log = &log()](LogLevel level, std::string_view line) {
    log->Write(level, line);
  };
  TUTTI_ASSIGN_OR_RETURN(devices_, DeviceSet::Create(devices, &memory(), device_options));
  TUTTI_ASSIGN_OR_RETURN(const std::string table, settings_.Text(kTableSetting));
  TUTTI_ASSIGN_OR_RETURN(table_, ReadTable(table));
  ApplySettings();
  if (const int64_t port = settings_.Number("metrics_port"); port != 0) {
    // Nobody wants to lose a training for want of its metrics.
    const Status serves = metrics_.Start(*this, static_cast<uint16_t>(port));
    if (!serves.ok()) log().Warning(serves.message());
  }
  // It looks at nothing until somebody says so.
  InstallTensorChecker(MakeRef<NumericsObserver>());
  // Of a process once: its variables are what they were for the next runtime.
  static std::once_flag told;
  std::call_once(told, [this] {
    for (const std::string& misspelt : Settings::FindMisspelt(environ)) log().Warning(misspelt);
  });
  return OkStatus();
}

Result<std::shared_ptr<const SelectorTable>> Runtime::ReadTable(std::string_view value) {
  const std::string text(Trim(value));
  if (text.empty()) return SelectorTable::BuiltIn();
  if (text.starts_with(kRowsPrefix)) {
    return SelectorTable::Parse(std::string_view(text).substr(kRowsPrefix.size()),
                                "setting collective_table");
  }
  Result<std::string> rows = disk().ReadFile(text);
  if (!rows.ok()) {
    return rows.status()
        .WithPrefix("the file of the setting collective_table")
        .With("key", kTableSetting);
  }
  return SelectorTable::Parse(*rows, text);
}

std::shared_ptr<const SelectorTable> Runtime::collective_table() const {
  std::shared_ptr<const SelectorTable> table;
  {
    const std::lock_guard<std::mutex> lock(table_mutex_);
    table = table_;
  }
  return settings_.Number("reproducible") != 0 ? SelectorTable::Reproducible(*table) : table;
}

void Runtime::ApplySettings() {
  log().set_level(settings_.Level("log_level"));
  memory().set_limit_bytes(static_cast<uint64_t>(settings_.Number("memory_limit")));
  const int64_t timeout_ns = settings_.Number("default_timeout");
  set_default_timeout_ns(timeout_ns == 0 ? kNeverNs : timeout_ns);
  SetFlightRecordDirectory(*settings_.Text("flight_recorder_dir"));
  devices_->set_soft_placement(settings_.Number("soft_device_placement") != 0);
}

Status Runtime::Set(std::string_view key, std::string_view value) {
  TUTTI_RETURN_IF_ERROR(CheckUsable("changing a setting"));
  std::shared_ptr<const SelectorTable> table;
  if (key == kTableSetting) {
    TUTTI_ASSIGN_OR_RETURN(table, ReadTable(value));
  }
  TUTTI_RETURN_IF_ERROR(settings_.Change(key, value));
  if (table) {
    const std::lock_guard<std::mutex> lock(table_mutex_);
    table_ = std::move(table);
  }
  ApplySettings();
  return OkStatus();
}

int64_t Runtime::compute_threads() const {
  const int64_t threads = settings_.Number("compute_threads");
  return threads != 0 ? threads : static_cast<int64_t>(UsableCores());
}

Ref<DatasetEnvironment> Runtime::datasets() {
  return DatasetEnvironment::Create(Ref<Environment>::Retain(this), functions_);
}

Result<Ref<Cluster>> Runtime::JoinCluster(const ClusterResolver& resolver, int64_t num_replicas,
                                          const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckUsable("joining a cluster"));
  const AskingScope asking(call, clock());
  TUTTI_ASSIGN_OR_RETURN(WorkerOrder order, OrderWorkers(resolver));
  if (order.num_workers() == 0) {  // the program runs by itself: a job of one
    order.worker = 0;
    order.tasks = {"worker:0"};
    order.addresses = {"127.0.0.1:0"};
  }
  ClusterOptions options;
  options.worker = order.worker;
  options.num_replicas =
      num_replicas != 0 ? num_replicas : std::max<int64_t>(1, settings_.Number("replicas"));
  options.usable_cores = static_cast<int64_t>(UsableCores());
  const bool loopback_only =
      std::all_of(order.addresses.begin(), order.addresses.end(), &IsLoopbackAddress);
  const std::string task = order.tasks[static_cast<size_t>(order.worker)];  // "worker:1"
  options.tasks = std::move(order.tasks);
  options.addresses = std::move(order.addresses);
  if (options.tasks.size() > 1) {
    TUTTI_ASSIGN_OR_RETURN(options.secret, JobSecret::Find(loopback_only, &VariableOfProcess));
  }
  options.elastic = settings_.Number("elastic") != 0;
  const int64_t silence_ns = settings_.Number("silence_limit");
  options.silence_limit_ns = silence_ns == 0 ? kNeverNs : silence_ns;
  const int64_t warning_ns = settings_.Number("join_warning");
  options.join_warning_ns = warning_ns == 0 ? kNeverNs : warning_ns;
  CallOptions limits = call;
  const int64_t join_ns = settings_.Number("join_timeout");
  if (limits.deadline.is_infinite() && join_ns != 0) {
    limits.deadline = Deadline::After(clock(), join_ns);
  }
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Cluster> cluster,
      seat_.Take(Ref<Environment>::Retain(this), std::move(options), limits));
  recorder().SetProcess(cluster->job_id(), cluster->worker());
  devices_->SetTask(task);
  SetDumpedWorker(cluster->worker(), task);
  return cluster;
}

std::string Runtime::PlaceInJob() const {
  const auto place = [](int64_t worker, int64_t num_workers, const char* why) {
    return num_workers < 2
               ? std::string()
               : Format("worker {} of {} of a job{}", worker, num_workers, why);
  };
  if (const Ref<Cluster> cluster = seat_.current()) {
    return place(cluster->worker(), cluster->num_workers(), "");
  }
  const Ref<TFConfigClusterResolver> resolver =
      MakeRef<TFConfigClusterResolver>(TFConfigClusterResolver::Options());
  const Result<WorkerOrder> order = OrderWorkers(*resolver);
  return order.ok() ? place(order->worker, order->num_workers(), ", as TF_CONFIG says") : "";
}

Result<Thread> Runtime::StartThread(std::string_view name, Task task) {
  TUTTI_RETURN_IF_ERROR(CheckUsable(name));
  return world_->StartThread(name, std::move(task));
}

bool Runtime::HasThreads() const { return world_->HasThreads(); }

Status Runtime::OnShutdown(const CallOptions& options) {
  functions_->Clear();
  const Status metrics = metrics_.Stop(options);
  seat_.Clear();
  std::vector<Environment*> orphans;
  {
    std::lock_guard<std::mutex> lock(TheProcess().mutex);
    orphans.swap(TheProcess().orphans);
  }
  Status first = world_->Shutdown(options);
  if (first.ok()) first = metrics;
  for (Environment* const orphan : orphans) {
    orphan->Retain();  // the last release comes again, and finds nothing left to join
    Status status = orphan->Shutdown(options);
    if (first.ok()) first = std::move(status).WithPrefix("a runtime released without shutdown");
    orphan->Release();
  }
  // The host's sink has seen the last line.
  Status sink = log().SetSink(nullptr, options);
  if (first.ok()) first = std::move(sink);
  return first;
}

void Runtime::OnLastRelease() const noexcept {
  if (LeftBehindByFork()) return;
  // Gives callbacks up while there is a thread to free them on.
  functions_->Clear();
  if (!world_->HasThreads()) {
    delete this;
    return;
  }
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  TheProcess().orphans.push_back(const_cast<Runtime*>(this));
}

Result<Ref<Runtime>> Runtime::Default() {
  TUTTI_RETURN_IF_ERROR(CheckNotForked("the default runtime"));
  Ref<Runtime> former;  // given up after the lock
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  Ref<Runtime>& current = TheProcess().default_runtime;
  if (current && current->is_closed()) former = std::move(current);
  if (!current) {
    if (TheProcess().default_ended) {
      return FailedPrecondition(
          "the default runtime has ended with the process, which is about to exit; end the threads "
          "that use it before the program ends");
    }
    TUTTI_ASSIGN_OR_RETURN(current, Create());
  } else if (current->is_shut_down()) {
    return FailedPrecondition(
        "the default runtime is being shut down, or its shutdown ran out of time; wait for the "
        "shutdown, or call it again, before you use it anew");
  }
  return current;
}

Ref<Runtime> Runtime::DefaultIfRunning() {
  if (InForkedChild()) return nullptr;
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  const Ref<Runtime>& current = TheProcess().default_runtime;
  return current && !current->is_shut_down() ? current : nullptr;
}

Status Runtime::ShutdownDefault(const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckNotForked("shutdown"));
  Ref<Runtime> current;
  {
    std::lock_guard<std::mutex> lock(TheProcess().mutex);
    current = TheProcess().default_runtime;
  }
  if (!current) return OkStatus();
  TUTTI_RETURN_IF_ERROR(current->Shutdown(options));
  Ref<Runtime> former;  // given up after the lock
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  if (TheProcess().default_runtime == current) former = std::move(TheProcess().default_runtime);
  return OkStatus();
}

Status Runtime::EndDefault(const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckNotForked("shutdown"));
  {
    std::lock_guard<std::mutex> lock(TheProcess().mutex);
    TheProcess().default_ended = true;
  }
  return ShutdownDefault(options);
}

}  // namespace tutti
