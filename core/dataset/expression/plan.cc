// What runs together, and in which registers.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "core/dataset/expression/evaluate.h"

namespace tutti {
namespace {

// Bytes are views on memory that somebody has to keep: chosen ones go a way of their own.
bool RunsInRegion(const ExpressionNode& node) {
  return IsElementwise(OperationOf(node.op).kind) && node.dtype != DType::kBytes;
}

DType ComputedIn(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 ? DType::kFloat32 : dtype;
}

// The c of x // c and x % c, where it is a positive number of int64 or int32; else 0.
int64_t DivisorOf(const ExpressionNode& node, const ExpressionNode& divisor) {
  const bool divides =
      node.op == ExpressionOp::kFloorDivide || node.op == ExpressionOp::kRemainder;
  if (!divides || divisor.op != ExpressionOp::kConstant || divisor.constant->rank() != 0) return 0;
  switch (divisor.dtype) {
    case DType::kInt64: return std::max<int64_t>(0, divisor.constant->item<int64_t>());
    case DType::kInt32: return std::max(0, divisor.constant->item<int32_t>());
    default: return 0;
  }
}

// Of x // c and x % c for a c that is a power of two: what is done instead, to which number.
std::optional<std::pair<ExpressionOp, int64_t>> Cheaper(const ExpressionNode& node, int64_t value) {
  const bool divides = node.op == ExpressionOp::kFloorDivide;
  if (value <= 0 || (value & (value - 1)) != 0) return std::nullopt;
  if (divides) return std::pair(ExpressionOp::kRightShift, int64_t{__builtin_ctzll(value)});
  return std::pair(ExpressionOp::kBitwiseAnd, value - 1);
}

// One number kBlock times.
Ref<Tensor> BlockOf(const Tensor& number) {
  Result<Ref<Tensor>> block = Tensor::Create(number.dtype(), Shape({ExpressionPlan::kBlock}));
  if (!block.ok()) return nullptr;
  auto* to = static_cast<char*>(block.value()->mutable_data());
  for (int64_t i = 0; i < ExpressionPlan::kBlock; ++i, to += number.item_size()) {
    std::memcpy(to, number.data(), number.item_size());
  }
  return std::move(block).value();
}

}  // namespace

ExpressionPlan::ExpressionPlan(std::vector<ExpressionNode> nodes, std::vector<int32_t> outputs)
    : nodes_(std::move(nodes)), outputs_(std::move(outputs)) {
  std::vector<bool> needed(nodes_.size());
  for (const int32_t output : outputs_) needed[static_cast<size_t>(output)] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int32_t input : nodes_[i].inputs) needed[static_cast<size_t>(input)] = true;
  }
  FindRegions(needed);
  regions_.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!needed[i]) continue;
    const auto node = static_cast<int32_t>(i);
    if (region_of_[i] >= 0 && region_of_[i] != node) continue;
    steps_.push_back(node);
    if (region_of_[i] == node) Compile(node, &regions_[i]);
  }
}

// A node joins the region of those that use it where they all are in one, of its own shape.
void ExpressionPlan::FindRegions(const std::vector<bool>& needed) {
  constexpr int32_t kNobody = -1;
  constexpr int32_t kSeveral = -2;
  std::vector<int32_t> users(nodes_.size(), kNobody);
  for (const int32_t output : outputs_) users[static_cast<size_t>(output)] = kSeveral;
  region_of_.assign(nodes_.size(), -1);
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const ExpressionNode& node = nodes_[i];
    if (RunsInRegion(node)) {
      region_of_[i] = static_cast<int32_t>(i);
      if (users[i] >= 0) {
        const ExpressionNode& root = nodes_[static_cast<size_t>(users[i])];
        const bool fits = node.per_row == root.per_row && node.shape == root.shape &&
                          node.shape.IsFullyKnown();
        if (fits) region_of_[i] = users[i];
      }
    }
    for (const int32_t input : node.inputs) {
      int32_t& user = users[static_cast<size_t>(input)];
      const int32_t mine = region_of_[i] >= 0 ? region_of_[i] : kSeveral;
      user = user == kNobody || user == mine ? mine : kSeveral;
    }
  }
}

