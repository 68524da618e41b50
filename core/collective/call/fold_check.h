// What is looked at inside a fold where numerics are checked: the result, piece by piece, while it
// is in the first-level cache.
//
// A NaN or an infinity that a rank brings into a SUM, a MEAN or a PROD is not finite in the result
// either, at the same place. So the inputs need not be read for it, which lie with other cores;
// only where something is found, they tell whose it was. Whoever folds finds it for all, and ends
// the epoch with it.
#ifndef TUTTI_CORE_COLLECTIVE_CALL_FOLD_CHECK_H_
#define TUTTI_CORE_COLLECTIVE_CALL_FOLD_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/status.h"
#include "core/collective/call/transport.h"

namespace tutti {

// Whether what is not finite in an input is so in the result.
bool NotFiniteShows(const CallHeader& header);

// Where a piece of a result lies: elements [first, first + count) of a tensor of the call.
struct FoldedPiece {
  size_t tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
  const void* result = nullptr;
};

// OK when the piece is finite, which `rank` has folded. INVALID_ARGUMENT naming the first rank
// whose part of `inputs`, one for each, is not; or an overflow where all are. The result may have
// overwritten the part of `rank` itself: then that is told by what the others have brought.
Status CheckFolded(const CollectiveCall& call, int64_t rank, const CallLabel& label,
                   const FoldedPiece& piece, std::span<const void* const> inputs);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_FOLD_CHECK_H_
