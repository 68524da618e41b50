// The cases of dataset.json, dataset_ops.json and dataset_own.json.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "case_folder.h"
#include "cases.h"
#include "data_options.h"
#include "datasets.h"
#include "functions.h"
#include "specs.h"
#include "walks.h"

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

// Whether a shuffle with a buffer of this size may give these numbers: value v stands nowhere
// before position v - size + 1.
bool StaysIn(size_t size, const std::vector<double> &numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (static_cast<double>(i + size) < numbers[i] + 1) return false;
  }
  return true;
}

// An `expect` that names properties of the elements.
void CheckProperties(const Json &tree, const Json &expect) {
  CheckKeys(expect, {"permutation_of", "buffer", "not_identity", "two_equal_halves",
                     "two_different_permutations", "two_permutations_of", "same_when_built_again"});
  const std::vector<double> all = NumbersOf(Elements(BuildDataset(tree)));
  const auto middle = all.begin() + static_cast<int64_t>(all.size() / 2);
  const std::vector<double> first(all.begin(), middle), second(middle, all.end());
  if (expect.contains("permutation_of")) {
    const std::vector<double> original = Original(expect.at("permutation_of"));
    CheckThat(Sorted(all) == original, "permutation_of");
    CheckThat(!expect.value("not_identity", false) || all != original, "not_identity");
    CheckThat(StaysIn(expect.value("buffer", all.size()), all), "buffer");
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

void CompareSpec(const Json &expected, const Spec &found) {
  if (tutti_spec_equal(DescribedSpec(expected).get(), found.get())) return;
  Bytes text;
  Check(tutti_spec_to_string(found.get(), text.out()));
  throw Mismatch("expected " + expected.dump() + ", got " + tutti_bytes_get_view(text.get()).data);
}

void CheckCardinality(const Dataset &dataset, const Json &expected) {
  const int64_t found = tutti_dataset_get_cardinality(dataset.get());
  const int64_t wanted = expected == "INFINITE"  ? TUTTI_CARDINALITY_INFINITE
                         : expected == "UNKNOWN" ? TUTTI_CARDINALITY_UNKNOWN
                                                 : expected.get<int64_t>();
  if (found != wanted) throw Mismatch("the cardinality is " + std::to_string(found));
}

// What the dataset has, or what the first options are once the second are merged into them.
void RunOptions(const Json &tree, const Json &expect) {
  DataOptions found;
  if (tree.at("op") == "options") {
    CheckKeys(tree, {"op", "input", "names"});
    Check(tutti_dataset_options(BuildDataset(tree.at("input")).get(), found.out()));
  } else {
    CheckKeys(tree, {"op", "first", "second", "names"});
    Check(tutti_data_options_merge(OptionsOf(tree.at("first")).get(),
                                   OptionsOf(tree.at("second")).get(), found.out()));
  }
  CompareOptions(tree.at("names"), expect, found);
}

void RunReduce(const Json &test, const Json &tree, const Json &expect) {
  CheckKeys(tree, {"op", "input", "initial", "fn"});
  const Dataset dataset = BuildDataset(tree.at("input"));
  const Value initial = ValueOf(tree.at("initial"));
  const Function function = Reducer(tree.at("fn"), initial, ElementSpecOf(dataset));
  Value state;
  Check(tutti_dataset_reduce(dataset.get(), initial.get(), function.get(), nullptr, state.out()));
  if (IsError(expect)) return;
  Compare(expect, state, test.value("tolerance", 0.0),
          test.contains("dtype") ? DTypeOf(test.at("dtype")) : TUTTI_DTYPE_INVALID);
}

Spec IteratorSpecOf(const Json &element) {
  Spec spec;
  Check(tutti_spec_create_iterator(DescribedSpec(element).get(), spec.out()));
  return spec;
}

// Two specs of iterators: whether they are compatible, or the spec that values of both fit.
void RunIteratorSpecs(const Json &tree, const Json &expect) {
  CheckKeys(tree, {"op", "spec", "with"});
  const Spec left = IteratorSpecOf(tree.at("spec")), right = IteratorSpecOf(tree.at("with"));
  if (tree.at("op") == "iterator_spec_is_compatible") {
    const bool found = tutti_spec_is_compatible(left.get(), right.get()) != 0;
    if (found != expect.get<bool>()) throw Mismatch(found ? "compatible" : "not compatible");
    return;
  }
  Spec common;
  Check(tutti_spec_most_specific(left.get(), right.get(), common.out()));
  if (IsError(expect)) return;
  CompareSpec(expect, Spec::Share(tutti_spec_get_leaf_inner(common.get(), 0)));
}

// A variant is a scalar, one leaf, which fits the spec of a dataset of any elements and is the
// dataset again.
void RunVariant(const Json &tree, const Json &expect) {
  CheckKeys(tree, {"op", "input"});
  CheckKeys(expect, {"shape", "dtype"});
  CheckThat(expect.at("shape").empty() && expect.at("dtype") == "variant", "a variant is that");
  const Dataset dataset = BuildDataset(tree.at("input"));
  Value variant;
  Spec any, found;
  Dataset back;
  Check(tutti_value_create_dataset(dataset.get(), variant.out()));
  Check(tutti_spec_create_dataset(nullptr, any.out()));
  Check(tutti_spec_create_from_value(variant.get(), found.out()));
  CheckThat(tutti_spec_is_compatible(any.get(), found.get()) != 0, "a variant fits its spec");
  CheckThat(tutti_spec_get_leaf_rank(found.get(), 0) == 0, "a variant is a scalar");
  Check(tutti_dataset_create_from_variant(variant.get(), ElementSpecOf(dataset).get(), nullptr,
                                          back.out()));
  CheckThat(NumbersOf(Elements(back)) == NumbersOf(Elements(dataset)), "it comes back");
}

void RunTerminal(const Json &test, const Json &tree, const Json &expect) {
  const std::string op = tree.at("op");
  if (op == "options" || op == "merge_options") return RunOptions(tree, expect);
  if (op == "reduce") return RunReduce(test, tree, expect);
  if (op == "iterator_spec_is_compatible" || op == "iterator_spec_most_specific") {
    return RunIteratorSpecs(tree, expect);
  }
  if (op == "to_variant") return RunVariant(tree, expect);
  if (op != "cardinality" && op != "element_spec" && op != "iterator_element_spec") {
    throw NotCovered("the op " + op);
  }
  CheckKeys(tree, {"op", "input"});
  const Dataset dataset = BuildDataset(tree.at("input"));
  if (op == "cardinality") {
    if (!IsError(expect)) CheckCardinality(dataset, expect);
  } else if (op == "iterator_element_spec") {
    Iterator iterator;
    Check(tutti_iterator_create(dataset.get(), nullptr, nullptr, iterator.out()));
    const Spec found = Spec::Share(tutti_iterator_get_element_spec(iterator.get()));
    if (!IsError(expect)) CompareSpec(expect, found);
  } else {
    const Spec found = ElementSpecOf(dataset);
    if (!IsError(expect)) CompareSpec(expect, found);
  }
}

// Whether `expect` says what one walk gives, which may be repeated.
bool IsWalk(const Json &expect) {
  return expect.is_array() || expect.contains("multiset") || IsError(expect);
}

// What `expect` says decides which fields the case may have besides.
void CheckFields(const Json &test) {
  const Json &expect = test.at("expect");
  if (test.value("terminal", false)) {
    CheckKeys(test, {"name", "before", "dataset", "expect", "terminal", "dtype", "tolerance"});
  } else if (IsWalk(expect)) {
    CheckKeys(test, {"name", "before", "dataset", "expect", "cardinality", "dtype", "tolerance",
                     "api", "iterate"});
  } else if (expect.contains("passes")) {
    CheckKeys(test,
              {"name", "before", "dataset", "expect", "cardinality", "dtype", "tolerance", "api"});
  } else {
    CheckKeys(test, {"name", "before", "dataset", "expect", "cardinality"});
  }
}

void RunWalks(const Json &test, const Json &tree, const Json &expect) {
  const Way way = WayOf(test);
  const Dataset dataset = BuildDataset(tree);
  if (test.contains("cardinality")) CheckCardinality(dataset, test.at("cardinality"));
  if (IsWalk(expect)) {
    for (int walk = 0; walk < test.value("iterate", 1); ++walk) {
      if (IsError(expect)) {
        Elements(dataset);
      } else {
        CheckWalk(dataset, expect, way);
      }
    }
  } else if (expect.contains("passes")) {
    CheckPasses(dataset, expect, way);
  } else {
    CheckProperties(tree, expect);
  }
}

}  // namespace

void RunDatasetCase(const Json &test) {
  CheckFields(test);
  const Json &expect = test.at("expect");
  CaseFolder folder;
  const Json tree = folder.WithPaths(test.at("dataset"));
  for (const Json &earlier : folder.WithPaths(test.value("before", Json::array()))) {
    Elements(BuildDataset(earlier));
  }
  FailsAsExpected(expect, [&] {
    if (test.value("terminal", false)) {
      RunTerminal(test, tree, expect);
    } else {
      RunWalks(test, tree, expect);
    }
  });
}

}  // namespace conformance
