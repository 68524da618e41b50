// FreeRanges: which parts of a long row of bytes are free. Whoever takes gets the smallest free
// range that is long enough, from its beginning; what is given back joins its free neighbours.
// Threads: one at a time.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_FREE_RANGES_H_
#define TUTTI_CORE_COLLECTIVE_SHM_FREE_RANGES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tutti {

class FreeRanges {
 public:
  struct Range {
    size_t begin = 0;
    size_t end = 0;
    friend bool operator==(const Range& a, const Range& b) = default;
  };

  // [0, bytes) is free.
  explicit FreeRanges(size_t bytes) {
    if (bytes != 0) Add({0, bytes});
  }

  // The beginning of `bytes` (1 or more) that are free no longer; nothing where no range is so
  // long.
  std::optional<size_t> Take(size_t bytes) {
    const auto fitting = by_size_.lower_bound({bytes, 0});
    if (fitting == by_size_.end()) return std::nullopt;
    const Range range = {fitting->second, fitting->second + fitting->first};
    Remove(range);
    if (range.begin + bytes < range.end) Add({range.begin + bytes, range.end});
    return range.begin;
  }

  // Gives back what was taken, in one piece or in several. The free range that it lies in now.
  Range Give(Range range) {
    const auto after = by_begin_.lower_bound(range.begin);
    Range joined = range;
    if (after != by_begin_.begin()) {
      const auto before = std::prev(after);
      if (before->second == range.begin) joined.begin = before->first;
    }
    if (after != by_begin_.end() && after->first == range.end) joined.end = after->second;
    if (joined.begin != range.begin) Remove({joined.begin, range.begin});
    if (joined.end != range.end) Remove({range.end, joined.end});
    Add(joined);
    return joined;
  }

  size_t num_ranges() const { return by_begin_.size(); }

 private:
  void Add(Range range) {
    by_begin_.emplace(range.begin, range.end);
    by_size_.emplace(range.end - range.begin, range.begin);
  }
  void Remove(Range range) {
    by_begin_.erase(range.begin);
    by_size_.erase({range.end - range.begin, range.begin});
  }

  std::map<size_t, size_t> by_begin_;             // begin -> end
  std::set<std::pair<size_t, size_t>> by_size_;  // size, begin
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_FREE_RANGES_H_
