#include "core/collective/group/until_group_breaks.h"

#include <algorithm>
#include <utility>

#include "core/cluster/job/cluster.h"

namespace tutti {

UntilGroupBreaks::UntilGroupBreaks(Ref<Cluster> cluster, std::vector<MemberId> members, By by,
                                   const CallOptions& call)
    : cluster_(std::move(cluster)),
      members_(std::move(members)),
      by_(by),
      deadline_(call.deadline),
      cancellation_(MakeCancellationOver(call.cancellation)),
      with_caller_(call.cancellation, cancellation_.get()) {
  cluster_listener_ = cluster_->AddListener([this](const ClusterEvent& event) {
    const MemberId member{event.worker, event.arrival};
    const bool concerns =
        event.worker < 0 ||
        (std::find(members_.begin(), members_.end(), member) != members_.end() &&
         (by_ == By::kDepartures || event.status.FindDetail("lost") != nullptr));
    if (concerns) cancellation_->Cancel(event.status);
  });
}

UntilGroupBreaks::~UntilGroupBreaks() { cluster_->RemoveListener(cluster_listener_); }

}  // namespace tutti
