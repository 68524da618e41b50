#include "core/debugging/assertion.h"

#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/debugging/assertion_text.h"
#include "core/tensor/cast.h"

namespace tutti {

namespace debugging_internal {

std::string Opening(const char* name, const AssertOptions& options) {
  if (options.message.empty()) return Format("{}: ", name);
  return Format("{}: {}: ", options.message, name);
}

std::string Called(const char* what, const NamedTensor& tensor) {
  return tensor.name.empty() ? std::string(what) : Format("{}{}", what, tensor.name);
}

std::string Shown(const char* what, const NamedTensor& tensor, int64_t summarize) {
  return Format("{} {}: {}", Called(what, tensor), tensor.tensor->SpecString(),
                FirstElementsText(*tensor.tensor, summarize));
}

std::string ShownAll(std::span<const NamedTensor> data, int64_t summarize) {
  std::string text;
  for (const NamedTensor& tensor : data) {
    if (!text.empty()) text += "; ";
    text += Shown("data", tensor, summarize);
  }
  return text;
}

}  // namespace debugging_internal

namespace {

using debugging_internal::Called;
using debugging_internal::Opening;
using debugging_internal::Shown;

const char* SignOf(Comparison comparison) {
  switch (comparison) {
    case Comparison::kEqual: return "x == y";
    case Comparison::kNoneEqual: return "x != y";
    case Comparison::kLess: return "x < y";
    case Comparison::kLessEqual: return "x <= y";
    case Comparison::kGreater: return "x > y";
    case Comparison::kGreaterEqual: return "x >= y";
    case Comparison::kNear: return "|x - y| < atol + rtol * |y|";
  }
  return "?";
}

double DefaultTolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 10 * 0x1p-10;
    case DType::kBfloat16: return 10 * 0x1p-7;
    case DType::kFloat32:
    case DType::kComplex64: return 10 * static_cast<double>(std::numeric_limits<float>::epsilon());
    default: return 10 * std::numeric_limits<double>::epsilon();
  }
}

// A tolerance as float64 that broadcasts to `shape`.
Result<Ref<Tensor>> ToleranceOf(const char* name, const Tensor* given, DType dtype,
                                const Shape& shape, const AssertOptions& options) {
  if (given == nullptr) return Tensor::Scalar<double>(DefaultTolerance(dtype));
  if (!IsNumeric(given->dtype()) || IsComplex(given->dtype())) {
    return InvalidArgument("{}{} is {}; a tolerance is a real number",
                           Opening("assert_near", options), name, given->SpecString())
        .With("dtype", DTypeName(given->dtype()));
  }
  const Result<Shape> joined = BroadcastShape(shape, given->shape());
  if (!joined.ok() || !(joined.value() == shape)) {
    return InvalidArgument("{}{} has shape {}, which does not broadcast to {}, that of x and y",
                           Opening("assert_near", options), name, given->shape().ToString(),
                           shape.ToString());
  }
  return Cast(*given, DType::kFloat64);
}

// Where the tensor lies in memory that the CPU reads.
Status CheckOnCpu(const char* name, const char* what, const NamedTensor& x,
                  const AssertOptions& options) {
  if (x.tensor->device().is_cpu()) return OkStatus();
  return Unimplemented("{}{} lies on {}; copy it to the CPU first", Opening(name, options),
                       Called(what, x), x.tensor->device().ToString());
}

Status WrongDType(const char* name, const char* wanted, const NamedTensor& x,
                  const AssertOptions& options) {
  return InvalidArgument("{}{} is {}; expected {}", Opening(name, options), Called("x", x),
                         x.tensor->SpecString(), wanted)
      .With("dtype", DTypeName(x.tensor->dtype()));
}

