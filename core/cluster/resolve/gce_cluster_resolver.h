// GCEClusterResolver: asks Google Compute Engine for the running instances of a group, anew at each
// access. On an instance it needs the group's name alone: project, zone and token are the metadata
// server's (GCE_METADATA_HOST says where it is, by default metadata.google.internal). The tasks are
// in the natural order of the instances' names. Threads: any.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_GCE_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_GCE_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/cluster/resolve/cluster_resolver.h"
#include "core/cluster/resolve/http_client.h"

namespace tutti {

class GceClusterResolver final : public ClusterResolver {
 public:
  using Variables = const char* (*)(const char* name);

  struct Options {
    std::string project;  // empty: this instance's
    std::string zone;     // likewise
    std::string instance_group;
    int64_t port = 8470;
    std::string task_type = "worker";
    int64_t task_id = 0;
    std::string rpc_layer = "grpc";
    std::string token;  // empty: this instance's account's
    // Gives the token at each question, {"token"}, instead.
    Answerer credentials;
    // Asked instead of the service: {"list_instances", project, zone, group, the page, empty for
    // the first one} and {"get_instance", project, zone, name}; gives JSON as the service's.
    Answerer service;
    std::string endpoint = "https://compute.googleapis.com";
    std::string ca_file;          // empty: the system's
    int64_t timeout_ms = 30'000;  // of each access
    Variables variables = nullptr;  // null: the process's own
  };
  // INVALID_ARGUMENT without a group, and for a port that is none.
  static Result<Ref<GceClusterResolver>> Create(Options options);

  std::string name() const override { return "GCEClusterResolver"; }
  // Fails as AskService.
  Result<ClusterSpec> cluster_spec() const override;
  Result<std::optional<std::string>> task_type() const override {
    return std::optional<std::string>(options_.task_type);
  }
  Result<std::optional<int64_t>> task_id() const override {
    return std::optional<int64_t>(options_.task_id);
  }
  Result<std::string> rpc_layer() const override { return options_.rpc_layer; }
  Result<std::string> master(const std::optional<std::string>& task_type,
                             std::optional<int64_t> task_id,
                             const std::optional<std::string>& rpc_layer) const override;
  Result<AcceleratorCounts> num_accelerators(const std::optional<std::string>& task_type,
                                             std::optional<int64_t> task_id) const override {
    (void)task_type, (void)task_id;
    return AcceleratorCounts();
  }
  Result<Ref<ClusterResolver>> Changed(const ResolverChange& change) const override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);

  explicit GceClusterResolver(Options options);
  ~GceClusterResolver() override;

  Result<std::string> AskMetadata(const char* path, HttpDeadline deadline) const;
  Result<std::string> Token(HttpDeadline deadline) const;

  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_GCE_CLUSTER_RESOLVER_H_
