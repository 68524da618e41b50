// ProcessWatch: knows at once when another worker's process on this machine ends, whatever became
// of its sockets: a killed worker's forked child keeps them open, its pidfd becomes readable all
// the same (pidfd_open(2), Linux 5.3).
//
// Where pidfds are missing or forbidden, and for workers elsewhere, it watches nobody: heartbeats
// and connections remain.

#ifndef TUTTI_CORE_CLUSTER_PROCESS_WATCH_H_
#define TUTTI_CORE_CLUSTER_PROCESS_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/cluster/file_descriptor.h"
#include "core/cluster/worker_info.h"

namespace tutti {

class Environment;

class ProcessWatch {
 public:
  // Called once for each worker whose process has ended, on the watch's thread, with what was seen:
  // "its process has ended".
  using OnEnd = std::function<void(int64_t worker, const std::string& what)>;

  // Starts the thread "tutti-watch" when there is anybody to watch.
  static Result<std::unique_ptr<ProcessWatch>> Start(Environment& environment,
                                                     const std::vector<WorkerInfo>& workers,
                                                     const WorkerInfo& self, OnEnd on_end);
  ~ProcessWatch();

  // How many processes are, or were, watched.
  size_t num_watched() const { return num_watched_; }
  // Joins. Can be called again after it failed.
  Status Stop(const CallOptions& options);

 private:
  struct Watched {
    int64_t worker;
    FileDescriptor process;  // none: has ended already
  };
  explicit ProcessWatch(OnEnd on_end);
  void Work();

  const OnEnd on_end_;
  size_t num_watched_ = 0;
  std::vector<Watched> watched_;  // the thread's
  FileDescriptor stop_;           // an eventfd
  Thread thread_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_PROCESS_WATCH_H_
