// What a rank says about a call before anything is exchanged, and how ranks agree that they are in
// the same one. Pure functions: every rank that sees the same headers comes to the same verdict.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_CALL_HEADER_H_
#define TUTTI_CORE_COLLECTIVE_CALL_CALL_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/communication_hints.h"
#include "core/tensor/dtype.h"
#include "core/tensor/reduce.h"
#include "core/tensor/shape.h"

namespace tutti {

// At most 15: the number shares a word with the sequence.
enum class CollectiveOp : int32_t {
  kNone = 0,
  kAllReduce = 1,
  kBroadcast = 2,
  kAllGather = 3,
  kBarrier = 4,
  kReduce = 5,
  kReduceScatter = 6,
  kGather = 7,
  kScatter = 8,
  kAllToAll = 9,
  // Between two ranks; they have numbers of their own (CollectiveCall::sequence counts those of the
  // pair in that direction) and are no part of the group's sequence.
  kSend = 10,
  kReceive = 11,
};
inline constexpr CollectiveOp kLastCollectiveOp = CollectiveOp::kReceive;

// "all_reduce" and so on; static.
const char* CollectiveOpName(CollectiveOp op);

struct TensorSignature {
  DType dtype = DType::kInvalid;
  Dims dims;

  int64_t num_elements() const {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return count;
  }
  std::string ToString() const;  // "float32[4,2]"
  friend bool operator==(const TensorSignature& a, const TensorSignature& b) = default;
};

struct CallHeader {
  CollectiveOp op = CollectiveOp::kNone;
  ReduceOp reduction = ReduceOp::kSum;  // of all_reduce, reduce, reduce_scatter
  int64_t root = 0;                     // of broadcast, reduce, gather, scatter
  int64_t axis = 0;                     // of all_gather and gather: what is joined along it
  // The sizes along `axis` may differ between ranks, and the result is a new tensor: all_gather and
  // gather, unless the joined tensor is given, and an all_to_all whose ranks say themselves how
  // many rows go where (its axis is 0).
  bool uneven = false;
  CommunicationHints hints;  // an algorithm may be chosen by them
  // Of tensors that lie on GPUs, on all ranks of the call: what is called; kNone for tensors of the
  // host. It is another one than `op` where only headers are exchanged (gpu_ranks.h). Of a
  // transfer: that this rank's tensor can go from a GPU to another (CollectiveCall::make_room).
  CollectiveOp gpu_op = CollectiveOp::kNone;
  size_t num_tensors = 0;
  TensorSignature first;              // of one tensor or more
  std::vector<TensorSignature> rest;  // of the others; num_tensors - 1 of them count

  CollectiveOp named_op() const { return gpu_op != CollectiveOp::kNone ? gpu_op : op; }
  const TensorSignature& tensor(size_t i) const { return i == 0 ? first : rest[i - 1]; }
};

// Whether both describe the same call. Where `uneven`, all sizes but that of the axis are compared.
bool SameCall(const CallHeader& a, const CallHeader& b);

// What messages and details say about a call.
struct CallLabel {
  int64_t sequence = 0;
  int64_t epoch = 0;
  const std::string* group_name = nullptr;
  // What the ranks that compare are in the group that the call is of; null or empty: the same.
  const std::vector<int64_t>* names = nullptr;

  int64_t NameOf(size_t rank) const {
    return names == nullptr || names->empty() ? static_cast<int64_t>(rank) : (*names)[rank];
  }
};

// OK when headers[rank] describe the same call on all ranks; otherwise INVALID_ARGUMENT that names
// the first rank that differs from rank 0 and both sides, equal on all ranks.
Status CheckSameCall(std::span<const CallHeader* const> headers, const CallLabel& label);

// The same for a pair: OK when the tensor that rank `from` sends is the one that rank `to` expects;
// otherwise INVALID_ARGUMENT that names both, whichever of them finds it.
Status CheckSameTransfer(const CallHeader& send, int64_t from, const CallHeader& receive,
                         int64_t to, const CallLabel& label);

// Adds rank, op, sequence, epoch and the communicator's name as details.
Status WithCallDetails(Status status, int64_t rank, CollectiveOp op, const CallLabel& label);

// Where a rank is, as a peer sees it.
struct RankPosition {
  int64_t rank = 0;
  bool arrived = false;
  CollectiveOp last_op = CollectiveOp::kNone;  // of its last call; kNone before the first
  int64_t last_sequence = 0;
  bool in_call = false;  // it has come to the call, but has not done its part of it
  std::string who = {};  // "worker 1, pid 4711"; may be empty
  // The transfer that it is in (kSend, kReceive) and the other rank of it; kNone when in none.
  CollectiveOp transfer = CollectiveOp::kNone;
  int64_t transfer_peer = -1;
};

// "rank 2 (worker 2, pid 4711), which has not called; its last call was #40 barrier": the ranks
// that have not arrived. "; it is sending to rank 1" goes on behind it.
std::string DescribeMissing(std::span<const RankPosition> ranks);
// "rank 0: #41 all_reduce (waits), rank 1: #40 barrier, is sending to rank 0": every rank.
std::string DescribePositions(std::span<const RankPosition> ranks);
// What a rank that a transfer waits for does instead: "rank 1, which is in all_reduce #5", "rank 1,
// which is sending to rank 2", "rank 1, which is in no call; its last call was #40 barrier".
// `position.in_call`: it waits in its last call.
std::string DescribeAbsence(const RankPosition& position);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_CALL_HEADER_H_
