#include "core/runtime/multi_worker.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/cluster/resolve/cluster_resolver.h"
#include "core/cluster/resolve/http_client.h"
#include "core/collective/group/cluster_team.h"
#include "core/collective/group/communicator_team.h"
#include "core/runtime/runtime.h"
#include "core/strategy/team_channel.h"

namespace tutti {

namespace {

// How many replicas this worker brings, which the workers compare when they meet.
Result<int64_t> CountReplicas(Runtime& runtime, const ClusterResolver& resolver,
                              const std::vector<std::string>& devices) {
  if (!devices.empty()) return static_cast<int64_t>(devices.size());
  const int64_t wanted = runtime.ReadNumber("replicas");
  if (wanted != 0) return wanted;
  TUTTI_ASSIGN_OR_RETURN(const AcceleratorCounts found,
                         resolver.num_accelerators(std::nullopt, std::nullopt));
  const auto here = static_cast<int64_t>(runtime.devices().ListDevices(DeviceType::kGpu).size());
  const auto gpus = found.find("GPU");
  const int64_t promised = gpus != found.end() ? gpus->second : here;
  if (promised > here) {
    return InvalidArgument(
        "MultiWorkerMirroredStrategy: {} says that this worker has {} GPUs, and this machine lists "
        "{}; correct num_accelerators, or name the devices",
        resolver.name(), promised, here);
  }
  return std::max<int64_t>(1, promised);
}

}  // namespace

Result<Ref<Strategy>> CreateMultiWorkerMirrored(Runtime& runtime, const ClusterResolver& resolver,
                                                std::vector<std::string> devices,
                                                const StrategyOptions& options,
                                                const CommunicationOptions& communication,
                                                const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(runtime.CheckUsable("MultiWorkerMirroredStrategy"));
  const AskingScope asking(call, runtime.clock());
  TUTTI_ASSIGN_OR_RETURN(const WorkerOrder order, OrderWorkers(resolver));
  MultiWorkerOptions multi;
  multi.strategy = options;
  multi.communication = communication;
  multi.resolver = Ref<const ClusterResolver>::Retain(&resolver);
  TUTTI_ASSIGN_OR_RETURN(multi.num_replicas, CountReplicas(runtime, resolver, devices));
  multi.devices = std::move(devices);
  if (order.num_workers() > 1) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Cluster> cluster,
                           runtime.JoinCluster(resolver, multi.num_replicas, call));
    TUTTI_ASSIGN_OR_RETURN(multi.team, runtime.seat().Team(*cluster, runtime.transport(),
                                                              runtime.collective_table()));
  } else if (order.num_workers() == 1) {
    runtime.devices().SetTask(order.tasks[0]);
  }
  return Strategy::CreateMultiWorkerMirrored(Ref<Environment>::Retain(&runtime), runtime.devices(),
                                             multi, call);
}

Result<Ref<Strategy>> CreateStrategyOver(Runtime& runtime, Ref<Communicator> communicator,
                                         const StrategyOptions& options, const CallOptions& call) {
  constexpr const char* kWhat = "a strategy over a communicator";
  TUTTI_RETURN_IF_ERROR(runtime.CheckUsable(kWhat));
  MultiWorkerOptions multi;
  multi.strategy = options;
  multi.num_replicas = runtime.ReadNumber("replicas");
  if (multi.num_replicas == 0) {
    const size_t gpus = runtime.devices().ListDevices(DeviceType::kGpu).size();
    multi.num_replicas = std::max<int64_t>(1, static_cast<int64_t>(gpus));
  }
  if (communicator->size() > 1) {
    TUTTI_ASSIGN_OR_RETURN(
        multi.team, CommunicatorTeam::Create(std::move(communicator), multi.num_replicas,
                                             runtime.ReadNumber("reproducible") != 0, call));
  }
  return Strategy::CreateMultiWorkerMirrored(Ref<Environment>::Retain(&runtime), runtime.devices(),
                                             multi, call);
}

Result<Ref<Communicator>> CreateCommunicator(Runtime& runtime, Ref<Cluster> cluster,
                                             std::string_view name, const CallOptions& call) {
  const std::string known(name.empty() ? "communicator" : name);
  if (cluster->elastic()) {
    return Communicator::CreateOfPresent(std::move(cluster), known, 0, runtime.transport(),
                                         runtime.collective_table(), call);
  }
  TUTTI_ASSIGN_OR_RETURN(const int64_t epoch, runtime.seat().NextEpoch(*cluster, known));
  return Communicator::Create(std::move(cluster), known, epoch, runtime.transport(),
                              runtime.collective_table(), call);
}

Cluster* ClusterOf(const Strategy& strategy) {
  TeamChannel* const channel = strategy.team_channel();
  if (channel == nullptr) return nullptr;
  auto* const team = dynamic_cast<ClusterTeam*>(&channel->team());
  return team == nullptr ? nullptr : &team->cluster();
}

}  // namespace tutti
