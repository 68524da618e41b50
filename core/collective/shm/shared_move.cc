// Moves whose parts are known beforehand: scatter, all_gather into a given tensor, all_to_all.
//
// What a rank has for its peers is its *stream*: the parts for the ranks behind it, in their order
// and round the corner, so that the ranks do not all write for the same one at first; of an
// all_gather it is the input, which everybody takes whole. A small stream travels with the entry,
// in one meeting. Otherwise it goes through the rank's block in chunks, and every peer copies out
// what is meant for it: a rank writes chunk k+1 before it takes chunk k of the others. Having
// written chunk k, a rank has taken chunk k-2; so with four chunks side by side, who has waited for
// all chunks k may overwrite chunk k-2. All ranks count the chunks of the longest stream.
//
// Two ranks that exchange something swap their blocks (SharedLayout::copies) with every call, and
// with every four chunks: chunk k is written where its writer has taken chunk k-4.
//
// In place nothing is written that is still to be read: a rank's own part stays where it is, and no
// stream holds it.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/call/streaming_copy.h"
#include "core/collective/shm/shared_algorithms.h"

namespace tutti {
namespace {

constexpr int64_t kMovedChunksInBlock = 4;
constexpr int64_t kLeastMovedBytes = 16 << 10;
constexpr int64_t kMostMovedBytes = 128 << 10;  // whatever the table says
constexpr int64_t kWantedMoves = 4;
constexpr int64_t kMoveGranule = 64;
static_assert(kMovedChunksInBlock * kMostMovedBytes <=
              static_cast<int64_t>(SharedLayout::kBlockBytes));
// Results that no cache holds are written past the caches.
constexpr int64_t kStreamedMoveBytes = 8 << 20;

class Move {
 public:
  Move(SharedGroup& group, int64_t most_chunk_bytes, CollectiveCall* call)
      : group_(group),
        call_(*call),
        op_(call->header.op),
        ranks_(group.size()),
        input_(static_cast<const std::byte*>(call->memory[0].input)),
        output_(static_cast<std::byte*>(call->memory[0].output)) {
    const int64_t most_chunk =
        std::clamp(most_chunk_bytes, kLeastMovedBytes, kMostMovedBytes);
    const TensorSignature& signature = call->header.first;
    const auto item_bytes = static_cast<int64_t>(ItemSize(signature.dtype));
    const int64_t bytes = signature.num_elements() * item_bytes;
    if (call->header.uneven) {
      row_bytes_ = item_bytes;
      for (size_t i = 1; i < signature.dims.size(); ++i) row_bytes_ *= signature.dims[i];
      // Nobody knows the longest stream yet.
      chunk_bytes_ = most_chunk;
      total_bytes_ = bytes;
      return;
    }
    share_bytes_ = op_ == CollectiveOp::kAllGather ? bytes : bytes / ranks_;
    const int64_t stream = IsShared() ? share_bytes_ : share_bytes_ * (ranks_ - 1);
    chunk_bytes_ = std::clamp(stream / kWantedMoves, kLeastMovedBytes, most_chunk) /
                   kMoveGranule * kMoveGranule;
    total_bytes_ = op_ == CollectiveOp::kScatter ? share_bytes_ : share_bytes_ * ranks_;
  }

  Status Run() {
    group_.Begin(call_, static_cast<size_t>(call_.header.uneven ? total_bytes_ : share_bytes_));
    if (call_.header.uneven) {
      ShowRows();
    } else {
      for (int64_t peer = 0; peer < ranks_; ++peer) source(peer) = EqualSource(peer);
    }
    inline_bytes_ = static_cast<int64_t>(group_.inline_room()) - ShownBytes();
    if (SwapsBlocks()) inline_bytes_ = std::min(inline_bytes_, SharedGroup::kSwappedFrom - 1);
    const int64_t own_stream = OwnStreamBytes();
    const bool inlined = own_stream <= inline_bytes_;
    if (inlined) {
      WriteStream(0, own_stream, group_.inline_payload(group_.rank()) + ShownBytes());
    } else {
      WriteChunk(0, own_stream);
    }
    group_.Arrive();
    TUTTI_RETURN_IF_ERROR(group_.Meet());
    if (call_.header.uneven) {
      TUTTI_RETURN_IF_ERROR(ReadRows());
      Status made = MakeResult();
      if (!made.ok()) return group_.Fail(std::move(made));
    }
    streamed_ = total_bytes_ >= kStreamedMoveBytes;

    // Of the streams that go through blocks.
    int64_t most = 0;
    for (int64_t peer = 0; peer < ranks_; ++peer) {
      if (source(peer).stream > inline_bytes_) most = std::max(most, source(peer).stream);
    }
    const int64_t chunks = std::max<int64_t>((most + chunk_bytes_ - 1) / chunk_bytes_, 1);
    // Who has nothing for others is waited for by those only who overwrite what it takes.
    const bool only_root_writes = op_ == CollectiveOp::kScatter;
    const int64_t awaited = only_root_writes && group_.rank() != call_.header.root
                                ? call_.header.root
                                : SharedGroup::kAll;
    TakeInlined();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (chunk + 1 < chunks) {
        if (!inlined) WriteChunk(chunk + 1, own_stream);
        group_.Advance(static_cast<uint64_t>(chunk + 1));
      }
      if (chunk > 0) {
        TUTTI_RETURN_IF_ERROR(group_.Await(static_cast<uint64_t>(chunk), awaited));
      }
      if (most != 0) TakeChunk(chunk);
    }
    TakeOwn();
    if (streamed_) StreamingFence();
    group_.Finish(static_cast<uint64_t>(chunks - 1));
    call_.gathered = std::move(result_);
    return OkStatus();
  }

