#include "core/dataset/graph/envelope.h"

#include <cstdint>
#include <cstring>

#include "core/base/crc32c.h"

namespace tutti {

std::string SealEnvelope(std::string_view magic, std::string_view content) {
  std::string bytes;
  bytes.reserve(magic.size() + content.size() + sizeof(uint32_t));
  bytes.append(magic).append(content);
  const uint32_t checksum = Crc32c(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  return bytes;
}

const char* OpenEnvelope(std::string_view magic, std::string_view bytes,
                         std::string_view* content) {
  if (bytes.size() < magic.size() + sizeof(uint32_t) || !bytes.starts_with(magic)) {
    return "they do not begin like one";
  }
  const std::string_view checked = bytes.substr(0, bytes.size() - sizeof(uint32_t));
  uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + checked.size(), sizeof(checksum));
  if (checksum != Crc32c(checked.data(), checked.size())) return "their checksum is wrong";
  *content = checked.substr(magic.size());
  return nullptr;
}

std::string_view OtherFormat(std::string_view magic, std::string_view bytes) {
  const size_t kind = magic.size() - 1;
  if (bytes.size() < magic.size() || bytes.substr(0, kind) != magic.substr(0, kind)) return {};
  const char format = bytes[kind];
  if (format == magic[kind] || format < '0' || format > '9') return {};
  return bytes.substr(0, magic.size());
}

}  // namespace tutti
