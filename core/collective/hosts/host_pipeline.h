// HostPipeline: a call over several hosts in chunks, of which one is between the hosts while the
// next one is in the memory of each host.
//
//   caller's thread   first 0   first 1   .. last 0   first 2   .. last 1   ..   (.. waits)
//   own thread               between 0     |    between 1    |      between 2
//
// Every rank runs the same stages in the same order on either thread, so that each stage meets the
// same one of the peers: a chunk waits for nothing but earlier stages and earlier chunks, and so
// nobody waits in a circle. A rank that gets no thread does without: then it is late, and no more.
//
// The caller's thread waits for the other one without a deadline of its own: each stage has that of
// the call, and knows whom it waits for. Whatever ends a stage ends the call for all
// (Stages::fail), and so the stages that the other thread is in. When Run returns neither thread
// uses anything of the call. The same holds when an exception leaves it, which a stage on the
// caller's thread has thrown; what one on the other thread throws becomes a status.

#ifndef TUTTI_CORE_COLLECTIVE_HOSTS_HOST_PIPELINE_H_
#define TUTTI_CORE_COLLECTIVE_HOSTS_HOST_PIPELINE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"

namespace tutti {

class Environment;

class HostPipeline {
 public:
  // Of chunk after chunk. A null one has nothing to do.
  struct Stages {
    std::function<Status(int64_t chunk)> first;
    // Ends soon after `stop` is thrown, and after fail().
    std::function<Status(int64_t chunk, Cancellation* stop)> between;
    std::function<Status(int64_t chunk)> last;
    // A stage has failed, on either thread: ends what both wait for; gives what the call fails
    // with.
    std::function<Status(Status)> fail;
  };

  explicit HostPipeline(Environment& environment);
  // Joins the thread. Not in a forked child, which has none.
  ~HostPipeline();
  HostPipeline(const HostPipeline&) = delete;
  HostPipeline& operator=(const HostPipeline&) = delete;

  // Calls of one thread at a time. While it waits it polls `watch`, the call's cancellation.
  Status Run(int64_t chunks, const Stages& stages, Cancellation* watch);
  // No call comes any more: the thread ends behind the one that runs. Never blocks.
  void Stop();

 private:
  Status RunStages(int64_t chunks, const Stages& stages, Cancellation* watch);
  // For a call with these stages; false when there is none to be had.
  bool TakeThread(const Stages& stages);
  void Work();
  // Of the caller's thread.
  void Post(int64_t chunk);
  // The call is over, however it ends: waits for what the thread still does for it.
  void ReturnThread();
  // Until `between` of the chunk is over.
  Status Await(int64_t chunk, Cancellation* watch);

  Environment& environment_;
  Thread thread_;  // of the caller's thread

  std::mutex mutex_;  // guards all below
  std::condition_variable posted_;
  std::condition_variable done_;
  const Stages* stages_ = nullptr;  // of the call that uses the thread
  int64_t num_posted_ = 0;          // chunks of it
  int64_t num_done_ = 0;
  Status failure_;  // of a `between`: those behind it are left out
  Ref<Cancellation> stop_;
  bool stopping_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_HOSTS_HOST_PIPELINE_H_
