// Device names: parsed part by part at the slashes, printed in canonical order.
#include "core/device/device_spec.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

Status Malformed(std::string_view text, std::string_view part, std::string_view reason) {
  return InvalidArgument(
             "device {}: {} {}; a device is written /job:NAME/replica:N/task:N/device:TYPE:N, with "
             "any of the parts, or TYPE:N",
             Quote(text), part.empty() ? "an empty part" : Quote(part), reason)
      .With("device", text);
}

// Words that are a device type without "device:" before them.
bool IsKnownType(std::string_view word) {
  std::string upper(word);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper == "CPU" || upper == "GPU" || upper == "TPU" || upper == "*";
}

// Fields that were written once; `any` is an index given as "*", which counts as written.
struct Parser {
  std::string_view text;
  DeviceSpec spec;
  bool has_replica = false;
  bool has_task = false;
  bool has_device = false;

  Status Index(std::string_view part, std::string_view number, std::optional<int>* out) {
    if (number == "*") return OkStatus();
    const std::optional<int64_t> value = ParseInt64(number);
    if (number.empty() || !std::all_of(number.begin(), number.end(), IsDigit) || !value ||
        *value > std::numeric_limits<int>::max()) {
      return Malformed(text, part, "has no index: a number from 0, or * for any");
    }
    *out = static_cast<int>(*value);
    return OkStatus();
  }

  Status Once(std::string_view part, bool* seen) {
    if (*seen) return Malformed(text, part, "comes on top of another of its kind");
    *seen = true;
    return OkStatus();
  }

  // "TYPE" or "TYPE:N".
  Status Device(std::string_view part, std::string_view type_and_index) {
    TUTTI_RETURN_IF_ERROR(Once(part, &has_device));
    const size_t colon = type_and_index.find(':');
    const std::string_view type = type_and_index.substr(0, colon);
    const bool is_word = !type.empty() && IsLetter(type[0]) &&
                         std::all_of(type.begin(), type.end(), [](char c) {
                           return IsLetter(c) || IsDigit(c) || c == '_';
                         });
    if (type != "*") {
      if (!is_word) return Malformed(text, part, "has no device type");
      std::string upper(type);
      for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      spec.device_type = std::move(upper);
    }
    if (colon == std::string_view::npos) return OkStatus();
    return Index(part, type_and_index.substr(colon + 1), &spec.device_index);
  }

  Status Part(std::string_view part) {
    const size_t colon = part.find(':');
    const std::string_view key = part.substr(0, colon);
    const std::string_view rest = colon == std::string_view::npos ? "" : part.substr(colon + 1);
    if (key == "job") {
      if (spec.job) return Malformed(text, part, "comes on top of another of its kind");
      const bool is_name = !rest.empty() && IsLetter(rest[0]) &&
                           std::all_of(rest.begin(), rest.end(), [](char c) {
                             return IsLetter(c) || IsDigit(c) || c == '_';
                           });
      if (!is_name) {
        return Malformed(text, part, "has no job name: a letter, then letters, digits and _");
      }
      spec.job = std::string(rest);
      return OkStatus();
    }
    if (key == "replica") {
      TUTTI_RETURN_IF_ERROR(Once(part, &has_replica));
      return Index(part, rest, &spec.replica);
    }
    if (key == "task") {
      TUTTI_RETURN_IF_ERROR(Once(part, &has_task));
      return Index(part, rest, &spec.task);
    }
    if (key == "device") return Device(part, rest);
    if (part.empty() || IsKnownType(key)) return Device(part, part);
    const std::string nearest = NearestName(key, {"job", "replica", "task", "device", "CPU", "GPU",
                                                  "TPU", "cpu", "gpu", "tpu"});
    return Malformed(text, part,
                     nearest.empty() ? std::string("is no part of a device")
                                     : Format("is no part of a device, did you mean '{}'?",
                                              nearest));
  }
};

}  // namespace

Result<DeviceSpec> DeviceSpec::Parse(std::string_view text) {
  Parser parser{.text = text, .spec = {}};
  std::string_view rest = text;
  if (!rest.empty() && rest[0] == '/') rest.remove_prefix(1);
  if (rest.empty() && !text.empty()) return Malformed(text, "", "follows a slash");
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    TUTTI_RETURN_IF_ERROR(parser.Part(rest.substr(0, slash)));
    if (slash == std::string_view::npos) break;
    rest = rest.substr(slash + 1);
    if (rest.empty()) return Malformed(text, "", "follows a slash");
  }
  return std::move(parser.spec);
}

Result<DeviceSpec> DeviceSpec::ParseNested(std::span<const std::string> scopes) {
  DeviceSpec merged;
  for (const std::string& scope : scopes) {
    TUTTI_ASSIGN_OR_RETURN(const DeviceSpec inner, Parse(scope));
    merged = merged.MergedWith(inner);
  }
  return merged;
}

DeviceSpec DeviceSpec::MergedWith(const DeviceSpec& inner) const {
  DeviceSpec merged = *this;
  if (inner.job) merged.job = inner.job;
  if (inner.replica) merged.replica = inner.replica;
  if (inner.task) merged.task = inner.task;
  if (inner.device_type) merged.device_type = inner.device_type;
  if (inner.device_index) merged.device_index = inner.device_index;
  return merged;
}

std::string DeviceSpec::ToString() const {
  std::string text;
  if (job) text += "/job:" + *job;
  if (replica) text += "/replica:" + std::to_string(*replica);
  if (task) text += "/task:" + std::to_string(*task);
  if (device_type) {
    text += "/device:" + *device_type + ":";
    text += device_index ? std::to_string(*device_index) : "*";
  } else if (device_index) {
    text += "/device:*:" + std::to_string(*device_index);
  }
  return text;
}

}  // namespace tutti
