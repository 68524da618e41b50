// What workers of a job are told, scene by scene, in virtual time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cluster/testing/cluster_options_testing.h"
#include "core/cluster/testing/simulated_job.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Membership, GathersAllWorkersInWhateverOrderTheyStart) {
  SimulatedJob job(1, 3);
  job[2].Start();
  job.RunFor(700 * kMillisecondNs);
  job[1].Start();
  job.RunFor(400 * kMillisecondNs);
  job[0].Start();
  job.RunFor(3 * kSecondNs);
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(job[i].joined);
    EXPECT_EQ(job[i].welcome.job_id, job[0].welcome.job_id);
    ASSERT_EQ(job[i].welcome.workers.size(), 3u);
    EXPECT_EQ(job[i].welcome.workers[2].pid, 4702);
    EXPECT_EQ(job[i].welcome.workers[2].task, "worker:2");
  }
}

TEST(Membership, UsesTheSmallestMinorVersionAndTheCapabilitiesThatAllHave) {
  SimulatedJob job(2, 3, {}, [](Member::Options& options) {
    options.capabilities = options.self.worker == 1 ? 0b0110 : 0b1011;
    if (options.self.worker == 2) options.minor = -1;
  });
  job.StartAll();
  job.RunFor(3 * kSecondNs);
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(job[i].joined);
    EXPECT_EQ(job[i].welcome.minor, -1);
    EXPECT_EQ(job[i].welcome.capabilities, 0b0010u);
  }
}

TEST(Membership, RefusesAnotherMajorVersionOnAllWorkersNamingBoth) {
  SimulatedJob job(3, 3, {}, [](Member::Options& options) {
    if (options.self.worker == 2) {
      options.major = 7;
      options.self.build = "tutti 9.0.0";
    }
  });
  job.StartAll();
  job.RunFor(5 * kSecondNs);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(job[i].joined);
    EXPECT_EQ(job[i].not_joined.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Message(job[i].not_joined),
              "worker 0 (tutti 0.1.0) speaks major version 1 of the membership protocol, worker 2 "
              "(tutti 9.0.0) speaks 7; run the same release of Tutti on all workers");
  }
}

TEST(Membership, RefusesUnequalNumbersOfReplicasOnAllWorkersNamingBoth) {
  SimulatedJob job(4, 3, {}, [](Member::Options& options) {
    options.self.num_replicas = options.self.worker == 1 ? 4 : 2;
  });
  job.StartAll();
  job.RunFor(5 * kSecondNs);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(job[i].not_joined.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Message(job[i].not_joined),
              "worker 0 (pid 4700) has 2 replicas and worker 1 (pid 4701) has 4; every worker of a "
              "job needs the same number");
  }
}

TEST(Membership, DoesNotWaitForTheRestForEverWhenTwoWorkersDoNotFit) {
  SimulatedJob job(5, 3, {}, [](Member::Options& options) {
    options.self.num_replicas = 1 + options.self.worker;
  });
  job[0].Start();
  job[1].Start();
  job.RunFor(10 * kSecondNs);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(job[i].not_joined.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(job[i].not_joined), HasSubstr("worker 1 (pid 4701) has 2"));
  }
  job[2].Start();
  job.RunFor(2 * kSecondNs);
  EXPECT_EQ(Message(job[2].not_joined), Message(job[0].not_joined));
}

TEST(Membership, RefusesDifferentClustersOnAllWorkersSayingWhatDiffers) {
  SimulatedJob job(6, 2, {}, [](Member::Options& options) {
    if (options.self.worker == 1) options.addresses[1] = "10.9.9.9:2222";
  });
  job.StartAll();
  job.RunFor(5 * kSecondNs);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(job[i].not_joined.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Message(job[i].not_joined),
              "workers 0 and 1 were given different clusters: for worker 0 it is worker:1 at "
              "10.0.0.2:2222, for worker 1 it is worker:1 at 10.9.9.9:2222 (task 1 of the job); "
              "give all workers the same cluster specification");
  }
}

