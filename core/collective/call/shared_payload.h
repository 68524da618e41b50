// The tensors of a call as one payload: each begins at a multiple of 64 bytes, a *granule*, so that
// a cut between two granules never cuts an element, and no two ranks write one cache line.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_SHARED_PAYLOAD_H_
#define TUTTI_CORE_COLLECTIVE_CALL_SHARED_PAYLOAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/tensor/dtype.h"

namespace tutti {

class SharedPayload {
 public:
  static constexpr int64_t kGranuleBytes = 64;

  explicit SharedPayload(const CallHeader& header) : header_(header) {
    if (header.num_tensors > 1) ends_.reserve(header.num_tensors);
    for (size_t i = 0; i < header.num_tensors; ++i) {
      const int64_t granules = GranulesOf(header.tensor(i));
      granules_ += granules;
      folded_granules_ += IsFoldedAsFloat(header.tensor(i).dtype) ? 2 * granules : granules;
      if (header.num_tensors > 1) ends_.push_back(granules_);
    }
  }

  int64_t granules() const { return granules_; }
  int64_t bytes() const { return granules_ * kGranuleBytes; }
  // What a fold works on: 16-bit floats become as many float32, which makes folding dearer than
  // moving, so that it had better be shared between the ranks.
  int64_t folded_bytes() const { return folded_granules_ * kGranuleBytes; }

  // piece(tensor, first element, elements, bytes from the beginning of the range), for each part of
  // a tensor in granules [begin, end).
  template <typename Piece>
  Status ForEach(int64_t begin, int64_t end, Piece piece) const {
    size_t index = 0;
    if (!ends_.empty()) {
      index = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) -
                                  ends_.begin());
    }
    for (int64_t at = begin; at < end; ++index) {
      const TensorSignature& signature = header_.tensor(index);
      const int64_t tensor_end = ends_.empty() ? granules_ : ends_[index];
      const int64_t tensor_begin = index == 0 ? 0 : ends_[index - 1];
      const int64_t piece_end = std::min(end, tensor_end);
      if (piece_end <= at) continue;
      const auto per_granule = kGranuleBytes / static_cast<int64_t>(ItemSize(signature.dtype));
      const int64_t first = (at - tensor_begin) * per_granule;
      const int64_t last =
          std::min((piece_end - tensor_begin) * per_granule, signature.num_elements());
      TUTTI_RETURN_IF_ERROR(piece(index, first, last - first, (at - begin) * kGranuleBytes));
      at = piece_end;
    }
    return OkStatus();
  }

 private:
  static bool IsFoldedAsFloat(DType dtype) {
    return dtype == DType::kFloat16 || dtype == DType::kBfloat16;
  }
  static int64_t GranulesOf(const TensorSignature& signature) {
    const auto item_bytes = static_cast<int64_t>(ItemSize(signature.dtype));
    return (signature.num_elements() * item_bytes + kGranuleBytes - 1) / kGranuleBytes;
  }

  const CallHeader& header_;
  int64_t granules_ = 0;
  int64_t folded_granules_ = 0;
  std::vector<int64_t> ends_;  // of each tensor, when there are several
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_SHARED_PAYLOAD_H_
