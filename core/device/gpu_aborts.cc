#include "core/device/gpu_aborts.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

GpuAborts::Membership::~Membership() {
  Member gone;  // given up without the lock
  const std::lock_guard lock(aborts_->mutex_);
  const auto found = aborts_->members_.find(number_);
  gone = std::move(found->second);
  aborts_->members_.erase(found);
}

std::unique_ptr<GpuAborts::Membership> GpuAborts::Join(Ref<GpuCommunicator> communicator,
                                                       std::function<bool()> has_lost_its_epoch) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = next_++;
  members_[number] = {std::move(communicator), std::move(has_lost_its_epoch)};
  return std::make_unique<Membership>(this, number);
}

Status GpuAborts::Abort(std::span<const Ref<GpuCommunicator>> mine, const GpuWait& wait) {
  std::vector<Ref<GpuCommunicator>> all(mine.begin(), mine.end());
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, member] : members_) {
      const bool known = std::any_of(all.begin(), all.end(), [&](const auto& one) {
        return one.get() == member.communicator.get();
      });
      if (!known && member.has_lost_its_epoch()) all.push_back(member.communicator);
    }
  }
  return GpuCommunicator::Abort(all, wait);
}

}  // namespace tutti
