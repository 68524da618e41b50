// The cases of debugging.json and debugging_own.json.
#include <map>
#include <string>
#include <vector>

#include "cases.h"
#include "datasets.h"
#include "strategies.h"

namespace conformance {
namespace {

const std::map<std::string, tutti_comparison> kComparisons = {
    {"equal", TUTTI_COMPARISON_EQUAL},     {"none_equal", TUTTI_COMPARISON_NONE_EQUAL},
    {"less", TUTTI_COMPARISON_LESS},       {"less_equal", TUTTI_COMPARISON_LESS_EQUAL},
    {"greater", TUTTI_COMPARISON_GREATER}, {"greater_equal", TUTTI_COMPARISON_GREATER_EQUAL},
    {"near", TUTTI_COMPARISON_NEAR}};
const std::map<std::string, tutti_condition> kConditions = {
    {"positive", TUTTI_CONDITION_POSITIVE},
    {"negative", TUTTI_CONDITION_NEGATIVE},
    {"non_positive", TUTTI_CONDITION_NON_POSITIVE},
    {"non_negative", TUTTI_CONDITION_NON_NEGATIVE},
    {"all_finite", TUTTI_CONDITION_ALL_FINITE},
    {"check_numerics", TUTTI_CONDITION_NUMERICS},
    {"integer", TUTTI_CONDITION_INTEGER},
    {"scalar", TUTTI_CONDITION_SCALAR}};

Tensor ZerosOf(tutti_dtype dtype, const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return TensorOf(dtype, dims, std::vector<double>(static_cast<size_t>(count)));
}

std::string SpecText(const Json &spec) {
  std::string text;
  for (const Json &axis : spec) {
    if (!text.empty()) text += ',';
    text += axis.is_null() ? "." : axis.is_string() ? axis.get<std::string>() : axis.dump();
  }
  return text;
}

void AssertShapes(const Json &shapes) {
  std::vector<Value> values;
  std::vector<const tutti_value *> tensors;
  std::vector<std::string> texts;
  std::vector<const char *> specs;
  for (const Json &pair : shapes) {
    values.push_back(
        ValueOf(ZerosOf(TUTTI_DTYPE_FLOAT32, pair.at(0).get<std::vector<int64_t>>())));
    texts.push_back(SpecText(pair.at(1)));
  }
  for (const Value &value : values) tensors.push_back(value.get());
  for (const std::string &text : texts) specs.push_back(text.c_str());
  Value all;
  Check(tutti_value_create_tuple(tensors.size(), tensors.data(), all.out()));
  Check(tutti_debugging_assert_shapes(all.get(), specs.size(), specs.data(), nullptr, nullptr));
}

// x is the rows of a dataset, which pass through a native function.
void AssertRows(const std::string &name, const Json &test) {
  constexpr tutti_assertion kFirstCondition = 16;
  const tutti_assertion assertion = kComparisons.count(name) != 0
                                        ? kComparisons.at(name)
                                        : kFirstCondition + kConditions.at(name);
  Value y;
  if (test.contains("y")) y = ValueOf(test.at("y"));
  Function check;
  Check(tutti_function_create_assertion(CurrentRuntime(), assertion,
                                        test.contains("y") ? TensorIn(y) : nullptr, 0, nullptr,
                                        nullptr, check.out()));
  Dataset dataset;
  Check(tutti_dataset_create_from_tensor_slices(CurrentRuntime(), ValueOf(test.at("x")).get(),
                                                nullptr, dataset.out()));
  Check(tutti_dataset_map(dataset.out(), check.get(), nullptr));
  const size_t rows = Elements(dataset).size();
  if (rows != test.at("rows")) throw Mismatch("there are " + std::to_string(rows) + " rows");
}

void Assert(const Json &test) {
  const std::string name = test.at("assert");
  if (name == "shapes") {
    CheckKeys(test, {"name", "assert", "shapes", "ok", "error", "message_names"});
    return AssertShapes(test.at("shapes"));
  }
  CheckKeys(test, {"name", "assert", "rows", "x", "y", "ok", "error", "message_names"});
  if (test.contains("rows")) return AssertRows(name, test);
  const Value x = ValueOf(test.at("x"));
  if (kComparisons.count(name) != 0) {
    const Value y = ValueOf(test.at("y"));
    Check(tutti_debugging_assert_compare(kComparisons.at(name), x.get(), y.get(), nullptr));
  } else if (kConditions.count(name) != 0) {
    Check(tutti_debugging_assert_condition(kConditions.at(name), x.get(), nullptr));
  } else {
    throw NotCovered("assert " + name);
  }
}

}  // namespace

void RunDebuggingCase(const Json &test) {
  if (test.contains("is_numeric")) {
    CheckKeys(test, {"name", "is_numeric", "expect"});
    const std::string dtype = test.at("is_numeric");
    const Value tensor = dtype == "bytes" ? ValueOf(Json{{"bytes", "text"}})
                                          : ValueOf(ZerosOf(DTypeOf(dtype), {1}));
    const bool found = tutti_debugging_is_numeric(tensor.get()) != 0;
    if (found != test.at("expect")) throw Mismatch("is_numeric is " + std::to_string(found));
    return;
  }
  if (test.at("ok").get<bool>()) return Assert(test);
  Json expected = {{"error", test.value("error", "INVALID_ARGUMENT")}};
  if (test.contains("message_names")) expected["message_names"] = test.at("message_names");
  FailsAsExpected(expected, [&] { Assert(test); });
}

}  // namespace conformance
