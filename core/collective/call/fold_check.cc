#include "core/collective/call/fold_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/observed_names.h"
#include "core/tensor/half.h"
#include "core/tensor/not_finite.h"

namespace tutti {

namespace {

const char* NotFiniteText(DType dtype, const void* element) {
  NumericsCounts counts;
  CountNotFiniteElements(dtype, element, 1, 1, &counts);
  return counts.nan > 0 ? "NaN" : counts.positive_infinity > 0 ? "+Inf" : "-Inf";
}

std::string IndexOf(const TensorSignature& signature, int64_t position) {
  std::string text;
  for (size_t axis = signature.dims.size(); axis-- > 0;) {
    text = Format("{}{}{}", position % signature.dims[axis], text.empty() ? "" : ",", text);
    position /= signature.dims[axis];
  }
  return "[" + text + "]";
}

// A number's magnitude; of a complex one the larger of its parts'.
double MagnitudeOf(DType dtype, const void* element) {
  double magnitude = 0;
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T& x = *static_cast<const T*>(element);
    if constexpr (kIsComplex<T>) {
      magnitude = std::max(std::abs(double{x.real}), std::abs(double{x.imag}));
    } else if constexpr (kIsHalf<T>) {
      magnitude = std::abs(ToFloat(x));
    } else if constexpr (std::is_floating_point_v<T>) {
      magnitude = std::abs(x);
    }
  });
  return magnitude;
}

// Whether a finite number of `rank` could have become, with finite ones of the others, the element
// at byte `at` of the result, which is not finite. That takes a sum that a large number may round
// to infinity with, or factors that make it larger; and a NaN takes an infinity first, either way.
bool CouldOverflow(ReduceOp op, DType dtype, std::span<const void* const> inputs, int64_t rank,
                   int64_t at) {
  double sum = 0;
  double product = 1;
  for (size_t r = 0; r < inputs.size(); ++r) {
    if (static_cast<int64_t>(r) == rank) continue;
    const double x = MagnitudeOf(dtype, static_cast<const char*>(inputs[r]) + at);
    sum += x;
    product *= dtype == DType::kComplex64 || dtype == DType::kComplex128 ? 2 * x : x;
  }
  if (op == ReduceOp::kProd) return product > 1;
  // Much less than half a unit in the last place of the largest number; 16-bit floats are summed as
  // float32.
  double limit = std::numeric_limits<float>::max() * 1e-9;
  if (dtype == DType::kFloat16) limit = 8;
  if (dtype == DType::kBfloat16) limit = std::numeric_limits<float>::max() * 1e-4;
  if (dtype == DType::kFloat64 || dtype == DType::kComplex128) {
    limit = std::numeric_limits<double>::max() * 1e-18;
  }
  return sum > limit;
}

}  // namespace

bool NotFiniteShows(const CallHeader& header) {
  return header.reduction == ReduceOp::kSum || header.reduction == ReduceOp::kMean ||
         header.reduction == ReduceOp::kProd;
}

Status CheckFolded(const CollectiveCall& call, int64_t rank, const CallLabel& label,
                   const FoldedPiece& piece, std::span<const void* const> inputs) {
  const TensorSignature& signature = call.header.tensor(piece.tensor);
  const DType dtype = signature.dtype;
  if (FirstNotFiniteElement(dtype, piece.result, 1, piece.count) < 0) [[likely]] return OkStatus();
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  const void* const own = inputs[static_cast<size_t>(rank)];
  const bool overwritten = own == piece.result;
  int64_t whose = 0;
  const auto ranks = static_cast<int64_t>(inputs.size());
  const auto is_finite = [&](int64_t r) {
    return (overwritten && r == rank) ||
           FirstNotFiniteElement(dtype, inputs[static_cast<size_t>(r)], 1, piece.count) < 0;
  };
  while (whose < ranks && is_finite(whose)) ++whose;
  if (whose == ranks && overwritten) {
    const int64_t first = FirstNotFiniteElement(dtype, own, 1, piece.count);
    if (!CouldOverflow(call.header.reduction, dtype, inputs, rank, first * item)) whose = rank;
  }
  const bool brought = whose < ranks;
  const void* const data = brought ? inputs[static_cast<size_t>(whose)] : piece.result;
  const int64_t at = FirstNotFiniteElement(dtype, data, 1, piece.count);
  NumericsCounts counts;
  CountNotFiniteElements(dtype, data, 1, piece.count, &counts);
  const std::string name =
      NameObserved(brought       ? "the input"
                   : overwritten ? "the result in place, where others brought what is finite,"
                                 : "the result of finite inputs",
                   piece.tensor, call.header.num_tensors);
  const char* const op = CollectiveOpName(call.header.op);
  const int64_t named = label.NameOf(static_cast<size_t>(brought ? whose : rank));
  return WithCallDetails(
      InvalidArgument("rank {}: {} #{}: {}: {}, {}, is not finite: the first of {} NaN, {} +Inf "
                      "and {} -Inf among the elements from {} up to {} is {} at {}; rank {} found "
                      "it as it folded these",
                      named, op, label.sequence, op, name, signature.ToString(), counts.nan,
                      counts.positive_infinity, counts.negative_infinity,
                      IndexOf(signature, piece.first),
                      IndexOf(signature, piece.first + piece.count - 1),
                      NotFiniteText(dtype, static_cast<const char*>(data) + at * item),
                      IndexOf(signature, piece.first + at),
                      label.NameOf(static_cast<size_t>(rank)))
          .With("op", op)
          .With("assertion", "check_numerics")
          .With("index", piece.first + at)
          .With("nan", counts.nan)
          .With("positive_infinity", counts.positive_infinity)
          .With("negative_infinity", counts.negative_infinity),
      named, call.header.op, label);
}

}  // namespace tutti
