// The safetensors format: what its writer and its reader share.
//
//   8 bytes       N, the length of the header, little-endian
//   N bytes       a JSON object, padded with spaces to a multiple of 8:
//                 {"__metadata__": {"key": "value", ...},
//                  "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//   the rest      the data, little-endian, row-major; offsets count from its first byte, and the
//                 tensors cover it without gaps or overlaps
//
// (https://github.com/huggingface/safetensors.) The format has no complex numbers and no byte
// strings. A tensor of those is written so that any reader can use it, and a metadata entry
// "tutti:<name>" tells ours what it was:
//
//   complex64[2]   "w" is F32 [2, 2], the last axis real and imaginary part; "tutti:w" is "complex"
//   bytes[2,3]     "s" is U8 [total bytes], all strings one after the other; "s.offsets" is I64
//                  [7], string i going from offsets[i] to offsets[i + 1]; "tutti:s" is "bytes 2,3"
#ifndef TUTTI_CORE_CHECKPOINT_SAFETENSORS_H_
#define TUTTI_CORE_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tutti {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
// The bound that other readers of the format have, too.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";
inline constexpr std::string_view kSafetensorsKindPrefix = "tutti:";
inline constexpr std::string_view kSafetensorsOffsetsSuffix = ".offsets";

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kInvalid;  // kInvalid: one that we do not have
  std::string dtype_name;         // "F32"
  Shape shape;
  uint64_t begin = 0;  // in the data
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the data
  std::map<std::string, std::string, std::less<>> metadata;
};

// "F32"; empty for dtypes that the format does not have. kInvalid for unknown names.
std::string_view SafetensorsDTypeName(DType dtype);
DType SafetensorsDTypeFromName(std::string_view name);

// The JSON with its padding.
std::string EncodeSafetensorsHeader(const SafetensorsHeader& header);
// Trusts nothing: `json` may be any bytes. `data_bytes` is the size of the data that follows.
// DATA_LOSS when the header promises more or less, INVALID_ARGUMENT when it is no header; both say
// why, without naming the file.
Result<SafetensorsHeader> DecodeSafetensorsHeader(std::string_view json, uint64_t data_bytes);

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_SAFETENSORS_H_
