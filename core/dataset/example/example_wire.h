// Reads protobuf's wire format straight from bytes: tags, varints, length-delimited parts, and
// whatever else must be passed over. (https://protobuf.dev/programming-guides/encoding)
//
//   WireReader reader(bytes);
//   WireTag tag;
//   while (reader.Next(&tag)) {
//     if (tag.Is(1, WireType::kLengthDelimited)) {
//       std::string_view part;
//       if (!reader.ReadPart(&part)) break;
//     } else if (!reader.Skip(tag)) {
//       break;
//     }
//   }
//   if (reader.failed()) ...   // reader.error() at reader.position()
//
// Nothing is copied and nothing outside of the bytes is touched, whatever they hold.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_WIRE_H_
#define TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tutti {

enum class WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

struct WireTag {
  uint32_t field = 0;
  WireType type = WireType::kVarint;

  bool Is(uint32_t other_field, WireType other_type) const {
    return field == other_field && type == other_type;
  }
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes)
      : position_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool at_end() const { return position_ == end_; }
  bool failed() const { return error_ != nullptr; }
  // What is wrong, static; null when nothing is.
  const char* error() const { return error_; }
  // Where the next thing is read, or where the one began that failed.
  const char* position() const { return position_; }

  // False at the end and after a failure.
  bool Next(WireTag* tag) {
    if (at_end() || failed()) return false;
    const char* start = position_;
    uint64_t number = 0;
    if (!ReadVarint(&number)) return false;
    tag->field = static_cast<uint32_t>(number >> 3);
    tag->type = static_cast<WireType>(number & 7);
    if (number > UINT32_MAX || tag->field == 0) return Fail(start, "there is no such field number");
    return true;
  }

  bool ReadVarint(uint64_t* value) {
    if (position_ < end_ && static_cast<int8_t>(*position_) >= 0) {
      *value = static_cast<uint8_t>(*position_++);
      return true;
    }
    return ReadLongVarint(value);
  }

  bool ReadPart(std::string_view* part) {
    const char* start = position_;
    uint64_t length = 0;
    if (!ReadVarint(&length)) return false;
    if (length > static_cast<uint64_t>(end_ - position_)) {
      return Fail(start, "a length goes beyond the end");
    }
    *part = std::string_view(position_, static_cast<size_t>(length));
    position_ += length;
    return true;
  }

  bool ReadFixed32(uint32_t* value) {
    if (end_ - position_ < 4) return Fail(position_, "a 4-byte value goes beyond the end");
    std::memcpy(value, position_, 4);
    position_ += 4;
    return true;
  }

  // Reads up to `capacity` varints, which may fill the rest of the bytes; *count says how many
  // there were. False when the next one is malformed; the ones before it are read.
  bool ReadVarints(int64_t* values, size_t capacity, size_t* count);

  // How many varints ReadVarints would find in the rest, if they are well-formed.
  size_t CountVarints() const;

  // Passes over the value behind `tag`.
  bool Skip(const WireTag& tag);

  // Says that what was read at `position` does not fit; `error` is static. Returns false.
  bool Fail(const char* position, const char* error) {
    position_ = position;
    error_ = error;
    return false;
  }

 private:
  bool ReadLongVarint(uint64_t* value);
  bool SkipGroup(uint32_t field);

  const char* position_;
  const char* end_;
  const char* error_ = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_EXAMPLE_WIRE_H_
