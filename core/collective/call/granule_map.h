// GranuleMap: the tensors of a call as one payload, in granules of 64 bytes. Each tensor begins
// with a granule of its own: every part that begins with a granule is aligned for its dtype.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_GRANULE_MAP_H_
#define TUTTI_CORE_COLLECTIVE_CALL_GRANULE_MAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/collective/call/call_header.h"

namespace tutti {

class GranuleMap {
 public:
  static constexpr int64_t kGranuleBytes = 64;

  explicit GranuleMap(const CallHeader& header) : header_(header) {
    starts_.reserve(header.num_tensors + 1);
    starts_.push_back(0);
    for (size_t i = 0; i < header.num_tensors; ++i) {
      const int64_t bytes = TensorBytes(i);
      starts_.push_back(starts_.back() + (bytes + kGranuleBytes - 1) / kGranuleBytes);
    }
  }
  int64_t total() const { return starts_.back(); }

  // Calls visit(tensor, byte offset in the tensor, bytes, its first granule) for the parts
  // of granules [begin, end).
  template <typename Visit>
  void ForEach(int64_t begin, int64_t end, Visit visit) const {
    auto next = std::upper_bound(starts_.begin(), starts_.end(), begin);
    for (auto i = static_cast<size_t>(next - starts_.begin()) - 1;
         begin < end && i < header_.num_tensors; ++i) {
      const int64_t stop = std::min(end, starts_[i + 1]);
      if (begin >= stop) continue;
      const int64_t offset = (begin - starts_[i]) * kGranuleBytes;
      const int64_t bytes = std::min((stop - starts_[i]) * kGranuleBytes, TensorBytes(i)) - offset;
      visit(i, offset, bytes, begin);
      begin = stop;
    }
  }

 private:
  int64_t TensorBytes(size_t i) const {
    const TensorSignature& signature = header_.tensor(i);
    return signature.num_elements() * static_cast<int64_t>(ItemSize(signature.dtype));
  }

  const CallHeader& header_;
  std::vector<int64_t> starts_;  // in granules, of every tensor, and the end
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_GRANULE_MAP_H_
