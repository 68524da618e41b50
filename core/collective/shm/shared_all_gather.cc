// All-gather and gather into a new tensor: each rank shows what it brings (its size along the axis,
// its bytes), and every rank, or the root alone, copies everything into a tensor of its own. Parts
// that are all small travel with the entries, in one meeting. Otherwise each part goes through the
// block of its rank in chunks: a rank writes chunk k+1 before it takes chunk k of the others.
// Having written chunk k, a rank has taken chunk k-2; so with four chunks side by side, who has
// waited for all chunks k may overwrite chunk k-2. Two ranks that both take everything swap their
// blocks (SharedLayout::copies) with every call, and with every four chunks: chunk k is written
// where its writer has taken chunk k-4.
//
// Numbers go straight to their place in the result. Byte strings travel as their lengths and their
// text, and are joined in the end.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/collective/shm/shared_algorithms.h"
#include "core/tensor/concat.h"

namespace tutti {
namespace {

constexpr int64_t kChunksInBlock = 4;
constexpr auto kChunkBytes = static_cast<int64_t>(SharedLayout::kBlockBytes) / kChunksInBlock;

// What a rank says of its part; lies before the bytes that travel with the entry.
struct Part {
  int64_t axis_size;
  int64_t bytes;
};
static_assert(sizeof(Part) == 16);

// The strings of a contiguous tensor: all lengths, then all texts.
Result<Ref<Tensor>> PackStrings(const Tensor& strings) {
  const std::span<const BytesView> views = strings.span<BytesView>();
  size_t bytes = views.size() * sizeof(uint64_t);
  for (const BytesView& view : views) bytes += view.size;
  TensorOptions unzeroed;
  unzeroed.zeroed = false;
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Tensor> packed,
      Tensor::Create(DType::kUint8, Shape({static_cast<int64_t>(bytes)}), unzeroed));
  char* lengths = static_cast<char*>(packed->mutable_data());
  char* text = lengths + views.size() * sizeof(uint64_t);
  for (const BytesView& view : views) {
    const uint64_t length = view.size;
    std::memcpy(lengths, &length, sizeof(length));
    lengths += sizeof(length);
    if (length != 0) std::memcpy(text, view.data, length);
    text += length;
  }
  return packed;
}

// False when `packed` cannot have come from PackStrings.
bool UnpackStrings(const Tensor& packed, int64_t count, std::vector<BytesView>* views) {
  const char* begin = static_cast<const char*>(packed.data());
  size_t left = packed.byte_size();
  if (static_cast<uint64_t>(count) > left / sizeof(uint64_t)) return false;
  left -= static_cast<size_t>(count) * sizeof(uint64_t);
  const char* text = begin + static_cast<size_t>(count) * sizeof(uint64_t);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, begin + static_cast<size_t>(i) * sizeof(length), sizeof(length));
    if (length > left) return false;
    views->push_back(BytesView{text, static_cast<size_t>(length)});
    text += length;
    left -= static_cast<size_t>(length);
  }
  return left == 0;
}

class AllGather {
 public:
  AllGather(SharedGroup& group, CollectiveCall* call)
      : group_(group),
        call_(*call),
        dtype_(call->header.first.dtype),
        axis_(static_cast<size_t>(call->header.axis)),
        parts_(static_cast<size_t>(group.size())) {
    const Dims& dims = call->header.first.dims;
    for (size_t i = 0; i < axis_; ++i) outer_ *= dims[i];
    for (size_t i = axis_ + 1; i < dims.size(); ++i) inner_ *= dims[i];
  }

