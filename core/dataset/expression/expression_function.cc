#include "core/dataset/expression/expression_function.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/example/decode_csv.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/expression/evaluate.h"
#include "core/function/function_registry.h"
#include "core/tensor/cast.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

constexpr std::string_view kExpressionKind = "expression";
// Counted up where what an operation gives changes, or what is written of it.
constexpr int64_t kExpressionVersion = 1;
// Of one that has captured something and is not bound.
constexpr int64_t kCapturingVersion = 2;

std::string TextOfResults(std::span<const ExpressionNode> nodes, std::span<const int32_t> results) {
  std::string text;
  for (const int32_t result : results) {
    if (!text.empty()) text += ", ";
    text += ExpressionText(nodes, result);
    if (text.size() > 160) break;
  }
  return text;
}

class ExpressionFunction final : public CapturingFunction {
 public:
  ExpressionFunction(Ref<const ElementSpec> input, Ref<const ElementSpec> output,
                     std::vector<CapturedNode> captures, Ref<Expression> outer,
                     std::shared_ptr<const ExpressionPlan> plan,
                     std::vector<Ref<Tensor>> bound = {})
      : CapturingFunction(TextOfResults(plan->nodes(), plan->outputs())),
        input_(std::move(input)),
        output_(std::move(output)),
        captures_(std::move(captures)),
        outer_(std::move(outer)),
        plan_(std::move(plan)),
        bound_(std::move(bound)) {}

  std::span<const CapturedNode> captures() const override {
    return bound_.empty() ? captures_ : std::span<const CapturedNode>();
  }
  const Expression* outer() const override { return outer_.get(); }
  const Ref<const ElementSpec>& input() const { return input_; }

