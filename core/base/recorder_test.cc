#include "core/base/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <latch>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr FlightEventType kAllReduce{"all_reduce", {"sequence", "bytes"}};
constexpr FlightEventType kStep{"step", {}};

TEST(Recorder, KeepsTheLastEventsInOrder) {
  Recorder recorder(RealClock(), 4);
  for (int64_t i = 0; i < 10; ++i) recorder.Record(kAllReduce, FlightPhase::kBegin, {i, 8});
  const std::vector<FlightEvent> events = recorder.Snapshot();
  ASSERT_EQ(events.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i].index, 6 + i);
    EXPECT_EQ(events[i].arguments[0], static_cast<int64_t>(6 + i));
    EXPECT_EQ(events[i].type, &kAllReduce);
  }
  EXPECT_LE(events[0].time_ns, events[3].time_ns);
}

TEST(Recorder, WritesItselfAsJson) {
  Recorder recorder(RealClock(), 4);
  recorder.Record(kAllReduce, FlightPhase::kBegin, {7, 31400});
  recorder.Record(kStep, FlightPhase::kInstant);
  const std::string json = recorder.ToJson();
  EXPECT_THAT(json, HasSubstr("\"name\":\"all_reduce\",\"phase\":\"begin\","
                              "\"arguments\":{\"sequence\":7,\"bytes\":31400}}"));
  EXPECT_THAT(json, HasSubstr("\"tutti_flight_record\":2,\"job\":\"\",\"worker\":0,"));
  EXPECT_THAT(json, HasSubstr("\"name\":\"step\",\"phase\":\"instant\",\"arguments\":{}}"));
}

TEST(Recorder, NamesItsSubjects) {
  Recorder recorder(RealClock(), 4);
  EXPECT_EQ(recorder.AddSubject({"communicator", "a \"b\"", {{"rank", 1}, {"size", 4}}}), 0);
  EXPECT_EQ(recorder.AddSubject({"queue", "c", {}}), 1);
  const std::string json = recorder.ToJson();
  EXPECT_THAT(json, HasSubstr("{\"number\":0,\"kind\":\"communicator\",\"name\":\"a \\\"b\\\"\","
                              "\"rank\":1,\"size\":4}"));
  EXPECT_THAT(json, HasSubstr("{\"number\":1,\"kind\":\"queue\",\"name\":\"c\"}"));
}

TEST(Recorder, ForgetsTheOldestSubjects) {
  Recorder recorder(RealClock(), 4);
  for (size_t i = 0; i < Recorder::kMaxSubjects + 2; ++i) {
    EXPECT_EQ(recorder.AddSubject({"communicator", "c" + std::to_string(i), {}}),
              static_cast<int64_t>(i));
  }
  const std::string json = recorder.ToJson();
  EXPECT_THAT(json, testing::Not(HasSubstr("\"name\":\"c1\"")));
  EXPECT_THAT(json, HasSubstr("{\"number\":2,\"kind\":\"communicator\",\"name\":\"c2\"}"));
}

TEST(Recorder, SaysWhoseItIs) {
  Recorder recorder(RealClock(), 4);
  EXPECT_EQ(recorder.FileName(), "process-" + std::to_string(getpid()) + "/flight-0.json");
  recorder.SetProcess(0x5f0c1e6a90d7b342, 3);
  EXPECT_EQ(recorder.FileName(), "job-5f0c1e6a90d7b342/flight-3.json");
  EXPECT_THAT(recorder.ToJson(), HasSubstr("\"job\":\"5f0c1e6a90d7b342\",\"worker\":3,"));
}

TEST(Recorder, PutsTheEventsOfAllThreadsInTheOrderOfTime) {
  Recorder recorder(RealClock(), 64);
  // More threads, one after the other and side by side, than have a lane to themselves.
  constexpr int64_t kThreads = 40;
  for (int64_t i = 0; i < kThreads; ++i) {
    std::thread([&] { recorder.Record(kAllReduce, FlightPhase::kBegin, {i, 8}); }).join();
  }
  std::vector<FlightEvent> events = recorder.Snapshot();
  ASSERT_EQ(events.size(), static_cast<size_t>(kThreads));
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].index, i);
    EXPECT_EQ(events[i].arguments[0], static_cast<int64_t>(i));
  }

  std::latch all_recorded(kThreads);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      recorder.Record(kAllReduce, FlightPhase::kEnd, {i, 8});
      all_recorded.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  events = recorder.Snapshot();
  ASSERT_EQ(events.size(), 64u);
  EXPECT_EQ(events.back().index, static_cast<uint64_t>(2 * kThreads - 1));
  std::set<int64_t> ended;
  for (const FlightEvent& event : events) {
    if (event.phase == FlightPhase::kEnd) ended.insert(event.arguments[0]);
  }
  EXPECT_EQ(ended.size(), static_cast<size_t>(kThreads));
}

TEST(Recorder, TakesEventsOfManyThreadsAndNeverMixesThem) {
  Recorder recorder(RealClock(), 64);
  std::vector<std::thread> writers;
  for (int64_t writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&recorder, writer] {
      for (int64_t i = 0; i < 20'000; ++i) {
        recorder.Record(kAllReduce, FlightPhase::kEnd, {writer, writer * 1000, i, i * 3});
      }
    });
  }
  const auto check = [&recorder] {
    std::set<uint64_t> seen;
    for (const FlightEvent& event : recorder.Snapshot()) {
      ASSERT_TRUE(seen.insert(event.index).second);
      ASSERT_EQ(event.arguments[1], event.arguments[0] * 1000);
      ASSERT_EQ(event.arguments[3], event.arguments[2] * 3);
    }
  };
  for (int i = 0; i < 200; ++i) check();
  for (std::thread& writer : writers) writer.join();
  check();
  EXPECT_GT(recorder.Snapshot().size(), 32u);
}

}  // namespace
}  // namespace tutti
