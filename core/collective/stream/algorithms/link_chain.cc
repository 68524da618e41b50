// The chain, for large folds of large groups: what the ranks have folded so far goes from rank 0 up
// to the last one, each adding its own input to what has come, which is the fold in the order of
// the ranks; the result comes down the same way. In segments: while the first come down, later ones
// still go up. A rank has two links, whatever the size of the group, and sends and receives twice
// the payload in an all_reduce, as it does where all pairs share the work.
//
//   all_reduce      results come down to rank 0, and everybody keeps them
//   reduce          they come down to the root
//   reduce_scatter  each comes down to the rank whose share it is: the shares of the low ranks go
//                   first, because they go farthest. That is up to twice the bytes of all pairs
//
// What goes up are accumulators (partial_fold.h), so that the bits are those of any other
// algorithm: sums of 16-bit floats go up in float32.
//
// Segments that are only passed on have a few slots; a neighbour that is further ahead waits. No
// ring of waiting ranks can come of it: results come down to a rank that keeps them where they
// belong, so that what comes down always goes on, and then so does what goes up.
//
// In place this is safe: a segment of the result comes after this rank's part of it has gone up.

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/collective/call/granule_map.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/tensor/partial_fold.h"

namespace tutti {
namespace {

constexpr int64_t kChainGranule = GranuleMap::kGranuleBytes;
// Segments on their way up, and as many on their way down.
constexpr int64_t kChainSlots = 4;

int64_t MostGrowth(const CallHeader& header) {
  int64_t growth = 1;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    growth = std::max(growth, PartialFold(header.reduction, header.tensor(i).dtype).growth());
  }
  return growth;
}

class LinkChain final : public LinkAlgorithm {
 public:
  // Of segments whose accumulators have so many bytes.
  LinkChain(const LinkCallContext& context, int64_t segment_bytes)
      : growth_(MostGrowth(context.call->header)),
        segment_granules_(std::max<int64_t>(segment_bytes / growth_ / kChainGranule, 1)),
        context_(context),
        rank_(context.rank),
        last_(context.size - 1),
        call_(*context.call),
        op_(call_.header.op),
        map_(call_.header),
        share_bytes_(static_cast<int64_t>(LinkFoldBytes(call_.header, context.size))),
        num_segments_(op_ == CollectiveOp::kReduceScatter
                          ? SegmentsOfShare() * context.size
                          : Rounded(map_.total(), segment_granules_)),
        slot_bytes_((segment_granules_ + segment_granules_ / 2 + 1) * kChainGranule * growth_),
        scratch_(context.scratch->data()),
        parts_to_come_(rank_ == 0 ? 0 : num_segments_),
        parts_to_go_(rank_ == last_ ? 0 : num_segments_),
        results_to_come_(ResultsFor(rank_)),
        results_to_go_(rank_ == 0 ? 0 : ResultsFor(rank_ - 1)) {
    folds_.reserve(call_.header.num_tensors);
    for (size_t i = 0; i < call_.header.num_tensors; ++i) {
      folds_.emplace_back(call_.header.reduction, call_.header.tensor(i).dtype);
    }
  }

  // At most, for segments of that size.
  static size_t ScratchBytes(int64_t segment_bytes) {
    const int64_t most = segment_bytes + segment_bytes / 2 +
                         2 * kChainGranule * PartialFold::kMostGrowth;
    return static_cast<size_t>(2 * kChainSlots * most);
  }

  // Everybody knows from the header what comes from whom.
  uint64_t Announce(int64_t) const override { return LinkFoldBytes(call_.header, last_ + 1); }
  void AddPayload(int64_t, MemoryParts*) const override {}
  Status Begin(std::span<const LinkPeerPayload>) override { return OkStatus(); }
  Status Finish(CollectiveCall*) override { return OkStatus(); }

  bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) override {
    // Down first: that is what the others end with.
    if (peer == rank_ - 1 && results_gone_ < std::min(results_to_go_, ResultsHere())) {
      *segment = static_cast<uint64_t>(results_gone_);
      AddResult(results_gone_++, memory);
      return true;
    }
    if (peer == rank_ + 1 && parts_gone_ < std::min(parts_to_go_, PartsHere())) {
      *segment = static_cast<uint64_t>(parts_gone_);
      AddPart(parts_gone_++, memory);
      return true;
    }
    return false;
  }

