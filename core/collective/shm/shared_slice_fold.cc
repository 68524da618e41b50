// Slice fold: the payload is cut into shares, each of which one rank folds from the inputs of all,
// in rank order, into its output: of a reduce_scatter every rank its own share, of a reduce at the
// root alone everything. A rank copies the shares of the others into its block, in rounds that
// overlap: it copies round k+1 in before it folds round k. Having copied round k in, a rank has
// folded round k-2; so with four rounds side by side, who has waited for all rounds k may overwrite
// round k-2. A small payload travels with the entries. What takes one round takes one meeting.
//
// Two ranks of a reduce_scatter swap their blocks (SharedLayout::copies) with every call, and with
// every four rounds: round k is written where its writer has folded round k-4.
//
// In place this is safe: a rank writes its own share only, which it does not copy in.

#include <algorithm>
#include <array>
#include <cstring>

#include "core/collective/call/streaming_copy.h"
#include "core/collective/shm/shared_algorithms.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kFoldsInBlock = 4;
constexpr int64_t kFoldGranule = SharedPayload::kGranuleBytes;
// Of one share in one round.
constexpr int64_t kLeastShareBytes = 16 << 10;
constexpr int64_t kMostShareBytes = 128 << 10;  // whatever the table says
constexpr int64_t kWantedFolds = 4;
// Results that no cache holds are written past the caches, in pieces of the first-level cache.
constexpr int64_t kFoldedPieceBytes = 16 << 10;
constexpr int64_t kStreamedFoldBytes = 8 << 20;

class SliceFoldCall {
 public:
  SliceFoldCall(SharedGroup& group, int64_t most_slice_bytes, const CollectiveCall& call)
      : group_(group),
        call_(call),
        shares_(call.header.op == CollectiveOp::kReduceScatter ? group.size() : 1),
        item_bytes_(static_cast<int64_t>(ItemSize(call.header.first.dtype))),
        share_bytes_(call.header.first.num_elements() / shares_ * item_bytes_) {
    const auto room =
        static_cast<int64_t>(SharedLayout::kBlockBytes) / (kFoldsInBlock * shares_);
    const int64_t most = std::clamp(most_slice_bytes, kLeastShareBytes, kMostShareBytes);
    const int64_t wanted = std::clamp(share_bytes_ / kWantedFolds, kLeastShareBytes, most);
    slice_bytes_ = std::min(room, wanted) / kFoldGranule * kFoldGranule;
    rounds_ = std::max<int64_t>((share_bytes_ + slice_bytes_ - 1) / slice_bytes_, 1);
    streamed_ = share_bytes_ >= kStreamedFoldBytes && call.memory[0].output != OwnInput(0);
  }

  Status Run() {
    group_.Begin(call_, static_cast<size_t>(shares_ * share_bytes_));
    inlined_ = shares_ * share_bytes_ <= static_cast<int64_t>(group_.inline_room()) &&
               !(SwapsBlocks() && share_bytes_ >= SharedGroup::kSwappedFrom);
    if (inlined_) rounds_ = 1;
    const int64_t awaited = Folds() ? SharedGroup::kAll : call_.header.root;
    CopyIn(0);
    group_.Arrive();
    TUTTI_RETURN_IF_ERROR(group_.Meet());
    for (int64_t round = 0; round < rounds_; ++round) {
      if (round + 1 < rounds_) {
        CopyIn(round + 1);
        group_.Advance(static_cast<uint64_t>(round + 1));
      }
      if (round > 0) {
        TUTTI_RETURN_IF_ERROR(group_.Await(static_cast<uint64_t>(round), awaited));
      }
      if (Folds()) TUTTI_RETURN_IF_ERROR(Fold(round));
    }
    if (streamed_) StreamingFence();
    group_.Finish(static_cast<uint64_t>(rounds_ - 1));
    return OkStatus();
  }

 private:
  bool IsReduce() const { return call_.header.op == CollectiveOp::kReduce; }
  bool Folds() const { return !IsReduce() || group_.rank() == call_.header.root; }
  // There is one share in the block of each.
  bool SwapsBlocks() const { return group_.SwapsCopies() && !IsReduce(); }
  int64_t OwnShare() const { return IsReduce() ? 0 : group_.rank(); }

  const std::byte* OwnInput(int64_t byte) const {
    return static_cast<const std::byte*>(call_.memory[0].input) + OwnShare() * share_bytes_ + byte;
  }
  int64_t SliceBytes(int64_t round) const {
    const int64_t most = inlined_ ? share_bytes_ : slice_bytes_;
    return std::min(most, share_bytes_ - round * most);
  }
  std::byte* Place(int64_t writer, int64_t round, int64_t share) const {
    if (inlined_) return group_.inline_payload(writer) + share * share_bytes_;
    if (SwapsBlocks()) {
      return group_.copies(writer, round / kFoldsInBlock) +
             round % kFoldsInBlock * slice_bytes_;
    }
    return group_.block(writer) + ((round % kFoldsInBlock) * shares_ + share) * slice_bytes_;
  }

  void CopyIn(int64_t round) const {
    if (IsReduce() && Folds()) return;
    const auto* input = static_cast<const std::byte*>(call_.memory[0].input);
    for (int64_t i = 1; i <= shares_; ++i) {
      const int64_t share = (OwnShare() + i) % shares_;
      if (!IsReduce() && share == OwnShare()) continue;
      group_.CopyIn(Place(group_.rank(), round, share),
                    input + share * share_bytes_ + round * slice_bytes_,
                    static_cast<size_t>(SliceBytes(round)));
    }
  }

  Status Fold(int64_t round) {
    const int64_t bytes = SliceBytes(round);
    const int64_t most = streamed_ ? kFoldedPieceBytes : std::max<int64_t>(bytes, 1);
    auto* output = static_cast<std::byte*>(call_.memory[0].output) + round * slice_bytes_;
    for (int64_t done = 0; done < bytes; done += most) {
      const int64_t count = std::min(most, bytes - done);
      for (int64_t peer = 0; peer < group_.size(); ++peer) {
        inputs_[static_cast<size_t>(peer)] =
            peer == group_.rank() ? OwnInput(round * slice_bytes_ + done)
                                  : Place(peer, round, OwnShare()) + done;
      }
      std::byte* folded = streamed_ ? piece_ : output + done;
      TUTTI_RETURN_IF_ERROR(
          ReduceInto(call_.header.reduction, call_.header.first.dtype,
                     std::span(inputs_.data(), static_cast<size_t>(group_.size())),
                     count / item_bytes_, folded, static_cast<size_t>(group_.rank())));
      if (streamed_) {
        StreamingCopyAhead(output + done, piece_, static_cast<size_t>(count),
                           OwnInput(round * slice_bytes_ + done + count));
      }
    }
    return OkStatus();
  }

  SharedGroup& group_;
  const CollectiveCall& call_;
  const int64_t shares_;
  const int64_t item_bytes_;
  const int64_t share_bytes_;
  int64_t slice_bytes_;
  int64_t rounds_;
  bool inlined_ = false;
  bool streamed_;
  alignas(64) std::byte piece_[kFoldedPieceBytes];
  std::array<const void*, kSharedMaxRanks> inputs_;
};

}  // namespace

Status SharedSliceFold(SharedGroup& group, int64_t most_slice_bytes, const CollectiveCall& call) {
  return SliceFoldCall(group, most_slice_bytes, call).Run();
}

}  // namespace tutti
