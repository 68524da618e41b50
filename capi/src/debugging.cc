// Assertions about values.
#include <tutti/debugging.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/asserted_values.h"
#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "capi/src/tensor_arguments.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/placement_log.h"
#include "core/debugging/assertion.h"
#include "core/debugging/assertion_function.h"
#include "core/debugging/dump_reader.h"
#include "core/function/function.h"
#include "core/runtime/dumps.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/variable.h"
#include "core/tensor/tensor_observer.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

constexpr int64_t kShownByDefault = 3;

template <class Options>
AssertOptions OptionsOf(const Options &set) {
  AssertOptions options;
  options.message = TextOr(set.message, "");
  options.summarize = set.summarize == 0 ? kShownByDefault : set.summarize;
  return options;
}

// A reference of our own to what is only read.
Ref<Tensor> KeptTensor(const tutti_tensor *tensor) {
  return Ref<Tensor>::Retain(const_cast<Tensor *>(FromHandle(tensor)));
}

template <class Enum>
Result<Enum> ReadNumber(Call call, int32_t number, Enum last, const char *name) {
  if (number >= 1 && number <= static_cast<int32_t>(last)) return static_cast<Enum>(number);
  return InvalidArgument("{}: {} is {}; expected 1 to {}", call.function, name, number,
                         static_cast<int32_t>(last));
}

Status CheckAny(Call call, const std::vector<NamedTensor> &tensors, const char *what) {
  if (!tensors.empty()) return OkStatus();
  return InvalidArgument("{}: {} holds no tensor", call.function, what).With("structure", "none");
}

// What an assertion says: where workers take part in a run it is the error of all of them.
Status Asserted(const char *name, Status status) {
  return status.ok() ? std::move(status) : std::move(status).With("assertion", name);
}

// assertion(tensor) of every tensor in x.
template <class Assertion>
Status OfEach(Call call, const tutti_value *x, Assertion &&assertion) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<NamedTensor> tensors,
                         AssertedTensors(call, *FromHandle(x), "x"));
  TUTTI_RETURN_IF_ERROR(CheckAny(call, tensors, "x"));
  for (const NamedTensor &tensor : tensors) TUTTI_RETURN_IF_ERROR(assertion(tensor));
  return OkStatus();
}

Result<std::vector<NamedTensor>> DataOf(Call call, const tutti_value *data) {
  if (data == nullptr) return std::vector<NamedTensor>();
  return AssertedTensors(call, *FromHandle(data), "data");
}

}  // namespace

tutti_status *tutti_debugging_assert_compare(tutti_comparison comparison, const tutti_value *x,
                                             const tutti_value *y,
                                             const tutti_compare_options *options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, x, y);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const auto kind,
                           ReadNumber(call, comparison, Comparison::kNear, "comparison"));
    TUTTI_RETURN_IF_ERROR(CheckGivenOnHost(call, "rtol", set.rtol));
    TUTTI_RETURN_IF_ERROR(CheckGivenOnHost(call, "atol", set.atol));
    const Tolerances tolerances{FromHandle(set.rtol), FromHandle(set.atol)};
    TUTTI_ASSIGN_OR_RETURN(const std::vector<AssertedPair> pairs,
                           AssertedPairs(call, *FromHandle(x), *FromHandle(y)));
    for (const AssertedPair &pair : pairs) {
      TUTTI_RETURN_IF_ERROR(Asserted(
          AssertionName(kind), AssertCompare(kind, pair.x, pair.y, tolerances, OptionsOf(set))));
    }
    return OkStatus();
  });
}

tutti_status *tutti_debugging_assert_condition(tutti_condition condition, const tutti_value *x,
                                               const tutti_assert_options *options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, x);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const auto kind,
                           ReadNumber(call, condition, Condition::kScalar, "condition"));
    return OfEach(call, x, [&](const NamedTensor &tensor) {
      return Asserted(AssertionName(kind), AssertCondition(kind, tensor, OptionsOf(set)));
    });
  });
}

