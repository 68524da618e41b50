#include "core/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "core/base/callback_scope.h"
#include "core/base/error.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;

struct RecordingSink : LogSink {
  void Write(const LogRecord& record) override {
    EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kNotification);
    EXPECT_FALSE(busy.exchange(true)) << "two threads at a time";
    lines.push_back(Format("{} {}", LogLevelName(record.level), record.message));
    if (also) std::exchange(also, nullptr)();
    busy = false;
  }
  std::atomic<bool> busy{false};
  std::vector<std::string> lines;
  std::function<void()> also;
};

TEST(Log, SendsWhatItsLevelLetsThroughToTheSink) {
  Log log(RealClock(), LogLevel::kInfo);
  auto sink = MakeRef<RecordingSink>();
  ASSERT_TRUE(log.SetSink(sink).ok());
  log.Debug("too low");
  log.Info("starting");
  log.Error("broken");
  log.set_level(LogLevel::kOff);
  log.Error("silenced");
  EXPECT_THAT(sink->lines, ElementsAre("info starting", "error broken"));
}

TEST(Log, TakesLinesThatTheSinkItselfWrites) {
  Log log(RealClock(), LogLevel::kInfo);
  auto sink = MakeRef<RecordingSink>();
  sink->also = [&] {
    log.Warning("from inside");
    EXPECT_TRUE(log.SetSink(sink).ok());  // does not wait for itself
  };
  ASSERT_TRUE(log.SetSink(sink).ok());
  log.Info("outer");
  EXPECT_THAT(sink->lines, ElementsAre("info outer", "warning from inside"));
}

TEST(Log, ASinkThatThrowsHoldsNobodyUp) {
  struct Throwing final : LogSink {
    void Write(const LogRecord& record) override {
      if (record.message == "bad") throw std::bad_alloc();
      text += record.message;
    }
    std::string text;
  };
  const Ref<Throwing> sink = MakeRef<Throwing>();
  Log log(RealClock());
  ASSERT_TRUE(log.SetSink(sink).ok());
  EXPECT_THROW(log.Error("bad"), std::bad_alloc);
  log.Error("good");
  EXPECT_EQ(sink->text, "good");
  EXPECT_TRUE(log.SetSink(nullptr, CallOptions::WithTimeout(RealClock(), 60 * kSecondNs)).ok());
}

TEST(Log, CallsTheSinkFromOneThreadAtATimeAndLosesNothing) {
  Log log(RealClock(), LogLevel::kInfo);
  auto sink = MakeRef<RecordingSink>();
  ASSERT_TRUE(log.SetSink(sink).ok());
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int line = 0; line < 500; ++line) log.Info("line");
    });
  }
  for (std::thread& writer : writers) writer.join();
  ASSERT_TRUE(log.SetSink(nullptr).ok());  // returns when the sink is at rest
  EXPECT_EQ(sink->lines.size(), 2000u);
}

TEST(Log, WritesToStandardErrorByDefaultAndNeverToStandardOutput) {
  Log log(RealClock(), LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  log.Warning("the disk is slow");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tutti: WARNING: the disk is slow\n");
}

TEST(Log, ReadsLevelsByNameInAnyCase) {
  EXPECT_EQ(ParseLogLevel("Warn"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("OFF"), LogLevel::kOff);
  EXPECT_FALSE(ParseLogLevel("loud"));
}

}  // namespace
}  // namespace tutti
