// Element-wise arithmetic in blocks: operands are taken into local arrays, so that the result may
// replace one of them.
#include "core/tensor/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/base/error.h"
#include "core/tensor/cast.h"
#include "core/tensor/copy.h"
#include "core/tensor/half_convert.h"
#include "core/tensor/simd.h"

namespace tutti {
namespace {

using tensor_internal::RunBest;

template <class T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

// Smith's division, which does not overflow where the quotient does not.
template <class T>
T DivideComplex(T a, T b) {
  if (std::abs(b.real) >= std::abs(b.imag)) {
    const auto ratio = b.imag / b.real;
    const auto scale = b.real + b.imag * ratio;
    return T{(a.real + a.imag * ratio) / scale, (a.imag - a.real * ratio) / scale};
  }
  const auto ratio = b.real / b.imag;
  const auto scale = b.real * ratio + b.imag;
  return T{(a.real * ratio + a.imag) / scale, (a.imag * ratio - a.real) / scale};
}

struct Add {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else if constexpr (kIsComplex<T>) {
      return T{a.real + b.real, a.imag + b.imag};
    } else {
      return a + b;
    }
  }
};

struct Sub {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    } else if constexpr (kIsComplex<T>) {
      return T{a.real - b.real, a.imag - b.imag};
    } else {
      return a - b;
    }
  }
};

struct Mul {
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
};

struct Div {
  template <class T>
  static TUTTI_ALWAYS_INLINE T Apply(T a, T b) {
    if constexpr (kIsComplex<T>) {
      return DivideComplex(a, b);
    } else if constexpr (std::is_integral_v<T>) {
      // The smallest integer by -1 wraps, as its negation does. That b is not 0 has been checked.
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return Sub::Apply(T{0}, a);
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};

template <class T, class Op, bool kScalar>
struct BinaryKernel {
  static TUTTI_ALWAYS_INLINE void Run(const void* a_data, const void* b_data, void* out_data,
                                      int64_t n) {
    constexpr int kBlock = 512 / sizeof(T);
    const T* a = static_cast<const T*>(a_data);
    const T* b = static_cast<const T*>(b_data);
    T* out = static_cast<T*>(out_data);
    const T scalar = n > 0 ? b[0] : T{};
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
      T block[kBlock];
      for (int j = 0; j < kBlock; ++j) {
        block[j] = Op::Apply(a[i + j], kScalar ? scalar : b[i + j]);
      }
      for (int j = 0; j < kBlock; ++j) out[i + j] = block[j];
    }
    for (; i < n; ++i) out[i] = Op::Apply(a[i], kScalar ? scalar : b[i]);
  }
};

template <class T, class Op, bool kScalar>
void RunTyped(const void* a, const void* b, void* out, int64_t n) {
  if constexpr (kIsHalf<T>) {
    constexpr int64_t kBlock = 512;
    float left[kBlock];
    float right[kBlock];
    ConvertToFloat(static_cast<const T*>(b), right, kScalar ? 1 : 0);
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t size = std::min(kBlock, n - i);
      ConvertToFloat(static_cast<const T*>(a) + i, left, size);
      if constexpr (!kScalar) ConvertToFloat(static_cast<const T*>(b) + i, right, size);
      RunTyped<float, Op, kScalar>(left, right, left, size);
      ConvertFromFloat(left, static_cast<T*>(out) + i, size);
    }
  } else {
    RunBest<BinaryKernel<T, Op, kScalar>>(a, b, out, n);
  }
}

template <class T, bool kScalar>
void RunOp(BinaryOp op, const void* a, const void* b, void* out, int64_t n) {
  switch (op) {
    case BinaryOp::kAdd: return RunTyped<T, Add, kScalar>(a, b, out, n);
    case BinaryOp::kSub: return RunTyped<T, Sub, kScalar>(a, b, out, n);
    case BinaryOp::kMul: return RunTyped<T, Mul, kScalar>(a, b, out, n);
    case BinaryOp::kDiv: return RunTyped<T, Div, kScalar>(a, b, out, n);
  }
}

Status CheckOperands(std::string_view what, DType dtype) {
  if (IsNumeric(dtype)) return OkStatus();
  return InvalidArgument("{}: not defined for {}; it takes numbers", what, DTypeName(dtype));
}

// Integers have no infinity to answer with.
Status CheckDivisors(BinaryOp op, DType dtype, const void* b, int64_t n) {
  if (op != BinaryOp::kDiv || !IsInteger(dtype)) return OkStatus();
  return VisitDType(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      const T* divisors = static_cast<const T*>(b);
      const T* zero = std::find(divisors, divisors + n, T{0});
      if (zero != divisors + n) {
        return InvalidArgument("div: element {} of the divisor, of dtype {}, is 0", zero - divisors,
                               DTypeName(dtype))
            .With("index", zero - divisors);
      }
    }
    return OkStatus();
  });
}

template <bool kScalar>
Status RunAny(BinaryOp op, DType dtype, const void* a, const void* b, void* out, int64_t n) {
  TUTTI_RETURN_IF_ERROR(CheckOperands(BinaryOpName(op), dtype));
  if (n == 0) return OkStatus();
  TUTTI_RETURN_IF_ERROR(CheckDivisors(op, dtype, b, kScalar ? 1 : n));
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, BytesView>) {
      RunOp<T, kScalar>(op, a, b, out, n);
    }
  });
  return OkStatus();
}

