#include "core/base/simulated_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/closable.h"
#include "core/base/disk.h"
#include "core/base/executor.h"
#include "core/base/host_data.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/base/wait.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three chatterers that post, draw and wait at random: a trace with plenty of choices.
std::string RunWorld(uint64_t seed) {
  auto world = MakeRef<SimulatedEnvironment>(seed);
  struct Chatterer {
    SimulatedEnvironment& world;
    int name;
    int left = 10;
    void Speak() {
      world.Note(Format("{} says {}", name, world.random().Next() % 100));
      if (left-- > 0) {
        world.executor().PostAfter(static_cast<int64_t>(world.random().Next() % 3),
                                   [this] { Speak(); });
      }
    }
  };
  Chatterer chatterers[] = {{*world, 0}, {*world, 1}, {*world, 2}};
  for (Chatterer& one : chatterers) world->executor().Post([&one] { one.Speak(); });
  world->RunUntilIdle();
  return world->trace();
}

TEST(SimulatedEnvironment, GivesTheSameTraceForTheSameSeed) {
  for (const uint64_t seed : {0, 1, 42}) EXPECT_EQ(RunWorld(seed), RunWorld(seed));
  EXPECT_NE(RunWorld(1), RunWorld(2));
}

TEST(SimulatedEnvironment, MovesTimeToTheNextEventWithoutWaiting) {
  auto world = MakeRef<SimulatedEnvironment>(1);
  std::vector<int64_t> times;
  const auto note = [&] { times.push_back(world->clock().NowNs()); };
  world->executor().PostAfter(3600 * kSecondNs, note);
  world->executor().PostAfter(5 * kSecondNs, note);
  world->executor().Post(note);
  world->RunFor(10 * kSecondNs);
  EXPECT_THAT(times, ElementsAre(0, 5 * kSecondNs));
  EXPECT_EQ(world->clock().NowNs(), 10 * kSecondNs);
  EXPECT_TRUE(world->Step());
  EXPECT_EQ(world->clock().NowNs(), 3600 * kSecondNs);
  EXPECT_FALSE(world->Step());
}

TEST(SimulatedEnvironment, RunsEventsInsideAWait) {
  auto world = MakeRef<SimulatedEnvironment>(1);
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  world->executor().PostAfter(7 * kSecondNs, [&] {
    std::lock_guard<std::mutex> guard(mutex);
    ready = true;
  });
  std::unique_lock<std::mutex> lock(mutex);
  const auto is_ready = [&] { return ready; };
  EXPECT_TRUE(WaitUntil(lock, changed, world->clock(), CallOptions::Default(), is_ready, "x").ok());
  EXPECT_EQ(world->clock().NowNs(), 7 * kSecondNs);
}

TEST(SimulatedEnvironment, EndsAWaitAtItsVirtualDeadline) {
  auto world = MakeRef<SimulatedEnvironment>(1);
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock<std::mutex> lock(mutex);
  const CallOptions options = CallOptions::WithTimeout(world->clock(), 3600 * kSecondNs);
  const Status status =
      WaitUntil(lock, changed, world->clock(), options, [] { return false; }, "x");
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(world->clock().NowNs(), 3600 * kSecondNs);
}

TEST(SimulatedEnvironment, FindsAWaitThatNothingCanEnd) {
  auto world = MakeRef<SimulatedEnvironment>(77);
  auto cancellation = MakeRef<Cancellation>();
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock<std::mutex> lock(mutex);
  const CallOptions options{Deadline(), cancellation.get()};
  const Status status =
      WaitUntil(lock, changed, world->clock(), options, [] { return false; }, "the barrier");
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the barrier: simulation (seed 77)"));
}

TEST(SimulatedEnvironment, HasADiskOfItsOwnInMemory) {
  auto world = MakeRef<SimulatedEnvironment>(1);
  ASSERT_TRUE(world->disk().WriteFile("/journal", "entry").ok());
  EXPECT_EQ(*world->disk().ReadFile("/journal"), "entry");
  EXPECT_FALSE(MakeRef<SimulatedEnvironment>(1)->disk().Exists("/journal"));
}

TEST(SimulatedEnvironment, WritesItsLogIntoTheTrace) {
  auto world = MakeRef<SimulatedEnvironment>(1);
  world->RunFor(5);
  world->log().Warning("rank 1 is late");
  EXPECT_EQ(world->trace(), "5 log warning rank 1 is late\n");
}

TEST(SimulatedEnvironment, CallsBackInOrderWhateverTheSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto world = MakeRef<SimulatedEnvironment>(seed);
    std::vector<int> order;
    for (int i = 0; i < 5; ++i) {
      world->callback_executor().Post([&order, i] { order.push_back(i); });
    }
    world->RunUntilIdle();
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4)) << "seed " << seed;
  }
}

class Quiet final : public Closable {
 public:
  Quiet(Ref<Environment> environment, int* closed)
      : Closable(std::move(environment), "quiet"), closed_(closed) {}

 protected:
  Status OnClose(const CallOptions&) override {
    ++*closed_;
    return OkStatus();
  }

 private:
  int* const closed_;
};

TEST(SimulatedEnvironment, ReapsAndShutsDownInVirtualTime) {
  auto world = MakeRef<SimulatedEnvironment>(1);
  int closed = 0;
  auto held = MakeRef<Quiet>(world, &closed);
  ASSERT_TRUE(held->Register().ok());
  {
    auto released = MakeRef<Quiet>(world, &closed);
    ASSERT_TRUE(released->Register().ok());
  }
  EXPECT_EQ(closed, 0);
  world->RunUntilIdle();
  EXPECT_EQ(closed, 1);
  EXPECT_TRUE(world->Shutdown(CallOptions::Default()).ok());
  EXPECT_EQ(closed, 2);
  EXPECT_FALSE(world->executor().Post([] {}));
}

TEST(SimulatedEnvironment, OwesTheHostItsDestroyCallsToTheEnd) {
  int destroyed = 0;
  const auto destroy = [](void* data) { ++*static_cast<int*>(data); };
  Ref<HostData> late;
  {
    auto world = MakeRef<SimulatedEnvironment>(1);
    auto executor = Ref<CallbackExecutor>::Retain(&world->callback_executor());
    late = MakeRef<HostData>(&destroyed, destroy, executor);
    MakeRef<HostData>(&destroyed, destroy, executor);
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
  late.reset();
  EXPECT_EQ(destroyed, 2);
}

TEST(SimulatedEnvironment, StartsNoThreads) {
  auto world = MakeRef<SimulatedEnvironment>(1);
  EXPECT_EQ(world->StartThread("t", [] {}).status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tutti
