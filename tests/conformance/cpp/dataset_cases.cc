// The cases of dataset.json.
#include <algorithm>
#include <string>
#include <vector>

#include "cases.h"
#include "datasets.h"

namespace conformance {
namespace {

std::vector<double> NumbersOf(const std::vector<Value> &elements) {
  std::vector<double> numbers;
  for (const Value &element : elements) numbers.push_back(Numbers(TensorIn(element)).at(0));
  return numbers;
}

void CheckThat(bool holds, const char *property) {
  if (!holds) throw Mismatch(std::string("it is not so: ") + property);
}

std::vector<double> Sorted(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// "range(1000)" or a list.
std::vector<double> Original(const Json &json) {
  std::vector<double> numbers;
  if (json.is_array()) return json.get<std::vector<double>>();
  const std::string text = json;
  for (int i = 0; i < std::stoi(text.substr(text.find('(') + 1)); ++i) numbers.push_back(i);
  return numbers;
}

// An `expect` that names properties of the elements.
void CheckProperties(const Json &tree, const Json &expect) {
  CheckKeys(expect, {"permutation_of", "not_identity", "two_equal_halves",
                     "two_different_permutations", "two_permutations_of", "same_when_built_again"});
  const std::vector<double> all = NumbersOf(Elements(BuildDataset(tree)));
  const auto middle = all.begin() + static_cast<int64_t>(all.size() / 2);
  const std::vector<double> first(all.begin(), middle), second(middle, all.end());
  if (expect.contains("permutation_of")) {
    const std::vector<double> original = Original(expect.at("permutation_of"));
    CheckThat(Sorted(all) == original, "permutation_of");
    CheckThat(!expect.value("not_identity", false) || all != original, "not_identity");
  }
  if (expect.contains("two_equal_halves")) CheckThat(first == second, "two_equal_halves");
  if (expect.contains("two_different_permutations")) {
    CheckThat(first != second && Sorted(first) == Sorted(second), "two_different_permutations");
  }
  if (expect.contains("two_permutations_of")) {
    const std::vector<double> original = Original(expect.at("two_permutations_of"));
    CheckThat(Sorted(first) == original && Sorted(second) == original, "two_permutations_of");
  }
  if (expect.contains("same_when_built_again")) {
    CheckThat(all == NumbersOf(Elements(BuildDataset(tree))), "same_when_built_again");
  }
}

// Compares {"shape": [...], "dtype": D} per leaf; null is an unknown dimension.
void CompareSpec(const Json &expected, const tutti_treespec *node, const Spec &spec, size_t *leaf) {
  if (expected.contains("t")) {
    if (tutti_treespec_get_kind(node) != TUTTI_NODE_TUPLE ||
        tutti_treespec_get_child_count(node) != expected.at("t").size()) {
      throw Mismatch("expected a tuple " + expected.dump());
    }
    for (size_t i = 0; i < expected.at("t").size(); ++i) {
      CompareSpec(expected.at("t")[i], tutti_treespec_get_child(node, i), spec, leaf);
    }
    return;
  }
  CheckKeys(expected, {"shape", "dtype"});
  Json shape = Json::array();
  const int64_t *dims = tutti_spec_get_leaf_dims(spec.get(), *leaf);
  for (int64_t axis = 0; axis < tutti_spec_get_leaf_rank(spec.get(), *leaf); ++axis) {
    shape.push_back(dims[axis] == TUTTI_UNKNOWN_DIMENSION ? Json() : Json(dims[axis]));
  }
  const Json found{{"shape", shape},
                   {"dtype", tutti_dtype_get_name(tutti_spec_get_leaf_dtype(spec.get(), *leaf))}};
  if (found != expected) throw Mismatch("expected " + expected.dump() + ", got " + found.dump());
  ++*leaf;
}

void RunTerminal(const Json &tree, const Json &expect) {
  const std::string op = tree.at("op");
  if (op != "cardinality" && op != "element_spec") throw NotCovered("the op " + op);
  CheckKeys(tree, {"op", "input"});
  if (op == "cardinality") {
    const int64_t found = tutti_dataset_get_cardinality(BuildDataset(tree.at("input")).get());
    const int64_t expected = expect == "INFINITE"  ? TUTTI_CARDINALITY_INFINITE
                             : expect == "UNKNOWN" ? TUTTI_CARDINALITY_UNKNOWN
                                                   : expect.get<int64_t>();
    if (found != expected) throw Mismatch("the cardinality is " + std::to_string(found));
  } else {
    const Spec spec = ElementSpecOf(BuildDataset(tree.at("input")));
    size_t leaf = 0;
    CompareSpec(expect, tutti_spec_get_treespec(spec.get()), spec, &leaf);
  }
}

void CheckDTypes(const std::vector<Value> &elements, tutti_dtype dtype) {
  for (const Value &element : elements) {
    for (size_t leaf = 0; leaf < tutti_value_get_leaf_count(element.get()); ++leaf) {
      const tutti_tensor *tensor = tutti_value_get_leaf_tensor(element.get(), leaf);
      if (tutti_tensor_get_dtype(tensor) == dtype) continue;
      throw Mismatch(std::string("the dtype is ") +
                     tutti_dtype_get_name(tutti_tensor_get_dtype(tensor)));
    }
  }
}

}  // namespace

void RunDatasetCase(const Json &test) {
  CheckKeys(test, {"name", "dataset", "expect", "dtype", "iterate", "terminal"});
  const Json &tree = test.at("dataset"), &expect = test.at("expect");
  if (test.value("terminal", false)) return RunTerminal(tree, expect);
  if (expect.is_object() && !expect.contains("error")) return CheckProperties(tree, expect);
  FailsAsExpected(expect, [&] {
    const Dataset dataset = BuildDataset(tree);
    for (int walk = 0; walk < test.value("iterate", 1); ++walk) {
      const std::vector<Value> elements = Elements(dataset);
      if (expect.is_object()) continue;
      if (elements.size() != expect.size()) {
        throw Mismatch(std::to_string(elements.size()) + " elements");
      }
      for (size_t i = 0; i < elements.size(); ++i) Compare(expect[i], elements[i]);
      if (test.contains("dtype")) CheckDTypes(elements, DTypeOf(test.at("dtype")));
    }
  });
}

}  // namespace conformance
