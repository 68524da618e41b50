// Element types of tensors: their numbers (the same as TUTTI_DTYPE_* of the C interface, and never
// renumbered), sizes, names, and the C++ type that stands for each.
//
//   ItemSize(DType::kFloat32)          // 4
//   DTypeName(DType::kBfloat16)        // "bfloat16"
//   DTypeOf<int64_t>                   // DType::kInt64
//   VisitDType(dtype, [&](auto tag) { using T = typename decltype(tag)::type; ... });
#ifndef TUTTI_CORE_TENSOR_DTYPE_H_
#define TUTTI_CORE_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tutti {

enum class DType : int32_t {
  kInvalid = 0,
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kBfloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBytes = 16,
};

// IEEE binary16 and bfloat16 as they lie in memory; half.h converts them.
struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// Laid out as C's `float _Complex` and std::complex<float>.
struct Complex64 {
  float real;
  float imag;
};
struct Complex128 {
  double real;
  double imag;
};

// An element of a bytes tensor, laid out as tutti_string_view. The payload belongs to whoever the
// tensor names as owner.
struct BytesView {
  const char* data;
  size_t size;

  std::string_view text() const { return {data, size}; }
};

// Bytes per element; 0 for kInvalid and for numbers that are no dtype.
constexpr size_t ItemSize(DType dtype) {
  constexpr uint8_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, sizeof(BytesView)};
  const auto number = static_cast<uint32_t>(dtype);
  return number < sizeof(kSizes) ? kSizes[number] : 0;
}

// "float32", "bool", "bytes"; "invalid" for everything that is no dtype. NUL-terminated, static.
std::string_view DTypeName(DType dtype);

// The inverse of DTypeName, which also knows "string" for bytes and "half"; kInvalid for unknown
// names.
DType DTypeFromName(std::string_view name);

constexpr bool IsValid(DType dtype) { return ItemSize(dtype) != 0; }
constexpr bool IsSignedInteger(DType dtype) {
  return dtype >= DType::kInt8 && dtype <= DType::kInt64;
}
constexpr bool IsUnsignedInteger(DType dtype) {
  return dtype >= DType::kUint8 && dtype <= DType::kUint64;
}
constexpr bool IsInteger(DType dtype) {
  return IsSignedInteger(dtype) || IsUnsignedInteger(dtype);
}
constexpr bool IsFloating(DType dtype) {
  return dtype >= DType::kFloat16 && dtype <= DType::kFloat64;
}
constexpr bool IsComplex(DType dtype) {
  return dtype == DType::kComplex64 || dtype == DType::kComplex128;
}
// Integers, floats and complex numbers: neither bool nor bytes.
constexpr bool IsNumeric(DType dtype) {
  return IsInteger(dtype) || IsFloating(dtype) || IsComplex(dtype);
}

namespace tensor_internal {
template <class T>
struct DTypeOfImpl;
}  // namespace tensor_internal

// The dtype whose elements are T.
template <class T>
inline constexpr DType DTypeOf = tensor_internal::DTypeOfImpl<T>::value;

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
template <class T>
inline constexpr bool kIsComplex = std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>;

// Calls visitor(TypeTag<T>{}) with the C++ type of `dtype`, which must be valid; all calls return
// the same type.
template <class Visitor>
decltype(auto) VisitDType(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kBool: return visitor(TypeTag<bool>{});
    case DType::kInt8: return visitor(TypeTag<int8_t>{});
    case DType::kInt16: return visitor(TypeTag<int16_t>{});
    case DType::kInt32: return visitor(TypeTag<int32_t>{});
    case DType::kInt64: return visitor(TypeTag<int64_t>{});
    case DType::kUint8: return visitor(TypeTag<uint8_t>{});
    case DType::kUint16: return visitor(TypeTag<uint16_t>{});
    case DType::kUint32: return visitor(TypeTag<uint32_t>{});
    case DType::kUint64: return visitor(TypeTag<uint64_t>{});
    case DType::kFloat16: return visitor(TypeTag<Float16>{});
    case DType::kBfloat16: return visitor(TypeTag<Bfloat16>{});
    case DType::kFloat32: return visitor(TypeTag<float>{});
    case DType::kFloat64: return visitor(TypeTag<double>{});
    case DType::kComplex64: return visitor(TypeTag<Complex64>{});
    case DType::kComplex128: return visitor(TypeTag<Complex128>{});
    case DType::kBytes: return visitor(TypeTag<BytesView>{});
    case DType::kInvalid: break;
  }
  __builtin_unreachable();
}

namespace tensor_internal {
template <> struct DTypeOfImpl<bool> { static constexpr DType value = DType::kBool; };
template <> struct DTypeOfImpl<int8_t> { static constexpr DType value = DType::kInt8; };
template <> struct DTypeOfImpl<int16_t> { static constexpr DType value = DType::kInt16; };
template <> struct DTypeOfImpl<int32_t> { static constexpr DType value = DType::kInt32; };
template <> struct DTypeOfImpl<int64_t> { static constexpr DType value = DType::kInt64; };
template <> struct DTypeOfImpl<uint8_t> { static constexpr DType value = DType::kUint8; };
template <> struct DTypeOfImpl<uint16_t> { static constexpr DType value = DType::kUint16; };
template <> struct DTypeOfImpl<uint32_t> { static constexpr DType value = DType::kUint32; };
template <> struct DTypeOfImpl<uint64_t> { static constexpr DType value = DType::kUint64; };
template <> struct DTypeOfImpl<Float16> { static constexpr DType value = DType::kFloat16; };
template <> struct DTypeOfImpl<Bfloat16> { static constexpr DType value = DType::kBfloat16; };
template <> struct DTypeOfImpl<float> { static constexpr DType value = DType::kFloat32; };
template <> struct DTypeOfImpl<double> { static constexpr DType value = DType::kFloat64; };
template <> struct DTypeOfImpl<Complex64> { static constexpr DType value = DType::kComplex64; };
template <> struct DTypeOfImpl<Complex128> { static constexpr DType value = DType::kComplex128; };
template <> struct DTypeOfImpl<BytesView> { static constexpr DType value = DType::kBytes; };
}  // namespace tensor_internal

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_DTYPE_H_
