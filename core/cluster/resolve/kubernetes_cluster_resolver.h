// KubernetesClusterResolver: asks the API server for the pods of each job, anew at each access.
//
// In a pod it needs nothing but the labels: the address is in KUBERNETES_SERVICE_HOST and
// KUBERNETES_SERVICE_PORT_HTTPS, and the service account's folder has the token (which is read for
// each question, as it is replaced while the pod lives), the certificates and the namespace. The
// account needs the right to list pods. Pods are in the natural order of their names, and all must
// be running. The task that is nobody's is the pod whose name is this machine's, where it is among
// them. A client of the program's may be asked instead. Threads: any.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_KUBERNETES_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_KUBERNETES_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cluster/resolve/cluster_resolver.h"
#include "core/cluster/resolve/http_client.h"

namespace tutti {

class KubernetesClusterResolver final : public ClusterResolver {
 public:
  using Variables = const char* (*)(const char* name);

  struct Options {
    // Job -> label selectors, whose pods follow each other; empty: worker -> job-name=tensorflow.
    std::map<std::string, std::vector<std::string>> job_labels;
    int64_t port = 8470;  // of each task
    std::string rpc_layer = "grpc";
    bool host_ip = false;  // the address of the pod's node
    std::string account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    std::string name_space;  // empty: the account's
    int64_t timeout_ms = 30'000;  // of each access
    std::optional<std::string> task_type;
    std::optional<int64_t> task_id;
    // Asked instead of the API server: {"list_pods", the label selector, the page, empty for the
    // first one}; gives the JSON of a PodList.
    Answerer client;
    Variables variables = nullptr;  // null: the process's own
  };
  // INVALID_ARGUMENT for a port that is none.
  static Result<Ref<KubernetesClusterResolver>> Create(Options options);
  // Of {"worker": ["job-name=a", "job-name=b"]}; INVALID_ARGUMENT, which `what` begins.
  static Result<std::map<std::string, std::vector<std::string>>> ParseLabels(std::string_view json,
                                                                             std::string_view what);

  std::string name() const override { return "KubernetesClusterResolver"; }
  // FAILED_PRECONDITION naming a pod that is not running, and outside of pods; else as AskService.
  Result<ClusterSpec> cluster_spec() const override;
  Result<std::optional<std::string>> task_type() const override;
  Result<std::optional<int64_t>> task_id() const override;
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
  struct Pod {
    std::string name;
    std::string address;
  };

  explicit KubernetesClusterResolver(Options options);
  ~KubernetesClusterResolver() override;

  Result<std::string> ReadAccount(const char* file) const;
  Result<std::string> Variable(const char* name) const;
  Result<std::string> PodsUrl(const std::string& label) const;
  // A page of pods, as JSON; once more with a new token where the old one ended meanwhile.
  Result<std::string> AskForPods(const std::string& url, HttpDeadline deadline) const;
  Result<std::vector<Pod>> ListPods(const std::string& label, HttpDeadline deadline) const;
  Result<std::map<std::string, std::vector<Pod>>> ListJobs() const;
  Result<std::optional<std::pair<std::string, int64_t>>> FindTask() const;

  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_KUBERNETES_CLUSTER_RESOLVER_H_
