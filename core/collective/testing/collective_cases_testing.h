// For tests: what the ranks of every transport must do alike. The cases stand in
// all_collectives_test.cc and all_collectives_errors_test.cc; a transport joins with
//
//   INSTANTIATE_TEST_SUITE_P(
//       Links, CollectiveCases,
//       testing::Values(CollectiveWorldOf<LinkRanks>("tcp", LinkKind::kTcp)), CollectiveWorldName);

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_COLLECTIVE_CASES_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_COLLECTIVE_CASES_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"

namespace tutti {

// The ranks of one group, all in this process, each used by a thread of its own.
class CollectiveRanks {
 public:
  virtual ~CollectiveRanks() = default;
  virtual size_t size() = 0;
  virtual Communicator& operator[](size_t rank) = 0;
  virtual CallOptions Timeout(int64_t timeout_ns) = 0;

  // A limit that only a hang can reach.
  CallOptions Hang() { return Timeout(60 * kSecondNs); }
  // body(rank, communicator) -> Status on a thread per rank; the statuses in rank order.
  template <typename Body>
  std::vector<Status> Run(Body body) {
    std::vector<Status> statuses(size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < size(); ++rank) {
      threads.emplace_back([this, &statuses, &body, rank] {
        statuses[rank] = body(static_cast<int64_t>(rank), (*this)[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
};

struct CollectiveWorld {
  std::string name;  // of letters and digits
  std::function<std::unique_ptr<CollectiveRanks>(size_t size)> make;
};

// Group(size, arguments...) with size(), [rank] and Timeout(ns).
template <typename Group, typename... Arguments>
CollectiveWorld CollectiveWorldOf(std::string name, Arguments... arguments) {
  class Ranks final : public CollectiveRanks {
   public:
    Ranks(size_t size, Arguments... arguments) : group_(size, arguments...) {}
    size_t size() override { return group_.size(); }
    Communicator& operator[](size_t rank) override { return group_[rank]; }
    CallOptions Timeout(int64_t timeout_ns) override { return group_.Timeout(timeout_ns); }

   private:
    Group group_;
  };
  return CollectiveWorld{std::move(name), [arguments...](size_t size) {
                           return std::unique_ptr<CollectiveRanks>(
                               std::make_unique<Ranks>(size, arguments...));
                         }};
}

class CollectiveCases : public testing::TestWithParam<CollectiveWorld> {
 protected:
  std::unique_ptr<CollectiveRanks> Make(size_t size) { return GetParam().make(size); }
};

inline std::string CollectiveWorldName(const testing::TestParamInfo<CollectiveWorld>& info) {
  return info.param.name;
}

inline void PrintTo(const CollectiveWorld& world, std::ostream* out) { *out << world.name; }

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_COLLECTIVE_CASES_TESTING_H_
