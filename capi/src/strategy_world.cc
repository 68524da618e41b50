// The workers of a strategy as a cluster and a communicator.
#include <tutti/strategy.h>

#include <utility>
#include <vector>

#include "capi/src/guard.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/runtime/multi_worker.h"
#include "core/strategy/strategy.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_strategy_get_cluster(const tutti_strategy *strategy,
                                         tutti_cluster **out_cluster) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, out_cluster);
    Cluster *const cluster = ClusterOf(*FromHandle(strategy));
    *out_cluster = cluster == nullptr ? nullptr : Give(Ref<Cluster>::Retain(cluster));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_communicator(tutti_strategy *strategy,
                                          const tutti_call_options *call_options,
                                          tutti_communicator **out_communicator) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, out_communicator);
    Strategy &object = *FromHandle(strategy);
    Runtime &runtime = Runtime::Of(object.environment());
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCall(call, runtime, call_options));
    const Cluster *const cluster = ClusterOf(object);
    if (cluster == nullptr) {
      Communicator::LocalOptions local;
      local.name = object.name();
      TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Communicator>> alone,
                             Communicator::CreateLocal(&runtime, 1, local));
      *out_communicator = Give(std::move(alone[0]));
      return OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(
        auto shared, runtime.seat().SharedCommunicator(*cluster, [&](const Ref<Cluster> &joined) {
          return CreateCommunicator(runtime, joined, "strategy", wait);
        }));
    *out_communicator = Give(std::move(shared));
    return OkStatus();
  });
}
