// Gathers into a new tensor over links: everybody sends its tensor to everybody (all_gather) or to
// the root (gather).

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/collective/stream/algorithms/gather_parts.h"
#include "core/collective/stream/algorithms/link_exchange.h"

namespace tutti {
namespace {

class LinkGather final : public LinkAlgorithm {
 public:
  explicit LinkGather(const LinkCallContext& context)
      : context_(context),
        rank_(context.rank),
        size_(context.size),
        root_(context.call->header.op == CollectiveOp::kGather ? context.call->header.root : -1),
        parts_(context),
        peers_(static_cast<size_t>(size_)) {}

  Status Prepare(const Tensor& input) { return parts_.Prepare(input); }

  uint64_t Announce(int64_t peer) const override {
    return Gathers(peer) ? parts_.own_bytes() : 0;
  }
  void AddPayload(int64_t peer, MemoryParts* memory) const override {
    if (Gathers(peer) && GoesAlong(parts_.own_bytes())) {
      memory->Add(parts_.own_payload(), parts_.own_bytes());
    }
  }

  Status Begin(std::span<const LinkPeerPayload> payloads) override {
    for (int64_t rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      Peer& peer = At(rank);
      if (Gathers(rank) && !GoesAlong(parts_.own_bytes())) peer.to_send = parts_.segments_of(rank_);
      pending_ += peer.to_send;
      if (!Gathers(rank_)) continue;
      const LinkPeerPayload& payload = payloads[static_cast<size_t>(rank)];
      TUTTI_RETURN_IF_ERROR(parts_.Announce(rank, Shape(payload.header->first.dims.span()),
                                            payload.announced));
    }
    if (!Gathers(rank_)) return OkStatus();
    TUTTI_RETURN_IF_ERROR(parts_.MakePlaces());
    for (int64_t rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      TUTTI_RETURN_IF_ERROR(BeginPeer(rank, payloads[static_cast<size_t>(rank)]));
    }
    return OkStatus();
  }

  bool NextSegment(int64_t rank, uint64_t* segment, MemoryParts* memory) override {
    Peer& peer = At(rank);
    if (peer.sent == peer.to_send) return false;
    *segment = peer.sent++;
    memory->Add(parts_.Segment(rank_, *segment), parts_.SegmentBytes(rank_, *segment));
    --pending_;
    return true;
  }

  Result<bool> Accept(int64_t rank, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    const size_t due = At(rank).received;
    const size_t count = parts_.segments_of(rank);
    if (segment != due || due >= count || bytes != parts_.SegmentBytes(rank, due)) {
      return DataLoss("segment {} with {} bytes of its tensor; segment {} of {} is due", segment,
                      bytes, due, count);
    }
    TUTTI_ASSIGN_OR_RETURN(std::byte* const room, parts_.RoomFor(rank, due));
    memory->Add(room, bytes);
    return true;
  }

  Status Received(int64_t rank) override {
    ++At(rank).received;
    --pending_;
    return OkStatus();
  }

  bool complete() const override { return pending_ == 0; }

  std::string Owed(int64_t rank) const override {
    const size_t received = peers_[static_cast<size_t>(rank)].received;
    const size_t segments = parts_.segments_of(rank);
    if (received == segments) return "";
    return Format("{} of {} segments of its tensor are here", received, segments);
  }

  Status Finish(CollectiveCall* call) override {
    if (!Gathers(rank_)) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(call->gathered, parts_.Join());
    return OkStatus();
  }

 private:
  struct Peer {
    size_t to_send = 0;   // segments
    size_t sent = 0;      // segments
    size_t received = 0;  // segments
  };

  Peer& At(int64_t rank) { return peers_[static_cast<size_t>(rank)]; }
  // Whether a rank gets the joined tensor.
  bool Gathers(int64_t rank) const { return root_ < 0 || rank == root_; }
  // Whether a payload goes along with the header.
  bool GoesAlong(uint64_t bytes) const { return bytes <= LinkEagerBytes(size_); }

  Status BeginPeer(int64_t rank, const LinkPeerPayload& payload) {
    if (!GoesAlong(payload.announced)) {
      pending_ += parts_.segments_of(rank);
      return OkStatus();
    }
    if (payload.bytes != payload.announced) {
      return DataLoss("rank {} sent {} bytes of a tensor of {}", context_.Name(rank),
                      payload.bytes, payload.announced);
    }
    Peer& peer = At(rank);
    peer.received = parts_.segments_of(rank);
    if (payload.bytes == 0) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(std::byte* const room, parts_.RoomFor(rank, 0));
    std::memcpy(room, payload.data, payload.bytes);
    return OkStatus();
  }

  const LinkCallContext context_;
  const int64_t rank_;
  const int64_t size_;
  const int64_t root_;  // -1: everybody gathers
  GatherParts parts_;
  std::vector<Peer> peers_;
  uint64_t pending_ = 0;  // segments still to be handed out or received
};

// A payload that goes along is one segment.
static_assert((size_t{64} << 10) <= GatherParts::kSegmentBytes);

}  // namespace

Result<std::unique_ptr<LinkAlgorithm>> MakeLinkGather(const LinkCallContext& context) {
  auto gather = std::make_unique<LinkGather>(context);
  TUTTI_RETURN_IF_ERROR(gather->Prepare(*context.call->gather_input));
  return std::unique_ptr<LinkAlgorithm>(std::move(gather));
}

}  // namespace tutti
