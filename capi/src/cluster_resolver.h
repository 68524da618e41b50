// What functions turn a resolver that may be NULL into.
#ifndef TUTTI_CAPI_SRC_CLUSTER_RESOLVER_H_
#define TUTTI_CAPI_SRC_CLUSTER_RESOLVER_H_

#include <tutti/cluster.h>

#include "core/base/ref.h"
#include "core/cluster/resolve/cluster_resolver.h"

namespace tutti::capi {

// NULL: the one that reads TF_CONFIG.
Ref<ClusterResolver> ResolverOrTfConfig(const tutti_cluster_resolver *resolver);

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_CLUSTER_RESOLVER_H_
