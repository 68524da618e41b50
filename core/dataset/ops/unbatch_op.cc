// unbatch: the rows of the elements along axis 0, one element after the other.
//
// All components of an element have the same size along axis 0; where the specs say so already,
// others are refused when the op is built, else that element fails and the next goes on. Rows are
// views: a dense column of batches [n, size, ...] becomes one of rows [n * size, ...] where it
// lies.
//
// Rows that are passed over are counted without making the batches, where the specs promise a size
// and no function stands below: elsewhere it is the batches that say how many rows there are, or
// which of them fails.
#include <algorithm>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

// So many batches are taken at once at most where nobody says how large they are.
constexpr int64_t kMostUnknown = 64;

bool HasFunctions(const Node& root) {
  return std::ranges::any_of(InputsFirst(root),
                             [](const Node* node) { return !node->functions().empty(); });
}

// "component 1 at ['a']".
std::string ComponentText(const TreeSpec& tree, size_t i) {
  return tree.is_leaf() ? Format("component {}", i)
                        : Format("component {} at {}", i, PathToString(tree.LeafPath(i)));
}

int64_t DimOf(const LeafSpec& leaf) {
  return leaf.shape.has_rank() && leaf.shape.rank() > 0 ? leaf.shape.dim(0)
                                                        : PartialShape::kUnknownDim;
}

// What is known of the input's size along axis 0, kUnknownDim when nothing.
int64_t PromisedSize(const Node& node) {
  const Ref<const ElementSpec> spec = node.input().element_spec();
  // The sizes of a sparse or ragged tensor's parts are not its own.
  if (!spec || spec->tree().has_composites()) return PartialShape::kUnknownDim;
  const auto known = std::ranges::find_if(spec->leaves(), [](const LeafSpec& leaf) {
    return DimOf(leaf) != PartialShape::kUnknownDim;
  });
  if (known == spec->leaves().end() || !PromisesSpec(node.input())) {
    return PartialShape::kUnknownDim;
  }
  return DimOf(*known);
}

Status DifferentSizes(const TreeSpec& tree, size_t i, int64_t size, size_t first,
                      int64_t first_size) {
  return InvalidArgument(
      "all components must have the same size along axis 0, but {} has {} and component {} has {}",
      ComponentText(tree, i), size, first, first_size);
}

