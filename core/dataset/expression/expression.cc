#include "core/dataset/expression/expression.h"

#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

using Kind = OperationKind;

// Whether a weak number is what it was after it became a `dtype`.
bool Holds(DType dtype, const Tensor& number) {
  if (number.dtype() == DType::kBool) return dtype == DType::kBool;
  if (IsComplex(number.dtype())) return IsComplex(dtype);
  if (IsFloating(number.dtype())) return IsFloating(dtype) || IsComplex(dtype);
  if (!IsInteger(dtype)) return IsNumeric(dtype);
  const bool is_unsigned = number.dtype() == DType::kUint64;
  const __int128 value = is_unsigned ? __int128{number.item<uint64_t>()}
                                     : __int128{number.item<int64_t>()};
  const int bits = static_cast<int>(ItemSize(dtype)) * 8;
  const __int128 low = IsUnsignedInteger(dtype) ? 0 : -(__int128{1} << (bits - 1));
  const __int128 high = (__int128{1} << (IsUnsignedInteger(dtype) ? bits : bits - 1)) - 1;
  return low <= value && value <= high;
}

// A number without a tensor beside it is what the host's numbers are in a tensor.
DType DefaultOf(const Tensor& number) {
  if (number.dtype() == DType::kBool) return DType::kBool;
  if (IsComplex(number.dtype())) return DType::kComplex64;
  if (IsFloating(number.dtype())) return DType::kFloat32;
  return Holds(DType::kInt32, number) ? DType::kInt32 : number.dtype();
}

void AppendText(std::span<const ExpressionNode> nodes, int64_t index, int depth, std::string* out) {
  constexpr size_t kLongest = 160;
  constexpr int kDeepest = 12;
  if (depth > kDeepest || out->size() > kLongest) {
    *out += "...";
    return;
  }
  const ExpressionNode& node = nodes[static_cast<size_t>(index)];
  const Operation& operation = OperationOf(node.op);
  if (node.op == ExpressionOp::kParameter) {
    *out += node.attributes.text;
    return;
  }
  if (node.op == ExpressionOp::kConstant) {
    *out += node.constant->ContentsToString(3);
    return;
  }
  if (!operation.symbol.empty()) {
    *out += "(";
    AppendText(nodes, node.inputs[0], depth + 1, out);
    *out += Format(" {} ", operation.symbol);
    AppendText(nodes, node.inputs[1], depth + 1, out);
    *out += ")";
    return;
  }
  *out += Format("{}(", node.op == ExpressionOp::kCall ? node.function->name() : operation.name);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (out->size() > kLongest) break;
    if (i > 0) *out += ", ";
    AppendText(nodes, node.inputs[i], depth + 1, out);
  }
  if (node.attributes.dtype != DType::kInvalid) {
    *out += Format(", {}", DTypeName(node.attributes.dtype));
  }
  // A key is nobody's business.
  const bool shows_numbers =
      node.op != ExpressionOp::kSlice && node.op != ExpressionOp::kToHashBucketStrong;
  if (!node.attributes.numbers.empty() && shows_numbers) {
    *out += Format(", {}", DimsToString(node.attributes.numbers));
  }
  *out += ")";
}

}  // namespace

std::string ParameterText(const ElementSpec& input, int64_t leaf) {
  return "x" + PathToString(input.tree().LeafPath(static_cast<size_t>(leaf)));
}

std::string ExpressionText(std::span<const ExpressionNode> nodes, int64_t node) {
  std::string text;
  AppendText(nodes, node, 0, &text);
  return text;
}

Status NoTensor(const ElementSpec& input, size_t leaf) {
  return InvalidArgument(
      "expression: elements must be tensors of known rank, and component {} of {} is none; use a "
      "callback, or say what the elements are where they are made",
      ParameterText(input, static_cast<int64_t>(leaf)), input.ToString());
}

Result<Ref<Expression>> Expression::Create(Ref<const ElementSpec> input) {
  for (size_t i = 0; i < input->num_leaves(); ++i) {
    const LeafSpec& leaf = input->leaf(i);
    const bool is_known = leaf.is_tensor() ? leaf.shape.has_rank()
                                           : leaf.kind == LeafKind::kDataset && leaf.inner;
    if (is_known && !input->tree().has_composites()) continue;
    return NoTensor(*input, i);
  }
  if (input->num_leaves() == 0) {
    return InvalidArgument("expression: elements must have a tensor, and {} has none; use a "
                           "callback", input->ToString());
  }
  return MakeRef<Expression>(std::move(input));
}

