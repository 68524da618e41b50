// CRC-32C three ways: the instruction of SSE4.2, that of ARMv8, and eight tables.
//
// The instruction has a latency of three cycles and a throughput of one, so three streams run
// interleaved: the input is cut into three blocks of equal size, each gets a checksum of its own,
// and the three are joined. Appending n zero bytes to a message multiplies its remainder by x^(8n)
// modulo the polynomial; for the fixed block sizes that product comes from tables of 4 x 256
// entries. (The idea is that of Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using
// CRC32 Instruction", Intel, 2011.)

#include "core/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define TUTTI_CRC32C_TARGET __attribute__((target("+crc")))
#elif defined(__x86_64__)
#include <nmmintrin.h>
#define TUTTI_CRC32C_TARGET __attribute__((target("sse4.2")))
#endif

static_assert(std::endian::native == std::endian::little);

namespace tutti {
namespace {

// The Castagnoli polynomial with its bits reversed: bit 31 stands for x^0.
constexpr uint32_t kPolynomial = 0x82f63b78u;

using Table = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: the remainder of byte b followed by k zero bytes.
constexpr Table MakeSlicingTables() {
  Table tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr Table kSlicing = MakeSlicingTables();

uint64_t Load64(const unsigned char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

#ifdef TUTTI_CRC32C_TARGET

constexpr uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t mask = 1u << 31; mask != 0; mask >>= 1) {
    if ((a & mask) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

constexpr uint32_t PowerOfX(uint64_t exponent) {
  uint32_t result = 1u << 31;  // x^0
  for (uint32_t square = 1u << 30; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = MultiplyModulo(result, square);
    square = MultiplyModulo(square, square);
  }
  return result;
}

using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;

// The product of a remainder and x^(8 * bytes), byte by byte of the remainder.
constexpr ShiftTable MakeShiftTable(uint64_t bytes) {
  ShiftTable table{};
  const uint32_t factor = PowerOfX(8 * bytes);
  for (uint32_t k = 0; k < 4; ++k) {
    for (uint32_t byte = 1; byte < 256; ++byte) {
      // Products are linear: all but the powers of two are sums of two smaller ones.
      const uint32_t low = byte & (byte - 1);
      table[k][byte] = low == 0 ? MultiplyModulo(factor, byte << (8 * k))
                                : table[k][low] ^ table[k][byte ^ low];
    }
  }
  return table;
}

uint32_t Shift(const ShiftTable& table, uint32_t crc) {
  return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^
         table[3][crc >> 24];
}

TUTTI_CRC32C_TARGET inline uint32_t Step8(uint32_t crc, uint64_t word) {
#if defined(__x86_64__)
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
#else
  return __builtin_aarch64_crc32cx(crc, word);
#endif
}

TUTTI_CRC32C_TARGET inline uint32_t Step1(uint32_t crc, unsigned char byte) {
#if defined(__x86_64__)
  return _mm_crc32_u8(crc, byte);
#else
  return __builtin_aarch64_crc32cb(crc, byte);
#endif
}

template <size_t kBlockBytes>
TUTTI_CRC32C_TARGET uint32_t ThreeStreams(uint32_t crc, const unsigned char*& p, size_t& bytes) {
  static constexpr ShiftTable kShift = MakeShiftTable(kBlockBytes);
  while (bytes >= 3 * kBlockBytes) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < kBlockBytes; i += 8) {
      crc = Step8(crc, Load64(p + i));
      second = Step8(second, Load64(p + kBlockBytes + i));
      third = Step8(third, Load64(p + 2 * kBlockBytes + i));
    }
    crc = Shift(kShift, crc) ^ second;
    crc = Shift(kShift, crc) ^ third;
    p += 3 * kBlockBytes;
    bytes -= 3 * kBlockBytes;
  }
  return crc;
}

TUTTI_CRC32C_TARGET uint32_t ExtendByInstruction(uint32_t crc, const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  crc = ThreeStreams<4096>(crc, p, bytes);
  crc = ThreeStreams<512>(crc, p, bytes);
  crc = ThreeStreams<64>(crc, p, bytes);
  for (; bytes >= 8; bytes -= 8, p += 8) crc = Step8(crc, Load64(p));
  for (; bytes > 0; --bytes, ++p) crc = Step1(crc, *p);
  return ~crc;
}

bool HasInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

#endif  // TUTTI_CRC32C_TARGET

using Extend = uint32_t (*)(uint32_t, const void*, size_t);

Extend ChooseImplementation() {
#ifdef TUTTI_CRC32C_TARGET
  if (HasInstruction()) return &ExtendByInstruction;
#endif
  return &ExtendCrc32cByTable;
}

Extend Implementation() {
  static const Extend chosen = ChooseImplementation();
  return chosen;
}

}  // namespace

uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t bytes) noexcept {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    const uint64_t word = Load64(p) ^ crc;
    crc = kSlicing[7][word & 0xff] ^ kSlicing[6][(word >> 8) & 0xff] ^
          kSlicing[5][(word >> 16) & 0xff] ^ kSlicing[4][(word >> 24) & 0xff] ^
          kSlicing[3][(word >> 32) & 0xff] ^ kSlicing[2][(word >> 40) & 0xff] ^
          kSlicing[1][(word >> 48) & 0xff] ^ kSlicing[0][word >> 56];
  }
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ kSlicing[0][(crc ^ *p) & 0xff];
  return ~crc;
}

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t bytes) noexcept {
  return Implementation()(crc, data, bytes);
}

const char* Crc32cImplementation() noexcept {
  if (Implementation() == &ExtendCrc32cByTable) return "table";
#if defined(__x86_64__)
  return "sse4.2";
#else
  return "arm";
#endif
}

}  // namespace tutti
