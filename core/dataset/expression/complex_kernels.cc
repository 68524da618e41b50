// The loops of complex numbers, which are pairs of floats. A product is that of the four parts,
// each rounded; a quotient goes by Smith's method ("Algorithm 116: Complex division", 1962), as
// in NumPy. Roots and powers are those of the C++ library.
#include <cmath>
#include <complex>
#include <cstdint>

#include "core/dataset/expression/kernels.h"

namespace tutti {
namespace {

template <class T>
using Complex = std::complex<T>;

template <class Out, class In, class F>
int64_t Each(const void* a, void* out, int64_t n, F f) {
  const auto* x = static_cast<const In*>(a);
  auto* y = static_cast<Out*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  return -1;
}

template <class Out, class In, class F>
int64_t EachPair(const void* a, const void* b, void* out, int64_t n, F f) {
  const auto* x = static_cast<const In*>(a);
  const auto* z = static_cast<const In*>(b);
  auto* y = static_cast<Out*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i], z[i]);
  return -1;
}

template <class T>
Complex<T> Product(Complex<T> a, Complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
Complex<T> Quotient(Complex<T> a, Complex<T> b) {
  const T real = std::fabs(b.real());
  const T imag = std::fabs(b.imag());
  if (real >= imag) {
    if (real == 0 && imag == 0) return {a.real() / real, a.imag() / real};
    const T ratio = b.imag() / b.real();
    const T scale = T{1} / (b.real() + b.imag() * ratio);
    return {(a.real() + a.imag() * ratio) * scale, (a.imag() - a.real() * ratio) * scale};
  }
  const T ratio = b.real() / b.imag();
  const T scale = T{1} / (b.imag() + b.real() * ratio);
  return {(a.real() * ratio + a.imag()) * scale, (a.imag() * ratio - a.real()) * scale};
}

#define TUTTI_ONE_(Out, expression)                                                           \
  static_cast<ElementKernel>([](const void* a, const void*, const void*, void* o, int64_t n) { \
    return Each<Out, Complex<T>>(a, o, n, [](Complex<T> x) -> Out { return expression; });    \
  })
#define TUTTI_TWO_(Out, In, expression)                                                           \
  static_cast<ElementKernel>([](const void* a, const void* b, const void*, void* o, int64_t n) {  \
    return EachPair<Out, In>(a, b, o, n, [](In x, In y) -> Out { return expression; });           \
  })

template <class T>
ElementKernel KernelOf(ExpressionOp op) {
  using C = Complex<T>;
  using B = uint8_t;
  switch (op) {
    case ExpressionOp::kAdd: return TUTTI_TWO_(C, C, x + y);
    case ExpressionOp::kSubtract: return TUTTI_TWO_(C, C, x - y);
    case ExpressionOp::kMultiply: return TUTTI_TWO_(C, C, Product(x, y));
    case ExpressionOp::kDivide: return TUTTI_TWO_(C, C, Quotient(x, y));
    case ExpressionOp::kPower: return TUTTI_TWO_(C, C, std::pow(x, y));
    case ExpressionOp::kEqual: return TUTTI_TWO_(B, C, static_cast<B>(x == y));
    case ExpressionOp::kNotEqual: return TUTTI_TWO_(B, C, static_cast<B>(x != y));
    case ExpressionOp::kNegative: return TUTTI_ONE_(C, -x);
    case ExpressionOp::kSquare: return TUTTI_ONE_(C, Product(x, x));
    case ExpressionOp::kConjugate: return TUTTI_ONE_(C, std::conj(x));
    case ExpressionOp::kAbsolute: return TUTTI_ONE_(T, std::hypot(x.real(), x.imag()));
    case ExpressionOp::kAngle: return TUTTI_ONE_(T, std::atan2(x.imag(), x.real()));
    case ExpressionOp::kReal: return TUTTI_ONE_(T, x.real());
    case ExpressionOp::kImag: return TUTTI_ONE_(T, x.imag());
    case ExpressionOp::kSqrt: return TUTTI_ONE_(C, std::sqrt(x));
    case ExpressionOp::kExp: return TUTTI_ONE_(C, std::exp(x));
    case ExpressionOp::kLog: return TUTTI_ONE_(C, std::log(x));
    case ExpressionOp::kSin: return TUTTI_ONE_(C, std::sin(x));
    case ExpressionOp::kCos: return TUTTI_ONE_(C, std::cos(x));
    case ExpressionOp::kTan: return TUTTI_ONE_(C, std::tan(x));
    case ExpressionOp::kTanh: return TUTTI_ONE_(C, std::tanh(x));
    case ExpressionOp::kIsNan:
      return TUTTI_ONE_(B, static_cast<B>(std::isnan(x.real()) || std::isnan(x.imag())));
    case ExpressionOp::kIsInf:
      return TUTTI_ONE_(B, static_cast<B>(std::isinf(x.real()) || std::isinf(x.imag())));
    case ExpressionOp::kIsFinite:
      return TUTTI_ONE_(B, static_cast<B>(std::isfinite(x.real()) && std::isfinite(x.imag())));
    default: return nullptr;
  }
}

template <class T>
ElementKernel MakeOf() {
  using C = Complex<T>;
  return TUTTI_TWO_(C, T, C(x, y));
}

#undef TUTTI_ONE_
#undef TUTTI_TWO_

}  // namespace

ElementKernel FindComplexKernel(ExpressionOp op, DType dtype) {
  switch (dtype) {
    case DType::kComplex64: return KernelOf<float>(op);
    case DType::kComplex128: return KernelOf<double>(op);
    case DType::kFloat32: return op == ExpressionOp::kComplex ? MakeOf<float>() : nullptr;
    case DType::kFloat64: return op == ExpressionOp::kComplex ? MakeOf<double>() : nullptr;
    default: return nullptr;
  }
}

}  // namespace tutti
