// Numbers and texts as bytes, little-endian: what the small self-made formats between ranks are
// written with. The reader never reads beyond its end: what is missing makes it fail for good.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_WIRE_BYTES_H_
#define TUTTI_CORE_COLLECTIVE_CALL_WIRE_BYTES_H_

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tutti {

static_assert(std::endian::native == std::endian::little,
              "payloads travel as they lie in memory, which must be little-endian");

class WireWriter {
 public:
  explicit WireWriter(std::string* out) : out_(out) {}

  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  void Put(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_->append(bytes, sizeof(T));
  }
  void PutText(std::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    out_->append(text);
  }

 private:
  std::string* const out_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  // 0 and "" once something was missing.
  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  T Take() {
    T value{};
    const std::string_view bytes = TakeBytes(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view TakeText() { return TakeBytes(Take<uint32_t>()); }
  std::string_view TakeBytes(size_t count) {
    if (count > bytes_.size()) {
      failed_ = true;
      bytes_ = {};
      return {};
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  size_t remaining() const { return bytes_.size(); }
  // Nothing was missing, and nothing is left.
  bool complete() const { return !failed_ && bytes_.empty(); }
  bool failed() const { return failed_; }

 private:
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_WIRE_BYTES_H_
