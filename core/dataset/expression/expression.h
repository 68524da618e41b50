// Expression: a function over the elements of a dataset while it is put together, node by node, as
// a trace of it does. What the nodes give is known from the element's spec before anything runs.
//
//   Ref<Expression> trace = Expression::Create(spec).value();              // int64[]
//   int64_t x = trace->Parameter(0).value();
//   int64_t two = trace->Constant(Tensor::Scalar<int64_t>(2), true).value();
//   int64_t twice = trace->Apply("multiply", {{x, two}}, {}).value();
//   Ref<Function> function = MakeExpressionFunction(*trace, TreeSpec::Leaf(), {twice}).value();
//
// The rules, which are NumPy's unless said:
// - Two dtypes do not meet: INVALID_ARGUMENT, `cast` one. A *weak* constant, a number of the
// host's,
//   takes the dtype of what it meets, where that holds it; a float meets no integer.
// - Integers wrap. floor_divide rounds down and remainder has the divisor's sign, for floats, too.
//   divide is for floats alone. A zero divisor of an integer, and a negative exponent of one, is
//   INVALID_ARGUMENT for its row.
// - float16 and bfloat16 are computed in float32 and rounded after each operation. Complex numbers
//   have no order, and meet numbers of the host's, but no real tensor: `complex` makes them of two.
// - What is drawn at random depends on its seed alone (core/tensor/stateless_random.h).
// - Shapes broadcast. A row never depends on another one, nor on how many are computed at once.
// - Reductions keep the dtype, and fold in the order of the index.
//
// An expression may be made inside of another one, for a function of the datasets that the outer
// function gives: then nodes of the outer one are captured, each as a parameter more, which has one
// value for all rows. What it makes is bound to these values for each of the outer one's elements
// (dataset_function.h).
//
// C's tutti_expression* is a pointer to one. Threads: any; calls take turns.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_EXPRESSION_H_
#define TUTTI_CORE_DATASET_EXPRESSION_EXPRESSION_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/operations.h"
#include "core/dataset/expression/pattern.h"
#include "core/function/function.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tutti {

// What an operation is told besides its inputs; unset where it takes none.
struct ExpressionAttributes {
  // reshape: dims, one may be -1; transpose: the order of axes; slice: start, stop and step of each
  // of the first axes, kMissing for what is left out; index: axis and place; expand_dims, stack,
  // concatenate, take: the axis; reductions, reduce_join: the axes, none for all; one_hot: the
  // depth; string_split: at how many places at most, and into how many parts; regex_replace: 1 for
  // all matches, 0 for the first; to_hash_bucket_*: how many buckets there are, and the key;
  // stateless_random_*: the dims.
  std::vector<int64_t> numbers;
  DType dtype = DType::kInvalid;  // cast, one_hot, to_number, decode_raw, stateless_random_*
  bool keep_dims = false;         // reductions
  // join_strings, reduce_join, string_split: the separator; string_length, substr: the unit;
  // regex_*: the pattern.
  std::string text;

  static constexpr int64_t kMissing = INT64_MIN;
  bool operator==(const ExpressionAttributes&) const = default;
};

struct ExpressionNode {
  ExpressionOp op = ExpressionOp::kConstant;
  std::vector<int32_t> inputs;
  ExpressionAttributes attributes;
  // Of one row.
  DType dtype = DType::kInvalid;
  PartialShape shape;
  // Whether it differs from row to row; else it is computed as one row.
  bool per_row = false;
  bool weak = false;           // of constants
  // Of parameters and calls. Behind the leaves of the element come what was captured.
  int64_t leaf = 0;
  Ref<Tensor> constant;        // contiguous
  Ref<Function> function;      // of calls
  Ref<const Pattern> pattern;  // of regex_*
};

// A node of the expression around this one, as a parameter.
struct CapturedNode {
  LeafSpec spec;
  int64_t exported = 0;  // its place in the outer one's exports()
};

class Expression final : public RefCounted {
 public:
  // More is refused, here and in definitions that are read.
  static constexpr size_t kMaxNodes = 100'000;