 private:
  // What a rank has for this one.
  struct Source {
    int64_t stream;  // bytes of the whole stream
    int64_t begin;   // where this rank's part begins in it
    int64_t bytes;   // of the part
    int64_t output;  // where it belongs
  };

  bool SwapsBlocks() const { return group_.SwapsCopies() && op_ != CollectiveOp::kScatter; }
  // Whether all take the same of a stream.
  bool IsShared() const { return op_ == CollectiveOp::kAllGather; }
  Source& source(int64_t rank) { return sources_[static_cast<size_t>(rank)]; }
  // Places between a rank and another one behind it.
  int64_t Between(int64_t from, int64_t to) const { return (to - from - 1 + ranks_) % ranks_; }

  Source EqualSource(int64_t peer) const {
    if (IsShared()) return {share_bytes_, 0, share_bytes_, peer * share_bytes_};
    if (op_ == CollectiveOp::kScatter) {
      if (peer != call_.header.root) return {0, 0, 0, 0};
      return {share_bytes_ * (ranks_ - 1), Between(peer, group_.rank()) * share_bytes_,
              share_bytes_, 0};
    }
    return {share_bytes_ * (ranks_ - 1), Between(peer, group_.rank()) * share_bytes_, share_bytes_,
            peer * share_bytes_};
  }

  // ---- Uneven: rows that each rank shows before its stream ----

