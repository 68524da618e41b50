// dense_to_sparse_batch: consecutive elements, each one tensor, as a sparse tensor with a new axis
// 0, which has the place and the value of every item of theirs: zeros are values, too. Its
// dense_shape is the number of elements, then row_shape, in which -1 is the largest of the batch.
//
// Rows are collected, counted and saved as batch does it (batch_stage.h); each batch is made by
// itself, for sparse tensors are of a length of their own.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/batch_stage.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/composite.h"
#include "core/tensor/concat.h"

namespace tutti {
namespace {

constexpr std::string_view kRowShape = "row_shape";

Result<std::vector<int64_t>> ReadRowShape(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckValue(node, kRowShape));
  const Value& value = **node.attributes().Get<Ref<const Value>>(kRowShape);
  const std::string what = Format("{}: row_shape", node.label());
  if (!value.is_leaf()) {
    return InvalidArgument("{} must be the sizes of a shape, a vector of int64, and is {}", what,
                           value.spec().ToString());
  }
  return ReadSizes(value.leaf(), what);
}

bool FitsRowShape(std::span<const int64_t> dims, std::span<const int64_t> row_shape) {
  return std::ranges::equal(dims, row_shape, [](int64_t size, int64_t most) {
    return most < 0 || size <= most;
  });
}

class SparseRows final : public RowStacker {
 public:
  explicit SparseRows(std::vector<int64_t> row_shape) : row_shape_(std::move(row_shape)) {}

  bool StacksTogether(std::span<const Slab>) const override { return false; }

  Result<Slab> Stack(std::vector<Slab> parts, int64_t rows_each, MemoryAccount* account) override {
    std::vector<Leaf> rows;
    for (const Slab& part : parts) {
      if (!part.tree || !part.tree->is_leaf()) {
        return InvalidArgument("elements must be single tensors, and are {}",
                               part.tree ? part.tree->ToString() : "without components");
      }
      for (int64_t row = 0; row < part.rows; ++row) rows.push_back(part.columns[0].Row(row));
    }
    std::vector<int64_t> dense_shape = {rows_each};
    int64_t count = 0;
    TUTTI_RETURN_IF_ERROR(Measure(rows, &dense_shape, &count));
    TensorOptions options;
    options.account = account;
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> indices, Indices(rows, count, options));
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> values, Values(rows, options));
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Tensor> sizes,
        Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(dense_shape.size())}), dense_shape));
    Slab batch;
    batch.rows = 1;
    batch.tree = tree_;
    for (Ref<Tensor>* part : {&indices, &values, &sizes}) {
      batch.columns.push_back(Column::Rows({Leaf::OfTensor(std::move(*part))}));
    }
    return batch;
  }

 private:
  // The sizes behind the first, and how many items there are in all.
  Status Measure(std::span<const Leaf> rows, std::vector<int64_t>* dense_shape,
                 int64_t* count) const {
    dense_shape->insert(dense_shape->end(), row_shape_.begin(), row_shape_.end());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].is_tensor()) {
        return InvalidArgument("element {} is {}, and only tensors have items", i,
                               LeafSpec::Of(rows[i]).ToString());
      }
      const Tensor& row = rows[i].tensor();
      if (row.dtype() != rows[0].tensor().dtype()) {
        return InvalidArgument("element {} is {}, element 0 is {}; cast them to one dtype first", i,
                               DTypeName(row.dtype()), DTypeName(rows[0].tensor().dtype()));
      }
      if (row.rank() != row_shape_.size()) {
        return InvalidArgument("element {} has shape {}, and row_shape is {}, which needs as many "
                               "sizes as the element has axes",
                               i, row.shape().ToString(), DimsToString(row_shape_));
      }
      if (!FitsRowShape(row.shape().dims(), row_shape_)) {
        return InvalidArgument("element {} has shape {}, and row_shape is {}; let it hold the "
                               "largest element, or be null (-1) for that axis",
                               i, row.shape().ToString(), DimsToString(row_shape_));
      }
      for (size_t axis = 0; axis < row.rank(); ++axis) {
        int64_t& size = (*dense_shape)[axis + 1];
        if (row_shape_[axis] < 0) size = std::max({size, row.dim(axis), int64_t{0}});
      }
      if (__builtin_add_overflow(*count, row.num_elements(), count)) {
        return InvalidArgument("the items of a batch are more than 64 bits count");
      }
    }
    return OkStatus();
  }

  // The number of the row, then the place in it, of each item.
  static Result<Ref<Tensor>> Indices(std::span<const Leaf> rows, int64_t count,
                                     TensorOptions options) {
    const size_t axes = rows[0].tensor().rank();
    const int64_t dims[] = {count, static_cast<int64_t>(axes) + 1};
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims, 2));
    options.zeroed = false;
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> indices, Tensor::Create(DType::kInt64, shape, options));
    int64_t* out = static_cast<int64_t*>(indices->mutable_data());
    for (size_t i = 0; i < rows.size(); ++i) {
      const Tensor& row = rows[i].tensor();
      std::vector<int64_t> place(axes, 0);
      for (int64_t item = 0; item < row.num_elements(); ++item) {
        *out++ = static_cast<int64_t>(i);
        out = std::copy(place.begin(), place.end(), out);
        for (size_t axis = axes; axis-- > 0;) {
          if (++place[axis] < row.dim(axis)) break;
          place[axis] = 0;
        }
      }
    }
    return indices;
  }

  static Result<Ref<Tensor>> Values(std::span<const Leaf> rows, const TensorOptions& options) {
    constexpr int64_t kFlat[] = {-1};
    std::vector<Ref<Tensor>> flat;
    std::vector<const Tensor*> pointers;
    for (const Leaf& row : rows) {
      const Tensor& tensor = row.tensor();
      const int64_t own[] = {tensor.num_elements()};
      // Of no items -1 is any size.
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> items,
                             tensor.Reshape(tensor.num_elements() == 0 ? own : kFlat));
      pointers.push_back(items.get());
      flat.push_back(std::move(items));
    }
    return Concat(pointers, 0, options);
  }

  const std::vector<int64_t> row_shape_;
  const Ref<const TreeSpec> tree_ = SparseTree();
};

