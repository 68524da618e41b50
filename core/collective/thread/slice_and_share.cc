// Slice and share, for large payloads: each rank owns an equal slice of the payload, folds that
// slice of all ranks' inputs, and writes the result into all ranks' outputs. Per rank that is n
// bytes read and n written, whatever the number of ranks.
//
// In place this is safe: a slice of an input is read by the slice's owner alone, before the same
// owner overwrites it. The tensors of a call count as one payload, cut at 64 bytes, so that no two
// ranks write into one cache line of an aligned output.
//
// Staged, what the peers need of a rank lies in a room of the transport, and not in the caller's
// tensors: the rank copies their slices of its input there, they fold from there and write their
// results in the same place, and in the end the rank copies these out. That is twice as many bytes
// moved; but the caller's tensors stay in the caches of the core that writes the inputs and reads
// the outputs, where otherwise each of its stores and loads would have to take a line back from a
// peer. A tensor whose output is its input is never staged: those lines go to the peer and come
// back once a call, as the stage's do.
//
// A slice is worked off in blocks that stay in the first-level cache between the fold and the
// copies. Large outputs that are apart from the inputs are written past the cache, which saves
// fetching lines from memory, or from the other core, that are about to be overwritten. In place
// the fold has just read those lines, so that plain stores are the cheaper ones. So large that no
// cache holds it, the rank's own output is written past it, too, and meanwhile the rank asks for
// what it folds next: a memory that is read and written at once moves more.
//
// Where numerics are checked, a block is looked at when it has been folded, before it is shared:
// what the peers have brought is still there if something is found.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "core/collective/call/fold_check.h"
#include "core/collective/call/memory_parts.h"
#include "core/collective/call/streaming_copy.h"
#include "core/collective/thread/local_algorithms.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kGranuleBytes = 64;
constexpr int64_t kBlockBytes = 16 * 1024;
constexpr int64_t kStreamedGranules = (256 << 10) / kGranuleBytes;
constexpr int64_t kOwnStreamedGranules = (8 << 20) / kGranuleBytes;

int64_t GranulesOf(const TensorSignature& signature) {
  const auto item_bytes = static_cast<int64_t>(ItemSize(signature.dtype));
  return (signature.num_elements() * item_bytes + kGranuleBytes - 1) / kGranuleBytes;
}

// What of an output is written past the cache.
enum class Streams { kNothing, kPeersOutputs, kAllOutputs };

// Of the whole payload.
struct Granules {
  int64_t begin;
  int64_t end;
};

Granules SliceOf(int64_t total, int64_t ranks, int64_t rank) {
  const int64_t begin = total / ranks * rank + std::min(rank, total % ranks);
  return {begin, begin + total / ranks + (rank < total % ranks ? 1 : 0)};
}

// Calls visit(tensor, first element, end) for the parts of that range.
template <typename Visit>
Status ForEachPart(const CallHeader& header, Granules range, const Visit& visit) {
  int64_t granule = 0;
  for (size_t i = 0; i < header.num_tensors && granule < range.end; ++i) {
    const TensorSignature& signature = header.tensor(i);
    const int64_t granules = GranulesOf(signature);
    const int64_t begin = std::max(range.begin, granule) - granule;
    const int64_t end = std::min(range.end, granule + granules) - granule;
    if (begin < end) {
      const auto per_granule = kGranuleBytes / static_cast<int64_t>(ItemSize(signature.dtype));
      TUTTI_RETURN_IF_ERROR(visit(i, begin * per_granule,
                                  std::min(end * per_granule, signature.num_elements())));
    }
    granule += granules;
  }
  return OkStatus();
}

bool IsInPlace(const CollectiveMemory& memory) { return memory.input == memory.output; }

class SliceAndShare {
 public:
  SliceAndShare(LocalGroup& group, int64_t rank, const CollectiveCall& call)
      : group_(group),
        rank_(rank),
        call_(call),
        inputs_(static_cast<size_t>(group.size())),
        shown_(call.memory) {
    for (size_t i = 0; i < call.header.num_tensors; ++i) {
      total_ += GranulesOf(call.header.tensor(i));
    }
    streams_ = total_ >= kOwnStreamedGranules ? Streams::kAllOutputs
               : total_ >= kStreamedGranules  ? Streams::kPeersOutputs
                                              : Streams::kNothing;
  }

  // Peers see no difference: each rank stages for itself. Without the memory for it, it does not.
  void Stage(AlignedRoom* stage) {
    if (!group_.selector().Chooses(CollectiveAlgorithm::kStaged, CollectiveOp::kAllReduce,
                                   total_ * kGranuleBytes) ||
        std::all_of(call_.memory.begin(), call_.memory.end(), IsInPlace) ||
        !stage->Reserve(static_cast<size_t>(total_ * kGranuleBytes))) {
      return;
    }
    staged_.assign(call_.memory.begin(), call_.memory.end());
    std::byte* place = stage->data();
    for (size_t i = 0; i < call_.header.num_tensors; ++i) {
      if (!IsInPlace(staged_[i])) staged_[i] = CollectiveMemory{place, place};
      place += GranulesOf(call_.header.tensor(i)) * kGranuleBytes;
    }
    shown_ = staged_;
  }

