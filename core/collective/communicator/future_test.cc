#include "core/collective/communicator/future.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/base/callback_scope.h"
#include "core/base/executor.h"
#include "core/base/real_environment.h"
#include "core/base/simulated_environment.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// Counts what a notification's function and destroy did.
struct Witness {
  std::atomic<int> calls{0};
  std::atomic<int> destroys{0};
  std::atomic<int> calls_at_destroy{-1};
  std::atomic<CallbackClass> seen_class{CallbackClass::kNone};

  static void Notify(void* self) {
    auto* witness = static_cast<Witness*>(self);
    witness->seen_class = CurrentCallbackClass();
    ++witness->calls;
  }
  static void Destroy(void* self) {
    auto* witness = static_cast<Witness*>(self);
    witness->calls_at_destroy = witness->calls.load();
    ++witness->destroys;
  }
  Ref<const HostData> Data(Environment& environment) {
    return MakeRef<HostData>(this, &Destroy,
                             Ref<CallbackExecutor>::Retain(&environment.callback_executor()));
  }
};

class FutureTest : public testing::Test {
 protected:
  // Shutdown runs what the callback executor still has.
  void Finish() { EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok()); }
  void TearDown() override { Finish(); }

  const Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  const Ref<Future> future_ = MakeRef<Future>(environment_);
};

TEST_F(FutureTest, GivesTheValueThatItWasCompletedWith) {
  EXPECT_FALSE(future_->IsDone());
  Ref<Value> result;
  EXPECT_EQ(future_->GetResult(&result).code(), StatusCode::kFailedPrecondition);
  Ref<Value> value = Value::OfString("done");
  ASSERT_TRUE(future_->Complete(OkStatus(), value).ok());
  EXPECT_TRUE(future_->IsDone());
  ASSERT_TRUE(future_->GetResult(&result).ok());
  EXPECT_EQ(result.get(), value.get());
}

TEST_F(FutureTest, GivesTheErrorThatItWasCompletedWithWhileWaitingSucceeds) {
  ASSERT_TRUE(future_->Complete(Status(StatusCode::kNotFound, "no such file"), nullptr).ok());
  EXPECT_TRUE(future_->Wait(CallOptions()).ok());
  Ref<Value> result = Value::None();
  Value* const before = result.get();
  const Status status = future_->GetResult(&result);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no such file");
  EXPECT_EQ(result.get(), before);
}

TEST_F(FutureTest, RefusesASecondCompletionAndKeepsTheFirst) {
  ASSERT_TRUE(future_->Complete(OkStatus(), nullptr).ok());
  EXPECT_EQ(future_->Complete(Status(StatusCode::kAborted, "late"), nullptr).code(),
            StatusCode::kFailedPrecondition);
  Ref<Value> result = Value::None();
  EXPECT_TRUE(future_->GetResult(&result).ok());
  EXPECT_EQ(result.get(), nullptr);
}

TEST_F(FutureTest, WakesAWaiterOnAnotherThread) {
  std::thread completer([&] { EXPECT_TRUE(future_->Complete(OkStatus(), nullptr).ok()); });
  EXPECT_TRUE(
      future_->Wait(CallOptions::WithTimeout(environment_->clock(), 60 * kSecondNs)).ok());
  completer.join();
}

TEST_F(FutureTest, LeavesTheOperationRunningWhenAWaitExpiresOrIsCancelled) {
  EXPECT_EQ(future_->Wait(CallOptions::WithTimeout(environment_->clock(), 1)).code(),
            StatusCode::kDeadlineExceeded);
  Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  cancellation->Cancel();
  EXPECT_EQ(future_->Wait(CallOptions{Deadline(), cancellation.get()}).code(),
            StatusCode::kCancelled);
  EXPECT_FALSE(future_->IsDone());
  EXPECT_TRUE(future_->Complete(OkStatus(), nullptr).ok());
}

TEST_F(FutureTest, RefusesToWaitInsideANotification) {
  CallbackScope scope(CallbackClass::kNotification);
  EXPECT_EQ(future_->Wait(CallOptions()).code(), StatusCode::kFailedPrecondition);
}

