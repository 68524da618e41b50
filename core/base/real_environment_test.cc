#include "core/base/real_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <set>
#include <string>
#include <thread>

#include "core/base/callback_scope.h"
#include "core/base/clock.h"
#include "core/base/closable.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/fork.h"
#include "core/base/host_data.h"
#include "core/base/random.h"
#include "core/base/reaper.h"
#include "core/base/thread.h"
#include "core/base/wait.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class RealEnvironmentTest : public ::testing::Test {
 protected:
  ~RealEnvironmentTest() override {
    EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  }
  Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
};

TEST_F(RealEnvironmentTest, StartsNoThreadBeforeItIsNeeded) {
  EXPECT_FALSE(environment_->HasThreads());
  std::promise<void> ran;
  ASSERT_TRUE(environment_->executor().Post([&] { ran.set_value(); }));
  ran.get_future().wait();
  EXPECT_TRUE(environment_->HasThreads());
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_FALSE(environment_->HasThreads());
}

TEST_F(RealEnvironmentTest, RunsEveryPostedTask) {
  std::atomic<int> ran{0};
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int task = 0; task < 1000; ++task) {
        EXPECT_TRUE(environment_->executor().Post([&] { ++ran; }));
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_EQ(ran, 4000);
}

TEST_F(RealEnvironmentTest, ATaskThatThrowsIsALineInTheLogAndTheOthersRun) {
  struct Lines final : LogSink {
    void Write(const LogRecord& record) override { text += std::string(record.message) + "\n"; }
    std::string text;
  };
  const Ref<Lines> lines = MakeRef<Lines>();
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  for (const bool of_callbacks : {false, true}) {
    const auto post = [&](Task task) {
      return of_callbacks ? environment_->callback_executor().Post(std::move(task))
                          : environment_->executor().Post(std::move(task));
    };
    std::promise<void> ran;
    ASSERT_TRUE(post([] { throw std::runtime_error("no luck"); }));
    ASSERT_TRUE(post([] { throw std::bad_alloc(); }));
    ASSERT_TRUE(post([&] { ran.set_value(); }));
    ran.get_future().wait();
  }
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
  for (const char* line :
       {"executor: a task was given up: INTERNAL: executor: an exception: no luck",
        "executor: a task was given up: RESOURCE_EXHAUSTED: out of memory",
        "tutti-callback: a task was given up: INTERNAL: tutti-callback: an exception: no luck",
        "tutti-callback: a task was given up: RESOURCE_EXHAUSTED: out of memory"}) {
    EXPECT_NE(lines->text.find(line), std::string::npos) << lines->text;
  }
}

TEST_F(RealEnvironmentTest, FiresEveryTimerAndNoneBeforeItsTime) {
  std::promise<int64_t> late;
  std::promise<int64_t> early;
  const int64_t start = environment_->clock().NowNs();
  environment_->executor().PostAfter(20 * kMillisecondNs,
                                     [&] { late.set_value(environment_->clock().NowNs()); });
  environment_->executor().PostAfter(kMillisecondNs,
                                     [&] { early.set_value(environment_->clock().NowNs()); });
  EXPECT_GE(early.get_future().get() - start, kMillisecondNs);
  EXPECT_GE(late.get_future().get() - start, 20 * kMillisecondNs);
}

TEST_F(RealEnvironmentTest, FiresATimerWhileItsOtherThreadIsBusy) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::promise<void> fired;
  environment_->executor().PostAfter(5 * kMillisecondNs, [&] { fired.set_value(); });
  environment_->executor().Post([released] { released.wait(); });
  fired.get_future().wait();
  release.set_value();
}

TEST_F(RealEnvironmentTest, CancelsATimerThatHasNotFired) {
  bool fired = false;
  const uint64_t timer =
      environment_->executor().PostAfter(3600 * kSecondNs, [&] { fired = true; });
  EXPECT_NE(timer, 0u);
  EXPECT_TRUE(environment_->executor().CancelTimer(timer));
  EXPECT_FALSE(environment_->executor().CancelTimer(timer));
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_FALSE(fired);
}

