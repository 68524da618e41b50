// Gathers into a new tensor over links: everybody sends its tensor to everybody (all_gather) or to
// the root (gather). Where the parts of the joined tensor are contiguous (along the first axis,
// say) they are received into their places; otherwise each is received by itself and copied there.
//
// A bytes tensor travels as the lengths of all its strings and then their text.

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/collective/link_exchange.h"
#include "core/tensor/concat.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

constexpr size_t kSegmentBytes = LinkSegmentBytes(256 << 10);

size_t NumSegments(uint64_t bytes) { return (bytes + kSegmentBytes - 1) / kSegmentBytes; }

// The payload of a bytes tensor.
std::string EncodeStrings(const Tensor& tensor) {
  const std::span<const BytesView> views = tensor.span<BytesView>();
  size_t total = views.size() * sizeof(uint64_t);
  for (const BytesView& view : views) total += view.size;
  std::string bytes;
  bytes.reserve(total);
  for (const BytesView& view : views) {
    const uint64_t size = view.size;
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  for (const BytesView& view : views) bytes.append(view.data, view.size);
  return bytes;
}

Result<Ref<Tensor>> DecodeStrings(const Shape& shape, const std::string& bytes,
                                  MemoryAccount* account) {
  const auto count = static_cast<size_t>(shape.num_elements());
  if (count > bytes.size() / sizeof(uint64_t)) {
    return DataLoss("{} bytes for {} strings", bytes.size(), count);
  }
  size_t offset = count * sizeof(uint64_t);
  std::vector<BytesView> views(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t size = 0;
    std::memcpy(&size, bytes.data() + i * sizeof(size), sizeof(size));
    if (size > bytes.size() - offset) {
      return DataLoss("a string of {} bytes where {} are left", size, bytes.size() - offset);
    }
    views[i] = BytesView{bytes.data() + offset, size};
    offset += size;
  }
  if (offset != bytes.size()) {
    return DataLoss("{} bytes behind {} strings", bytes.size() - offset, count);
  }
  return Tensor::FromStrings(shape, views, account);
}

class LinkGather final : public LinkAlgorithm {
 public:
  explicit LinkGather(const LinkCallContext& context)
      : rank_(context.rank),
        size_(context.size),
        root_(context.call->header.op == CollectiveOp::kGather ? context.call->header.root : -1),
        axis_(static_cast<size_t>(context.call->header.axis)),
        is_bytes_(context.call->header.first.dtype == DType::kBytes),
        memory_(context.call->unzeroed()),
        peers_(static_cast<size_t>(size_)) {}
  ~LinkGather() override {
    if (memory_.account != nullptr) memory_.account->Unreserve(text_bytes_);
  }

  Status Prepare(const Tensor& input) {
    TUTTI_ASSIGN_OR_RETURN(own_, input.Contiguous());
    if (is_bytes_) own_text_ = EncodeStrings(*own_);
    return OkStatus();
  }

  uint64_t Announce(int64_t peer) const override { return Gathers(peer) ? own_bytes() : 0; }
  void AddPayload(int64_t peer, MemoryParts* memory) const override {
    if (Gathers(peer) && own_bytes() <= LinkEagerBytes(size_)) memory->Add(Payload(), own_bytes());
  }

  Status Begin(std::span<const LinkPeerPayload> payloads) override {
    if (Gathers(rank_) && !is_bytes_) TUTTI_RETURN_IF_ERROR(MakePlaces(payloads));
    const bool own_went_along = own_bytes() <= LinkEagerBytes(size_);
    for (int64_t rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      Peer& peer = At(rank);
      if (Gathers(rank) && !own_went_along) {
        peer.to_send = NumSegments(own_bytes());
        pending_ += peer.to_send;
      }
      if (!Gathers(rank_)) continue;
      TUTTI_RETURN_IF_ERROR(BeginPeer(rank, payloads[static_cast<size_t>(rank)], &peer));
    }
    return OkStatus();
  }

  bool NextSegment(int64_t rank, uint64_t* segment, MemoryParts* memory) override {
    Peer& peer = At(rank);
    if (peer.sent == peer.to_send) return false;
    *segment = peer.sent++;
    const uint64_t offset = *segment * kSegmentBytes;
    memory->Add(Payload() + offset, std::min<uint64_t>(kSegmentBytes, own_bytes() - offset));
    --pending_;
    return true;
  }

  Result<bool> Accept(int64_t rank, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    Peer& peer = At(rank);
    const uint64_t offset = peer.received * kSegmentBytes;
    if (segment != peer.received || segment >= NumSegments(peer.total_bytes) ||
        bytes != std::min<uint64_t>(kSegmentBytes, peer.total_bytes - offset)) {
      return DataLoss("segment {} with {} bytes of its tensor; segment {} of {} is due", segment,
                      bytes, peer.received, NumSegments(peer.total_bytes));
    }
    // How much text comes, the peer alone knows: room is made for what is there.
    if (is_bytes_) TUTTI_RETURN_IF_ERROR(MakeRoom(&peer, bytes));
    memory->Add(Destination(peer) + offset, bytes);
    return true;
  }

  Status Received(int64_t rank) override {
    ++At(rank).received;
    --pending_;
    return OkStatus();
  }

  bool complete() const override { return pending_ == 0; }

  std::string Owed(int64_t rank) const override {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    const size_t segments = NumSegments(peer.total_bytes);
    if (peer.received == segments) return "";
    return Format("{} of {} segments of its tensor are here", peer.received, segments);
  }

  Status Finish(CollectiveCall* call) override {
    if (!Gathers(rank_)) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(call->gathered, Join());
    return OkStatus();
  }

 private:
  struct Peer {
    Shape shape;
    uint64_t total_bytes = 0;
    size_t to_send = 0;   // segments
    size_t sent = 0;      // segments
    size_t received = 0;  // segments
    Ref<Tensor> place;    // its part of the joined tensor
    Ref<Tensor> tensor;   // where it is received when its place has gaps
    std::string text;     // of a bytes tensor
  };

  Peer& At(int64_t rank) { return peers_[static_cast<size_t>(rank)]; }
  // Whether a rank gets the joined tensor.
  bool Gathers(int64_t rank) const { return root_ < 0 || rank == root_; }
  uint64_t own_bytes() const { return is_bytes_ ? own_text_.size() : own_->byte_size(); }

  const std::byte* Payload() const {
    return is_bytes_ ? reinterpret_cast<const std::byte*>(own_text_.data())
                     : static_cast<const std::byte*>(own_->data());
  }
  std::byte* Destination(Peer& peer) const {
    if (is_bytes_) return reinterpret_cast<std::byte*>(peer.text.data());
    Tensor& tensor = peer.tensor ? *peer.tensor : *peer.place;
    return static_cast<std::byte*>(tensor.mutable_data());
  }

  // For more of a peer's text, which is charged as the result is.
  Status MakeRoom(Peer* peer, uint64_t bytes) {
    if (memory_.account != nullptr) {
      TUTTI_RETURN_IF_ERROR(memory_.account->Reserve(bytes));
      text_bytes_ += bytes;
    }
    peer->text.resize(peer->text.size() + bytes);
    return OkStatus();
  }

  // The joined tensor, and every rank's part of it.
  Status MakePlaces(std::span<const LinkPeerPayload> payloads) {
    const DType dtype = own_->dtype();
    int64_t total = 0;
    for (int64_t rank = 0; rank < size_; ++rank) {
      Peer& peer = At(rank);
      if (rank == rank_) {
        peer.shape = own_->shape();
      } else {
        peer.shape = Shape(payloads[static_cast<size_t>(rank)].header->first.dims.span());
      }
      if (__builtin_add_overflow(total, peer.shape.dim(axis_), &total)) {
        return InvalidArgument("the sizes along axis {} do not add up in 64 bits", axis_);
      }
    }
    Dims dims(own_->shape().dims().data(), own_->rank());
    dims[axis_] = total;
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    TUTTI_ASSIGN_OR_RETURN(joined_, Tensor::Create(dtype, shape, memory_));
    int64_t begin = 0;
    for (int64_t rank = 0; rank < size_; ++rank) {
      Peer& peer = At(rank);
      const int64_t end = begin + peer.shape.dim(axis_);
      TUTTI_ASSIGN_OR_RETURN(peer.place, joined_->SliceAxis(axis_, begin, end));
      begin = end;
      if (rank == rank_ || peer.place->is_contiguous()) continue;
      TUTTI_ASSIGN_OR_RETURN(peer.tensor, Tensor::Create(dtype, peer.shape, memory_));
    }
    return OkStatus();
  }

  Result<Ref<Tensor>> Join() {
    At(rank_).tensor = own_;
    if (is_bytes_) {
      for (int64_t rank = 0; rank < size_; ++rank) {
        if (rank == rank_) continue;
        Peer& peer = At(rank);
        Result<Ref<Tensor>> strings = DecodeStrings(peer.shape, peer.text, memory_.account);
        if (!strings.ok()) {
          return std::move(strings).status().WithPrefix(Format("the tensor of rank {}", rank));
        }
        peer.tensor = std::move(strings).value();
      }
      std::vector<const Tensor*> tensors;
      for (const Peer& peer : peers_) tensors.push_back(peer.tensor.get());
      return Concat(tensors, axis_, memory_);
    }
    for (Peer& peer : peers_) {
      if (peer.tensor) TUTTI_RETURN_IF_ERROR(CopyInto(*peer.tensor, peer.place.get()));
    }
    return joined_;
  }

  Status BeginPeer(int64_t rank, const LinkPeerPayload& payload, Peer* peer) {
    if (is_bytes_) peer->shape = Shape(payload.header->first.dims.span());
    peer->total_bytes = payload.announced;
    if (!is_bytes_) {
      const uint64_t expected = static_cast<uint64_t>(peer->shape.num_elements()) *
                                ItemSize(own_->dtype());
      if (payload.announced != expected) {
        return DataLoss("rank {} sends {} bytes for a tensor of {}", rank, payload.announced,
                        expected);
      }
    }
    if (payload.announced > LinkEagerBytes(size_)) {
      pending_ += NumSegments(payload.announced);
      return OkStatus();
    }
    if (payload.bytes != payload.announced) {
      return DataLoss("rank {} sent {} bytes of a tensor of {}", rank, payload.bytes,
                      payload.announced);
    }
    peer->received = NumSegments(payload.announced);
    if (is_bytes_) TUTTI_RETURN_IF_ERROR(MakeRoom(peer, payload.bytes));
    if (payload.bytes != 0) std::memcpy(Destination(*peer), payload.data, payload.bytes);
    return OkStatus();
  }

  const int64_t rank_;
  const int64_t size_;
  const int64_t root_;  // -1: everybody gathers
  const size_t axis_;
  const bool is_bytes_;
  const TensorOptions memory_;  // of the result and what it is made of
  Ref<Tensor> own_;
  std::string own_text_;
  uint64_t text_bytes_ = 0;  // of the peers, charged
  std::vector<Peer> peers_;
  Ref<Tensor> joined_;
  uint64_t pending_ = 0;  // segments still to be handed out or received
};

}  // namespace

Result<std::unique_ptr<LinkAlgorithm>> MakeLinkGather(const LinkCallContext& context) {
  auto gather = std::make_unique<LinkGather>(context);
  TUTTI_RETURN_IF_ERROR(gather->Prepare(*context.call->gather_input));
  return std::unique_ptr<LinkAlgorithm>(std::move(gather));
}

}  // namespace tutti