TEST_F(FutureTest, NotifiesOnceInTheNotificationClassAndThenDestroys) {
  Witness witness;
  ASSERT_TRUE(future_->OnReady(&Witness::Notify, witness.Data(*environment_)).ok());
  ASSERT_TRUE(future_->Complete(OkStatus(), nullptr).ok());
  Finish();
  EXPECT_EQ(witness.calls, 1);
  EXPECT_EQ(witness.destroys, 1);
  EXPECT_EQ(witness.calls_at_destroy, 1);
  EXPECT_EQ(witness.seen_class, CallbackClass::kNotification);
}

TEST_F(FutureTest, NotifiesAtOnceWhenItIsDoneAlready) {
  ASSERT_TRUE(future_->Complete(OkStatus(), nullptr).ok());
  Witness witness;
  ASSERT_TRUE(future_->OnReady(&Witness::Notify, witness.Data(*environment_)).ok());
  Finish();
  EXPECT_EQ(witness.calls, 1);
  EXPECT_EQ(witness.destroys, 1);
}

TEST_F(FutureTest, DestroysWithoutNotifyingWhenItIsNeverCompleted) {
  Witness witness;
  {
    Ref<Future> dropped = MakeRef<Future>(environment_);
    ASSERT_TRUE(dropped->OnReady(&Witness::Notify, witness.Data(*environment_)).ok());
  }
  Finish();
  EXPECT_EQ(witness.calls, 0);
  EXPECT_EQ(witness.destroys, 1);
}

TEST_F(FutureTest, DestroysWhenTheNotificationIsRefused) {
  Witness witness;
  EXPECT_EQ(future_->OnReady(nullptr, witness.Data(*environment_)).code(),
            StatusCode::kInvalidArgument);
  Finish();
  EXPECT_EQ(future_->OnReady(&Witness::Notify, witness.Data(*environment_)).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(witness.calls, 0);
  EXPECT_EQ(witness.destroys, 2);
}

TEST_F(FutureTest, NotifiesOnTheCompletingThreadAfterShutdown) {
  Witness witness;
  ASSERT_TRUE(future_->OnReady(&Witness::Notify, witness.Data(*environment_)).ok());
  Finish();
  ASSERT_TRUE(future_->Complete(OkStatus(), nullptr).ok());
  EXPECT_EQ(witness.calls, 1);
  EXPECT_EQ(witness.destroys, 1);
  EXPECT_EQ(witness.seen_class, CallbackClass::kNotification);
}

TEST_F(FutureTest, WhoMustNotGoBeforeWaitsAfterShutdownToo) {
  Finish();
  EXPECT_EQ(future_->Wait(CallOptions()).code(), StatusCode::kFailedPrecondition);
  std::thread other([&] { EXPECT_TRUE(future_->Complete(OkStatus(), nullptr).ok()); });
  EXPECT_TRUE(future_->WaitUntilDone().ok());
  EXPECT_TRUE(future_->IsDone());
  other.join();
}

TEST_F(FutureTest, AForkedChildReleasesWhatAThreadOfItsParentWaitsFor) {
  Future* future = MakeRef<Future>(environment_).release();
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    waits = true;
    EXPECT_TRUE(future->Wait(CallOptions()).ok());
  });
  while (!waits) std::this_thread::yield();
  // It is about to wait, or waits by now; the child must end in either case.
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      future->Release();
      _exit(0);
    }
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  }
  EXPECT_TRUE(future->Complete(OkStatus(), nullptr).ok());
  waiter.join();
  future->Release();
}

TEST(SimulatedFuture, ReportsAWaitThatNothingCanEnd) {
  Ref<SimulatedEnvironment> world = MakeRef<SimulatedEnvironment>(7);
  Ref<Future> future = MakeRef<Future>(world);
  EXPECT_FALSE(future->Wait(CallOptions()).ok());
  world->executor().PostAfter(5 * kSecondNs, Task([&] {
                                EXPECT_TRUE(future->Complete(OkStatus(), nullptr).ok());
                              }));
  EXPECT_TRUE(future->Wait(CallOptions()).ok());
  EXPECT_EQ(world->clock().NowNs() >= 5 * kSecondNs, true);
  EXPECT_TRUE(world->Shutdown(CallOptions()).ok());
}

}  // namespace
}  // namespace tutti
