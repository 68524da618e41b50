// ProcessWatch: knows at once when another worker's process on this machine ends, whatever became
// of its sockets: a killed worker's forked child keeps them open, its pidfd becomes readable all
// the same (pidfd_open(2), Linux 5.3).
//
// Where pidfds are missing or forbidden, and for workers elsewhere, it watches nobody: heartbeats
// and connections remain.

#ifndef TUTTI_CORE_CLUSTER_WATCH_PROCESS_WATCH_H_
#define TUTTI_CORE_CLUSTER_WATCH_PROCESS_WATCH_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/cluster/membership/worker_info.h"

namespace tutti {

class Environment;

class ProcessWatch {
 public:
  // Called once for each worker whose process has ended, on the watch's thread, with what was seen:
  // "its process has ended".
  using OnEnd = std::function<void(const MemberId& member, const std::string& what)>;

  // Starts the thread "tutti-watch" when there is anybody to watch. The arrival of `workers` is 0,
  // unless `arrivals` has one for each.
  static Result<std::unique_ptr<ProcessWatch>> Start(Environment& environment,
                                                     const std::vector<WorkerInfo>& workers,
                                                     const WorkerInfo& self, OnEnd on_end,
                                                     const std::vector<uint64_t>& arrivals = {});
  ~ProcessWatch();

  // Watches one more, if it can be watched. Any thread; after Stop it does nothing.
  Status Add(const WorkerInfo& info, uint64_t arrival);
  // How many processes are, or were, watched.
  size_t num_watched() const;
  // Joins. Ends that came before it are told. Can be called again after it failed.
  Status Stop(const CallOptions& options);

 private:
  struct Watched {
    MemberId member;
    FileDescriptor process;  // none: has ended already
  };
  ProcessWatch(Environment& environment, const WorkerInfo& self, OnEnd on_end);
  void Work();
  bool Round();
  void TellEnded();
  void Wake();

  Environment& environment_;
  const WorkerInfo self_;
  const OnEnd on_end_;
  // Of the thread alone.
  std::vector<pollfd> polled_;
  std::vector<MemberId> ended_;  // and not told yet

  mutable std::mutex mutex_;    // guards all below; of watched_, the thread alone removes
  bool stopping_ = false;
  size_t num_watched_ = 0;
  std::deque<Watched> watched_;
  FileDescriptor wake_;         // an eventfd
  Thread thread_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_WATCH_PROCESS_WATCH_H_
