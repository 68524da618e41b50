#include "core/cluster/resolve/union_cluster_resolver.h"

#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

// A job of one of the specs; nothing where it has none of that name.
struct JobPart {
  std::vector<int64_t> indices;
  std::vector<std::string> addresses;
  bool IsList() const {
    return indices.empty() || indices.back() + 1 == static_cast<int64_t>(indices.size());
  }
};

Status AddJoined(const std::string& job, const std::vector<JobPart>& parts, ClusterSpec* joined) {
  TUTTI_RETURN_IF_ERROR(joined->AddJob(job));
  bool lists = true;
  for (const JobPart& part : parts) lists = lists && part.IsList();
  int64_t next = 0;
  std::map<int64_t, std::string> taken;
  for (const JobPart& part : parts) {
    for (size_t i = 0; i < part.indices.size(); ++i) {
      const int64_t index = lists ? next++ : part.indices[i];
      if (const auto [other, is_new] = taken.emplace(index, part.addresses[i]); !is_new) {
        return NotFound("UnionResolver: two of the clusters have a task {}:{} ({} and {}); where "
                        "indices have gaps, each may come once",
                        job, index, Quote(other->second), Quote(part.addresses[i]))
            .With("job", job);
      }
      TUTTI_RETURN_IF_ERROR(joined->AddTask(job, index, part.addresses[i]));
    }
  }
  return OkStatus();
}

}  // namespace

Result<Ref<UnionClusterResolver>> UnionClusterResolver::Create(
    std::vector<Ref<ClusterResolver>> resolvers, Options options) {
  if (resolvers.empty()) {
    return InvalidArgument("UnionResolver: no cluster resolver is given; expected at least one");
  }
  return MakeRef<UnionClusterResolver>(std::move(resolvers), std::move(options));
}

UnionClusterResolver::UnionClusterResolver(std::vector<Ref<ClusterResolver>> resolvers,
                                           Options options)
    : resolvers_(std::move(resolvers)), options_(std::move(options)) {}

UnionClusterResolver::~UnionClusterResolver() = default;

Result<ClusterSpec> UnionClusterResolver::cluster_spec() const {
  std::map<std::string, std::vector<JobPart>> parts;
  for (const Ref<ClusterResolver>& resolver : resolvers_) {
    TUTTI_ASSIGN_OR_RETURN(const ClusterSpec spec, resolver->cluster_spec());
    for (const std::string& job : spec.jobs()) {
      JobPart part;
      TUTTI_ASSIGN_OR_RETURN(part.indices, spec.task_indices(job));
      for (const int64_t index : part.indices) {
        TUTTI_ASSIGN_OR_RETURN(std::string address, spec.task_address(job, index));
        part.addresses.push_back(std::move(address));
      }
      parts[job].push_back(std::move(part));
    }
  }
  ClusterSpec joined;
  for (const auto& [job, own] : parts) TUTTI_RETURN_IF_ERROR(AddJoined(job, own, &joined));
  return joined;
}

Result<std::optional<std::string>> UnionClusterResolver::task_type() const {
  if (options_.task_type) return options_.task_type;
  return resolvers_[0]->task_type();
}

Result<std::optional<int64_t>> UnionClusterResolver::task_id() const {
  if (options_.task_id) return options_.task_id;
  return resolvers_[0]->task_id();
}

Result<std::string> UnionClusterResolver::rpc_layer() const {
  if (options_.rpc_layer) return *options_.rpc_layer;
  return resolvers_[0]->rpc_layer();
}

Result<std::string> UnionClusterResolver::master(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id,
    const std::optional<std::string>& rpc_layer) const {
  TUTTI_ASSIGN_OR_RETURN(const std::string own_layer, this->rpc_layer());
  const std::string layer = rpc_layer.value_or(own_layer);
  if (!task_type || !task_id) return resolvers_[0]->master(std::nullopt, std::nullopt, layer);
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec cluster, cluster_spec());
  TUTTI_ASSIGN_OR_RETURN(const std::string address, cluster.task_address(*task_type, *task_id));
  return FormatMaster(address, layer);
}

Result<AcceleratorCounts> UnionClusterResolver::num_accelerators(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id) const {
  return resolvers_[0]->num_accelerators(task_type, task_id);
}

Result<std::string> UnionClusterResolver::environment() const {
  return resolvers_[0]->environment();
}

Result<Ref<ClusterResolver>> UnionClusterResolver::Changed(
    const ResolverChange& change) const {
  return Ref<ClusterResolver>(MakeRef<UnionClusterResolver>(resolvers_, change.On(options_)));
}

}  // namespace tutti
