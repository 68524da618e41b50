#include "core/dataset/expression/random_steps.h"

#include <utility>

#include "core/base/error.h"
#include "core/tensor/cast.h"
#include "core/tensor/stateless_random.h"

namespace tutti {

Result<Ref<Tensor>> EvaluateRandomStep(const ExpressionNode& node,
                                       std::span<const StepInput> inputs, int64_t rows,
                                       const TensorOptions& options) {
  const std::string_view name = OperationOf(node.op).name;
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> seeds, Cast(*inputs[0].value, DType::kInt64));
  if (rows > 0 && (seeds->rank() != 2 || seeds->dim(1) != 2)) {
    return InvalidArgument("{}: expected a seed of two integers, got {}", name,
                           seeds->shape().RowShape().ToString())
        .With("row", 0);
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, node.shape.Prepend(rows).ToShape());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, Tensor::Create(node.dtype, shape, options));
  const int64_t each = rows == 0 ? 0 : shape.num_elements() / rows;
  auto* to = static_cast<char*>(result->mutable_data());
  const int64_t* const seed = seeds->span<int64_t>().data();
  const auto bound = [&](size_t i, int64_t row) {
    const StepInput& input = inputs[i];
    return static_cast<const char*>(input.value->data()) +
           (input.per_row ? row : 0) * static_cast<int64_t>(result->item_size());
  };
  for (int64_t row = 0; row < rows; ++row) {
    const PhiloxStream stream(seed + (inputs[0].per_row ? 2 * row : 0));
    switch (node.op) {
      case ExpressionOp::kRandomUniform: FillRandomUniform(stream, node.dtype, each, to); break;
      case ExpressionOp::kRandomNormal: FillRandomNormal(stream, node.dtype, each, to); break;
      case ExpressionOp::kRandomTruncatedNormal:
        FillRandomTruncatedNormal(stream, node.dtype, each, to);
        break;
      case ExpressionOp::kRandomBits: FillRandomBits(stream, node.dtype, each, to); break;
      default:
        if (!FillRandomIntegers(stream, node.dtype, bound(1, row), bound(2, row), each, to)) {
          return InvalidArgument("{}: expected a lower bound below the upper one, got {} and {}",
                                 name, inputs[1].value->Row(inputs[1].per_row ? row : 0)
                                           ->ContentsToString(),
                                 inputs[2].value->Row(inputs[2].per_row ? row : 0)
                                     ->ContentsToString())
              .With("row", row);
        }
    }
    to += static_cast<size_t>(each) * result->item_size();
  }
  return result;
}

}  // namespace tutti
