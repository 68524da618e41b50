// Moves over links: calls that bring bytes of one rank's input to their place in another's output
// and do nothing else to them.
//
//   broadcast    the root's input to everybody
//   scatter      of the root's input each rank's share to it
//   all_gather   every input to its part of everybody's output
//   all_to_all   of every input each rank's share to it; where the ranks say how many rows go to
//                whom, the output is made once all have said so
//
// For each peer that is one range out and one range in. In place nothing is written that is still
// to be sent: what a rank writes lies apart from what it reads, or is its own part, which stays.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

constexpr size_t kSegmentBytes = LinkSegmentBytes(256 << 10);

size_t NumSegments(size_t bytes) { return (bytes + kSegmentBytes - 1) / kSegmentBytes; }
size_t SegmentBytes(size_t bytes, uint64_t segment) {
  return std::min(kSegmentBytes, bytes - segment * kSegmentBytes);
}

class LinkMove final : public LinkAlgorithm {
 public:
  explicit LinkMove(const LinkCallContext& context)
      : context_(context),
        rank_(context.rank),
        size_(context.size),
        eager_bytes_(LinkEagerBytes(context.size)),
        call_(*context.call),
        peers_(static_cast<size_t>(size_)) {
    if (is_uneven()) {
      PlanRows();
    } else {
      PlanShares();
    }
  }

  uint64_t Announce(int64_t peer) const override {
    const auto p = static_cast<size_t>(peer);
    return is_uneven() ? static_cast<uint64_t>(call_.send_rows[p]) : peers_[p].out_bytes;
  }

  void AddPayload(int64_t peer, MemoryParts* memory) const override {
    const Peer& state = peers_[static_cast<size_t>(peer)];
    if (state.out_bytes <= eager_bytes_) memory->Add(state.out, state.out_bytes);
  }

  Status Begin(std::span<const LinkPeerPayload> payloads) override {
    if (is_uneven()) TUTTI_RETURN_IF_ERROR(MakeOutput(payloads));
    for (int64_t rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      Peer& peer = At(rank);
      TUTTI_RETURN_IF_ERROR(BeginPeer(rank, payloads[static_cast<size_t>(rank)], &peer));
      if (peer.out_bytes <= eager_bytes_) peer.sent = NumSegments(peer.out_bytes);
      pending_ += NumSegments(peer.out_bytes) - peer.sent;
      pending_ += NumSegments(peer.in_bytes) - peer.received;
    }
    return OkStatus();
  }

  Status Finish(CollectiveCall* call) override {
    const Peer& own = At(rank_);
    // In place a rank's own part lies where it belongs.
    if (own.in_bytes != 0 && own.out != own.in) std::memcpy(own.in, own.out, own.in_bytes);
    call->gathered = std::move(output_);
    call->received_rows = std::move(received_rows_);
    return OkStatus();
  }

  bool NextSegment(int64_t rank, uint64_t* segment, MemoryParts* memory) override {
    Peer& peer = At(rank);
    if (peer.sent == NumSegments(peer.out_bytes)) return false;
    *segment = peer.sent++;
    memory->Add(peer.out + *segment * kSegmentBytes, SegmentBytes(peer.out_bytes, *segment));
    --pending_;
    return true;
  }

  Result<bool> Accept(int64_t rank, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    Peer& peer = At(rank);
    const size_t segments = NumSegments(peer.in_bytes);
    if (segment != peer.received || segment >= segments ||
        bytes != SegmentBytes(peer.in_bytes, segment)) {
      return DataLoss("segment {} with {} bytes of {}; segment {} of {} is due", segment, bytes,
                      CollectiveOpName(call_.header.op), peer.received, segments);
    }
    memory->Add(peer.in + segment * kSegmentBytes, bytes);
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
    const size_t segments = NumSegments(peer.in_bytes);
    if (peer.received == segments) return "";
    return Format("{} of {} segments are here", peer.received, segments);
  }

 private:
  // What goes to a rank and comes from it.
  struct Peer {
    const std::byte* out = nullptr;
    size_t out_bytes = 0;
    std::byte* in = nullptr;
    size_t in_bytes = 0;
    size_t sent = 0;      // segments
    size_t received = 0;  // segments
  };

  Peer& At(int64_t rank) { return peers_[static_cast<size_t>(rank)]; }
  bool is_uneven() const { return call_.header.uneven; }

  // Ranges that follow from the header.
  void PlanShares() {
    const CallHeader& header = call_.header;
    const size_t whole =
        static_cast<size_t>(header.first.num_elements()) * ItemSize(header.first.dtype);
    if (whole == 0) return;
    const auto* input = static_cast<const std::byte*>(call_.memory[0].input);
    auto* output = static_cast<std::byte*>(call_.memory[0].output);
    const size_t share = whole / static_cast<size_t>(size_);
    const bool at_root = rank_ == header.root;
    for (int64_t rank = 0; rank < size_; ++rank) {
      Peer& peer = At(rank);
      const auto r = static_cast<size_t>(rank);
      switch (header.op) {
        case CollectiveOp::kScatter:
          if (at_root) SetOut(input + r * share, share, &peer);
          if (rank == header.root) SetIn(output, share, &peer);
          break;
        case CollectiveOp::kAllGather:
          SetOut(input, whole, &peer);
          SetIn(output + r * whole, whole, &peer);
          break;
        case CollectiveOp::kAllToAll:
          SetOut(input + r * share, share, &peer);
          SetIn(output + r * share, share, &peer);
          break;
        default:  // a broadcast, whose root has its payload
          if (rank == rank_) break;
          if (at_root) SetOut(input, whole, &peer);
          if (rank == header.root) SetIn(output, whole, &peer);
      }
    }
  }
  static void SetOut(const std::byte* out, size_t bytes, Peer* peer) {
    peer->out = out;
    peer->out_bytes = bytes;
  }
  static void SetIn(std::byte* in, size_t bytes, Peer* peer) {
    peer->in = in;
    peer->in_bytes = bytes;
  }

