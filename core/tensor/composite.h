// Composites: tensors that are made of several. They are named tuples of reserved names, so that
// whatever moves, keeps, saves or sends a structure of tensors does so with them.
//
//   sparse   tutti.SparseTensor(indices, values, dense_shape)
//            indices int64[n, rank], values [n], dense_shape int64[rank]: values[i] stands at
//            indices[i] of a tensor of shape dense_shape, and 0 (false, "") everywhere else
//   ragged   tutti.RaggedTensor(values, row_splits)
//            row_splits int64 or int32 [rows + 1]: row i is values[row_splits[i]] up to, not with,
//            values[row_splits[i + 1]]; values is a tensor of rank 1 or more, or ragged itself.
//            ragged_rank is how often it is ragged; the innermost values are the flat values
//
// The dot is in no name of a type that a language gives a named tuple of this name, and a named
// tuple that has such a name has these fields (TreeSpec::NamedTuple).
//
// Their specs have the same structure. What the whole tensor's shape is, is the `inner` of one leaf
// (ShapeLeafOf): a spec of the values' dtype and of the shape as far as known, whose ragged axes
// are unknown unless they were said. Rows that hold as many values or not have equal specs.
#ifndef TUTTI_CORE_TENSOR_COMPOSITE_H_
#define TUTTI_CORE_TENSOR_COMPOSITE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/tree_spec.h"
#include "core/tensor/value.h"

namespace tutti {

inline constexpr std::string_view kSparseTypeName = "tutti.SparseTensor";
inline constexpr std::string_view kRaggedTypeName = "tutti.RaggedTensor";

enum class Composite : uint8_t { kNone, kSparse, kRagged };

// What this very node is.
Composite CompositeOf(const TreeSpec& node);
// "sparse tensors", "ragged tensors".
std::string_view CompositeName(Composite kind);
// INVALID_ARGUMENT for a reserved name with other fields or children than it has.
Status CheckReservedName(std::string_view name, std::span<const std::string> fields,
                         std::span<const Ref<const TreeSpec>> children);
// INVALID_ARGUMENT naming `what` and the place where a composite stands in the structure: for what
// goes by leaves, and would take one apart.
Status CheckNoComposites(const TreeSpec& tree, std::string_view what);

Ref<const TreeSpec> SparseTree();
// ragged_rank >= 1.
Ref<const TreeSpec> RaggedTree(int64_t ragged_rank);
// Of a ragged node; 0 of any other.
int64_t RaggedRankOf(const TreeSpec& node);
// The leaf whose `inner` has the shape; of a composite node, its last one.
inline size_t ShapeLeafOf(const TreeSpec& node) { return node.num_leaves() - 1; }

// ---- values

// INVALID_ARGUMENT that names the first part that does not fit the others: dtypes, ranks, sizes, an
// index outside dense_shape. The indices may come in any order.
Result<Ref<Value>> MakeSparse(Ref<Tensor> indices, Ref<Tensor> values, Ref<Tensor> dense_shape);
// `values` is a tensor or ragged. INVALID_ARGUMENT: row_splits begin with 0, never become smaller
// and end with the number of values; all of one value have one dtype.
Result<Ref<Value>> MakeRagged(const Ref<Value>& values, Ref<Tensor> row_splits);

// Of a value that is a composite: INVALID_ARGUMENT as above, and for any other value.
Status CheckComposite(const Value& value);
// The shape of the tensor that it stands for: of a sparse one all of it, of a ragged one the rows
// and the axes of the flat values. Unknown where its parts do not fit.
PartialShape CompositeShape(const Value& value);
// The tensor itself, with `filler`, a scalar of its dtype, where it has no value; null is 0, false
// or an empty byte string. A ragged one's axes are as long as their longest. INVALID_ARGUMENT as of
// CheckComposite, for an index that comes twice and for a filler of another dtype.
Result<Ref<Tensor>> CompositeToDense(const Value& value, const Tensor* filler,
                                     const TensorOptions& options = TensorOptions());

// Several composites of one structure stacked along a new axis 0. Of sparse ones every axis is as
// long as its longest, ranks must be equal; ragged ones get one more ragged axis.
Result<Ref<Value>> StackComposites(std::span<const Ref<Value>> rows);
// Its rows along axis 0: sparse tensors; ragged ones, or tensors where it is ragged once.
// RESOURCE_EXHAUSTED for more rows of a sparse one than can be made at once, some millions.
Result<std::vector<Ref<Value>>> RowsOfComposite(const Value& value);
// How many; INVALID_ARGUMENT as of CheckComposite, and for a sparse one of rank 0.
Result<int64_t> NumRowsOfComposite(const Value& value);
// The rows of a structure of tensors and composites, each with one row of every one. All have as
// many: INVALID_ARGUMENT naming `what`, the leaf and both numbers otherwise.
Result<std::vector<Ref<Value>>> RowsOfStructure(const Value& value, std::string_view what);

// ---- specs

// `shape` may be of unknown rank.
Ref<const ElementSpec> SparseSpec(DType dtype, const PartialShape& shape);
// INVALID_ARGUMENT: ragged_rank is 1 or more and less than the rank of `shape` where that is known;
// row_splits are int32 or int64.
Result<Ref<const ElementSpec>> RaggedSpec(DType dtype, const PartialShape& shape,
                                          int64_t ragged_rank, DType splits = DType::kInt64);
// The leaves of every composite in the structure with `inner`, where none was given: what the
// shapes of the leaves say. INVALID_ARGUMENT where leaves are not those of a composite.
Status CompleteComposites(const TreeSpec& tree, std::span<LeafSpec> leaves);
// The leaves of every composite in the value, in place of what its parts are by themselves.
void DescribeComposites(const Value& value, std::span<LeafSpec> leaves);
// Whether these sizes fit the shape in `inner` of the spec of a dense_shape.
bool FitsDenseShape(const LeafSpec& spec, const Tensor& dense_shape);
// The spec of elements stacked along a new axis 0 of this size, composites as StackComposites does
// it; of rows along axis 0, composites as RowsOfComposite gives them. INVALID_ARGUMENT naming
// `what` for leaves that cannot be stacked, or have no axis 0.
Result<Ref<const ElementSpec>> StackedSpec(const ElementSpec& element, int64_t size,
                                           std::string_view what);
Result<Ref<const ElementSpec>> RowSpecOf(const ElementSpec& element, std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_COMPOSITE_H_
