#include "core/tensor/text_hash.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

constexpr uint64_t kP0 = 0xC3A5C85C97CB3127;
constexpr uint64_t kP1 = 0xB492B66FBE98F273;
constexpr uint64_t kP2 = 0x9AE16A3B2F90404F;
constexpr size_t kTextBlock = 64;

template <class T>
T WordAt(const char* at) {
  T word;
  std::memcpy(&word, at, sizeof(T));
  return word;
}

uint64_t Word(const char* at) { return WordAt<uint64_t>(at); }

uint64_t Folded(uint64_t word) { return word ^ (word >> 47); }

// Two words become one, by a multiplier.
uint64_t Mixed(uint64_t a, uint64_t b, uint64_t by) {
  const uint64_t once = Folded((a ^ b) * by);
  return Folded((b ^ once) * by) * by;
}

struct Pair {
  uint64_t first = 0;
  uint64_t second = 0;
};

// Four words stirred into a pair.
Pair Stirred(const char* at, Pair seed) {
  const uint64_t begin = seed.first + Word(at);
  const uint64_t sum = begin + Word(at + 8) + Word(at + 16);
  const uint64_t turned = std::rotr(seed.second + begin + Word(at + 24), 21);
  return {sum + Word(at + 24), turned + std::rotr(sum, 44) + begin};
}

uint64_t UpTo16(const char* text, size_t n) {
  const uint64_t by = kP2 + 2 * n;
  if (n >= 8) {
    const uint64_t a = Word(text) + kP2;
    const uint64_t b = Word(text + n - 8);
    return Mixed(std::rotr(b, 37) * by + a, (std::rotr(a, 25) + b) * by, by);
  }
  if (n >= 4) {
    const uint64_t first = WordAt<uint32_t>(text);
    return Mixed(n + (first << 3), WordAt<uint32_t>(text + n - 4), by);
  }
  if (n == 0) return kP2;
  const auto byte = [&](size_t i) { return uint64_t{static_cast<unsigned char>(text[i])}; };
  const uint64_t front = byte(0) + (byte(n / 2) << 8);
  const uint64_t back = n + (byte(n - 1) << 2);
  return Folded(front * kP2 ^ back * kP0) * kP2;
}

uint64_t UpTo32(const char* text, size_t n) {
  const uint64_t by = kP2 + 2 * n;
  const uint64_t a = Word(text) * kP1;
  const uint64_t b = Word(text + 8);
  const uint64_t c = Word(text + n - 8) * by;
  const uint64_t d = Word(text + n - 16) * kP2;
  return Mixed(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kP2, 18) + c, by);
}

uint64_t UpTo64(const char* text, size_t n) {
  const uint64_t by = kP2 + 2 * n;
  const uint64_t a = Word(text) * kP2;
  const uint64_t b = Word(text + 8);
  const uint64_t c = Word(text + n - 8) * by;
  const uint64_t d = Word(text + n - 16) * kP2;
  const uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const uint64_t z = Mixed(y, a + std::rotr(b + kP2, 18) + c, by);
  const uint64_t e = Word(text + 16) * by;
  const uint64_t f = Word(text + 24);
  const uint64_t g = (y + Word(text + n - 32)) * by;
  const uint64_t h = (z + Word(text + n - 24)) * by;
  return Mixed(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, by);
}

struct LongState {
  uint64_t x;
  uint64_t y;
  uint64_t z;
  Pair v;
  Pair w;

  // One block. The last one is weighed otherwise than those before it.
  void Take(const char* block, uint64_t by, uint64_t weight_x, uint64_t weight_y) {
    x = std::rotr(x + y + v.first + Word(block + 8), 37) * by;
    y = std::rotr(y + v.second + Word(block + 48), 42) * by;
    x ^= w.second * weight_x;
    y += v.first * weight_y + Word(block + 40);
    z = std::rotr(z + w.first, 33) * by;
    v = Stirred(block, {v.second * by, x + w.first});
    w = Stirred(block + 32, {z + w.second, y + Word(block + 16)});
    std::swap(z, x);
  }
};

uint64_t LongerThan64(const char* text, size_t n) {
  constexpr uint64_t kSeed = 81;
  LongState state;
  state.x = kSeed * kP2 + Word(text);
  state.y = kSeed * kP1 + 113;
  state.z = Folded(state.y * kP2 + 113) * kP2;
  const size_t rest = (n - 1) % kTextBlock;  // behind the whole blocks, less one byte
  for (const char* end = text + (n - 1 - rest); text != end; text += kTextBlock) {
    state.Take(text, kP1, 1, 1);
  }
  const uint64_t by = kP1 + ((state.z & 0xFF) << 1);
  state.w.first += rest;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  state.Take(text + rest + 1 - kTextBlock, by, 9, 9);
  return Mixed(Mixed(state.v.first, state.w.first, by) + Folded(state.y) * kP0 + state.z,
               Mixed(state.v.second, state.w.second, by) + state.x, by);
}

struct SipState {
  uint64_t v[4];

  void Round() {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] = std::rotl(v[2], 32);
  }

  void Take(uint64_t word) {
    v[3] ^= word;
    for (int i = 0; i < 2; ++i) Round();
    v[0] ^= word;
  }
};

}  // namespace

uint64_t TextFingerprint(std::string_view text) {
  const size_t n = text.size();
  if (n <= 16) return UpTo16(text.data(), n);
  if (n <= 32) return UpTo32(text.data(), n);
  if (n <= kTextBlock) return UpTo64(text.data(), n);
  return LongerThan64(text.data(), n);
}

uint64_t KeyedTextHash(uint64_t key0, uint64_t key1, std::string_view text) {
  // "somepseudorandomlygeneratedbytes"
  SipState state = {{key0 ^ 0x736F6D6570736575, key1 ^ 0x646F72616E646F6D,
                     key0 ^ 0x6C7967656E657261, key1 ^ 0x7465646279746573}};
  uint64_t last = uint64_t{text.size()} << 56;
  for (; text.size() >= 8; text.remove_prefix(8)) state.Take(Word(text.data()));
  for (size_t i = 0; i < text.size(); ++i) {
    last |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  }
  state.Take(last);
  state.v[2] ^= 0xFF;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v[0] ^ state.v[1] ^ state.v[2] ^ state.v[3];
}

}  // namespace tutti
