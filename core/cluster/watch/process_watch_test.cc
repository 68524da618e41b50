#include "core/cluster/watch/process_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/real_environment.h"
#include "core/base/wait.h"
#include "core/cluster/watch/process_facts.h"

namespace tutti {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A process that does nothing until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~Sleeper() { End(); }
  void Kill() { ::kill(pid_, SIGKILL); }
  void End() {
    if (pid_ <= 0) return;
    Kill();
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

WorkerInfo InfoOf(int64_t worker, const ProcessFacts& facts) {
  WorkerInfo info;
  info.worker = worker;
  info.pid = facts.pid;
  info.pid_start_time = facts.start_time;
  info.boot_id = facts.boot_id;
  info.pid_namespace = facts.pid_namespace;
  return info;
}

WorkerInfo InfoOf(int64_t worker, const Sleeper& sleeper) {
  ProcessFacts facts = ReadProcessFacts();
  facts.pid = sleeper.pid();
  facts.start_time = ProcessStartTime(sleeper.pid()).value_or(0);
  return InfoOf(worker, facts);
}

class ProcessWatchTest : public ::testing::Test {
 protected:
  void SetUp() override { environment_ = MakeRef<RealEnvironment>(); }
  void TearDown() override {
    if (watch_ != nullptr) {
      EXPECT_TRUE(watch_->Stop(CallOptions::Default()).ok());
    }
    EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  }
  void Start(const std::vector<WorkerInfo>& workers) {
    Result<std::unique_ptr<ProcessWatch>> watch = ProcessWatch::Start(
        *environment_, workers, InfoOf(0, ReadProcessFacts()),
        [this](const MemberId& member, const std::string& what) {
          EXPECT_EQ(what, "its process has ended");
          if (failures_ > 0) {
            --failures_;
            throw std::bad_alloc();
          }
          std::lock_guard<std::mutex> lock(mutex_);
          ended_.push_back(member.worker);
          changed_.notify_all();
        });
    ASSERT_TRUE(watch.ok()) << watch.status().ToString();
    watch_ = std::move(*watch);
  }
  std::vector<int64_t> AwaitEnded(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(WaitUntil(lock, changed_, environment_->clock(),
                          CallOptions::WithTimeout(environment_->clock(), 60 * kSecondNs),
                          [&] { return ended_.size() >= count; }, "ended processes")
                    .ok());
    return ended_;
  }

  Ref<RealEnvironment> environment_;
  std::unique_ptr<ProcessWatch> watch_;
  std::atomic<int> failures_{0};
  std::mutex mutex_;  // guards ended_
  std::condition_variable changed_;
  std::vector<int64_t> ended_;
};

TEST_F(ProcessWatchTest, TellsWhoseProcessHasEnded) {
  Sleeper one;
  Sleeper two;
  Sleeper three;
  Start({InfoOf(0, ReadProcessFacts()), InfoOf(1, one), InfoOf(2, two), InfoOf(3, three)});
  if (watch_->num_watched() == 0) GTEST_SKIP() << "this kernel gives no pidfd";
  EXPECT_EQ(watch_->num_watched(), 3u);
  two.Kill();  // also while nobody has waited for it
  EXPECT_THAT(AwaitEnded(1), UnorderedElementsAre(2));
  one.End();
  EXPECT_THAT(AwaitEnded(2), UnorderedElementsAre(1, 2));
}

TEST_F(ProcessWatchTest, EndsThatCameBeforeItStoppedAreTold) {
  for (int round = 0; round < 50; ++round) {
    ended_.clear();
    Sleeper one;
    Start({InfoOf(1, one)});
    if (watch_->num_watched() == 0) GTEST_SKIP() << "this kernel gives no pidfd";
    one.Kill();
    siginfo_t end = {};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(one.pid()), &end, WEXITED | WNOWAIT), 0);
    ASSERT_TRUE(watch_->Stop(CallOptions::Default()).ok());
    ASSERT_THAT(ended_, UnorderedElementsAre(1));
  }
}

TEST_F(ProcessWatchTest, AnEndThatCannotBeToldForLackOfMemoryIsToldAgain) {
  environment_->log().set_level(LogLevel::kOff);
  Sleeper one;
  failures_ = 3;
  Start({InfoOf(1, one)});
  if (watch_->num_watched() == 0) GTEST_SKIP() << "this kernel gives no pidfd";
  one.Kill();
  EXPECT_THAT(AwaitEnded(1), UnorderedElementsAre(1));
  EXPECT_EQ(failures_, 0);
}

TEST_F(ProcessWatchTest, ANumberThatAnotherProcessHasNowIsAnEnd) {
  Sleeper other;
  WorkerInfo former = InfoOf(1, other);
  former.pid_start_time -= 1;
  Start({former});
  if (watch_->num_watched() == 0) GTEST_SKIP() << "this kernel gives no pidfd";
  EXPECT_THAT(AwaitEnded(1), UnorderedElementsAre(1));
}

TEST_F(ProcessWatchTest, AProcessThatHasEndedBeforeIsToldAtOnce) {
  Sleeper sleeper;
  const WorkerInfo info = InfoOf(1, sleeper);
  sleeper.End();
  Start({info});
  if (watch_->num_watched() == 0) GTEST_SKIP() << "this kernel gives no pidfd";
  EXPECT_THAT(AwaitEnded(1), UnorderedElementsAre(1));
}

TEST_F(ProcessWatchTest, WatchesNobodyElsewhereAndNotItself) {
  Sleeper sleeper;
  WorkerInfo other_boot = InfoOf(1, sleeper);
  other_boot.boot_id = "another";
  WorkerInfo other_namespace = InfoOf(2, sleeper);
  other_namespace.pid_namespace = "another";
  WorkerInfo unknown = InfoOf(3, sleeper);
  unknown.boot_id.clear();
  Start({other_boot, other_namespace, unknown, InfoOf(4, ReadProcessFacts())});
  EXPECT_EQ(watch_->num_watched(), 0u);
  EXPECT_TRUE(watch_->Stop(CallOptions::Default()).ok());
  EXPECT_THAT(ended_, IsEmpty());
}

TEST(ProcessFacts, DescribeThisProcess) {
  const ProcessFacts facts = ReadProcessFacts();
  EXPECT_EQ(facts.pid, ::getpid());
  EXPECT_GT(facts.start_time, 0);
  EXPECT_FALSE(facts.host.empty());
  EXPECT_FALSE(facts.boot_id.empty());
  EXPECT_FALSE(facts.pid_namespace.empty());
  EXPECT_EQ(ProcessStartTime(facts.pid), facts.start_time);
  EXPECT_FALSE(ProcessStartTime(1LL << 40).has_value());
}

TEST(ProcessFacts, ReadTheStartTimeWhateverTheProgramsName) {
  const std::string rest = " S 1 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 100 200";
  EXPECT_EQ(StartTimeOfStat("4711 (sleep)" + rest), 987654);
  EXPECT_EQ(StartTimeOfStat("4711 (a) R 1 (b) )" + rest), 987654);
  EXPECT_FALSE(StartTimeOfStat("4711 (sleep) S 1 4711").has_value());
  EXPECT_FALSE(StartTimeOfStat("").has_value());
}

}  // namespace
}  // namespace tutti
