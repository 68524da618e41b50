// Allocator: where a device's tensors get their memory from.
#ifndef TUTTI_CORE_DEVICE_ALLOCATOR_H_
#define TUTTI_CORE_DEVICE_ALLOCATOR_H_

#include <cstddef>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/buffer.h"

namespace tutti {

// Host memory, 64-byte aligned, charged to an account. Sizes that the machine or the account
// refuses are RESOURCE_EXHAUSTED, never std::bad_alloc. Threads: any.
class CpuAllocator final : public BufferAllocator {
 public:
  // `account` may be null; it is retained.
  explicit CpuAllocator(MemoryAccount* account);
  ~CpuAllocator() override;

  Result<Ref<Buffer>> Allocate(size_t bytes, bool zeroed) override;

 private:
  const Ref<MemoryAccount> account_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_ALLOCATOR_H_
