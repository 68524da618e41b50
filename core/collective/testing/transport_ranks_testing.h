// For tests and benchmarks: communicators of one group over transports that somebody makes, between
// threads of this process.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_TRANSPORT_RANKS_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_TRANSPORT_RANKS_TESTING_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/real_environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/communicator.h"

namespace tutti {

class TransportRanks {
 public:
  TransportRanks(const TransportRanks&) = delete;
  TransportRanks& operator=(const TransportRanks&) = delete;

  RealEnvironment& environment() { return *environment_; }
  size_t size() const { return ranks_.size(); }
  Communicator& operator[](size_t rank) { return *ranks_[rank]; }
  // Closes a rank and takes its end of all links away.
  void Drop(size_t rank) {
    if (!ranks_[rank]->Close(Hang()).ok()) std::abort();
    ranks_[rank].reset();
  }

  // A limit that only a hang can reach.
  CallOptions Hang() { return Timeout(60 * kSecondNs); }
  CallOptions Timeout(int64_t timeout_ns) {
    return CallOptions::WithTimeout(environment_->clock(), timeout_ns);
  }

  // body(rank, communicator) -> Status on a thread per rank; the statuses in rank order.
  template <typename Body>
  std::vector<Status> Run(Body body) {
    std::vector<Status> statuses(size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < size(); ++rank) {
      if (!ranks_[rank]) continue;
      threads.emplace_back([this, &statuses, &body, rank] {
        statuses[rank] = body(static_cast<int64_t>(rank), *ranks_[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

 protected:
  TransportRanks()
      : environment_(
            MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff})) {}
  ~TransportRanks() {
    CloseRanks();
    if (!environment_->Shutdown(CallOptions()).ok()) std::abort();
  }

  // How messages call a rank of the group.
  static std::string Describe(int64_t rank) {
    return Format("worker {}, pid {}", rank, 4711 + rank);
  }
  // The next rank of `size`.
  void Add(size_t size, std::unique_ptr<Transport> transport) {
    ranks_.push_back(Communicator::CreateOver(environment_.get(), "group",
                                              static_cast<int64_t>(ranks_.size()),
                                              static_cast<int64_t>(size), 1, std::move(transport))
                         .value());
  }
  // Before what the transports need is taken away.
  void CloseRanks() {
    for (const Ref<Communicator>& rank : ranks_) {
      if (rank && !rank->Close(CallOptions()).ok()) std::abort();
    }
    ranks_.clear();
  }

  const Ref<RealEnvironment> environment_;

 private:
  std::vector<Ref<Communicator>> ranks_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_TRANSPORT_RANKS_TESTING_H_
