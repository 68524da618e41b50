// A call header as it lies in shared memory: short, because it should share a cache line with the
// payload of a small call, and of bounded length, because it lies in a room of fixed size: of a
// header that is longer, peers see the beginning and a hash of the whole.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_SHARED_HEADER_H_
#define TUTTI_CORE_COLLECTIVE_CALL_SHARED_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/call_header.h"

namespace tutti {

// Replaces `bytes` by the header's short form. Two headers are of the same call when operations and
// forms are equal: where `uneven`, the size along the axis, which may differ, is left out.
void EncodeSharedHeader(const CallHeader& header, std::vector<std::byte>* bytes);

// The header of operation `op` from its short form (sizes that were left out are 0), or from the
// beginning of it when `complete` is false: then only the first tensors are there, and num_tensors
// of them. `whole_num_tensors` is how many there are in all. INTERNAL for what is no header: the
// memory may hold anything when a peer goes astray.
Result<CallHeader> DecodeSharedHeader(CollectiveOp op, std::span<const std::byte> bytes,
                                      bool complete, size_t* whole_num_tensors);

uint64_t HashSharedHeader(std::span<const std::byte> bytes);

// The short form of a header, ready to be shown and to be compared with what peers show. Most are
// a few bytes, of one tensor: they are written and compared as words.
class SharedHeaderForm {
 public:
  static constexpr size_t kFewBytes = 24;

  void Encode(const CallHeader& header) {
    EncodeSharedHeader(header, &bytes_);
    has_few_ = bytes_.size() <= kFewBytes;
    if (!has_few_) return;
    words_ = {};
    masks_ = {};
    std::memcpy(words_.data(), bytes_.data(), bytes_.size());
    std::memset(masks_.data(), 0xff, bytes_.size());
  }

  size_t size() const noexcept { return bytes_.size(); }
  const std::byte* data() const noexcept { return bytes_.data(); }
  // Writes the first `shown` bytes of it; of a few, as whole words: what follows begins at the next
  // multiple of 8 bytes or later.
  void WriteTo(std::byte* room, size_t shown) const noexcept {
    if (!has_few_) {
      std::memcpy(room, bytes_.data(), shown);
      return;
    }
    constexpr size_t kWord = sizeof(uint64_t);
    std::memcpy(room, words_.data(), kWord);
    if (bytes_.size() > kWord) std::memcpy(room + kWord, &words_[1], kWord);
    if (bytes_.size() > 2 * kWord) std::memcpy(room + 2 * kWord, &words_[2], kWord);
  }
  // Whether `room`, where kFewBytes can be read, begins with it.
  bool IsAt(const std::byte* room) const noexcept {
    if (!has_few_) return std::memcmp(room, bytes_.data(), bytes_.size()) == 0;
    std::array<uint64_t, kFewBytes / sizeof(uint64_t)> shown;
    std::memcpy(shown.data(), room, kFewBytes);
    return (((shown[0] ^ words_[0]) & masks_[0]) | ((shown[1] ^ words_[1]) & masks_[1]) |
            ((shown[2] ^ words_[2]) & masks_[2])) == 0;
  }

 private:
  std::vector<std::byte> bytes_;
  bool has_few_ = true;
  std::array<uint64_t, kFewBytes / sizeof(uint64_t)> words_ = {};
  std::array<uint64_t, kFewBytes / sizeof(uint64_t)> masks_ = {};
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_SHARED_HEADER_H_
