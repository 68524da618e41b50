// Writes tf.train.Example messages byte by byte, well-formed or not, for tests and benchmarks.
#ifndef TUTTI_CORE_DATASET_TESTING_EXAMPLE_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_EXAMPLE_TESTING_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::wire {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
inline std::string Tag(uint32_t field, uint32_t type) { return Varint(field << 3 | type); }
// A length-delimited field.
inline std::string Part(uint32_t field, std::string_view bytes) {
  return Tag(field, 2) + Varint(bytes.size()) + std::string(bytes);
}
inline std::string Float(float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

// Feature messages.
inline std::string Int64s(const std::vector<int64_t>& values, bool packed = true) {
  std::string list;
  for (const int64_t value : values) {
    if (!packed) list += Tag(1, 0);
    list += Varint(static_cast<uint64_t>(value));
  }
  return Part(3, packed ? Part(1, list) : list);
}
inline std::string Floats(const std::vector<float>& values, bool packed = true) {
  std::string list;
  for (const float value : values) {
    if (!packed) list += Tag(1, 5);
    list += Float(value);
  }
  return Part(2, packed ? Part(1, list) : list);
}
inline std::string Strings(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += Part(1, value);
  return Part(1, list);
}

// One entry of Features' map.
inline std::string Entry(std::string_view key, std::string_view feature) {
  return Part(1, Part(1, key) + Part(2, feature));
}
// An Example of such entries.
inline std::string Example(std::string_view entries) { return Part(1, entries); }

}  // namespace tutti::wire

#endif  // TUTTI_CORE_DATASET_TESTING_EXAMPLE_TESTING_H_
