#include "core/base/callback_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(CallbackScope, NestsAndBelongsToItsThread) {
  EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kNone);
  {
    CallbackScope replica(CallbackClass::kReplica);
    {
      CallbackScope merge(CallbackClass::kCrossReplica);
      EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kCrossReplica);
    }
    EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kReplica);
    std::thread([] { EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kNone); }).join();
  }
  EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kNone);
}

// Which calls each class allows: building, computing, cross-replica, outside.
TEST(CallbackScope, RefusesCallsOutOfClass) {
  struct Case {
    CallbackClass callback_class;
    bool building, computing, cross_replica, outside;
  };
  const Case cases[] = {
      {CallbackClass::kNone, true, true, true, true},
      {CallbackClass::kReplica, true, true, false, false},
      {CallbackClass::kCrossReplica, true, true, true, false},
      {CallbackClass::kDataset, true, false, false, false},
      {CallbackClass::kNotification, false, false, false, false},
  };
  for (const Case& one : cases) {
    CallbackScope scope(one.callback_class);
    SCOPED_TRACE(CallbackClassName(one.callback_class));
    EXPECT_EQ(CheckBuildingAllowed("f").ok(), one.building);
    EXPECT_EQ(CheckComputingAllowed("f").ok(), one.computing);
    EXPECT_EQ(CheckCrossReplicaAllowed("f").ok(), one.cross_replica);
    EXPECT_EQ(CheckOutsideCallbacks("f").ok(), one.outside);
  }
}

TEST(CallbackScope, SaysWhoWasCalledWhereAndWhereItMayBeCalled) {
  CallbackScope scope(CallbackClass::kDataset);
  const Status status = CheckComputingAllowed("tutti_iterator_get_next");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tutti_iterator_get_next"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("a dataset callback"));
  EXPECT_THAT(std::string(CheckInside(CallbackClass::kReplica, "all_reduce").message()),
              HasSubstr("call it inside a replica callback"));
  EXPECT_TRUE(CheckCallbackClass({CallbackClass::kNone, CallbackClass::kDataset}, "f").ok());
  EXPECT_THAT(std::string(CheckCallbackClass({CallbackClass::kNone}, "f").message()),
              HasSubstr("outside of callbacks"));
}

}  // namespace
}  // namespace tutti
