/* Which NCCL this library is. */
#include <stdint.h>

const int32_t tutti_fake_nccl_version = TUTTI_FAKE_NCCL_VERSION;