  Result<Ref<Function>> Bind(std::span<const Ref<Tensor>> exported) const override {
    std::vector<Ref<Tensor>> bound;
    for (const CapturedNode& captured : captures_) {
      const auto place = static_cast<size_t>(captured.exported);
      if (captured.exported < 0 || place >= exported.size() ||
          exported[place]->dtype() != captured.spec.dtype ||
          !captured.spec.shape.IsCompatibleWith(PartialShape(exported[place]->shape()))) {
        return InvalidArgument("expression: what it has captured was to be {}, and is not there",
                               captured.spec.ToString());
      }
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> value, exported[place]->Contiguous());
      bound.push_back(std::move(value));
    }
    return Ref<Function>(MakeRef<ExpressionFunction>(input_, output_, captures_, outer_, plan_,
                                                     std::move(bound)));
  }

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    if (!captures().empty()) {
      return FailedPrecondition(
          "expression: it uses a placeholder of the function around it, and was taken out of what "
          "that function gives; make the dataset inside of that function and return it");
    }
    TUTTI_RETURN_IF_ERROR(CheckSameStructure(input_->tree(), in.spec(), "expression"));
    if (!in.leaf(0).is_tensor()) return Misfit(0, in.leaf(0), true);
    const bool is_row = in.leaf(0).tensor().rank() == input_->leaf(0).shape.rank();
    const int64_t rows = is_row ? 1 : in.leaf(0).tensor().rank() == 0 ? 0
                                                                     : in.leaf(0).tensor().dim(0);
    std::vector<Ref<Tensor>> leaves;
    for (size_t i = 0; i < in.num_leaves(); ++i) {
      if (!in.leaf(i).is_tensor()) return Misfit(i, in.leaf(i), is_row);
      Ref<Tensor> tensor = in.leaf(i).tensor_ref();
      const LeafSpec& spec = input_->leaf(i);
      const bool fits =
          tensor->dtype() == spec.dtype &&
          tensor->rank() == spec.shape.rank() + (is_row ? 0 : 1) &&
          (is_row || tensor->dim(0) == rows) &&
          spec.shape.IsCompatibleWith(
              PartialShape(is_row ? tensor->shape() : tensor->shape().RowShape()));
      if (!fits) return Misfit(i, in.leaf(i), is_row);
      if (is_row) tensor = tensor->ExpandFront();
      TUTTI_ASSIGN_OR_RETURN(tensor, tensor->Contiguous());
      leaves.push_back(std::move(tensor));
    }
    for (const Ref<Tensor>& value : bound_) leaves.push_back(value->ExpandFront());
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> results,
                           plan_->Run(context, leaves, rows));
    std::vector<Leaf> made;
    for (const Ref<Tensor>& result : results) {
      made.push_back(Leaf::OfTensor(is_row ? result->Row(0) : result));
    }
    TUTTI_ASSIGN_OR_RETURN(*out, Value::FromLeaves(output_->tree_ref(), std::move(made)));
    return is_row ? CheckComposites(**out, output_->tree(), 0) : OkStatus();
  }

  // A sparse or ragged tensor of a row is none of a slab.
  Granularity granularity() const override {
    return output_->tree().has_composites() ? Granularity::kRow : Granularity::kEither;
  }
  bool calls_host() const override { return false; }

  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override {
    if (input != nullptr && !input_->IsCompatibleWith(*input)) {
      return InvalidArgument("expression: it was made for elements of {}, and these are {}",
                             input_->ToString(), input->ToString());
    }
    return output_;
  }

  Result<FunctionDefinition> Define() const override {
    StateWriter writer;
    writer.Section(kExpressionKind);
    writer.Int(captures().empty() ? kExpressionVersion : kCapturingVersion);
    WriteInput(&writer);
    if (!captures().empty()) WriteCaptures(&writer);
    writer.Int(static_cast<int64_t>(plan_->nodes().size()));
    for (const ExpressionNode& node : plan_->nodes()) {
      TUTTI_RETURN_IF_ERROR(WriteNode(AsWritten(node), &writer));
    }
    writer.Tree(output_->tree());
    for (const int32_t output : plan_->outputs()) writer.Int(output);
    return FunctionDefinition{std::string(kExpressionKind), std::move(writer).TakeBytes()};
  }

 private:
  // That the nodes of which sparse and ragged tensors are made fit each other.
  static Status CheckComposites(const Value& made, const TreeSpec& node, size_t first_leaf) {
    if (!node.has_composites()) return OkStatus();
    if (CompositeOf(node) != Composite::kNone) {
      Status status = CheckComposite(*made.Part({&node, first_leaf}));
      return status.ok() ? OkStatus() : std::move(status).WithPrefix("expression");
    }
    for (size_t i = 0; i < node.num_children(); ++i) {
      TUTTI_RETURN_IF_ERROR(
          CheckComposites(made, node.child(i), first_leaf + node.first_leaf(i)));
    }
    return OkStatus();
  }

  Status Misfit(size_t i, const Leaf& leaf, bool is_row) const {
    LeafSpec found = LeafSpec::Of(leaf);
    if (!is_row && found.is_tensor() && found.shape.rank() > 0) {
      found.shape = found.shape.RowShape();
    }
    return InvalidArgument("expression: component {} was to be {}, and is {}; where elements are "
                           "made an output signature can leave sizes open, and a callback takes "
                           "any",
                           ParameterText(*input_, static_cast<int64_t>(i)),
                           input_->leaf(i).ToString(), found.ToString())
        .With("row", 0);
  }

  void WriteInput(StateWriter* writer) const {
    writer->Tree(input_->tree());
    for (const LeafSpec& leaf : input_->leaves()) {
      writer->Int(static_cast<int64_t>(leaf.dtype));
      writer->Ints(leaf.shape.dims());
    }
  }

  void WriteCaptures(StateWriter* writer) const {
    writer->Int(static_cast<int64_t>(captures_.size()));
    for (const CapturedNode& captured : captures_) {
      writer->Int(static_cast<int64_t>(captured.spec.dtype));
      writer->Ints(captured.spec.shape.dims());
      writer->Int(captured.exported);
    }
  }

  // What it is bound to are constants.
  ExpressionNode AsWritten(const ExpressionNode& node) const {
    const int64_t capture = node.leaf - static_cast<int64_t>(input_->num_leaves());
    if (bound_.empty() || node.op != ExpressionOp::kParameter || capture < 0) return node;
    ExpressionNode constant;
    constant.op = ExpressionOp::kConstant;
    constant.constant = bound_[static_cast<size_t>(capture)];
    return constant;
  }

  static Status WriteNode(const ExpressionNode& node, StateWriter* writer) {
    writer->Bytes(OperationOf(node.op).name);
    writer->Ints(std::vector<int64_t>(node.inputs.begin(), node.inputs.end()));
    switch (node.op) {
      case ExpressionOp::kParameter:
        writer->Int(node.leaf);
        break;
      case ExpressionOp::kConstant: {
        writer->Int(node.weak ? 1 : 0);
        const Ref<Value> value = Value::OfTensor(node.constant);
        return writer->Rows(SlabOfValues({&value, 1}));
      }
      case ExpressionOp::kCall: {
        TUTTI_ASSIGN_OR_RETURN(const FunctionDefinition definition, node.function->Define());
        writer->Int(node.leaf);
        writer->Bytes(definition.kind);
        writer->Bytes(definition.payload);
        break;
      }
      default:
        writer->Ints(node.attributes.numbers);
        writer->Int(static_cast<int64_t>(node.attributes.dtype));
        writer->Int(node.attributes.keep_dims ? 1 : 0);
        writer->Bytes(node.attributes.text);
    }
    return OkStatus();
  }

  const Ref<const ElementSpec> input_;
  const Ref<const ElementSpec> output_;
  const std::vector<CapturedNode> captures_;
  const Ref<Expression> outer_;
  const std::shared_ptr<const ExpressionPlan> plan_;
  const std::vector<Ref<Tensor>> bound_;  // as many as captures, or none
};