// INVALID_ARGUMENT for elements of which none would fit.
Status CheckElement(const Node& node, const ElementSpec& element,
                    const std::vector<int64_t>& row_shape) {
  if (!element.tree().is_leaf() || !element.leaf(0).is_tensor()) {
    return InvalidArgument("{}: the elements must be single tensors, and are {}; map them to one "
                           "component first",
                           node.label(), element.ToString());
  }
  const PartialShape& shape = element.leaf(0).shape;
  if (!shape.has_rank()) return OkStatus();
  const bool fits = shape.rank() == row_shape.size() &&
                    (!PromisesSpec(node.input()) || FitsRowShape(shape.dims(), row_shape));
  if (fits) return OkStatus();
  return InvalidArgument("{}: the elements have shape {}, which row_shape's {} does not hold; it "
                         "needs as many sizes, each as large or null (-1)",
                         node.label(), shape.ToString(), DimsToString(row_shape));
}

Status CheckDenseToSparseBatch(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckBatchArguments(node));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> row_shape, ReadRowShape(node));
  const Ref<const ElementSpec> element = node.input().element_spec();
  return element ? CheckElement(node, *element, row_shape) : OkStatus();
}

Result<Ref<const ElementSpec>> DenseToSparseBatchSpec(const Node& node) {
  Ref<const ElementSpec> element = node.input().element_spec();
  if (!element) return element;
  TUTTI_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, ReadRowShape(node));
  TUTTI_RETURN_IF_ERROR(CheckElement(node, *element, sizes));
  sizes.insert(sizes.begin(), PartialShape::kUnknownDim);
  return SparseSpec(element->leaf(0).dtype, PartialShape(sizes));
}

Result<std::unique_ptr<Stage>> MakeDenseToSparseBatch(const Node& node, const ExecContext& context,
                                                      StageInputs inputs) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<int64_t> row_shape, ReadRowShape(node));
  return MakeBatchStage(node, context, std::move(inputs),
                        std::make_unique<SparseRows>(std::move(row_shape)));
}

}  // namespace

constinit const OpTraits kDenseToSparseBatchOp = {
    .name = "dense_to_sparse_batch",
    .attributes = {{"batch_size"}, {"row_shape"}},
    .row_ratio = RowRatio::kManyToOne,
    .can_seek = true,
    .check = CheckDenseToSparseBatch,
    .cardinality = BatchCardinality,
    .element_spec = DenseToSparseBatchSpec,
    .make_stage = MakeDenseToSparseBatch,
};

}  // namespace tutti