  Status Run() {
    Result<Ref<Tensor>> own = OwnBytes();
    if (!own.ok()) return group_.Fail(std::move(own).status());
    own_ = std::move(own).value();
    const Part part = {call_.header.first.dims[axis_], static_cast<int64_t>(own_->byte_size())};
    group_.Begin(call_, own_->byte_size());
    auto inline_bytes = static_cast<int64_t>(group_.inline_room() - sizeof(Part));
    if (SwapsBlocks()) inline_bytes = std::min(inline_bytes, SharedGroup::kSwappedFrom - 1);

    std::byte* const shown = group_.inline_payload(group_.rank());
    std::memcpy(shown, &part, sizeof(part));
    if (part.bytes <= inline_bytes) {
      group_.CopyIn(shown + sizeof(part), own_->data(), own_->byte_size());
    }
    const bool through_block = part.bytes > inline_bytes && Shows(group_.rank());
    WriteChunk(0, through_block);
    group_.Arrive();
    TUTTI_RETURN_IF_ERROR(group_.Meet());
    TUTTI_RETURN_IF_ERROR(ReadParts());
    if (Takes()) {
      Status made = MakeResult();
      if (!made.ok()) return group_.Fail(std::move(made));
    }

    int64_t most = 0;
    for (int64_t rank = 0; rank < group_.size(); ++rank) {
      if (Shows(rank)) most = std::max(most, this->part(rank).bytes);
    }
    const int64_t chunks = most <= inline_bytes ? 1 : (most + kChunkBytes - 1) / kChunkBytes;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (chunk + 1 < chunks) {
        WriteChunk(chunk + 1, through_block);
        group_.Advance(static_cast<uint64_t>(chunk + 1));
      }
      if (chunk > 0) {
        // Who takes nothing waits for the root only, which takes what it will overwrite.
        TUTTI_RETURN_IF_ERROR(group_.Await(static_cast<uint64_t>(chunk),
                                           Takes() ? SharedGroup::kAll : call_.header.root));
      }
      if (!Takes()) continue;
      for (int64_t peer = 0; peer < group_.size(); ++peer) {
        if (peer != group_.rank()) TakeChunk(peer, chunk, inline_bytes);
      }
    }
    if (!Takes()) {
      group_.Finish(static_cast<uint64_t>(chunks - 1));
      return OkStatus();
    }
    Place(group_.rank(), 0, part.bytes, static_cast<const std::byte*>(own_->data()));
    if (dtype_ == DType::kBytes) TUTTI_RETURN_IF_ERROR(JoinStrings());
    group_.Finish(static_cast<uint64_t>(chunks - 1));
    call_.gathered = std::move(result_);
    return OkStatus();
  }

 private:
  bool IsGather() const { return call_.header.op == CollectiveOp::kGather; }
  // Whether this rank makes a result, and whether others need the part of `rank`.
  bool Takes() const { return !IsGather() || group_.rank() == call_.header.root; }
  bool SwapsBlocks() const { return group_.SwapsCopies() && !IsGather(); }
  bool Shows(int64_t rank) const { return !IsGather() || rank != call_.header.root; }
  Part& part(int64_t rank) { return parts_[static_cast<size_t>(rank)]; }
  Ref<Tensor>& packed(int64_t rank) { return packed_[static_cast<size_t>(rank)]; }
  int64_t ItemBytes() const { return static_cast<int64_t>(ItemSize(dtype_)); }

  Result<Ref<Tensor>> OwnBytes() const {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense, call_.gather_input->Contiguous());
    return dtype_ == DType::kBytes ? PackStrings(*dense) : std::move(dense);
  }

  std::byte* ChunkOf(int64_t rank, int64_t chunk) const {
    std::byte* const block =
        SwapsBlocks() ? group_.copies(rank, chunk / kChunksInBlock) : group_.block(rank);
    return block + chunk % kChunksInBlock * kChunkBytes;
  }
  void WriteChunk(int64_t chunk, bool through_block) {
    const auto bytes = static_cast<int64_t>(own_->byte_size());
    const int64_t begin = chunk * kChunkBytes;
    if (!through_block || begin >= bytes) return;
    group_.CopyIn(ChunkOf(group_.rank(), chunk),
                  static_cast<const std::byte*>(own_->data()) + begin,
                  static_cast<size_t>(std::min(kChunkBytes, bytes - begin)));
  }

  // What the ranks say of their parts, once read, so that it cannot change any more.
  Status ReadParts() {
    for (int64_t rank = 0; rank < group_.size(); ++rank) {
      Part& p = part(rank);
      std::memcpy(&p, group_.inline_payload(rank), sizeof(p));
      int64_t bytes = 0;
      bool good = p.axis_size >= 0 && p.bytes >= 0 &&
                  !__builtin_mul_overflow(p.axis_size, inner_ * ItemBytes(), &bytes) &&
                  !__builtin_mul_overflow(bytes, outer_, &bytes);
      if (dtype_ != DType::kBytes) good = good && p.bytes == bytes;
      if (!good) return group_.FailPeer(rank, "its part has an impossible size");
    }
    return OkStatus();
  }

  Status MakeResult() {
    Dims dims = call_.header.first.dims;
    dims[axis_] = 0;
    for (const Part& p : parts_) {
      if (__builtin_add_overflow(dims[axis_], p.axis_size, &dims[axis_])) {
        return Status(StatusCode::kInvalidArgument,
                      "all_gather: the sizes along the axis do not add up in 64 bits");
      }
    }
    TUTTI_ASSIGN_OR_RETURN(shape_, Shape::Create(dims.data(), dims.size()));
    if (dtype_ != DType::kBytes) {
      TUTTI_ASSIGN_OR_RETURN(result_, Tensor::Create(dtype_, shape_, call_.unzeroed()));
      return OkStatus();
    }
    for (const Part& p : parts_) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> room,
                             Tensor::Create(DType::kUint8, Shape({p.bytes}), call_.unzeroed()));
      packed_.push_back(std::move(room));
    }
    return OkStatus();
  }

  void TakeChunk(int64_t peer, int64_t chunk, int64_t inline_bytes) {
    const int64_t bytes = part(peer).bytes;
    if (bytes <= inline_bytes) {
      if (chunk == 0) Place(peer, 0, bytes, group_.inline_payload(peer) + sizeof(Part));
      return;
    }
    const int64_t begin = chunk * kChunkBytes;
    if (begin >= bytes) return;
    Place(peer, begin, std::min(kChunkBytes, bytes - begin), ChunkOf(peer, chunk));
  }

  // Puts bytes [begin, begin + count) of a rank's part where they belong.
  void Place(int64_t rank, int64_t begin, int64_t count, const std::byte* from) {
    if (count == 0) return;
    if (dtype_ == DType::kBytes) {
      std::memcpy(static_cast<std::byte*>(packed(rank)->mutable_data()) + begin, from,
                  static_cast<size_t>(count));
      return;
    }
    // A row: what lies together along the axis and behind it.
    const int64_t step = inner_ * ItemBytes();
    const int64_t row = part(rank).axis_size * step;
    const int64_t result_row = shape_.dim(axis_) * step;
    int64_t before = 0;
    for (int64_t r = 0; r < rank; ++r) before += part(r).axis_size * step;
    auto* result = static_cast<std::byte*>(result_->mutable_data());
    while (count > 0) {
      const int64_t within = begin % row;
      const int64_t bytes = std::min(row - within, count);
      std::memcpy(result + begin / row * result_row + before + within, from,
                  static_cast<size_t>(bytes));
      begin += bytes;
      from += bytes;
      count -= bytes;
    }
  }

  Status JoinStrings() {
    std::vector<Ref<Tensor>> tensors;
    std::vector<const Tensor*> pointers;
    for (int64_t rank = 0; rank < group_.size(); ++rank) {
      Dims dims = call_.header.first.dims;
      dims[axis_] = part(rank).axis_size;
      Result<Shape> shape = Shape::Create(dims.data(), dims.size());
      std::vector<BytesView> views;
      if (!shape.ok() || !UnpackStrings(*packed(rank), shape->num_elements(), &views)) {
        return group_.FailPeer(rank, "its part holds no byte strings");
      }
      Result<Ref<Tensor>> tensor = Tensor::FromBytesViews(*shape, views, packed(rank));
      if (!tensor.ok()) return group_.Fail(std::move(tensor).status());
      pointers.push_back(tensor->get());
      tensors.push_back(std::move(tensor).value());
    }
    Result<Ref<Tensor>> joined = Concat(pointers, axis_, call_.unzeroed());
    if (!joined.ok()) return group_.Fail(std::move(joined).status());
    result_ = std::move(joined).value();
    return OkStatus();
  }

  SharedGroup& group_;
  CollectiveCall& call_;
  const DType dtype_;
  const size_t axis_;
  int64_t outer_ = 1;  // elements of the axes before, and behind
  int64_t inner_ = 1;
  Ref<Tensor> own_;
  std::vector<Part> parts_;
  Shape shape_;
  Ref<Tensor> result_;
  std::vector<Ref<Tensor>> packed_;
};

}  // namespace

Status SharedAllGather(SharedGroup& group, CollectiveCall* call) {
  return AllGather(group, call).Run();
}

}  // namespace tutti