TEST_F(RealEnvironmentTest, CallsTheHostBackInOrderOnOneThreadInTheNotificationClass) {
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(environment_->callback_executor().Post([&order, &threads, i] {
      EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kNotification);
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
    }));
  }
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0u);
}

TEST_F(RealEnvironmentTest, LeavesARefusedTaskWithItsPosterAfterShutdown) {
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  int ran = 0;
  Task task([&] { ++ran; });
  EXPECT_FALSE(environment_->executor().Post(std::move(task)));
  EXPECT_FALSE(environment_->callback_executor().Post(std::move(task)));
  EXPECT_EQ(environment_->executor().PostAfter(0, std::move(task)), 0u);
  ASSERT_TRUE(static_cast<bool>(task));
  task();
  EXPECT_EQ(ran, 1);
}

TEST_F(RealEnvironmentTest, RefusesWorkAfterShutdownAndSaysWhatToDo) {
  EXPECT_TRUE(environment_->CheckUsable("map").ok());
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  const Status status = environment_->CheckUsable("map");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("map: the runtime has been shut down"));
  EXPECT_FALSE(environment_->StartThread("late", [] {}).ok());
}

TEST_F(RealEnvironmentTest, RefusesShutdownInsideACallback) {
  CallbackScope scope(CallbackClass::kReplica);
  EXPECT_EQ(environment_->Shutdown(CallOptions::Default()).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(RealEnvironmentTest, DrawsSeedsFromTheDefaultSeedWhenThereIsOne) {
  const uint64_t random = environment_->DrawSeed();
  EXPECT_NE(random, environment_->DrawSeed());
  environment_->SetDefaultSeed(7);
  const uint64_t first = environment_->DrawSeed();
  const uint64_t second = environment_->DrawSeed();
  EXPECT_NE(first, second);
  environment_->SetDefaultSeed(7);
  EXPECT_EQ(environment_->DrawSeed(), first);
  EXPECT_EQ(environment_->DrawSeed(), second);
  environment_->SetDefaultSeed(8);
  EXPECT_NE(environment_->DrawSeed(), first);
  environment_->SetDefaultSeed(std::nullopt);
  EXPECT_FALSE(environment_->default_seed());
}

// Destroying host data.

TEST_F(RealEnvironmentTest, DestroysHostDataOnceOnTheCallbackThread) {
  struct Seen {
    std::atomic<int> destroyed{0};
    std::thread::id thread;
  } seen;
  const auto destroy = [](void* data) {
    auto* seen = static_cast<Seen*>(data);
    ++seen->destroyed;
    seen->thread = std::this_thread::get_id();
    EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kNotification);
  };
  auto executor = Ref<CallbackExecutor>::Retain(&environment_->callback_executor());
  auto data = MakeRef<HostData>(&seen, destroy, executor);
  auto late = MakeRef<HostData>(&seen, destroy, executor);
  data.reset();
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_EQ(seen.destroyed, 1);
  EXPECT_NE(seen.thread, std::this_thread::get_id());
  late.reset();
  EXPECT_EQ(seen.destroyed, 2);
  EXPECT_EQ(seen.thread, std::this_thread::get_id());
}

TEST(RealEnvironment, MayGoBeforeTheCallbacksThatItsHostStillHolds) {
  int destroyed = 0;
  auto environment = MakeRef<RealEnvironment>();
  auto data = MakeRef<HostData>(
      &destroyed, [](void* data) { ++*static_cast<int*>(data); },
      Ref<CallbackExecutor>::Retain(&environment->callback_executor()));
  environment.reset();
  data.reset();
  EXPECT_EQ(destroyed, 1);
}

// Closing.

// An object with a thread that waits to be told to stop.
class Pump final : public Closable {
 public:
  Pump(Ref<Environment> environment, std::atomic<int>* alive)
      : Closable(std::move(environment), "pump"), alive_(alive) {
    ++*alive_;
  }
  ~Pump() override { --*alive_; }

  Status Start() {
    TUTTI_RETURN_IF_ERROR(Register());
    return StartUnlessClosed([&]() -> Status {
      TUTTI_ASSIGN_OR_RETURN(thread_, environment().StartThread("pump", [this] {
        std::unique_lock<std::mutex> lock(mutex_);
        waits_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return stop_ && !stuck_; });
      }));
      return OkStatus();
    });
  }
  // Until its thread waits, and holds no lock of anybody.
  void AwaitRest() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return waits_; });
  }
  void SetStuck(bool stuck) {
    std::lock_guard<std::mutex> lock(mutex_);
    stuck_ = stuck;
    changed_.notify_all();
  }

 protected:
  Status OnClose(const CallOptions& options) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    return thread_.Join(options);
  }

 private:
  std::atomic<int>* alive_;
  std::mutex mutex_;  // guards waits_, stop_ and stuck_
  std::condition_variable changed_;
  bool waits_ = false;
  bool stop_ = false;
  bool stuck_ = false;
  Thread thread_;
};

