// Slice and share over links, for large all_reduces: everybody sends slice j of its input to rank
// j, rank j folds what came, in rank order, and sends the result to everybody. Per rank that is 2
// (n - n/ranks) bytes out and as many in.
//
// It works in segments: while one is folded, the next ones arrive and results of the ones before
// leave. A rank has room for a few segments of each peer; a peer that is further ahead waits. No
// ring of waiting ranks can come of it: the earliest segment that a rank lacks is one for which it
// has room, nothing but the link keeps its owner from sending it, and the results that may lie
// before it in the link are always accepted, because they go to where they belong.
//
// In place this is safe: a segment of a result arrives only after its owner has received this
// rank's part of it, and the rank's own slice of the input goes nowhere.
//
// Tensors count as one payload that is cut at 64 bytes of each, as in the process-local algorithm.
// Segments are laid out in such granules, so that every tensor's part is aligned for its dtype.

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/collective/link_exchange.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kGranuleBytes = 64;
constexpr int64_t kSegmentGranules = (128 << 10) / kGranuleBytes;
constexpr int64_t kSegmentBytes = kSegmentGranules * kGranuleBytes;
// Segments of one peer that have a place before they are folded.
constexpr int64_t kSlots = 4;
// A segment's number: its place in the slice, and above it whether it is a result.
constexpr uint64_t kResultBit = uint64_t{1} << 62;

// Parts of an all_reduce payload: granules of all tensors, one tensor after the other.
class GranuleMap {
 public:
  explicit GranuleMap(const CallHeader& header) : header_(header) {
    starts_.reserve(header.num_tensors + 1);
    starts_.push_back(0);
    for (size_t i = 0; i < header.num_tensors; ++i) {
      const int64_t bytes = TensorBytes(i);
      starts_.push_back(starts_.back() + (bytes + kGranuleBytes - 1) / kGranuleBytes);
    }
  }
  int64_t total() const { return starts_.back(); }

  // Calls visit(tensor, byte offset in the tensor, bytes, byte offset from `begin`) for the parts
  // of granules [begin, end).
  template <typename Visit>
  void ForEach(int64_t begin, int64_t end, Visit visit) const {
    auto next = std::upper_bound(starts_.begin(), starts_.end(), begin);
    for (auto i = static_cast<size_t>(next - starts_.begin()) - 1;
         begin < end && i < header_.num_tensors; ++i) {
      const int64_t stop = std::min(end, starts_[i + 1]);
      if (begin >= stop) continue;
      const int64_t offset = (begin - starts_[i]) * kGranuleBytes;
      const int64_t bytes = std::min((stop - starts_[i]) * kGranuleBytes, TensorBytes(i)) - offset;
      visit(i, offset, bytes, begin);
      begin = stop;
    }
  }

 private:
  int64_t TensorBytes(size_t i) const {
    const TensorSignature& signature = header_.tensor(i);
    return signature.num_elements() * static_cast<int64_t>(ItemSize(signature.dtype));
  }

  const CallHeader& header_;
  std::vector<int64_t> starts_;  // in granules, of every tensor, and the end
};

class LinkSliceAndShare final : public LinkExchange {
 public:
  explicit LinkSliceAndShare(const LinkCallContext& context)
      : rank_(context.rank),
        size_(context.size),
        call_(*context.call),
        map_(call_.header),
        scratch_(context.scratch->data()),
        peers_(static_cast<size_t>(size_)),
        inputs_(static_cast<size_t>(size_)) {
    int64_t to_fold = NumSegments(rank_);
    for (int64_t peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      // Parts of the peer's slice out, parts of the own one in, and the same of the results.
      pending_ += 2 * (NumSegments(peer) + to_fold);
    }
  }

  static size_t ScratchBytes(int64_t size) {
    return static_cast<size_t>(size * kSlots * kSegmentBytes);
  }

  bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) override {
    Peer& state = At(peer);
    // Results first: they are what the peer ends with.
    if (state.results_sent < folded_) {
      *segment = static_cast<uint64_t>(state.results_sent) | kResultBit;
      AddSegment(rank_, state.results_sent++, /*output=*/true, memory);
    } else if (state.parts_sent < NumSegments(peer)) {
      *segment = static_cast<uint64_t>(state.parts_sent);
      AddSegment(peer, state.parts_sent++, /*output=*/false, memory);
    } else {
      return false;
    }
    --pending_;
    return true;
  }

  Result<bool> Accept(int64_t peer, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    Peer& state = At(peer);
    state.receives_result = (segment & kResultBit) != 0;
    const int64_t owner = state.receives_result ? peer : rank_;
    const int64_t due = state.receives_result ? state.results_received : state.parts_received;
    if (static_cast<int64_t>(segment & ~kResultBit) != due || due >= NumSegments(owner)) {
      return DataLoss("segment {} of its {}; segment {} of {} is due", segment & ~kResultBit,
                      state.receives_result ? "result" : "input", due, NumSegments(owner));
    }
    if (!state.receives_result && due >= folded_ + kSlots) return false;
    if (state.receives_result) {
      AddSegment(peer, due, /*output=*/true, memory);
    } else {
      std::byte* slot = Slot(peer, due);
      const auto [begin, end] = SegmentGranules(rank_, due);
      map_.ForEach(begin, end, [&](size_t, int64_t, int64_t part_bytes, int64_t granule) {
        memory->Add(slot + (granule - begin) * kGranuleBytes, static_cast<size_t>(part_bytes));
      });
    }
    if (memory->remaining() != bytes) {
      const size_t expected = memory->remaining();
      memory->Clear();
      return DataLoss("segment {} with {} bytes, expected {}", due, bytes, expected);
    }
    return true;
  }

  Status Received(int64_t peer) override {
    Peer& state = At(peer);
    --pending_;
    if (state.receives_result) {
      ++state.results_received;
      return OkStatus();
    }
    ++state.parts_received;
    while (folded_ < NumSegments(rank_) && AllPartsOf(folded_)) {
      TUTTI_RETURN_IF_ERROR(Fold(folded_));
      ++folded_;
    }
    return OkStatus();
  }

  bool complete() const override { return pending_ == 0; }

  std::string Owed(int64_t peer) const override {
    const Peer& state = peers_[static_cast<size_t>(peer)];
    const int64_t parts = NumSegments(rank_);
    const int64_t results = NumSegments(peer);
    if (state.parts_received == parts && state.results_received == results) return "";
    return Format("{} of {} segments of its input and {} of {} of its result are here",
                  state.parts_received, parts, state.results_received, results);
  }

 private:
  struct Peer {
    int64_t parts_sent = 0;        // of the peer's slice
    int64_t results_sent = 0;      // of the own slice
    int64_t parts_received = 0;    // of the own slice
    int64_t results_received = 0;  // of the peer's slice
    bool receives_result = false;  // what was accepted last
  };

  Peer& At(int64_t peer) { return peers_[static_cast<size_t>(peer)]; }

  // The granules of a rank's slice.
  std::pair<int64_t, int64_t> Slice(int64_t rank) const {
    const int64_t share = map_.total() / size_;
    const int64_t rest = map_.total() % size_;
    const int64_t begin = share * rank + std::min(rank, rest);
    return {begin, begin + share + (rank < rest ? 1 : 0)};
  }
  int64_t NumSegments(int64_t rank) const {
    const auto [begin, end] = Slice(rank);
    return (end - begin + kSegmentGranules - 1) / kSegmentGranules;
  }
  std::pair<int64_t, int64_t> SegmentGranules(int64_t rank, int64_t segment) const {
    const auto [begin, end] = Slice(rank);
    const int64_t first = begin + segment * kSegmentGranules;
    return {first, std::min(first + kSegmentGranules, end)};
  }
  std::byte* Slot(int64_t peer, int64_t segment) const {
    return scratch_ + (peer * kSlots + segment % kSlots) * kSegmentBytes;
  }

  // A segment of `owner`'s slice as it lies in this rank's inputs or outputs.
  void AddSegment(int64_t owner, int64_t segment, bool output, MemoryParts* memory) const {
    const auto [begin, end] = SegmentGranules(owner, segment);
    map_.ForEach(begin, end, [&](size_t i, int64_t offset, int64_t bytes, int64_t) {
      const CollectiveMemory& tensor = call_.memory[i];
      const void* base = output ? tensor.output : tensor.input;
      memory->Add(static_cast<const std::byte*>(base) + offset, static_cast<size_t>(bytes));
    });
  }

  bool AllPartsOf(int64_t segment) const {
    for (int64_t peer = 0; peer < size_; ++peer) {
      if (peer != rank_ && peers_[static_cast<size_t>(peer)].parts_received <= segment) {
        return false;
      }
    }
    return true;
  }

  Status Fold(int64_t segment) {
    const auto [begin, end] = SegmentGranules(rank_, segment);
    Status status;
    map_.ForEach(begin, end, [&](size_t i, int64_t offset, int64_t bytes, int64_t granule) {
      const CollectiveMemory& tensor = call_.memory[i];
      const DType dtype = call_.header.tensor(i).dtype;
      for (int64_t rank = 0; rank < size_; ++rank) {
        inputs_[static_cast<size_t>(rank)] =
            rank == rank_ ? static_cast<const std::byte*>(tensor.input) + offset
                          : Slot(rank, segment) + (granule - begin) * kGranuleBytes;
      }
      if (!status.ok()) return;
      status = ReduceInto(call_.header.reduction, dtype, inputs_,
                          bytes / static_cast<int64_t>(ItemSize(dtype)),
                          static_cast<std::byte*>(tensor.output) + offset);
    });
    return status;
  }

  const int64_t rank_;
  const int64_t size_;
  const CollectiveCall& call_;
  const GranuleMap map_;
  std::byte* const scratch_;
  std::vector<Peer> peers_;
  std::vector<const void*> inputs_;
  int64_t folded_ = 0;   // segments of the own slice
  int64_t pending_ = 0;  // segments still to be handed out or received
};

}  // namespace

Result<std::unique_ptr<LinkExchange>> MakeLinkSliceAndShare(const LinkCallContext& context) {
  const size_t bytes = LinkSliceAndShare::ScratchBytes(context.size);
  if (!context.scratch->Reserve(bytes)) {
    return ResourceExhausted("there are no {} bytes of memory to receive segments into", bytes);
  }
  return std::unique_ptr<LinkExchange>(std::make_unique<LinkSliceAndShare>(context));
}

}  // namespace tutti
