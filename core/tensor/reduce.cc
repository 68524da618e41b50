// Folding k inputs: block by block, so that a block's accumulators stay in the first cache while
// each input is read once, in sequence; every element sees the inputs in rank order, whatever the
// block. Rules for each dtype stand in reduce.h.
#include "core/tensor/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/float_mode.h"
#include "core/tensor/half.h"
#include "core/tensor/half_fold.h"
#include "core/tensor/simd.h"

namespace tutti {
namespace {

using tensor_internal::FoldHalves;
using tensor_internal::HalfOp;
using tensor_internal::kBytesAhead;
using tensor_internal::kHalfBlock;
using tensor_internal::PrefetchAhead;
using tensor_internal::RunBest;
using tensor_internal::VectorWidth;
using tensor_internal::WidestVectors;


// An unsigned type in which sums and products of T wrap without undefined behaviour.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

struct SumOp {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
  template <class T>
  static TUTTI_ALWAYS_INLINE T Finish(T sum, size_t) {
    return sum;
  }
};

// Of floats only; integers have MeanOfIntegers.
struct MeanOp : SumOp {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Finish(T sum, size_t count) {
    return sum / static_cast<T>(count);
  }
};

struct ProdOp {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else if constexpr (kIsComplex<T>) {
      return T{a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
    } else {
      return a * b;
    }
  }
  template <class T>
  static TUTTI_ALWAYS_INLINE T Finish(T product, size_t) {
    return product;
  }
};

// The smaller or larger of two numbers. Floats are compared as integers: with the magnitude bits of
// negative ones flipped, their bit patterns are ordered as they are, -0 before +0.
template <bool kMin>
struct ExtremeOp {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
      constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
      constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
      constexpr Bits kNan = std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
      const Bits bits_a = std::bit_cast<Bits>(a);
      const Bits bits_b = std::bit_cast<Bits>(b);
      const Bits key_a = bits_a ^ (bits_a < 0 ? kMagnitude : 0);
      const Bits key_b = bits_b ^ (bits_b < 0 ? kMagnitude : 0);
      const bool take_a = kMin ? key_a < key_b : key_a > key_b;
      const Bits extreme = take_a ? bits_a : bits_b;
      const bool has_nan =
          ((bits_a & kMagnitude) > kInfinity) | ((bits_b & kMagnitude) > kInfinity);
      return std::bit_cast<T>(has_nan ? kNan : extreme);
    } else {
      return kMin ? (b < a ? b : a) : (a < b ? b : a);
    }
  }
  template <class T>
  static TUTTI_ALWAYS_INLINE T Finish(T extreme, size_t) {
    return extreme;
  }
};

struct BitAndOp {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <class T>
  static TUTTI_ALWAYS_INLINE T Finish(T bits, size_t) {
    return bits;
  }
};

struct BitOrOp {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <class T>
  static TUTTI_ALWAYS_INLINE T Finish(T bits, size_t) {
    return bits;
  }
};

struct BitXorOp {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
  template <class T>
  static TUTTI_ALWAYS_INLINE T Finish(T bits, size_t) {
    return bits;
  }
};

// Element types that are their own accumulators: in large blocks, then small ones, then one by one.
// The last input is folded straight into the output, which an input may be: an element is written
// when all inputs of its block have been read, the last one at its own place.
template <class T, class Op>
struct FoldKernel {
  template <int kBlock>
  static TUTTI_ALWAYS_INLINE int64_t FoldBlocks(const void* const* inputs, size_t count, int64_t i,
                                                int64_t n, size_t own, T* out) {
    constexpr int64_t kAhead = kBytesAhead / static_cast<int64_t>(sizeof(T));
    const T* const first = static_cast<const T*>(inputs[0]);
    const T* const second = static_cast<const T*>(inputs[1]);
    if (count == 2) {
      const T* const other = own == 0 ? second : own == 1 ? first : nullptr;
      for (; i + kBlock <= n; i += kBlock) {
        if (other != nullptr && i + kBlock + kAhead <= n) {
          PrefetchAhead(other + i, kBlock * sizeof(T));
        }
        TUTTI_ELEMENT_BY_ELEMENT
        for (int j = 0; j < kBlock; ++j) {
          out[i + j] = Op::Finish(Op::Apply(first[i + j], second[i + j]), 2);
        }
      }
      return i;
    }
    const T* const last = static_cast<const T*>(inputs[count - 1]);
    for (; i + kBlock <= n; i += kBlock) {
      T block[kBlock];
      for (int j = 0; j < kBlock; ++j) block[j] = Op::Apply(first[i + j], second[i + j]);
      for (size_t r = 2; r + 1 < count; ++r) {
        const T* input = static_cast<const T*>(inputs[r]) + i;
        for (int j = 0; j < kBlock; ++j) block[j] = Op::Apply(block[j], input[j]);
      }
      TUTTI_ELEMENT_BY_ELEMENT
      for (int j = 0; j < kBlock; ++j) {
        out[i + j] = Op::Finish(Op::Apply(block[j], last[i + j]), count);
      }
    }
    return i;
  }

