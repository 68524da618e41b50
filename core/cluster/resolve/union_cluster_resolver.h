// UnionClusterResolver: several resolvers as one. Its cluster has the jobs of all of them; whatever
// else it is asked, its own options answer, else the first resolver.
//
// The lists of a job that several have are joined in the order of the resolvers. Where one of them
// has gaps in its indices, indices are kept, and one that two of them have is a conflict.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_UNION_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_UNION_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/resolve/cluster_resolver.h"

namespace tutti {

class UnionClusterResolver final : public ClusterResolver {
 public:
  struct Options {
    std::optional<std::string> task_type;
    std::optional<int64_t> task_id;
    std::optional<std::string> rpc_layer;
  };
  // INVALID_ARGUMENT without resolvers.
  static Result<Ref<UnionClusterResolver>> Create(std::vector<Ref<ClusterResolver>> resolvers,
                                                  Options options);

  std::string name() const override { return "UnionResolver"; }
  // NOT_FOUND for a conflict, with the detail "job", and what a resolver fails with.
  Result<ClusterSpec> cluster_spec() const override;
  Result<std::optional<std::string>> task_type() const override;
  Result<std::optional<int64_t>> task_id() const override;
  Result<std::string> rpc_layer() const override;
  // Of the task when both type and id are given, else the first resolver's.
  Result<std::string> master(const std::optional<std::string>& task_type,
                             std::optional<int64_t> task_id,
                             const std::optional<std::string>& rpc_layer) const override;
  Result<AcceleratorCounts> num_accelerators(const std::optional<std::string>& task_type,
                                             std::optional<int64_t> task_id) const override;
  bool counts_devices() const override { return resolvers_[0]->counts_devices(); }
  Result<std::string> environment() const override;
  Result<Ref<ClusterResolver>> Changed(const ResolverChange& change) const override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  UnionClusterResolver(std::vector<Ref<ClusterResolver>> resolvers, Options options);
  ~UnionClusterResolver() override;

  const std::vector<Ref<ClusterResolver>> resolvers_;
  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_UNION_CLUSTER_RESOLVER_H_
