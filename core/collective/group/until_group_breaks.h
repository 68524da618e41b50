// What a wait for other members of a group listens to besides its caller: the end of the job, and
// where a group needs all of its members, their leaving. Whoever waits for the answer of a peer
// that is gone learns of it at once.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_UNTIL_GROUP_BREAKS_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_UNTIL_GROUP_BREAKS_H_

#include <cstdint>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/cluster/membership/worker_info.h"
#include "core/collective/communicator/cancels_with.h"

namespace tutti {

class Cluster;

class UntilGroupBreaks {
 public:
  enum class By {
    kLosses,      // a member has died
    kDepartures,  // or left in good order: where nobody is done before all are
  };
  UntilGroupBreaks(Ref<Cluster> cluster, std::vector<MemberId> members, By by,
                   const CallOptions& call);
  ~UntilGroupBreaks();
  UntilGroupBreaks(const UntilGroupBreaks&) = delete;
  UntilGroupBreaks& operator=(const UntilGroupBreaks&) = delete;

  // The caller's, whose cancellation any of it throws as well; good as long as this object.
  CallOptions options() const { return CallOptions{deadline_, cancellation_.get()}; }

 private:
  const Ref<Cluster> cluster_;
  const std::vector<MemberId> members_;
  const By by_;
  const Deadline deadline_;
  const Ref<Cancellation> cancellation_;
  const CancelsWith with_caller_;
  uint64_t cluster_listener_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_UNTIL_GROUP_BREAKS_H_
