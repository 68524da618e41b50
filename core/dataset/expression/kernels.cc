// One loop for each operation and dtype, in steps of a constant number of elements, which the
// compiler makes vectors of. Booleans are computed as bytes that are 0 or 1.
#include "core/dataset/expression/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/tensor/simd.h"

namespace tutti {
namespace {

constexpr int64_t kStep = 32;

template <class R, class A, class F>
TUTTI_ALWAYS_INLINE void Loop1(const void* a, void* out, int64_t n, F f) {
  const A* __restrict x = static_cast<const A*>(a);
  R* __restrict y = static_cast<R*>(out);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int64_t j = 0; j < kStep; ++j) y[i + j] = f(x[i + j]);
  }
  for (; i < n; ++i) y[i] = f(x[i]);
}

template <class R, class A, class F>
TUTTI_ALWAYS_INLINE void Loop2(const void* a, const void* b, void* out, int64_t n, F f) {
  const A* __restrict x = static_cast<const A*>(a);
  const A* __restrict z = static_cast<const A*>(b);
  R* __restrict y = static_cast<R*>(out);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int64_t j = 0; j < kStep; ++j) y[i + j] = f(x[i + j], z[i + j]);
  }
  for (; i < n; ++i) y[i] = f(x[i], z[i]);
}

// Unsigned, and no narrower than what arithmetic is done in, so that it wraps.
template <class T>
using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

template <class T>
T Wrapped(Wide<T> value) {
  return static_cast<T>(value);
}

template <class T>
struct Add {
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return Wrapped<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
    } else {
      return a + b;
    }
  }
};
template <class T>
struct Subtract {
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return Wrapped<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
    } else {
      return a - b;
    }
  }
};
template <class T>
struct Multiply {
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return Wrapped<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
    } else {
      return a * b;
    }
  }
};
template <class T>
struct Divide {
  T operator()(T a, T b) const { return a / b; }
};

// Quotient and remainder of floats, rounded so that the remainder has the divisor's sign.
template <class T>
struct FloatQuotient {
  T quotient;
  T remainder;
};
template <class T>
FloatQuotient<T> FloorQuotient(T a, T b) {
  T remainder = std::fmod(a, b);
  if (b == 0) return {a / b, remainder};
  T quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(T{0}, b);
  }
  if (quotient == 0) return {std::copysign(T{0}, a / b), remainder};
  T whole = std::floor(quotient);
  if (quotient - whole > T{0.5}) whole += 1;
  return {whole, remainder};
}

template <class T>
struct FloorDivide {
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return FloorQuotient(a, b).quotient;
    } else if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Wrapped<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
      const T quotient = static_cast<T>(a / b);
      return static_cast<T>(quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
    } else {
      return static_cast<T>(a / b);
    }
  }
};
template <class T>
struct Remainder {
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return FloorQuotient(a, b).remainder;
    } else if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
      const T rest = static_cast<T>(a % b);
      return static_cast<T>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    } else {
      return static_cast<T>(a % b);
    }
  }
};
template <class T>
struct Power {
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::pow(a, b);
    } else {
      auto base = static_cast<Wide<T>>(a);
      auto rest = static_cast<std::make_unsigned_t<T>>(b);
      Wide<T> result = 1;
      for (; rest != 0; rest = static_cast<std::make_unsigned_t<T>>(rest >> 1)) {
        if ((rest & 1) != 0) result *= base;
        base *= base;
      }
      return Wrapped<T>(result);
    }
  }
};
template <class T>
struct Minimum {
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return a < b || a != a ? a : b;
    return a < b ? a : b;
  }
};
template <class T>
struct Maximum {
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return a > b || a != a ? a : b;
    return a > b ? a : b;
  }
};

// By the width of the dtype or more, or by a negative number, nothing is left of the bits but the
// sign of what is shifted to the right.
template <class T>
struct LeftShift {
  T operator()(T a, T b) const {
    if (b < T{0} || static_cast<uint64_t>(b) >= sizeof(T) * 8) return 0;
    return Wrapped<T>(static_cast<Wide<T>>(a) << b);
  }
};
template <class T>
struct RightShift {
  T operator()(T a, T b) const {
    if (b < T{0} || static_cast<uint64_t>(b) >= sizeof(T) * 8) return a < T{0} ? T(-1) : T{0};
    return static_cast<T>(a >> b);
  }
};

template <class T, class F>
int64_t Run2(const void* a, const void* b, const void*, void* out, int64_t n) {
  Loop2<T, T>(a, b, out, n, F());
  return -1;
}

