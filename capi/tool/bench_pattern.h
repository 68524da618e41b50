// The numbers that ranks bring to a measured call, and those that must come out. Small integers,
// which every dtype holds exactly and every order of folding sums up alike, so that a result is
// right when its bits are. They repeat after a prime number of elements: no share of a rank, slice
// or cache line begins where the pattern does.

#ifndef TUTTI_CAPI_TOOL_BENCH_PATTERN_H_
#define TUTTI_CAPI_TOOL_BENCH_PATTERN_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capi/tool/c_handles.h"

namespace tutti::tool {

class BenchPattern {
 public:
  static constexpr int64_t kPeriod = 1009;
  static constexpr int64_t kFolded = -1;  // in place of a rank: what folding all of them gives

  // `op` 0: nothing is folded.
  static CStatus Make(tutti_runtime* runtime, tutti_dtype dtype, tutti_reduce_op op, int64_t size,
                      BenchPattern* pattern);

  // Elements [first, first + count) of `rank`'s numbers.
  void Fill(int64_t rank, int64_t first, int64_t count, void* data) const;
  // How many of `count` elements are not those.
  int64_t CountWrong(int64_t rank, int64_t first, int64_t count, const void* data) const;

 private:
  const std::byte* At(int64_t rank, int64_t index) const;

  size_t item_ = 0;
  // Two periods in a row, of each rank and then of the fold: a period can be read from any element.
  std::vector<std::byte> blocks_;
  int64_t size_ = 0;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_PATTERN_H_