  Result<bool> Accept(int64_t peer, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    const bool goes_up = peer == rank_ - 1;
    const int64_t due = goes_up ? parts_come_ : results_come_;
    const int64_t count = goes_up ? parts_to_come_ : peer == rank_ + 1 ? results_to_come_ : 0;
    if (static_cast<int64_t>(segment) != due || due >= count) {
      return DataLoss("segment {} of {}; segment {} of {} is due", segment,
                      goes_up ? "what goes up the chain" : "the result", due, count);
    }
    if (due >= (goes_up ? PartsFreeFrom() : ResultsFreeFrom(due)) + kChainSlots) return false;
    if (goes_up) {
      AddSlot(due, memory);
    } else {
      AddResult(due, memory);
    }
    if (memory->remaining() != bytes) {
      const size_t expected = memory->remaining();
      memory->Clear();
      return DataLoss("segment {} with {} bytes, expected {}", due, bytes, expected);
    }
    return true;
  }

  Status Received(int64_t peer) override {
    if (peer != rank_ - 1) {
      ++results_come_;
      return OkStatus();
    }
    TUTTI_RETURN_IF_ERROR(Fold(parts_come_));
    ++parts_come_;
    return OkStatus();
  }

  bool complete() const override {
    return parts_come_ == parts_to_come_ && parts_gone_ == parts_to_go_ &&
           results_come_ == results_to_come_ && results_gone_ == results_to_go_;
  }

  std::string Owed(int64_t peer) const override {
    if (peer == rank_ - 1 && parts_come_ != parts_to_come_) {
      return Format("{} of {} segments of what ranks {} have folded are here", parts_come_,
                    parts_to_come_, UpTo(peer));
    }
    if (peer == rank_ + 1 && results_come_ != results_to_come_) {
      return Format("{} of {} segments of the result, which comes from rank {}, are here",
                    results_come_, results_to_come_, context_.Name(last_));
    }
    return "";
  }

 private:
  // Those ranks, for messages.
  std::string UpTo(int64_t last) const {
    if (context_.names == nullptr || context_.names->empty()) return Format("0 to {}", last);
    std::string text;
    for (int64_t rank = 0; rank <= last; ++rank) {
      text += Format("{}{}", rank == 0 ? "" : ", ", context_.Name(rank));
    }
    return text;
  }

  // How many segments of the result come to a rank from the next one.
  int64_t ResultsFor(int64_t rank) const {
    if (rank == last_) return 0;
    if (op_ == CollectiveOp::kReduceScatter) return (rank + 1) * SegmentsOfShare();
    return op_ == CollectiveOp::kAllReduce || rank >= call_.header.root ? num_segments_ : 0;
  }
  // Whether a segment of the result is one of this rank's output.
  bool Keeps(int64_t segment) const {
    if (op_ == CollectiveOp::kReduceScatter) return segment / SegmentsOfShare() == rank_;
    return op_ == CollectiveOp::kAllReduce || rank_ == call_.header.root;
  }
  int64_t PartsHere() const { return rank_ == 0 ? num_segments_ : parts_come_; }
  int64_t ResultsHere() const { return rank_ == last_ ? parts_come_ : results_come_; }
  // The first segment whose slot is in use. The last one that was handed out may not have been
  // sent. What the last rank gets it folds at once, into a slot for results where it passes it on.
  int64_t PartsFreeFrom() const {
    return rank_ == last_ ? ResultsFreeFrom(parts_come_) : std::max<int64_t>(parts_gone_ - 1, 0);
  }
  int64_t ResultsFreeFrom(int64_t due) const {
    return Keeps(due) ? due : std::max<int64_t>(results_gone_ - 1, 0);
  }

  int64_t SegmentsOfShare() const {
    return Rounded(share_bytes_, segment_granules_ * kChainGranule);
  }
  // How many segments there are of something. The last one takes up to half as much again, so that
  // none is there for a rest of a few bytes.
  static int64_t Rounded(int64_t whole, int64_t segment) {
    return whole == 0 ? 0 : std::max<int64_t>((whole + segment / 2) / segment, 1);
  }
  // Calls visit(tensor, byte offset in the tensor, bytes, byte offset in the segment) for the parts
  // of a segment.
  template <typename Visit>
  void ForEach(int64_t segment, Visit visit) const {
    if (op_ == CollectiveOp::kReduceScatter) {
      const int64_t count = SegmentsOfShare();
      const int64_t offset = segment % count * segment_granules_ * kChainGranule;
      const bool is_last = segment % count == count - 1;
      visit(0, segment / count * share_bytes_ + offset,
            is_last ? share_bytes_ - offset : segment_granules_ * kChainGranule, 0);
      return;
    }
    const int64_t first = segment * segment_granules_;
    const bool is_last = segment + 1 == num_segments_;
    map_.ForEach(first, is_last ? map_.total() : first + segment_granules_,
                 [&](size_t i, int64_t offset, int64_t bytes, int64_t granule) {
                   visit(i, offset, bytes, (granule - first) * kChainGranule);
                 });
  }

