#include "core/collective/local_family.h"

#include <utility>

#include "core/base/environment.h"
#include "core/collective/selector.h"

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

}  // namespace tutti
