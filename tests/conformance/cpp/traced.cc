#include "traced.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "strategies.h"

namespace conformance {
namespace {

using Expression = Handle<tutti_expression, tutti_expression_retain, tutti_expression_release>;

int traced_functions = 0;

class Trace {
 public:
  explicit Trace(const Spec &input) { Check(tutti_expression_create(input.get(), made_.out())); }

  int64_t Leaf(int64_t leaf) const {
    int64_t node = -1;
    Check(tutti_expression_add_parameter(made_.get(), leaf, &node));
    return node;
  }
  // A number that adapts to what it meets.
  int64_t Number(const Json &number) const {
    Tensor tensor;
    const bool whole = number.is_number_integer();
    const int64_t integer = whole ? number.get<int64_t>() : 0;
    const double real = number.get<double>();
    const void *data = whole ? static_cast<const void *>(&integer) : &real;
    Check(tutti_tensor_create_from_data(CurrentRuntime(),
                                        whole ? TUTTI_DTYPE_INT64 : TUTTI_DTYPE_FLOAT64, 0, nullptr,
                                        data, sizeof(real), tensor.out()));
    int64_t node = -1;
    Check(tutti_expression_add_constant(made_.get(), tensor.get(), TUTTI_TRUE, &node));
    return node;
  }
  int64_t Of(const char *name, int64_t a, int64_t b) const {
    const int64_t nodes[] = {a, b};
    int64_t node = -1;
    Check(tutti_expression_add_operation(made_.get(), name, 2, nodes, nullptr, &node));
    return node;
  }
  Dataset Make(const char *maker, const Value &nodes) const {
    Dataset dataset;
    Check(tutti_expression_add_dataset(made_.get(), CurrentRuntime(), maker, nullptr, nodes.get(),
                                       dataset.out()));
    return dataset;
  }
  Function Give(const Value &result) const {
    Function function;
    Check(tutti_expression_create_function(made_.get(), result.get(), function.out()));
    return function;
  }
  Function GiveDataset(const Dataset &dataset) const {
    Function function;
    Check(tutti_expression_create_dataset_function(made_.get(), dataset.get(), function.out()));
    return function;
  }

 private:
  Expression made_;
};

Value Node(int64_t node) {
  Value value;
  Check(tutti_value_create_int64(node, value.out()));
  return value;
}

Value Tuple(const std::vector<int64_t> &nodes) {
  std::vector<Value> parts;
  std::vector<const tutti_value *> pointers;
  for (const int64_t node : nodes) parts.push_back(Node(node));
  for (const Value &part : parts) pointers.push_back(part.get());
  Value tuple;
  Check(tutti_value_create_tuple(pointers.size(), pointers.data(), tuple.out()));
  return tuple;
}

Value XAndSquare(int64_t x, int64_t square) {
  const Value parts[] = {Node(square), Node(x)};
  const tutti_value *pointers[] = {parts[0].get(), parts[1].get()};
  const char *const keys[] = {"square", "x"};
  Value dict;
  Check(tutti_value_create_dict(2, keys, pointers, dict.out()));
  return dict;
}

Function Find(const std::string &name, const Json &arg, const Trace &trace) {
  static const std::map<std::string, const char *> with_number = {
      {"add", "add"},         {"mod", "remainder"}, {"less", "less"},
      {"greater", "greater"}, {"equal", "equal"}};
  const int64_t x = trace.Leaf(0);
  const auto found = with_number.find(name);
  if (found != with_number.end()) {
    return trace.Give(Node(trace.Of(found->second, x, trace.Number(arg))));
  }
  if (name == "even") {
    const int64_t rest = trace.Of("remainder", x, trace.Number(2));
    return trace.Give(Node(trace.Of("equal", rest, trace.Number(0))));
  }
  const auto square = [&] { return trace.Of("multiply", x, x); };
  if (name == "square") return trace.Give(Node(square()));
  if (name == "with_square") return trace.Give(Tuple({x, square()}));
  if (name == "as_dict") return trace.Give(XAndSquare(x, square()));
  if (name == "swap") return trace.Give(Tuple({trace.Leaf(1), x}));
  if (name == "add_components") return trace.Give(Node(trace.Of("add", x, trace.Leaf(1))));
  if (name == "component" && arg.is_number_integer()) {
    return trace.Give(Node(trace.Leaf(arg.get<int64_t>())));
  }
  if (name == "range" || name == "count_from") {
    const int64_t begin = name == "range" ? trace.Number(0) : x;
    const int64_t end = name == "range" ? x : trace.Of("add", x, trace.Number(arg));
    return trace.GiveDataset(trace.Make("range", Tuple({begin, end, trace.Number(1)})));
  }
  if (name == "from_tensor_slices") return trace.GiveDataset(trace.Make(name.c_str(), Node(x)));
  if (name == "from_tensors_repeat") {
    Dataset one = trace.Make("from_tensors", Node(x));
    Check(tutti_dataset_repeat(one.out(), arg.get<int64_t>(), nullptr));
    return trace.GiveDataset(one);
  }
  return {};
}

// A structure of tensors alone, each component of which is a leaf.
bool IsFlat(const Spec &input, const std::string &name) {
  const bool takes_two = name == "swap" || name == "add_components" || name == "component";
  return tutti_spec_get_leaf_count(input.get()) == (takes_two ? 2u : 1u);
}

}  // namespace

bool TracesFunctions() { return std::getenv("CONFORMANCE_TRACES") != nullptr; }

int TracedFunctions() { return traced_functions; }

Function TracedFunction(const Json &op, const Spec &input) {
  const std::string name = op.at("fn");
  if (!TracesFunctions() || !IsFlat(input, name)) return {};
  try {
    Function made = Find(name, op.value("arg", Json()), Trace(input));
    traced_functions += made ? 1 : 0;
    return made;
  } catch (const Failure &) {
    return {};  // of byte strings, of datasets: callbacks take them
  }
}

}  // namespace conformance