class UnbatchStage final : public Stage {
 public:
  UnbatchStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        size_(std::max<int64_t>(PromisedSize(node), 0)),
        has_functions_(HasFunctions(node.input())) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    // Many batches without rows may follow each other.
    for (bool first = true; ready_.empty() && !ended_; first = false) {
      if (!first) slab->status = CheckCallOptions(options, clock_, node().label());
      if (!slab->status.ok()) return;
      if (demand.count_only && size_ > 0 && demand.max_rows >= size_ && !has_functions_) {
        PassOverBatches(demand, options, slab);
        return;
      }
      slab->status = Pull(demand, options);
      if (!slab->status.ok()) return;
    }
    if (!ready_.empty()) Give(demand, slab);
    slab->end = ended_ && ready_.empty() && slab->status.ok();
  }

  Status Restart(const CallOptions& options) override {
    Clear();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("unbatch");
    writer->Int(index_);
    writer->Int(ended_ ? 1 : 0);
    HeldRows held;
    int64_t from = given_;
    for (const Slab& slab : ready_) {
      while (slab.rows - from > kMaxSlabRows) {
        held.Append(slab.Slice(from, from + kMaxSlabRows));
        from += kMaxSlabRows;
      }
      Slab rest = slab.Slice(from, slab.rows);
      rest.status = slab.status;
      held.Append(std::move(rest));
      from = 0;
    }
    TUTTI_RETURN_IF_ERROR(held.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    Clear();
    reader->Section("unbatch");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    ended_ = reader->IntIn(0, 1) != 0;
    HeldRows held;
    held.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    while (!held.empty()) {
      Slab slab;
      held.Pop(kMaxSlabRows, &slab);
      if (slab.rows > 0 || !slab.status.ok()) ready_.push_back(std::move(slab));
    }
    return Stage::Restore(reader, options);
  }

 private:
  void Clear() {
    ready_.clear();
    given_ = index_ = 0;
    ended_ = false;
  }

  // Batches of a known size, with no function to call: they need not be made.
  void PassOverBatches(const Demand& demand, const CallOptions& options, Slab* slab) {
    Slab in;
    input().Next(Demand{demand.max_rows / size_, true, Horizon(demand)}, options, &in);
    slab->rows = in.rows * size_;
    slab->status = std::move(in.status);
    slab->end = ended_ = in.end;
    index_ += in.rows;
    if (slab->status.ok()) return;
    if (!IsInterruption(slab->status)) {
      ++index_;
    } else if (slab->rows > 0) {
      slab->status = OkStatus();  // a call that has rows was not interrupted
    }
  }

  // Of the input. Behind what is wanted of rows there may always be a batch without any.
  int64_t Horizon(const Demand& demand) const {
    const int64_t rows = demand.Horizon();
    return size_ == 0 || rows == kNoHorizon ? kNoHorizon : CeilOf(rows, size_);
  }

  int64_t BatchesFor(const Demand& demand) const {
    const int64_t rows = std::min(demand.max_rows, kMaxSlabRows);
    if (size_ > 0) return CeilOf(rows, size_);
    // Whether a second one is needed, the first will say.
    if (has_functions_) return 1;
    return std::min(CeilOf(rows, std::max<int64_t>(last_size_, 1)), kMostUnknown);
  }

  // Takes batches, and makes their rows, failures and the end ready. Fails when interrupted.
  Status Pull(const Demand& demand, const CallOptions& options) {
    Slab in;
    const bool all_made = has_functions_ || size_ == 0;  // also where rows are passed over
    input().Next(Demand{BatchesFor(demand), false, Horizon(demand), all_made,
                        !all_made && demand.tentative},
                 options, &in);
    // A call that has rows was not interrupted.
    if (in.rows > 0 && IsInterruption(in.status)) in.status = OkStatus();
    if (in.rows > 0) Expand(in);
    ended_ = in.end;
    if (in.status.ok()) return OkStatus();
    if (IsInterruption(in.status)) return ready_.empty() ? in.status : OkStatus();
    ++index_;
    AddFailure(std::move(in.status));
    return OkStatus();
  }

  void Expand(const Slab& in) {
    const bool dense =
        !(in.tree && in.tree->has_composites()) &&
        std::ranges::all_of(in.columns, [](const Column& column) { return column.is_dense(); });
    const int64_t step = dense ? in.rows : 1;
    for (int64_t begin = 0; begin < in.rows; begin += step) {
      Result<Slab> rows = RowsOf(in, begin, begin + step);
      if (rows.ok()) {
        last_size_ = rows->rows / step;
        if (rows->rows > 0) ready_.push_back(std::move(rows).value());
        index_ += step;
        continue;
      }
      // The batches of a dense column are all alike.
      for (int64_t i = 0; i < step; ++i, ++index_) {
        AddFailure(rows.status()
                       .WithPrefix(Format("{}: element {}", node().label(), index_))
                       .With("node", node().label())
                       .With("index", index_));
      }
    }
  }

  // The rows of batches [begin, end), which are one, or lie in dense columns.
  Result<Slab> RowsOf(const Slab& in, int64_t begin, int64_t end) const {
    if (in.columns.empty()) {
      return InvalidArgument("expected tensors of rank 1 or more, but there are no components");
    }
    if (in.tree->has_composites()) return RowsOfComposites(in, begin);
    Slab out;
    out.tree = in.tree;
    int64_t first_size = 0;
    for (size_t i = 0; i < in.columns.size(); ++i) {
      int64_t size = 0;
      TUTTI_ASSIGN_OR_RETURN(Column column, RowsOfColumn(*in.tree, i, in.columns[i], begin, end,
                                                         &size));
      if (i == 0) first_size = size;
      if (size != first_size) return DifferentSizes(*in.tree, i, size, 0, first_size);
      out.columns.push_back(std::move(column));
    }
    out.rows = (end - begin) * first_size;
    return out;
  }

  // The rows of one element with sparse or ragged tensors, each of which is a leaf by itself.
  static Result<Slab> RowsOfComposites(const Slab& in, int64_t index) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> element, in.Row(index));
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Value>> rows,
                           RowsOfStructure(*element, "its rows"));
    return SlabOfValues(rows);
  }

  static Result<Column> RowsOfColumn(const TreeSpec& tree, size_t i, const Column& column,
                                     int64_t begin, int64_t end, int64_t* size) {
    if (!column.is_dense()) {
      const Leaf& leaf = column.leaves()[static_cast<size_t>(begin)];
      if (!leaf.is_tensor() || leaf.tensor().rank() == 0) return NoRows(tree, i, leaf);
      *size = leaf.tensor().dim(0);
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> rows, leaf.tensor().Contiguous());
      return Column::Dense(std::move(rows));
    }
    const Ref<Tensor>& batches = column.dense();
    if (batches->rank() < 2) return NoRows(tree, i, column.Row(begin));
    *size = batches->dim(1);
    std::vector<int64_t> dims(batches->shape().dims().begin() + 1, batches->shape().dims().end());
    dims[0] = (end - begin) * *size;
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> rows, batches->Slice(begin, end)->Reshape(dims));
    return column.is_borrowed() ? Column::Borrowed(std::move(rows))
                                : Column::Dense(std::move(rows));
  }

  static Status NoRows(const TreeSpec& tree, size_t i, const Leaf& leaf) {
    return InvalidArgument("expected tensors of rank 1 or more, but {} is {}",
                           ComponentText(tree, i), LeafSpec::Of(leaf).ToString());
  }

  void AddFailure(Status status) {
    Slab failure;
    failure.status = std::move(status);
    ready_.push_back(std::move(failure));
  }

  void Give(const Demand& demand, Slab* slab) {
    Slab& front = ready_.front();
    const int64_t left = front.rows - given_;
    if (demand.count_only) {
      slab->rows = std::min(demand.max_rows, left);
    } else {
      const int64_t rows = std::min({demand.max_rows, left, kMaxSlabRows});
      *slab = front.Slice(given_, given_ + rows);
    }
    given_ += slab->rows;
    if (given_ < front.rows) return;
    slab->status = std::move(front.status);
    ready_.pop_front();
    given_ = 0;
  }

  Clock& clock_;
  const int64_t size_;  // of every batch; 0 when it is not known
  const bool has_functions_;
  std::deque<Slab> ready_;  // rows of batches; failures
  int64_t given_ = 0;       // rows of the first of them
  int64_t last_size_ = 1;   // of a batch
  int64_t index_ = 0;       // of the next batch
  bool ended_ = false;
};