template <class T, class F>
int64_t RunCompare(const void* a, const void* b, const void*, void* out, int64_t n) {
  Loop2<uint8_t, T>(a, b, out, n, [](T x, T y) { return static_cast<uint8_t>(F()(x, y)); });
  return -1;
}

// Where b decides whether there is a result: `Bad` of it is looked for first.
template <class T, class F, class Bad>
int64_t RunChecked(const void* a, const void* b, const void*, void* out, int64_t n) {
  const T* const divisors = static_cast<const T*>(b);
  const T* const bad = std::find_if(divisors, divisors + n, Bad());
  const int64_t good = bad - divisors;
  Loop2<T, T>(a, b, out, good, F());
  return good == n ? -1 : good;
}
template <class T>
struct IsZero {
  bool operator()(T value) const { return value == 0; }
};
template <class T>
struct IsNegative {
  bool operator()(T value) const { return value < T{0}; }
};

// By multiplication with the inverse, which is off by one at most where the dividends are below
// 2^51, and then corrected. `kQuotient`: floor_divide, else remainder.
template <class T, bool kQuotient>
int64_t RunByNumber(const void* a, const void* b, const void* c, void* out, int64_t n) {
  const T* __restrict x = static_cast<const T*>(a);
  T* __restrict y = static_cast<T*>(out);
  const auto divisor = static_cast<int64_t>(*static_cast<const T*>(b));
  if constexpr (sizeof(T) == 8) {
    uint64_t bits = 0;
    for (int64_t i = 0; i < n; ++i) bits |= static_cast<uint64_t>(x[i] ^ (x[i] >> 63));
    if ((bits >> 51) != 0) {
      return RunChecked<T, std::conditional_t<kQuotient, FloorDivide<T>, Remainder<T>>, IsZero<T>>(
          a, b, c, out, n);
    }
  }
  const double inverse = 1.0 / static_cast<double>(divisor);
  for (int64_t i = 0; i < n; ++i) {
    const auto dividend = static_cast<int64_t>(x[i]);
    auto quotient = static_cast<int64_t>(static_cast<double>(dividend) * inverse);
    int64_t rest = dividend - quotient * divisor;
    for (int correction = 0; correction < 2; ++correction) {
      const int64_t low = rest < 0 ? 1 : 0;
      rest += low * divisor;
      quotient -= low;
    }
    const int64_t high = rest >= divisor ? 1 : 0;
    rest -= high * divisor;
    quotient += high;
    y[i] = static_cast<T>(kQuotient ? quotient : rest);
  }
  return -1;
}

template <class T>
ElementKernel IntegerKernel(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kFloorDivide: return RunChecked<T, FloorDivide<T>, IsZero<T>>;
    case ExpressionOp::kRemainder: return RunChecked<T, Remainder<T>, IsZero<T>>;
    case ExpressionOp::kPower:
      if constexpr (std::is_signed_v<T>) return RunChecked<T, Power<T>, IsNegative<T>>;
      return Run2<T, Power<T>>;
    case ExpressionOp::kLeftShift: return Run2<T, LeftShift<T>>;
    case ExpressionOp::kRightShift: return Run2<T, RightShift<T>>;
    default: return nullptr;
  }
}

// Bits, as integers of the dtype's width do them.
template <class T>
ElementKernel BitKernel(ExpressionOp op) {
  using Kernel = ElementKernel;
  switch (op) {
    case ExpressionOp::kBitwiseAnd:
      return static_cast<Kernel>([](const void* a, const void* b, const void*, void* o, int64_t n) {
        Loop2<T, T>(a, b, o, n, [](T x, T y) { return static_cast<T>(x & y); });
        return int64_t{-1};
      });
    case ExpressionOp::kBitwiseOr:
      return static_cast<Kernel>([](const void* a, const void* b, const void*, void* o, int64_t n) {
        Loop2<T, T>(a, b, o, n, [](T x, T y) { return static_cast<T>(x | y); });
        return int64_t{-1};
      });
    case ExpressionOp::kBitwiseXor:
      return static_cast<Kernel>([](const void* a, const void* b, const void*, void* o, int64_t n) {
        Loop2<T, T>(a, b, o, n, [](T x, T y) { return static_cast<T>(x ^ y); });
        return int64_t{-1};
      });
    case ExpressionOp::kInvert:
      return static_cast<Kernel>([](const void* a, const void*, const void*, void* o, int64_t n) {
        Loop1<T, T>(a, o, n, [](T x) { return static_cast<T>(~x); });
        return int64_t{-1};
      });
    default: return nullptr;
  }
}

template <class T>
T SignOf(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return value;
  }
  return static_cast<T>((value > T{0} ? 1 : 0) - (value < T{0} ? 1 : 0));
}

