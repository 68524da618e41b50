#include "core/tensor/partial_fold.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/tensor/float_mode.h"
#include "core/tensor/half_convert.h"

namespace tutti {
namespace {

// Elements that are converted at a time: they stay in the first cache.
constexpr int64_t kFoldedAtOnce = 1024;

// Integers whose mean is a number.
template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

template <typename T>
void Divide(T* values, int64_t n, int64_t count) {
  for (int64_t i = 0; i < n; ++i) values[i] = values[i] / static_cast<T>(count);
}

// Sums of floats, complex ones as twice as many.
void DivideFloats(DType dtype, void* values, int64_t n, int64_t count) {
  switch (dtype) {
    case DType::kFloat32: return Divide(static_cast<float*>(values), n, count);
    case DType::kFloat64: return Divide(static_cast<double*>(values), n, count);
    case DType::kComplex64: return Divide(static_cast<float*>(values), 2 * n, count);
    default: return Divide(static_cast<double*>(values), 2 * n, count);
  }
}

// Calls visit(a T) for the integers.
template <typename Visit>
void VisitInteger(DType dtype, Visit visit) {
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsInteger<T>) visit(T());
  });
}
template <typename Visit>
void VisitHalf(DType dtype, Visit visit) {
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T>) visit(T());
  });
}

// The exact sum of integers.
template <typename T>
using Exact = std::conditional_t<sizeof(T) < 8, int64_t, __int128>;

}  // namespace

PartialFold::PartialFold(ReduceOp op, DType dtype)
    : dtype_(dtype),
      is_mean_(op == ReduceOp::kMean),
      op_(is_mean_ ? ReduceOp::kSum : op),
      // The smaller or larger of two numbers is one of them, whatever it is compared as.
      kind_(IsHalf(dtype) && (op_ == ReduceOp::kSum || op_ == ReduceOp::kProd) ? Kind::kFloat
            : is_mean_ && IsInteger(dtype) ? (ItemSize(dtype) < 8 ? Kind::kInt64 : Kind::kInt128)
                                           : Kind::kOwn),
      growth_(kind_ == Kind::kOwn     ? 1
              : kind_ == Kind::kInt64 ? 8 / static_cast<int64_t>(ItemSize(dtype))
                                      : 2) {}

void PartialFold::Begin(const void* input, int64_t n, void* partial) const {
  const DefaultFloatMode mode;
  if (n == 0) return;
  switch (kind_) {
    case Kind::kOwn:
      std::memcpy(partial, input, static_cast<size_t>(n) * ItemSize(dtype_));
      return;
    case Kind::kFloat:
      return VisitHalf(dtype_, [&](auto zero) {
        ConvertToFloat(static_cast<const decltype(zero)*>(input), static_cast<float*>(partial), n);
      });
    case Kind::kInt64:
    case Kind::kInt128:
      return VisitInteger(dtype_, [&](auto zero) {
        using T = decltype(zero);
        auto* sums = static_cast<Exact<T>*>(partial);
        for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<const T*>(input)[i];
      });
  }
}

Status PartialFold::Add(const void* input, int64_t n, void* partial) const {
  const DefaultFloatMode mode;
  Status status;
  switch (kind_) {
    case Kind::kOwn: {
      const void* const operands[] = {partial, input};
      return ReduceInto(op_, dtype_, operands, n, partial);
    }
    case Kind::kFloat:
      VisitHalf(dtype_, [&](auto zero) {
        float block[kFoldedAtOnce];
        for (int64_t i = 0; i < n && status.ok(); i += kFoldedAtOnce) {
          const int64_t size = std::min(kFoldedAtOnce, n - i);
          ConvertToFloat(static_cast<const decltype(zero)*>(input) + i, block, size);
          float* const so_far = static_cast<float*>(partial) + i;
          const void* const operands[] = {so_far, block};
          status = ReduceInto(op_, DType::kFloat32, operands, size, so_far);
        }
      });
      return status;
    case Kind::kInt64:
    case Kind::kInt128:
      VisitInteger(dtype_, [&](auto zero) {
        using T = decltype(zero);
        auto* sums = static_cast<Exact<T>*>(partial);
        for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<const T*>(input)[i];
      });
  }
  return status;
}

Status PartialFold::Finish(const void* partial, const void* input, int64_t count, int64_t n,
                           void* out) const {
  const DefaultFloatMode mode;
  Status status;
  switch (kind_) {
    case Kind::kOwn: {
      const void* const operands[] = {partial, input};
      status = ReduceInto(op_, dtype_, operands, n, out);
      if (is_mean_ && n != 0) DivideFloats(dtype_, out, n, count);
      return status;
    }
    case Kind::kFloat:
      VisitHalf(dtype_, [&](auto zero) {
        using T = decltype(zero);
        float block[kFoldedAtOnce];
        for (int64_t i = 0; i < n && status.ok(); i += kFoldedAtOnce) {
          const int64_t size = std::min(kFoldedAtOnce, n - i);
          ConvertToFloat(static_cast<const T*>(input) + i, block, size);
          const void* const operands[] = {static_cast<const float*>(partial) + i, block};
          status = ReduceInto(op_, DType::kFloat32, operands, size, block);
          if (is_mean_) Divide(block, size, count);
          ConvertFromFloat(block, static_cast<T*>(out) + i, size);
        }
      });
      return status;
    case Kind::kInt64:
    case Kind::kInt128:
      VisitInteger(dtype_, [&](auto zero) {
        using T = decltype(zero);
        const auto* sums = static_cast<const Exact<T>*>(partial);
        for (int64_t i = 0; i < n; ++i) {
          const Exact<T> sum = sums[i] + static_cast<const T*>(input)[i];
          // 128-bit division is slow.
          const bool is_small = sum == static_cast<int64_t>(sum);
          static_cast<T*>(out)[i] =
              static_cast<T>(is_small ? static_cast<int64_t>(sum) / count : sum / count);
        }
      });
  }
  return status;
}

}  // namespace tutti
