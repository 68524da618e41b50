#include "traced.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "specs.h"
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

Spec PairOf(const Spec &first, const Spec &second) {
  Treespec tree;
  const tutti_treespec *parts[] = {tutti_spec_get_treespec(first.get()),
                                   tutti_spec_get_treespec(second.get())};
  Check(tutti_treespec_create_sequence(TUTTI_NODE_TUPLE, 2, parts, tree.out()));
  std::vector<Spec> leaves;
  for (const Spec *spec : {&first, &second}) {
    for (size_t i = 0; i < tutti_spec_get_leaf_count(spec->get()); ++i) {
      Check(tutti_spec_leaf(spec->get(), i, leaves.emplace_back().out()));
    }
  }
  std::vector<const tutti_spec *> pointers;
  for (const Spec &leaf : leaves) pointers.push_back(leaf.get());
  Spec pair;
  Check(tutti_spec_create_from_leaves(tree.get(), pointers.size(), pointers.data(), pair.out()));
  return pair;
}

// What becomes of a window, which is leaf 1 beside its key.
Function OfWindows(const std::string &name, int64_t arg, const Trace &trace) {
  Dataset window = trace.Make("element", Node(trace.Leaf(1)));
  if (name == "window_batch") {
    Check(tutti_dataset_batch(window.out(), arg, nullptr));
  } else if (name == "window_take") {
    Check(tutti_dataset_take(window.out(), arg, nullptr));
  } else if (name == "window_padded_batch") {
    Check(tutti_dataset_padded_batch(window.out(), arg, nullptr));
  } else {
    return {};
  }
  return trace.GiveDataset(window);
}

// The next state of `states` leaves, behind which the element's leaves stand.
Function OfStates(const std::string &name, int64_t states, const Trace &trace) {
  const int64_t state = trace.Leaf(0), x = trace.Leaf(states);
  const auto one_more = [&](int64_t node) { return trace.Of("add", node, trace.Number(1)); };
  if (name == "sum_and_count") {
    return trace.Give(Tuple({trace.Of("add", state, x), one_more(trace.Leaf(1))}));
  }
  if (states != 1) return {};
  if (name == "count") return trace.Give(Node(one_more(state)));
  if (name == "sum") return trace.Give(Node(trace.Of("add", state, x)));
  if (name == "max") return trace.Give(Node(trace.Of("maximum", state, x)));
  if (name == "last") return trace.Give(Node(x));
  if (name == "sum_components") {
    return trace.Give(Node(trace.Of("add", trace.Of("add", state, x), trace.Leaf(2))));
  }
  return {};
}

// What `make` gives, counted; none where it fails: of byte strings, say. Callbacks take those.
template <class Make>
Function Counted(Make make) {
  try {
    Function made = make();
    traced_functions += made ? 1 : 0;
    return made;
  } catch (const Failure &) {
    return {};
  }
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
  return Counted([&] { return Find(name, op.value("arg", Json()), Trace(input)); });
}

Function TracedIndexKey(int64_t divisor, const Spec &input) {
  if (!TracesFunctions()) return {};
  return Counted([&] {
    const Trace trace(input);
    return trace.Give(Node(trace.Of("remainder", trace.Leaf(0), trace.Number(divisor))));
  });
}

Function TracedWindowFunction(const Json &op, const Spec &input) {
  if (!TracesFunctions() || !op.at("reduce_arg").is_number_integer()) return {};
  return Counted([&] {
    Spec window;
    Check(tutti_spec_create_dataset(input.get(), window.out()));
    const Trace trace(PairOf(SpecOfTensor(TUTTI_DTYPE_INT64, {}), window));
    return OfWindows(op.at("reduce_func"), op.at("reduce_arg").get<int64_t>(), trace);
  });
}

Function TracedReducer(const std::string &name, const Value &initial, const Spec &input) {
  if (!TracesFunctions()) return {};
  return Counted([&] {
    Spec state;
    Check(tutti_spec_create_from_value(initial.get(), state.out()));
    const size_t states = tutti_spec_get_leaf_count(state.get());
    if (states > 2) return Function();
    return OfStates(name, static_cast<int64_t>(states), Trace(PairOf(state, input)));
  });
}

}  // namespace conformance