  // Of elements of `input`, tensors of known rank: INVALID_ARGUMENT for others, which a callback
  // takes. A component may be a dataset whose elements are known: its parameter is a node that no
  // operation takes, of which a function that gives datasets makes one (dataset_function.h).
  static Result<Ref<Expression>> Create(Ref<const ElementSpec> input);

  // Nodes are numbers, from 0.
  // Leaf `leaf` of the element. OUT_OF_RANGE when there is none.
  Result<int64_t> Parameter(int64_t leaf);
  // Of a node that is a dataset: the leaf of the element that it is. INVALID_ARGUMENT for others.
  Result<int64_t> DatasetLeaf(int64_t node) const;
  Result<int64_t> Constant(Ref<Tensor> value, bool weak);
  // Node `node` of `outer`, which is made around this one: the same node for the same one.
  // INVALID_ARGUMENT where others were captured of another expression, or for this one itself.
  Result<int64_t> Capture(const Ref<Expression>& outer, int64_t node);
  // The place of a node among those that are computed for each element for what stands inside: of
  // expressions that captured it, and of datasets that are made of it.
  Result<int64_t> Export(int64_t node);
  // The operation of that name. NOT_FOUND names the nearest; INVALID_ARGUMENT for inputs and
  // attributes that it does not take.
  Result<int64_t> Apply(std::string_view name, std::span<const int64_t> inputs,
                        ExpressionAttributes attributes);
  // Leaf `leaf` of what a native function, parse_example, makes of a node.
  Result<int64_t> Call(Ref<Function> function, int64_t input, int64_t leaf);

  // Of one row.
  Result<TensorSpec> SpecOf(int64_t node) const;
  // "(x * 2) + 1", shortened.
  Result<std::string> ToString(int64_t node) const;

  const Ref<const ElementSpec>& input() const { return input_; }
  std::vector<CapturedNode> captures() const;
  // Nodes, in the order of their places.
  std::vector<int64_t> exports() const;
  // Of which was captured; null where nothing was.
  Ref<Expression> outer() const;
  // As it was written down: what a definition captured.
  Status AddCapture(CapturedNode captured);
  // A copy of all nodes.
  std::vector<ExpressionNode> nodes() const;
  // INVALID_ARGUMENT for what is no node.
  Status CheckNode(int64_t node) const;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  explicit Expression(Ref<const ElementSpec> input) : input_(std::move(input)) {}
  ~Expression() override = default;

  Status CheckNodeLocked(int64_t node) const;
  Status CheckTensorLocked(int64_t node) const;
  Result<int64_t> Add(ExpressionNode node);
  ExpressionNode CapturedParameter(size_t capture, std::string text) const;
  // The inputs' dtypes made one, weak constants taking that of the others.
  Status Agree(const Operation& operation, std::span<int32_t> inputs);
  Result<int32_t> Adapt(int32_t constant, DType dtype, const Operation& operation);

  const Ref<const ElementSpec> input_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<ExpressionNode> nodes_;
  std::vector<CapturedNode> captures_;
  std::vector<int64_t> exports_;
  Ref<Expression> outer_;
};

// "(x * 2) + 1", shortened: what explain() and messages say.
std::string ExpressionText(std::span<const ExpressionNode> nodes, int64_t node);
// A name of parameter `leaf` of such elements: "x", "x['label']".
std::string ParameterText(const ElementSpec& input, int64_t leaf);
// INVALID_ARGUMENT for a component that is no tensor of known rank.
Status NoTensor(const ElementSpec& input, size_t leaf);

// The dtype and shape of a node whose inputs are known. INVALID_ARGUMENT for inputs and attributes
// that the operation does not take.
Status InferNode(std::span<const ExpressionNode> nodes, ExpressionNode* node);

// What two shapes broadcast to. INVALID_ARGUMENT naming both.
Result<PartialShape> BroadcastShapes(const PartialShape& a, const PartialShape& b);

// start, stop and step along an axis of `dim` elements: where it begins and how many there are.
struct AxisSlice {
  int64_t begin;
  int64_t size;
  int64_t step;
};
AxisSlice SliceOfAxis(int64_t dim, int64_t start, int64_t stop, int64_t step);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_EXPRESSION_H_