Status Expression::CheckNodeLocked(int64_t node) const {
  if (0 <= node && node < static_cast<int64_t>(nodes_.size())) return OkStatus();
  return InvalidArgument("expression: {} is none of its nodes, which are 0 to {}", node,
                         static_cast<int64_t>(nodes_.size()) - 1);
}

// No tensor has that dtype: such a node is a dataset.
Status Expression::CheckTensorLocked(int64_t node) const {
  TUTTI_RETURN_IF_ERROR(CheckNodeLocked(node));
  const ExpressionNode& it = nodes_[static_cast<size_t>(node)];
  if (it.dtype != DType::kInvalid) return OkStatus();
  return InvalidArgument(
      "expression: {} is a dataset, and a tensor is needed; use functions of datasets for what it "
      "becomes by the maker 'element', or a callback",
      it.attributes.text);
}

Result<int64_t> Expression::DatasetLeaf(int64_t node) const {
  const std::lock_guard lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckNodeLocked(node));
  const ExpressionNode& it = nodes_[static_cast<size_t>(node)];
  if (it.op == ExpressionOp::kParameter && it.dtype == DType::kInvalid) return it.leaf;
  return InvalidArgument(
      "element: expected a node that is a dataset in the element, and {} is a tensor; the maker "
      "from_tensors or from_tensor_slices makes a dataset of one",
      ExpressionText(nodes_, node));
}

Status Expression::CheckNode(int64_t node) const {
  const std::lock_guard lock(mutex_);
  return CheckNodeLocked(node);
}

Result<int64_t> Expression::Add(ExpressionNode node) {
  if (nodes_.size() >= kMaxNodes) {
    return ResourceExhausted("expression: there are {} operations already, and more are not taken",
                             kMaxNodes);
  }
  nodes_.push_back(std::move(node));
  return static_cast<int64_t>(nodes_.size()) - 1;
}

Result<int64_t> Expression::Capture(const Ref<Expression>& outer, int64_t node) {
  if (outer.get() == this) return InvalidArgument("expression: it cannot capture its own nodes");
  {
    const std::lock_guard lock(mutex_);
    if (outer_ != nullptr && outer_.get() != outer.get()) {
      return InvalidArgument("expression: it has captured nodes of one expression already, and "
                             "captures none of another one");
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const int64_t place, outer->Export(node));
  TUTTI_ASSIGN_OR_RETURN(const TensorSpec spec, outer->SpecOf(node));
  TUTTI_ASSIGN_OR_RETURN(std::string text, outer->ToString(node));
  const std::lock_guard lock(mutex_);
  outer_ = outer;
  const auto leaves = static_cast<int64_t>(input_->num_leaves());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ExpressionNode& one = nodes_[i];
    if (one.op != ExpressionOp::kParameter || one.leaf < leaves) continue;
    if (captures_[static_cast<size_t>(one.leaf - leaves)].exported == place) {
      return static_cast<int64_t>(i);
    }
  }
  captures_.push_back({LeafSpec::OfTensor(spec.dtype, spec.shape), place});
  return Add(CapturedParameter(captures_.size() - 1, std::move(text)));
}

ExpressionNode Expression::CapturedParameter(size_t capture, std::string text) const {
  ExpressionNode made;
  made.op = ExpressionOp::kParameter;
  made.dtype = captures_[capture].spec.dtype;
  made.shape = captures_[capture].spec.shape;
  made.leaf = static_cast<int64_t>(input_->num_leaves() + capture);
  made.attributes.text = "outer " + text;
  return made;
}

Status Expression::AddCapture(CapturedNode captured) {
  if (!captured.spec.shape.has_rank()) {
    return InvalidArgument("expression: what it has captured is of unknown rank");
  }
  const std::lock_guard lock(mutex_);
  captures_.push_back(std::move(captured));
  return OkStatus();
}

Result<int64_t> Expression::Export(int64_t node) {
  const std::lock_guard lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckTensorLocked(node));
  for (size_t i = 0; i < exports_.size(); ++i) {
    if (exports_[i] == node) return static_cast<int64_t>(i);
  }
  exports_.push_back(node);
  return static_cast<int64_t>(exports_.size()) - 1;
}

std::vector<CapturedNode> Expression::captures() const {
  const std::lock_guard lock(mutex_);
  return captures_;
}

