// Who is named when worker 0 ends at an awkward moment, in virtual time: of a failure that others
// have not heard of yet, after a goodbye that others have not read yet, before it knows who has
// come.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/cluster/testing/cluster_options_testing.h"
#include "core/cluster/testing/simulated_job.h"

namespace tutti {
namespace {

// Nothing passes between worker 0 and this one for so long.
void CutOff(SimulatedJob& job, int64_t worker, int64_t duration_ns) {
  job.wire.Cut(*job[0].network, *job[worker].network);
  job.world->executor().PostAfter(duration_ns, [&job, worker] {
    job.wire.Heal(*job[0].network, *job[worker].network);
  });
}

TEST(MembershipLastWords, WorkerZeroCanEndOfAFailureWithoutBeingTakenForItsCause) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedJob job(seed, 4);
    job.StartAll();
    job.RunFor(2 * kSecondNs);
    CutOff(job, 2, 70 * kMillisecondNs);
    job[1].network->Kill(SimulatedDeath::kBroken);
    for (int ms = 0; ms < 5000 && job[0].failures == 0; ++ms) job.RunFor(1 * kMillisecondNs);
    EXPECT_EQ(BlamedWorker(job[0].failure), 1);
    job[0].network->Kill(SimulatedDeath::kBroken);  // as if the failure had ended its program
    job.RunFor(2 * kSecondNs);
    for (const int64_t i : {2, 3}) {
      EXPECT_EQ(Message(job[i].failure), Message(job[0].failure));
      EXPECT_EQ(job[i].failures, 1);
    }
  }
}

TEST(MembershipLastWords, WorkerZeroSaysWhoHasEndedBeforeItLeavesOfIt) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedJob job(seed, 4);
    job.StartAll();
    job.RunFor(2 * kSecondNs);
    job[2].network->Kill(SimulatedDeath::kSilent);  // a forked child holds its sockets
    job[1].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
    job.RunFor(20 * kMillisecondNs);
    const int64_t leaves_ns = job.world->clock().NowNs();
    job[0].Leave();
    for (int ms = 0; ms < 5000 && !job[0].left; ++ms) job.RunFor(1 * kMillisecondNs);
    EXPECT_LT(job.world->clock().NowNs() - leaves_ns, 250 * kMillisecondNs);
    job.RunFor(100 * kMillisecondNs);
    for (const int64_t i : {1, 3}) {
      EXPECT_EQ(Message(job[i].failure), "worker 2 (pid 4702) is gone: its process has ended");
      EXPECT_EQ(job[i].departures.count(0), 0u);
    }
  }
}

TEST(MembershipLastWords, WorkerZeroThatCannotWaitSaysWhoHasEndedAndGoes) {
  SimulatedJob job(3, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[2].network->Kill(SimulatedDeath::kSilent);
  job[1].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
  job.RunFor(20 * kMillisecondNs);
  job[0].Leave();
  job.RunFor(10 * kMillisecondNs);
  ASSERT_FALSE(job[0].left);
  job[0].Do([&](Member&) { job[0].coordinator->SpeakNow(); });
  // From when its end was seen; until then a goodbye may come.
  job.RunFor(80 * kMillisecondNs);
  EXPECT_TRUE(job[0].left);
  job.RunFor(20 * kMillisecondNs);
  for (const int64_t i : {1, 3}) EXPECT_EQ(BlamedWorker(job[i].failure), 2);
}

TEST(MembershipLastWords, WorkerZeroThatCannotWaitMaySaySoBeforeItsGoodbyeHasCome) {
  SimulatedJob job(3, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[2].network->Kill(SimulatedDeath::kSilent);
  job[1].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
  job.RunFor(20 * kMillisecondNs);
  job[0].Do([&](Member&) { job[0].coordinator->SpeakNow(); });
  job.RunFor(1 * kMillisecondNs);
  for (const int64_t i : {1, 3}) EXPECT_TRUE(job[i].failure.ok());
  job[0].Leave();
  job.RunFor(90 * kMillisecondNs);
  EXPECT_TRUE(job[0].left);
  job.RunFor(20 * kMillisecondNs);
  for (const int64_t i : {1, 3}) EXPECT_EQ(BlamedWorker(job[i].failure), 2);
}

TEST(MembershipLastWords, WorkerZeroPassesAGoodbyeOnBeforeItsOwn) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedJob job(seed / 2, 3);
    job.StartAll();
    job.RunFor(2 * kSecondNs);
    // Seen by a thread that overtakes the goodbye.
    job[0].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
    job.RunFor(5 * kMillisecondNs);
    job[0].Leave();
    const bool hurries = seed % 2 != 0;
    if (hurries) job[0].Do([&](Member&) { job[0].coordinator->SpeakNow(); });
    job[2].Leave();
    job.RunFor(2 * kSecondNs);
    EXPECT_TRUE(job[0].left);
    EXPECT_TRUE(job[1].failure.ok()) << job[1].failure.ToString();
    EXPECT_EQ(Message(job[1].departures[2]), "worker 2 (pid 4702) has left the job");
    EXPECT_EQ(Message(job[1].departures[0]), "worker 0 (pid 4700) has left the job");
  }
}

