// LocalFamily: where ranks of one process that are to form another group find each other: a part of
// theirs, or the next epoch of those that are left. The group that CreateLocal made and all that
// came from it have one.

#ifndef TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_FAMILY_H_
#define TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_FAMILY_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/thread/local_group.h"

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

  // A rank of the group that has not left; all of them call it, and wait for each other: those that
  // do not come leave. Gives the group of those that came.
  struct Renewed {
    Ref<LocalGroup> group;
    std::vector<int64_t> members;  // their former ranks, by rank
    int64_t epoch = 1;
  };
  Result<Renewed> Renew(const Ref<LocalGroup>& group, const std::string& name, int64_t rank,
                        const CallOptions& options);
  // A rank's transport is there, or goes.
  void Enter(const Ref<LocalGroup>& group);
  void Exit(const LocalGroup* group);
  // A rank of some group has left it.
  void OnLeave();
  // All groups fail with `error`, those too that come later.
  void Fail(const Status& error);

 private:
  struct Waiting {
    Ref<LocalGroup> group;
    int64_t num_to_come = 0;
  };
  // Ranks of a group that wait for the others.
  struct Renewing {
    std::vector<bool> came;
    std::shared_ptr<const Renewed> result;
    size_t num_to_take = 0;
  };
  struct Member {
    Ref<LocalGroup> group;
    int64_t num_ranks = 0;
    int64_t last_epoch = 0;  // of those that came from it; 0: none
    Renewing renewing;
  };
  // One rank's share of the result. With the lock held.
  void Take(Renewing& renewing);

  const Ref<Environment> environment_;
  const size_t usable_cores_;
  const std::shared_ptr<const SelectorTable> table_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<std::string, Waiting> waiting_;
  std::map<const LocalGroup*, Member> members_;  // groups of which there is a transport
  Status failure_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_FAMILY_H_
