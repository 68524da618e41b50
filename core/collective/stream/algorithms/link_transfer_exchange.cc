// A large send over a link: once both have come, segments from the sender's memory into the
// receiver's.

#include <algorithm>

#include "core/base/error.h"
#include "core/collective/stream/algorithms/link_exchange.h"

namespace tutti {
namespace {

constexpr size_t kTransferSegmentBytes = LinkSegmentBytes(256 << 10);

class LinkTransferExchange final : public LinkExchange {
 public:
  explicit LinkTransferExchange(const CollectiveCall& call)
      : peer_(call.peer),
        sends_(call.header.op == CollectiveOp::kSend),
        memory_(call.memory[0]),
        bytes_(static_cast<size_t>(call.header.first.num_elements()) *
               ItemSize(call.header.first.dtype)),
        segments_((bytes_ + kTransferSegmentBytes - 1) / kTransferSegmentBytes) {}

  bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) override {
    if (!sends_ || peer != peer_ || next_ == segments_) return false;
    *segment = next_++;
    memory->Add(static_cast<const std::byte*>(memory_.input) + *segment * kTransferSegmentBytes,
                SegmentBytes(*segment));
    return true;
  }

  Result<bool> Accept(int64_t peer, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    if (sends_ || peer != peer_ || segment != next_ || segment >= segments_ ||
        bytes != SegmentBytes(segment)) {
      return DataLoss("segment {} with {} bytes while rank {} is to send segment {} of {}", segment,
                      bytes, peer_, next_, segments_);
    }
    memory->Add(static_cast<std::byte*>(memory_.output) + segment * kTransferSegmentBytes, bytes);
    return true;
  }

  Status Received(int64_t) override {
    ++next_;
    return OkStatus();
  }

  bool complete() const override { return next_ == segments_; }

  std::string Owed(int64_t peer) const override {
    if (sends_ || peer != peer_ || complete()) return "";
    return Format("{} of {} segments are here", next_, segments_);
  }

 private:
  size_t SegmentBytes(uint64_t segment) const {
    return std::min(kTransferSegmentBytes, bytes_ - segment * kTransferSegmentBytes);
  }

  const int64_t peer_;
  const bool sends_;
  const CollectiveMemory memory_;
  const size_t bytes_;
  const size_t segments_;
  size_t next_ = 0;  // segment to be handed out or received
};

}  // namespace

std::unique_ptr<LinkExchange> MakeLinkTransferExchange(const CollectiveCall& call) {
  return std::make_unique<LinkTransferExchange>(call);
}

}  // namespace tutti
