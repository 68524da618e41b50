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
  members_[number] = {std::move(communicator), std::move(has_lost_its_epoch), false};
  return std::make_unique<Membership>(this, number);
}

Status GpuAborts::Abort(std::span<const Ref<GpuCommunicator>> mine, const GpuWait& wait) {
  std::vector<Ref<GpuCommunicator>> all;
  {
    const std::lock_guard lock(mutex_);
    const auto is_mine = [&](const Member& member) {
      return std::any_of(mine.begin(), mine.end(), [&](const auto& one) {
        return one.get() == member.communicator.get();
      });
    };
    std::vector<const GpuCommunicator*> taken;
    for (auto& [number, member] : members_) {
      if (member.is_taken) {
        taken.push_back(member.communicator.get());
      } else if (is_mine(member) || member.has_lost_its_epoch()) {
        member.is_taken = true;
        all.push_back(member.communicator);
      }
    }
    for (const Ref<GpuCommunicator>& one : mine) {
      const auto is_it = [&](const auto& other) { return &*other == one.get(); };
      if (std::none_of(taken.begin(), taken.end(), is_it) &&
          std::none_of(all.begin(), all.end(), is_it)) {
        all.push_back(one);
      }
    }
  }
  return GpuCommunicator::Abort(all, wait);
}

}  // namespace tutti
