// Memory that tensors share: a block, what it is charged to, and how it is given back.
//
// A Buffer is reference-counted; every view of a tensor holds it. Memory of our own is 64-byte
// aligned and charged to an account until the last reference goes; memory of the caller's is given
// back by dropping what keeps it alive (a HostData with the caller's release function, usually).
// Threads: any; the bytes themselves are guarded by nobody.
#ifndef TUTTI_CORE_TENSOR_BUFFER_H_
#define TUTTI_CORE_TENSOR_BUFFER_H_

#include <cstddef>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class MemoryAccount;

inline constexpr size_t kBufferAlignment = 64;

class Buffer : public RefCounted {
 public:
  // `bytes` of 64-byte aligned memory, zeroed if asked, charged to `account` (may be null).
  // RESOURCE_EXHAUSTED when the machine or the account refuses.
  static Result<Ref<Buffer>> Create(size_t bytes, bool zeroed, MemoryAccount* account = nullptr);

  // Memory that `keeper` keeps alive; it is dropped with the last reference to the buffer.
  static Ref<Buffer> Wrap(void* data, size_t bytes, Ref<const RefCounted> keeper);

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 protected:
  // For buffers with an end of their own (shared segments, device memory): the derived class
  // frees the memory.
  Buffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~Buffer() override = default;

 private:
  void* const data_;
  const size_t bytes_;
};

// Where tensors get their memory from, when not from Buffer::Create. The device room has the
// implementations.
class BufferAllocator : public RefCounted {
 public:
  // As Buffer::Create. Threads: any.
  virtual Result<Ref<Buffer>> Allocate(size_t bytes, bool zeroed) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_BUFFER_H_
