// Assertions about ranks, dtypes and shapes: what is known of tensors without their elements.
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/debugging/assertion.h"
#include "core/debugging/assertion_text.h"

namespace tutti {

namespace {

using debugging_internal::Called;
using debugging_internal::Opening;
using debugging_internal::Shown;
using debugging_internal::ShownAll;

// A shape's text in parts.
struct ParsedShape {
  bool any_outer = false;
  std::vector<std::string> axes;
};

Result<ParsedShape> ParseShape(std::string_view text, size_t number) {
  ParsedShape parsed;
  if (Trim(text).empty()) {
    parsed.axes.push_back("1");
    return parsed;
  }
  const std::vector<std::string> parts = Split(text, ',');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string axis(Trim(parts[i]));
    if (axis == "..." || axis == "*") {
      if (i != 0) {
        return InvalidArgument(
            "shape {} is \"{}\": {} stands for any number of outer axes and comes first", number,
            text, Quote(axis));
      }
      parsed.any_outer = true;
      continue;
    }
    const std::optional<int64_t> size = ParseInt64(axis);
    if (axis.empty() || (size.has_value() && *size < 0)) {
      return InvalidArgument(
          "shape {} is \"{}\": axis {} is {}; expected a size of 0 or more, a symbol, or \".\" for "
          "any size",
          number, text, i, Quote(axis));
    }
    parsed.axes.push_back(axis);
  }
  return parsed;
}

// Where a symbol got its size.
struct Binding {
  int64_t size;
  size_t tensor;
  size_t axis;
};

// A walk over all constraints.
class ShapeCheck {
 public:
  ShapeCheck(std::span<const ShapeConstraint> constraints, std::span<const NamedTensor> data,
             const AssertOptions& options)
      : constraints_(constraints), data_(data), options_(options) {}

  Status Check() {
    for (size_t i = 0; i < constraints_.size(); ++i) {
      Result<ParsedShape> parsed = ParseShape(constraints_[i].shape, i);
      if (!parsed.ok()) {
        return InvalidArgument("{}{}", Opening("assert_shapes", options_),
                               parsed.status().message());
      }
      TUTTI_RETURN_IF_ERROR(CheckOne(i, parsed.value()));
    }
    return OkStatus();
  }

 private:
  Status CheckOne(size_t i, const ParsedShape& wanted) {
    const Tensor& tensor = *constraints_[i].tensor.tensor;
    const Shape shape = tensor.rank() == 0 ? Shape({1}) : tensor.shape();
    const size_t known = wanted.axes.size();
    if (shape.rank() < known || (shape.rank() > known && !wanted.any_outer)) {
      return Fail(i, Format("has rank {}; expected {}{}", tensor.rank(),
                            wanted.any_outer ? "at least " : "", known));
    }
    for (size_t k = 0; k < known; ++k) {
      const size_t axis = shape.rank() - known + k;
      TUTTI_RETURN_IF_ERROR(CheckAxis(i, axis, shape.dim(axis), wanted.axes[k]));
    }
    return OkStatus();
  }

  Status CheckAxis(size_t i, size_t axis, int64_t size, const std::string& wanted) {
    if (wanted == ".") return OkStatus();
    if (const std::optional<int64_t> number = ParseInt64(wanted)) {
      if (*number == size) return OkStatus();
      return Fail(i, Format("has size {} along axis {}; expected {}", size, axis, *number));
    }
    const auto [bound, is_new] = bindings_.try_emplace(wanted, Binding{size, i, axis});
    if (is_new || bound->second.size == size) return OkStatus();
    return Fail(i, Format("has size {} along axis {}, {}; it is {} along axis {} of tensor {}",
                          size, axis, Quote(wanted), bound->second.size, bound->second.axis,
                          bound->second.tensor));
  }

  Status Fail(size_t i, const std::string& reason) const {
    const NamedTensor& tensor = constraints_[i].tensor;
    const std::string what = Format("tensor {}", i);
    const std::string shown = data_.empty() ? Shown(what.c_str(), tensor, options_.summarize)
                                            : ShownAll(data_, options_.summarize);
    return InvalidArgument("{}{} of shape {} does not fit ({}): it {}; {}",
                           Opening("assert_shapes", options_), Called(what.c_str(), tensor),
                           tensor.tensor->shape().ToString(), constraints_[i].shape, reason, shown)
        .With("tensor", static_cast<int64_t>(i));
  }

  const std::span<const ShapeConstraint> constraints_;
  const std::span<const NamedTensor> data_;
  const AssertOptions& options_;
  std::map<std::string, Binding> bindings_;
};

}  // namespace

Status AssertRank(RankRelation relation, const NamedTensor& x, std::span<const int64_t> ranks,
                  const AssertOptions& options) {
  const char* name = AssertionName(relation);
  if (relation != RankRelation::kIn && ranks.size() != 1) {
    return InvalidArgument("{}expected one rank, found {}", Opening(name, options), ranks.size());
  }
  const auto rank = static_cast<int64_t>(x.tensor->rank());
  bool holds = false;
  for (const int64_t wanted : ranks) {
    if (wanted < 0) {
      return InvalidArgument("{}a rank is {}; expected 0 or more", Opening(name, options), wanted);
    }
    holds = holds || (relation == RankRelation::kAtLeast ? rank >= wanted : rank == wanted);
  }
  if (holds) return OkStatus();
  std::string expected = JoinAll(ranks, ", ");
  if (relation == RankRelation::kAtLeast) expected += " or more";
  if (relation == RankRelation::kIn) expected = "one of " + expected;
  return InvalidArgument("{}{} is {}, of rank {}; expected rank {}", Opening(name, options),
                         Called("x", x), x.tensor->SpecString(), rank, expected)
      .With("rank", rank);
}

Status AssertType(const NamedTensor& x, DType dtype, const AssertOptions& options) {
  if (x.tensor->dtype() == dtype) return OkStatus();
  return InvalidArgument("{}{} is {}; expected dtype {}", Opening("assert_type", options),
                         Called("the tensor", x), x.tensor->SpecString(), DTypeName(dtype))
      .With("expected_dtype", DTypeName(dtype))
      .With("found_dtype", DTypeName(x.tensor->dtype()));
}

Result<DType> AssertSameFloatDType(std::span<const NamedTensor> tensors,
                                   std::optional<DType> dtype) {
  constexpr const char* kName = "assert_same_float_dtype";
  std::string first = "the dtype that was given";
  for (size_t i = 0; i < tensors.size(); ++i) {
    const DType found = tensors[i].tensor->dtype();
    if (!dtype.has_value()) {
      dtype = found;
      first = Called("the first tensor", tensors[i]);
    }
    if (found != *dtype) {
      return InvalidArgument("{}: tensor {} is {}; expected {}, as {} is", kName,
                             tensors[i].name.empty() ? Format("{}", i) : tensors[i].name,
                             tensors[i].tensor->SpecString(), DTypeName(*dtype), first);
    }
  }
  const DType common = dtype.value_or(DType::kFloat32);
  if (!IsFloating(common)) {
    return InvalidArgument("{}: {} is {}; expected float16, bfloat16, float32 or float64", kName,
                           first, DTypeName(common));
  }
  return common;
}

Status AssertShapes(std::span<const ShapeConstraint> constraints,
                    std::span<const NamedTensor> data, const AssertOptions& options) {
  return ShapeCheck(constraints, data, options).Check();
}

}  // namespace tutti
