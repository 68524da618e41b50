// The CPU's allocator is Buffer::Create with an account.
#include "core/device/allocator.h"

#include "core/base/memory_account.h"

namespace tutti {

CpuAllocator::CpuAllocator(MemoryAccount* account)
    : account_(Ref<MemoryAccount>::Retain(account)) {}

CpuAllocator::~CpuAllocator() = default;

Result<Ref<Buffer>> CpuAllocator::Allocate(size_t bytes, bool zeroed) {
  return Buffer::Create(bytes, zeroed, account_.get());
}

}  // namespace tutti
