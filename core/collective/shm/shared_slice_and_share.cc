// Slice and share, for all but small payloads, in rounds. A round is a stretch of the payload, cut
// into a slice per rank. Each rank copies the others' slices of its input into the segment; folds
// its own slice of all ranks, in rank order, into its output and into the segment; and copies the
// other folded slices out. Per rank that is about n bytes written to the segment and 2n read,
// whatever the number of ranks.
//
// Rounds overlap: a rank copies round k in before it folds round k-1 and takes the results of round
// k-2, so that what it waits for has usually been there for a while. The steps of round k are
//
//   copied in: 2k      folded: 2k + 3
//
// which grow in the order in which a rank takes them. Three rounds lie in the segment side by side:
// round k overwrites what was copied in for round k-3, which everybody has folded, because this
// rank has taken its results; and a rank that folds round k overwrites its result of k-3, which
// everybody has taken, because all have copied round k in.
//
// A rank's results lie in its own block; or, where the choice of the stores finds that faster, in
// the place of what they were folded of: in the blocks of the others, each of whom takes them where
// it has copied its input in, before it copies anything there again. Each rank says which when it
// arrives.
//
// In place this is safe: a stretch of the input is copied or folded before it is overwritten.
//
// A reduce goes the same way, but only its root takes results; the others wait for them as if they
// did.
//
// Outputs that are apart from the inputs, and so large that no cache may hold what all ranks write,
// are written past the caches: otherwise each line would first be fetched from memory. (Where a
// cache holds it after all, the choice of the stores may find that, too.) While it
// writes them, a rank asks for the inputs that it will read next: a memory that is read and written
// at once moves a quarter more than one that is read and written in turns.

#include <algorithm>
#include <array>
#include <cstring>

#include "core/collective/call/fold_check.h"
#include "core/collective/call/streaming_copy.h"
#include "core/collective/shm/shared_algorithms.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kSharedGranule = SharedPayload::kGranuleBytes;
constexpr int64_t kRoundsInBlock = 3;
// Of a slice of one round: large enough that meeting costs little, small enough to overlap several
// rounds. Where a second-level cache just holds what a rank reads and writes, slices leave it room;
// what is larger than that comes from further away whatever they do.
constexpr int64_t kLeastSliceBytes = 16 << 10;
constexpr int64_t kEasilyCachedBytes = 512 << 10;
constexpr int64_t kJustCachedBytes = int64_t{5} << 18;

int64_t WantedSliceBytes(int64_t bytes, int64_t ranks) {
  if (bytes <= kEasilyCachedBytes) return std::min<int64_t>(bytes / (2 * ranks), 64 << 10);
  if (bytes <= kJustCachedBytes) return 32 << 10;
  return bytes / (4 * ranks);
}

// A slice is folded in pieces that stay in the first-level cache until they have been copied, of
// large payloads together with what is asked for meanwhile.
constexpr int64_t kPieceBytes = 16 << 10;
constexpr int64_t kStreamedPieceBytes = 8 << 10;
constexpr int64_t kStreamedBytes = 8 << 20;

class SliceAndShareCall {
 public:
  SliceAndShareCall(SharedGroup& group, const SharedPayload& payload, int64_t most_slice_bytes,
                const CollectiveCall& call)
      : group_(group), payload_(payload), call_(call) {
    const int64_t ranks = group.size();
    const auto room = static_cast<int64_t>(SharedLayout::kBlockBytes) / (kRoundsInBlock * ranks);
    const int64_t wanted = WantedSliceBytes(payload.bytes(), ranks);
    const int64_t most =
        std::min(room, std::clamp(wanted, kLeastSliceBytes, most_slice_bytes)) / kSharedGranule;
    rounds_ = std::max<int64_t>((payload.granules() + most * ranks - 1) / (most * ranks), 1);
    // Rounds of equal size.
    slice_ = (payload.granules() + rounds_ * ranks - 1) / (rounds_ * ranks);
    has_output_ = TakesResults(group.rank());
    large_ = payload.bytes() >= kStreamedBytes;
  }