Status CheckShapes(BinaryOp op, const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && (a.shape() == b.shape() || b.shape().is_scalar())) {
    return OkStatus();
  }
  return InvalidArgument("{}: {} and {}; dtypes and shapes must be equal, or the second a scalar",
                         BinaryOpName(op), a.SpecString(), b.SpecString());
}

// a op b into `out`, which is dense and of a's shape.
Status RunOnTensors(BinaryOp op, const Tensor& a, const Tensor& b, void* out) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense_a, a.Contiguous());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense_b, b.Contiguous());
  const bool is_scalar = b.shape().is_scalar() && !a.shape().is_scalar();
  return is_scalar ? BinaryScalarElements(op, a.dtype(), dense_a->data(), dense_b->data(), out,
                                          a.num_elements())
                   : BinaryElements(op, a.dtype(), dense_a->data(), dense_b->data(), out,
                                    a.num_elements());
}

Status CheckWritable(std::string_view what, const Tensor& tensor) {
  if (!tensor.read_only()) return OkStatus();
  return FailedPrecondition("{}: {} is read-only", what, tensor.SpecString());
}

// Runs `write`, which fills dense elements of the tensor's dtype, on the tensor or, when that has
// gaps, on a copy.
template <class Write>
Status WriteDense(Tensor* tensor, Write write) {
  if (tensor->is_contiguous()) return write(tensor->mutable_data());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense,
                         Tensor::Create(tensor->dtype(), tensor->shape(), TensorOptions()));
  TUTTI_RETURN_IF_ERROR(write(dense->mutable_data()));
  return CopyInto(*dense, tensor);
}

}  // namespace

std::string_view BinaryOpName(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd: return "add";
    case BinaryOp::kSub: return "sub";
    case BinaryOp::kMul: return "mul";
    case BinaryOp::kDiv: return "div";
  }
  return "invalid";
}

Status BinaryElements(BinaryOp op, DType dtype, const void* a, const void* b, void* out,
                      int64_t n) {
  return RunAny<false>(op, dtype, a, b, out, n);
}

Status BinaryScalarElements(BinaryOp op, DType dtype, const void* a, const void* b, void* out,
                            int64_t n) {
  return RunAny<true>(op, dtype, a, b, out, n);
}

Status ScaleElements(DType dtype, const void* a, double factor, void* out, int64_t n) {
  TUTTI_RETURN_IF_ERROR(CheckOperands("scale", dtype));
  if (n == 0) return OkStatus();
  if (dtype == DType::kComplex64) return ScaleElements(DType::kFloat32, a, factor, out, 2 * n);
  if (dtype == DType::kComplex128) return ScaleElements(DType::kFloat64, a, factor, out, 2 * n);
  if (dtype == DType::kFloat64) {
    return BinaryScalarElements(BinaryOp::kMul, dtype, a, &factor, out, n);
  }
  if (dtype == DType::kFloat32) {
    const auto narrow = static_cast<float>(factor);
    return BinaryScalarElements(BinaryOp::kMul, dtype, a, &narrow, out, n);
  }
  // 16-bit floats in float, so that the factor is not rounded to 16 bits; integers in double.
  constexpr int64_t kBlock = 512;
  const DType wide = IsFloating(dtype) ? DType::kFloat32 : DType::kFloat64;
  alignas(64) char block[kBlock * sizeof(double)];
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t size = std::min(kBlock, n - i);
    CastElements(dtype, static_cast<const char*>(a) + i * item, wide, block, size);
    TUTTI_RETURN_IF_ERROR(ScaleElements(wide, block, factor, block, size));
    CastElements(wide, block, dtype, static_cast<char*>(out) + i * item, size);
  }
  return OkStatus();
}

Result<Ref<Tensor>> Binary(BinaryOp op, const Tensor& a, const Tensor& b,
                           const TensorOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckShapes(op, a, b));
  TUTTI_RETURN_IF_ERROR(CheckOperands(BinaryOpName(op), a.dtype()));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(a.dtype(), a.shape(), Unzeroed(options)));
  TUTTI_RETURN_IF_ERROR(RunOnTensors(op, a, b, out->mutable_data()));
  return out;
}

Status BinaryInPlace(BinaryOp op, Tensor* a, const Tensor& b) {
  TUTTI_RETURN_IF_ERROR(CheckShapes(op, *a, b));
  TUTTI_RETURN_IF_ERROR(CheckWritable(BinaryOpName(op), *a));
  return WriteDense(a, [&](void* out) { return RunOnTensors(op, *a, b, out); });
}

Result<Ref<Tensor>> Scale(const Tensor& tensor, double factor, const TensorOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckOperands("scale", tensor.dtype()));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense, tensor.Contiguous());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                         Tensor::Create(tensor.dtype(), tensor.shape(), Unzeroed(options)));
  TUTTI_RETURN_IF_ERROR(ScaleElements(tensor.dtype(), dense->data(), factor, out->mutable_data(),
                                      tensor.num_elements()));
  return out;
}

Status ScaleInPlace(Tensor* tensor, double factor) {
  TUTTI_RETURN_IF_ERROR(CheckWritable("scale", *tensor));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense, tensor->Contiguous());
  return WriteDense(tensor, [&](void* out) {
    return ScaleElements(tensor->dtype(), dense->data(), factor, out, tensor->num_elements());
  });
}

}  // namespace tutti