std::vector<int64_t> Expression::exports() const {
  const std::lock_guard lock(mutex_);
  return exports_;
}

Ref<Expression> Expression::outer() const {
  const std::lock_guard lock(mutex_);
  return outer_;
}

Result<int64_t> Expression::Parameter(int64_t leaf) {
  {
    const std::lock_guard lock(mutex_);
    const int64_t capture = leaf - static_cast<int64_t>(input_->num_leaves());
    if (0 <= capture && capture < static_cast<int64_t>(captures_.size())) {
      return Add(CapturedParameter(static_cast<size_t>(capture), "value"));
    }
  }
  const auto count = static_cast<int64_t>(input_->num_leaves());
  if (leaf < 0 || leaf >= count) {
    return OutOfRange("expression: the element {} has {} components, and none is number {}",
                      input_->ToString(), count, leaf);
  }
  ExpressionNode node;
  node.op = ExpressionOp::kParameter;
  node.dtype = input_->leaf(static_cast<size_t>(leaf)).dtype;
  node.shape = input_->leaf(static_cast<size_t>(leaf)).shape;
  node.per_row = true;
  node.leaf = leaf;
  node.attributes.text = ParameterText(*input_, leaf);
  const std::lock_guard lock(mutex_);
  return Add(std::move(node));
}

Result<int64_t> Expression::Constant(Ref<Tensor> value, bool weak) {
  ExpressionNode node;
  TUTTI_ASSIGN_OR_RETURN(node.constant, value->Contiguous());
  node.weak = weak;
  if (weak) {
    if (value->rank() != 0 || value->dtype() == DType::kBytes) {
      return InvalidArgument("expression: a number that adapts is one number, not {}",
                             value->SpecString());
    }
    // In the widest form of its kind, from which it becomes what it meets.
    const DType widest = value->dtype() == DType::kBool ? DType::kBool
                         : IsComplex(value->dtype())    ? DType::kComplex128
                         : IsFloating(value->dtype())   ? DType::kFloat64
                         : value->dtype() == DType::kUint64 ? DType::kUint64
                                                            : DType::kInt64;
    TUTTI_ASSIGN_OR_RETURN(node.constant, Cast(*node.constant, widest));
    node.dtype = DefaultOf(*node.constant);
  } else {
    // Nobody may write it any more.
    TUTTI_ASSIGN_OR_RETURN(node.constant, node.constant->Copy());
    node.dtype = value->dtype();
  }
  node.shape = value->shape();
  const std::lock_guard lock(mutex_);
  return Add(std::move(node));
}

Result<int32_t> Expression::Adapt(int32_t constant, DType dtype, const Operation& operation) {
  const ExpressionNode& weak = nodes_[static_cast<size_t>(constant)];
  if (!Holds(dtype, *weak.constant)) {
    return InvalidArgument(
        "{}: the number {} does not become {} unchanged; cast the tensor beside it, or use a "
        "number that fits",
        operation.name, weak.constant->ContentsToString(), DTypeName(dtype));
  }
  ExpressionNode node;
  TUTTI_ASSIGN_OR_RETURN(node.constant, Cast(*weak.constant, dtype));
  node.dtype = dtype;
  node.shape = PartialShape::Scalar();
  TUTTI_ASSIGN_OR_RETURN(const int64_t added, Add(std::move(node)));
  return static_cast<int32_t>(added);
}

Status Expression::Agree(const Operation& operation, std::span<int32_t> inputs) {
  const auto at = [&](int32_t i) -> const ExpressionNode& {
    return nodes_[static_cast<size_t>(i)];
  };
  const ExpressionNode* first = nullptr;
  for (const int32_t input : inputs) {
    if (first == nullptr && !at(input).weak) first = &at(input);
  }
  // Of numbers alone the widest says what they are: a float before an integer.
  DType dtype = first != nullptr ? first->dtype : at(inputs[0]).dtype;
  if (first == nullptr) {
    for (const int32_t input : inputs) {
      if (IsComplex(dtype)) break;
      const DType own = at(input).dtype;
      if (IsFloating(own) || IsComplex(own) || own == DType::kInt64) dtype = own;
    }
  }
  for (int32_t& input : inputs) {
    if (at(input).weak) {
      TUTTI_ASSIGN_OR_RETURN(input, Adapt(input, dtype, operation));
    } else if (at(input).dtype != dtype) {
      return InvalidArgument(
          "{}: two dtypes meet, {} and {}; cast one of them to the other", operation.name,
          DTypeName(dtype), DTypeName(at(input).dtype));
    }
  }
  return OkStatus();
}