TEST(Membership, RefusesAWorkerThatHasNoSeatAndGoesOnWithTheOthers) {
  SimulatedJob job(7, 3, {}, [](Member::Options& options) {
    if (options.self.worker == 2) return;
    options.tasks.resize(2);
    options.addresses.resize(2);
  });
  job.StartAll();
  job.RunFor(5 * kSecondNs);
  EXPECT_TRUE(job[0].joined);
  EXPECT_TRUE(job[1].joined);
  EXPECT_EQ(job[2].not_joined.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(job[2].not_joined),
            "a process says that it is worker 2, but worker 0 was given a cluster of 2 tasks "
            "(workers 0 to 1); give all workers the same cluster specification");
}

TEST(Membership, RefusesTheSecondProcessThatClaimsAWorker) {
  SimulatedJob job(8, 3, {}, [](Member::Options& options) {
    if (options.self.worker == 2) {
      options.self.worker = 1;
      options.self.host = "other";
    }
  });
  job[0].Start();
  job[1].Start();
  job.RunFor(3 * kSecondNs);
  job[2].Start();
  job.RunFor(3 * kSecondNs);
  EXPECT_EQ(job[2].not_joined.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Message(job[2].not_joined),
            "worker 1 is here already: pid 4701 on node, and now pid 4702 on other says that it is "
            "worker 1 too; give every process its own task");
  EXPECT_TRUE(job[1].not_joined.ok()) << "the first one waits on";
}

TEST(Membership, NamesTheWorkersThatHaveNotComeOnAllThatHave) {
  SimulatedJob job(9, 4);
  job[0].Start();
  job[2].Start();
  job[0].GiveUpAfter(4 * kSecondNs);
  job.RunFor(5 * kSecondNs);
  const std::string missing =
      "2 of 4 workers have not come: worker 1 (worker:1 at 10.0.0.2:2222); worker 3 (worker:3 at "
      "10.0.0.4:2222)";
  EXPECT_EQ(job[0].not_joined.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(job[0].not_joined),
            "worker 0 has given up waiting (not done after 4 s); " + missing);
  EXPECT_EQ(job[2].not_joined.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(job[2].not_joined),
            "worker 0 has given up waiting (not done after 4 s); " + missing);
}