Status CheckSign(Condition condition, const NamedTensor& x, const AssertOptions& options) {
  const char* name = AssertionName(condition);
  const DType dtype = x.tensor->dtype();
  const Comparison comparison = condition == Condition::kPositive      ? Comparison::kGreater
                                : condition == Condition::kNegative    ? Comparison::kLess
                                : condition == Condition::kNonPositive ? Comparison::kLessEqual
                                                                       : Comparison::kGreaterEqual;
  if (!ComparisonTakes(comparison, dtype)) {
    return WrongDType(name, "integers or floats, which have a sign", x, options);
  }
  const Ref<Tensor> number = Tensor::Scalar<int8_t>(0);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> zero, Cast(*number, dtype));
  const Shape& shape = x.tensor->shape();
  const int64_t first = FirstUnlike(comparison, *x.tensor, *zero, shape);
  if (first == kNothingFails) return OkStatus();
  std::string sign = SignOf(comparison);
  sign.back() = '0';
  return InvalidArgument("{}{} does not hold at {}, where {} is {}; {}", Opening(name, options),
                         sign, IndexText(shape, first), Called("x", x),
                         ElementText(*x.tensor, shape, first),
                         Shown("x", x, options.summarize))
      .With("index", first);
}

Status CheckFinite(Condition condition, const NamedTensor& x, const AssertOptions& options) {
  const char* name = AssertionName(condition);
  const DType dtype = x.tensor->dtype();
  if (!IsFloating(dtype) && !IsComplex(dtype)) {
    if (condition == Condition::kNumerics) {
      return WrongDType(name, "float16, bfloat16, float32, float64, complex64 or complex128", x,
                        options);
    }
    if (dtype == DType::kBytes) return WrongDType(name, "numbers", x, options);
    return OkStatus();
  }
  const int64_t first = FirstNotFinite(*x.tensor);
  if (first == kNothingFails) return OkStatus();
  const Shape& shape = x.tensor->shape();
  const NumericsCounts counts = CountNotFinite(*x.tensor);
  return InvalidArgument(
             "{}{} is not finite: the first of {} NaN, {} +Inf and {} -Inf among {} elements is {} "
             "at {}; {}",
             Opening(name, options), Called("x", x), counts.nan, counts.positive_infinity,
             counts.negative_infinity, shape.num_elements(),
             ElementText(*x.tensor, shape, first), IndexText(shape, first),
             Shown("x", x, options.summarize))
      .With("index", first)
      .With("nan", counts.nan)
      .With("positive_infinity", counts.positive_infinity)
      .With("negative_infinity", counts.negative_infinity);
}

}  // namespace

const char* AssertionName(Comparison comparison) {
  switch (comparison) {
    case Comparison::kEqual: return "assert_equal";
    case Comparison::kNoneEqual: return "assert_none_equal";
    case Comparison::kLess: return "assert_less";
    case Comparison::kLessEqual: return "assert_less_equal";
    case Comparison::kGreater: return "assert_greater";
    case Comparison::kGreaterEqual: return "assert_greater_equal";
    case Comparison::kNear: return "assert_near";
  }
  return "assert";
}

const char* AssertionName(Condition condition) {
  switch (condition) {
    case Condition::kPositive: return "assert_positive";
    case Condition::kNegative: return "assert_negative";
    case Condition::kNonPositive: return "assert_non_positive";
    case Condition::kNonNegative: return "assert_non_negative";
    case Condition::kAllFinite: return "assert_all_finite";
    case Condition::kNumerics: return "check_numerics";
    case Condition::kInteger: return "assert_integer";
    case Condition::kScalar: return "assert_scalar";
  }
  return "assert";
}

const char* AssertionName(RankRelation relation) {
  switch (relation) {
    case RankRelation::kEqual: return "assert_rank";
    case RankRelation::kAtLeast: return "assert_rank_at_least";
    case RankRelation::kIn: return "assert_rank_in";
  }
  return "assert_rank";
}

