// Do the workers of a job fit together? And the sentences that say why not, which every worker of
// the job gets to read: the same on all of them.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_RENDEZVOUS_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/cluster/membership/membership_messages.h"

namespace tutti {

// Compares all against the first: major versions, clusters, numbers of replicas, in this order.
// INVALID_ARGUMENT names two workers that do not fit, and what each has. `hellos` may lack workers
// that have not come.
Status CheckWorkersFit(const std::vector<const Hello*>& hellos);

// INVALID_ARGUMENT for a hello that has no place in a cluster of these tasks.
Status CheckHasSeat(const Hello& hello, const std::vector<std::string>& tasks);

// "worker 2 (worker:1 at 10.0.0.3:2222)".
std::string DescribeSeat(int64_t worker, const std::vector<std::string>& tasks,
                         const std::vector<std::string>& addresses);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_RENDEZVOUS_H_
