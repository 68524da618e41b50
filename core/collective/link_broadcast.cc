// Broadcast of a large payload over links: the root sends every peer the same segments, as fast as
// each takes them.

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/collective/link_exchange.h"

namespace tutti {
namespace {

constexpr size_t kSegmentBytes = size_t{256} << 10;

class LinkBroadcast final : public LinkExchange {
 public:
  explicit LinkBroadcast(const LinkCallContext& context)
      : rank_(context.rank),
        root_(context.call->header.root),
        memory_(context.call->memory[0]) {
    const TensorSignature& signature = context.call->header.first;
    bytes_ = static_cast<size_t>(signature.num_elements()) * ItemSize(signature.dtype);
    segments_ = (bytes_ + kSegmentBytes - 1) / kSegmentBytes;
    sent_.resize(static_cast<size_t>(context.size));
    pending_ = rank_ == root_ ? segments_ * static_cast<size_t>(context.size - 1) : segments_;
  }

  bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) override {
    size_t& next = sent_[static_cast<size_t>(peer)];
    if (rank_ != root_ || next == segments_) return false;
    *segment = next++;
    memory->Add(static_cast<const std::byte*>(memory_.input) + *segment * kSegmentBytes,
                SegmentBytes(*segment));
    --pending_;
    return true;
  }

  Result<bool> Accept(int64_t peer, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    if (peer != root_ || segment != received_ || segment >= segments_ ||
        bytes != SegmentBytes(segment)) {
      return DataLoss("segment {} with {} bytes of a broadcast; segment {} of {} is due", segment,
                      bytes, received_, segments_);
    }
    memory->Add(static_cast<std::byte*>(memory_.output) + segment * kSegmentBytes, bytes);
    return true;
  }

  Status Received(int64_t) override {
    ++received_;
    --pending_;
    return OkStatus();
  }

  bool complete() const override { return pending_ == 0; }

  std::string Owed(int64_t peer) const override {
    if (peer != root_ || received_ == segments_) return "";
    return Format("{} of {} segments are here", received_, segments_);
  }

 private:
  size_t SegmentBytes(uint64_t segment) const {
    return std::min(kSegmentBytes, bytes_ - segment * kSegmentBytes);
  }

  const int64_t rank_;
  const int64_t root_;
  const CollectiveMemory memory_;
  size_t bytes_ = 0;
  size_t segments_ = 0;
  std::vector<size_t> sent_;  // by peer
  size_t received_ = 0;
  size_t pending_ = 0;  // segments still to be handed out or received
};

}  // namespace

std::unique_ptr<LinkExchange> MakeLinkBroadcast(const LinkCallContext& context) {
  return std::make_unique<LinkBroadcast>(context);
}

}  // namespace tutti