  // What goes out where each rank has its own number of rows.
  void PlanRows() {
    const TensorSignature& signature = call_.header.first;
    row_bytes_ = ItemSize(signature.dtype);
    for (size_t i = 1; i < signature.dims.size(); ++i) {
      row_bytes_ *= static_cast<size_t>(signature.dims[i]);
    }
    const auto* next = static_cast<const std::byte*>(call_.memory[0].input);
    for (int64_t rank = 0; rank < size_; ++rank) {
      const size_t bytes =
          static_cast<size_t>(call_.send_rows[static_cast<size_t>(rank)]) * row_bytes_;
      if (bytes == 0) continue;
      SetOut(next, bytes, &At(rank));
      next += bytes;
    }
  }

  // All have said how many rows come.
  Status MakeOutput(std::span<const LinkPeerPayload> payloads) {
    int64_t total = 0;
    received_rows_.clear();
    for (int64_t rank = 0; rank < size_; ++rank) {
      const auto r = static_cast<size_t>(rank);
      const auto rows = rank == rank_ ? call_.send_rows[r]
                                      : static_cast<int64_t>(payloads[r].announced);
      if (rows < 0 || __builtin_add_overflow(total, rows, &total)) {
        return DataLoss("rank {} sends {} rows, which with the others' is no 64-bit number",
                        context_.Name(rank), payloads[r].announced);
      }
      received_rows_.push_back(rows);
    }
    Dims dims = call_.header.first.dims;
    dims[0] = total;
    Result<Shape> shape = Shape::Create(dims.data(), dims.size());
    if (!shape.ok()) return NoRoom(total, std::move(shape).status());
    // Beyond what the machine or the memory limit has nothing is allocated.
    Result<Ref<Tensor>> output =
        Tensor::Create(call_.header.first.dtype, *shape, call_.unzeroed());
    if (!output.ok()) return NoRoom(total, std::move(output).status());
    output_ = std::move(output).value();
    if (output_->byte_size() == 0) return OkStatus();
    auto* next = static_cast<std::byte*>(output_->mutable_data());
    for (int64_t rank = 0; rank < size_; ++rank) {
      const auto r = static_cast<size_t>(rank);
      SetIn(next, static_cast<size_t>(received_rows_[r]) * row_bytes_, &At(rank));
      next += At(rank).in_bytes;
    }
    return OkStatus();
  }

  // Names the rank that sends most.
  Status NoRoom(int64_t total, Status why) const {
    const auto most = std::max_element(received_rows_.begin(), received_rows_.end());
    const int64_t rank = most - received_rows_.begin();
    return Status(StatusCode::kResourceExhausted,
                  Format("no room for the {} rows of {} bytes that the ranks have announced, of "
                         "which rank {} sends {}: {}",
                         total, row_bytes_, context_.Name(rank), *most, why.message()))
        .With("rank", rank);
  }

  Status BeginPeer(int64_t rank, const LinkPeerPayload& payload, Peer* peer) {
    const char* op = CollectiveOpName(call_.header.op);
    if (!is_uneven() && payload.announced != peer->in_bytes) {
      return DataLoss("rank {} sends {} bytes of {}, expected {}", context_.Name(rank),
                      payload.announced, op, peer->in_bytes);
    }
    const bool eager = peer->in_bytes <= eager_bytes_;
    const size_t expected = eager ? peer->in_bytes : 0;
    if (payload.bytes != expected) {
      return DataLoss("rank {} sent {} bytes of {} with its header, expected {}",
                      context_.Name(rank), payload.bytes, op, expected);
    }
    if (!eager) return OkStatus();
    peer->received = NumSegments(peer->in_bytes);
    if (payload.bytes != 0) std::memcpy(peer->in, payload.data, payload.bytes);
    return OkStatus();
  }

  const LinkCallContext context_;
  const int64_t rank_;
  const int64_t size_;
  const size_t eager_bytes_;
  const CollectiveCall& call_;
  std::vector<Peer> peers_;  // by rank
  size_t row_bytes_ = 0;
  Ref<Tensor> output_;
  std::vector<int64_t> received_rows_;
  size_t pending_ = 0;  // segments still to be handed out or received
};

}  // namespace

std::unique_ptr<LinkAlgorithm> MakeLinkMove(const LinkCallContext& context) {
  return std::make_unique<LinkMove>(context);
}

}  // namespace tutti
