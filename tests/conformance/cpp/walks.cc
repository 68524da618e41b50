#include "walks.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace conformance {
namespace {

Iterator Start(const Dataset &dataset) {
  Iterator iterator;
  Check(tutti_iterator_create(dataset.get(), nullptr, nullptr, iterator.out()));
  return iterator;
}

// The next element; none at the end.
Value Next(const Iterator &iterator, const Way &way) {
  Value value;
  if (way.api != "get_next_as_optional") {
    Check(tutti_iterator_next(iterator.get(), nullptr, value.out()));
    return value;
  }
  Check(tutti_iterator_next_optional(iterator.get(), nullptr, value.out()));
  return Value::Share(tutti_value_get_leaf_optional(value.get(), 0));
}

void CheckEndStays(const Iterator &iterator, const Way &way) {
  if (!way.api.empty() && Next(iterator, way)) throw Mismatch("an element behind the end");
}

bool IsEqual(const Json &expected, const Value &found, const Way &way) {
  try {
    Compare(expected, found, way.tolerance, way.dtype);
    return true;
  } catch (const Mismatch &) {
    return false;
  }
}

void CheckMultiset(const Dataset &dataset, const Json &expected, const Way &way) {
  std::vector<Json> left(expected.begin(), expected.end());
  const Iterator iterator = Start(dataset);
  while (const Value element = Next(iterator, way)) {
    const auto match = std::find_if(left.begin(), left.end(), [&](const Json &item) {
      return IsEqual(item, element, way);
    });
    if (match == left.end()) throw Mismatch("not, or not so often, expected: " + ToText(element));
    left.erase(match);
  }
  if (!left.empty()) throw Mismatch("did not come: " + Json(left).dump());
  CheckEndStays(iterator, way);
}

void CheckCall(const Iterator &iterator, const Json &expected, const Way &way) {
  Value element;
  if (FailsAsExpected(expected, [&] { element = Next(iterator, way); })) return;
  if (!element) throw Mismatch("expected " + expected.dump() + ", got the end");
  Compare(expected, element, way.tolerance, way.dtype);
}

// `take`: how many elements are read, else all.
void CheckList(const Dataset &dataset, const Json &expected, const Way &way,
               std::optional<size_t> take = {}) {
  if (take && expected.size() > *take) {
    throw Mismatch(std::to_string(*take) + " elements are taken, expected " + expected.dump());
  }
  const Iterator iterator = Start(dataset);
  for (size_t i = 0; i < expected.size(); ++i) {
    try {
      CheckCall(iterator, expected[i], way);
    } catch (const Mismatch &mismatch) {
      throw Mismatch("element " + std::to_string(i) + ": " + mismatch.what());
    }
  }
  // Nothing is compared behind an error that stands last, nor behind what is taken.
  if (take == expected.size() || (!expected.empty() && IsError(expected.back()))) return;
  if (const Value more = Next(iterator, way)) {
    throw Mismatch("expected the end after " + std::to_string(expected.size()) +
                   " elements, got " + ToText(more));
  }
  CheckEndStays(iterator, way);
}

}  // namespace

Way WayOf(const Json &test) {
  Way way;
  way.api = test.value("api", "");
  if (!way.api.empty() && way.api != "get_next" && way.api != "get_next_as_optional") {
    throw NotCovered("the api " + way.api);
  }
  way.tolerance = test.value("tolerance", 0.0);
  if (test.contains("dtype")) way.dtype = DTypeOf(test.at("dtype"));
  return way;
}

void CheckWalk(const Dataset &dataset, const Json &expected, const Way &way) {
  if (expected.is_array()) return CheckList(dataset, expected, way);
  CheckKeys(expected, {"multiset"});
  CheckMultiset(dataset, expected.at("multiset"), way);
}

void CheckPasses(const Dataset &dataset, const Json &expected, const Way &way) {
  CheckKeys(expected, {"passes", "takes"});
  const Json &passes = expected.at("passes");
  const Json takes = expected.value("takes", Json::array());
  for (size_t i = 0; i < passes.size(); ++i) {
    std::optional<size_t> take;
    if (i < takes.size() && !takes[i].is_null()) take = takes[i].get<size_t>();
    try {
      CheckList(dataset, passes[i], way, take);
    } catch (const Mismatch &mismatch) {
      throw Mismatch("pass " + std::to_string(i) + ", " + mismatch.what());
    }
  }
}

}  // namespace conformance