tutti_status *tutti_debugging_assert_rank(tutti_rank_relation relation, const tutti_value *x,
                                          size_t count, const int64_t *ranks,
                                          const tutti_assert_options *options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, x);
    TUTTI_REQUIRE_ARRAY(call, count, ranks);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const auto kind,
                           ReadNumber(call, relation, RankRelation::kIn, "relation"));
    return OfEach(call, x, [&](const NamedTensor &tensor) {
      return Asserted(AssertionName(kind),
                      AssertRank(kind, tensor, std::span(ranks, count), OptionsOf(set)));
    });
  });
}

tutti_status *tutti_debugging_assert_type(const tutti_value *x, tutti_dtype dtype,
                                          const tutti_assert_options *options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, x);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const DType wanted, ReadDType(call, dtype));
    return OfEach(call, x, [&](const NamedTensor &tensor) {
      return Asserted("assert_type", AssertType(tensor, wanted, OptionsOf(set)));
    });
  });
}

tutti_status *tutti_debugging_assert_same_float_dtype(const tutti_value *x, tutti_dtype dtype,
                                                      tutti_dtype *out_dtype) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_dtype);
    std::optional<DType> wanted;
    if (dtype != TUTTI_DTYPE_INVALID) {
      TUTTI_ASSIGN_OR_RETURN(wanted, ReadDType(call, dtype));
    }
    std::vector<NamedTensor> tensors;
    if (x != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(tensors, AssertedTensors(call, *FromHandle(x), "x"));
    }
    TUTTI_ASSIGN_OR_RETURN(const DType common, AssertSameFloatDType(tensors, wanted));
    *out_dtype = static_cast<tutti_dtype>(common);
    return OkStatus();
  });
}

tutti_status *tutti_debugging_assert_shapes(const tutti_value *x, size_t count,
                                            const char *const *shapes, const tutti_value *data,
                                            const tutti_assert_options *options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, x);
    TUTTI_REQUIRE_ARRAY(call, count, shapes);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    const Value &value = *FromHandle(x);
    if (value.is_leaf() || value.num_children() != count) {
      return InvalidArgument("{}: x is {} and there are {} shapes; expected a list of as many",
                             call.function, value.spec().ToString(), count);
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<NamedTensor> shown, DataOf(call, data));
    // Of one replica after the other.
    size_t num_replicas = 1;
    std::vector<AssertedLeaf> leaves;
    for (size_t i = 0; i < count; ++i) {
      TUTTI_REQUIRE(call, shapes[i]);
      TUTTI_ASSIGN_OR_RETURN(std::vector<AssertedLeaf> each,
                             AssertedLeaves(call, *value.Child(i), "x"));
      if (each.size() != 1 || each[0].tensors.empty()) {
        return InvalidArgument("{}: child {} of x is {}; expected a tensor", call.function, i,
                               value.Child(i)->spec().ToString())
            .With("structure", "child");
      }
      num_replicas = std::max(num_replicas, each[0].tensors.size());
      leaves.push_back(std::move(each[0]));
    }
    for (size_t replica = 0; replica < num_replicas; ++replica) {
      std::vector<ShapeConstraint> constraints;
      for (size_t i = 0; i < count; ++i) {
        const std::vector<NamedTensor> &tensors = leaves[i].tensors;
        constraints.push_back({tensors[std::min(replica, tensors.size() - 1)], shapes[i]});
      }
      TUTTI_RETURN_IF_ERROR(
          Asserted("assert_shapes", AssertShapes(constraints, shown, OptionsOf(set))));
    }
    return OkStatus();
  });
}

tutti_status *tutti_debugging_assert_true(const tutti_value *x, const tutti_value *data,
                                          const tutti_assert_options *options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, x);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const std::vector<NamedTensor> shown, DataOf(call, data));
    return OfEach(call, x, [&](const NamedTensor &condition) {
      return Asserted("Assert", AssertTrue(condition, shown, OptionsOf(set)));
    });
  });
}

