// The queue of one rank's calls by itself: places and their order.

#include "core/collective/communicator/call_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"

namespace tutti {
namespace {

class CallQueueTest : public testing::Test {
 protected:
  CallQueueTest() {
    queue_->Prepare(/*cores_to_spare=*/false);
    worker_ = std::thread([queue = queue_] { queue->Work(); });
  }
  ~CallQueueTest() override {
    queue_->Stop();
    worker_.join();
  }

  // What has run, in that order.
  void Note(std::string what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    order_.push_back(std::move(what));
  }
  std::vector<std::string> order() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return order_;
  }
  std::unique_ptr<CallQueue::Call> Named(std::string name) {
    return std::make_unique<NamedCall>(this, std::move(name));
  }
  // Gives another thread the time to do what it must not do.
  static void WaitInVain(const std::atomic<bool>& done) {
    const Deadline enough = Deadline::After(RealClock(), 20 * kMillisecondNs);
    while (!done.load() && !enough.Expired(RealClock())) std::this_thread::yield();
  }
  CallOptions Hang() { return CallOptions::WithTimeout(RealClock(), 60 * kSecondNs); }

  const Ref<CallQueue> queue_ = MakeRef<CallQueue>(RealClock());

 private:
  class NamedCall final : public CallQueue::Call {
   public:
    NamedCall(CallQueueTest* test, std::string name) : test_(test), name_(std::move(name)) {}
    void Run() noexcept override { test_->Note(name_); }
    void Complete() noexcept override {}
    bool EndsWithin(const CallOptions&) const override { return true; }

   private:
    CallQueueTest* const test_;
    const std::string name_;
  };

  std::mutex mutex_;  // guards order_
  std::vector<std::string> order_;
  std::thread worker_;
};

TEST_F(CallQueueTest, ACallerTakesItsPlaceBehindACallThatIsAnnounced) {
  std::atomic<bool> taken{false};
  std::thread caller;
  {
    CallQueue::Announced announced(queue_.get());
    EXPECT_FALSE(announced.is_behind_caller());
    EXPECT_FALSE(announced.is_behind_queued());
    EXPECT_FALSE(queue_->TryBegin());
    caller = std::thread([&] {
      const CallQueue::Place place = queue_->TakePlace();
      taken.store(true);
      if (place == CallQueue::Place::kBehind) {
        EXPECT_TRUE(queue_->AwaitTurn(Hang(), "caller").ok());
      } else {
        EXPECT_EQ(place, CallQueue::Place::kFirst);
      }
      Note("caller");
      queue_->End();
    });
    WaitInVain(taken);
    announced.Push(Named("announced"));
  }
  caller.join();
  EXPECT_EQ(order(), (std::vector<std::string>{"announced", "caller"}));
  EXPECT_TRUE(queue_->AwaitIdle(Hang(), "test").ok());
}

TEST_F(CallQueueTest, CallsRunInTheOrderInWhichTheyAreAnnounced) {
  std::atomic<bool> pushed{false};
  std::thread other;
  bool behind_queued = false;
  // So that the worker runs none of them before both are there.
  ASSERT_TRUE(queue_->TryBegin());
  {
    CallQueue::Announced announced(queue_.get());
    EXPECT_TRUE(announced.is_behind_caller());
    other = std::thread([&] {
      CallQueue::Announced second(queue_.get());
      behind_queued = second.is_behind_queued();
      second.Push(Named("second"));
      pushed.store(true);
    });
    WaitInVain(pushed);
    announced.Push(Named("first"));
  }
  other.join();
  EXPECT_TRUE(behind_queued);
  queue_->End();
  EXPECT_TRUE(queue_->AwaitIdle(Hang(), "test").ok());
  EXPECT_EQ(order(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(CallQueueTest, APlaceThatAHostLeavesIsGivenUp) {
  struct BlockedCall final : CallQueue::Call {
    std::atomic<int>& stage;
    explicit BlockedCall(std::atomic<int>* stage) : stage(*stage) {}
    void Run() noexcept override {
      stage.store(1);
      while (stage.load() == 1) std::this_thread::yield();
    }
    void Complete() noexcept override {}
    bool EndsWithin(const CallOptions&) const override { return true; }
  };
  std::atomic<int> stage{0};
  CallQueue::Announced(queue_.get()).Push(std::make_unique<BlockedCall>(&stage));
  while (stage.load() == 0) std::this_thread::yield();
  EXPECT_EQ(queue_->TakePlace(), CallQueue::Place::kBehind);
  const Ref<Cancellation> host = MakeRef<Cancellation>(
      [](void*) -> bool { throw std::runtime_error("the host's own"); }, nullptr, nullptr);
  EXPECT_THROW(
      queue_->AwaitTurn(CallOptions{Deadline::Infinite(), host.get()}, "caller").rep(),
      std::runtime_error);
  stage.store(2);
  EXPECT_TRUE(queue_->AwaitIdle(Hang(), "test").ok());
  EXPECT_TRUE(queue_->TryBegin());
  queue_->End();
}

TEST_F(CallQueueTest, ACallThatIsNotPushedGivesItsPlaceUp) {
  {
    const CallQueue::Announced announced(queue_.get());
    EXPECT_FALSE(queue_->TryBegin());
  }
  ASSERT_TRUE(queue_->TryBegin());
  EXPECT_EQ(queue_->TakePlace(), CallQueue::Place::kNone);
  queue_->End();
  EXPECT_TRUE(queue_->AwaitIdle(Hang(), "test").ok());
}

}  // namespace
}  // namespace tutti
