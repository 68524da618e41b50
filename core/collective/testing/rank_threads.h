// For tests and benchmarks: a real environment, communicators, and one thread per rank.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_RANK_THREADS_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_RANK_THREADS_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/real_environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"

namespace tutti {

// The communicators of one group in an environment of its own, which is shut down at the end.
class RankGroup {
 public:
  explicit RankGroup(size_t size, const Communicator::LocalOptions& options = {})
      : environment_(MakeRef<RealEnvironment>()),
        ranks_(Communicator::CreateLocal(environment_.get(), size, options).value()) {}
  ~RankGroup() {
    for (const Ref<Communicator>& rank : ranks_) {
      if (rank && !rank->Close(CallOptions()).ok()) std::abort();
    }
    ranks_.clear();
    if (!environment_->Shutdown(CallOptions()).ok()) std::abort();
  }
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  RealEnvironment& environment() { return *environment_; }
  const Clock& clock() { return environment_->clock(); }
  size_t size() const { return ranks_.size(); }
  Communicator& operator[](size_t rank) { return *ranks_[rank]; }
  // Gives up the group's reference to a rank.
  void Drop(size_t rank) { ranks_[rank].reset(); }

  // A limit that only a hang can reach.
  CallOptions Hang() { return CallOptions::WithTimeout(clock(), 60 * kSecondNs); }
  CallOptions Timeout(int64_t timeout_ns) { return CallOptions::WithTimeout(clock(), timeout_ns); }

  // body(rank, communicator) -> Status on a thread per rank; the statuses in rank order.
  template <typename Body>
  std::vector<Status> Run(Body body) {
    std::vector<Status> statuses(size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < size(); ++rank) {
      threads.emplace_back([this, &statuses, &body, rank] {
        statuses[rank] = body(static_cast<int64_t>(rank), *ranks_[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

 private:
  const Ref<RealEnvironment> environment_;
  std::vector<Ref<Communicator>> ranks_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_RANK_THREADS_H_
