/* A driver of a good version that has none of the functions but these. */
#include <stdint.h>

int32_t cuInit(uint32_t flags);
int32_t cuDriverGetVersion(int32_t *version);

__attribute__((visibility("default"))) int32_t cuInit(uint32_t flags) { return flags != 0; }

__attribute__((visibility("default"))) int32_t cuDriverGetVersion(int32_t *version) {
  *version = 13000;
  return 0;
}
