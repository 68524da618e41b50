// What a fuzz target is: a function that libFuzzer, or replay_main.cc where there is none, calls
// with arbitrary bytes. It gives up on the spot when a property does not hold.

#ifndef TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_
#define TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tutti {

// assert() that no build leaves out.
inline void Require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "property violated: %s\n", property);
  std::abort();
}

// Takes an input apart; zeros behind its end.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  template <typename T>
  T Take() {
    T value{};
    const std::string_view bytes = TakeBytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  // As many as there are, at most `count`.
  std::string_view TakeBytes(size_t count) {
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view TakeRest() { return TakeBytes(rest_.size()); }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// The same numbers in every run.
class FixedRandom final : public Random {
 public:
  explicit FixedRandom(uint64_t seed) : generator_(seed) {}
  void Fill(void* data, size_t bytes) override {
    for (size_t i = 0; i < bytes; ++i) {
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(generator_.Next());
    }
  }

 private:
  SplitMix64 generator_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_
