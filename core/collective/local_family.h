// LocalFamily: where ranks of one process that are to form a smaller group find each other. The
// group that CreateLocal made and all that were split from it have one.

#ifndef TUTTI_CORE_COLLECTIVE_LOCAL_FAMILY_H_
#define TUTTI_CORE_COLLECTIVE_LOCAL_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/base/ref.h"
#include "core/collective/local_group.h"

namespace tutti {

class Environment;
class SelectorTable;

class LocalFamily {
 public:
  LocalFamily(Ref<Environment> environment, size_t usable_cores,
              std::shared_ptr<const SelectorTable> table);
  ~LocalFamily();

  // A group that nobody needs to find.
  Ref<LocalGroup> Make(const std::string& name, int64_t size, int64_t epoch);
  // Each of `size` ranks calls it once with the same arguments, and no others with that key: the
  // first makes the group. Never blocks.
  Ref<LocalGroup> Join(const std::string& key, const std::string& name, int64_t size,
                       int64_t epoch);

 private:
  struct Waiting {
    Ref<LocalGroup> group;
    int64_t num_to_come = 0;
  };

  const Ref<Environment> environment_;
  const size_t usable_cores_;
  const std::shared_ptr<const SelectorTable> table_;
  std::mutex mutex_;  // guards waiting_
  std::map<std::string, Waiting> waiting_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_LOCAL_FAMILY_H_
