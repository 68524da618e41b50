#include "capi/src/options.h"

#include <algorithm>

#include "core/base/error.h"

namespace tutti::capi {
namespace {

Result<size_t> StructSize(Call call, const void *options) {
  size_t size;
  std::memcpy(&size, options, sizeof(size));
  if (size < sizeof(size_t)) {
    return InvalidArgument(
        "{}: struct_size is {}; start from the struct's TUTTI_..._INIT, which sets it",
        call.function, size);
  }
  return size;
}

}  // namespace

Status ReadOptionsInto(Call call, const void *options, size_t known_size, void *known) {
  std::memset(known, 0, known_size);
  if (options == nullptr) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const size_t size, StructSize(call, options));
  const char *bytes = static_cast<const char *>(options);
  for (size_t i = known_size; i < size; ++i) {
    if (bytes[i] == 0) continue;
    return InvalidArgument(
        "{}: the options struct has {} bytes and sets something at byte {}; this library (version "
        "{}) knows the first {} bytes; load a newer one",
        call.function, size, i, tutti_api_version_string(), known_size);
  }
  std::memcpy(known, options, std::min(size, known_size));
  return OkStatus();
}

Status WriteStruct(Call call, const void *known, size_t known_size, void *out) {
  TUTTI_ASSIGN_OR_RETURN(const size_t size, StructSize(call, out));
  const size_t common = std::min(size, known_size);
  std::memcpy(static_cast<char *>(out) + sizeof(size_t),
              static_cast<const char *>(known) + sizeof(size_t), common - sizeof(size_t));
  return OkStatus();
}

Result<bool> ReadTristate(Call call, tutti_tristate value, bool default_value, const char *field) {
  switch (value) {
    case TUTTI_UNSET:
      return default_value;
    case TUTTI_TRUE:
      return true;
    case TUTTI_FALSE:
      return false;
  }
  return InvalidArgument(
      "{}: the option {} is {}; expected TUTTI_UNSET (0), TUTTI_TRUE (1) or TUTTI_FALSE (2)",
      call.function, field, value);
}

}  // namespace tutti::capi
