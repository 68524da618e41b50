#include "core/cluster/sockets/refusal_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Lines final : public LogSink {
 public:
  void Write(const LogRecord& record) override { lines.emplace_back(record.message); }
  std::vector<std::string> lines;
};

class ManualClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns; }
  int64_t WallNs() const override { return now_ns; }
  Status Wait(std::unique_lock<std::mutex>&, std::condition_variable&, int64_t) override {
    return Internal("nothing waits here");
  }
  int64_t now_ns = 5 * kSecondNs;
};

TEST(RefusalLog, WritesTheFirstAtOnceAndTheRestTogetherTenSecondsLater) {
  ManualClock clock;
  Log log(clock);
  const Ref<Lines> written = MakeRef<Lines>();
  ASSERT_TRUE(log.SetSink(written).ok());
  RefusalLog refusals(log, clock, "worker 3, the port for tensors");
  refusals.Tick();
  EXPECT_EQ(refusals.due_ns(), kNeverNs);
  EXPECT_TRUE(written->lines.empty());

  for (int i = 0; i < 1000; ++i) {
    refusals.CountCrowded(64);
    refusals.Tick();
    clock.now_ns += kMillisecondNs;
  }
  ASSERT_EQ(written->lines.size(), 1u);
  EXPECT_THAT(written->lines[0],
              AllOf(HasSubstr("worker 3, the port for tensors: 1 connections were cut off"),
                    HasSubstr("more than 64 at a time")));
  EXPECT_EQ(refusals.due_ns(), 15 * kSecondNs);
  clock.now_ns = refusals.due_ns();
  refusals.CountWithoutDescriptor(EMFILE);
  refusals.Tick();
  ASSERT_EQ(written->lines.size(), 3u);
  EXPECT_THAT(written->lines[1], HasSubstr("999 connections were cut off"));
  EXPECT_THAT(written->lines[2], AllOf(HasSubstr("1 connections could not be taken"),
                                       HasSubstr("Too many open files"), HasSubstr("ulimit -n")));
  refusals.Tick();
  EXPECT_EQ(refusals.due_ns(), kNeverNs);
  EXPECT_EQ(written->lines.size(), 3u);
}

TEST(RefusalLog, SaysWhoCameWithAnotherSecret) {
  ManualClock clock;
  Log log(clock);
  const Ref<Lines> written = MakeRef<Lines>();
  ASSERT_TRUE(log.SetSink(written).ok());
  RefusalLog refusals(log, clock, "worker 0, the control port");
  refusals.CountOtherSecret("10.0.0.7:4711", "00112233445566aa", "ffeeddccbbaa9988");
  refusals.Tick();
  ASSERT_EQ(written->lines.size(), 1u);
  EXPECT_THAT(written->lines[0],
              AllOf(HasSubstr("worker 0, the control port: 1 attempts to join"),
                    HasSubstr("10.0.0.7:4711"), HasSubstr("00112233445566aa"),
                    HasSubstr("this job's has ffeeddccbbaa9988"), HasSubstr("TUTTI_JOB_SECRET")));
}

}  // namespace
}  // namespace tutti
