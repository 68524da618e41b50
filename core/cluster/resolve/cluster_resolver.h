// ClusterResolver: asks whoever manages the machines which cluster this process belongs to and
// which task it is. The reference's tf.distribute.cluster_resolver.ClusterResolver. Every call asks
// anew. Threads: any.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/resolve/cluster_spec.h"

namespace tutti {

// "GPU" -> 2.
using AcceleratorCounts = std::map<std::string, int64_t>;

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
  // Empty everywhere but where a resolver's user says otherwise.
  virtual Result<std::string> environment() const { return std::string(); }
};

// The workers of the job that the resolver describes and this process's place among them. An empty
// cluster gives an empty order: this process is alone. INVALID_ARGUMENT where the resolver has a
// cluster and does not say which task this is; else as OrderWorkers(cluster, task).
Result<WorkerOrder> OrderWorkers(const ClusterResolver& resolver);

// "grpc://address", or the address where there is no RPC layer or no address.
std::string FormatMaster(const std::string& address, const std::string& rpc_layer);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_RESOLVER_H_
