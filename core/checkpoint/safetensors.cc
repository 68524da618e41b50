#include "core/checkpoint/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

struct DTypeRow {
  DType dtype;
  std::string_view name;
  uint64_t bits;
};

// Those without a dtype of ours are known by their sizes, so that the rest of the file can be read.
constexpr DTypeRow kDTypes[] = {
    {DType::kBool, "BOOL", 8},      {DType::kUint8, "U8", 8},
    {DType::kInt8, "I8", 8},        {DType::kInt16, "I16", 16},
    {DType::kUint16, "U16", 16},    {DType::kInt32, "I32", 32},
    {DType::kUint32, "U32", 32},    {DType::kInt64, "I64", 64},
    {DType::kUint64, "U64", 64},    {DType::kFloat16, "F16", 16},
    {DType::kBfloat16, "BF16", 16}, {DType::kFloat32, "F32", 32},
    {DType::kFloat64, "F64", 64},   {DType::kInvalid, "F8_E5M2", 8},
    {DType::kInvalid, "F8_E4M3", 8}, {DType::kInvalid, "F8_E8M0", 8},
    {DType::kInvalid, "C64", 64},
};

Status NoHeader(std::string_view why) {
  return InvalidArgument("it is no safetensors file: {}", why);
}

// An unsigned integer of JSON that int64 holds.
std::optional<int64_t> SizeIn(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  const auto value = json.get<int64_t>();
  if (value < 0) return std::nullopt;
  return value;
}

Result<SafetensorsEntry> DecodeEntry(const std::string& name, const Json& json) {
  if (!json.is_object()) return NoHeader(Format("{} is no object", Quote(name)));
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string() || shape == json.end() || !shape->is_array() ||
      offsets == json.end() || !offsets->is_array() || offsets->size() != 2) {
    return NoHeader(
        Format("{} has no dtype, no shape or no pair of data_offsets", Quote(name)));
  }
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype_name = dtype->get<std::string>();
  const auto* row = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                 [&](const DTypeRow& r) { return r.name == entry.dtype_name; });
  if (row == std::end(kDTypes)) {
    return NoHeader(Format("{} has the unknown dtype {}", Quote(name), Quote(entry.dtype_name)));
  }
  entry.dtype = row->dtype;
  std::vector<int64_t> dims;
  for (const Json& dim : *shape) {
    const std::optional<int64_t> size = SizeIn(dim);
    if (!size.has_value()) return NoHeader(Format("{} has an impossible shape", Quote(name)));
    dims.push_back(*size);
  }
  const Result<Shape> made = Shape::Create(dims.data(), dims.size());
  if (!made.ok()) return NoHeader(Format("{} has an impossible shape", Quote(name)));
  entry.shape = *made;
  const std::optional<int64_t> begin = SizeIn((*offsets)[0]);
  const std::optional<int64_t> end = SizeIn((*offsets)[1]);
  if (!begin.has_value() || !end.has_value() || *begin > *end) {
    return NoHeader(Format("{} has impossible data_offsets", Quote(name)));
  }
  entry.begin = static_cast<uint64_t>(*begin);
  entry.end = static_cast<uint64_t>(*end);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(entry.shape.num_elements()), row->bits / 8,
                             &bytes) ||
      bytes != entry.end - entry.begin) {
    return NoHeader(Format("{} is {} {} and has {} bytes of data", Quote(name), entry.dtype_name,
                           entry.shape.ToString(), entry.end - entry.begin));
  }
  return entry;
}

}  // namespace

std::string_view SafetensorsDTypeName(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype && dtype != DType::kInvalid) return row.name;
  }
  return {};
}

DType SafetensorsDTypeFromName(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return DType::kInvalid;
}

std::string EncodeSafetensorsHeader(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[std::string(kSafetensorsMetadata)] = header.metadata;
  for (const SafetensorsEntry& entry : header.entries) {
    json[entry.name] = {{"dtype", entry.dtype_name},
                        {"shape", std::vector<int64_t>(entry.shape.dims().begin(),
                                                       entry.shape.dims().end())},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

Result<SafetensorsHeader> DecodeSafetensorsHeader(std::string_view json, uint64_t data_bytes) {
  // The format has three levels; whatever is nested deeper is dropped while it is read, so that
  // hostile nesting costs nothing. The keys of the first level are counted: names that come twice
  // would hide each other.
  constexpr int kDeepest = 3;
  std::set<std::string> names;
  bool twice = false;
  bool too_deep = false;
  const Json root = Json::parse(
      json.begin(), json.end(),
      [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth == 1 && event == Json::parse_event_t::key) {
          twice = twice || !names.insert(parsed.get<std::string>()).second;
        }
        const bool opens = event == Json::parse_event_t::object_start ||
                           event == Json::parse_event_t::array_start;
        if (opens && depth >= kDeepest) too_deep = true;
        return !(opens && depth >= kDeepest);
      },
      /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) return NoHeader("its header is no JSON object");
  if (too_deep) return NoHeader("its header is nested too deeply");
  if (twice) return NoHeader("its header has the same name twice");

  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name == kSafetensorsMetadata) {
      if (!value.is_object()) return NoHeader("__metadata__ is no object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return NoHeader("__metadata__ holds something that is no string");
        header.metadata.emplace(key, text.get<std::string>());
      }
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(SafetensorsEntry entry, DecodeEntry(name, value));
    header.entries.push_back(std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  uint64_t offset = 0;
  const std::string* before = nullptr;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != offset) {
      return NoHeader(Format("{} begins at {} of the data, but {} ends at {}", Quote(entry.name),
                             entry.begin, before != nullptr ? Quote(*before) : "what precedes it",
                             offset))
          .With("offset", static_cast<int64_t>(entry.begin));
    }
    offset = entry.end;
    before = &entry.name;
  }
  if (offset != data_bytes) {
    return DataLoss("{} bytes of data follow its header, which promises {}: it is {}", data_bytes,
                    offset,
                    data_bytes < offset ? "cut off" : "longer than its tensors")
        .With("offset", static_cast<int64_t>(std::min(offset, data_bytes)));
  }
  return header;
}

}  // namespace tutti