Status AssertCompare(Comparison comparison, const NamedTensor& x, const NamedTensor& y,
                     const Tolerances& tolerances, const AssertOptions& options) {
  const char* name = AssertionName(comparison);
  const DType dtype = x.tensor->dtype();
  TUTTI_RETURN_IF_ERROR(CheckOnCpu(name, "x", x, options));
  TUTTI_RETURN_IF_ERROR(CheckOnCpu(name, "y", y, options));
  if (dtype != y.tensor->dtype()) {
    return InvalidArgument("{}{} is {} and {} is {}; expected one dtype, cast one of them",
                           Opening(name, options), Called("x", x), x.tensor->SpecString(),
                           Called("y", y), y.tensor->SpecString())
        .With("expected_dtype", DTypeName(dtype))
        .With("found_dtype", DTypeName(y.tensor->dtype()));
  }
  if (!ComparisonTakes(comparison, dtype)) {
    return WrongDType(name,
                      comparison == Comparison::kNear ? "floats or complex numbers"
                                                      : "integers or floats, which have an order",
                      x, options);
  }
  Result<Shape> broadcast = BroadcastShape(x.tensor->shape(), y.tensor->shape());
  if (!broadcast.ok()) return broadcast.status().WithPrefix(Opening(name, options) + "the shapes");
  const Shape& shape = broadcast.value();
  int64_t first;
  std::string tolerance;
  if (comparison == Comparison::kNear) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> rtol,
                           ToleranceOf("rtol", tolerances.rtol, dtype, shape, options));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> atol,
                           ToleranceOf("atol", tolerances.atol, dtype, shape, options));
    first = FirstFar(*x.tensor, *y.tensor, *rtol, *atol, shape);
    if (first != kNothingFails) {
      tolerance = Format(", with rtol {} and atol {}", ElementText(*rtol, shape, first),
                         ElementText(*atol, shape, first));
    }
  } else {
    first = FirstUnlike(comparison, *x.tensor, *y.tensor, shape);
  }
  if (first == kNothingFails) return OkStatus();
  return InvalidArgument("{}{} does not hold at {}, where {} is {} and {} is {}{}; {}, {}",
                         Opening(name, options), SignOf(comparison), IndexText(shape, first),
                         Called("x", x), ElementText(*x.tensor, shape, first), Called("y", y),
                         ElementText(*y.tensor, shape, first), tolerance,
                         Shown("x", x, options.summarize), Shown("y", y, options.summarize))
      .With("index", first);
}

Status AssertCondition(Condition condition, const NamedTensor& x, const AssertOptions& options) {
  const char* name = AssertionName(condition);
  if (condition == Condition::kInteger) {
    if (IsInteger(x.tensor->dtype())) return OkStatus();
    return WrongDType(name, "an integer dtype", x, options);
  }
  if (condition == Condition::kScalar) {
    if (x.tensor->rank() == 0) return OkStatus();
    return InvalidArgument("{}{} is {}, of rank {}; expected a scalar, of rank 0",
                           Opening(name, options), Called("x", x), x.tensor->SpecString(),
                           x.tensor->rank());
  }
  TUTTI_RETURN_IF_ERROR(CheckOnCpu(name, "x", x, options));
  if (condition == Condition::kAllFinite || condition == Condition::kNumerics) {
    return CheckFinite(condition, x, options);
  }
  return CheckSign(condition, x, options);
}

Status AssertTrue(const NamedTensor& condition, std::span<const NamedTensor> data,
                  const AssertOptions& options) {
  if (condition.tensor->dtype() != DType::kBool) {
    return InvalidArgument("{}{} is {}; expected booleans", Opening("Assert", options),
                           Called("the condition", condition), condition.tensor->SpecString())
        .With("dtype", DTypeName(condition.tensor->dtype()));
  }
  TUTTI_RETURN_IF_ERROR(CheckOnCpu("Assert", "the condition", condition, options));
  const Ref<Tensor> yes = Tensor::Scalar<bool>(true);
  const Shape& shape = condition.tensor->shape();
  const int64_t first = FirstUnlike(Comparison::kEqual, *condition.tensor, *yes, shape);
  if (first == kNothingFails) return OkStatus();
  const std::string place =
      shape.is_scalar() ? std::string() : Format(" at {}", IndexText(shape, first));
  const std::string shown = debugging_internal::ShownAll(data, options.summarize);
  return InvalidArgument("{}{} is false{}{}{}", Opening("Assert", options),
                         Called("the condition", condition), place, shown.empty() ? "" : "; ",
                         shown)
      .With("index", first);
}

}  // namespace tutti