TEST(Membership, SaysThatAllHaveComeAndWorker0WasLateWhenItGivesUpItself) {
  SimulatedJob job(9, 3);
  job[0].Start();
  job[1].Start();
  job[0].GiveUpAfter(3'100 * kMillisecondNs);
  job.RunFor(1 * kSecondNs);
  job[0].network->Freeze(2 * kSecondNs);  // what has come meanwhile is not up to date at once
  job[2].Start();
  job.RunFor(4 * kSecondNs);
  const std::string why =
      "all 3 workers have come, worker 2 (worker:2 at 10.0.0.3:2222) last, and worker 0 was too "
      "slow to begin the job: give it longer (the setting join_timeout), or more of a processor";
  for (const int64_t i : {1, 2}) {
    EXPECT_EQ(job[i].not_joined.code(), StatusCode::kDeadlineExceeded);
    EXPECT_EQ(Message(job[i].not_joined),
              "worker 0 has given up waiting (not done after 3.1 s); " + why);
  }
}

TEST(Membership, AWorkerThatGivesUpLeavesItsSeatFree) {
  SimulatedJob job(10, 3);
  job[0].Start();
  job[1].Start();
  job[1].GiveUpAfter(2 * kSecondNs);
  job.RunFor(3 * kSecondNs);
  EXPECT_EQ(job[1].not_joined.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(job[1].not_joined), HasSubstr("1 of 3 workers have not come: worker 2"));
  EXPECT_TRUE(job[0].not_joined.ok());
  job[0].GiveUpAfter(0);
  job.RunFor(1 * kSecondNs);
  EXPECT_THAT(Message(job[0].not_joined),
              HasSubstr("worker 1 (worker:1 at 10.0.0.2:2222), which came and was lost: not done"));
}

TEST(Membership, SaysWhatTheLastAttemptSawWhenTheCoordinatorCannotBeReached) {
  SimulatedJob job(11, 2);
  job[1].Start();
  job[1].GiveUpAfter(3 * kSecondNs);
  job.RunFor(4 * kSecondNs);
  EXPECT_EQ(job[1].not_joined.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(job[1].not_joined),
              AllOf(StartsWith("worker 1 has not reached worker 0 (worker:0 at 10.0.0.1:2222) in "),
                    HasSubstr("the last attempt: nobody listens at 10.0.0.1:2222")));
}

TEST(Membership, TellsEverybodyOfADeathAtOnce) {
  SimulatedJob job(12, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[2].network->Kill(SimulatedDeath::kBroken);
  job.RunFor(200 * kMillisecondNs);
  for (const int64_t i : {0, 1, 3}) {
    EXPECT_EQ(job[i].failure.code(), StatusCode::kUnavailable);
    EXPECT_EQ(Message(job[i].failure),
              "worker 2 (pid 4702) is gone: its connection closed without a goodbye (the "
              "connection broke)");
    EXPECT_EQ(BlamedWorker(job[i].failure), 2);
    EXPECT_NE(job[i].failure.FindDetail("rank"), nullptr);
    EXPECT_EQ(job[i].failures, 1);
  }
}

TEST(Membership, WorkerZeroWaitsForNobodyWhereTheDeadWasItsOnlyPeer) {
  SimulatedJob job(12, 2);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  const int64_t killed_ns = job.world->clock().NowNs();
  job[1].network->Kill(SimulatedDeath::kBroken);
  job.RunFor(kSecondNs);
  EXPECT_EQ(BlamedWorker(job[0].failure), 1);
  EXPECT_LT(job[0].failed_ns - killed_ns, 50 * kMillisecondNs);
}

TEST(Membership, CallsAWorkerSilentAfterTheLimitAndTellsItWhenItComesBack) {
  SimulatedJob job(13, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[1].network->Freeze(10 * kSecondNs);
  job.RunFor(2 * kSecondNs);
  EXPECT_EQ(job[0].failures, 0) << "not before the limit";
  job.RunFor(2 * kSecondNs);
  for (const int64_t i : {0, 2}) {
    EXPECT_EQ(job[i].failure.code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(job[i].failure), StartsWith("worker 1 (pid 4701) has been silent for 2."));
    EXPECT_EQ(BlamedWorker(job[i].failure), 1);
  }
  EXPECT_EQ(job[1].failures, 0);
  job.RunFor(7 * kSecondNs);
  EXPECT_THAT(Message(job[1].failure),
              AllOf(StartsWith("this worker was given up by the others"),
                    HasSubstr("worker 1 (pid 4701) has been silent for 2.")));
}

TEST(Membership, AStoppedCoordinatorBlamesNobodyAndIsToldWhenItGoesOn) {
  SimulatedJob job(14, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[0].network->Freeze(10 * kSecondNs);
  job.RunFor(5 * kSecondNs);
  for (const int64_t i : {1, 2}) {
    EXPECT_THAT(Message(job[i].failure), StartsWith("worker 0 (pid 4700) has been silent for 2."));
    EXPECT_EQ(BlamedWorker(job[i].failure), 0);
  }
  job.RunFor(7 * kSecondNs);
  EXPECT_EQ(BlamedWorker(job[0].failure), 0);
  EXPECT_THAT(Message(job[0].failure), StartsWith("this worker was given up by the others"));
}

TEST(Membership, ShortStopsAreNoFailureAndLongOnesNoneWithoutALimit) {
  for (const bool limited : {true, false}) {
    MembershipTiming timing;
    if (!limited) timing.silence_limit_ns = kNeverNs;
    SimulatedJob job(15, 3, timing);
    job.StartAll();
    job.RunFor(2 * kSecondNs);
    job[1].network->Freeze((limited ? 2 : 1000) * kSecondNs);
    job[0].network->Freeze((limited ? 2 : 500) * kSecondNs);
    job.RunFor(1100 * kSecondNs);
    for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(job[i].failure.ok()) << job[i].failure.ToString();
  }
}

TEST(Membership, AProcessThatWasSeenToEndIsDeadAlsoWhenItsConnectionStaysOpen) {
  SimulatedJob job(16, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[2].network->Kill(SimulatedDeath::kSilent);  // a forked child holds its sockets
  job[1].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
  job.RunFor(300 * kMillisecondNs);
  for (const int64_t i : {0, 1}) {
    EXPECT_EQ(Message(job[i].failure), "worker 2 (pid 4702) is gone: its process has ended");
    EXPECT_EQ(BlamedWorker(job[i].failure), 2);
  }
}

TEST(Membership, TheEndOfTheCoordinatorsProcessIsSeenByItsNeighbours) {
  SimulatedJob job(17, 2);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[0].network->Kill(SimulatedDeath::kSilent);
  job[1].Do([](Member& member) { member.Suspect(0, "its process has ended"); });
  job.RunFor(300 * kMillisecondNs);
  EXPECT_EQ(Message(job[1].failure), "worker 0 (pid 4700) is gone: its process has ended");
}

TEST(Membership, AGoodbyeWinsOverTheEndOfTheProcess) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedJob job(seed, 3);
    job.StartAll();
    job.RunFor(2 * kSecondNs);
    job[2].Leave();
    job[1].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
    job[0].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
    job.RunFor(2 * kSecondNs);
    EXPECT_TRUE(job[2].left);
    for (const int64_t i : {0, 1}) {
      EXPECT_TRUE(job[i].failure.ok()) << job[i].failure.ToString();
      ASSERT_EQ(job[i].departures.count(2), 1u);
      EXPECT_EQ(Message(job[i].departures[2]), "worker 2 (pid 4702) has left the job");
    }
  }
}

TEST(Membership, TheCoordinatorSaysGoodbyeToAll) {
  SimulatedJob job(18, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[0].Leave();
  job.RunFor(1 * kSecondNs);
  EXPECT_TRUE(job[0].left);
  Result<std::vector<std::string>> exchanged = OkStatus();
  job[1].Do([&](Member& member) {
    member.Exchange("k", "x", [&](auto result) { exchanged = std::move(result); });
  });
  job.RunFor(10 * kSecondNs);
  for (const int64_t i : {1, 2}) {
    EXPECT_TRUE(job[i].failure.ok()) << job[i].failure.ToString();
    EXPECT_EQ(Message(job[i].departures[0]), "worker 0 (pid 4700) has left the job");
  }
  EXPECT_EQ(Message(exchanged.status()), "exchange \"k\": worker 0 (pid 4700) has left the job");
  // Nobody passes on goodbyes any more: an end is none of the job's.
  job[1].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
  job.RunFor(1 * kSecondNs);
  EXPECT_TRUE(job[1].failure.ok());
  EXPECT_EQ(Message(job[1].departures[2]),
            "worker 2 (pid 4702) is not there any more: its process has ended");
}

TEST(Membership, AbortEndsTheJobEverywhereWithItsReason) {
  SimulatedJob job(19, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[2].Do([](Member& member) {
    member.Abort(DataLoss("file {} is torn", "a").With("offset", 17).WithCause(NotFound("b")));
  });
  job.RunFor(100 * kMillisecondNs);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(job[i].failure.ToString(),
              DataLoss("file {} is torn", "a").With("offset", 17).WithCause(NotFound("b"))
                  .ToString());
  }
}

// Whenever it falls silent, whoever it is.
TEST(Membership, EverybodyKnowsOfASilentWorkerWithinTheLimit) {
  for (const MembershipTiming timing :
       {MembershipTiming{}, MembershipTiming{1 * kSecondNs, 250 * kMillisecondNs}}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      SCOPED_TRACE(seed);
      SimulatedJob job(seed, 4, timing);
      job.StartAll();
      job.RunFor(3 * kSecondNs + static_cast<int64_t>(seed) * 7 * kMillisecondNs);
      const int64_t silent = static_cast<int64_t>(seed % 4);
      const int64_t since_ns = job.world->clock().NowNs();
      job[silent].network->Kill(SimulatedDeath::kSilent);
      job.RunFor(5 * kSecondNs);
      for (int64_t i = 0; i < 4; ++i) {
        if (i == silent) continue;
        EXPECT_EQ(BlamedWorker(job[i].failure), silent) << job[i].failure.ToString();
        const int64_t known_ns = job[i].failed_ns - since_ns;
        EXPECT_LT(known_ns, timing.silence_limit_ns);
        EXPECT_GT(known_ns, timing.silence_limit_ns * 5 / 8);
      }
    }
  }
}

// A peer that sends what comes to its mind.
class Rude final : public ControlHandler {
 public:
  explicit Rude(Status* closed) : closed_(closed) {}
  void OnMessage(std::string_view) override {}
  void OnClosed(Status reason) override { *closed_ = std::move(reason); }

 private:
  Status* const closed_;
};

TEST(Membership, GarbageClosesItsConnectionOnly) {
  SimulatedJob job(24, 2);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  const Ref<SimulatedControlNetwork> stranger = job.wire.AddNode("stranger");
  const std::string garbage[] = {"", "\xff\xff\xff", std::string(100'000, 'x'),
                                 Encode(MessageToCoordinator(Heartbeat{})),
                                 Encode(MessageToCoordinator(Hello{})),
                                 Encode(MessageToMember(Heartbeat{}))};
  for (const std::string& bytes : garbage) {
    Status closed;
    stranger->Connect("10.0.0.1:2222", kSecondNs, std::make_unique<Rude>(&closed))->Send(bytes);
    job.RunFor(1 * kSecondNs);
    EXPECT_EQ(closed.code(), StatusCode::kInvalidArgument) << closed.ToString();
  }
  Status silent;
  (void)stranger->Connect("10.0.0.1:2222", kSecondNs, std::make_unique<Rude>(&silent));
  job.RunFor(5 * kSecondNs);
  EXPECT_EQ(silent.code(), StatusCode::kDeadlineExceeded) << silent.ToString();
  for (int64_t i = 0; i < 2; ++i) EXPECT_TRUE(job[i].failure.ok());
}

// A peer that speaks the protocol, and ends its connections as if all were well.
class Polite final : public ControlAcceptor {
 public:
  explicit Polite(std::string answer) : answer_(std::move(answer)) {}
  std::unique_ptr<ControlHandler> OnAccept(Ref<ControlConnection> connection) override {
    connection->Send(answer_);
    connection->Close(OkStatus());
    return std::make_unique<Rude>(&closed_);
  }

 private:
  const std::string answer_;
  Status closed_;
};

TEST(Membership, AConnectionThatEndsAsIfAllWereWellIsNoGoodbye) {
  SimulatedJob job(26, 2);
  Hello hello;
  hello.tasks = job[1].options.tasks;
  hello.addresses = job[1].options.addresses;
  hello.info = job[1].options.self;
  hello.info.num_replicas = job[0].options.self.num_replicas;
  const Ref<SimulatedControlNetwork> peer = job.wire.AddNode("peer");
  Status closed = Internal("not yet");
  // While the workers gather it leaves its seat to others.
  SimulatedJob gathering(27, 3);
  const Ref<SimulatedControlNetwork> early = gathering.wire.AddNode("early");
  gathering[0].Start();
  gathering.RunFor(kSecondNs);
  Hello of_three = hello;
  of_three.tasks = gathering[1].options.tasks;
  of_three.addresses = gathering[1].options.addresses;
  Ref<ControlConnection> connection =
      early->Connect("10.0.0.1:2222", kSecondNs, std::make_unique<Rude>(&closed));
  connection->Send(Encode(MessageToCoordinator(of_three)));
  connection->Close(OkStatus());
  gathering.RunFor(kSecondNs);
  EXPECT_TRUE(closed.ok()) << closed.ToString();
  gathering[1].Start();
  gathering[2].Start();
  gathering.RunFor(5 * kSecondNs);
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(gathering[i].joined);
  // In a job that runs it is a death.
  job[0].Start();
  job.RunFor(kSecondNs);
  connection = peer->Connect("10.0.0.1:2222", kSecondNs, std::make_unique<Rude>(&closed));
  connection->Send(Encode(MessageToCoordinator(hello)));
  job.RunFor(kSecondNs);
  ASSERT_TRUE(job[0].joined);
  connection->Close(OkStatus());
  job.RunFor(kSecondNs);
  EXPECT_EQ(job[0].failure.code(), StatusCode::kUnavailable);
  EXPECT_EQ(BlamedWorker(job[0].failure), 1);
  EXPECT_THAT(Message(job[0].failure), HasSubstr("its connection closed without a goodbye"));
}

TEST(Membership, ACoordinatorThatEndsConnectionsAsIfAllWereWellIsGone) {
  SimulatedJob job(28, 2);
  Welcome welcome;
  welcome.silence_limit_ns = 3 * kSecondNs;
  welcome.heartbeat_interval_ns = kSecondNs;
  welcome.workers = {job[0].options.self, job[1].options.self};
  const Ref<SimulatedControlNetwork> peer = job.wire.AddNode("peer");
  ASSERT_TRUE(peer->Listen("10.0.0.1:2222", std::make_unique<Polite>(
                                                Encode(MessageToMember(welcome)))).ok());
  job[1].Start();
  job.RunFor(kSecondNs);
  ASSERT_TRUE(job[1].joined);
  EXPECT_EQ(job[1].failure.code(), StatusCode::kUnavailable);
  EXPECT_EQ(BlamedWorker(job[1].failure), 0);
  EXPECT_THAT(Message(job[1].failure), HasSubstr("its connection closed without a goodbye"));

  SimulatedJob waiting(29, 2);
  const Ref<SimulatedControlNetwork> mute = waiting.wire.AddNode("mute");
  ASSERT_TRUE(mute->Listen("10.0.0.1:2222", std::make_unique<Polite>(
                                                Encode(MessageToMember(Gathering{})))).ok());
  waiting[1].Start(10 * kSecondNs);
  waiting.RunFor(5 * kSecondNs);
  EXPECT_FALSE(waiting[1].joined);
  EXPECT_TRUE(waiting[1].not_joined.ok()) << "it tries again";
  waiting.RunFor(10 * kSecondNs);
  EXPECT_FALSE(waiting[1].not_joined.ok());
}

TEST(Membership, StrangersCannotUseUpTheCoordinator) {
  SimulatedJob job(25, 2);
  job[0].Start();
  job.RunFor(1 * kSecondNs);
  const Ref<SimulatedControlNetwork> stranger = job.wire.AddNode("stranger");
  Status closed[Coordinator::kMaxStrangers + 10];
  for (Status& one : closed) {
    (void)stranger->Connect("10.0.0.1:2222", kSecondNs, std::make_unique<Rude>(&one));
  }
  job.RunFor(1 * kSecondNs);
  EXPECT_EQ(std::count_if(std::begin(closed), std::end(closed),
                          [](const Status& one) { return !one.ok(); }),
            10);
  job[1].Start();
  job.RunFor(10 * kSecondNs);
  EXPECT_TRUE(job[1].joined);
}

}  // namespace
}  // namespace tutti
