// Element by element: conversions between all dtypes but bytes, multiplication by a number, and
// counting what is not finite. The rules are those of the CPU (core/tensor/cast.h, arithmetic.h).
#include "core/cuda/kernels/launch.h"
#include "core/cuda/kernels/number.h"
#include "core/cuda/kernels/portable.h"

namespace tutti::cuda {
namespace {

template <class T, class U>
inline constexpr bool kSame = false;
template <class T>
inline constexpr bool kSame<T, T> = true;
template <class T>
inline constexpr bool kHalf = kSame<T, F16> || kSame<T, Bf16>;
template <class T>
inline constexpr bool kComplex = kSame<T, C64> || kSame<T, C128>;
template <class T>
inline constexpr bool kFloat = kSame<T, float> || kSame<T, double>;

// The float next to `value` towards zero, its last bit set when that is not exact.
TUTTI_DEVICE float RoundToOdd(double value) {
  const float nearest = Narrow(value);
  if (value != value || static_cast<double>(nearest) == value) return nearest;
  uint32_t bits = BitsAs<uint32_t>(nearest);
  const double magnitude = value < 0 ? -value : value;
  const double rounded = nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest);
  if (rounded > magnitude) --bits;
  return BitsAs<float>(bits | 1u);
}

// A 64-bit integer as a double whose lost bits, if any, are folded into one odd bit.
template <class T>
TUTTI_DEVICE double ToDoubleOdd(T value) {
  constexpr T kLost = 0x7ff;
  bool fits = value == static_cast<T>(value & ~kLost) || value < (static_cast<T>(1) << 53);
  if constexpr (NumberOf<T>::kSigned) {
    fits = value == static_cast<T>(value & ~kLost) ||
           (value < (static_cast<T>(1) << 53) && value > -(static_cast<T>(1) << 53));
  }
  return static_cast<double>(fits ? value : static_cast<T>((value & ~kLost) | (kLost + 1)));
}

// out[i] = convert(in[i]), a few at a time: their loads come before the first store.
template <class From, class To, class Function>
TUTTI_DEVICE void ForEach(const void* from, void* to, uint64_t n, Function convert) {
  constexpr int kAtOnce = 4;
  const From* in = Memory<From>(from);
  To* out = Memory<To>(to);
  const uint64_t step = AllThreads();
  uint64_t i = GlobalThread();
  for (; i + (kAtOnce - 1) * step < n; i += kAtOnce * step) {
    From items[kAtOnce];
    TUTTI_UNROLL
    for (int j = 0; j < kAtOnce; ++j) items[j] = in[i + j * step];
    TUTTI_UNROLL
    for (int j = 0; j < kAtOnce; ++j) out[i + j * step] = convert(items[j]);
  }
  for (; i < n; i += step) out[i] = convert(in[i]);
}

// What is then rounded to 16 bits, so that this second rounding alone counts.
template <class From>
TUTTI_DEVICE float ToFloatForHalf(From value) {
  if constexpr (kSame<From, Bool>) {
    return value.byte != 0 ? 1.0f : 0.0f;
  } else if constexpr (kComplex<From>) {
    return ToFloatForHalf(value.real);
  } else if constexpr (kHalf<From>) {
    return ToFloat(value);
  } else if constexpr (kSame<From, double>) {
    return RoundToOdd(value);
  } else if constexpr (kSame<From, float>) {
    return value;
  } else if constexpr (sizeof(From) == 8) {
    return RoundToOdd(ToDoubleOdd(value));
  } else if constexpr (sizeof(From) == 4) {
    return RoundToOdd(static_cast<double>(value));
  } else {
    return static_cast<float>(value);
  }
}

template <class To, class From>
TUTTI_DEVICE To Convert(From value) {
  if constexpr (kSame<To, From>) {
    return value;
  } else if constexpr (kSame<To, F16>) {
    return ToF16(ToFloatForHalf(value));
  } else if constexpr (kSame<To, Bf16>) {
    return ToBf16(ToFloatForHalf(value));
  } else if constexpr (kHalf<From>) {
    return Convert<To>(ToFloat(value));
  } else if constexpr (kSame<From, Bool>) {
    return Convert<To>(static_cast<uint8_t>(value.byte != 0));
  } else if constexpr (kComplex<From>) {
    if constexpr (kSame<To, Bool>) {
      return Bool{static_cast<uint8_t>(value.real != 0 || value.imag != 0)};
    } else if constexpr (kComplex<To>) {
      using Part = decltype(To::real);
      return To{Convert<Part>(value.real), Convert<Part>(value.imag)};
    } else {
      return Convert<To>(value.real);
    }
  } else if constexpr (kComplex<To>) {
    return To{Convert<decltype(To::real)>(value), 0};
  } else if constexpr (kSame<To, Bool>) {
    return Bool{static_cast<uint8_t>(value != From{0})};
  } else if constexpr (kSame<To, float> && kSame<From, double>) {
    return Narrow(value);
  } else if constexpr (kSame<To, double> && kSame<From, float>) {
    return Widen(value);
  } else if constexpr (kFloat<From>) {
    return Truncated<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
TUTTI_DEVICE void CastTo(const CastParams& p) {
  ForEach<From, To>(p.in, p.out, p.n, [](From item) { return Convert<To>(item); });
}

template <class From>
TUTTI_DEVICE void Cast(const CastParams& p) {
  switch (p.to) {
    case 1: CastTo<From, Bool>(p); break;
    case 2: CastTo<From, int8_t>(p); break;
    case 3: CastTo<From, int16_t>(p); break;
    case 4: CastTo<From, int32_t>(p); break;
    case 5: CastTo<From, int64_t>(p); break;
    case 6: CastTo<From, uint8_t>(p); break;
    case 7: CastTo<From, uint16_t>(p); break;
    case 8: CastTo<From, uint32_t>(p); break;
    case 9: CastTo<From, uint64_t>(p); break;
    case 10: CastTo<From, F16>(p); break;
    case 11: CastTo<From, Bf16>(p); break;
    case 12: CastTo<From, float>(p); break;
    case 13: CastTo<From, double>(p); break;
    case 14: CastTo<From, C64>(p); break;
    case 15: CastTo<From, C128>(p); break;
    default: break;  // the host has checked it
  }
}

template <class T>
TUTTI_DEVICE void Scale(const ScaleParams& p) {
  const double factor = p.factor;
  ForEach<T, T>(p.in, p.out, p.n, [factor](T item) {
    if constexpr (kHalf<T>) {
      return Convert<T>(Mul(ToFloat(item), Narrow(factor)));
    } else if constexpr (kSame<T, float>) {
      return Mul(item, Narrow(factor));
    } else if constexpr (kSame<T, double>) {
      return Mul(item, factor);
    } else {
      return Truncated<T>(static_cast<double>(item) * factor);
    }
  });
}

template <class Bits>
TUTTI_DEVICE void Check(const CheckParams& p, Bits infinity) {
  const Bits* in = Memory<Bits>(p.in);
  const Bits magnitude = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  uint64_t nans = 0, infinities = 0;
  const auto count = [&](Bits item) {
    const Bits bits = static_cast<Bits>(item & magnitude);
    nans += bits > infinity;
    infinities += bits == infinity;
  };
  constexpr int kAtOnce = 8;
  const uint64_t step = AllThreads();
  uint64_t i = GlobalThread();
  for (; i + (kAtOnce - 1) * step < p.n; i += kAtOnce * step) {
    Bits items[kAtOnce];
    TUTTI_UNROLL
    for (int j = 0; j < kAtOnce; ++j) items[j] = in[i + j * step];
    TUTTI_UNROLL
    for (int j = 0; j < kAtOnce; ++j) count(items[j]);
  }
  for (; i < p.n; i += step) count(in[i]);
  uint64_t* const counts = Memory<uint64_t>(static_cast<void*>(p.counts));
  if (nans != 0) AddAtomically(counts, nans);
  if (infinities != 0) AddAtomically(counts + 1, infinities);
}

}  // namespace
}  // namespace tutti::cuda

#define TUTTI_CAST(name, T) \
  TUTTI_KERNEL(tutti_cast_##name, tutti::cuda::CastParams) { tutti::cuda::Cast<T>(p); }
#define TUTTI_SCALE(name, T) \
  TUTTI_KERNEL(tutti_scale_##name, tutti::cuda::ScaleParams) { tutti::cuda::Scale<T>(p); }
#define TUTTI_NUMBER(name, T) TUTTI_CAST(name, T) TUTTI_SCALE(name, T)

TUTTI_CAST(bool, tutti::cuda::Bool)
TUTTI_NUMBER(i8, int8_t)
TUTTI_NUMBER(i16, int16_t)
TUTTI_NUMBER(i32, int32_t)
TUTTI_NUMBER(i64, int64_t)
TUTTI_NUMBER(u8, uint8_t)
TUTTI_NUMBER(u16, uint16_t)
TUTTI_NUMBER(u32, uint32_t)
TUTTI_NUMBER(u64, uint64_t)
TUTTI_NUMBER(f16, tutti::cuda::F16)
TUTTI_NUMBER(bf16, tutti::cuda::Bf16)
TUTTI_NUMBER(f32, float)
TUTTI_NUMBER(f64, double)
TUTTI_CAST(c64, tutti::cuda::C64)
TUTTI_CAST(c128, tutti::cuda::C128)

#define TUTTI_CHECK(name, Bits, infinity) \
  TUTTI_KERNEL(tutti_check_##name, tutti::cuda::CheckParams) { \
    tutti::cuda::Check<Bits>(p, infinity); \
  }
TUTTI_CHECK(f16, uint16_t, 0x7c00)
TUTTI_CHECK(bf16, uint16_t, 0x7f80)
TUTTI_CHECK(f32, uint32_t, 0x7f800000u)
TUTTI_CHECK(f64, uint64_t, 0x7ff0000000000000u)