void ExpressionPlan::Compile(int32_t root, Region* region) {
  std::map<int32_t, Operand> places;
  std::vector<int32_t> free;
  // By register: the last node that reads it.
  std::map<int32_t, int32_t> last_use;
  for (int32_t i = 0; i <= root; ++i) {
    if (region_of_[static_cast<size_t>(i)] != root) continue;
    for (const int32_t input : nodes_[static_cast<size_t>(i)].inputs) last_use[input] = i;
  }
  region->item_size = 8;
  for (int32_t i = 0; i <= root; ++i) {
    if (region_of_[static_cast<size_t>(i)] != root) continue;
    region->item_size =
        std::max(region->item_size, ItemSize(nodes_[static_cast<size_t>(i)].dtype));
  }
  const auto new_register = [&] {
    if (free.empty()) return region->num_registers++;
    const int32_t found = free.back();
    free.pop_back();
    return found;
  };
  const auto add_tensor = [&](int32_t node, Ref<Tensor> block) {
    region->tensors.push_back(node);
    region->blocks.push_back(std::move(block));
    return Operand{Operand::Kind::kTensor, static_cast<int32_t>(region->tensors.size()) - 1};
  };
  const auto cast = [&](const ExpressionNode* node, Operand operand, DType from, DType to) {
    Instruction instruction;
    instruction.node = node;
    instruction.from = from;
    instruction.to = to;
    instruction.operands[0] = operand;
    instruction.num_operands = 1;
    instruction.result = new_register();
    region->instructions.push_back(instruction);
    return Operand{Operand::Kind::kRegister, instruction.result};
  };
  for (int32_t i = 0; i <= root; ++i) {
    if (region_of_[static_cast<size_t>(i)] != root) continue;
    const ExpressionNode& node = nodes_[static_cast<size_t>(i)];
    std::vector<Operand> operands;
    for (const int32_t input : node.inputs) {
      auto found = places.find(input);
      if (found == places.end()) {
        const ExpressionNode& read = nodes_[static_cast<size_t>(input)];
        const bool number = read.op == ExpressionOp::kConstant &&
                            read.constant->num_elements() == 1 && read.dtype != DType::kBytes;
        Ref<Tensor> block = number ? BlockOf(*read.constant) : nullptr;
        found = places.emplace(input, add_tensor(input, std::move(block))).first;
      }
      operands.push_back(found->second);
    }
    Instruction instruction;
    instruction.node = &node;
    ExpressionOp op = node.op;
    const bool is_where = op == ExpressionOp::kWhere;
    const DType given = nodes_[static_cast<size_t>(node.inputs[is_where ? 1 : 0])].dtype;
    // A choice moves elements as they are.
    const DType computed = is_where ? given : ComputedIn(given);
    std::vector<int32_t> scratch;
    if (op == ExpressionOp::kCast) {
      instruction.from = given;
      instruction.to = node.dtype;
    } else {
      if (node.inputs.size() == 2) {
        const ExpressionNode& divisor = nodes_[static_cast<size_t>(node.inputs[1])];
        const int64_t value = DivisorOf(node, divisor);
        if (value > 0) instruction.kernel = FindByNumberKernel(op, computed);
        if (const auto cheaper = Cheaper(node, value)) {
          const Ref<Tensor> number = divisor.dtype == DType::kInt64
                                         ? Tensor::Scalar<int64_t>(cheaper->second)
                                         : Tensor::Scalar(static_cast<int32_t>(cheaper->second));
          if (Ref<Tensor> block = BlockOf(*number)) {
            op = cheaper->first;
            instruction.kernel = nullptr;
            operands[1] = add_tensor(-1, std::move(block));
          }
        }
      }
      if (computed != given) {
        for (Operand& operand : operands) {
          operand = cast(&node, operand, given, computed);
          scratch.push_back(operand.index);
        }
      }
      if (instruction.kernel == nullptr) instruction.kernel = FindElementKernel(op, computed);
      instruction.to = node.dtype == given ? computed : node.dtype;
    }
    instruction.num_operands = static_cast<int32_t>(operands.size());
    std::copy(operands.begin(), operands.end(), instruction.operands);
    const bool narrows = instruction.to != node.dtype;
    // The result's register is taken before those of the operands are free: kernels do not work in
    // place.
    instruction.result = i == root && !narrows ? -1 : new_register();
    region->instructions.push_back(instruction);
    Operand result = {Operand::Kind::kRegister, instruction.result};
    if (narrows) {
      scratch.push_back(instruction.result);
      result = cast(&node, result, instruction.to, node.dtype);
      if (i == root) region->instructions.back().result = -1;
    }
    places[i] = result;
    for (const int32_t index : scratch) free.push_back(index);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int32_t input = node.inputs[k];
      const auto here = node.inputs.begin() + static_cast<int64_t>(k);
      const bool again = std::find(node.inputs.begin(), here, input) != here;
      const Operand place = places[input];
      if (!again && last_use[input] == i && place.kind == Operand::Kind::kRegister) {
        free.push_back(place.index);
      }
    }
  }
}

}  // namespace tutti
