// This process's seat in a cluster.
#include "core/cluster/job/cluster.h"

#include <tutti/cluster.h>

#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/cluster_resolver.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/cluster/resolve/cluster_resolver.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_cluster_join(tutti_runtime *runtime, const tutti_cluster_resolver *resolver,
                                 const tutti_cluster_options *options,
                                 const tutti_call_options *call_options,
                                 tutti_cluster **out_cluster) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_cluster);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    if (set.num_replicas < 0) {
      return InvalidArgument("{}: the option num_replicas is {}; expected 1 or more", call.function,
                             set.num_replicas);
    }
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCall(call, *root, call_options));
    TUTTI_ASSIGN_OR_RETURN(auto cluster, root->JoinCluster(*ResolverOrTfConfig(resolver),
                                                           set.num_replicas, wait));
    *out_cluster = Give(std::move(cluster));
    return OkStatus();
  });
}

int64_t tutti_cluster_get_worker(const tutti_cluster *cluster) {
  return cluster == nullptr ? -1 : FromHandle(cluster)->worker();
}

int64_t tutti_cluster_get_worker_count(const tutti_cluster *cluster) {
  return cluster == nullptr ? 0 : FromHandle(cluster)->num_workers();
}

tutti_status *tutti_cluster_describe_worker(const tutti_cluster *cluster, int64_t worker,
                                            tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, cluster, out_text);
    const Cluster &object = *FromHandle(cluster);
    if (worker < 0 || worker >= object.num_workers()) {
      return InvalidArgument("{}: worker is {}; expected 0 to {}", call.function, worker,
                             object.num_workers() - 1);
    }
    *out_text = GiveBytes(object.Describe(worker));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_check(const tutti_cluster *cluster) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, cluster);
    return FromHandle(cluster)->failure();
  });
}

void tutti_cluster_abort(tutti_cluster *cluster, const char *message) {
  if (cluster == nullptr) return;
  FromHandle(cluster)->Abort(AbortReason(__func__, message));
}

void tutti_cluster_fail(tutti_cluster *cluster, const char *message) {
  if (cluster == nullptr) return;
  FromHandle(cluster)->Fail(AbortReason(__func__, message));
}

tutti_status *tutti_cluster_close(tutti_cluster *cluster, const tutti_call_options *call_options) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    if (cluster == nullptr) return OkStatus();
    Cluster &object = *FromHandle(cluster);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCallToClose(call, object.environment(), call_options));
    return object.Close(wait);
  });
}

void tutti_cluster_retain(const tutti_cluster *cluster) { RetainHandle(cluster); }
void tutti_cluster_release(const tutti_cluster *cluster) { ReleaseHandle(cluster); }
