#include "core/tensor/stateless_random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/tensor/half.h"

namespace tutti {
namespace {

using Block = PhiloxStream::Block;

Block Philox(Block counter, uint32_t key0, uint32_t key1) {
  constexpr uint64_t kA = 0xD2511F53;
  constexpr uint64_t kB = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kA * counter[0];
    const uint64_t b = kB * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

float UniformFloat(uint32_t word) {
  return std::bit_cast<float>((uint32_t{127} << 23) | (word & 0x7fffff)) - 1.0f;
}

double UniformDouble(uint32_t first, uint32_t second) {
  const uint64_t fraction = (uint64_t{first & 0xfffff} << 32) | second;
  return std::bit_cast<double>((uint64_t{1023} << 52) | fraction) - 1.0;
}

uint64_t Wide(uint32_t first, uint32_t second) { return (uint64_t{second} << 32) | first; }

constexpr float kSmallestUniform = 1.0e-7f;

void NormalFloats(const Block& words, float* out) {
  for (size_t i = 0; i < 4; i += 2) {
    const float u = std::max(UniformFloat(words[i]), kSmallestUniform);
    const auto angle = static_cast<float>(2.0 * M_PI * double{UniformFloat(words[i + 1])});
    const float radius = std::sqrt(-2.0f * std::log(u));
    out[i] = std::sin(angle) * radius;
    out[i + 1] = std::cos(angle) * radius;
  }
}

void NormalDoubles(const Block& words, double* out) {
  const double u = std::max(UniformDouble(words[0], words[1]), 1.0e-7);
  const double angle = 2.0 * M_PI * UniformDouble(words[2], words[3]);
  const double radius = std::sqrt(-2.0 * std::log(u));
  out[0] = std::sin(angle) * radius;
  out[1] = std::cos(angle) * radius;
}

// make(words, numbers) makes as many numbers of each block as a block has words of T's size.
template <class T, class Make>
void Fill(const PhiloxStream& stream, int64_t n, void* out, Make make) {
  constexpr int64_t kEach = sizeof(T) == 8 ? 2 : 4;
  auto* to = static_cast<T*>(out);
  T numbers[4];
  for (int64_t i = 0; i < n; i += kEach) {
    make(stream.At(static_cast<uint64_t>(i / kEach)), numbers);
    std::copy_n(numbers, std::min(kEach, n - i), to + i);
  }
}

// Wide is what normal numbers are computed in, of which make(words, numbers) makes those of a
// block; round makes a T of one.
template <class T, class Wide, class Make, class Round>
void FillTruncated(const PhiloxStream& stream, int64_t n, void* out, Make make, Round round) {
  constexpr int64_t kEach = sizeof(Wide) == 8 ? 2 : 4;
  constexpr uint64_t kReserved = 64 * kEach;  // blocks, of which hardly more than two are read
  auto* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; i += kEach) {
    const int64_t wanted = std::min(kEach, n - i);
    int64_t found = 0;
    uint64_t block = static_cast<uint64_t>(i / kEach) * kReserved;
    while (found < wanted) {
      Wide numbers[kEach];
      make(stream.At(block++), numbers);
      for (int64_t k = 0; k < kEach && found < wanted; ++k) {
        if (std::abs(numbers[k]) < Wide{2}) to[i + found++] = round(numbers[k]);
      }
    }
  }
}

template <class T, class Of32, class Of64>
void FillIntegers(const PhiloxStream& stream, int64_t n, void* out, Of32 of32, Of64 of64) {
  Fill<T>(stream, n, out, [&](const Block& words, T* numbers) {
    if constexpr (sizeof(T) == 8) {
      for (size_t i = 0; i < 2; ++i) {
        numbers[i] = static_cast<T>(of64(Wide(words[2 * i], words[2 * i + 1])));
      }
    } else {
      for (size_t i = 0; i < 4; ++i) numbers[i] = static_cast<T>(of32(words[i]));
    }
  });
}

template <class T>
bool FillRange(const PhiloxStream& stream, const void* low, const void* high, int64_t n,
               void* out) {
  T from;
  T to;
  std::memcpy(&from, low, sizeof(T));
  std::memcpy(&to, high, sizeof(T));
  if (from >= to) return false;
  using Unsigned = std::make_unsigned_t<T>;
  const auto begin = static_cast<Unsigned>(from);
  const auto range = static_cast<Unsigned>(static_cast<Unsigned>(to) - begin);
  const auto drawn = [&](auto bits) {
    return static_cast<Unsigned>(begin + static_cast<Unsigned>(bits) % range);
  };
  FillIntegers<T>(stream, n, out, drawn, drawn);
  return true;
}

}  // namespace

PhiloxStream::PhiloxStream(const int64_t seed[2]) {
  const auto first = static_cast<uint64_t>(seed[0]);
  const auto second = static_cast<uint64_t>(seed[1]);
  const Block mixed =
      Philox({Low(first), High(first), Low(second), High(second)}, 0x3EC8F720, 0x02461E29);
  key_[0] = mixed[0];
  key_[1] = mixed[1];
  high_[0] = mixed[2];
  high_[1] = mixed[3];
}

PhiloxStream::Block PhiloxStream::At(uint64_t number) const {
  return Philox({Low(number), High(number), high_[0], high_[1]}, key_[0], key_[1]);
}

bool HasRandomFloats(DType dtype) { return IsFloating(dtype); }

bool HasRandomIntegers(DType dtype) { return IsInteger(dtype) && ItemSize(dtype) >= 4; }

void FillRandomUniform(const PhiloxStream& stream, DType dtype, int64_t n, void* out) {
  switch (dtype) {
    case DType::kFloat64:
      return Fill<double>(stream, n, out, [](const Block& words, double* numbers) {
        for (size_t i = 0; i < 2; ++i) {
          numbers[i] = UniformDouble(words[2 * i], words[2 * i + 1]);
        }
      });
    case DType::kFloat16:
      return Fill<Float16>(stream, n, out, [](const Block& words, Float16* numbers) {
        for (size_t i = 0; i < 4; ++i) {
          const uint32_t bits = (uint32_t{15} << 10) | (words[i] & 0x3ff);
          numbers[i] = ToFloat16(ToFloat(Float16{static_cast<uint16_t>(bits)}) - 1.0f);
        }
      });
    case DType::kBfloat16:
      return Fill<Bfloat16>(stream, n, out, [](const Block& words, Bfloat16* numbers) {
        for (size_t i = 0; i < 4; ++i) {
          const uint32_t bits = (uint32_t{127} << 7) | (words[i] & 0x7f);
          numbers[i] = ToBfloat16(ToFloat(Bfloat16{static_cast<uint16_t>(bits)}) - 1.0f);
        }
      });
    default:
      return Fill<float>(stream, n, out, [](const Block& words, float* numbers) {
        for (size_t i = 0; i < 4; ++i) numbers[i] = UniformFloat(words[i]);
      });
  }
}

void FillRandomNormal(const PhiloxStream& stream, DType dtype, int64_t n, void* out) {
  const auto rounded = [&]<class T>(T (*round)(float)) {
    Fill<T>(stream, n, out, [&](const Block& words, T* numbers) {
      float wide[4];
      NormalFloats(words, wide);
      for (size_t i = 0; i < 4; ++i) numbers[i] = round(wide[i]);
    });
  };
  switch (dtype) {
    case DType::kFloat64:
      return Fill<double>(stream, n, out, NormalDoubles);
    case DType::kFloat16: return rounded.template operator()<Float16>(ToFloat16);
    case DType::kBfloat16: return rounded.template operator()<Bfloat16>(ToBfloat16);
    default: return Fill<float>(stream, n, out, NormalFloats);
  }
}

void FillRandomTruncatedNormal(const PhiloxStream& stream, DType dtype, int64_t n, void* out) {
  const auto same = [](auto number) { return number; };
  switch (dtype) {
    case DType::kFloat64:
      return FillTruncated<double, double>(stream, n, out, NormalDoubles, same);
    case DType::kFloat16:
      return FillTruncated<Float16, float>(stream, n, out, NormalFloats, ToFloat16);
    case DType::kBfloat16:
      return FillTruncated<Bfloat16, float>(stream, n, out, NormalFloats, ToBfloat16);
    default: return FillTruncated<float, float>(stream, n, out, NormalFloats, same);
  }
}

void FillRandomBits(const PhiloxStream& stream, DType dtype, int64_t n, void* out) {
  const auto same = [](auto bits) { return bits; };
  if (ItemSize(dtype) == 8) return FillIntegers<uint64_t>(stream, n, out, same, same);
  FillIntegers<uint32_t>(stream, n, out, same, same);
}

bool FillRandomIntegers(const PhiloxStream& stream, DType dtype, const void* low, const void* high,
                        int64_t n, void* out) {
  switch (dtype) {
    case DType::kInt32: return FillRange<int32_t>(stream, low, high, n, out);
    case DType::kUint32: return FillRange<uint32_t>(stream, low, high, n, out);
    case DType::kUint64: return FillRange<uint64_t>(stream, low, high, n, out);
    default: return FillRange<int64_t>(stream, low, high, n, out);
  }
}

}  // namespace tutti