DType ReadDType(StateReader* reader) {
  return static_cast<DType>(reader->IntIn(0, std::numeric_limits<int32_t>::max()));
}

Result<Ref<const ElementSpec>> ReadInput(StateReader* reader) {
  Ref<const TreeSpec> tree = reader->Tree();
  TUTTI_RETURN_IF_ERROR(reader->status());
  std::vector<LeafSpec> leaves;
  for (size_t i = 0; i < tree->num_leaves() && reader->ok(); ++i) {
    const DType dtype = ReadDType(reader);
    const std::vector<int64_t> dims = reader->Ints();
    if (reader->ok() && !IsValid(dtype)) reader->Fail("there is no such dtype");
    TUTTI_RETURN_IF_ERROR(reader->status());
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::Create(dims.data(), dims.size()));
    leaves.push_back(LeafSpec::OfTensor(dtype, std::move(shape)));
  }
  TUTTI_RETURN_IF_ERROR(reader->status());
  return ElementSpec::Create(std::move(tree), std::move(leaves));
}

// Functions that stand in expressions are of kinds that this room knows.
Result<Ref<Function>> ReadCalled(StateReader* reader) {
  const std::string_view kind = reader->Bytes();
  const std::string_view payload = reader->Bytes();
  TUTTI_RETURN_IF_ERROR(reader->status());
  if (kind == "parse_example") return ReadParseExample(payload);
  if (kind == "decode_csv") return ReadDecodeCsv(payload);
  return InvalidArgument("expression: there is no function of kind '{}' in expressions", kind);
}

Result<int64_t> ReadNode(Expression* expression, StateReader* reader) {
  const std::string_view name = reader->Bytes();
  const std::vector<int64_t> inputs = reader->Ints();
  TUTTI_RETURN_IF_ERROR(reader->status());
  const Operation* const operation = FindOperation(name);
  if (operation == nullptr) {
    return InvalidArgument(
        "expression: the operation '{}' is not known here; read it with the release that wrote it",
        name);
  }
  if (operation->op == ExpressionOp::kParameter) {
    const int64_t leaf = reader->Int();
    TUTTI_RETURN_IF_ERROR(reader->status());
    return expression->Parameter(leaf);
  }
  if (operation->op == ExpressionOp::kConstant) {
    const bool weak = reader->IntIn(0, 1) != 0;
    Slab slab;
    reader->Rows(&slab);
    TUTTI_RETURN_IF_ERROR(reader->status());
    if (slab.rows != 1 || slab.columns.size() != 1 || !slab.columns[0].Row(0).is_tensor()) {
      return InvalidArgument("expression: a constant is no tensor");
    }
    return expression->Constant(slab.columns[0].Row(0).tensor_ref(), weak);
  }
  if (operation->op == ExpressionOp::kCall) {
    const int64_t leaf = reader->Int();
    TUTTI_ASSIGN_OR_RETURN(Ref<Function> function, ReadCalled(reader));
    if (inputs.size() != 1) return InvalidArgument("expression: a call has one input");
    return expression->Call(std::move(function), inputs[0], leaf);
  }
  ExpressionAttributes attributes;
  attributes.numbers = reader->Ints();
  attributes.dtype = ReadDType(reader);
  attributes.keep_dims = reader->IntIn(0, 1) != 0;
  attributes.text = std::string(reader->Bytes());
  TUTTI_RETURN_IF_ERROR(reader->status());
  return expression->Apply(name, inputs, std::move(attributes));
}

Status ReadCaptures(Expression* expression, StateReader* reader) {
  const int64_t count = reader->IntIn(1, Expression::kMaxNodes);
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    const DType dtype = ReadDType(reader);
    const std::vector<int64_t> dims = reader->Ints();
    const int64_t exported = reader->IntIn(0, Expression::kMaxNodes);
    if (reader->ok() && !IsValid(dtype)) reader->Fail("there is no such dtype");
    TUTTI_RETURN_IF_ERROR(reader->status());
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::Create(dims.data(), dims.size()));
    TUTTI_RETURN_IF_ERROR(
        expression->AddCapture({LeafSpec::OfTensor(dtype, std::move(shape)), exported}));
  }
  return reader->status();
}

