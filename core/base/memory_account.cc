#include "core/base/memory_account.h"

#include <utility>

#include "core/base/error.h"

namespace tutti {

MemoryAccount::MemoryAccount(std::string name, Ref<MemoryAccount> parent, uint64_t limit_bytes)
    : name_(std::move(name)), parent_(std::move(parent)), limit_(limit_bytes) {}

Status MemoryAccount::Reserve(uint64_t bytes) {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    const uint64_t limit = limit_bytes();
    if (limit != 0 && (bytes > limit || used > limit - bytes)) {
      return ResourceExhausted(
                 "memory account {}: {} were asked for, {} of the limit of {} are in use; raise "
                 "the limit (memory_limit) or hold fewer buffers at a time",
                 Quote(name_), HumanBytes(bytes), HumanBytes(used), HumanBytes(limit))
          .With("account", name_)
          .With("requested_bytes", bytes)
          .With("used_bytes", used)
          .With("limit_bytes", limit);
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (parent_) {
    Status status = parent_->Reserve(bytes);
    if (!status.ok()) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      return status;
    }
  }
  uint64_t peak = peak_bytes();
  while (peak < used + bytes &&
         !peak_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
  }
  return OkStatus();
}

void MemoryAccount::Unreserve(uint64_t bytes) noexcept {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_) parent_->Unreserve(bytes);
}

}  // namespace tutti
