#include "core/collective/until_group_breaks.h"

#include <algorithm>
#include <utility>

#include "core/cluster/cluster.h"

namespace tutti {

bool UntilGroupBreaks::PollCaller(void* caller) {
  return static_cast<Cancellation*>(caller)->PollNow();
}

UntilGroupBreaks::UntilGroupBreaks(Ref<Cluster> cluster, std::vector<MemberId> members, By by,
                                   const CallOptions& call)
    : cluster_(std::move(cluster)), members_(std::move(members)), by_(by), call_(call) {
  Cancellation* const caller = call_.cancellation;
  cancellation_ = caller != nullptr && caller->is_polled()
                      ? MakeRef<Cancellation>(&PollCaller, caller, Ref<const RefCounted>())
                      : MakeRef<Cancellation>();
  if (caller != nullptr) {
    caller_listener_ = caller->AddListener(
        [this] { cancellation_->Cancel(call_.cancellation->reason()); });
  }
  cluster_listener_ = cluster_->AddListener([this](const ClusterEvent& event) {
    const MemberId member{event.worker, event.arrival};
    const bool concerns =
        event.worker < 0 ||
        (std::find(members_.begin(), members_.end(), member) != members_.end() &&
         (by_ == By::kDepartures || event.status.FindDetail("lost") != nullptr));
    if (concerns) cancellation_->Cancel(event.status);
  });
}

UntilGroupBreaks::~UntilGroupBreaks() {
  cluster_->RemoveListener(cluster_listener_);
  if (call_.cancellation != nullptr) call_.cancellation->RemoveListener(caller_listener_);
}

}  // namespace tutti