  static TUTTI_ALWAYS_INLINE void Run(const void* const* inputs, size_t count, int64_t n,
                                      size_t own, void* output) {
    T* out = static_cast<T*>(output);
    int64_t i = FoldBlocks<512 / sizeof(T)>(inputs, count, 0, n, own, out);
    i = FoldBlocks<64 / sizeof(T)>(inputs, count, i, n, kAllOwn, out);
    if constexpr (sizeof(T) < 4) i = FoldBlocks<16 / sizeof(T)>(inputs, count, i, n, kAllOwn, out);
    for (; i < n; ++i) {
      T value = static_cast<const T*>(inputs[0])[i];
      for (size_t r = 1; r < count; ++r) {
        value = Op::Apply(value, static_cast<const T*>(inputs[r])[i]);
      }
      out[i] = Op::Finish(value, count);
    }
  }
};

// The smaller or larger of two 16-bit floats is one of them: as ExtremeOp, of their bits.
template <class T, bool kMin>
struct HalfExtremeOp {
  static TUTTI_ALWAYS_INLINE uint16_t Apply(uint16_t a, uint16_t b) {
    constexpr int16_t kMagnitude = 0x7fff;
    constexpr int16_t kInfinity = std::is_same_v<T, Bfloat16> ? 0x7f80 : 0x7c00;
    constexpr uint16_t kNan = std::is_same_v<T, Bfloat16> ? 0x7fc0 : 0x7e00;
    const auto bits_a = static_cast<int16_t>(a);
    const auto bits_b = static_cast<int16_t>(b);
    const auto key_a = static_cast<int16_t>(bits_a ^ (bits_a < 0 ? kMagnitude : 0));
    const auto key_b = static_cast<int16_t>(bits_b ^ (bits_b < 0 ? kMagnitude : 0));
    const bool take_a = kMin ? key_a < key_b : key_a > key_b;
    const uint16_t extreme = take_a ? a : b;
    const bool has_nan = ((bits_a & kMagnitude) > kInfinity) | ((bits_b & kMagnitude) > kInfinity);
    return has_nan ? kNan : extreme;
  }
  static TUTTI_ALWAYS_INLINE uint16_t Finish(uint16_t extreme, size_t) { return extreme; }
};

// Elements [i, n) of 16-bit floats, accumulated in float. Of several NaNs the first one stays, as
// it would in the machine's additions if compilers left their operands in order.
template <class T, class Op>
struct FoldHalfKernel {
  static TUTTI_ALWAYS_INLINE T Narrow(float value) {
    if constexpr (std::is_same_v<T, Bfloat16>) {
      return ToBfloat16(value);
    } else {
      return ToFloat16(value);
    }
  }

  static T FoldElement(const void* const* inputs, size_t count, int64_t i) {
    float value = ToFloat(static_cast<const T*>(inputs[0])[i]);
    for (size_t r = 1; r < count && !std::isnan(value); ++r) {
      const float operand = ToFloat(static_cast<const T*>(inputs[r])[i]);
      value = std::isnan(operand) ? operand : Op::Apply(value, operand);
    }
    return Narrow(std::isnan(value) ? value : Op::Finish(value, count));
  }

  static TUTTI_ALWAYS_INLINE void Run(const void* const* inputs, size_t count, int64_t i,
                                      int64_t n, T* out) {
    constexpr int kBlock = 64;
    for (; i + kBlock <= n; i += kBlock) {
      const T* const first = static_cast<const T*>(inputs[0]) + i;
      const T* const second = static_cast<const T*>(inputs[1]) + i;
      float block[kBlock];
      for (int j = 0; j < kBlock; ++j) block[j] = Op::Apply(ToFloat(first[j]), ToFloat(second[j]));
      for (size_t r = 2; r < count; ++r) {
        const T* const input = static_cast<const T*>(inputs[r]) + i;
        for (int j = 0; j < kBlock; ++j) block[j] = Op::Apply(block[j], ToFloat(input[j]));
      }
      int nans = 0;
      for (int j = 0; j < kBlock; ++j) nans += block[j] != block[j] ? 1 : 0;
      if (nans != 0) {
        for (int j = 0; j < kBlock; ++j) out[i + j] = FoldElement(inputs, count, i + j);
      } else {
        for (int j = 0; j < kBlock; ++j) out[i + j] = Narrow(Op::Finish(block[j], count));
      }
    }
    for (; i < n; ++i) out[i] = FoldElement(inputs, count, i);
  }
};