Status CheckUnbatch(const Node& node) {
  const Ref<const ElementSpec> spec = node.input().element_spec();
  if (!spec) return OkStatus();
  if (spec->num_leaves() == 0) {
    return InvalidArgument("{}: expected tensors of rank 1 or more, but the elements are {}",
                           node.label(), spec->ToString());
  }
  TUTTI_RETURN_IF_ERROR(RowSpecOf(*spec, node.label()).status());
  const int64_t size = PromisedSize(node);
  if (size == PartialShape::kUnknownDim) return OkStatus();
  size_t first = 0;
  while (DimOf(spec->leaf(first)) != size) ++first;
  for (size_t i = first; i < spec->num_leaves(); ++i) {
    const int64_t other = DimOf(spec->leaf(i));
    if (other == size || other == PartialShape::kUnknownDim) continue;
    return DifferentSizes(spec->tree(), i, other, first, size).WithPrefix(node.label());
  }
  return OkStatus();
}

int64_t UnbatchCardinality(const Node& node) {
  const int64_t batches = node.input().cardinality();
  if (batches <= 0) return batches;
  const int64_t size = PromisedSize(node);
  int64_t rows = 0;
  if (size == PartialShape::kUnknownDim || __builtin_mul_overflow(batches, size, &rows)) {
    return kUnknownCardinality;
  }
  return rows;
}

Result<Ref<const ElementSpec>> UnbatchSpec(const Node& node) {
  const Ref<const ElementSpec> spec = node.input().element_spec();
  if (!spec) return spec;
  return RowSpecOf(*spec, node.label());
}

Result<std::unique_ptr<Stage>> MakeUnbatch(const Node& node, const ExecContext& context,
                                           StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<UnbatchStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kUnbatchOp = {
    .name = "unbatch",
    .row_ratio = RowRatio::kExpanding,
    .check = CheckUnbatch,
    .cardinality = UnbatchCardinality,
    .element_spec = UnbatchSpec,
    .make_stage = MakeUnbatch,
};

}  // namespace tutti
