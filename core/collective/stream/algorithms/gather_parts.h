// GatherParts: the tensors of all ranks on their way to being one: a rank's own as bytes, places
// for those of the others, and what becomes of them. Where the parts of the joined tensor are
// contiguous (along the first axis, say) they are received into their places; otherwise each is
// received by itself and copied there.
//
// A bytes tensor travels as the lengths of all its strings and then their text. How much comes, its
// rank alone knows: room is made for what is there, segment by segment.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_ALGORITHMS_GATHER_PARTS_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_ALGORITHMS_GATHER_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/transport.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/tensor/tensor.h"

namespace tutti {

class GatherParts {
 public:
  static constexpr size_t kSegmentBytes = LinkSegmentBytes(256 << 10);

  explicit GatherParts(const LinkCallContext& context);
  ~GatherParts();
  GatherParts(const GatherParts&) = delete;
  GatherParts& operator=(const GatherParts&) = delete;

  // Before anything else.
  Status Prepare(const Tensor& input);
  uint64_t own_bytes() const { return is_bytes_ ? own_text_.size() : own_->byte_size(); }
  const std::byte* own_payload() const {
    return is_bytes_ ? reinterpret_cast<const std::byte*>(own_text_.data())
                     : static_cast<const std::byte*>(own_->data());
  }

  // What a rank's tensor is, and how many bytes come. DATA_LOSS where they do not fit each other.
  Status Announce(int64_t rank, const Shape& shape, uint64_t bytes);
  // All have been announced, the own one excepted.
  Status MakePlaces();

  uint64_t bytes_of(int64_t rank) const { return parts_[static_cast<size_t>(rank)].bytes; }
  size_t segments_of(int64_t rank) const {
    return bytes_of(rank) / kSegmentBytes + (bytes_of(rank) % kSegmentBytes != 0 ? 1 : 0);
  }
  size_t SegmentBytes(int64_t rank, size_t segment) const {
    return std::min<uint64_t>(kSegmentBytes, bytes_of(rank) - segment * kSegmentBytes);
  }
  // Where the next segment of a rank's payload goes.
  Result<std::byte*> RoomFor(int64_t rank, size_t segment);
  // Where a segment that came lies, or one of the own payload.
  const std::byte* Segment(int64_t rank, size_t segment) const;
  // All segments are there.
  Result<Ref<Tensor>> Join();

 private:
  struct Part {
    Shape shape;
    uint64_t bytes = 0;
    Ref<Tensor> place;              // in the joined tensor
    Ref<Tensor> tensor;             // where it is received when its place has gaps
    std::deque<std::string> texts;  // of a bytes tensor, a segment each
  };

  const LinkCallContext context_;
  const int64_t rank_;
  const size_t axis_;
  const bool is_bytes_;
  const TensorOptions memory_;  // of the result and what it is made of
  Ref<Tensor> own_;
  std::string own_text_;
  uint64_t text_bytes_ = 0;  // of the others, charged
  std::vector<Part> parts_;  // by rank
  Ref<Tensor> joined_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_ALGORITHMS_GATHER_PARTS_H_
