// Sums, means, products and extremes of k inputs, in the order of the inputs. A thread takes 16
// bytes of every input, four inputs at a time, so that four loads are on their way before the first
// is used; what is left over, and memory that is not aligned, goes element by element. It adds as the
// machine does; an element that comes out as NaN is folded once more, with the NaNs of the CPU.
#include "core/cuda/kernels/launch.h"
#include "core/cuda/kernels/number.h"
#include "core/cuda/kernels/portable.h"

namespace tutti::cuda {
namespace {

// What a T is accumulated in.
template <class T>
struct Accumulated {
  using Type = T;
  static TUTTI_DEVICE T From(T value) { return value; }
  static TUTTI_DEVICE T Plain(T value) { return value; }
  static TUTTI_DEVICE T Back(T value) { return value; }
};
template <>
struct Accumulated<F16> {
  using Type = float;
  static TUTTI_DEVICE float From(F16 value) { return ToFloat(value); }
  static TUTTI_DEVICE float Plain(F16 value) { return PlainToFloat(value); }
  static TUTTI_DEVICE F16 Back(float value) { return ToF16(value); }
};
template <>
struct Accumulated<Bf16> {
  using Type = float;
  static TUTTI_DEVICE float From(Bf16 value) { return ToFloat(value); }
  static TUTTI_DEVICE float Plain(Bf16 value) { return ToFloat(value); }
  static TUTTI_DEVICE Bf16 Back(float value) { return ToBf16(value); }
};
// What a number consists of.
template <class T>
struct Parts {
  using Type = T;
};
template <>
struct Parts<C64> {
  using Type = float;
};
template <>
struct Parts<C128> {
  using Type = double;
};
template <class T>
using Accumulator = typename Accumulated<T>::Type;

template <class T>
TUTTI_DEVICE bool IsNan(T value) {
  return value != value;
}
TUTTI_DEVICE bool IsNan(C64 value) { return IsNan(value.real) || IsNan(value.imag); }
TUTTI_DEVICE bool IsNan(C128 value) { return IsNan(value.real) || IsNan(value.imag); }

// Apply is what the CPU does; Plain gives the same number, and some NaN where that gives one.
struct SumOp {
  template <class T>
  static TUTTI_DEVICE T Plain(T a, T b) {
    return static_cast<T>(a + b);
  }
  template <class T>
  static TUTTI_DEVICE T Apply(T a, T b) {
    if constexpr (NumberOf<T>::kInteger) {
      return static_cast<T>(a + b);
    } else {
      return Add(a, b);
    }
  }
  template <class T>
  static TUTTI_DEVICE T Finish(T sum, uint32_t) {
    return sum;
  }
  template <class T>
  static TUTTI_DEVICE T PlainFinish(T sum, uint32_t) {
    return sum;
  }
};

// The first input less all others.
struct SubOp : SumOp {
  template <class T>
  static TUTTI_DEVICE T Plain(T a, T b) {
    return static_cast<T>(a - b);
  }
  template <class T>
  static TUTTI_DEVICE T Apply(T a, T b) {
    if constexpr (NumberOf<T>::kInteger) {
      return static_cast<T>(a - b);
    } else {
      return Sub(a, b);
    }
  }
};

struct MeanOp : SumOp {
  template <class T>
  static TUTTI_DEVICE T Finish(T sum, uint32_t count) {
    return Div(sum, static_cast<T>(count));
  }
  template <class T>
  static TUTTI_DEVICE T PlainFinish(T sum, uint32_t count) {
    return sum / static_cast<T>(count);
  }
};

struct ProdOp {
  template <class T>
  static TUTTI_DEVICE T Plain(T a, T b) {
    if constexpr (NumberOf<T>::kInteger) {
      return Apply(a, b);
    } else {
      return a * b;
    }
  }
  static TUTTI_DEVICE C64 Plain(C64 a, C64 b) { return Complex(a, b); }
  static TUTTI_DEVICE C128 Plain(C128 a, C128 b) { return Complex(a, b); }
  template <class T>
  static TUTTI_DEVICE T Apply(T a, T b) {
    if constexpr (NumberOf<T>::kInteger) {
      // In 64 bits: a product of uint16 does not fit into int, which must not overflow.
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return Mul(a, b);
    }
  }
  static TUTTI_DEVICE C64 Apply(C64 a, C64 b) { return Complex(a, b); }
  static TUTTI_DEVICE C128 Apply(C128 a, C128 b) { return Complex(a, b); }
  template <class T>
  static TUTTI_DEVICE T Finish(T product, uint32_t) {
    return product;
  }
  template <class T>
  static TUTTI_DEVICE T PlainFinish(T product, uint32_t) {
    return product;
  }

