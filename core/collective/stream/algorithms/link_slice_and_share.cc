// Slice and share over links, for large folds: everybody sends slice j of its input to rank j, rank
// j folds what came, in rank order, and sends the result to everybody (all_reduce), to the root
// (reduce) or to nobody (reduce_scatter, where its slice is its share). Per rank and all_reduce
// that is 2 (n - n/ranks) bytes out and as many in.
//
// It works in segments: while one is folded, the next ones arrive and results of the ones before
// leave. A rank has room for a few segments of each peer; a peer that is further ahead waits. No
// ring of waiting ranks can come of it: the earliest segment that a rank lacks is one for which it
// has room, nothing but the link keeps its owner from sending it, and the results that may lie
// before it in the link are always accepted, because they go to where they belong. (On one machine
// an owner waits for the results of its segments before: they hang on no later ones, and it waits
// no more where what lies before them in the link has no room.) Of a reduce the
// others have no output: they fold into the room of a peer's segment, which is free again once the
// root has taken the result, and the root always does, even when it has failed.
//
// In place this is safe: a segment of a result arrives only after its owner has received this
// rank's part of it, and the rank's own slice of the input goes nowhere.
//
// Tensors count as one payload that is cut at 64 bytes of each, as in the process-local algorithm.
// Segments are laid out in such granules, so that every tensor's part is aligned for its dtype.

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/collective/call/granule_map.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kWireGranule = GranuleMap::kGranuleBytes;
// Segments of one peer that have a place before they are folded. Those of an only peer are folded
// as soon as they are there: the fewer places, the sooner each is taken again, and a cache has it.
constexpr int64_t kSlots = 4;
constexpr int64_t kSlotsOfTwo = 2;
// What a peer on this machine is sent before the results of it are there, and one segment at least.
// More would wait in the connection until the caches have lost it, with the pages that it lies in.
constexpr int64_t kNearAheadBytes = 256 << 10;
// A segment's number: its place in the slice, and above it whether it is a result.
constexpr uint64_t kResultBit = uint64_t{1} << 62;

class LinkSliceAndShare final : public LinkAlgorithm {
 public:
  LinkSliceAndShare(const LinkCallContext& context, int64_t segment_bytes)
      : segment_bytes_(segment_bytes),
        segment_granules_(segment_bytes / kWireGranule),
        rank_(context.rank),
        size_(context.size),
        call_(*context.call),
        op_(call_.header.op),
        map_(call_.header),
        near_(*context.near),
        near_ahead_(std::max<int64_t>(kNearAheadBytes / segment_bytes, 1)),
        slots_(size_ == 2 && op_ == CollectiveOp::kAllReduce ? kSlotsOfTwo : kSlots),
        scratch_(context.scratch->data()),
        peers_(static_cast<size_t>(size_)),
        inputs_(static_cast<size_t>(size_)) {
    const int64_t to_fold = NumSegments(rank_);
    for (int64_t peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      // Parts of the peer's slice out, parts of the own one in, and the same of the results.
      pending_ += NumSegments(peer) + to_fold;
      if (GetsResults(peer)) pending_ += to_fold;
      if (GetsResults(rank_)) pending_ += NumSegments(peer);
    }
  }

  static size_t ScratchBytes(int64_t size, int64_t segment_bytes) {
    return static_cast<size_t>(size * kSlots * SlotBytes(segment_bytes));
  }

  // Everybody knows from the header what comes from whom.
  uint64_t Announce(int64_t) const override { return LinkFoldBytes(call_.header, size_); }
  void AddPayload(int64_t, MemoryParts*) const override {}
  Status Begin(std::span<const LinkPeerPayload>) override { return OkStatus(); }
  Status Finish(CollectiveCall*) override { return OkStatus(); }

  bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) override {
    Peer& state = At(peer);
    // Results first: they are what the peer ends with.
    if (GetsResults(peer) && state.results_sent < folded_) {
      *segment = static_cast<uint64_t>(state.results_sent) | kResultBit;
      AddOwnResult(state.results_sent++, memory);
    } else if (state.parts_sent < NumSegments(peer) && !IsFarAhead(peer)) {
      *segment = static_cast<uint64_t>(state.parts_sent);
      AddInput(peer, state.parts_sent++, memory);
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
    const int64_t count =
        state.receives_result && !GetsResults(rank_) ? 0 : NumSegments(owner);
    if (static_cast<int64_t>(segment & ~kResultBit) != due || due >= count) {
      return DataLoss("segment {} of its {}; segment {} of {} is due", segment & ~kResultBit,
                      state.receives_result ? "result" : "input", due, count);
    }
    state.is_held = !state.receives_result && due >= FreeFrom() + slots_;
    if (state.is_held) return false;
    if (state.receives_result) {
      AddResultOf(peer, due, memory);
    } else {
      std::byte* slot = Slot(peer, due);
      ForEach(rank_, due, [&](size_t, int64_t, int64_t part_bytes, int64_t place) {
        memory->Add(slot + place, static_cast<size_t>(part_bytes));
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

  // At the end, when nothing more goes out, all is taken that has come.
  bool takes_turns(int64_t peer) const override {
    const Peer& state = peers_[static_cast<size_t>(peer)];
    return op_ == CollectiveOp::kAllReduce && near_[static_cast<size_t>(peer)] &&
           (state.parts_sent < NumSegments(peer) || state.results_sent < NumSegments(rank_));
  }
  bool complete() const override { return pending_ == 0; }

  std::string Owed(int64_t peer) const override {
    const Peer& state = peers_[static_cast<size_t>(peer)];
    const int64_t parts = NumSegments(rank_);
    const int64_t results = GetsResults(rank_) ? NumSegments(peer) : 0;
    if (state.parts_received == parts && state.results_received == results) return "";
    if (!GetsResults(rank_)) {
      return Format("{} of {} segments of its input are here", state.parts_received, parts);
    }
    return Format("{} of {} segments of its input and {} of {} of its result are here",
                  state.parts_received, parts, state.results_received, results);
  }

 private:
  struct Peer {
    int64_t parts_sent = 0;        // of the peer's slice
    int64_t results_sent = 0;      // of the own slice
    int64_t parts_received = 0;    // of the own slice
    int64_t results_received = 0;  // of the peer's slice
    bool receives_result = false;  // what was offered last
    bool is_held = false;          // there was no room for it
  };

  Peer& At(int64_t peer) { return peers_[static_cast<size_t>(peer)]; }

  // Whether a rank is sent the others' results.
  bool GetsResults(int64_t rank) const {
    return op_ == CollectiveOp::kAllReduce ||
           (op_ == CollectiveOp::kReduce && rank == call_.header.root);
  }
  // Of a reduce a rank that is not the root has its results in a peer's slots until they are sent.
  bool FoldsIntoSlots() const {
    return op_ == CollectiveOp::kReduce && rank_ != call_.header.root;
  }
  int64_t SlotOwner() const { return rank_ == 0 ? 1 : 0; }
  // Whether the peer is to answer before it gets more. What it answers to one part hangs on no
  // later part, and nothing that waits for room lies before it.
  bool IsFarAhead(int64_t peer) const {
    if (!takes_turns(peer)) return false;
    const Peer& state = peers_[static_cast<size_t>(peer)];
    return !state.is_held && state.parts_sent >= state.results_received + near_ahead_;
  }
  // The first segment whose slots are in use. The last result that was handed out may not have been
  // sent.
  int64_t FreeFrom() const {
    if (!FoldsIntoSlots()) return folded_;
    const int64_t sent = peers_[static_cast<size_t>(call_.header.root)].results_sent;
    return std::max<int64_t>(sent - 1, 0);
  }

  int64_t ShareBytes() const {
    return static_cast<int64_t>(LinkFoldBytes(call_.header, size_));
  }
  // The granules of a rank's slice.
  std::pair<int64_t, int64_t> Slice(int64_t rank) const {
    const int64_t share = map_.total() / size_;
    const int64_t rest = map_.total() % size_;
    const int64_t begin = share * rank + std::min(rank, rest);
    return {begin, begin + share + (rank < rest ? 1 : 0)};
  }
  int64_t NumSegments(int64_t rank) const {
    if (op_ == CollectiveOp::kReduceScatter) return Rounded(ShareBytes(), segment_bytes_);
    const auto [begin, end] = Slice(rank);
    return Rounded(end - begin, segment_granules_);
  }
  // How many segments there are of something. The last one takes up to half as much again, so that
  // none is there for a rest of a few bytes.
  static int64_t Rounded(int64_t whole, int64_t segment) {
    return whole == 0 ? 0 : std::max<int64_t>((whole + segment / 2) / segment, 1);
  }
  static int64_t SlotBytes(int64_t segment_bytes) {
    return (segment_bytes + segment_bytes / 2 + kWireGranule) / kWireGranule * kWireGranule;
  }
  // Calls visit(tensor, byte offset in the tensor, bytes, byte offset in the segment's slot) for
  // the parts of a segment of the slice of `owner`.
  template <typename Visit>
  void ForEach(int64_t owner, int64_t segment, Visit visit) const {
    const bool is_last = segment + 1 == NumSegments(owner);
    if (op_ == CollectiveOp::kReduceScatter) {
      const int64_t offset = segment * segment_bytes_;
      visit(0, owner * ShareBytes() + offset, is_last ? ShareBytes() - offset : segment_bytes_, 0);
      return;
    }
    const auto [begin, end] = Slice(owner);
    const int64_t first = begin + segment * segment_granules_;
    map_.ForEach(first, is_last ? end : first + segment_granules_,
                 [&](size_t i, int64_t offset, int64_t bytes, int64_t granule) {
                   visit(i, offset, bytes, (granule - first) * kWireGranule);
                 });
  }
  std::byte* Slot(int64_t peer, int64_t segment) const {
    return scratch_ + (peer * kSlots + segment % slots_) * SlotBytes(segment_bytes_);
  }
  // Where the result of that part of a tensor lies, at the end of the call. The output of a
  // reduce_scatter is its share alone.
  std::byte* Output(size_t i, int64_t offset) const {
    const int64_t begin = op_ == CollectiveOp::kReduceScatter ? rank_ * ShareBytes() : 0;
    return static_cast<std::byte*>(call_.memory[i].output) + (offset - begin);
  }

  void AddInput(int64_t owner, int64_t segment, MemoryParts* memory) const {
    ForEach(owner, segment, [&](size_t i, int64_t offset, int64_t bytes, int64_t) {
      memory->Add(static_cast<const std::byte*>(call_.memory[i].input) + offset,
                  static_cast<size_t>(bytes));
    });
  }
  void AddResultOf(int64_t owner, int64_t segment, MemoryParts* memory) const {
    ForEach(owner, segment, [&](size_t i, int64_t offset, int64_t bytes, int64_t) {
      memory->Add(Output(i, offset), static_cast<size_t>(bytes));
    });
  }
  void AddOwnResult(int64_t segment, MemoryParts* memory) const {
    if (!FoldsIntoSlots()) return AddResultOf(rank_, segment, memory);
    ForEach(rank_, segment, [&](size_t, int64_t, int64_t bytes, int64_t place) {
      memory->Add(Slot(SlotOwner(), segment) + place, static_cast<size_t>(bytes));
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
    Status status;
    ForEach(rank_, segment, [&](size_t i, int64_t offset, int64_t bytes, int64_t place) {
      const DType dtype = call_.header.tensor(i).dtype;
      for (int64_t rank = 0; rank < size_; ++rank) {
        inputs_[static_cast<size_t>(rank)] =
            rank == rank_ ? static_cast<const std::byte*>(call_.memory[i].input) + offset
                          : Slot(rank, segment) + place;
      }
      if (!status.ok()) return;
      status = ReduceInto(call_.header.reduction, dtype, inputs_,
                          bytes / static_cast<int64_t>(ItemSize(dtype)),
                          FoldsIntoSlots() ? Slot(SlotOwner(), segment) + place
                                           : Output(i, offset));
    });
    return status;
  }

  const int64_t segment_bytes_;
  const int64_t segment_granules_;
  const int64_t rank_;
  const int64_t size_;
  const CollectiveCall& call_;
  const CollectiveOp op_;
  const GranuleMap map_;
  const std::vector<bool>& near_;
  const int64_t near_ahead_;
  const int64_t slots_;
  std::byte* const scratch_;
  std::vector<Peer> peers_;
  std::vector<const void*> inputs_;
  int64_t folded_ = 0;   // segments of the own slice
  int64_t pending_ = 0;  // segments still to be handed out or received
};

}  // namespace

Result<std::unique_ptr<LinkAlgorithm>> MakeLinkSliceAndShare(const LinkCallContext& context,
                                                             int64_t chunk_bytes) {
  const int64_t segment_bytes = LinkSegmentBytes(chunk_bytes);
  const size_t bytes = LinkSliceAndShare::ScratchBytes(context.size, segment_bytes);
  if (!context.scratch->Reserve(bytes)) {
    return ResourceExhausted("there are no {} bytes of memory to receive segments into", bytes);
  }
  return std::unique_ptr<LinkAlgorithm>(
      std::make_unique<LinkSliceAndShare>(context, segment_bytes));
}

}  // namespace tutti
