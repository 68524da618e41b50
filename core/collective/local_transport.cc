// Chooses the algorithm. The choice depends on the header alone, so that all ranks make the same.

#include "core/collective/local_transport.h"

#include <utility>

#include "core/collective/local_algorithms.h"

namespace tutti {

LocalTransport::LocalTransport(Ref<LocalGroup> group, int64_t rank)
    : group_(std::move(group)), rank_(rank) {}

LocalTransport::~LocalTransport() = default;

Status LocalTransport::Execute(CollectiveCall* call) {
  TUTTI_RETURN_IF_ERROR(group_->failure());
  const CollectiveOp op = call->header.op;
  if (op == CollectiveOp::kSend || op == CollectiveOp::kReceive) {
    return group_->Transfer(rank_, *call);
  }
  LocalGroup::Entry& entry = group_->OwnEntry(rank_, call->sequence);
  entry.header = call->header;
  switch (op) {
    case CollectiveOp::kBarrier:
      return group_->Meet(rank_, *call, LocalGroup::Access::kOwnMemory);
    case CollectiveOp::kAllReduce:
      return FitsFlatFold(*group_, call->header) ? FlatFold(*group_, rank_, *call)
                                                 : SliceAndShareAllReduce(*group_, rank_, *call);
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
      return FitsFlatFold(*group_, call->header) ? FlatFold(*group_, rank_, *call)
                                                 : SliceFold(*group_, rank_, *call);
    case CollectiveOp::kAllGather:
      return call->header.uneven ? ConcatGather(*group_, rank_, call)
                                 : Pull(*group_, rank_, *call);
    case CollectiveOp::kAllToAll:
      return call->header.uneven ? UnevenAllToAll(*group_, rank_, call)
                                 : Pull(*group_, rank_, *call);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return Pull(*group_, rank_, *call);
    case CollectiveOp::kGather:
      return ConcatGather(*group_, rank_, call);
    case CollectiveOp::kSend:
    case CollectiveOp::kReceive:
    case CollectiveOp::kNone:
      break;
  }
  return Status(StatusCode::kInternal, "local transport: a call without an operation");
}

}  // namespace tutti