tutti_status *tutti_function_create_assertion(tutti_runtime *runtime, tutti_assertion assertion,
                                              const tutti_tensor *y, size_t count,
                                              const int64_t *ranks,
                                              const tutti_assertion_options *options,
                                              tutti_function **out_function) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_function);
    TUTTI_REQUIRE_ARRAY(call, count, ranks);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_RETURN_IF_ERROR(UseRuntime(call, runtime).status());
    AssertionFunctionSpec spec;
    spec.assertion = static_cast<RowAssertion>(assertion);
    spec.path = TextOr(set.path, "");
    spec.y_path = TextOr(set.y_path, "");
    spec.y = KeptTensor(y);
    spec.rtol = KeptTensor(set.rtol);
    spec.atol = KeptTensor(set.atol);
    spec.ranks.assign(ranks, ranks + count);
    spec.dtype = static_cast<DType>(set.dtype);
    spec.shapes = TextOr(set.shapes, "");
    const AssertOptions shown = OptionsOf(set);
    spec.message = shown.message;
    spec.summarize = shown.summarize;
    TUTTI_ASSIGN_OR_RETURN(auto function, MakeAssertionFunction(std::move(spec)));
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

tutti_status *tutti_debugging_enable_check_numerics(
    const tutti_check_numerics_options *options) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const bool whole_process,
                           ReadTristate(call, set.whole_process, false, "whole_process"));
    if (whole_process) {
      SetProcessChecked(true);
    } else {
      SetThreadChecked(true);
    }
    return OkStatus();
  });
}

void tutti_debugging_disable_check_numerics(void) {
  SetThreadChecked(false);
  SetProcessChecked(false);
}

int32_t tutti_debugging_is_checking_numerics(void) { return NumericsAreChecked(); }

tutti_status *tutti_debugging_enable_dump(const char *dump_root,
                                          const tutti_dump_options *options,
                                          int64_t *out_writer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dump_root, out_writer);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    DumpOptions dump;
    dump.root = dump_root;
    if (set.mode != 0) {
      TUTTI_ASSIGN_OR_RETURN(dump.mode, ReadNumber(call, set.mode, DebugMode::kShape, "mode"));
    }
    dump.circular_buffer_size =
        ReadOptional(set.circular_buffer_size).value_or(dump.circular_buffer_size);
    dump.op_regex = TextOr(set.op_regex, "");
    dump.dtypes = set.dtypes;
    if (dump.root.empty()) return InvalidArgument("{}: dump_root is empty", call.function);
    TUTTI_ASSIGN_OR_RETURN(*out_writer, EnableDump(dump));
    return OkStatus();
  });
}

tutti_status *tutti_debugging_flush_execution_files(int64_t writer) {
  return Guard(__func__, From::kBuilding, [&](Call) { return FlushDump(writer, true); });
}

tutti_status *tutti_debugging_flush_non_execution_files(int64_t writer) {
  return Guard(__func__, From::kBuilding, [&](Call) { return FlushDump(writer, false); });
}

void tutti_debugging_disable_dump(void) { DisableDump(); }

tutti_status *tutti_debugging_read_dumps(const char *directory, tutti_bytes **out_json) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, directory, out_json);
    TUTTI_ASSIGN_OR_RETURN(std::string json, ReadDumps(RealDisk(), directory));
    *out_json = GiveBytes(std::move(json));
    return OkStatus();
  });
}

void tutti_debugging_set_log_device_placement(int32_t enabled) {
  SetPlacementsLogged(enabled != 0);
}

int32_t tutti_debugging_is_logging_device_placement(void) { return PlacementsAreLogged(); }

int32_t tutti_debugging_is_numeric(const tutti_value *x) {
  if (x == nullptr || !FromHandle(x)->is_leaf()) return 0;
  const Leaf *leaf = &FromHandle(x)->leaf();
  if (const DistributedValue *distributed = AsDistributed(*leaf)) {
    if (distributed->num_components() == 0) return 0;
    leaf = &distributed->component(0).leaf();
  }
  if (leaf->kind() == LeafKind::kVariable) return IsNumeric(leaf->object_as<Variable>()->dtype());
  return leaf->is_tensor() && IsNumericTensor(leaf->tensor());
}
