// Chooses the algorithm. The choice depends on the header alone, so that all ranks make the same.

#include "core/collective/local_transport.h"

#include <utility>

#include "core/base/error.h"
#include "core/collective/local_algorithms.h"

namespace tutti {

LocalTransport::LocalTransport(Ref<LocalGroup> group, int64_t rank)
    : group_(std::move(group)), rank_(rank) {}

LocalTransport::~LocalTransport() = default;

Status LocalTransport::Execute(CollectiveCall* call) {
  TUTTI_RETURN_IF_ERROR(group_->failure());
  LocalGroup::Entry& entry = group_->OwnEntry(rank_, call->sequence);
  entry.header = call->header;
  switch (call->header.op) {
    case CollectiveOp::kBarrier:
      return group_->Meet(rank_, *call, LocalGroup::Access::kOwnMemory);
    case CollectiveOp::kAllReduce:
      return FitsFlatFold(*group_, call->header) ? FlatFoldAllReduce(*group_, rank_, *call)
                                                 : SliceAndShareAllReduce(*group_, rank_, *call);
    case CollectiveOp::kBroadcast:
      return CopyBroadcast(*group_, rank_, *call);
    case CollectiveOp::kAllGather:
      if (!call->header.uneven) return Unimplemented("all_gather into a given tensor");
      return ConcatAllGather(*group_, rank_, call);
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kSend:
    case CollectiveOp::kReceive:
      return Unimplemented("{} between the ranks of one process",
                           CollectiveOpName(call->header.op));
    case CollectiveOp::kNone:
      break;
  }
  return Status(StatusCode::kInternal, "local transport: a call without an operation");
}

}  // namespace tutti