TEST(MembershipLastWords, WhoWasSeenToEndAsWorkerZeroLeftIsNotThereAnyMore) {
  int unheard = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedJob job(seed, 3);
    job.StartAll();
    job.RunFor(2 * kSecondNs);
    job[2].network->Kill(SimulatedDeath::kSilent);
    job[0].Leave();
    job[1].Do([](Member& member) { member.Suspect(2, "its process has ended"); });
    job.RunFor(1 * kSecondNs);
    if (!job[1].failure.ok()) {
      EXPECT_EQ(BlamedWorker(job[1].failure), 2);
      continue;
    }
    ++unheard;
    EXPECT_EQ(Message(job[1].departures[2]),
              "worker 2 (pid 4702) is not there any more: its process has ended");
    EXPECT_NE(job[1].departures[2].FindDetail(Member::kEndedDetail), nullptr);
  }
  EXPECT_GT(unheard, 0);
}

TEST(MembershipLastWords, WorkerZeroWaitsForOneThatDoesNotAnswerOnlySoLong) {
  SimulatedJob job(1, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  const int64_t killed_ns = job.world->clock().NowNs();
  job[2].network->Kill(SimulatedDeath::kSilent);
  job[1].network->Kill(SimulatedDeath::kBroken);
  job.RunFor(2 * kSecondNs);
  EXPECT_EQ(BlamedWorker(job[0].failure), 1);
  EXPECT_LT(job[0].failed_ns - killed_ns, 150 * kMillisecondNs);
  EXPECT_EQ(BlamedWorker(job[3].failure), 1);
  EXPECT_LT(job[3].failed_ns - killed_ns, 50 * kMillisecondNs);
}

TEST(MembershipLastWords, WorkerZeroDoesNotWaitForOneThatHasBeenQuietForAWhile) {
  SimulatedJob job(2, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[2].network->Kill(SimulatedDeath::kSilent);
  job.RunFor(1'500 * kMillisecondNs);
  const int64_t killed_ns = job.world->clock().NowNs();
  job[1].network->Kill(SimulatedDeath::kBroken);
  job.RunFor(1 * kSecondNs);
  EXPECT_EQ(BlamedWorker(job[0].failure), 1);
  EXPECT_LT(job[0].failed_ns - killed_ns, 50 * kMillisecondNs);
}

TEST(MembershipLastWords, AGoodbyeOfWorkerZeroWinsAlsoInAProcessThatHardlyRuns) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedJob job(seed, 3);
    job.StartAll();
    job.RunFor(2 * kSecondNs);
    CutOff(job, 2, 250 * kMillisecondNs);  // until then the goodbye lies unread
    job[0].Leave();
    job[2].Do([](Member& member) { member.Suspect(0, "its process has ended"); });
    for (int turn = 0; turn < 15; ++turn) {
      job.RunFor(5 * kMillisecondNs);
      job[2].network->Freeze(60 * kMillisecondNs);
      job.RunFor(60 * kMillisecondNs);
    }
    EXPECT_TRUE(job[2].failure.ok()) << job[2].failure.ToString();
    EXPECT_EQ(Message(job[2].departures[0]), "worker 0 (pid 4700) has left the job");
  }
}

TEST(MembershipLastWords, WorkerZeroThatGivesUpAsItBeginsNamesThoseItWouldWaitFor) {
  const auto give_up = [](int64_t num_workers) {
    SimulatedJob job(3, num_workers);
    job[0].Start();
    (void)job[0].network->Post([&] {
      job[0].member->GiveUpJoining(DeadlineExceeded("not done after 1 s"));
    });
    job.RunFor(1 * kSecondNs);
    EXPECT_EQ(job[0].not_joined.code(), StatusCode::kDeadlineExceeded);
    return Message(job[0].not_joined);
  };
  EXPECT_EQ(give_up(2),
            "worker 0 has given up waiting (not done after 1 s); 1 of 2 workers have not come: "
            "worker 1 (worker:1 at 10.0.0.2:2222)");
  const std::string many = give_up(12);
  EXPECT_THAT(many, testing::HasSubstr("11 of 12 workers have not come: worker 1 (worker:1 at "
                                       "10.0.0.2:2222); worker 2 (worker:2 at "));
  EXPECT_THAT(many, testing::EndsWith("worker 8 (worker:8 at 10.0.0.9:2222); and 3 more"));
}

}  // namespace
}  // namespace tutti
