#include "core/dataset/example/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/example/example_wire.h"

namespace tutti {
namespace {

enum TensorField : uint32_t { kDTypeField = 1, kShapeField = 2, kContentField = 4 };
enum ShapeField : uint32_t { kDimField = 2, kUnknownRankField = 3 };
constexpr uint32_t kDimSizeField = 1;

// So much may stand for few bytes, where one element is that of many places.
constexpr uint64_t kMostRepeatedBytes = uint64_t{1} << 28;

struct WireDType {
  DType dtype;
  uint32_t number;  // TensorFlow's
  uint32_t field;   // of elements one by one
  WireType type;    // of one of these; a complex number is two
};
constexpr WireDType kWireDTypes[] = {
    {DType::kFloat32, 1, 5, WireType::kFixed32},   {DType::kFloat64, 2, 6, WireType::kFixed64},
    {DType::kInt32, 3, 7, WireType::kVarint},      {DType::kUint8, 4, 7, WireType::kVarint},
    {DType::kInt16, 5, 7, WireType::kVarint},      {DType::kInt8, 6, 7, WireType::kVarint},
    {DType::kBytes, 7, 8, WireType::kLengthDelimited},
    {DType::kComplex64, 8, 9, WireType::kFixed32}, {DType::kInt64, 9, 10, WireType::kVarint},
    {DType::kBool, 10, 11, WireType::kVarint},     {DType::kBfloat16, 14, 13, WireType::kVarint},
    {DType::kUint16, 17, 7, WireType::kVarint},    {DType::kComplex128, 18, 12, WireType::kFixed64},
    {DType::kFloat16, 19, 13, WireType::kVarint},  {DType::kUint32, 22, 16, WireType::kVarint},
    {DType::kUint64, 23, 17, WireType::kVarint},
};

const WireDType& WireOf(DType dtype) {
  return *std::ranges::find(kWireDTypes, dtype, &WireDType::dtype);
}

// ---- Writing ----

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void PutTag(uint32_t field, WireType type, std::string* out) {
  PutVarint((uint64_t{field} << 3) | static_cast<uint32_t>(type), out);
}

void PutPart(uint32_t field, std::string_view part, std::string* out) {
  PutTag(field, WireType::kLengthDelimited, out);
  PutVarint(part.size(), out);
  out->append(part);
}

std::string ShapeMessage(const Shape& shape) {
  std::string message;
  for (const int64_t size : shape.dims()) {
    std::string dim;
    // What is 0 is not written.
    if (size != 0) {
      PutTag(kDimSizeField, WireType::kVarint, &dim);
      PutVarint(static_cast<uint64_t>(size), &dim);
    }
    PutPart(kDimField, dim, &message);
  }
  return message;
}

// ---- Reading ----

// What a message says, fields in the order in which they come.
struct ReadTensor {
  uint64_t number = 0;
  std::vector<int64_t> dims;
  bool unknown_rank = false;
  std::string_view content;
  std::vector<uint64_t> numbers;        // the elements' bits
  std::vector<std::string_view> texts;  // the elements
};

bool ReadFixed64(WireReader* reader, uint64_t* value) {
  uint32_t low = 0;
  uint32_t high = 0;
  if (!reader->ReadFixed32(&low) || !reader->ReadFixed32(&high)) return false;
  *value = (uint64_t{high} << 32) | low;
  return true;
}

bool ReadNumber(WireType type, WireReader* reader, uint64_t* value) {
  if (type == WireType::kVarint) return reader->ReadVarint(value);
  if (type == WireType::kFixed64) return ReadFixed64(reader, value);
  uint32_t bits = 0;
  if (!reader->ReadFixed32(&bits)) return false;
  *value = bits;
  return true;
}

// A part of its own inside of what `outer` reads: its errors are the outer one's.
template <class Body>
bool ReadInside(WireReader* outer, Body body) {
  std::string_view part;
  if (!outer->ReadPart(&part)) return false;
  WireReader reader(part);
  body(&reader);
  return !reader.failed() || outer->Fail(reader.position(), reader.error());
}

bool ReadDim(WireReader* outer, ReadTensor* tensor) {
  uint64_t size = 0;
  const bool read = ReadInside(outer, [&](WireReader* reader) {
    WireTag tag;
    while (reader->Next(&tag)) {
      const bool is_size = tag.Is(kDimSizeField, WireType::kVarint);
      if (!(is_size ? reader->ReadVarint(&size) : reader->Skip(tag))) return;
    }
  });
  tensor->dims.push_back(static_cast<int64_t>(size));
  return read;
}

bool ReadShape(WireReader* outer, ReadTensor* tensor) {
  return ReadInside(outer, [&](WireReader* reader) {
    WireTag tag;
    while (reader->Next(&tag)) {
      if (tag.Is(kDimField, WireType::kLengthDelimited)) {
        if (!ReadDim(reader, tensor)) return;
      } else if (tag.Is(kUnknownRankField, WireType::kVarint)) {
        uint64_t value = 0;
        if (!reader->ReadVarint(&value)) return;
        tensor->unknown_rank = value != 0;
      } else if (!reader->Skip(tag)) {
        return;
      }
    }
  });
}

bool ReadNumbers(WireType type, WireReader* outer, ReadTensor* tensor) {
  return ReadInside(outer, [&](WireReader* reader) {
    uint64_t value = 0;
    while (!reader->at_end() && ReadNumber(type, reader, &value)) tensor->numbers.push_back(value);
  });
}

bool ReadField(const WireTag& tag, const WireDType& wire, WireReader* reader, ReadTensor* tensor) {
  if (tag.Is(kDTypeField, WireType::kVarint)) return reader->ReadVarint(&tensor->number);
  if (tag.Is(kShapeField, WireType::kLengthDelimited)) return ReadShape(reader, tensor);
  if (tag.Is(kContentField, WireType::kLengthDelimited)) return reader->ReadPart(&tensor->content);
  if (tag.field != wire.field) return reader->Skip(tag);
  if (wire.type == WireType::kLengthDelimited) {
    if (tag.type != wire.type) return reader->Skip(tag);
    tensor->texts.emplace_back();
    return reader->ReadPart(&tensor->texts.back());
  }
  if (tag.type == WireType::kLengthDelimited) return ReadNumbers(wire.type, reader, tensor);
  if (tag.type != wire.type) return reader->Skip(tag);
  tensor->numbers.emplace_back();
  return ReadNumber(wire.type, reader, &tensor->numbers.back());
}

Status NoTensor(std::string_view why) {
  return InvalidArgument(
      "parse_tensor: these bytes are no tensor: {}; pass what serialize_tensor gave", why);
}

// Byte strings as content: the length of each, as varints, and then all of them.
Status ReadTexts(std::string_view content, size_t count, std::vector<std::string_view>* texts) {
  WireReader reader(content);
  std::vector<uint64_t> lengths(std::min(count, content.size()));
  if (lengths.size() < count) return NoTensor("its content is too short");
  for (uint64_t& length : lengths) {
    if (!reader.ReadVarint(&length)) return NoTensor("the lengths in its content do not end");
  }
  std::string_view rest = content.substr(static_cast<size_t>(reader.position() - content.data()));
  for (const uint64_t length : lengths) {
    if (length > rest.size()) return NoTensor("its content is too short");
    texts->push_back(rest.substr(0, static_cast<size_t>(length)));
    rest.remove_prefix(static_cast<size_t>(length));
  }
  return rest.empty() ? OkStatus() : NoTensor("its content is too long");
}

Result<Ref<Tensor>> MakeTexts(const ReadTensor& read, const Shape& shape) {
  const auto count = static_cast<size_t>(shape.num_elements());
  std::vector<std::string_view> texts = read.texts;
  if (!read.content.empty()) {
    texts.clear();
    TUTTI_RETURN_IF_ERROR(ReadTexts(read.content, count, &texts));
  }
  texts.resize(std::min(texts.size(), count));
  std::vector<BytesView> views;
  views.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const std::string_view text =
        texts.empty() ? std::string_view() : texts[std::min(i, texts.size() - 1)];
    views.push_back(BytesView{text.data(), text.size()});
  }
  return Tensor::FromStrings(shape, views);
}

// The bits of a number as they lie in memory, from position `at` on.
void PutNumber(DType dtype, uint64_t bits, char* at, size_t bytes) {
  if (dtype == DType::kBool) bits = bits != 0 ? 1 : 0;
  std::memcpy(at, &bits, bytes);
}

Result<Ref<Tensor>> MakeNumbers(const ReadTensor& read, const WireDType& wire, const Shape& shape) {
  TensorOptions options;
  options.zeroed = read.content.empty() && read.numbers.empty();
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, Tensor::Create(wire.dtype, shape, options));
  auto* const data = static_cast<char*>(tensor->mutable_data());
  const size_t bytes = tensor->byte_size();
  if (!read.content.empty()) {
    if (read.content.size() != bytes) {
      return NoTensor(Format("its content has {} bytes, and {} has {}", read.content.size(),
                             tensor->SpecString(), bytes));
    }
    std::memcpy(data, read.content.data(), bytes);
    if (wire.dtype != DType::kBool) return tensor;
    // Of a boolean nothing but 0 and 1 may be in memory.
    for (size_t i = 0; i < bytes; ++i) data[i] = data[i] != 0 ? 1 : 0;
    return tensor;
  }
  const size_t parts = IsComplex(wire.dtype) ? 2 : 1;
  if (read.numbers.size() % parts != 0) return NoTensor("a complex number has no second part");
  const size_t part_bytes = tensor->item_size() / parts;
  const size_t given = std::min(read.numbers.size(), bytes / part_bytes);
  for (size_t i = 0; i < given; ++i) {
    PutNumber(wire.dtype, read.numbers[i], data + i * part_bytes, part_bytes);
  }
  if (given == 0) return tensor;
  const size_t item = tensor->item_size();
  for (size_t at = given * part_bytes; at < bytes; at += item) {
    std::memcpy(data + at, data + at - item, item);
  }
  return tensor;
}

}  // namespace

