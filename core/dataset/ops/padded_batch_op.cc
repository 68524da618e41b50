// padded_batch: consecutive elements stacked along a new axis 0, each padded behind its last
// elements to what padded_shapes says or to the largest of its batch.
//
// Rows that have the shape of their batch already are not padded: what batch does with them is done
// here, too (batch_stage.h).
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/batch_stage.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/device_buffer.h"

namespace tutti {
namespace {

constexpr std::string_view kShapes = "padded_shapes";
constexpr std::string_view kValues = "padding_values";

// The attribute; null where it is not set, also by a single None.
const Value* Given(const Node& node, std::string_view attribute) {
  const auto* value = node.attributes().Get<Ref<const Value>>(attribute);
  if (value == nullptr || ((*value)->is_leaf() && (*value)->leaf().is_none())) return nullptr;
  return value->get();
}

std::string PlaceIn(const TreeSpec& tree, size_t leaf) {
  return tree.is_leaf() ? "" : Format(" at {}", PathToString(tree.LeafPath(leaf)));
}

// The sizes in one leaf of padded_shapes, -1 for those that are not fixed; none for None.
Result<std::optional<std::vector<int64_t>>> ReadShape(const Node& node, const Value& shapes,
                                                      size_t leaf) {
  std::optional<std::vector<int64_t>> dims;
  if (shapes.leaf(leaf).is_none()) return dims;
  TUTTI_ASSIGN_OR_RETURN(dims, ReadSizes(shapes.leaf(leaf), Format("{}: padded_shapes{}",
                                                                   node.label(),
                                                                   PlaceIn(shapes.spec(), leaf))));
  return dims;
}

Status CheckPaddingValue(const Node& node, const Value& values, size_t leaf) {
  if (values.leaf(leaf).is_none()) return OkStatus();
  if (values.leaf(leaf).is_tensor() && values.leaf(leaf).tensor().rank() == 0) {
    return CheckOnHost(Format("{}: padding_values", node.label()), values.leaf(leaf).tensor());
  }
  return InvalidArgument("{}: padding_values{} must be a scalar, and is {}", node.label(),
                         PlaceIn(values.spec(), leaf), LeafSpec::Of(values.leaf(leaf)).ToString());
}

Status CheckDType(const Node& node, const TreeSpec& tree, size_t leaf, const Tensor& value,
                  DType dtype) {
  if (value.dtype() == dtype) return OkStatus();
  return InvalidArgument("{}: the elements{} are {}, and their padding value is {}; give it that "
                         "dtype",
                         node.label(), PlaceIn(tree, leaf), DTypeName(dtype),
                         DTypeName(value.dtype()));
}

// One value stands for all components of its dtype.
Status SpreadValue(const Node& node, const Ref<Tensor>& value, std::span<const DType> dtypes,
                   std::vector<RowPadding>* paddings) {
  bool fits_any = dtypes.empty();
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (dtypes[i] != value->dtype()) continue;
    (*paddings)[i].value = value;
    fits_any = true;
  }
  if (fits_any) return OkStatus();
  return InvalidArgument("{}: no component of the elements is {} as the padding value, the first "
                         "is {}; give the value that dtype",
                         node.label(), DTypeName(value->dtype()), DTypeName(dtypes[0]));
}

// What to do with each component of elements of this structure and these dtypes.
Result<std::vector<RowPadding>> PaddingsOf(const Node& node, const TreeSpec& tree,
                                           std::span<const DType> dtypes) {
  std::vector<RowPadding> paddings(dtypes.size());
  if (const Value* shapes = Given(node, kShapes)) {
    TUTTI_RETURN_IF_ERROR(CheckSameStructure(tree, shapes->spec(),
                                             Format("{}: padded_shapes", node.label())));
    for (size_t i = 0; i < dtypes.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(paddings[i].dims, ReadShape(node, *shapes, i));
    }
  }
  const Value* values = Given(node, kValues);
  if (values == nullptr) return paddings;
  if (values->is_leaf() && !tree.is_leaf()) {
    TUTTI_RETURN_IF_ERROR(SpreadValue(node, values->leaf().tensor_ref(), dtypes, &paddings));
    return paddings;
  }
  TUTTI_RETURN_IF_ERROR(
      CheckSameStructure(tree, values->spec(), Format("{}: padding_values", node.label())));
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (values->leaf(i).is_none()) continue;
    const Ref<Tensor> value = values->leaf(i).tensor_ref();
    TUTTI_RETURN_IF_ERROR(CheckDType(node, tree, i, *value, dtypes[i]));
    paddings[i].value = value;
  }
  return paddings;
}

class PaddedRows final : public RowStacker {
 public:
  explicit PaddedRows(const Node& node) : node_(node) {}

  bool StacksTogether(std::span<const Slab> parts) const override { return RowsAreUniform(parts); }

