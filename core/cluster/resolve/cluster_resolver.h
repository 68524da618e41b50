// ClusterResolver: asks whoever manages the machines which cluster this process belongs to and
// which task it is. The reference's tf.distribute.cluster_resolver.ClusterResolver. Every call asks
// anew. Threads: any.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/resolve/cluster_spec.h"

namespace tutti {

// "GPU" -> 2.
using AcceleratorCounts = std::map<std::string, int64_t>;

// The program's own answers to the questions of a resolver, and in the place of a service or its
// credentials: of the words of a question ("list_pods", a label selector, the page) a text, empty
// where there is nothing to say. It may be called from any thread, several at a time.
using Answerer = std::function<Result<std::string>(const std::vector<std::string>& question)>;

// What is set afterwards; what is unset stays as it is.
struct ResolverChange {
  std::optional<std::string> task_type;
  std::optional<int64_t> task_id;
  std::optional<std::string> rpc_layer;

  template <typename Options>
  Options On(Options options) const {
    if (task_type) options.task_type = *task_type;
    if (task_id) options.task_id = *task_id;
    if (rpc_layer) options.rpc_layer = *rpc_layer;
    return options;
  }
};

class ClusterResolver : public RefCounted {
 public:
  // "SimpleClusterResolver", for messages.
  virtual std::string name() const = 0;

  virtual Result<ClusterSpec> cluster_spec() const = 0;
  // Unset where the resolver does not say.
  virtual Result<std::optional<std::string>> task_type() const = 0;
  virtual Result<std::optional<int64_t>> task_id() const = 0;
  virtual Result<std::string> rpc_layer() const = 0;
  // The address of a task, with the RPC layer before it: "grpc://10.0.0.1:2222". Arguments that are
  // unset are the resolver's own.
  virtual Result<std::string> master(const std::optional<std::string>& task_type,
                                     std::optional<int64_t> task_id,
                                     const std::optional<std::string>& rpc_layer) const = 0;
  // Accelerators of one worker by their type. A resolver cannot count devices (that room is above):
  // counts are given to its constructor; none means no accelerators.
  virtual Result<AcceleratorCounts> num_accelerators(const std::optional<std::string>& task_type,
                                                     std::optional<int64_t> task_id) const = 0;
  // Whether a resolver that says nothing of accelerators leaves them to be counted here.
  virtual bool counts_devices() const { return true; }
  // Empty everywhere but where a resolver's user says otherwise.
  virtual Result<std::string> environment() const { return std::string(); }
  // The same resolver, which says this of the task instead.
  virtual Result<Ref<ClusterResolver>> Changed(const ResolverChange& change) const = 0;
};

// The workers of the job that the resolver describes and this process's place among them. An empty
// cluster gives an empty order: this process is alone. INVALID_ARGUMENT where the resolver has a
// cluster and does not say which task this is; else as OrderWorkers(cluster, task).
Result<WorkerOrder> OrderWorkers(const ClusterResolver& resolver);

// Of {"GPU": 2}, and the reverse; INVALID_ARGUMENT, which `what` begins. No text: none.
Result<AcceleratorCounts> ParseAccelerators(std::string_view json, std::string_view what);
std::string AcceleratorsToJson(const AcceleratorCounts& counts);

// "grpc://address", or the address where there is no RPC layer or no address.
std::string FormatMaster(const std::string& address, const std::string& rpc_layer);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_RESOLVER_H_
