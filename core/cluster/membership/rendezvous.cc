#include "core/cluster/membership/rendezvous.h"

#include <algorithm>

#include "core/base/error.h"

namespace tutti {
namespace {

std::string Build(const Hello& hello) {
  return hello.info.build.empty() ? "of an unknown build" : hello.info.build;
}

Status CheckVersion(const Hello& a, const Hello& b) {
  if (a.major == b.major) return OkStatus();
  return InvalidArgument(
      "worker {} ({}) speaks major version {} of the membership protocol, worker {} ({}) speaks "
      "{}; run the same release of Tutti on all workers",
      a.info.worker, Build(a), a.major, b.info.worker, Build(b), b.major);
}

Status CheckCluster(const Hello& a, const Hello& b) {
  if (a.tasks == b.tasks && a.addresses == b.addresses) return OkStatus();
  const size_t both = std::min(a.tasks.size(), b.tasks.size());
  for (size_t i = 0; i < both; ++i) {
    if (a.tasks[i] == b.tasks[i] && a.addresses[i] == b.addresses[i]) continue;
    return InvalidArgument(
        "workers {} and {} were given different clusters: for worker {} it is {} at {}, for worker "
        "{} it is {} at {} (task {} of the job); give all workers the same cluster specification",
        a.info.worker, b.info.worker, a.info.worker, a.tasks[i], a.addresses[i], b.info.worker,
        b.tasks[i], b.addresses[i], i);
  }
  return InvalidArgument(
      "workers {} and {} were given different clusters: worker {} knows {} tasks, worker {} knows "
      "{}; give all workers the same cluster specification",
      a.info.worker, b.info.worker, a.info.worker, a.tasks.size(), b.info.worker, b.tasks.size());
}

Status CheckReplicas(const Hello& a, const Hello& b) {
  if (a.info.num_replicas == b.info.num_replicas) return OkStatus();
  return InvalidArgument(
      "{} has {} replica{} and {} has {}; every worker of a job needs the same number",
      DescribeWorker(a.info, a.info.host), a.info.num_replicas,
      a.info.num_replicas == 1 ? "" : "s", DescribeWorker(b.info, a.info.host),
      b.info.num_replicas);
}

}  // namespace

Status CheckWorkersFit(const std::vector<const Hello*>& hellos) {
  using Check = Status (*)(const Hello&, const Hello&);
  for (const Check check : {&CheckVersion, &CheckCluster, &CheckReplicas}) {
    for (size_t i = 1; i < hellos.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(check(*hellos[0], *hellos[i]));
    }
  }
  return OkStatus();
}

Status CheckHasSeat(const Hello& hello, const std::vector<std::string>& tasks) {
  if (hello.info.worker >= 0 && hello.info.worker < static_cast<int64_t>(tasks.size())) {
    return OkStatus();
  }
  return InvalidArgument(
      "a process says that it is worker {}, but worker 0 was given a cluster of {} tasks (workers "
      "0 to {}); give all workers the same cluster specification",
      hello.info.worker, tasks.size(), tasks.size() - 1);
}

std::string DescribeSeat(int64_t worker, const std::vector<std::string>& tasks,
                         const std::vector<std::string>& addresses) {
  const auto index = static_cast<size_t>(worker);
  return Format("worker {} ({} at {})", worker, tasks[index], addresses[index]);
}

}  // namespace tutti
