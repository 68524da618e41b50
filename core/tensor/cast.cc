// Conversions between all dtypes but bytes. 16-bit floats pass through float: exactly when they are
// the source, and rounded to odd when they are the target of a wider type, so that the second
// rounding is the only one that counts.
#include "core/tensor/cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/error.h"
#include "core/tensor/copy.h"
#include "core/tensor/half.h"
#include "core/tensor/half_convert.h"
#include "core/tensor/simd.h"

namespace tutti {
namespace {

// A bool as it lies in memory. Everything but 0 counts as true; to read more than 0 and 1 as bool
// would be undefined.
struct BoolByte {
  uint8_t byte;
};

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, BoolByte, T>;

template <class To, class From>
TUTTI_ALWAYS_INLINE To FloatToInteger(From value) {
  // Both bounds are powers of two (or 0), so they are exact in From.
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From kHigh = static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1)) * 2;
  if (value != value) return 0;
  if (value <= kLow) return std::numeric_limits<To>::min();
  if (value >= kHigh) return std::numeric_limits<To>::max();
  return static_cast<To>(value);
}

template <class To, class From>
TUTTI_ALWAYS_INLINE To ConvertItem(From value) {
  if constexpr (std::is_same_v<From, BoolByte>) {
    return ConvertItem<To>(static_cast<uint8_t>(value.byte != 0));
  } else if constexpr (kIsComplex<From>) {
    if constexpr (std::is_same_v<To, bool>) {
      return value.real != 0 || value.imag != 0;
    } else if constexpr (kIsComplex<To>) {
      return To{static_cast<decltype(To::real)>(value.real),
                static_cast<decltype(To::imag)>(value.imag)};
    } else {
      return ConvertItem<To>(value.real);
    }
  } else if constexpr (kIsComplex<To>) {
    return To{static_cast<decltype(To::real)>(value), 0};
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return FloatToInteger<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// The float next to `value` towards zero, its last bit set when that is not exact.
float RoundToOdd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// A 64-bit integer as a double whose lost bits, if any, are folded into one odd bit.
template <class Integer>
double ToDoubleOdd(Integer value) {
  constexpr Integer kLost = 0x7ff;  // 53 bits remain
  const bool fits = value == static_cast<Integer>(value & ~kLost) ||
                    (value < (Integer{1} << 53) && (!std::is_signed_v<Integer> ||
                                                    value > -(static_cast<Integer>(1) << 53)));
  return static_cast<double>(fits ? value : static_cast<Integer>((value & ~kLost) | (kLost + 1)));
}

template <class From>
float ToFloatForHalf(From value) {
  if constexpr (std::is_same_v<From, BoolByte>) {
    return value.byte != 0 ? 1.0f : 0.0f;
  } else if constexpr (kIsComplex<From>) {
    return ToFloatForHalf(value.real);
  } else if constexpr (std::is_same_v<From, double>) {
    return RoundToOdd(value);
  } else if constexpr (std::is_integral_v<From> && sizeof(From) == 8) {
    return RoundToOdd(ToDoubleOdd(value));
  } else if constexpr (std::is_integral_v<From> && sizeof(From) == 4) {
    return RoundToOdd(static_cast<double>(value));
  } else {
    return static_cast<float>(value);
  }
}

template <class From, class To>
struct CastKernel {
  static TUTTI_ALWAYS_INLINE void Run(const From* source, To* destination, int64_t n) {
    constexpr int kBlock = 32;
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
      To block[kBlock];
      for (int j = 0; j < kBlock; ++j) block[j] = ConvertItem<To>(source[i + j]);
      for (int j = 0; j < kBlock; ++j) destination[i + j] = block[j];
    }
    for (; i < n; ++i) destination[i] = ConvertItem<To>(source[i]);
  }
};

constexpr int64_t kCastAtOnce = 512;

template <class From, class To>
void CastTyped(const From* source, To* destination, int64_t n) {
  if constexpr (kIsHalf<From> || kIsHalf<To>) {
    float block[kCastAtOnce];
    for (int64_t i = 0; i < n; i += kCastAtOnce) {
      const int64_t size = std::min(kCastAtOnce, n - i);
      if constexpr (kIsHalf<From>) {
        ConvertToFloat(source + i, block, size);
      } else {
        for (int64_t j = 0; j < size; ++j) block[j] = ToFloatForHalf(source[i + j]);
      }
      if constexpr (kIsHalf<To>) {
        ConvertFromFloat(block, destination + i, size);
      } else {
        CastTyped<float, To>(block, destination + i, size);
      }
    }
  } else {
    tensor_internal::RunBest<CastKernel<From, To>>(source, destination, n);
  }
}

}  // namespace

void CastElements(DType from, const void* source, DType to, void* destination, int64_t n) {
  if (n == 0) return;
  if (from == to) {
    std::memcpy(destination, source, static_cast<size_t>(n) * ItemSize(from));
    return;
  }
  VisitDType(from, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    if constexpr (!std::is_same_v<From, BytesView>) {
      VisitDType(to, [&](auto to_tag) {
        using To = typename decltype(to_tag)::type;
        if constexpr (!std::is_same_v<To, BytesView> && !std::is_same_v<To, From>) {
          CastTyped(static_cast<const Stored<From>*>(source), static_cast<To*>(destination), n);
        }
      });
    }
  });
}

Result<Ref<Tensor>> Cast(const Tensor& tensor, DType to, const TensorOptions& options) {
  if (!IsValid(to)) return InvalidArgument("cast: {} is no dtype", static_cast<int32_t>(to));
  if (tensor.dtype() == to) return tensor.Copy(options);
  if (tensor.dtype() == DType::kBytes || to == DType::kBytes) {
    return InvalidArgument("cast: {} to {}: byte strings are not converted", tensor.SpecString(),
                           DTypeName(to));
  }
  TensorOptions unzeroed = options;
  unzeroed.zeroed = false;
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense, tensor.Contiguous());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(to, tensor.shape(), unzeroed));
  CastElements(tensor.dtype(), dense->data(), to, out->mutable_data(), tensor.num_elements());
  return out;
}

}  // namespace tutti