#define TUTTI_UNARY_(expression)                                                              \
  static_cast<ElementKernel>([](const void* a, const void*, const void*, void* o, int64_t n) { \
    Loop1<T, T>(a, o, n, [](T x) { return static_cast<T>(expression); });                     \
    return int64_t{-1};                                                                       \
  })
#define TUTTI_TEST_(expression)                                                               \
  static_cast<ElementKernel>([](const void* a, const void*, const void*, void* o, int64_t n) { \
    Loop1<uint8_t, T>(a, o, n, [](T x) { return static_cast<uint8_t>(expression); });         \
    return int64_t{-1};                                                                       \
  })

template <class T>
ElementKernel FloatKernel(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kDivide: return Run2<T, Divide<T>>;
    case ExpressionOp::kFloorDivide: return Run2<T, FloorDivide<T>>;
    case ExpressionOp::kRemainder: return Run2<T, Remainder<T>>;
    case ExpressionOp::kPower: return Run2<T, Power<T>>;
    case ExpressionOp::kSqrt: return TUTTI_UNARY_(std::sqrt(x));
    case ExpressionOp::kExp: return TUTTI_UNARY_(std::exp(x));
    case ExpressionOp::kExpm1: return TUTTI_UNARY_(std::expm1(x));
    case ExpressionOp::kLog: return TUTTI_UNARY_(std::log(x));
    case ExpressionOp::kLog1p: return TUTTI_UNARY_(std::log1p(x));
    case ExpressionOp::kSin: return TUTTI_UNARY_(std::sin(x));
    case ExpressionOp::kCos: return TUTTI_UNARY_(std::cos(x));
    case ExpressionOp::kTan: return TUTTI_UNARY_(std::tan(x));
    case ExpressionOp::kTanh: return TUTTI_UNARY_(std::tanh(x));
    case ExpressionOp::kFloor: return TUTTI_UNARY_(std::floor(x));
    case ExpressionOp::kCeil: return TUTTI_UNARY_(std::ceil(x));
    case ExpressionOp::kTrunc: return TUTTI_UNARY_(std::trunc(x));
    case ExpressionOp::kRint: return TUTTI_UNARY_(std::nearbyint(x));
    case ExpressionOp::kIsNan: return TUTTI_TEST_(x != x);
    case ExpressionOp::kIsInf:
      return TUTTI_TEST_(std::fabs(x) == std::numeric_limits<T>::infinity());
    case ExpressionOp::kIsFinite:
      return TUTTI_TEST_(std::fabs(x) < std::numeric_limits<T>::infinity());
    default: return nullptr;
  }
}

template <class T>
ElementKernel ComparisonKernel(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kEqual: return RunCompare<T, std::equal_to<T>>;
    case ExpressionOp::kNotEqual: return RunCompare<T, std::not_equal_to<T>>;
    case ExpressionOp::kLess: return RunCompare<T, std::less<T>>;
    case ExpressionOp::kLessEqual: return RunCompare<T, std::less_equal<T>>;
    case ExpressionOp::kGreater: return RunCompare<T, std::greater<T>>;
    case ExpressionOp::kGreaterEqual: return RunCompare<T, std::greater_equal<T>>;
    default: return nullptr;
  }
}

// Of all numbers.
template <class T>
ElementKernel NumberKernel(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kAdd: return Run2<T, Add<T>>;
    case ExpressionOp::kSubtract: return Run2<T, Subtract<T>>;
    case ExpressionOp::kMultiply: return Run2<T, Multiply<T>>;
    case ExpressionOp::kMinimum: return Run2<T, Minimum<T>>;
    case ExpressionOp::kMaximum: return Run2<T, Maximum<T>>;
    case ExpressionOp::kNegative:
      if constexpr (std::is_floating_point_v<T>) return TUTTI_UNARY_(-x);
      return TUTTI_UNARY_(Subtract<T>()(T{0}, x));
    case ExpressionOp::kAbsolute:
      if constexpr (std::is_floating_point_v<T>) {
        return TUTTI_UNARY_(std::fabs(x));
      } else {
        return TUTTI_UNARY_(x < T{0} ? Subtract<T>()(T{0}, x) : x);
      }
    case ExpressionOp::kSign: return TUTTI_UNARY_(SignOf(x));
    case ExpressionOp::kSquare: return TUTTI_UNARY_(Multiply<T>()(x, x));
    default: break;
  }
  if (const ElementKernel kernel = ComparisonKernel<T>(op)) return kernel;
  if constexpr (std::is_floating_point_v<T>) {
    return FloatKernel<T>(op);
  } else {
    if (const ElementKernel kernel = BitKernel<T>(op)) return kernel;
    return IntegerKernel<T>(op);
  }
}

