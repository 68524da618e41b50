// ClusterTeam: the workers of a job, each in a process of its own.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_CLUSTER_TEAM_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_CLUSTER_TEAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/collective_transport.h"
#include "core/collective/group/worker_team.h"

namespace tutti {

class Cluster;

class ClusterTeam final : public WorkerTeam {
 public:
  // `transport` is the same on all workers; of `table` (null: the built-in one) worker 0's holds,
  // but that one worker's is reproducible makes it so for all.
  static Ref<ClusterTeam> Create(Ref<Cluster> cluster,
                                 CollectiveTransport transport = CollectiveTransport::kAuto,
                                 std::shared_ptr<const SelectorTable> table = nullptr);

  Cluster& cluster() const { return *cluster_; }

  int64_t worker() const override;
  int64_t num_workers() const override;
  std::string Describe(int64_t worker) const override;
  int64_t replicas_on_this_machine() const override;
  Result<std::vector<std::string>> Exchange(std::string_view key, std::string bytes,
                                            const CallOptions& call) override;
  Result<Ref<Communicator>> CreateCommunicator(
      std::string_view name, int64_t epoch, const CallOptions& call,
      std::optional<CollectiveTransport> transport = std::nullopt) override;
  bool reproducible() const override;
  Status failure() const override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  ClusterTeam(Ref<Cluster> cluster, CollectiveTransport transport,
              std::shared_ptr<const SelectorTable> table);
  ~ClusterTeam() override;

  const Ref<Cluster> cluster_;
  const CollectiveTransport transport_;
  const std::shared_ptr<const SelectorTable> table_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_CLUSTER_TEAM_H_