// An object with nothing that its closing would wait for.
class Switch final : public Closable {
 public:
  explicit Switch(Ref<Environment> environment) : Closable(std::move(environment), "switch") {}

 protected:
  Status OnClose(const CallOptions&) override { return OkStatus(); }
};

TEST_F(RealEnvironmentTest, ClosesWhatIsOpenAtShutdown) {
  std::atomic<int> alive{0};
  auto first = MakeRef<Pump>(environment_, &alive);
  auto second = MakeRef<Pump>(environment_, &alive);
  ASSERT_TRUE(first->Start().ok());
  ASSERT_TRUE(second->Start().ok());
  ASSERT_TRUE(second->Close(CallOptions::Default()).ok());
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_TRUE(first->closed());
  EXPECT_TRUE(first->Close(CallOptions::Default()).ok());
  EXPECT_EQ(MakeRef<Pump>(environment_, &alive)->Start().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(first->StartUnlessClosed([] { return OkStatus(); }).code(),
            StatusCode::kFailedPrecondition);
  first.reset();
  second.reset();
  EXPECT_EQ(alive, 0);
}

TEST_F(RealEnvironmentTest, ReapsWhatIsReleasedWithoutBeingClosed) {
  std::atomic<int> alive{0};
  for (int i = 0; i < 20; ++i) {
    auto pump = MakeRef<Pump>(environment_, &alive);
    ASSERT_TRUE(pump->Start().ok());
  }
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_EQ(alive, 0);
}

TEST_F(RealEnvironmentTest, DeletesWhatAShutdownClosedOnItsWayToTheReaper) {
  std::atomic<int> alive{0};
  auto pump = MakeRef<Pump>(environment_, &alive);
  ASSERT_TRUE(pump->Start().ok());
  ASSERT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  // What the last release does with an object that was not closed yet when it looked.
  environment_->reaper().Take(pump.release());
  EXPECT_EQ(alive, 0);
}

// An object whose closing waits for what was released before it.
class LastOne final : public Closable {
 public:
  LastOne(Ref<Environment> environment, int64_t timeout_ns, Status* awaited)
      : Closable(std::move(environment), "last one"), timeout_ns_(timeout_ns), awaited_(awaited) {}

 protected:
  Status OnClose(const CallOptions&) override {
    *awaited_ = environment().reaper().AwaitTakenBefore(
        *this, CallOptions::WithTimeout(environment().clock(), timeout_ns_));
    return OkStatus();
  }

 private:
  const int64_t timeout_ns_;
  Status* const awaited_;
};

TEST_F(RealEnvironmentTest, ClosingCanWaitForWhatWasReleasedBefore) {
  const auto status_of_closing = [&](int64_t timeout_ns) {
    Status awaited = DataLoss("not yet");
    auto last = MakeRef<LastOne>(environment_, timeout_ns, &awaited);
    EXPECT_TRUE(last->Close(CallOptions::Default()).ok());
    return awaited;
  };
  EXPECT_TRUE(status_of_closing(60 * kSecondNs).ok());
  EXPECT_FALSE(environment_->HasThreads());
  std::atomic<int> alive{0};
  auto held = MakeRef<Pump>(environment_, &alive);
  ASSERT_TRUE(held->Start().ok());
  Pump* const pump = held.get();
  pump->SetStuck(true);
  held.reset();
  EXPECT_EQ(status_of_closing(kMillisecondNs).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(alive, 1);
  pump->SetStuck(false);
  EXPECT_TRUE(status_of_closing(60 * kSecondNs).ok());
  EXPECT_EQ(alive, 0);
}

TEST_F(RealEnvironmentTest, WhatIsReleasedItselfDoesNotWaitForItsOwnClosing) {
  // Closed by the reaper, or by a shutdown that the reaper waits for.
  for (int i = 0; i < 100; ++i) {
    const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
    Status awaited = DataLoss("not yet");
    ASSERT_TRUE(MakeRef<LastOne>(environment, 60 * kSecondNs, &awaited)->Register().ok());
    ASSERT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
    EXPECT_TRUE(awaited.ok()) << awaited.ToString();
  }
}

TEST_F(RealEnvironmentTest, ReapsWhileOtherThreadsReleaseAndShutdownRuns) {
  std::atomic<int> alive{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        auto pump = MakeRef<Pump>(environment_, &alive);
        if (!pump->Start().ok()) break;
      }
    });
  }
  EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  for (std::thread& user : users) user.join();
  EXPECT_EQ(alive, 0);
}