ElementKernel BoolKernel(ExpressionOp op) {
  using T = uint8_t;
  switch (op) {
    case ExpressionOp::kLogicalAnd: return BitKernel<uint8_t>(ExpressionOp::kBitwiseAnd);
    case ExpressionOp::kLogicalOr: return BitKernel<uint8_t>(ExpressionOp::kBitwiseOr);
    case ExpressionOp::kLogicalXor: return BitKernel<uint8_t>(ExpressionOp::kBitwiseXor);
    case ExpressionOp::kLogicalNot:
    case ExpressionOp::kInvert: return TUTTI_UNARY_(x ^ 1);
    default: break;
  }
  if (const ElementKernel kernel = ComparisonKernel<uint8_t>(op)) return kernel;
  return BitKernel<uint8_t>(op);
}

template <class Compare>
int64_t CompareTexts(const void* a, const void* b, const void*, void* out, int64_t n) {
  Loop2<uint8_t, BytesView>(a, b, out, n, [](const BytesView& x, const BytesView& y) {
    return static_cast<uint8_t>(Compare()(x.text(), y.text()));
  });
  return -1;
}

ElementKernel BytesKernel(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kEqual: return CompareTexts<std::equal_to<>>;
    case ExpressionOp::kNotEqual: return CompareTexts<std::not_equal_to<>>;
    case ExpressionOp::kLess: return CompareTexts<std::less<>>;
    case ExpressionOp::kLessEqual: return CompareTexts<std::less_equal<>>;
    case ExpressionOp::kGreater: return CompareTexts<std::greater<>>;
    case ExpressionOp::kGreaterEqual: return CompareTexts<std::greater_equal<>>;
    default: return nullptr;
  }
}

struct Sixteen {
  uint64_t low, high;
};

template <class T>
int64_t Choose(const void* a, const void* b, const void* c, void* out, int64_t n) {
  const uint8_t* __restrict condition = static_cast<const uint8_t*>(a);
  const T* __restrict yes = static_cast<const T*>(b);
  const T* __restrict no = static_cast<const T*>(c);
  T* __restrict y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = condition[i] != 0 ? yes[i] : no[i];
  return -1;
}

ElementKernel ChooseKernel(DType dtype) {
  switch (ItemSize(dtype)) {
    case 1: return Choose<uint8_t>;
    case 2: return Choose<uint16_t>;
    case 4: return Choose<uint32_t>;
    case 8: return Choose<uint64_t>;
    default: return Choose<Sixteen>;
  }
}

#undef TUTTI_UNARY_
#undef TUTTI_TEST_

}  // namespace

ElementKernel FindElementKernel(ExpressionOp op, DType dtype) {
  if (op == ExpressionOp::kWhere) return ChooseKernel(dtype);
  if (op == ExpressionOp::kComplex) return FindComplexKernel(op, dtype);
  switch (dtype) {
    case DType::kBool: return BoolKernel(op);
    case DType::kInt8: return NumberKernel<int8_t>(op);
    case DType::kInt16: return NumberKernel<int16_t>(op);
    case DType::kInt32: return NumberKernel<int32_t>(op);
    case DType::kInt64: return NumberKernel<int64_t>(op);
    case DType::kUint8: return NumberKernel<uint8_t>(op);
    case DType::kUint16: return NumberKernel<uint16_t>(op);
    case DType::kUint32: return NumberKernel<uint32_t>(op);
    case DType::kUint64: return NumberKernel<uint64_t>(op);
    case DType::kFloat32: return NumberKernel<float>(op);
    case DType::kFloat64: return NumberKernel<double>(op);
    case DType::kBytes: return BytesKernel(op);
    default: return FindComplexKernel(op, dtype);
  }
}

ElementKernel FindByNumberKernel(ExpressionOp op, DType dtype) {
  const bool divides = op == ExpressionOp::kFloorDivide;
  if (!divides && op != ExpressionOp::kRemainder) return nullptr;
  if (dtype == DType::kInt64) {
    return divides ? RunByNumber<int64_t, true> : RunByNumber<int64_t, false>;
  }
  if (dtype == DType::kInt32) {
    return divides ? RunByNumber<int32_t, true> : RunByNumber<int32_t, false>;
  }
  return nullptr;
}

const char* WhyNoResult(ExpressionOp op) {
  if (op == ExpressionOp::kPower) return "an integer has no power with a negative exponent";
  return "the divisor is zero";
}

}  // namespace tutti
