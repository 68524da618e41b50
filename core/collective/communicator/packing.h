// Packing: which tensors of a list travel in one call. Consecutive ones do, as many as fit. A call
// costs a meeting of all ranks, whatever it carries; many small tensors had better share one.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_PACKING_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/communication_hints.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Communicator;

// In a pack that nobody gave a size: everything. A call works large payloads off in chunks, so that
// nothing is gained by several.
inline constexpr int64_t kUnlimitedPackBytes = INT64_MAX;
// A pack has no more tensors: their dtypes and shapes travel, too.
inline constexpr size_t kMostPackTensors = 4096;

// Tensors [first, last) of a list.
struct Pack {
  size_t first = 0;
  size_t last = 0;
  friend bool operator==(const Pack& a, const Pack& b) = default;
};

// Packs of at most `bytes_per_pack` (1 or more) in order; a tensor that is larger is a pack of its
// own. It depends on sizes alone, so that ranks with the same tensors have the same packs.
std::vector<Pack> PackTensors(std::span<const int64_t> bytes, int64_t bytes_per_pack);
std::vector<Pack> PackTensors(std::span<const Tensor* const> tensors, int64_t bytes_per_pack);

// Communicator::AllReduce of many tensors, in a call per pack: of the bytes that options.hints say,
// or else `bytes_per_pack`, which are the same on all ranks; 0 is kUnlimitedPackBytes. Results do
// not depend on it. INVALID_ARGUMENT for a negative one, as a refusal: the epoch goes on.
Status AllReduceInPacks(Communicator& communicator, std::span<const Tensor* const> inputs,
                        ReduceOp op, int64_t bytes_per_pack, const CollectiveOptions& options,
                        std::span<Tensor* const> outputs);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_PACKING_H_
