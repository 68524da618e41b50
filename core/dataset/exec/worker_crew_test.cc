#include "core/dataset/exec/worker_crew.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/base/real_environment.h"

namespace tutti {
namespace {

class Crew : public testing::Test {
 protected:
  ~Crew() override {
    crew_.Stop();
    EXPECT_TRUE(crew_.Join(CallOptions()).ok());
    EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
  }

  // Waits until `count` threads are in here at the same time.
  void Meet(size_t count) {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }

  // Every item is called once again, by all threads.
  void ExpectItWorks() {
    arrived_ = 0;
    std::set<std::thread::id> threads;
    std::vector<int> calls(2);
    EXPECT_TRUE(crew_
                    .Run(2,
                         [&](size_t i) {
                           Meet(2);
                           std::lock_guard lock(mutex_);
                           threads.insert(std::this_thread::get_id());
                           ++calls[i];
                         })
                    .ok());
    EXPECT_EQ(threads.size(), 2u);
    EXPECT_EQ(calls, std::vector<int>({1, 1}));
  }

  const Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  WorkerCrew crew_{environment_, 2};
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  size_t arrived_ = 0;
};

TEST_F(Crew, AnExceptionOnAThreadIsTheStatus) {
  const std::thread::id caller = std::this_thread::get_id();
  const Status status = crew_.Run(2, [&](size_t) {
    Meet(2);
    if (std::this_thread::get_id() != caller) throw std::bad_alloc();
  });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  ExpectItWorks();
}

TEST_F(Crew, AnExceptionOfTheCallersOwnItemWaitsForTheOthers) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> thrown{false};
  std::atomic<bool> finished{false};
  const Status status = crew_.Run(2, [&](size_t) {
    Meet(2);
    if (std::this_thread::get_id() == caller) {
      thrown.store(true);
      thrown.notify_all();
      throw std::runtime_error("no such row");
    }
    thrown.wait(false);
    // The caller unwinds while this goes on, if it does not wait.
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    finished.store(true);
  });
  EXPECT_TRUE(finished.load());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("no such row"), std::string::npos) << status.ToString();
  ExpectItWorks();
}

TEST_F(Crew, AfterAnExceptionNoItemIsBegun) {
  std::atomic<int> calls{0};
  const Status status = crew_.Run(1'000'000, [&](size_t) {
    ++calls;
    throw std::bad_alloc();
  });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_LE(calls.load(), 2);
}

// ThreadSanitizer does not follow a thread that is cancelled.
#ifndef __SANITIZE_THREAD__
TEST_F(Crew, ACallerThatIsCancelledWaitsForTheOthersAndGoes) {
  std::atomic<bool> cancelling{false};
  std::atomic<bool> finished{false};
  bool returned = false;
  bool finished_before_unwinding = false;
  std::thread caller([&] {
    const struct Unwound {
      std::atomic<bool>& finished;
      bool& before;
      ~Unwound() { before = finished.load(); }
    } unwound{finished, finished_before_unwinding};
    const std::thread::id self = std::this_thread::get_id();
    (void)crew_.Run(2, [&](size_t) {
      Meet(2);
      if (std::this_thread::get_id() == self) {
        cancelling.store(true);
        cancelling.notify_all();
        pthread_cancel(pthread_self());
        pthread_testcancel();
      }
      cancelling.wait(false);
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      finished.store(true);
    });
    returned = true;
  });
  caller.join();
  EXPECT_FALSE(returned);
  EXPECT_TRUE(finished_before_unwinding);
  ExpectItWorks();
}
#endif

}  // namespace
}  // namespace tutti
