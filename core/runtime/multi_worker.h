// A MultiWorkerMirrored strategy from what a user has: a resolver that says who the workers are,
// and the runtime's settings.

#ifndef TUTTI_CORE_RUNTIME_MULTI_WORKER_H_
#define TUTTI_CORE_RUNTIME_MULTI_WORKER_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"
#include "core/strategy/strategy.h"

namespace tutti {

class Cluster;
class ClusterResolver;
class Runtime;

// The replicas of all workers of the resolver's cluster, or of this process alone where the cluster
// is empty or has one worker. Without `devices`: as many logical CPUs (or GPUs) as the setting
// replicas says, else all GPUs, else the CPU. Waits for the other workers as JoinCluster does.
Result<Ref<Strategy>> CreateMultiWorkerMirrored(Runtime& runtime, const ClusterResolver& resolver,
                                                std::vector<std::string> devices,
                                                const StrategyOptions& options,
                                                const CommunicationOptions& communication,
                                                const CallOptions& call);

// The replicas of the ranks of `communicator`, each of which calls it: as many for each as the
// setting replicas says, else its GPUs, else the CPU. Its workers are the ranks, and what it needs
// is split from the communicator, whose end is the strategy's. So an elastic job has one, and the
// next when the communicator has shrunk or grown.
Result<Ref<Strategy>> CreateStrategyOver(Runtime& runtime, Ref<Communicator> communicator,
                                         const StrategyOptions& options, const CallOptions& call);

// One rank per worker of `cluster`, which is the runtime's own, over what the setting transport
// says. Every worker makes the same calls in the same order; the same name again (empty:
// "communicator") begins the next epoch.
Result<Ref<Communicator>> CreateCommunicator(Runtime& runtime, Ref<Cluster> cluster,
                                             std::string_view name, const CallOptions& call);

// The cluster that the workers of a strategy sit in; null for a strategy of this process alone.
Cluster* ClusterOf(const Strategy& strategy);

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_MULTI_WORKER_H_
