// The tree of the ranks of a group: a binomial one, whose root is rank 0. What lies below a rank is
// a range of ranks that begins with it, so that what a rank gathers from its children, in their
// order, is in the order of the ranks.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_TREE_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_TREE_H_

#include <algorithm>
#include <cstdint>

namespace tutti {

struct LinkTree {
  int64_t rank = 0;
  int64_t size = 1;

  // -1 of the root.
  static constexpr int64_t ParentOf(int64_t rank) { return rank == 0 ? -1 : rank & (rank - 1); }
  static constexpr bool AreNeighbours(int64_t a, int64_t b) {
    return a != b && ParentOf(std::max(a, b)) == std::min(a, b);
  }

  int64_t parent() const { return ParentOf(rank); }
  // One beyond the last rank at or below `top`.
  int64_t EndOf(int64_t top) const { return top == 0 ? size : std::min(size, top + (top & -top)); }
  bool IsBelow(int64_t other, int64_t top) const { return other >= top && other < EndOf(top); }
  // Calls visit(child) in their order.
  template <typename Visit>
  void ForEachChild(Visit visit) const {
    for (int64_t step = 1; rank + step < EndOf(rank); step *= 2) visit(rank + step);
  }
  // The neighbour on the way to another rank.
  int64_t Towards(int64_t other) const {
    if (!IsBelow(other, rank)) return parent();
    int64_t next = -1;
    ForEachChild([&](int64_t child) {
      if (IsBelow(other, child)) next = child;
    });
    return next;
  }
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_TREE_H_