 private:
  template <class T>
  static TUTTI_DEVICE T Complex(T a, T b) {
    return T{Sub(Mul(a.real, b.real), Mul(a.imag, b.imag)),
             Add(Mul(a.real, b.imag), Mul(a.imag, b.real))};
  }
};

// Floats by their bits, as an integer of their size: those of negative ones turned round, so that
// they are ordered as the numbers are, -0 before 0. NaN wins, and is the positive quiet one.
template <class Bits, bool kMin, Bits kInfinity, Bits kNan>
TUTTI_DEVICE Bits ExtremeBits(Bits a, Bits b) {
  constexpr Bits kMagnitude = NumberOf<Bits>::kMax;
  const Bits key_a = static_cast<Bits>(a ^ (a < 0 ? kMagnitude : Bits{0}));
  const Bits key_b = static_cast<Bits>(b ^ (b < 0 ? kMagnitude : Bits{0}));
  if ((a & kMagnitude) > kInfinity || (b & kMagnitude) > kInfinity) return kNan;
  return (kMin ? key_a < key_b : key_a > key_b) ? a : b;
}

template <bool kMin>
struct ExtremeOp {
  template <class T>
  static TUTTI_DEVICE T Plain(T a, T b) {
    return Apply(a, b);
  }
  template <class T>
  static TUTTI_DEVICE T Apply(T a, T b) {
    return kMin ? (b < a ? b : a) : (a < b ? b : a);
  }
  static TUTTI_DEVICE float Apply(float a, float b) {
    return BitsAs<float>(ExtremeBits<int32_t, kMin, 0x7f800000, 0x7fc00000>(BitsAs<int32_t>(a),
                                                                            BitsAs<int32_t>(b)));
  }
  static TUTTI_DEVICE double Apply(double a, double b) {
    return BitsAs<double>(ExtremeBits<int64_t, kMin, 0x7ff0000000000000, 0x7ff8000000000000>(
        BitsAs<int64_t>(a), BitsAs<int64_t>(b)));
  }
  template <class T>
  static TUTTI_DEVICE T Finish(T extreme, uint32_t) {
    return extreme;
  }
  template <class T>
  static TUTTI_DEVICE T PlainFinish(T extreme, uint32_t) {
    return extreme;
  }
};

struct BandOp {
  template <class T>
  static TUTTI_DEVICE T Plain(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <class T>
  static TUTTI_DEVICE T Apply(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <class T>
  static TUTTI_DEVICE T Finish(T bits, uint32_t) {
    return bits;
  }
  template <class T>
  static TUTTI_DEVICE T PlainFinish(T bits, uint32_t) {
    return bits;
  }
};
struct BorOp : BandOp {
  template <class T>
  static TUTTI_DEVICE T Plain(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <class T>
  static TUTTI_DEVICE T Apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BxorOp : BandOp {
  template <class T>
  static TUTTI_DEVICE T Plain(T a, T b) {
    return static_cast<T>(a ^ b);
  }
  template <class T>
  static TUTTI_DEVICE T Apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

constexpr int kAtOnce = 4;

template <class T, class Op>
TUTTI_DEVICE T FoldElement(const ReduceParams& p, uint64_t i) {
  Accumulator<T> sum = Accumulated<T>::From(Memory<T>(p.inputs[0])[i]);
  for (uint32_t r = 1; r < p.count; ++r) {
    sum = Op::Apply(sum, Accumulated<T>::From(Memory<T>(p.inputs[r])[i]));
  }
  return Accumulated<T>::Back(Op::Finish(sum, p.count));
}

template <class T, class Op>
TUTTI_DEVICE void FoldWhole(const ReduceParams& p, uint64_t whole) {
  using A = Accumulator<T>;
  constexpr int kPer = 16 / sizeof(T);
  for (uint64_t i = GlobalThread(); i < whole; i += AllThreads()) {
    A sums[kPer];
    for (uint32_t first = 0; first < p.count; first += kAtOnce) {
      Sixteen loaded[kAtOnce];
      TUTTI_UNROLL
      for (int r = 0; r < kAtOnce; ++r) {
        if (first + r < p.count) loaded[r] = Memory<Sixteen>(p.inputs[first + r])[i];
      }
      TUTTI_UNROLL
      for (int r = 0; r < kAtOnce; ++r) {
        if (first + r >= p.count) break;
        T items[kPer];
        memcpy(items, &loaded[r], sizeof(items));
        TUTTI_UNROLL
        for (int j = 0; j < kPer; ++j) {
          const A item = Accumulated<T>::Plain(items[j]);
          sums[j] = first + r == 0 ? item : Op::Plain(sums[j], item);
        }
      }
    }
    T items[kPer];
    TUTTI_UNROLL
    for (int j = 0; j < kPer; ++j) {
      const A sum = Op::PlainFinish(sums[j], p.count);
      // Before anything is written, because the output may be an input.
      if (IsNan(sum)) {
        items[j] = FoldElement<T, Op>(p, i * kPer + j);
      } else {
        items[j] = Accumulated<T>::Back(sum);
      }
    }
    Sixteen folded;
    memcpy(&folded, items, sizeof(folded));
    Memory<Sixteen>(p.out)[i] = folded;
  }
}

template <class T, class Op>
TUTTI_DEVICE void Fold(const ReduceParams& p) {
  uint64_t folded = 0;
  // Products of complex numbers are rare, and GCC 12 breaks down over 16 bytes of them.
  if constexpr (sizeof(T) == sizeof(typename Parts<T>::Type)) {
    const uint64_t whole = p.aligned != 0 ? p.n / (16 / sizeof(T)) : 0;
    FoldWhole<T, Op>(p, whole);
    folded = whole * (16 / sizeof(T));
  }
  for (uint64_t i = folded + GlobalThread(); i < p.n; i += AllThreads()) {
    Memory<T>(p.out)[i] = FoldElement<T, Op>(p, i);
  }
}

// The exact sum, divided and truncated.
template <class T>
TUTTI_DEVICE void FoldIntegerMean(const ReduceParams& p) {
  for (uint64_t i = GlobalThread(); i < p.n; i += AllThreads()) {
    if constexpr (sizeof(T) < 8) {
      int64_t sum = 0;
      for (uint32_t r = 0; r < p.count; ++r) sum += Memory<T>(p.inputs[r])[i];
      Memory<T>(p.out)[i] = static_cast<T>(sum / static_cast<int64_t>(p.count));
    } else {
      __extension__ typedef __int128 Wide;
      Wide sum = 0;
      for (uint32_t r = 0; r < p.count; ++r) sum += Memory<T>(p.inputs[r])[i];
      Memory<T>(p.out)[i] = static_cast<T>(sum / static_cast<int64_t>(p.count));
    }
  }
}

}  // namespace
}  // namespace tutti::cuda

#define TUTTI_FOLD(op, Op, name, T) \
  TUTTI_KERNEL(tutti_##op##_##name, tutti::cuda::ReduceParams) { \
    tutti::cuda::Fold<T, tutti::cuda::Op>(p); \
  }
#define TUTTI_FOLD_UNSIGNED(op, Op) \
  TUTTI_FOLD(op, Op, u8, uint8_t) \
  TUTTI_FOLD(op, Op, u16, uint16_t) \
  TUTTI_FOLD(op, Op, u32, uint32_t) \
  TUTTI_FOLD(op, Op, u64, uint64_t)
#define TUTTI_FOLD_SIGNED(op, Op) \
  TUTTI_FOLD(op, Op, i8, int8_t) \
  TUTTI_FOLD(op, Op, i16, int16_t) \
  TUTTI_FOLD(op, Op, i32, int32_t) \
  TUTTI_FOLD(op, Op, i64, int64_t)
#define TUTTI_FOLD_FLOATS(op, Op) \
  TUTTI_FOLD(op, Op, f16, tutti::cuda::F16) \
  TUTTI_FOLD(op, Op, bf16, tutti::cuda::Bf16) \
  TUTTI_FOLD(op, Op, f32, float) \
  TUTTI_FOLD(op, Op, f64, double)
#define TUTTI_FOLD_MEAN(name, T) \
  TUTTI_KERNEL(tutti_mean_##name, tutti::cuda::ReduceParams) { \
    tutti::cuda::FoldIntegerMean<T>(p); \
  }

TUTTI_FOLD_UNSIGNED(sum, SumOp)
TUTTI_FOLD_FLOATS(sum, SumOp)
TUTTI_FOLD_UNSIGNED(sub, SubOp)
TUTTI_FOLD_FLOATS(sub, SubOp)
TUTTI_FOLD_FLOATS(mean, MeanOp)
TUTTI_FOLD_MEAN(u8, uint8_t)
TUTTI_FOLD_MEAN(u16, uint16_t)
TUTTI_FOLD_MEAN(u32, uint32_t)
TUTTI_FOLD_MEAN(u64, uint64_t)
TUTTI_FOLD_MEAN(i8, int8_t)
TUTTI_FOLD_MEAN(i16, int16_t)
TUTTI_FOLD_MEAN(i32, int32_t)
TUTTI_FOLD_MEAN(i64, int64_t)
TUTTI_FOLD_UNSIGNED(prod, ProdOp)
TUTTI_FOLD_FLOATS(prod, ProdOp)
TUTTI_FOLD(prod, ProdOp, c64, tutti::cuda::C64)
TUTTI_FOLD(prod, ProdOp, c128, tutti::cuda::C128)
TUTTI_FOLD_UNSIGNED(min, ExtremeOp<true>)
TUTTI_FOLD_SIGNED(min, ExtremeOp<true>)
TUTTI_FOLD_FLOATS(min, ExtremeOp<true>)
TUTTI_FOLD_UNSIGNED(max, ExtremeOp<false>)
TUTTI_FOLD_SIGNED(max, ExtremeOp<false>)
TUTTI_FOLD_FLOATS(max, ExtremeOp<false>)
TUTTI_FOLD_UNSIGNED(band, BandOp)
TUTTI_FOLD_UNSIGNED(bor, BorOp)
TUTTI_FOLD_UNSIGNED(bxor, BxorOp)