// With vectors, as long as these find plain numbers.
template <class T, class Op>
void FoldHalvesWith(HalfOp op, std::span<const void* const> inputs, int64_t n, size_t own,
                    T* out) {
  const VectorWidth width = WidestVectors();
  for (int64_t i = 0; i < n;) {
    i = FoldHalves(width, op, inputs.data(), inputs.size(), i, n, own, out);
    const int64_t end = width == VectorWidth::kNone ? n : std::min(i + kHalfBlock, n);
    if (i < end) RunBest<FoldHalfKernel<T, Op>>(inputs.data(), inputs.size(), i, end, out);
    i = end;
  }
}

template <class T>
void FoldHalvesOp(ReduceOp op, std::span<const void* const> inputs, int64_t n, size_t own,
                  T* out) {
  const auto fold_bits = [&]<class Op>(Op) {
    RunBest<FoldKernel<uint16_t, Op>>(inputs.data(), inputs.size(), n, own,
                                      static_cast<void*>(out));
  };
  switch (op) {
    case ReduceOp::kSum: return FoldHalvesWith<T, SumOp>(HalfOp::kSum, inputs, n, own, out);
    case ReduceOp::kMean: return FoldHalvesWith<T, MeanOp>(HalfOp::kMean, inputs, n, own, out);
    case ReduceOp::kProd: return FoldHalvesWith<T, ProdOp>(HalfOp::kProd, inputs, n, own, out);
    case ReduceOp::kMin: return fold_bits(HalfExtremeOp<T, true>());
    case ReduceOp::kMax: return fold_bits(HalfExtremeOp<T, false>());
    default: break;  // of integers only
  }
}

// The exact sum, divided and truncated.
template <class T>
struct MeanOfIntegers {
  static TUTTI_ALWAYS_INLINE void Run(const void* const* inputs, size_t count, int64_t n,
                                      void* output) {
    T* out = static_cast<T*>(output);
    const auto divisor = static_cast<int64_t>(count);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (sizeof(T) < 8) {
        int64_t sum = 0;
        for (size_t r = 0; r < count; ++r) sum += static_cast<const T*>(inputs[r])[i];
        out[i] = static_cast<T>(sum / divisor);
      } else {
        __int128 sum = 0;
        for (size_t r = 0; r < count; ++r) sum += static_cast<const T*>(inputs[r])[i];
        const bool is_small = sum == static_cast<int64_t>(sum);  // 128-bit division is slow
        out[i] = static_cast<T>(is_small ? static_cast<int64_t>(sum) / divisor : sum / divisor);
      }
    }
  }
};

template <class T, class Op>
void Fold(std::span<const void* const> inputs, int64_t n, size_t own, void* out) {
  RunBest<FoldKernel<T, Op>>(inputs.data(), inputs.size(), n, own, out);
}

// Complex numbers are added as twice as many floats.
template <class T, class Op>
void FoldSum(std::span<const void* const> inputs, int64_t n, size_t own, void* out) {
  if constexpr (std::is_same_v<T, Complex64>) {
    Fold<float, Op>(inputs, 2 * n, own, out);
  } else if constexpr (std::is_same_v<T, Complex128>) {
    Fold<double, Op>(inputs, 2 * n, own, out);
  } else {
    Fold<T, Op>(inputs, n, own, out);
  }
}

