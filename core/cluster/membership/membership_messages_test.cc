#include "core/cluster/membership/membership_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/cluster/membership/silence.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Message>
Message ThroughToCoordinator(const Message& message) {
  MessageToCoordinator decoded;
  const Status status = Decode(Encode(MessageToCoordinator(message)), &decoded);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::get<Message>(decoded);
}

template <typename Message>
Message ThroughToMember(const Message& message) {
  MessageToMember decoded;
  const Status status = Decode(Encode(MessageToMember(message)), &decoded);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::get<Message>(decoded);
}

Hello SomeHello() {
  Hello hello;
  hello.minor = 3;
  hello.capabilities = 0b101;
  hello.incarnation = 0xfeedfacecafebeef;
  hello.tasks = {"chief:0", "worker:0"};
  hello.addresses = {"a:1", "b:2"};
  hello.info = {1,      "worker:0", 4,          16,      4711,  123456,
                "node", "boot",     "4:402653", "b:333", "@tt", "tutti 0.1.0"};
  return hello;
}

TEST(MembershipMessages, AHelloArrivesWhole) {
  const Hello hello = ThroughToCoordinator(SomeHello());
  EXPECT_EQ(hello.major, kMembershipMajor);
  EXPECT_EQ(hello.minor, 3);
  EXPECT_EQ(hello.capabilities, 0b101u);
  EXPECT_EQ(hello.incarnation, 0xfeedfacecafebeefu);
  EXPECT_THAT(hello.tasks, ElementsAre("chief:0", "worker:0"));
  EXPECT_THAT(hello.addresses, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(hello.info.worker, 1);
  EXPECT_EQ(hello.info.task, "worker:0");
  EXPECT_EQ(hello.info.num_replicas, 4);
  EXPECT_EQ(hello.info.usable_cores, 16);
  EXPECT_EQ(hello.info.pid, 4711);
  EXPECT_EQ(hello.info.pid_start_time, 123456);
  EXPECT_EQ(hello.info.host, "node");
  EXPECT_EQ(hello.info.boot_id, "boot");
  EXPECT_EQ(hello.info.pid_namespace, "4:402653");
  EXPECT_EQ(hello.info.tcp_address, "b:333");
  EXPECT_EQ(hello.info.local_address, "@tt");
  EXPECT_EQ(hello.info.build, "tutti 0.1.0");
}

TEST(MembershipMessages, AStatusArrivesWithDetailsAndCauses) {
  const Status status = DataLoss("torn")
                            .With("offset", 17)
                            .With("share", 0.5)
                            .With("file", "a\xff")
                            .WithCause(NotFound("b").WithCause(Internal("c")));
  EXPECT_EQ(ThroughToCoordinator(JobAbort{status}).reason.ToString(), status.ToString());
  EXPECT_EQ(ThroughToMember(JobFailure{status}).reason.ToString(), status.ToString());
  EXPECT_EQ(ThroughToMember(Departure{3, status}).reason.ToString(), status.ToString());
  EXPECT_TRUE(ThroughToCoordinator(Goodbye{}).reason.ok());
  EXPECT_FALSE(ThroughToCoordinator(Heartbeat{}).knows_of_failure);
  EXPECT_TRUE(ThroughToCoordinator(Heartbeat{true}).knows_of_failure);
  EXPECT_TRUE(ThroughToMember(Gathering{"x", {}}).misfit.ok());
}

TEST(MembershipMessages, ALongStatusIsCutAndArrives) {
  Status status = Internal("{}", std::string(5'000'000, 'x'));
  for (int i = 0; i < 100; ++i) status = std::move(status).With(Format("detail {}", i), i);
  for (int i = 0; i < 100; ++i) status = Internal("outer").WithCause(status);
  const std::string bytes = Encode(MessageToMember(JobFailure{status}));
  EXPECT_LT(bytes.size(), 100'000u);
  MessageToMember decoded;
  EXPECT_TRUE(Decode(bytes, &decoded).ok());
  const std::string sentence = std::string(8191, 'x') + "\xc3\xa4";
  EXPECT_EQ(ThroughToMember(JobFailure{Internal("{}", sentence)}).reason.message(),
            std::string(8191, 'x'))
      << "cut inside a character";
}

TEST(MembershipMessages, RefusesWhatIsOutOfBounds) {
  const auto refusal = [](const MessageToCoordinator& message) {
    MessageToCoordinator decoded;
    const Status status = Decode(Encode(message), &decoded);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  Hello hello = SomeHello();
  hello.info.num_replicas = 0;
  EXPECT_THAT(refusal(hello), HasSubstr("the number of replicas is 0"));
  hello = SomeHello();
  hello.info.worker = kMaxWorkers;
  EXPECT_THAT(refusal(hello), HasSubstr("the worker's number is 1024"));
  hello = SomeHello();
  hello.addresses.pop_back();
  EXPECT_THAT(refusal(hello), HasSubstr("the number of addresses is 1"));
  hello = SomeHello();
  hello.tasks[0] = std::string(1000, 'x');
  EXPECT_THAT(refusal(hello), HasSubstr("a task's name has 1000 bytes"));
  EXPECT_THAT(refusal(ExchangePart{std::string(2000, 'k'), ""}), HasSubstr("2000 bytes"));
  EXPECT_THAT(refusal(ExchangePart{"k", std::string(70'000, 'x')}), HasSubstr("70000 bytes"));
  EXPECT_THAT(refusal(JobAbort{OkStatus()}), HasSubstr("all is well"));
  EXPECT_THAT(refusal(Suspicion{-1, ""}), HasSubstr("the suspected worker is -1"));
  RegroupPart part;
  part.name = "train";
  part.at_least = kMaxWorkers + 1;
  EXPECT_THAT(refusal(part), HasSubstr("regrouping \"train\": the least number of ranks is 1025"));
  part.at_least = -1;
  EXPECT_THAT(refusal(part), HasSubstr("the least number of ranks is -1"));
  part.at_least = kMaxWorkers;
  EXPECT_EQ(ThroughToCoordinator(part).at_least, kMaxWorkers);
  // Epochs are counted on from there.
  part.epoch = INT64_MAX - 1;
  EXPECT_THAT(refusal(part), HasSubstr("regrouping \"train\": the epoch is 9223372036854775806"));
  part.epoch = -1;
  EXPECT_THAT(refusal(part), HasSubstr("the epoch is -1"));
  part.epoch = 3;
  part.part = std::string(70'000, 'x');
  EXPECT_THAT(refusal(part), HasSubstr("regrouping \"train\": a part has 70000 bytes"));
}

TEST(MembershipMessages, RefusesWhatTheCoordinatorMayNotSay) {
  const auto refusal = [](const MessageToMember& message) {
    MessageToMember decoded;
    const Status status = Decode(Encode(message), &decoded);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  ExchangeResult result{"key", {"a", std::string(70'000, 'x')}, true};
  EXPECT_THAT(refusal(result), HasSubstr("exchange \"key\": a part has 70000 bytes"));
  result.parts.assign(kMaxWorkers + 1, "");
  EXPECT_THAT(refusal(result), HasSubstr("exchange \"key\": the number of parts is 1025"));
  result.parts.pop_back();
  EXPECT_EQ(ThroughToMember(result).parts.size(), static_cast<size_t>(kMaxWorkers));
  RegroupResult regrouped{7, 1, {{0, 0}}, {std::string(70'000, 'x')}, true};
  EXPECT_THAT(refusal(regrouped), HasSubstr("regrouping: a part has 70000 bytes"));
  regrouped.parts = {"a"};
  regrouped.epoch = INT64_MAX;
  EXPECT_THAT(refusal(regrouped), HasSubstr("regrouping: the epoch is"));
}

TEST(MembershipMessages, LimitsOfSilenceCanBeAddedToAPointInTime) {
  Welcome welcome;
  welcome.workers.resize(1);
  const auto status = [&](int64_t silence_limit_ns, int64_t heartbeat_interval_ns) {
    welcome.silence_limit_ns = silence_limit_ns;
    welcome.heartbeat_interval_ns = heartbeat_interval_ns;
    MessageToMember decoded;
    return Decode(Encode(MessageToMember(welcome)), &decoded);
  };
  constexpr int64_t kLongest = MembershipTiming::kLongestNs;
  EXPECT_TRUE(status(kNeverNs, 1).ok());  // there is no limit
  EXPECT_TRUE(status(kLongest, kLongest).ok());
  for (const Status& refused : {status(kNeverNs - 1, 1), status(kLongest + 1, 1), status(0, 1),
                                status(1, 0), status(1, kLongest + 1), status(kNeverNs, -1)}) {
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("the limit of silence"));
  }
}

TEST(MembershipMessages, AnotherMajorVersionIsReadAsFarAsItsVersion) {
  Hello hello = SomeHello();
  hello.major = 2;
  hello.tasks.clear();
  hello.info.num_replicas = -5;
  const Hello read = ThroughToCoordinator(hello);
  EXPECT_EQ(read.major, 2);
  EXPECT_EQ(read.info.worker, 1);
  EXPECT_EQ(read.info.build, "tutti 0.1.0");
}

TEST(MembershipMessages, AWelcomeHasItsWorkersInOrder) {
  Welcome welcome;
  welcome.silence_limit_ns = 3;
  welcome.heartbeat_interval_ns = 1;
  welcome.workers.resize(2);
  welcome.workers[1].worker = 1;
  EXPECT_EQ(ThroughToMember(welcome).workers.size(), 2u);
  welcome.workers[1].worker = 0;
  MessageToMember decoded;
  EXPECT_FALSE(Decode(Encode(MessageToMember(welcome)), &decoded).ok());
}

TEST(MembershipMessages, AResignationArrivesWhole) {
  const Resignation resignation =
      ThroughToCoordinator(Resignation{"communicator train", {{2, 0}, {0, 7}}, 41});
  EXPECT_EQ(resignation.name, "communicator train");
  EXPECT_THAT(resignation.among, ElementsAre(MemberId{2, 0}, MemberId{0, 7}));
  EXPECT_EQ(resignation.epoch, 41);
}

TEST(MembershipMessages, SurviveGarbage) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20'26;
  std::printf("TUTTI_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  SplitMix64 draws(seed);
  Welcome welcome;
  welcome.workers.resize(3);
  const std::vector<std::string> originals = {
      Encode(MessageToCoordinator(SomeHello())),
      Encode(MessageToCoordinator(ExchangePart{"key", "bytes"})),
      Encode(MessageToCoordinator(JobAbort{Internal("x").With("a", 1).WithCause(Internal("y"))})),
      Encode(MessageToMember(welcome)),
      Encode(MessageToMember(ExchangeResult{"key", {"a", "b"}, true})),
      Encode(MessageToMember(Departure{1, Internal("x")})),
  };
  SeededRuns runs("messages", 20'000);
  while (runs.Next()) {
    std::string bytes = originals[draws.Next() % originals.size()];
    for (uint64_t n = draws.Next() % 8; n > 0; --n) {
      const size_t at = draws.Next() % bytes.size();
      switch (draws.Next() % 3) {
        case 0: bytes[at] = static_cast<char>(draws.Next()); break;
        case 1: bytes.insert(at, 1, static_cast<char>(draws.Next())); break;
        case 2: bytes.erase(at, 1 + draws.Next() % 4); break;
      }
      if (bytes.empty()) break;
    }
    // What is read can be written and read again.
    if (MessageToCoordinator decoded; Decode(bytes, &decoded).ok()) {
      EXPECT_TRUE(Decode(Encode(decoded), &decoded).ok());
    }
    if (MessageToMember decoded; Decode(bytes, &decoded).ok()) {
      EXPECT_TRUE(Decode(Encode(decoded), &decoded).ok());
    }
  }
}

}  // namespace
}  // namespace tutti