  Status Run() {
    TUTTI_RETURN_IF_ERROR(ForEachStagedPart(
        [](const CollectiveMemory& own, const CollectiveMemory& staged, size_t at, size_t bytes) {
          std::memcpy(static_cast<std::byte*>(staged.output) + at,
                      static_cast<const std::byte*>(own.input) + at, bytes);
        }));
    group_.ShowMemory(rank_, call_, shown_);
    group_.ShowFoldCheck(rank_, call_);
    TUTTI_RETURN_IF_ERROR(group_.Meet(rank_, call_, LocalGroup::Access::kPeerMemory));
    checked_ = group_.FoldIsChecked(rank_, call_);
    Status status = FoldSlice();
    if (!status.ok()) status = group_.Fail(std::move(status));
    const Status parted = group_.Part(rank_, call_);
    TUTTI_RETURN_IF_ERROR(status);
    TUTTI_RETURN_IF_ERROR(parted);
    // What a peer has found in its slice, it has found before it parted.
    if (checked_) TUTTI_RETURN_IF_ERROR(group_.failure());
    return ForEachStagedPart(
        [](const CollectiveMemory& own, const CollectiveMemory& staged, size_t at, size_t bytes) {
          std::memcpy(static_cast<std::byte*>(own.output) + at,
                      static_cast<const std::byte*>(staged.input) + at, bytes);
        });
  }

 private:
  // Calls copy(own memory, staged memory, byte offset in both, bytes) for what peers fold.
  template <typename Copy>
  Status ForEachStagedPart(const Copy& copy) const {
    if (staged_.empty()) return OkStatus();
    const auto copy_part = [&](size_t tensor, int64_t first, int64_t end) {
      if (IsInPlace(call_.memory[tensor])) return OkStatus();
      const size_t item_bytes = ItemSize(call_.header.tensor(tensor).dtype);
      copy(call_.memory[tensor], staged_[tensor], static_cast<size_t>(first) * item_bytes,
           static_cast<size_t>(end - first) * item_bytes);
      return OkStatus();
    };
    const Granules own = SliceOf(total_, group_.size(), rank_);
    TUTTI_RETURN_IF_ERROR(ForEachPart(call_.header, {0, own.begin}, copy_part));
    return ForEachPart(call_.header, {own.end, total_}, copy_part);
  }

  Status FoldSlice() {
    Status status = ForEachPart(
        call_.header, SliceOf(total_, group_.size(), rank_),
        [&](size_t tensor, int64_t first, int64_t end) {
          return FoldRange(tensor, first, end);
        });
    StreamingFence();
    return status;
  }

  CollectiveMemory MemoryOf(int64_t rank, size_t tensor) const {
    return rank == rank_ ? call_.memory[tensor] : group_.PeerMemory(rank_, rank, call_, tensor);
  }

  // Folds elements [begin, end) of a tensor into all outputs.
  Status FoldRange(size_t index, int64_t begin, int64_t end) {
    alignas(64) std::byte piece[kBlockBytes];
    const DType dtype = call_.header.tensor(index).dtype;
    const auto item_bytes = static_cast<int64_t>(ItemSize(dtype));
    const int64_t block = kBlockBytes / item_bytes;
    const CollectiveMemory own = call_.memory[index];
    for (int64_t first = begin; first < end; first += block) {
      const int64_t count = std::min(block, end - first);
      const int64_t offset = first * item_bytes;
      const auto bytes = static_cast<size_t>(count * item_bytes);
      for (int64_t peer = 0; peer < group_.size(); ++peer) {
        inputs_[static_cast<size_t>(peer)] =
            static_cast<const std::byte*>(MemoryOf(peer, index).input) + offset;
      }
      std::byte* const output = static_cast<std::byte*>(own.output) + offset;
      const bool apart = streams_ == Streams::kAllOutputs && !IsInPlace(own);
      std::byte* const folded = apart ? piece : output;
      TUTTI_RETURN_IF_ERROR(ReduceInto(call_.header.reduction, dtype, inputs_, count, folded));
      if (checked_) {
        TUTTI_RETURN_IF_ERROR(CheckFolded(call_, rank_,
                                          {call_.sequence, group_.epoch(), &group_.name()},
                                          {index, first, count, folded}, inputs_));
      }
      for (int64_t peer = 0; peer < group_.size(); ++peer) {
        if (peer == rank_ && !apart) continue;
        const CollectiveMemory memory = MemoryOf(peer, index);
        std::byte* destination = static_cast<std::byte*>(memory.output) + offset;
        if (streams_ == Streams::kNothing || IsInPlace(memory)) {
          std::memcpy(destination, folded, bytes);
        } else if (streams_ == Streams::kAllOutputs) {
          StreamingCopyAhead(destination, folded, bytes,
                             static_cast<const std::byte*>(inputs_[static_cast<size_t>(peer)]) +
                                 bytes);
        } else {
          StreamingCopy(destination, folded, bytes);
        }
      }
    }
    return OkStatus();
  }

  LocalGroup& group_;
  const int64_t rank_;
  const CollectiveCall& call_;
  int64_t total_ = 0;  // granules
  Streams streams_ = Streams::kNothing;
  bool checked_ = false;
  std::vector<const void*> inputs_;            // room for one of each rank
  std::vector<CollectiveMemory> staged_;       // empty: nothing is
  std::span<const CollectiveMemory> shown_;    // to the peers
};

}  // namespace

Status SliceAndShareAllReduce(LocalGroup& group, int64_t rank, const CollectiveCall& call,
                              AlignedRoom* stage) {
  // Its memory is there before the ranks have met: then the peers count on this rank's slice.
  SliceAndShare algorithm(group, rank, call);
  algorithm.Stage(stage);
  return algorithm.Run();
}

}  // namespace tutti