template <class T>
void FoldOp(ReduceOp op, std::span<const void* const> inputs, int64_t n, size_t own, void* out) {
  switch (op) {
    case ReduceOp::kSum: return FoldSum<T, SumOp>(inputs, n, own, out);
    case ReduceOp::kMean:
      if constexpr (std::is_integral_v<T>) {
        return RunBest<MeanOfIntegers<T>>(inputs.data(), inputs.size(), n, out);
      } else {
        return FoldSum<T, MeanOp>(inputs, n, own, out);
      }
    case ReduceOp::kProd: return Fold<T, ProdOp>(inputs, n, own, out);
    case ReduceOp::kMin:
      if constexpr (!kIsComplex<T>) return Fold<T, ExtremeOp<true>>(inputs, n, own, out);
      break;
    case ReduceOp::kMax:
      if constexpr (!kIsComplex<T>) return Fold<T, ExtremeOp<false>>(inputs, n, own, out);
      break;
    case ReduceOp::kBitAnd:
      if constexpr (std::is_integral_v<T>) return Fold<T, BitAndOp>(inputs, n, own, out);
      break;
    case ReduceOp::kBitOr:
      if constexpr (std::is_integral_v<T>) return Fold<T, BitOrOp>(inputs, n, own, out);
      break;
    case ReduceOp::kBitXor:
      if constexpr (std::is_integral_v<T>) return Fold<T, BitXorOp>(inputs, n, own, out);
      break;
  }
}

}  // namespace

std::string_view ReduceOpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "SUM";
    case ReduceOp::kMean: return "MEAN";
    case ReduceOp::kMin: return "MIN";
    case ReduceOp::kMax: return "MAX";
    case ReduceOp::kProd: return "PROD";
    case ReduceOp::kBitAnd: return "BAND";
    case ReduceOp::kBitOr: return "BOR";
    case ReduceOp::kBitXor: return "BXOR";
  }
  return "invalid";
}

Status CheckReducible(ReduceOp op, DType dtype) {
  if (op < ReduceOp::kSum || op > kLastReduceOp) {
    return InvalidArgument("reduce: {} is no reduction", static_cast<int32_t>(op));
  }
  const bool is_bitwise = op >= ReduceOp::kBitAnd;
  const bool is_extreme = op == ReduceOp::kMin || op == ReduceOp::kMax;
  const bool is_defined = is_bitwise ? dtype == DType::kBool || IsInteger(dtype)
                          : dtype == DType::kBool
                              ? is_extreme
                              : IsNumeric(dtype) && !(is_extreme && IsComplex(dtype));
  if (is_defined) return OkStatus();
  return InvalidArgument("reduce: {} is not defined for {}; {}", ReduceOpName(op),
                         DTypeName(dtype),
                         is_bitwise              ? "it takes the bits of integers and booleans"
                         : dtype == DType::kBool ? "use MIN or MAX, or cast first"
                         : IsComplex(dtype)      ? "complex numbers have no order"
                                                 : "reductions take numbers")
      .With("dtype", DTypeName(dtype));
}

Status ReduceInto(ReduceOp op, DType dtype, std::span<const void* const> inputs, int64_t n,
                  void* out, size_t own) {
  TUTTI_RETURN_IF_ERROR(CheckReducible(op, dtype));
  if (inputs.empty()) return InvalidArgument("reduce: no inputs are given");
  if (n == 0) return OkStatus();
  if (inputs.size() == 1) {
    std::memmove(out, inputs[0], static_cast<size_t>(n) * ItemSize(dtype));
    return OkStatus();
  }
  const DefaultFloatMode mode;
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {
      // "all" and "any" of bytes that are 0 or 1.
      FoldOp<uint8_t>(op, inputs, n, own, out);
    } else if constexpr (kIsHalf<T>) {
      FoldHalvesOp(op, inputs, n, own, static_cast<T*>(out));
    } else if constexpr (!std::is_same_v<T, BytesView>) {
      FoldOp<T>(op, inputs, n, own, out);
    }
  });
  return OkStatus();
}

Result<Ref<Tensor>> Reduce(ReduceOp op, std::span<const Tensor* const> inputs,
                           const TensorOptions& options) {
  if (inputs.empty()) return InvalidArgument("reduce: no inputs are given");
  const Tensor& first = *inputs[0];
  TUTTI_RETURN_IF_ERROR(CheckReducible(op, first.dtype()));
  std::vector<Ref<Tensor>> dense;
  std::vector<const void*> data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    if (input.dtype() != first.dtype() || !(input.shape() == first.shape())) {
      return InvalidArgument("reduce: input 0 is {} and input {} is {}; they must be equal",
                             first.SpecString(), i, input.SpecString())
          .With("index", i);
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> contiguous, input.Contiguous());
    data.push_back(contiguous->data());
    dense.push_back(std::move(contiguous));
  }
  TensorOptions unzeroed = options;
  unzeroed.zeroed = false;
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(first.dtype(), first.shape(), unzeroed));
  TUTTI_RETURN_IF_ERROR(
      ReduceInto(op, first.dtype(), data, first.num_elements(), out->mutable_data()));
  return out;
}

}  // namespace tutti
