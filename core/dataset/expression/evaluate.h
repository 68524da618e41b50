// Running expressions: a plan is made once, and run for some rows at a time.
//
// Element-wise operations of one shape that nobody else needs the results of run together, over
// blocks of kBlock elements: what is between two of them lies in registers of a block's size, in
// the first cache. Everything else is one pass over its rows each.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_EVALUATE_H_
#define TUTTI_CORE_DATASET_EXPRESSION_EVALUATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/expression.h"
#include "core/dataset/expression/kernels.h"
#include "core/function/context.h"
#include "core/tensor/tensor.h"

namespace tutti {

class ExpressionPlan {
 public:
  static constexpr int64_t kBlock = 512;

  // Nodes that no output needs are left out.
  ExpressionPlan(std::vector<ExpressionNode> nodes, std::vector<int32_t> outputs);

  std::span<const ExpressionNode> nodes() const { return nodes_; }
  std::span<const int32_t> outputs() const { return outputs_; }

  // The outputs of `rows` rows, each [rows, ...], from the leaves of the element, [rows, ...]. A
  // failure has the detail "row", if it is one row's; of another run's rows it would be the same.
  Result<std::vector<Ref<Tensor>>> Run(Context& context, std::span<const Ref<Tensor>> leaves,
                                       int64_t rows) const;

 private:
  friend class ExpressionRun;

  // Where an instruction finds an operand.
  struct Operand {
    enum class Kind : uint8_t { kRegister, kTensor } kind = Kind::kRegister;
    int32_t index = 0;  // of the register, or of the region's tensors
  };
  struct Instruction {
    const ExpressionNode* node = nullptr;
    ElementKernel kernel = nullptr;  // null: a cast
    DType from = DType::kInvalid;    // of a cast
    DType to = DType::kInvalid;      // of the result
    Operand operands[3];
    int32_t num_operands = 0;
    int32_t result = -1;  // the register; -1: the region's result
  };
  struct Region {
    std::vector<Instruction> instructions;
    std::vector<int32_t> tensors;        // nodes whose tensors are read
    std::vector<Ref<Tensor>> blocks;     // by place in `tensors`: kBlock times a number that is
                                         // known already; null for others
    int32_t num_registers = 0;
    size_t item_size = 1;  // the largest of what stands in registers
  };

  void FindRegions(const std::vector<bool>& needed);
  void Compile(int32_t root, Region* region);

  std::vector<ExpressionNode> nodes_;
  std::vector<int32_t> outputs_;
  std::vector<int32_t> steps_;      // nodes that get tensors, in order
  std::vector<int32_t> region_of_;  // by node: the root of its region; -1: it is in none
  std::vector<Region> regions_;     // by node, for roots
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_EVALUATE_H_
