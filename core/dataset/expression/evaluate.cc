#include "core/dataset/expression/evaluate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/expression/steps.h"
#include "core/tensor/cast.h"
#include "core/tensor/concat.h"
#include "core/tensor/float_mode.h"

namespace tutti {

// One run of a plan, over some rows.
class ExpressionRun {
 public:
  ExpressionRun(const ExpressionPlan& plan, Context& context, std::span<const Ref<Tensor>> leaves,
                int64_t rows)
      : plan_(plan), context_(context), leaves_(leaves), rows_(rows),
        values_(plan.nodes_.size()) {
    options_.zeroed = false;
    options_.account = &context.environment().memory();
  }

  Result<std::vector<Ref<Tensor>>> Run() {
    for (const int32_t step : plan_.steps_) {
      const auto i = static_cast<size_t>(step);
      const ExpressionNode& node = plan_.nodes_[i];
      Result<Ref<Tensor>> value = plan_.region_of_[i] == step ? RunRegion(step) : RunStep(node);
      if (!value.ok()) return std::move(value).status();
      values_[i] = std::move(value).value();
    }
    std::vector<Ref<Tensor>> outputs;
    for (const int32_t output : plan_.outputs_) {
      const ExpressionNode& node = plan_.nodes_[static_cast<size_t>(output)];
      const Ref<Tensor>& value = values_[static_cast<size_t>(output)];
      TUTTI_ASSIGN_OR_RETURN(
          Ref<Tensor> whole,
          BroadcastRows(value, node.per_row, value->shape().WithDim(0, rows_)));
      outputs.push_back(std::move(whole));
    }
    return outputs;
  }

 private:
  const ExpressionNode& Node(int32_t i) const { return plan_.nodes_[static_cast<size_t>(i)]; }
  const Ref<Tensor>& ValueOf(int32_t i) const { return values_[static_cast<size_t>(i)]; }
  // What does not differ from row to row has one.
  int64_t RowsOf(const ExpressionNode& node) const { return node.per_row ? rows_ : 1; }

  Result<Ref<Tensor>> RunStep(const ExpressionNode& node) {
    if (node.op == ExpressionOp::kParameter) return leaves_[static_cast<size_t>(node.leaf)];
    if (node.op == ExpressionOp::kConstant) return node.constant->ExpandFront();
    std::vector<StepInput> inputs;
    for (const int32_t input : node.inputs) {
      inputs.push_back({ValueOf(input), Node(input).per_row});
    }
    if (node.op == ExpressionOp::kCall) return RunCall(node);
    return EvaluateStep(node, inputs, RowsOf(node), options_);
  }

  // Several nodes may be components of one call.
  Result<Ref<Tensor>> RunCall(const ExpressionNode& node) {
    const int32_t input = node.inputs[0];
    for (const auto& [function, argument, result] : calls_) {
      if (function == node.function.get() && argument == input) {
        return result->leaf(static_cast<size_t>(node.leaf)).tensor().Contiguous();
      }
    }
    Ref<Value> result;
    if (node.function->granularity() == Granularity::kRow) {
      TUTTI_ASSIGN_OR_RETURN(result, CallRows(*node.function, *ValueOf(input)));
    } else {
      TUTTI_RETURN_IF_ERROR(
          node.function->Call(context_, *Value::OfTensor(ValueOf(input)), &result));
    }
    calls_.push_back({node.function.get(), input, result});
    return result->leaf(static_cast<size_t>(node.leaf)).tensor().Contiguous();
  }

