// The queue and the timers of a real control network, worked off on the test's own thread.

#include "core/cluster/control/control_strand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/real_environment.h"

namespace tutti {
namespace {

using testing::UnorderedElementsAre;

class ControlStrandTest : public testing::Test {
 protected:
  ~ControlStrandTest() override {
    EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  }
  Task Ran(std::string what) {
    return Task([this, what = std::move(what)] { ran_.push_back(what); });
  }

  const Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  ControlStrand strand_{environment_->clock(), &environment_->log()};
  std::vector<std::string> ran_;
};

// What a user's timer would use goes with the first event after the door has closed, and the strand
// works on until the network has ended.
TEST_F(ControlStrandTest, NoTimerOfAUserRunsOnceTheDoorIsClosedAndThoseOfTheNetworkDo) {
  EXPECT_NE(strand_.PostAfter(1, Ran("a user's timer that waited")), 0u);
  const uint64_t timer = strand_.PostAfter(2, Ran("another"));
  EXPECT_NE(strand_.PostEventAfter(3, Ran("the network's timer that waited")), 0u);
  EXPECT_TRUE(strand_.Post(Ran("a user's task that was posted before")));
  EXPECT_TRUE(strand_.CloseDoor());
  EXPECT_FALSE(strand_.CloseDoor());
  EXPECT_FALSE(strand_.CancelTimer(timer));
  EXPECT_EQ(strand_.PostAfter(1, Ran("a user's late timer")), 0u);
  EXPECT_FALSE(strand_.Post(Ran("a user's late task")));
  EXPECT_NE(strand_.PostEventAfter(kMillisecondNs, Task([this] { strand_.Stop(); })), 0u);
  strand_.Run();
  EXPECT_THAT(ran_, UnorderedElementsAre("a user's task that was posted before",
                                         "the network's timer that waited"));
}

TEST_F(ControlStrandTest, ATimerThatIsDroppedLetsGoOfWhatItHolds) {
  const auto held = std::make_shared<int>(0);
  EXPECT_NE(strand_.PostAfter(60 * kSecondNs, Task([held] { ++*held; })), 0u);
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_TRUE(strand_.CloseDoor());
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(ControlStrandTest, WhatATaskThrowsIsToldAndTheStrandWorksOn) {
  environment_->log().set_level(LogLevel::kOff);
  std::vector<StatusCode> told;
  strand_.OnException([&](const Status& status) { told.push_back(status.code()); });
  EXPECT_TRUE(strand_.Post(Task([] { throw std::bad_alloc(); })));
  EXPECT_TRUE(strand_.Post(Ran("the next one")));
  // The end stands behind all that was posted, whenever the timer comes.
  const auto end_and_throw = [this] {
    strand_.PostEvent(Task([this] { strand_.Stop(); }));
    throw std::runtime_error("a timer's");
  };
  EXPECT_NE(strand_.PostAfter(1, Task(end_and_throw)), 0u);
  strand_.Run();
  EXPECT_THAT(ran_, UnorderedElementsAre("the next one"));
  EXPECT_THAT(told, UnorderedElementsAre(StatusCode::kResourceExhausted, StatusCode::kInternal));
}

}  // namespace
}  // namespace tutti