Result<Ref<Tensor>> SerializeTensor(const Tensor& tensor) {
  const WireDType& wire = WireOf(tensor.dtype());
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> dense, tensor.Contiguous());
  std::string out;
  out.reserve(64 + (wire.dtype == DType::kBytes ? 0 : dense->byte_size()));
  PutTag(kDTypeField, WireType::kVarint, &out);
  PutVarint(wire.number, &out);
  PutPart(kShapeField, ShapeMessage(tensor.shape()), &out);
  if (wire.dtype == DType::kBytes) {
    for (const BytesView& text : dense->span<BytesView>()) PutPart(wire.field, text.text(), &out);
  } else if (dense->byte_size() > 0) {
    PutPart(kContentField, {static_cast<const char*>(dense->data()), dense->byte_size()}, &out);
  }
  return Tensor::Bytes(out);
}

Result<Ref<Tensor>> ParseTensor(const Tensor& serialized, DType dtype) {
  if (serialized.dtype() != DType::kBytes || serialized.rank() != 0) {
    return InvalidArgument("parse_tensor: expected a scalar of byte strings, found {}",
                           serialized.SpecString())
        .With("expected_dtype", "bytes");
  }
  const WireDType& wire = WireOf(dtype);
  const std::string_view bytes = serialized.item<BytesView>().text();
  ReadTensor read;
  WireReader reader(bytes);
  WireTag tag;
  while (reader.Next(&tag) && ReadField(tag, wire, &reader, &read)) {
  }
  if (reader.failed()) {
    return NoTensor(Format("at byte {}, {}", reader.position() - bytes.data(), reader.error()));
  }
  if (read.number != wire.number) {
    const auto* found = std::ranges::find(kWireDTypes, read.number, &WireDType::number);
    return InvalidArgument("parse_tensor: the tensor is of {}, and out_type is {}",
                           found != std::end(kWireDTypes)
                               ? std::string(DTypeName(found->dtype))
                               : Format("dtype number {}, which is none here", read.number),
                           DTypeName(dtype))
        .With("expected_dtype", DTypeName(dtype));
  }
  if (read.unknown_rank) return NoTensor("its rank is unknown");
  Result<Shape> shape = Shape::Create(read.dims.data(), read.dims.size());
  if (!shape.ok()) return NoTensor(shape.status().message());
  const size_t given = std::max({read.content.size(), read.numbers.size(), read.texts.size()});
  const auto count = static_cast<uint64_t>(shape->num_elements());
  if (given < count && count > kMostRepeatedBytes / ItemSize(dtype)) {
    return ResourceExhausted(
        "parse_tensor: {} bytes say that they are {}{}; what repeats one element may have {} bytes "
        "at most",
        bytes.size(), DTypeName(dtype), shape->ToString(), kMostRepeatedBytes);
  }
  if (wire.dtype == DType::kBytes) return MakeTexts(read, *shape);
  return MakeNumbers(read, wire, *shape);
}

}  // namespace tutti