Result<Ref<Function>> ReadAll(StateReader* reader) {
  reader->Section(kExpressionKind);
  const int64_t version = reader->Int();
  if (reader->ok() && version != kExpressionVersion && version != kCapturingVersion) {
    return InvalidArgument(
               "deserialize: this definition has an expression in version {}, and version {} is "
               "known here; read it with the release that wrote it",
               version, kCapturingVersion)
        .With("version", version);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> input, ReadInput(reader));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Expression> expression, Expression::Create(std::move(input)));
  if (version == kCapturingVersion) TUTTI_RETURN_IF_ERROR(ReadCaptures(expression.get(), reader));
  const int64_t count = reader->IntIn(1, Expression::kMaxNodes);
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const int64_t node, ReadNode(expression.get(), reader));
    // A number that adapts would become one more node: it was one already when this was written.
    if (node != i) {
      return InvalidArgument("expression: node {} has an input that is not of its dtype", i);
    }
  }
  Ref<const TreeSpec> structure = reader->Tree();
  TUTTI_RETURN_IF_ERROR(reader->status());
  std::vector<int64_t> results;
  for (size_t i = 0; i < structure->num_leaves(); ++i) results.push_back(reader->Int());
  if (reader->ok() && !reader->at_end()) reader->Fail("there are bytes behind its end");
  TUTTI_RETURN_IF_ERROR(reader->status());
  return MakeExpressionFunction(*expression, std::move(structure), results);
}

}  // namespace

Result<Ref<Function>> MakeExpressionFunction(const Expression& expression,
                                             Ref<const TreeSpec> structure,
                                             std::span<const int64_t> results) {
  if (results.size() != structure->num_leaves() || results.empty()) {
    return InvalidArgument("expression: expected a node for each leaf of {}, got {} nodes",
                           structure->ToString(), results.size());
  }
  for (size_t i = 0; i < expression.input()->num_leaves(); ++i) {
    if (!expression.input()->leaf(i).is_tensor()) return NoTensor(*expression.input(), i);
  }
  const std::vector<ExpressionNode> nodes = expression.nodes();
  std::vector<int32_t> outputs;
  std::vector<LeafSpec> leaves;
  for (const int64_t result : results) {
    TUTTI_RETURN_IF_ERROR(expression.CheckNode(result));
    const ExpressionNode& node = nodes[static_cast<size_t>(result)];
    outputs.push_back(static_cast<int32_t>(result));
    leaves.push_back(LeafSpec::OfTensor(node.dtype, node.shape));
  }
  std::vector<ExpressionNode> own = nodes;
  // A number alone is what the host's numbers are in a tensor.
  for (const int32_t output : outputs) {
    ExpressionNode& node = own[static_cast<size_t>(output)];
    if (!node.weak) continue;
    TUTTI_ASSIGN_OR_RETURN(node.constant, Cast(*node.constant, node.dtype));
    node.weak = false;
  }
  // Their parts are nodes.
  Status parts = CompleteComposites(*structure, leaves);
  if (!parts.ok()) return std::move(parts).WithPrefix("expression: the result");
  TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> output,
                         ElementSpec::Create(std::move(structure), std::move(leaves)));
  return Ref<Function>(MakeRef<ExpressionFunction>(
      expression.input(), std::move(output), expression.captures(), expression.outer(),
      std::make_shared<const ExpressionPlan>(std::move(own), std::move(outputs))));
}

Result<Ref<const ElementSpec>> InputOfExpression(const Function& function) {
  const auto* const expression = dynamic_cast<const ExpressionFunction*>(&function);
  if (expression == nullptr) return InvalidArgument("'{}' is no expression", function.name());
  return expression->input();
}

const CapturingFunction* AsCapturing(const Function& function) {
  const auto* const capturing = dynamic_cast<const CapturingFunction*>(&function);
  return capturing == nullptr || capturing->captures().empty() ? nullptr : capturing;
}

Result<Ref<Function>> ReadExpressionFunction(std::string_view payload) {
  StateReader reader(payload);
  Result<Ref<Function>> function = ReadAll(&reader);
  if (!reader.ok()) {
    return Status(reader.status()).WithPrefix("expression: these bytes are no definition of one");
  }
  return function;
}

Status AddExpressionKind(FunctionRegistry* functions) {
  return functions->AddKind(std::string(kExpressionKind), ReadExpressionFunction);
}

}  // namespace tutti
