// What may be converted at all is decided by the dtypes; whether each element fits, block by block
// in the widest type of its kind.
#include "core/tensor/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

constexpr int64_t kAtOnce = 256;

const void* ItemAt(const Tensor& dense, int64_t i) {
  return static_cast<const char*>(dense.data()) + static_cast<size_t>(i) * dense.item_size();
}

std::string NumberText(const Tensor& dense, int64_t i) {
  const void* item = ItemAt(dense, i);
  const Result<Ref<Tensor>> scalar =
      dense.dtype() == DType::kBytes
          ? Tensor::FromStrings(Shape(), {static_cast<const BytesView*>(item), 1})
          : Tensor::FromData(dense.dtype(), Shape(), item, dense.item_size());
  return scalar.ok() ? (*scalar)->ContentsToString() : "an element";
}

enum class Kind { kBool, kInteger, kFloat, kComplex, kBytes };

Kind KindOf(DType dtype) {
  if (dtype == DType::kBool) return Kind::kBool;
  if (IsInteger(dtype)) return Kind::kInteger;
  if (IsFloating(dtype)) return Kind::kFloat;
  return IsComplex(dtype) ? Kind::kComplex : Kind::kBytes;
}

std::string_view KindName(Kind kind) {
  static constexpr std::string_view kNames[] = {"a boolean", "an integer", "a float",
                                                "a complex number", "a byte string"};
  return kNames[static_cast<size_t>(kind)];
}

// Whether elements of one kind become elements of another, if they fit.
bool MayBecome(Kind from, Kind to) {
  if (from == to) return true;
  return from != Kind::kBytes && to != Kind::kBytes && to != Kind::kBool && from < to;
}

// The element that shows best what is lost on the way to integers: the first that is not whole.
int64_t LeastWhole(const Tensor& dense) {
  double block[kAtOnce];
  for (int64_t first = 0; first < dense.num_elements(); first += kAtOnce) {
    const int64_t n = std::min(kAtOnce, dense.num_elements() - first);
    CastElements(dense.dtype(), ItemAt(dense, first), DType::kFloat64, block, n);
    for (int64_t i = 0; i < n; ++i) {
      if (block[i] != std::trunc(block[i])) return first + i;
    }
  }
  return 0;
}

// The first element that the integer dtype `to` does not hold, or -1.
template <class Wide>
int64_t FirstBeyond(const Tensor& dense, Wide lowest, Wide highest) {
  Wide block[kAtOnce];
  for (int64_t first = 0; first < dense.num_elements(); first += kAtOnce) {
    const int64_t n = std::min(kAtOnce, dense.num_elements() - first);
    CastElements(dense.dtype(), ItemAt(dense, first), DTypeOf<Wide>, block, n);
    for (int64_t i = 0; i < n; ++i) {
      if (block[i] < lowest || block[i] > highest) return first + i;
    }
  }
  return -1;
}

int64_t FirstBeyondIntegers(const Tensor& dense, DType to) {
  return VisitDType(to, [&](auto tag) -> int64_t {
    using To = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<To>) {
      return -1;
    } else {
      using Limits = std::numeric_limits<To>;
      if (dense.dtype() == DType::kUint64) {
        return FirstBeyond<uint64_t>(dense, 0, static_cast<uint64_t>(Limits::max()));
      }
      if constexpr (std::is_same_v<To, uint64_t>) {
        return FirstBeyond<int64_t>(dense, 0, std::numeric_limits<int64_t>::max());
      } else {
        return FirstBeyond<int64_t>(dense, Limits::min(), Limits::max());
      }
    }
  });
}

// The first finite element that is infinite in `converted`, or -1. Parts of complex numbers count
// one by one.
int64_t FirstInfinite(const Tensor& dense, const Tensor& converted) {
  Complex128 before[kAtOnce];
  Complex128 after[kAtOnce];
  for (int64_t first = 0; first < dense.num_elements(); first += kAtOnce) {
    const int64_t n = std::min(kAtOnce, dense.num_elements() - first);
    CastElements(converted.dtype(), ItemAt(converted, first), DType::kComplex128, after, n);
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isinf(after[i].real) && !std::isinf(after[i].imag)) continue;
      CastElements(dense.dtype(), ItemAt(dense, first + i), DType::kComplex128, before, 1);
      const bool real = std::isinf(after[i].real) && std::isfinite(before[0].real);
      const bool imag = std::isinf(after[i].imag) && std::isfinite(before[0].imag);
      if (real || imag) return first + i;
    }
  }
  return -1;
}

// Whether a finite element may become infinite.
bool MayOverflow(DType from, DType to) {
  if (to == DType::kFloat16) return true;
  return !IsInteger(from) && from != DType::kBool && ItemSize(to) < ItemSize(from);
}

// Which dtype holds what `to` did not.
std::string_view WayOut(DType from, DType to) {
  if (KindOf(to) == Kind::kInteger) return DTypeName(from);
  return KindOf(to) == Kind::kComplex ? "complex128" : "float64";
}

Status DoesNotFit(const Tensor& dense, int64_t i, DType to) {
  const std::string_view way_out = WayOut(dense.dtype(), to);
  Status status = InvalidArgument("{} does not fit into {}; {} holds it (in Python np.{})",
                                  NumberText(dense, i), DTypeName(to), way_out, way_out);
  if (dense.rank() == 0) return status;
  return std::move(status).With("row", i / (dense.num_elements() / dense.dim(0)));
}

}  // namespace

Result<Ref<Tensor>> Convert(Ref<Tensor> tensor, DType to, const TensorOptions& options) {
  if (tensor->dtype() == to) return tensor;
  if (!IsValid(to)) return InvalidArgument("convert: {} is no dtype", static_cast<int32_t>(to));
  if (tensor->num_elements() == 0) return Tensor::Create(to, tensor->shape(), options);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> dense, tensor->Contiguous());
  const Kind from_kind = KindOf(tensor->dtype());
  const Kind to_kind = KindOf(to);
  if (!MayBecome(from_kind, to_kind)) {
    return InvalidArgument("{} is {}, which never becomes {}; give {}, or declare {}",
                           NumberText(*dense, from_kind == Kind::kFloat ? LeastWhole(*dense) : 0),
                           KindName(from_kind), KindName(to_kind), DTypeName(to),
                           DTypeName(tensor->dtype()));
  }
  if (to_kind == Kind::kInteger && from_kind == Kind::kInteger) {
    const int64_t beyond = FirstBeyondIntegers(*dense, to);
    if (beyond >= 0) return DoesNotFit(*dense, beyond, to);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> converted, Cast(*dense, to, options));
  if (to_kind != Kind::kInteger && MayOverflow(tensor->dtype(), to)) {
    const int64_t infinite = FirstInfinite(*dense, *converted);
    if (infinite >= 0) return DoesNotFit(*dense, infinite, to);
  }
  return converted;
}

}  // namespace tutti