Result<int64_t> Expression::Apply(std::string_view name, std::span<const int64_t> inputs,
                                  ExpressionAttributes attributes) {
  const Operation* operation = FindOperation(name);
  if (operation == nullptr || operation->kind == Kind::kLeaf) {
    std::string known;
    for (const std::string_view each : OperationNames()) {
      known += Format("{}{}", known.empty() ? "" : ", ", each);
    }
    return NotFound("expression: there is no operation '{}'; there are {}", name, known);
  }
  const auto count = static_cast<int64_t>(inputs.size());
  if (operation->inputs >= 0 ? count != operation->inputs : count == 0) {
    return InvalidArgument("{}: expected {} input{}, got {}", name,
                           operation->inputs < 0 ? std::string("one or more")
                                                 : std::to_string(operation->inputs),
                           operation->inputs == 1 ? "" : "s", count);
  }
  const std::lock_guard lock(mutex_);
  ExpressionNode node;
  node.op = operation->op;
  node.attributes = std::move(attributes);
  for (const int64_t input : inputs) {
    TUTTI_RETURN_IF_ERROR(CheckTensorLocked(input));
    node.inputs.push_back(static_cast<int32_t>(input));
  }
  const bool conditional = node.op == ExpressionOp::kWhere;
  // table and places; seed and bounds; texts, and where in them or what comes instead
  const bool alone = node.op == ExpressionOp::kTake || node.op == ExpressionOp::kRandomIntegers ||
                     node.op == ExpressionOp::kSubstr ||
                     node.op == ExpressionOp::kRegexReplace;
  if (alone || conditional) {
    TUTTI_RETURN_IF_ERROR(Agree(*operation, std::span(node.inputs).first(1)));
    std::span<int32_t> others = std::span(node.inputs).subspan(1);
    if (node.op == ExpressionOp::kRandomIntegers && IsValid(node.attributes.dtype)) {
      for (int32_t& bound : others) {
        if (!nodes_[static_cast<size_t>(bound)].weak) continue;
        TUTTI_ASSIGN_OR_RETURN(bound, Adapt(bound, node.attributes.dtype, *operation));
      }
    }
    TUTTI_RETURN_IF_ERROR(Agree(*operation, others));
  } else {
    TUTTI_RETURN_IF_ERROR(Agree(*operation, node.inputs));
  }
  TUTTI_RETURN_IF_ERROR(InferNode(nodes_, &node));
  return Add(std::move(node));
}

Result<int64_t> Expression::Call(Ref<Function> function, int64_t input, int64_t leaf) {
  const Result<FunctionDefinition> definition = function->Define();
  if (!definition.ok() ||
      (definition.value().kind != "parse_example" && definition.value().kind != "decode_csv")) {
    return InvalidArgument(
        "expression: the native functions parse_example and decode_csv can be called, and '{}' is "
        "another one",
        function->name());
  }
  const std::lock_guard lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckTensorLocked(input));
  ExpressionNode node;
  node.op = ExpressionOp::kCall;
  node.inputs = {static_cast<int32_t>(input)};
  const ExpressionNode& argument = nodes_[static_cast<size_t>(input)];
  const Ref<const ElementSpec> spec = ElementSpec::OfTensor(argument.dtype, argument.shape);
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> output, function->OutputSpec(spec.get()));
  const auto count = output ? static_cast<int64_t>(output->num_leaves()) : 0;
  if (leaf < 0 || leaf >= count) {
    return OutOfRange("expression: '{}' gives {} components, and none is number {}",
                      function->name(), count, leaf);
  }
  node.dtype = output->leaf(static_cast<size_t>(leaf)).dtype;
  node.shape = output->leaf(static_cast<size_t>(leaf)).shape;
  node.per_row = argument.per_row;
  node.leaf = leaf;
  node.function = std::move(function);
  return Add(std::move(node));
}

Result<TensorSpec> Expression::SpecOf(int64_t node) const {
  const std::lock_guard lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckTensorLocked(node));
  const ExpressionNode& found = nodes_[static_cast<size_t>(node)];
  return TensorSpec{found.dtype, found.shape};
}

Result<std::string> Expression::ToString(int64_t node) const {
  const std::lock_guard lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckNodeLocked(node));
  return ExpressionText(nodes_, node);
}

std::vector<ExpressionNode> Expression::nodes() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

}  // namespace tutti