  Status Run() {
    group_.Begin(call_, static_cast<size_t>(payload_.granules() * kSharedGranule),
                 large_ ? SharedGroup::Writes::kLargeResults : SharedGroup::Writes::kResults);
    for (int64_t step = 0; step < rounds_ + 2; ++step) {
      if (step < rounds_) {
        TUTTI_RETURN_IF_ERROR(CopyIn(step));
        if (step == 0) {
          group_.Arrive();
        } else {
          group_.Advance(CopiedIn(step));
        }
      }
      if (step >= 1 && step - 1 < rounds_) {
        TUTTI_RETURN_IF_ERROR(step == 1 ? group_.Meet() : group_.Await(CopiedIn(step - 1)));
        if (step == 1) checked_ = group_.FoldIsChecked();
        TUTTI_RETURN_IF_ERROR(Fold(step - 1));
        group_.Advance(Folded(step - 1));
      }
      if (step >= 2) {
        TUTTI_RETURN_IF_ERROR(group_.Await(Folded(step - 2)));
        TUTTI_RETURN_IF_ERROR(CopyOut(step - 2));
      }
    }
    if (large_) StreamingFence();
    group_.Finish(Folded(rounds_ - 1));
    return OkStatus();
  }

 private:
  struct Range {
    int64_t begin;
    int64_t end;
  };

  static uint64_t CopiedIn(int64_t round) { return static_cast<uint64_t>(2 * round); }
  static uint64_t Folded(int64_t round) { return static_cast<uint64_t>(2 * round + 3); }

  Range Slice(int64_t round, int64_t rank) const {
    const int64_t first = (round * group_.size() + rank) * slice_;
    return Range{std::min(first, payload_.granules()),
                 std::min(first + slice_, payload_.granules())};
  }
  // The place of a slice in the block of the rank that writes it there.
  std::byte* Place(int64_t writer, int64_t round, int64_t slice) const {
    return group_.block(writer) +
           ((round % kRoundsInBlock) * group_.size() + slice) * slice_ * kSharedGranule;
  }
  const std::byte* Input(size_t tensor, int64_t byte) const {
    return static_cast<const std::byte*>(call_.memory[tensor].input) + byte;
  }
  std::byte* Output(size_t tensor, int64_t byte) const {
    return static_cast<std::byte*>(call_.memory[tensor].output) + byte;
  }
  bool TakesResults(int64_t rank) const {
    return call_.header.op != CollectiveOp::kReduce || rank == call_.header.root;
  }
  int64_t ItemBytes(size_t tensor) const {
    return static_cast<int64_t>(ItemSize(call_.header.tensor(tensor).dtype));
  }

  bool IsStreamed(size_t tensor) const {
    return large_ && has_output_ && !group_.writes_all_through_caches() &&
           call_.memory[tensor].input != call_.memory[tensor].output;
  }

  Status CopyIn(int64_t round) {
    for (int64_t i = 1; i < group_.size(); ++i) {
      const int64_t owner = (group_.rank() + i) % group_.size();
      std::byte* place = Place(group_.rank(), round, owner);
      const Range range = Slice(round, owner);
      TUTTI_RETURN_IF_ERROR(payload_.ForEach(
          range.begin, range.end,
          [&](size_t tensor, int64_t first, int64_t elements, int64_t offset) {
            const int64_t item_bytes = ItemBytes(tensor);
            group_.CopyIn(place + offset, Input(tensor, first * item_bytes),
                          static_cast<size_t>(elements * item_bytes));
            return OkStatus();
          }));
    }
    return OkStatus();
  }