TEST_F(RealEnvironmentTest, BoundsShutdownByItsDeadlineAndGoesOnLater) {
  std::atomic<int> alive{0};
  auto older = MakeRef<Switch>(environment_);
  auto stuck = MakeRef<Pump>(environment_, &alive);
  auto newer = MakeRef<Switch>(environment_);
  ASSERT_TRUE(older->Register().ok());
  ASSERT_TRUE(stuck->Start().ok());
  ASSERT_TRUE(newer->Register().ok());
  stuck->SetStuck(true);
  const Status status =
      environment_->Shutdown(CallOptions::WithTimeout(RealClock(), 50 * kMillisecondNs));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("closing pump"));
  EXPECT_TRUE(older->closed());
  EXPECT_FALSE(stuck->closed());
  EXPECT_TRUE(newer->closed());
  EXPECT_FALSE(environment_->CheckUsable("x").ok());
  stuck->SetStuck(false);
  EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
}

// Forking: the child reports through its exit code.

template <typename Child>
int ExitCodeOf(Child child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(RealEnvironmentTest, RefusesEverythingButReleaseInAForkedChild) {
  std::atomic<int> alive{0};
  int destroyed = 0;
  auto pump = MakeRef<Pump>(environment_, &alive);
  ASSERT_TRUE(pump->Start().ok());
  pump->AwaitRest();
  auto data = MakeRef<HostData>(
      &destroyed, [](void* data) { ++*static_cast<int*>(data); },
      Ref<CallbackExecutor>::Retain(&environment_->callback_executor()));
  EXPECT_EQ(ExitCodeOf([&] {
              const Status status = environment_->CheckUsable("run");
              if (status.code() != StatusCode::kFailedPrecondition) return false;
              if (status.message().find("forked") == std::string_view::npos) return false;
              if (!InForkedChild()) return false;
              if (pump->Close(CallOptions::Default()).ok()) return false;
              if (environment_->Shutdown(CallOptions::Default()).ok()) return false;
              if (environment_->executor().Post([] {})) return false;
              pump.reset();  // joins nothing
              data.reset();
              environment_.reset();
              return destroyed == 1;
            }),
            0);
  EXPECT_FALSE(InForkedChild());
  EXPECT_TRUE(pump->Close(CallOptions::Default()).ok());
  data.reset();
  EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  EXPECT_EQ(destroyed, 1);  // what the child freed was its own copy
}

TEST(RealEnvironment, MayBeMadeInAChildThatWasForkedAfterShutdown) {
  {
    auto environment = MakeRef<RealEnvironment>();
    ASSERT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
  }
  EXPECT_EQ(ExitCodeOf([] {
              if (InForkedChild()) return false;
              auto fresh = MakeRef<RealEnvironment>();
              return fresh->CheckUsable("run").ok() &&
                     fresh->Shutdown(CallOptions::Default()).ok();
            }),
            0);
}

}  // namespace
}  // namespace tutti
