// Versions and byte buffers.
#include <tutti/abi.h>

#include "capi/src/bytes.h"

using namespace tutti::capi;

#define TUTTI_TEXT_INNER_(x) #x
#define TUTTI_TEXT_(x) TUTTI_TEXT_INNER_(x)

uint32_t tutti_api_version(void) {
  return (TUTTI_VERSION_MAJOR << 16) | (TUTTI_VERSION_MINOR << 8) | TUTTI_VERSION_PATCH;
}

const char *tutti_api_version_string(void) {
  return TUTTI_TEXT_(TUTTI_VERSION_MAJOR) "." TUTTI_TEXT_(TUTTI_VERSION_MINOR) "." TUTTI_TEXT_(
      TUTTI_VERSION_PATCH);
}

tutti_string_view tutti_bytes_get_view(const tutti_bytes *bytes) {
  return bytes == nullptr ? tutti_string_view{"", 0} : ViewOf(FromHandle(bytes)->text());
}

void tutti_bytes_retain(const tutti_bytes *bytes) { RetainHandle(bytes); }
void tutti_bytes_release(const tutti_bytes *bytes) { ReleaseHandle(bytes); }
