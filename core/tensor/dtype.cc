// Names of dtypes, in the order of their numbers.
#include "core/tensor/dtype.h"

namespace tutti {
namespace {

constexpr std::string_view kNames[] = {
    "invalid", "bool",     "int8",    "int16",   "int32",     "int64",
    "uint8",   "uint16",   "uint32",  "uint64",  "float16",   "bfloat16",
    "float32", "float64",  "complex64", "complex128", "bytes"};

}  // namespace

std::string_view DTypeName(DType dtype) {
  return IsValid(dtype) ? kNames[static_cast<int32_t>(dtype)] : kNames[0];
}

DType DTypeFromName(std::string_view name) {
  for (int32_t number = 1; number <= static_cast<int32_t>(DType::kBytes); ++number) {
    if (kNames[number] == name) return static_cast<DType>(number);
  }
  if (name == "string") return DType::kBytes;
  if (name == "half") return DType::kFloat16;
  return DType::kInvalid;
}

}  // namespace tutti
