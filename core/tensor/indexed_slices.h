// IndexedSlices: rows of a tensor, and which ones they are. Gradients of a table of which a step
// reads some rows are made of them.
//
//   tutti.IndexedSlices(values, indices, dense_shape)
//            values [n, ...], indices int64 or int32 [n], dense_shape int64 [rank] or none:
//            values[i] belongs to row indices[i] of a tensor whose shape is dense_shape, where that
//            was said. An index may come any number of times; what that means is up to what takes
//            them (scatter.h)
//
// As sparse tensors (composite.h) they are a named tuple of a reserved name; they are no element of
// a dataset of their own kind: there they are the tuple of their parts.
#ifndef TUTTI_CORE_TENSOR_INDEXED_SLICES_H_
#define TUTTI_CORE_TENSOR_INDEXED_SLICES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tree_spec.h"
#include "core/tensor/value.h"

namespace tutti {

inline constexpr std::string_view kIndexedSlicesTypeName = "tutti.IndexedSlices";

struct IndexedSlices {
  Ref<Tensor> values;       // contiguous
  Ref<Tensor> indices;      // int64, contiguous
  Ref<Tensor> dense_shape;  // null where nobody has said it
  int64_t count() const { return indices->num_elements(); }
};

bool IsIndexedSlices(const TreeSpec& node);
// INVALID_ARGUMENT for other fields or children than the reserved name has.
Status CheckIndexedSlicesName(std::span<const std::string> fields,
                              std::span<const Ref<const TreeSpec>> children);

// `dense_shape` may be null. INVALID_ARGUMENT naming the first part that does not fit: indices that
// are no vector of integers, other than as many values, a dense_shape of another rank or row shape,
// an index outside of it.
Result<Ref<Value>> MakeIndexedSlices(Ref<Tensor> values, Ref<Tensor> indices,
                                     Ref<Tensor> dense_shape);
// The parts of a value, checked as above; INVALID_ARGUMENT naming `what` also for another value.
Result<IndexedSlices> ReadIndexedSlices(const Value& value, std::string_view what);
Result<Ref<Value>> ValueOfSlices(const IndexedSlices& slices);

// The numbers of the first leaves of all that stand in the structure, in order; each has three.
inline constexpr size_t kSlicesLeaves = 3;
std::vector<size_t> FindIndexedSlices(const TreeSpec& tree);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_INDEXED_SLICES_H_
