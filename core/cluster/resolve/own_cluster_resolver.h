// OwnClusterResolver: a resolver of the program's, in whatever language, whose answers are texts.
// It is asked anew at each question. Threads: any that its answerer takes.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_OWN_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_OWN_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/resolve/cluster_resolver.h"

namespace tutti {

class OwnClusterResolver final : public ClusterResolver {
 public:
  struct Options {
    std::string name = "ClusterResolver";  // for messages
    // The words of a question are what is asked, a task's type and id and an RPC layer, empty where
    // they are not given: "cluster_spec" (JSON), "task_type", "task_id", "rpc_layer",
    // "environment", "master" (the address), "num_accelerators" (JSON). An empty answer: it does
    // not say, and a master is then the address of the task in the cluster.
    Answerer answer;
    // Beat the answers.
    std::optional<std::string> task_type;
    std::optional<int64_t> task_id;
    std::optional<std::string> rpc_layer;
  };
  explicit OwnClusterResolver(Options options);

  std::string name() const override { return options_.name; }
  // INVALID_ARGUMENT for an answer that cannot be read, and what the answerer fails with.
  Result<ClusterSpec> cluster_spec() const override;
  Result<std::optional<std::string>> task_type() const override;
  Result<std::optional<int64_t>> task_id() const override;
  Result<std::string> rpc_layer() const override;
  Result<std::string> master(const std::optional<std::string>& task_type,
                             std::optional<int64_t> task_id,
                             const std::optional<std::string>& rpc_layer) const override;
  Result<AcceleratorCounts> num_accelerators(const std::optional<std::string>& task_type,
                                             std::optional<int64_t> task_id) const override;
  Result<std::string> environment() const override;
  Result<Ref<ClusterResolver>> Changed(const ResolverChange& change) const override;

 private:
  ~OwnClusterResolver() override;
  Result<std::string> Ask(const char* what, const std::optional<std::string>& task_type = {},
                          std::optional<int64_t> task_id = {},
                          const std::optional<std::string>& rpc_layer = {}) const;

  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_OWN_CLUSTER_RESOLVER_H_