  // A function of one row alone: rows with leaves of one shape together; one with others begins
  // the next run.
  Result<Ref<Value>> CallRows(Function& function, const Tensor& argument) {
    if (argument.dim(0) == 0) return NoRows(function, argument);
    std::vector<Ref<Value>> rows;
    for (int64_t row = 0; row < argument.dim(0); ++row) {
      Ref<Value> made;
      Status status = function.Call(context_, *Value::OfTensor(argument.Row(row)), &made);
      if (!status.ok()) return std::move(status).With("row", row);
      for (size_t i = 0; i < made->num_leaves(); ++i) {
        if (row == 0 || made->leaf(i).tensor().shape() == rows[0]->leaf(i).tensor().shape()) {
          continue;
        }
        return InvalidArgument("{}: a row with {} stands beside one with {}", function.name(),
                               made->leaf(i).tensor().SpecString(),
                               rows[0]->leaf(i).tensor().SpecString())
            .With("row", row);
      }
      rows.push_back(std::move(made));
    }
    std::vector<Leaf> leaves;
    for (size_t i = 0; i < rows[0]->num_leaves(); ++i) {
      std::vector<Ref<Tensor>> kept;
      std::vector<const Tensor*> parts;
      for (const Ref<Value>& row : rows) {
        kept.push_back(row->leaf(i).tensor().ExpandFront());
        parts.push_back(kept.back().get());
      }
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> stacked, Concat(parts, 0, options_));
      leaves.push_back(Leaf::OfTensor(std::move(stacked)));
    }
    return Value::FromLeaves(rows[0]->spec_ref(), std::move(leaves));
  }

  static Result<Ref<Value>> NoRows(const Function& function, const Tensor& argument) {
    const Ref<const ElementSpec> row =
        ElementSpec::OfTensor(argument.dtype(), PartialShape(argument.shape().RowShape()));
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> spec, function.OutputSpec(row.get()));
    std::vector<Leaf> leaves;
    for (const LeafSpec& leaf : spec->leaves()) {
      std::vector<int64_t> dims = {0};
      for (const int64_t dim : leaf.shape.dims()) dims.push_back(std::max<int64_t>(dim, 0));
      TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> none, Tensor::Create(leaf.dtype, shape));
      leaves.push_back(Leaf::OfTensor(std::move(none)));
    }
    return Value::FromLeaves(spec->tree_ref(), std::move(leaves));
  }

  // The region's shape for these rows.
  Result<Shape> RegionShape(const ExpressionNode& node) const {
    std::vector<int64_t> dims = {RowsOf(node)};
    if (node.shape.IsFullyKnown()) {
      dims.insert(dims.end(), node.shape.dims().begin(), node.shape.dims().end());
      return Shape::Create(dims.data(), dims.size());
    }
    PartialShape shape = PartialShape::Scalar();
    for (const int32_t input : node.inputs) {
      Result<PartialShape> both =
          BroadcastShapes(shape, PartialShape(ValueOf(input)->shape().RowShape()));
      if (!both.ok()) {
        return Status(both.status())
            .WithPrefix(std::string(OperationOf(node.op).name))
            .With("row", 0);
      }
      shape = std::move(both).value();
    }
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    return Shape::Create(dims.data(), dims.size());
  }

  // Where a region reads: from memory that goes on with the blocks, or from a block of one number.
  struct Source {
    const char* data = nullptr;
    size_t item_size = 0;
    bool goes_on = false;
  };

  // More lies on the heap.
  static constexpr size_t kStackBytes = 32 * 1024;

  Result<Ref<Tensor>> RunRegion(int32_t root) {
    const ExpressionPlan::Region& region = plan_.regions_[static_cast<size_t>(root)];
    const ExpressionNode& node = Node(root);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, RegionShape(node));
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, Tensor::Create(node.dtype, shape, options_));
    const int64_t count = shape.num_elements();
    if (count == 0) return result;

    std::vector<Source> sources(region.tensors.size());
    std::vector<Ref<Tensor>> kept;
    for (size_t i = 0; i < sources.size(); ++i) {
      if (const Tensor* block = region.blocks[i].get()) {
        sources[i] = {static_cast<const char*>(block->data()), block->item_size(), false};
        continue;
      }
      const ExpressionNode& input = Node(region.tensors[i]);
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> whole,
                             BroadcastRows(ValueOf(region.tensors[i]), input.per_row, shape));
      sources[i] = {static_cast<const char*>(whole->data()), whole->item_size(), true};
      kept.push_back(std::move(whole));
    }
    // Each register begins at a cache line of its own.
    const auto block_elements = static_cast<size_t>(std::min(count, ExpressionPlan::kBlock));
    const size_t register_bytes = (block_elements * region.item_size + 63) & ~size_t{63};
    const size_t all_bytes = static_cast<size_t>(region.num_registers) * register_bytes;
    alignas(64) char stack[kStackBytes];
    std::unique_ptr<char[]> heap;
    char* registers = stack;
    if (all_bytes > kStackBytes) {
      heap.reset(new char[all_bytes + 64]);
      registers = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(heap.get()) + 63) &
                                          ~uintptr_t{63});
    }

    char* const out = static_cast<char*>(result->mutable_data());
    for (int64_t begin = 0; begin < count; begin += ExpressionPlan::kBlock) {
      const int64_t n = std::min(ExpressionPlan::kBlock, count - begin);
      for (const ExpressionPlan::Instruction& instruction : region.instructions) {
        std::array<const void*, 3> operands = {};
        for (int32_t k = 0; k < instruction.num_operands; ++k) {
          operands[static_cast<size_t>(k)] =
              AddressOf(instruction.operands[k], registers, register_bytes, sources, begin);
        }
        void* const to = instruction.result >= 0
                             ? registers + static_cast<size_t>(instruction.result) * register_bytes
                             : out + static_cast<size_t>(begin) * ItemSize(node.dtype);
        if (instruction.kernel == nullptr) {
          CastElements(instruction.from, operands[0], instruction.to, to, n);
          continue;
        }
        const int64_t failed = instruction.kernel(operands[0], operands[1], operands[2], to, n);
        if (failed >= 0) {
          return InvalidArgument("{}: {}", OperationOf(instruction.node->op).name,
                                 WhyNoResult(instruction.node->op))
              .With("row", node.per_row ? (begin + failed) / (count / rows_) : 0);
        }
      }
    }
    return result;
  }

  static const void* AddressOf(const ExpressionPlan::Operand& operand, const char* registers,
                               size_t register_bytes, std::span<const Source> sources,
                               int64_t begin) {
    const auto i = static_cast<size_t>(operand.index);
    if (operand.kind == ExpressionPlan::Operand::Kind::kRegister) {
      return registers + i * register_bytes;
    }
    const Source& source = sources[i];
    return source.data + (source.goes_on ? static_cast<size_t>(begin) * source.item_size : 0);
  }

  struct Called {
    const Function* function;
    int32_t argument;
    Ref<Value> result;
  };

  const ExpressionPlan& plan_;
  Context& context_;
  const std::span<const Ref<Tensor>> leaves_;
  const int64_t rows_;
  std::vector<Ref<Tensor>> values_;  // by node; [rows or 1, ...], contiguous
  std::vector<Called> calls_;
  TensorOptions options_;
};

