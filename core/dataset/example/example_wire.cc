#include "core/dataset/example/example_wire.h"

#include <array>

namespace tutti {
namespace {

constexpr int kMaxVarintBytes = 10;
constexpr size_t kMaxGroupDepth = 32;

}  // namespace

bool WireReader::ReadLongVarint(uint64_t* value) {
  const char* start = position_;
  uint64_t result = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    if (position_ == end_) return Fail(start, "a varint goes beyond the end");
    const auto byte = static_cast<uint8_t>(*position_++);
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return Fail(start, "a varint has more than 10 bytes");
}

bool WireReader::ReadVarints(int64_t* values, size_t capacity, size_t* count) {
  size_t n = 0;
  while (n < capacity && position_ != end_) {
    // Eight small numbers at once: a word in which no byte has its continuation bit.
    while (capacity - n >= 8 && end_ - position_ >= 8) {
      uint64_t word;
      std::memcpy(&word, position_, 8);
      if ((word & 0x8080808080808080u) != 0) break;
      for (int i = 0; i < 8; ++i) values[n + i] = static_cast<uint8_t>(word >> (8 * i));
      n += 8;
      position_ += 8;
    }
    if (n == capacity || position_ == end_) break;
    uint64_t value = 0;
    if (!ReadVarint(&value)) {
      *count = n;
      return false;
    }
    values[n++] = static_cast<int64_t>(value);
  }
  *count = n;
  return true;
}

size_t WireReader::CountVarints() const {
  size_t n = 0;
  for (const char* byte = position_; byte != end_; ++byte) {
    n += static_cast<unsigned char>(*byte) < 0x80 ? 1 : 0;
  }
  return n;
}

bool WireReader::Skip(const WireTag& tag) {
  uint64_t varint = 0;
  std::string_view part;
  switch (tag.type) {
    case WireType::kVarint:
      return ReadVarint(&varint);
    case WireType::kFixed64:
      if (end_ - position_ < 8) return Fail(position_, "an 8-byte value goes beyond the end");
      position_ += 8;
      return true;
    case WireType::kLengthDelimited:
      return ReadPart(&part);
    case WireType::kStartGroup:
      return SkipGroup(tag.field);
    case WireType::kEndGroup:
      return Fail(position_, "a group ends that has not begun");
    case WireType::kFixed32:
      if (end_ - position_ < 4) return Fail(position_, "a 4-byte value goes beyond the end");
      position_ += 4;
      return true;
  }
  return Fail(position_, "there is no such wire type");
}

bool WireReader::SkipGroup(uint32_t field) {
  const char* start = position_;
  std::array<uint32_t, kMaxGroupDepth> open;
  size_t depth = 0;
  open[depth++] = field;
  WireTag tag;
  while (Next(&tag)) {
    if (tag.type == WireType::kStartGroup) {
      if (depth == open.size()) return Fail(start, "groups are nested too deeply");
      open[depth++] = tag.field;
    } else if (tag.type == WireType::kEndGroup) {
      if (open[--depth] != tag.field) return Fail(start, "a group ends that has not begun");
      if (depth == 0) return true;
    } else if (!Skip(tag)) {
      return false;
    }
  }
  return failed() ? false : Fail(start, "a group does not end");
}

}  // namespace tutti
