// Assertions about tensors: what holds gives OK, what does not an error that says where.
//
//   AssertOptions options;
//   options.message = "after the first layer";
//   AssertCompare(Comparison::kLess, {"", x}, {"", y}, {}, options)
//     -> INVALID_ARGUMENT "after the first layer: assert_less: x < y does not hold at [2], where x
//        is 3 and y is 1; x float32[3]: [0 0 3], y float32[]: [1]"
//
// Errors are INVALID_ARGUMENT, with details `index` (in row-major order, of the broadcast elements)
// where it is about an element, and `dtype` where it is about a dtype. The assertions that look at
// elements pass for tensors without any. Threads: any; nothing is kept.
#ifndef TUTTI_CORE_DEBUGGING_ASSERTION_H_
#define TUTTI_CORE_DEBUGGING_ASSERTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/debugging/first_failure.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace tutti {

// A tensor and where it comes from, for messages: `["loss"] of replica 1`, or nothing.
struct NamedTensor {
  std::string name;
  Ref<Tensor> tensor;
};

struct AssertOptions {
  std::string_view message;  // of the user's, in front of ours
  int64_t summarize = 3;     // elements of each tensor that are shown; negative: all
};

// Conditions on the elements of one tensor, on its dtype or its shape. The same numbers as
// TUTTI_CONDITION_*.
enum class Condition : int32_t {
  kPositive = 1,
  kNegative = 2,
  kNonPositive = 3,
  kNonNegative = 4,
  kAllFinite = 5,   // integers and booleans are
  kNumerics = 6,    // check_numerics: the same of floating and complex dtypes only
  kInteger = 7,     // the dtype is an integer's
  kScalar = 8,      // the rank is 0
};

// How a tensor's rank relates to the given ones. The same numbers as TUTTI_RANK_*.
enum class RankRelation : int32_t { kEqual = 1, kAtLeast = 2, kIn = 3 };

// "assert_less", "assert_positive", "check_numerics", "assert_rank_in"; static.
const char* AssertionName(Comparison comparison);
const char* AssertionName(Condition condition);
const char* AssertionName(RankRelation relation);

// The tolerances of NEAR: numbers of any dtype but bytes, broadcast as y is; null: 10 times the
// distance from 1 to the next larger number of the dtype.
struct Tolerances {
  const Tensor* rtol = nullptr;
  const Tensor* atol = nullptr;
};

// x and y, of one dtype and broadcast against each other, compare so at every element.
Status AssertCompare(Comparison comparison, const NamedTensor& x, const NamedTensor& y,
                     const Tolerances& tolerances, const AssertOptions& options);
Status AssertCondition(Condition condition, const NamedTensor& x, const AssertOptions& options);
// `ranks` has one number, or of kIn any number of them.
Status AssertRank(RankRelation relation, const NamedTensor& x, std::span<const int64_t> ranks,
                  const AssertOptions& options);
Status AssertType(const NamedTensor& x, DType dtype, const AssertOptions& options);
// The dtype of all `tensors`, which must be floating and, where it is given, `dtype`; float32 where
// neither is given.
Result<DType> AssertSameFloatDType(std::span<const NamedTensor> tensors,
                                   std::optional<DType> dtype);
// Every element of `condition`, which is bool, is true; else `data` is shown.
Status AssertTrue(const NamedTensor& condition, std::span<const NamedTensor> data,
                  const AssertOptions& options);

// ---- shapes

// What a shape must be, as text: axes by commas, each a number, a symbol that stands for the same
// size wherever it is, or "." for any size; first of them "..." or "*" for any number of axes. An
// empty text is one axis of size 1, as which a scalar counts, too.
struct ShapeConstraint {
  NamedTensor tensor;
  std::string shape;
};
// `data`, where there is some, is shown in place of the tensor that does not fit.
Status AssertShapes(std::span<const ShapeConstraint> constraints,
                    std::span<const NamedTensor> data, const AssertOptions& options);

// Whether the elements are numbers: neither booleans nor byte strings.
inline bool IsNumericTensor(const Tensor& tensor) { return IsNumeric(tensor.dtype()); }

}  // namespace tutti

#endif  // TUTTI_CORE_DEBUGGING_ASSERTION_H_
