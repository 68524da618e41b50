#include "core/base/wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/base/call_options.h"
#include "core/base/error.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;

  Status Wait(const CallOptions& options) {
    std::unique_lock<std::mutex> lock(mutex);
    return WaitUntil(lock, changed, RealClock(), options, [&] { return open; }, "the gate");
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mutex);
    open = true;
    changed.notify_all();
  }
};

CallOptions Expired() { return CallOptions{Deadline::After(RealClock(), 0), nullptr}; }

TEST(Deadline, IsInfiniteByDefaultAndWhenTheSumOverflows) {
  EXPECT_TRUE(Deadline().is_infinite());
  EXPECT_TRUE(Deadline::After(RealClock(), kNeverNs - 5).is_infinite());
  EXPECT_FALSE(Deadline().Expired(RealClock()));
  EXPECT_TRUE(Deadline::After(RealClock(), -1).Expired(RealClock()));
  EXPECT_EQ(Deadline::After(RealClock(), INT64_MIN).RemainingNs(RealClock()), 0);
  EXPECT_EQ(Deadline::Earlier(Deadline(), Deadline::At(3)).time_ns(), 3);
}

TEST(WaitUntil, DeliversWhatIsReadyEvenWhenTimeIsUp) {
  Gate gate;
  gate.open = true;
  EXPECT_TRUE(gate.Wait(Expired()).ok());
}

TEST(WaitUntil, NamesWhatItWaitedForWhenTheDeadlinePasses) {
  Gate gate;
  const Status status = gate.Wait(CallOptions::WithTimeout(RealClock(), kMillisecondNs));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the gate"));
  EXPECT_NE(status.FindDetail("waited_ns"), nullptr);
  // Whoever has a deadline wants one.
  EXPECT_EQ(status.message().find("none"), std::string_view::npos) << status.message();
}

TEST(WaitUntil, EndsWhenAnotherThreadMakesTheConditionTrue) {
  Gate gate;
  std::thread opener([&] { gate.Open(); });
  EXPECT_TRUE(gate.Wait(CallOptions::Default()).ok());
  opener.join();
}

TEST(WaitUntil, EndsWithTheReasonWhenItIsCancelled) {
  Gate gate;
  auto cancellation = MakeRef<Cancellation>();
  std::thread canceller([&] { cancellation->Cancel(Aborted("rank 2 is gone")); });
  const Status status = gate.Wait(CallOptions{Deadline(), cancellation.get()});
  canceller.join();
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_EQ(status.message(), "the gate: rank 2 is gone");
}

TEST(WaitUntil, AsksAPolledCancellationWithoutHoldingTheLock) {
  struct Host {
    Gate gate;
    int asked = 0;
  } host;
  auto cancellation = MakeRef<Cancellation>(
      [](void* data) {
        Host& host = *static_cast<Host*>(data);
        const bool free = host.gate.mutex.try_lock();
        EXPECT_TRUE(free);
        if (free) host.gate.mutex.unlock();
        return ++host.asked == 3;
      },
      &host, nullptr);
  const Status status = host.gate.Wait(CallOptions{Deadline(), cancellation.get()});
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(host.asked, 3);
  EXPECT_TRUE(cancellation->cancelled());
}

TEST(Cancellation, KeepsTheFirstReasonAndTellsEveryListenerOnce) {
  auto cancellation = MakeRef<Cancellation>();
  int told = 0;
  cancellation->AddListener([&] { ++told; });
  const uint64_t removed = cancellation->AddListener([&] { told += 100; });
  cancellation->RemoveListener(removed);
  EXPECT_TRUE(cancellation->reason().ok());
  EXPECT_TRUE(cancellation->Cancel(Aborted("first")));
  EXPECT_FALSE(cancellation->Cancel(Aborted("second")));
  EXPECT_EQ(told, 1);
  EXPECT_EQ(cancellation->reason().message(), "first");
  // Too late to wait for: told at once.
  EXPECT_EQ(cancellation->AddListener([&] { told += 10; }), 0u);
  EXPECT_EQ(told, 11);
}

TEST(Cancellation, IsNotSeenByCallsThatWereNotGivenIt) {
  auto cancellation = MakeRef<Cancellation>();
  cancellation->Cancel();
  EXPECT_TRUE(CheckCallOptions(CallOptions::Default(), RealClock(), "map").ok());
  const Status status =
      CheckCallOptions(CallOptions{Deadline(), cancellation.get()}, RealClock(), "map");
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "map: cancelled by the caller");
  EXPECT_EQ(CheckCallOptions(Expired(), RealClock(), "map").code(),
            StatusCode::kDeadlineExceeded);
}

TEST(Cancellation, CanBeThrownWhileManyThreadsComeAndGo) {
  auto cancellation = MakeRef<Cancellation>();
  std::atomic<int> cancelled{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&] {
      Gate gate;
      if (gate.Wait(CallOptions{Deadline(), cancellation.get()}).code() ==
          StatusCode::kCancelled) {
        ++cancelled;
      }
    });
  }
  cancellation->Cancel();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(cancelled, 8);
}

}  // namespace
}  // namespace tutti
