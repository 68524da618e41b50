#include "core/collective/thread/local_family.h"

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/collective/select/selector.h"

namespace tutti {

LocalFamily::LocalFamily(Ref<Environment> environment, size_t usable_cores,
                         std::shared_ptr<const SelectorTable> table)
    : environment_(std::move(environment)), usable_cores_(usable_cores), table_(std::move(table)) {}

LocalFamily::~LocalFamily() = default;

Ref<LocalGroup> LocalFamily::Make(const std::string& name, int64_t size, int64_t epoch) {
  return MakeRef<LocalGroup>(environment_, name, size, epoch, usable_cores_, table_.get());
}

Ref<LocalGroup> LocalFamily::Join(const std::string& key, const std::string& name, int64_t size,
                                  int64_t epoch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [it, is_first] = waiting_.try_emplace(key);
  if (is_first) it->second = Waiting{Make(name, size, epoch), size};
  Ref<LocalGroup> group = it->second.group;
  if (--it->second.num_to_come == 0) waiting_.erase(it);
  return group;
}

void LocalFamily::Enter(const Ref<LocalGroup>& group) {
  Status failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Member& member = members_[group.get()];
    if (member.num_ranks++ == 0) member.group = group;
    failure = failure_;
  }
  if (!failure.ok()) group->Fail(std::move(failure)).rep();
}

// In a forked child a lost thread may hold the mutex.
void LocalFamily::Exit(const LocalGroup* group) {
  if (environment_->LeftBehindByFork()) return;
  Ref<LocalGroup> last;  // released after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = members_.find(group);
  if (--it->second.num_ranks > 0) return;
  last = std::move(it->second.group);
  members_.erase(it);
}

void LocalFamily::OnLeave() {
  if (environment_->LeftBehindByFork()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

void LocalFamily::Fail(const Status& error) {
  if (environment_->LeftBehindByFork()) return;
  std::vector<Ref<LocalGroup>> groups;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = error;
    for (const auto& [key, member] : members_) groups.push_back(member.group);
    changed_.notify_all();
  }
  for (const Ref<LocalGroup>& group : groups) group->Fail(error).rep();
}

Result<LocalFamily::Renewed> LocalFamily::Renew(const Ref<LocalGroup>& group,
                                                const std::string& name, int64_t rank,
                                                const CallOptions& options) {
  const int64_t size = group->size();
  std::unique_lock<std::mutex> lock(mutex_);
  Member& member = members_.at(group.get());  // as long as this rank's transport is there
  Renewing& renewing = member.renewing;
  const auto self = static_cast<size_t>(rank);
  const auto complete = [&] {
    for (int64_t one = 0; one < size; ++one) {
      if (!renewing.came[static_cast<size_t>(one)] && !group->HasLeft(one)) return false;
    }
    return true;
  };
  // Those of the round before have taken its result: each rank is in one call at a time.
  TUTTI_RETURN_IF_ERROR(WaitUntil(lock, changed_, environment_->clock(), options,
                                  [&] { return renewing.result == nullptr; }, "renew"));
  renewing.came.resize(static_cast<size_t>(size));
  if (renewing.came[self]) {
    return FailedPrecondition("another thread of rank {} is in it already; one thread of a rank at "
                              "a time makes the next epoch",
                              rank);
  }
  renewing.came[self] = true;
  changed_.notify_all();
  // An exception must not leave this rank behind as one that has come. The wait may throw unlocked.
  struct Came {
    LocalFamily* const family;
    std::unique_lock<std::mutex>& lock;
    Renewing& renewing;
    const size_t self;
    bool stays = false;
    ~Came() {
      if (stays) return;
      if (!lock.owns_lock()) lock.lock();
      if (renewing.result == nullptr) {
        renewing.came[self] = false;
        return;
      }
      // The others go on with this rank, which does not come.
      const std::shared_ptr<const Renewed> formed = renewing.result;
      family->Take(renewing);
      lock.unlock();
      const auto place =
          std::find(formed->members.begin(), formed->members.end(), static_cast<int64_t>(self));
      formed->group->Leave(place - formed->members.begin(), Status::OutOfMemory());
      family->OnLeave();
    }
  } came{this, lock, renewing, self};
  const Status status =
      WaitUntil(lock, changed_, environment_->clock(), options,
                [&] { return renewing.result != nullptr || !failure_.ok() || complete(); },
                "renew");
  if (renewing.result == nullptr && !failure_.ok()) return failure_;
  if (renewing.result == nullptr && !status.ok()) {
    std::string missing;
    int64_t first = -1;
    for (int64_t one = 0; one < size; ++one) {
      if (one == rank || renewing.came[static_cast<size_t>(one)] || group->HasLeft(one)) continue;
      if (first < 0) first = one;
      missing += Format("{}rank {}", missing.empty() ? "" : ", ", one);
    }
    return status
        .WithPrefix(Format("it waits for {}, which neither came nor closed {} communicator",
                           missing, missing.find(',') == std::string::npos ? "its" : "their"))
        .With("peer", first);
  }
  if (renewing.result == nullptr) {
    auto renewed = std::make_shared<Renewed>();
    for (int64_t one = 0; one < size; ++one) {
      if (renewing.came[static_cast<size_t>(one)]) renewed->members.push_back(one);
    }
    member.last_epoch = std::max(member.last_epoch, group->epoch()) + 1;
    renewed->epoch = member.last_epoch;
    renewed->group = Make(name, static_cast<int64_t>(renewed->members.size()), renewed->epoch);
    renewing.num_to_take = renewed->members.size();
    renewing.result = std::move(renewed);
    changed_.notify_all();
  }
  Renewed own = *renewing.result;
  came.stays = true;
  Take(renewing);
  return own;
}

void LocalFamily::Take(Renewing& renewing) {
  if (--renewing.num_to_take != 0) return;
  renewing = Renewing();
  changed_.notify_all();
}

}  // namespace tutti
