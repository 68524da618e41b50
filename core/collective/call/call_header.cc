#include "core/collective/call/call_header.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

bool SameUnevenSignature(const TensorSignature& a, const TensorSignature& b, int64_t axis) {
  if (a.dtype != b.dtype || a.dims.size() != b.dims.size()) return false;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (static_cast<int64_t>(i) != axis && a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

bool SameSignature(const CallHeader& a, const CallHeader& b, size_t i) {
  if (a.uneven) return SameUnevenSignature(a.tensor(i), b.tensor(i), a.axis);
  return a.tensor(i) == b.tensor(i);
}

// The difference between two headers that are not the same call, as seen by `rank`.
Status DescribeDifference(const CallHeader& mine, int64_t rank, const CallHeader& other,
                          int64_t peer, int64_t sequence) {
  const char* name = CollectiveOpName(mine.named_op());
  if (mine.named_op() != other.named_op()) {
    return InvalidArgument(
        "rank {}: call #{} is {}, rank {} called {}; all ranks must make the same calls in the "
        "same order",
        rank, sequence, name, peer, CollectiveOpName(other.named_op()));
  }
  const bool on_gpus = mine.gpu_op != CollectiveOp::kNone;
  if (on_gpus != (other.gpu_op != CollectiveOp::kNone)) {
    return InvalidArgument(
        "rank {}: {} #{} got tensors on {}, rank {} on {}; let the tensors of a call lie on GPUs "
        "on all ranks, or on the host on all (copy_to)",
        rank, name, sequence, on_gpus ? "a GPU" : "the host", peer, on_gpus ? "the host" : "a GPU");
  }
  if (mine.op != other.op && mine.hints == other.hints) {
    return InvalidArgument(
        "rank {}: {} #{} goes to its peers as {}, that of rank {} as {}; what is "
        "called decides how GPUs reach each other: pass the same dtypes, reduction and "
        "communication options on all ranks",
        rank, name, sequence, CollectiveOpName(mine.op), peer, CollectiveOpName(other.op));
  }
  if (mine.reduction != other.reduction) {
    return InvalidArgument(
        "rank {}: {} #{} reduces with {}, rank {} with {}; pass the same reduction on all ranks",
        rank, name, sequence, ReduceOpName(mine.reduction), peer, ReduceOpName(other.reduction));
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
  if (mine.uneven != other.uneven) {
    return InvalidArgument(
        "rank {}: {} #{} has {} sizes on the ranks, rank {} called it with {} ones; make the same "
        "kind of call on all ranks",
        rank, name, sequence, mine.uneven ? "different" : "equal", peer,
        other.uneven ? "different" : "equal");
  }
  if (mine.hints.implementation != other.hints.implementation) {
    return InvalidArgument(
        "rank {}: {} #{} asks for the communication {}, rank {} for {}; pass the same "
        "communication options on all ranks",
        rank, name, sequence, CommunicationImplementationName(mine.hints.implementation), peer,
        CommunicationImplementationName(other.hints.implementation));
  }
  if (mine.hints.bytes_per_pack != other.hints.bytes_per_pack) {
    return InvalidArgument(
        "rank {}: {} #{} has a bytes_per_pack of {}, rank {} one of {}; pass the same "
        "communication options on all ranks",
        rank, name, sequence, mine.hints.bytes_per_pack, peer, other.hints.bytes_per_pack);
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
      mine.uneven ? Format("dtype and all sizes but that of axis {} must be the same on all ranks",
                           mine.axis)
      : mine.named_op() == CollectiveOp::kScatter
          ? std::string("dtype and shape of the whole must be the same on all ranks")
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

// "sending to rank 1".
std::string DescribeTransfer(const RankPosition& position) {
  return Format("{} rank {}",
                position.transfer == CollectiveOp::kSend ? "sending to" : "receiving from",
                position.transfer_peer);
}

}  // namespace

const char* CollectiveOpName(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kNone: return "none";
    case CollectiveOp::kAllReduce: return "all_reduce";
    case CollectiveOp::kBroadcast: return "broadcast";
    case CollectiveOp::kAllGather: return "all_gather";
    case CollectiveOp::kBarrier: return "barrier";
    case CollectiveOp::kReduce: return "reduce";
    case CollectiveOp::kReduceScatter: return "reduce_scatter";
    case CollectiveOp::kGather: return "gather";
    case CollectiveOp::kScatter: return "scatter";
    case CollectiveOp::kAllToAll: return "all_to_all";
    case CollectiveOp::kSend: return "send";
    case CollectiveOp::kReceive: return "receive";
  }
  return "unknown";
}

std::string TensorSignature::ToString() const {
  return Format("{}{}", DTypeName(dtype), DimsToString(dims.span()));
}

bool SameCall(const CallHeader& a, const CallHeader& b) {
  if (a.op != b.op || a.gpu_op != b.gpu_op || a.num_tensors != b.num_tensors ||
      a.reduction != b.reduction || a.root != b.root || a.axis != b.axis ||
      a.uneven != b.uneven || a.hints != b.hints) {
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
    const int64_t name = label.NameOf(rank);
    const int64_t first = label.NameOf(0);
    Status status =
        DescribeDifference(*headers[rank], name, *headers[0], first, label.sequence);
    return WithCallDetails(std::move(status), name, headers[rank]->named_op(), label)
        .With("peer", first);
  }
  return OkStatus();
}

Status CheckSameTransfer(const CallHeader& send, int64_t from, const CallHeader& receive,
                         int64_t to, const CallLabel& label) {
  if (send.first == receive.first) return OkStatus();
  Status status = InvalidArgument(
      "rank {}: receive #{} from rank {} got a tensor {} to fill, rank {} sent {}; dtype and shape "
      "must be the same on both",
      to, label.sequence, from, receive.first.ToString(), from, send.first.ToString());
  return WithCallDetails(std::move(status), to, receive.op, label).With("peer", from);
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
    if (position.transfer != CollectiveOp::kNone) {
      text += Format("; it is {}", DescribeTransfer(position));
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
    if (position.transfer != CollectiveOp::kNone) {
      text += Format(", is {}", DescribeTransfer(position));
    }
  }
  return text;
}

std::string DescribeAbsence(const RankPosition& position) {
  const std::string rank = DescribeRank(position);
  if (position.transfer != CollectiveOp::kNone) {
    return Format("{}, which is {}", rank, DescribeTransfer(position));
  }
  if (position.in_call && position.last_op != CollectiveOp::kNone) {
    return Format("{}, which is in {} #{}", rank, CollectiveOpName(position.last_op),
                  position.last_sequence);
  }
  return Format("{}, which is in no call; {}", rank, DescribeLastCall(position));
}

}  // namespace tutti
