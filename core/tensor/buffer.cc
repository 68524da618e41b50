// Memory from malloc, aligned by hand: malloc's caches make small blocks cheap, and calloc's large
// blocks come zeroed from the kernel without being touched.
#include "core/tensor/buffer.h"

#include <sys/sysinfo.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory_account.h"

namespace tutti {
namespace {

// From this size on a request is first compared with what the machine has: malloc may promise more.
constexpr size_t kCheckedBytes = size_t{1} << 30;

class HeapBuffer final : public Buffer {
 public:
  HeapBuffer(void* block, size_t bytes, Ref<MemoryAccount> account)
      : Buffer(Align(block), bytes), block_(block), account_(std::move(account)) {}

 private:
  ~HeapBuffer() override {
    std::free(block_);
    if (account_) account_->Unreserve(bytes());
  }
  static void* Align(void* block) {
    const auto address = reinterpret_cast<uintptr_t>(block);
    const uintptr_t padding = -address & (kBufferAlignment - 1);
    return static_cast<char*>(block) + padding;
  }

  void* const block_;
  const Ref<MemoryAccount> account_;
};

class KeptBuffer final : public Buffer {
 public:
  KeptBuffer(void* data, size_t bytes, Ref<const RefCounted> keeper)
      : Buffer(data, bytes), keeper_(std::move(keeper)) {}

 private:
  const Ref<const RefCounted> keeper_;
};

Status CheckMachineHas(size_t bytes) {
  struct sysinfo info;
  if (bytes < kCheckedBytes || sysinfo(&info) != 0) return OkStatus();
  const uint64_t total = (uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
  if (bytes <= total) return OkStatus();
  return ResourceExhausted("memory: {} asked for, but this machine has {}", HumanBytes(bytes),
                           HumanBytes(total))
      .With("bytes", bytes);
}

}  // namespace

Result<Ref<Buffer>> Buffer::Create(size_t bytes, bool zeroed, MemoryAccount* account) {
  TUTTI_RETURN_IF_ERROR(CheckMachineHas(bytes));
  if (account != nullptr) TUTTI_RETURN_IF_ERROR(account->Reserve(bytes));
  // Until the buffer has both; memory may run out for the buffer itself.
  struct Reserved {
    MemoryAccount* account;
    size_t bytes;
    ~Reserved() {
      if (account != nullptr) account->Unreserve(bytes);
    }
  } reserved{account, bytes};
  // Whole cache lines: what one thread writes into its tensor takes no neighbour's from another.
  const size_t block_bytes =
      (bytes + 2 * kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  std::unique_ptr<void, void (*)(void*)> block(
      zeroed ? std::calloc(1, block_bytes) : std::malloc(block_bytes), &std::free);
  if (!block) {
    return ResourceExhausted("memory: the system refused {}", HumanBytes(bytes))
        .With("bytes", bytes);
  }
  Ref<Buffer> buffer =
      MakeRef<HeapBuffer>(block.get(), bytes, Ref<MemoryAccount>::Retain(account));
  (void)block.release();
  reserved.account = nullptr;
  return buffer;
}

Ref<Buffer> Buffer::Wrap(void* data, size_t bytes, Ref<const RefCounted> keeper) {
  return MakeRef<KeptBuffer>(data, bytes, std::move(keeper));
}

}  // namespace tutti
