// Gathers into a new tensor, all_gather and gather: once everybody is here, each rank that is to
// have the result joins all inputs, whatever their strides and sizes along the axis.

#include <utility>
#include <vector>

#include "core/collective/thread/local_algorithms.h"
#include "core/tensor/concat.h"

namespace tutti {

Status ConcatGather(LocalGroup& group, int64_t rank, CollectiveCall* call) {
  group.OwnEntry(rank, call->sequence).gather_input = call->gather_input;
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, *call, LocalGroup::Access::kPeerMemory));
  const LocalGroup::PartsAtEnd parts(group, rank, *call);
  Status status;
  if (call->header.op == CollectiveOp::kAllGather || rank == call->header.root) {
    std::vector<const Tensor*> inputs;
    for (int64_t peer = 0; peer < group.size(); ++peer) {
      inputs.push_back(group.PeerEntry(peer, call->sequence).gather_input);
    }
    Result<Ref<Tensor>> joined =
        Concat(inputs, static_cast<size_t>(call->header.axis), call->unzeroed());
    status = joined.status();
    if (joined.ok()) {
      call->gathered = std::move(joined).value();
    } else {
      status = group.Fail(std::move(status));
    }
  }
  return status;
}

}  // namespace tutti
