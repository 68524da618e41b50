// Runtime: makes and owns what a process (or one worker in it) needs: an environment, devices,
// registered functions, the configuration. C's tutti_runtime* is a pointer to one.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Runtime> runtime, Runtime::Default());   // started at first use
//   TUTTI_ASSIGN_OR_RETURN(auto digits, Dataset::Range(runtime->datasets(), ...));
//   TUTTI_RETURN_IF_ERROR(runtime->Shutdown(options));                  // of Environment
//
// The runtime is itself the environment that all objects made with it hold, so that it lives as
// long as they do; one that has joined a cluster lives until it is shut down. A runtime that is
// released without shutdown while it has threads is kept aside, and joined by the next shutdown of
// any runtime. Nothing of it is destroyed at exit: a process that ends without shutdown joins
// nothing.

#ifndef TUTTI_CORE_RUNTIME_RUNTIME_H_
#define TUTTI_CORE_RUNTIME_RUNTIME_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/select/selector.h"
#include "core/device/device.h"
#include "core/function/function_registry.h"
#include "core/runtime/cluster_seat.h"
#include "core/runtime/metrics_port.h"
#include "core/runtime/settings.h"

namespace tutti {

class ClusterResolver;
class DatasetEnvironment;

struct RuntimeOptions {
  // These beat variables, file and defaults.
  Settings::KeyValues settings;
  // What the runtime stands on; null: the machine. Shut down with the runtime.
  Ref<Environment> world;
};

class Runtime final : public Environment {
 public:
  // INVALID_ARGUMENT for settings that are wrong, FAILED_PRECONDITION in a forked child.
  static Result<Ref<Runtime>> Create(const RuntimeOptions& options = {});

  // The process's default runtime, made at the first call and again after its shutdown.
  // FAILED_PRECONDITION while it is being shut down.
  static Result<Ref<Runtime>> Default();
  // Null when it is not running.
  static Ref<Runtime> DefaultIfRunning();
  // OK when it is not running. When it fails, the default runtime stays as it is, and this can be
  // called again.
  static Status ShutdownDefault(const CallOptions& options);
  // The same, and Default() is FAILED_PRECONDITION from now on: threads that go on while the
  // process ends start nothing behind its back.
  static Status EndDefault(const CallOptions& options);

  // The runtime that an object's environment is. Of objects made with a runtime only.
  static Runtime& Of(Environment& environment) { return static_cast<Runtime&>(environment); }

  DeviceSet& devices() const { return *devices_; }
  FunctionRegistry& functions() const { return *functions_; }
  // What datasets hold of the runtime. A new object each time: it keeps the runtime alive, so the
  // runtime cannot keep it.
  Ref<DatasetEnvironment> datasets();

  // This runtime's seat in the cluster that `resolver` describes, with so many replicas (0: the
  // setting replicas, else one); taken at the first call (cluster_seat.h) and kept until shutdown.
  // Without a deadline the setting join_timeout is one. An empty cluster is one of this process
  // alone.
  Result<Ref<Cluster>> JoinCluster(const ClusterResolver& resolver, int64_t num_replicas,
                                   const CallOptions& call);

  // "worker 1 of 3 of a job" for a process that sits in a cluster of several, or that TF_CONFIG
  // says to be one of several; else empty.
  std::string PlaceInJob() const;

  ClusterSeat& seat() { return seat_; }
  // How workers exchange tensors, as the setting transport says.
  CollectiveTransport transport() const {
    return static_cast<CollectiveTransport>(settings_.Number("transport"));
  }

  // Which algorithms collectives take, as the settings collective_table and reproducible say; never
  // null.
  std::shared_ptr<const SelectorTable> collective_table() const;

  // Settings by name: see Settings. What is changed takes effect at once.
  Status Set(std::string_view key, std::string_view value);
  Result<std::string> ReadSetting(std::string_view key) const { return settings_.Text(key); }
  // Of a setting that is a count.
  int64_t ReadNumber(std::string_view key) const { return settings_.Number(key); }
  std::string DescribeSettings() const { return settings_.ToJson(); }
  // The setting wait_warning; kNeverNs: never.
  int64_t wait_warning_ns() const {
    const int64_t warning_ns = settings_.Number("wait_warning");
    return warning_ns == 0 ? kNeverNs : warning_ns;
  }
  // Threads for the host's arithmetic in all: the setting compute_threads, or the usable cores.
  int64_t compute_threads() const;

  Result<Thread> StartThread(std::string_view name, Task task) override;
  bool HasThreads() const override;

 protected:
  Status OnShutdown(const CallOptions& options) override;
  void OnLastRelease() const noexcept override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  explicit Runtime(Ref<Environment> world);
  ~Runtime() override;

  Status Start(const RuntimeOptions& options);
  void ApplySettings();
  // What a value of the setting collective_table means.
  Result<std::shared_ptr<const SelectorTable>> ReadTable(std::string_view value);

  const Ref<Environment> world_;
  Settings settings_;
  Ref<DeviceSet> devices_;
  const Ref<FunctionRegistry> functions_;
  ClusterSeat seat_;
  MetricsPort metrics_;
  mutable std::mutex table_mutex_;  // guards table_
  std::shared_ptr<const SelectorTable> table_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_RUNTIME_H_
