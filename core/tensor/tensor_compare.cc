// Equality of contents, over any strides.
#include <cmath>
#include <type_traits>

#include "core/tensor/half.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

template <class T>
bool ItemsEqual(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, BytesView>) {
    return a.text() == b.text();
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return ItemsEqual(ToFloat(a), ToFloat(b));
  } else if constexpr (std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>) {
    return ItemsEqual(a.real, b.real) && ItemsEqual(a.imag, b.imag);
  } else if constexpr (std::is_floating_point_v<T>) {
    return a == b || (std::isnan(a) && std::isnan(b));
  } else {
    return a == b;
  }
}

}  // namespace

bool Tensor::ContentsEqual(const Tensor& other) const {
  if (dtype_ != other.dtype_ || !(shape_ == other.shape_)) return false;
  const bool bitwise = !IsFloating(dtype_) && !IsComplex(dtype_) && dtype_ != DType::kBytes;
  if (num_elements() == 0) return true;
  if (bitwise && contiguous_ && other.contiguous_) {
    return std::memcmp(data_, other.data_, byte_size()) == 0;
  }
  return VisitDType(dtype_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < num_elements(); ++i) {
      if (!ItemsEqual(*static_cast<const T*>(ElementAt(i)),
                      *static_cast<const T*>(other.ElementAt(i)))) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace tutti
