#include "core/collective/call_header.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

bool SameGatherSignature(const TensorSignature& a, const TensorSignature& b, int64_t axis) {
  if (a.dtype != b.dtype || a.dims.size() != b.dims.size()) return false;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (static_cast<int64_t>(i) != axis && a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

bool SameSignature(const CallHeader& a, const CallHeader& b, size_t i) {
  if (a.op == CollectiveOp::kAllGather) {
    return SameGatherSignature(a.tensor(i), b.tensor(i), a.axis);
  }
  return a.tensor(i) == b.tensor(i);
}

// The difference between two headers that are not the same call, as seen by `rank`.
Status DescribeDifference(const CallHeader& mine, int64_t rank, const CallHeader& other,
                          int64_t peer, int64_t sequence) {
  const char* name = CollectiveOpName(mine.op);
  if (mine.op != other.op) {
    return InvalidArgument(
        "rank {}: call #{} is {}, rank {} called {}; all ranks must make the same calls in the "
        "same order",
        rank, sequence, name, peer, CollectiveOpName(other.op));
  }
  if (mine.op == CollectiveOp::kAllReduce && mine.reduction != other.reduction) {
    return InvalidArgument(
        "rank {}: all_reduce #{} reduces with {}, rank {} with {}; pass the same reduction on all "
        "ranks",
        rank, sequence, ReduceOpName(mine.reduction), peer, ReduceOpName(other.reduction));
  }
  if (mine.root != other.root) {
    return InvalidArgument(
        "rank {}: {} #{} has root {}, rank {} has root {}; pass the same root on all ranks", rank,
        name, sequence, mine.root, peer, other.root);
  }
  if (mine.axis != other.axis) {
    return InvalidArgument(
        "rank {}: {} #{} joins along axis {}, rank {} along axis {}; pass the same axis on all "
        "ranks",
        rank, name, sequence, mine.axis, peer, other.axis);
  }
  if (mine.num_tensors != other.num_tensors) {
    return InvalidArgument(
        "rank {}: {} #{} got {} tensors, rank {} sent {}; pass as many on all ranks", rank, name,
        sequence, mine.num_tensors, peer, other.num_tensors);
  }
  size_t index = 0;
  while (SameSignature(mine, other, index)) ++index;
  const std::string which = mine.num_tensors == 1 ? "" : Format(" tensor {}:", index);
  const std::string rule =
      mine.op == CollectiveOp::kAllGather
          ? Format("dtype and all sizes but that of axis {} must be the same on all ranks",
                   mine.axis)
          : std::string("dtype and shape must be the same on all ranks");
  return InvalidArgument("rank {}: {} #{}{} got {}, rank {} sent {}; {}", rank, name, sequence,
                         which, mine.tensor(index).ToString(), peer,
                         other.tensor(index).ToString(), rule)
      .With("index", index);
}

std::string DescribeRank(const RankPosition& position) {
  if (position.who.empty()) return Format("rank {}", position.rank);
  return Format("rank {} ({})", position.rank, position.who);
}

std::string DescribeLastCall(const RankPosition& position) {
  if (position.last_op == CollectiveOp::kNone) return "it has made no call yet";
  return Format("its last call was #{} {}", position.last_sequence,
                CollectiveOpName(position.last_op));
}

}  // namespace

const char* CollectiveOpName(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kNone: return "none";
    case CollectiveOp::kAllReduce: return "all_reduce";
    case CollectiveOp::kBroadcast: return "broadcast";
    case CollectiveOp::kAllGather: return "all_gather";
    case CollectiveOp::kBarrier: return "barrier";
  }
  return "unknown";
}

std::string TensorSignature::ToString() const {
  return Format("{}{}", DTypeName(dtype), DimsToString(dims.span()));
}

bool SameCall(const CallHeader& a, const CallHeader& b) {
  if (a.op != b.op || a.num_tensors != b.num_tensors || a.reduction != b.reduction ||
      a.root != b.root || a.axis != b.axis) {
    return false;
  }
  for (size_t i = 0; i < a.num_tensors; ++i) {
    if (!SameSignature(a, b, i)) return false;
  }
  return true;
}

Status WithCallDetails(Status status, int64_t rank, CollectiveOp op, const CallLabel& label) {
  return std::move(status)
      .With("rank", rank)
      .With("op", CollectiveOpName(op))
      .With("sequence", label.sequence)
      .With("epoch", label.epoch)
      .With("communicator", *label.group_name);
}

Status CheckSameCall(std::span<const CallHeader* const> headers, const CallLabel& label) {
  for (size_t rank = 1; rank < headers.size(); ++rank) {
    if (SameCall(*headers[rank], *headers[0])) continue;
    Status status = DescribeDifference(*headers[rank], static_cast<int64_t>(rank), *headers[0], 0,
                                       label.sequence);
    return WithCallDetails(std::move(status), static_cast<int64_t>(rank), headers[rank]->op, label)
        .With("peer", 0);
  }
  return OkStatus();
}

std::string DescribeMissing(std::span<const RankPosition> ranks) {
  std::string text;
  for (const RankPosition& position : ranks) {
    if (position.arrived) continue;
    if (!text.empty()) text += ", and for ";
    if (position.in_call) {
      text += Format("{}, which is in the call but has not done its part", DescribeRank(position));
    } else {
      text += Format("{}, which has not called; {}", DescribeRank(position),
                     DescribeLastCall(position));
    }
  }
  return text;
}

std::string DescribePositions(std::span<const RankPosition> ranks) {
  std::string text;
  for (const RankPosition& position : ranks) {
    if (!text.empty()) text += ", ";
    if (position.last_op == CollectiveOp::kNone) {
      text += Format("{}: no call yet", DescribeRank(position));
    } else {
      text += Format("{}: #{} {}{}", DescribeRank(position), position.last_sequence,
                     CollectiveOpName(position.last_op), position.arrived ? " (waits)" : "");
    }
  }
  return text;
}

}  // namespace tutti
