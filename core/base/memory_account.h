// MemoryAccount: counts the bytes that belong to somebody (an iterator's arena, a communicator's
// buffers, the whole environment) and says no at a limit. Accounts form a tree: a reservation
// counts in every ancestor.

#ifndef TUTTI_CORE_BASE_MEMORY_ACCOUNT_H_
#define TUTTI_CORE_BASE_MEMORY_ACCOUNT_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class MemoryAccount final : public RefCounted {
 public:
  // limit_bytes 0 means no limit. Children hold their parent.
  explicit MemoryAccount(std::string name, Ref<MemoryAccount> parent = nullptr,
                         uint64_t limit_bytes = 0);

  // RESOURCE_EXHAUSTED naming the account, the request, what is used and the limit; nothing is
  // counted then.
  Status Reserve(uint64_t bytes);
  void Unreserve(uint64_t bytes) noexcept;

  const std::string& name() const noexcept { return name_; }
  uint64_t used_bytes() const noexcept { return used_.load(std::memory_order_relaxed); }
  uint64_t peak_bytes() const noexcept { return peak_.load(std::memory_order_relaxed); }
  uint64_t limit_bytes() const noexcept { return limit_.load(std::memory_order_relaxed); }
  // What is reserved already stays, even above the limit.
  void set_limit_bytes(uint64_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

 private:
  ~MemoryAccount() override = default;

  const std::string name_;
  const Ref<MemoryAccount> parent_;
  std::atomic<uint64_t> limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> peak_{0};
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_MEMORY_ACCOUNT_H_