  Result<Slab> Stack(std::vector<Slab> parts, int64_t rows_each, MemoryAccount* account) override {
    const TreeSpec& tree = *parts[0].tree;
    if (!tree_ || !(*tree_ == tree)) {
      std::vector<DType> dtypes;
      for (const Column& column : parts[0].columns) {
        const Leaf row = column.Row(0);
        dtypes.push_back(row.is_tensor() ? row.tensor().dtype() : DType::kInvalid);
      }
      TUTTI_ASSIGN_OR_RETURN(paddings_, PaddingsOf(node_, tree, dtypes));
      tree_ = parts[0].tree;
    }
    return PadRows(std::move(parts), rows_each, paddings_, account);
  }

 private:
  const Node& node_;
  std::vector<RowPadding> paddings_;  // of elements of this structure
  Ref<const TreeSpec> tree_;
};

// The shape of a padded component. Of what only the first element has shown, the sizes may be
// others later on.
Result<PartialShape> PaddedShape(const Node& node, const TreeSpec& tree, size_t leaf,
                                 const PartialShape& shape, bool promised,
                                 const RowPadding& padding) {
  const std::string where = PlaceIn(tree, leaf);
  if (!padding.dims) {
    if (!shape.has_rank()) {
      return InvalidArgument("{}: the element{} may have any number of axes, so that "
                             "padded_shapes must say to which shape it is padded",
                             node.label(), where);
    }
    if (promised) return shape;
    return PartialShape(std::vector<int64_t>(shape.rank(), PartialShape::kUnknownDim));
  }
  const PartialShape padded(*padding.dims);
  if (!shape.has_rank()) return padded;
  bool fits = shape.rank() == padded.rank();
  for (size_t axis = 0; fits && promised && axis < shape.rank(); ++axis) {
    fits = padded.dim(axis) < 0 || shape.dim(axis) <= padded.dim(axis);
  }
  if (fits) return padded;
  return InvalidArgument("{}: the element{} has shape {}, which padded_shapes' {} does not hold; "
                         "it needs as many sizes, each as large or null (-1)",
                         node.label(), where, shape.ToString(), padded.ToString());
}

// The spec of one padded element.
Result<Ref<const ElementSpec>> PaddedSpec(const Node& node, const ElementSpec& element) {
  // Says what cannot be stacked.
  TUTTI_RETURN_IF_ERROR(element.Prepend(1, node.label()).status());
  std::vector<DType> dtypes;
  for (const LeafSpec& leaf : element.leaves()) dtypes.push_back(leaf.dtype);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<RowPadding> paddings,
                         PaddingsOf(node, element.tree(), dtypes));
  const bool promised = PromisesSpec(node.input());
  std::vector<LeafSpec> leaves;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape,
                           PaddedShape(node, element.tree(), i, element.leaf(i).shape, promised,
                                       paddings[i]));
    leaves.push_back(LeafSpec::OfTensor(dtypes[i], std::move(shape)));
  }
  return element.WithLeaves(std::move(leaves));
}

Status CheckPaddedBatch(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckBatchArguments(node));
  for (std::string_view attribute : {kShapes, kValues}) {
    if (node.attributes().Find(attribute) == nullptr) continue;
    TUTTI_RETURN_IF_ERROR(CheckValue(node, attribute));
  }
  const Value* shapes = Given(node, kShapes);
  for (size_t i = 0; shapes != nullptr && i < shapes->num_leaves(); ++i) {
    TUTTI_RETURN_IF_ERROR(ReadShape(node, *shapes, i).status());
  }
  const Value* values = Given(node, kValues);
  for (size_t i = 0; values != nullptr && i < values->num_leaves(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckPaddingValue(node, *values, i));
  }
  const Ref<const ElementSpec> element = node.input().element_spec();
  return element ? PaddedSpec(node, *element).status() : OkStatus();
}

Result<Ref<const ElementSpec>> PaddedBatchSpec(const Node& node) {
  Ref<const ElementSpec> element = node.input().element_spec();
  if (!element) return element;
  TUTTI_ASSIGN_OR_RETURN(element, PaddedSpec(node, *element));
  return SpecOfBatches(node, *element);
}

Result<std::unique_ptr<Stage>> MakePaddedBatch(const Node& node, const ExecContext& context,
                                               StageInputs inputs) {
  return MakeBatchStage(node, context, std::move(inputs), std::make_unique<PaddedRows>(node));
}

}  // namespace

std::unique_ptr<RowStacker> MakePaddedRows(const Node& node) {
  return std::make_unique<PaddedRows>(node);
}

constinit const OpTraits kPaddedBatchOp = {
    .name = "padded_batch",
    .attributes = {{"batch_size"},
                   {"padded_shapes"},
                   {"padding_values"},
                   {"drop_remainder", false}},
    .row_ratio = RowRatio::kManyToOne,
    .can_seek = true,
    .check = CheckPaddedBatch,
    .cardinality = BatchCardinality,
    .element_spec = PaddedBatchSpec,
    .make_stage = MakePaddedBatch,
};

}  // namespace tutti
