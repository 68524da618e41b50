// CRC-32C (Castagnoli), by the processor's own instruction where there is one, and TFRecord's
// masked form.

#ifndef TUTTI_CORE_BASE_CRC32C_H_
#define TUTTI_CORE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace tutti {

// The checksum of a ++ b is ExtendCrc32c(Crc32c(a), b).
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t bytes) noexcept;
inline uint32_t Crc32c(const void* data, size_t bytes) noexcept {
  return ExtendCrc32c(0, data, bytes);
}

// The portable version, for comparison.
uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t bytes) noexcept;
// "sse4.2", "arm" or "table".
const char* Crc32cImplementation() noexcept;

// TFRecord stores checksums masked, so that data containing checksums keeps good checksums itself.
constexpr uint32_t MaskCrc32c(uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
constexpr uint32_t UnmaskCrc32c(uint32_t masked) noexcept {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_CRC32C_H_