  Status Fold(int64_t round) {
    const int64_t own = group_.rank();
    std::byte* result = Place(own, round, own);
    const bool in_inputs = group_.HasResultsInInputs(own);
    const Range range = Slice(round, own);
    return payload_.ForEach(
        range.begin, range.end,
        [&](size_t tensor, int64_t first, int64_t elements, int64_t offset) {
          const int64_t item_bytes = ItemBytes(tensor);
          const bool streamed = IsStreamed(tensor);
          const int64_t most = (streamed ? kStreamedPieceBytes : kPieceBytes) / item_bytes;
          for (int64_t done = 0; done < elements; done += most) {
            const int64_t count = std::min(most, elements - done);
            const int64_t byte = (first + done) * item_bytes;
            const int64_t at = offset + done * item_bytes;
            for (int64_t peer = 0; peer < group_.size(); ++peer) {
              inputs_[static_cast<size_t>(peer)] =
                  peer == own ? Input(tensor, byte) : Place(peer, round, own) + at;
            }
            const auto bytes = static_cast<size_t>(count * item_bytes);
            std::byte* output = has_output_ ? Output(tensor, byte) : piece_;
            // What lies in the caches after all need not be copied there.
            const bool in_place_of_result =
                streamed && !in_inputs && !group_.stores_past_cache();
            std::byte* folded = in_place_of_result ? result + at : streamed ? piece_ : output;
            TUTTI_RETURN_IF_ERROR(
                ReduceInto(call_.header.reduction, call_.header.tensor(tensor).dtype,
                           std::span(inputs_.data(), static_cast<size_t>(group_.size())), count,
                           folded, static_cast<size_t>(group_.rank())));
            if (checked_) TUTTI_RETURN_IF_ERROR(Check({tensor, first + done, count, folded}));
            if (in_inputs) {
              ShareInInputs(round, at, folded, bytes);
            } else if (!in_place_of_result) {
              group_.CopyIn(result + at, folded, bytes);
            }
            if (streamed) StreamingCopyAhead(output, folded, bytes, Input(tensor, byte) + bytes);
          }
          return OkStatus();
        });
  }

  Status Check(const FoldedPiece& piece) {
    Status status = CheckFolded(
        call_, group_.rank(), group_.Label(), piece,
        std::span(inputs_.data(), static_cast<size_t>(group_.size())));
    return status.ok() ? status : group_.Fail(std::move(status));
  }

  // What this rank has folded `at` bytes into its slice, to where the others have copied that in.
  void ShareInInputs(int64_t round, int64_t at, const std::byte* folded, size_t bytes) {
    for (int64_t peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank() || !TakesResults(peer)) continue;
      std::memcpy(Place(peer, round, group_.rank()) + at, folded, bytes);
    }
  }

  Status CopyOut(int64_t round) {
    if (!has_output_) return OkStatus();
    for (int64_t i = 1; i < group_.size(); ++i) {
      const int64_t owner = (group_.rank() + i) % group_.size();
      const int64_t writer = group_.HasResultsInInputs(owner) ? group_.rank() : owner;
      const std::byte* place = Place(writer, round, owner);
      const Range range = Slice(round, owner);
      TUTTI_RETURN_IF_ERROR(payload_.ForEach(
          range.begin, range.end,
          [&](size_t tensor, int64_t first, int64_t elements, int64_t offset) {
            const int64_t item_bytes = ItemBytes(tensor);
            const auto bytes = static_cast<size_t>(elements * item_bytes);
            std::byte* output = Output(tensor, first * item_bytes);
            if (IsStreamed(tensor)) {
              // What the next step copies in.
              const std::byte* next = Input(tensor, first * item_bytes) +
                                      kRoundsInBlock * group_.size() * slice_ * kSharedGranule;
              StreamingCopyAhead(output, place + offset, bytes, next);
            } else {
              std::memcpy(output, place + offset, bytes);
            }
            return OkStatus();
          }));
    }
    return OkStatus();
  }

  SharedGroup& group_;
  const SharedPayload& payload_;
  const CollectiveCall& call_;
  int64_t rounds_;
  int64_t slice_;  // granules
  bool has_output_;
  bool large_;
  bool checked_ = false;
  alignas(64) std::byte piece_[kPieceBytes];
  std::array<const void*, kSharedMaxRanks> inputs_;
};

}  // namespace

Status SharedSliceAndShare(SharedGroup& group, const SharedPayload& payload,
                           int64_t most_slice_bytes, const CollectiveCall& call) {
  return SliceAndShareCall(group, payload, most_slice_bytes, call).Run();
}

}  // namespace tutti
