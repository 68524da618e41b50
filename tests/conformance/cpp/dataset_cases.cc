// The cases of dataset.json.
#include <algorithm>
#include <map>
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

// The leaves of {"shape": [...], "dtype": D} and structures of it, in the order of the library,
// which sorts the keys of a dict; null is an unknown dimension or, as the shape, an unknown rank.
// Gives the JSON of a value of the same structure.
Json AddLeaves(const Json &expected, std::vector<Spec> *leaves) {
  if (expected.contains("t")) {
    Json parts = Json::array();
    for (const Json &part : expected.at("t")) parts.push_back(AddLeaves(part, leaves));
    return Json{{"t", parts}};
  }
  if (expected.contains("d")) {
    Json parts = Json::object();
    for (const auto &[key, part] : expected.at("d").get<std::map<std::string, Json>>()) {
      parts[key] = AddLeaves(part, leaves);
    }
    return Json{{"d", parts}};
  }
  CheckKeys(expected, {"shape", "dtype"});
  std::vector<int64_t> dims;
  for (const Json &size : expected.at("shape")) {
    dims.push_back(size.is_null() ? TUTTI_UNKNOWN_DIMENSION : size.get<int64_t>());
  }
  const int64_t rank =
      expected.at("shape").is_null() ? TUTTI_UNKNOWN_RANK : static_cast<int64_t>(dims.size());
  leaves->emplace_back();
  Check(tutti_spec_create_tensor(DTypeOf(expected.at("dtype")), rank, dims.data(),
                                 leaves->back().out()));
  return 0;
}

void CompareSpec(const Json &expected, const Spec &found) {
  std::vector<Spec> leaves;
  const Value structure = ValueOf(AddLeaves(expected, &leaves));
  std::vector<const tutti_spec *> handles;
  for (const Spec &leaf : leaves) handles.push_back(leaf.get());
  Spec like, wanted;
  Check(tutti_spec_create_from_value(structure.get(), like.out()));
  Check(tutti_spec_create_from_leaves(tutti_spec_get_treespec(like.get()), handles.size(),
                                      handles.data(), wanted.out()));
  if (tutti_spec_equal(wanted.get(), found.get())) return;
  Bytes text;
  Check(tutti_spec_to_string(found.get(), text.out()));
  throw Mismatch("expected " + expected.dump() + ", got " + tutti_bytes_get_view(text.get()).data);
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
    CompareSpec(expect, ElementSpecOf(BuildDataset(tree.at("input"))));
  }
}

}  // namespace

void RunDatasetCase(const Json &test) {
  CheckKeys(test, {"name", "dataset", "expect", "dtype", "iterate", "terminal", "tolerance"});
  const Json &tree = test.at("dataset"), &expect = test.at("expect");
  if (test.value("terminal", false)) return RunTerminal(tree, expect);
  if (expect.is_object() && !expect.contains("error")) return CheckProperties(tree, expect);
  const tutti_dtype dtype =
      test.contains("dtype") ? DTypeOf(test.at("dtype")) : TUTTI_DTYPE_INVALID;
  FailsAsExpected(expect, [&] {
    const Dataset dataset = BuildDataset(tree);
    for (int walk = 0; walk < test.value("iterate", 1); ++walk) {
      const std::vector<Value> elements = Elements(dataset);
      if (expect.is_object()) continue;
      if (elements.size() != expect.size()) {
        throw Mismatch(std::to_string(elements.size()) + " elements");
      }
      for (size_t i = 0; i < elements.size(); ++i) {
        Compare(expect[i], elements[i], test.value("tolerance", 0.0), dtype);
      }
    }
  });
}

}  // namespace conformance