  const std::byte* Input(size_t i, int64_t offset) const {
    return static_cast<const std::byte*>(call_.memory[i].input) + offset;
  }
  // The output of a reduce_scatter is its share alone.
  std::byte* Output(size_t i, int64_t offset) const {
    const int64_t begin = op_ == CollectiveOp::kReduceScatter ? rank_ * share_bytes_ : 0;
    return static_cast<std::byte*>(call_.memory[i].output) + (offset - begin);
  }
  // The last rank needs none for long, the first one is done with it when it is sent.
  std::byte* PartSlot(int64_t segment) const {
    return scratch_ + segment % kChainSlots * slot_bytes_;
  }
  std::byte* ResultSlot(int64_t segment) const {
    return scratch_ + (kChainSlots + segment % kChainSlots) * slot_bytes_;
  }
  int64_t Count(size_t i, int64_t bytes) const {
    return bytes / static_cast<int64_t>(ItemSize(call_.header.tensor(i).dtype));
  }

  // The accumulators of a segment.
  void AddSlot(int64_t segment, MemoryParts* memory) const {
    std::byte* const slot = PartSlot(segment);
    ForEach(segment, [&](size_t i, int64_t, int64_t bytes, int64_t place) {
      memory->Add(slot + place * growth_, static_cast<size_t>(bytes * folds_[i].growth()));
    });
  }
  void AddPart(int64_t segment, MemoryParts* memory) const {
    if (rank_ != 0) return AddSlot(segment, memory);
    std::byte* const slot = PartSlot(segment);
    ForEach(segment, [&](size_t i, int64_t offset, int64_t bytes, int64_t place) {
      const PartialFold& fold = folds_[i];
      const std::byte* part = Input(i, offset);
      if (fold.growth() != 1) {
        fold.Begin(part, Count(i, bytes), slot + place * growth_);
        part = slot + place * growth_;
      }
      memory->Add(part, static_cast<size_t>(bytes * fold.growth()));
    });
  }
  void AddResult(int64_t segment, MemoryParts* memory) const {
    ForEach(segment, [&](size_t i, int64_t offset, int64_t bytes, int64_t place) {
      memory->Add(Keeps(segment) ? Output(i, offset) : ResultSlot(segment) + place,
                  static_cast<size_t>(bytes));
    });
  }

  Status Fold(int64_t segment) const {
    Status status;
    ForEach(segment, [&](size_t i, int64_t offset, int64_t bytes, int64_t place) {
      if (!status.ok()) return;
      const int64_t count = Count(i, bytes);
      std::byte* const partial = PartSlot(segment) + place * growth_;
      if (rank_ != last_) {
        status = folds_[i].Add(Input(i, offset), count, partial);
        return;
      }
      status = folds_[i].Finish(partial, Input(i, offset), last_ + 1, count,
                                Keeps(segment) ? Output(i, offset) : ResultSlot(segment) + place);
    });
    return status;
  }

  const int64_t growth_;            // of the dtype that grows most
  const int64_t segment_granules_;  // of the payload
  const LinkCallContext context_;
  const int64_t rank_;
  const int64_t last_;  // rank
  const CollectiveCall& call_;
  const CollectiveOp op_;
  const GranuleMap map_;
  const int64_t share_bytes_;
  const int64_t num_segments_;
  const int64_t slot_bytes_;
  std::byte* const scratch_;
  std::vector<PartialFold> folds_;  // by tensor
  // Segments that go up, from rank_ - 1 and to rank_ + 1, and those that come down again.
  const int64_t parts_to_come_;
  const int64_t parts_to_go_;
  const int64_t results_to_come_;
  const int64_t results_to_go_;
  int64_t parts_come_ = 0;
  int64_t parts_gone_ = 0;  // handed out
  int64_t results_come_ = 0;
  int64_t results_gone_ = 0;
};

}  // namespace

Result<std::unique_ptr<LinkAlgorithm>> MakeLinkChain(const LinkCallContext& context,
                                                     int64_t chunk_bytes) {
  const int64_t segment_bytes = LinkSegmentBytes(chunk_bytes);
  const size_t bytes = LinkChain::ScratchBytes(segment_bytes);
  if (!context.scratch->Reserve(bytes)) {
    return ResourceExhausted("there are no {} bytes of memory to receive segments into", bytes);
  }
  return std::unique_ptr<LinkAlgorithm>(std::make_unique<LinkChain>(context, segment_bytes));
}

}  // namespace tutti