namespace {

// The row that a failure names; what names none fails with the first.
int64_t FailedRow(const Status& status, int64_t rows) {
  const StatusDetail* const detail = status.FindDetail("row");
  const int64_t* const row = detail == nullptr ? nullptr : std::get_if<int64_t>(&detail->value);
  return row != nullptr && *row >= 0 && *row < rows ? *row : 0;
}

}  // namespace

Result<std::vector<Ref<Tensor>>> ExpressionPlan::Run(Context& context,
                                                     std::span<const Ref<Tensor>> leaves,
                                                     int64_t rows) const {
  const DefaultFloatMode float_mode;
  Result<std::vector<Ref<Tensor>>> result = ExpressionRun(*this, context, leaves, rows).Run();
  // Operations run one after the other, and not row after row: the first one that fails need not be
  // that of the first row that does.
  while (!result.ok() && result.status().code() == StatusCode::kInvalidArgument) {
    const int64_t row = FailedRow(result.status(), rows);
    if (row == 0) return Status(result.status()).With("row", 0);
    std::vector<Ref<Tensor>> before;
    for (const Ref<Tensor>& leaf : leaves) {
      // What was captured has one value for all rows.
      before.push_back(leaf->dim(0) == rows ? leaf->Slice(0, row) : leaf);
    }
    Result<std::vector<Ref<Tensor>>> again = ExpressionRun(*this, context, before, row).Run();
    if (again.ok()) break;
    result = std::move(again);
    rows = row;
  }
  return result;
}

}  // namespace tutti
