// The compressor is greedy: a table of 2^14 places by the hash of four bytes says where such bytes
// stood last; where they are the same, a copy is written, else a literal grows. Each 64 KiB are
// compressed by themselves, so that an offset needs two bytes at most. In data that does not
// compress the steps between tries grow.
#include "core/dataset/records/snappy_block.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace tutti {
namespace {

constexpr size_t kFragmentBytes = 64 * 1024;
constexpr int kHashBits = 14;
constexpr size_t kLeastCopy = 4;
constexpr size_t kMostCopy = 64;     // of one element
constexpr size_t kMostNearCopy = 11; // of an element of two bytes
constexpr size_t kNearOffset = 2048;
// A copy of 64 bytes takes three.
constexpr uint64_t kMostGrowth = 22;

enum SnappyElement : uint8_t { kLiteral = 0, kCopy1 = 1, kCopy2 = 2, kCopy4 = 3 };

uint32_t FourBytes(const char* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

size_t HashOf(uint32_t word) { return (word * 0x1e35a7bdu) >> (32 - kHashBits); }

void AppendByte(size_t byte, std::string* out) { out->push_back(static_cast<char>(byte)); }

void AppendLiteral(std::string_view text, std::string* out) {
  if (text.empty()) return;
  const size_t less = text.size() - 1;
  if (less < 60) {
    AppendByte(less << 2 | kLiteral, out);
  } else {
    // A fragment's literal has no more than two bytes of length.
    const size_t bytes = less < 256 ? 1 : 2;
    AppendByte((59 + bytes) << 2 | kLiteral, out);
    AppendByte(less & 255, out);
    if (bytes == 2) AppendByte(less >> 8, out);
  }
  out->append(text);
}

void AppendCopy(size_t offset, size_t length, std::string* out) {
  while (length > 0) {
    // None may be left that is too short for an element of its own.
    size_t part = std::min(length, kMostCopy);
    if (length > kMostCopy && length - part < kLeastCopy) part = kMostCopy - kLeastCopy;
    if (part >= kLeastCopy && part <= kMostNearCopy && offset < kNearOffset) {
      AppendByte(offset >> 8 << 5 | (part - kLeastCopy) << 2 | kCopy1, out);
      AppendByte(offset & 255, out);
    } else {
      AppendByte((part - 1) << 2 | kCopy2, out);
      AppendByte(offset & 255, out);
      AppendByte(offset >> 8, out);
    }
    length -= part;
  }
}

void CompressFragment(std::string_view fragment, std::vector<uint16_t>* table, std::string* out) {
  std::fill(table->begin(), table->end(), uint16_t{0});
  const char* const data = fragment.data();
  const size_t size = fragment.size();
  size_t literal = 0;  // where what is not written yet begins
  size_t at = 1;       // the table's 0 is the first byte, or nothing: both are looked at
  size_t missed = 0;
  while (at + kLeastCopy <= size) {
    const uint32_t word = FourBytes(data + at);
    uint16_t& place = (*table)[HashOf(word)];
    const size_t before = place;
    place = static_cast<uint16_t>(at);
    if (FourBytes(data + before) != word) {
      at += 1 + (missed++ >> 5);
      continue;
    }
    missed = 0;
    AppendLiteral(fragment.substr(literal, at - literal), out);
    size_t length = kLeastCopy;
    while (at + length < size && data[before + length] == data[at + length]) ++length;
    AppendCopy(at - before, length, out);
    at += length;
    literal = at;
  }
  AppendLiteral(fragment.substr(literal), out);
}

// Reads a block, element by element.
class SnappyReader {
 public:
  explicit SnappyReader(std::string_view block) : block_(block) {}

  Result<std::string> ReadAll() {
    uint64_t length = 0;
    int shift = 0;
    for (bool more = true; more; shift += 7) {
      if (at_ == block_.size() || shift > 28) return Damaged("its length does not end");
      const uint8_t byte = NextByte();
      length |= static_cast<uint64_t>(byte & 127) << shift;
      more = (byte & 128) != 0;
    }
    if (length > kMaxSnappyBytes || length > kMostGrowth * block_.size()) {
      return Damaged(Format("{} bytes cannot stand in it", length));
    }
    length_ = static_cast<size_t>(length);
    content_.reserve(length_);
    while (at_ < block_.size()) TUTTI_RETURN_IF_ERROR(ReadElement());
    if (content_.size() != length_) {
      return Damaged(Format("it ends after {} of {} bytes of content", content_.size(), length_));
    }
    return std::move(content_);
  }

 private:
  uint8_t NextByte() { return static_cast<uint8_t>(block_[at_++]); }

  // Of one to four bytes.
  bool Number(size_t bytes, size_t* number) {
    if (block_.size() - at_ < bytes) return false;
    *number = 0;
    for (size_t i = 0; i < bytes; ++i) *number |= static_cast<size_t>(NextByte()) << (8 * i);
    return true;
  }

  Status ReadElement() {
    element_ = at_;
    const uint8_t tag = NextByte();
    size_t length = tag >> 2;
    size_t offset = 0;
    switch (static_cast<SnappyElement>(tag & 3)) {
      case kLiteral:
        if (length >= 60 && !Number(length - 59, &length)) return Damaged("it ends in an element");
        return Literal(length + 1);
      case kCopy1:
        if (!Number(1, &offset)) return Damaged("it ends in an element");
        return Copy(offset | static_cast<size_t>(tag >> 5) << 8, (length & 7) + kLeastCopy);
      case kCopy2:
        if (!Number(2, &offset)) return Damaged("it ends in an element");
        return Copy(offset, length + 1);
      case kCopy4:
        if (!Number(4, &offset)) return Damaged("it ends in an element");
        return Copy(offset, length + 1);
    }
    return OkStatus();
  }

  Status Literal(size_t length) {
    if (length > block_.size() - at_) return Damaged("it ends in a literal");
    TUTTI_RETURN_IF_ERROR(CheckRoom(length));
    content_.append(block_.substr(at_, length));
    at_ += length;
    return OkStatus();
  }

  Status Copy(size_t offset, size_t length) {
    if (offset == 0 || offset > content_.size()) return Damaged("a copy begins before the content");
    TUTTI_RETURN_IF_ERROR(CheckRoom(length));
    // What is copied may be what the copy itself writes.
    for (size_t from = content_.size() - offset; length > 0; --length) {
      content_.push_back(content_[from++]);
    }
    return OkStatus();
  }

  Status CheckRoom(size_t length) const {
    if (length <= length_ - content_.size()) return OkStatus();
    return Damaged(Format("it holds more than the {} bytes that it says", length_));
  }

  Status Damaged(std::string_view what) const {
    return DataLoss("a snappy block of {} bytes is damaged at byte {}: {}", block_.size(), element_,
                    what);
  }

  const std::string_view block_;
  size_t at_ = 0;
  size_t element_ = 0;  // where the element that is read begins
  size_t length_ = 0;   // of the content
  std::string content_;
};

}  // namespace

Result<std::string> SnappyCompress(std::string_view content) {
  if (content.size() > kMaxSnappyBytes) {
    return InvalidArgument("a snappy block holds at most {} bytes, got {}", kMaxSnappyBytes,
                           content.size());
  }
  std::string block;
  size_t length = content.size();
  for (; length > 127; length >>= 7) AppendByte((length & 127) | 128, &block);
  AppendByte(length, &block);
  std::vector<uint16_t> table(size_t{1} << kHashBits);
  for (size_t at = 0; at < content.size(); at += kFragmentBytes) {
    CompressFragment(content.substr(at, kFragmentBytes), &table, &block);
  }
  return block;
}

Result<std::string> SnappyDecompress(std::string_view block) {
  return SnappyReader(block).ReadAll();
}

}  // namespace tutti
