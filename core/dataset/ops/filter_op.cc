// filter: the elements for which a predicate gives a true boolean scalar.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

Ref<const ElementSpec> BoolScalar() {
  return ElementSpec::OfTensor(DType::kBool, PartialShape::Scalar());
}

class FilterStage final : public Stage {
 public:
  FilterStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        account_(context.account),
        rows_(input()),
        function_(this->node(), context, BoolScalar()) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (slab->rows == 0 && !slab->end && slab->status.ok()) {
      slab->status = CheckCallOptions(options, clock_, node().label());
      if (!slab->status.ok()) return;
      Slab in;
      rows_.Pull(Demand{std::min(demand.max_rows, kMaxSlabRows), false}, options, &in);
      std::vector<int64_t> kept;
      int64_t used = 0;
      Status status;
      if (in.rows > 0 && function_.takes_slabs()) {
        status = JudgeSlab(in, options, &kept, &used);
      } else {
        status = JudgeRows(in, options, &kept, &used);
      }
      index_ += used;
      if (used == in.rows && status.ok()) {
        status = in.status;
        slab->end = in.end;
      } else {
        rows_.PutBack(in, used);
      }
      if (!kept.empty()) {
        const Status picked = Pick(in, kept, slab);
        if (status.ok()) status = picked;
      }
      // A call that has rows was not interrupted.
      if (!IsInterruption(status) || slab->rows == 0) slab->status = std::move(status);
    }
  }

  Status Restart(const CallOptions& options) override {
    rows_.Clear();
    index_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("filter");
    writer->Int(index_);
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("filter");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  Status JudgeRows(const Slab& in, const CallOptions& options, std::vector<int64_t>* kept,
                   int64_t* used) {
    for (; *used < in.rows; ++*used) {
      const int64_t index = index_ + *used;
      const Result<Ref<Value>> verdict = function_.CallRow(in, *used, index, options);
      Status status = verdict.ok() ? function_.CheckResult(**verdict, index) : verdict.status();
      if (!status.ok()) {
        if (!IsInterruption(status)) ++*used;
        return status;
      }
      if ((*verdict)->leaf(0).tensor().item<bool>()) kept->push_back(*used);
    }
    return OkStatus();
  }

  Status JudgeSlab(const Slab& in, const CallOptions& options, std::vector<int64_t>* kept,
                   int64_t* used) {
    int64_t rows = in.rows > 1 && !RowsAreUniform({&in, 1}) ? 1 : in.rows;
    std::optional<int64_t> failed_row;
    Result<Slab> verdicts = function_.CallSlab(in.Slice(0, rows), index_, options, &failed_row);
    if (!verdicts.ok() && failed_row.value_or(0) > 0) {
      // The rows before the failed one are good; it comes again as the first of the rest.
      rows = *failed_row;
      verdicts = function_.CallSlab(in.Slice(0, rows), index_, options, &failed_row);
    } else if (!verdicts.ok() && failed_row.has_value()) {
      rows = 1;
    }
    if (!verdicts.ok()) {
      if (!IsInterruption(verdicts.status())) *used = rows;
      return verdicts.status();
    }
    *used = rows;
    const std::span<const bool> flags = verdicts->columns[0].dense()->span<bool>();
    for (int64_t i = 0; i < rows; ++i) {
      if (flags[static_cast<size_t>(i)]) kept->push_back(i);
    }
    return OkStatus();
  }

  Status Pick(const Slab& in, const std::vector<int64_t>& kept, Slab* slab) const {
    const auto count = static_cast<int64_t>(kept.size());
    const int64_t first = kept.front();
    // Neighbours stay where they are.
    if (kept.back() - first + 1 == count) {
      const bool end = slab->end;
      *slab = in.Slice(first, first + count);
      slab->end = end;
      return OkStatus();
    }
    TensorOptions tensor_options;
    tensor_options.zeroed = false;
    tensor_options.account = account_;
    std::vector<Column> columns;
    for (const Column& column : in.columns) {
      if (column.is_dense()) {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor,
                               GatherRows(*column.dense(), kept, tensor_options));
        columns.push_back(Column::Dense(std::move(tensor)));
        continue;
      }
      std::vector<Leaf> leaves;
      for (int64_t row : kept) leaves.push_back(column.Row(row));
      columns.push_back(Column::Rows(std::move(leaves)));
    }
    slab->rows = count;
    slab->tree = in.tree;
    slab->columns = std::move(columns);
    return OkStatus();
  }

  Clock& clock_;
  MemoryAccount* const account_;
  InputRows rows_;
  FunctionRows function_;
  int64_t index_ = 0;  // of the next element of the input
};

Status CheckFilter(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckFunctions(node, 1));
  const Ref<const ElementSpec> input = node.input().element_spec();
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> output,
                         node.function().OutputSpec(input.get()));
  if (!output) return OkStatus();
  const LeafSpec& leaf = output->leaf(0);
  if (output->tree().is_leaf() && leaf.is_tensor() && leaf.dtype == DType::kBool &&
      leaf.shape.IsCompatibleWith(PartialShape::Scalar())) {
    return OkStatus();
  }
  return InvalidArgument("{}: the predicate must give a boolean scalar, and gives {}", node.label(),
                         output->ToString());
}

int64_t FilterCardinality(const Node&) { return kUnknownCardinality; }

Result<std::unique_ptr<Stage>> MakeFilter(const Node& node, const ExecContext& context,
                                          StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<FilterStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kFilterOp = {
    .name = "filter",
    .row_ratio = RowRatio::kSubset,
    .passes_elements = true,
    .determinism = Determinism::kHost,
    .serializability = Serializability::kWithFunctions,
    .check = CheckFilter,
    .cardinality = FilterCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeFilter,
};

}  // namespace tutti