  // The size along the axis, which the header leaves out, then the rows for each rank.
  int64_t ShownBytes() const {
    return call_.header.uneven ? (1 + ranks_) * static_cast<int64_t>(sizeof(int64_t)) : 0;
  }
  void ShowRows() const {
    std::byte* shown = group_.inline_payload(group_.rank());
    std::memcpy(shown, &call_.header.first.dims[0], sizeof(int64_t));
    std::memcpy(shown + sizeof(int64_t), call_.send_rows.data(), call_.send_rows.size_bytes());
  }
  // What the ranks say, once read, so that it cannot change any more.
  Status ReadRows() {
    int64_t output = 0;
    call_.received_rows.clear();
    for (int64_t peer = 0; peer < ranks_; ++peer) {
      std::array<int64_t, kSharedMaxRanks> rows;
      std::memcpy(rows.data(), group_.inline_payload(peer) + sizeof(int64_t),
                  static_cast<size_t>(ranks_) * sizeof(int64_t));
      Source& from = source(peer);
      from = {0, 0, 0, output};
      bool good = true;
      for (int64_t i = 0; i < ranks_; ++i) {
        const int64_t reader = (peer + 1 + i) % ranks_;
        const int64_t count = rows[static_cast<size_t>(reader)];
        int64_t bytes = 0;
        good = good && count >= 0 && !__builtin_mul_overflow(count, row_bytes_, &bytes);
        if (reader == group_.rank()) {
          from.begin = from.stream;
          from.bytes = bytes;
        }
        // The last one is the peer itself, whose part is not in its stream.
        if (reader != peer) {
          good = good && !__builtin_add_overflow(from.stream, bytes, &from.stream);
        }
      }
      good = good && !__builtin_add_overflow(output, from.bytes, &output);
      if (!good) return group_.FailPeer(peer, "its row counts cannot be");
      call_.received_rows.push_back(rows[static_cast<size_t>(group_.rank())]);
    }
    return OkStatus();
  }
  Status MakeResult() {
    Dims dims = call_.header.first.dims;
    dims[0] = 0;
    for (int64_t rows : call_.received_rows) {
      if (__builtin_add_overflow(dims[0], rows, &dims[0])) {
        return InvalidArgument("all_to_all: the rows do not add up in 64 bits");
      }
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    TUTTI_ASSIGN_OR_RETURN(
        result_, Tensor::Create(call_.header.first.dtype, shape, call_.unzeroed()));
    output_ = static_cast<std::byte*>(result_->mutable_data());
    total_bytes_ = static_cast<int64_t>(result_->byte_size());
    return OkStatus();
  }

  // ---- This rank's input ----

  int64_t PartBytes(int64_t reader) const {
    return call_.header.uneven ? call_.send_rows[static_cast<size_t>(reader)] * row_bytes_
                               : share_bytes_;
  }
  const std::byte* PartOf(int64_t reader) const {
    if (!call_.header.uneven) return input_ + reader * share_bytes_;
    int64_t rows = 0;
    for (int64_t r = 0; r < reader; ++r) rows += call_.send_rows[static_cast<size_t>(r)];
    return input_ + rows * row_bytes_;
  }
  int64_t OwnStreamBytes() {
    if (!call_.header.uneven) return source(group_.rank()).stream;
    return total_bytes_ - PartBytes(group_.rank());
  }

  // Bytes [begin, end) of this rank's stream.
  void WriteStream(int64_t begin, int64_t end, std::byte* to) const {
    if (begin >= end) return;
    if (IsShared()) {
      group_.CopyIn(to, input_ + begin, static_cast<size_t>(end - begin));
      return;
    }
    int64_t part_begin = 0;
    for (int64_t i = 1; i < ranks_ && part_begin < end; ++i) {
      const int64_t reader = (group_.rank() + i) % ranks_;
      const int64_t part_end = part_begin + PartBytes(reader);
      const int64_t first = std::max(begin, part_begin);
      const int64_t last = std::min(end, part_end);
      if (first < last) {
        group_.CopyIn(to + (first - begin), PartOf(reader) + (first - part_begin),
                      static_cast<size_t>(last - first));
      }
      part_begin = part_end;
    }
  }
  void WriteChunk(int64_t chunk, int64_t stream) const {
    const int64_t begin = chunk * chunk_bytes_;
    WriteStream(begin, std::min(begin + chunk_bytes_, stream), Place(group_.rank(), chunk));
  }
  std::byte* Place(int64_t rank, int64_t chunk) const {
    std::byte* const block =
        SwapsBlocks() ? group_.copies(rank, chunk / kMovedChunksInBlock) : group_.block(rank);
    return block + chunk % kMovedChunksInBlock * chunk_bytes_;
  }

  // ---- What is meant for this rank ----

  void Take(std::byte* to, const std::byte* from, int64_t bytes) const {
    if (bytes == 0) return;
    if (streamed_) {
      StreamingCopy(to, from, static_cast<size_t>(bytes));
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }
  void TakeInlined() {
    for (int64_t peer = 0; peer < ranks_; ++peer) {
      const Source& from = source(peer);
      if (peer == group_.rank() || from.stream > inline_bytes_) continue;
      Take(output_ + from.output, group_.inline_payload(peer) + ShownBytes() + from.begin,
           from.bytes);
    }
  }
  void TakeChunk(int64_t chunk) {
    const int64_t begin = chunk * chunk_bytes_;
    for (int64_t i = 1; i < ranks_; ++i) {
      const int64_t peer = (group_.rank() + i) % ranks_;
      const Source& from = source(peer);
      if (from.stream <= inline_bytes_) continue;
      const int64_t first = std::max(begin, from.begin);
      const int64_t last = std::min(begin + chunk_bytes_, from.begin + from.bytes);
      if (first >= last) continue;
      Take(output_ + from.output + (first - from.begin), Place(peer, chunk) + (first - begin),
           last - first);
    }
  }
  void TakeOwn() {
    if (op_ == CollectiveOp::kScatter && group_.rank() != call_.header.root) return;
    const int64_t own = group_.rank();
    const std::byte* from = IsShared() ? input_ : PartOf(own);
    std::byte* to = output_ + source(own).output;
    if (from != to) Take(to, from, PartBytes(own));
  }

  SharedGroup& group_;
  CollectiveCall& call_;
  const CollectiveOp op_;
  const int64_t ranks_;
  const std::byte* const input_;
  std::byte* output_;
  Ref<Tensor> result_;
  int64_t share_bytes_ = 0;  // of equal parts
  int64_t row_bytes_ = 0;    // where uneven
  int64_t total_bytes_ = 0;  // of the output; where uneven, of the input until there is one
  int64_t chunk_bytes_ = 0;
  int64_t inline_bytes_ = 0;  // streams of at most so many travel with the entries
  bool streamed_ = false;
  std::array<Source, kSharedMaxRanks> sources_;
};

}  // namespace

Status SharedMove(SharedGroup& group, int64_t most_chunk_bytes, CollectiveCall* call) {
  return Move(group, most_chunk_bytes, call).Run();
}

}  // namespace tutti
