#include "core/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace tutti {
namespace {

TEST(Thread, RunsItsTaskUnderItsNameWithAsynchronousSignalsBlocked) {
  char name[32] = "";
  sigset_t mask;
  sigemptyset(&mask);
  Result<Thread> thread = Thread::Start("tutti-a-very-long-name", [&] {
    pthread_getname_np(pthread_self(), name, sizeof(name));
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  });
  ASSERT_TRUE(thread.ok());
  ASSERT_TRUE(thread->Join(CallOptions::Default()).ok());
  EXPECT_STREQ(name, "tutti-a-very-lo");
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGPIPE, SIGHUP}) {
    EXPECT_TRUE(sigismember(&mask, signal)) << strsignal(signal);
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_FALSE(sigismember(&mask, fault)) << strsignal(fault);
  }
}

TEST(Thread, LeavesTheSignalMaskOfItsStarterAlone) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Result<Thread> thread = Thread::Start("t", [] {});
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  ASSERT_TRUE(thread->Join(CallOptions::Default()).ok());
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

TEST(Thread, CanBeJoinedAgainAfterADeadline) {
  std::mutex hold;
  hold.lock();
  Result<Thread> thread = Thread::Start("t", [&] {
    hold.lock();
    hold.unlock();
  });
  const Status status = thread->Join(CallOptions::WithTimeout(RealClock(), 0));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(thread->joinable());
  hold.unlock();
  EXPECT_TRUE(thread->Join(CallOptions::Default()).ok());
  EXPECT_FALSE(thread->joinable());
  EXPECT_TRUE(thread->Join(CallOptions::Default()).ok());
}

// ThreadSanitizer does not follow a thread that unwinds.
#ifndef __SANITIZE_THREAD__
TEST(Thread, ThatTheHostEndsCanBeJoined) {
  Result<Thread> thread = Thread::Start("t", [] { pthread_exit(nullptr); });
  ASSERT_TRUE(thread.ok());
  EXPECT_TRUE(thread->Join(CallOptions::WithTimeout(RealClock(), 60 * kSecondNs)).ok());
}
#endif

TEST(Thread, FreesWhatItsTaskCapturedBeforeItEnds) {
  struct Flag {
    explicit Flag(std::atomic<bool>* gone) : gone(gone) {}
    Flag(Flag&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
    ~Flag() {
      if (gone != nullptr) *gone = true;
    }
    std::atomic<bool>* gone;
  };
  std::atomic<bool> gone{false};
  Result<Thread> thread = Thread::Start("t", [flag = Flag(&gone)] { (void)flag; });
  ASSERT_TRUE(thread->Join(CallOptions::Default()).ok());
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace tutti
