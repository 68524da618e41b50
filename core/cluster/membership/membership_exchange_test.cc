// What workers bring to each other, and who hears of it when one of them does not, scene by scene,
// in virtual time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cluster/testing/cluster_options_testing.h"
#include "core/cluster/testing/simulated_job.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(MembershipExchange, ExchangeGivesEveryWorkerTheSameInOrder) {
  SimulatedJob job(20, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  std::vector<std::vector<std::string>> got(4);
  for (int64_t i = 0; i < 4; ++i) {
    job[i].Do([&got, i](Member& member) {
      member.Exchange("key", std::string(60'000, static_cast<char>('a' + i)),
                      [&got, i](auto result) { got[static_cast<size_t>(i)] = *result; });
    }, i * kSecondNs);
  }
  job.RunFor(5 * kSecondNs);
  for (const std::vector<std::string>& one : got) {
    EXPECT_THAT(one, ElementsAre(std::string(60'000, 'a'), std::string(60'000, 'b'),
                                 std::string(60'000, 'c'), std::string(60'000, 'd')));
  }
}

TEST(MembershipExchange, AWithdrawnExchangeFailsOnTheOthersNamingTheWorker) {
  SimulatedJob job(21, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  std::vector<Result<std::vector<std::string>>> got(3, OkStatus());
  uint64_t id = 0;  // the last one's
  const auto exchange = [&](int64_t worker) {
    job[worker].Do([&, worker](Member& member) {
      id = member.Exchange("key", "x", [&got, worker](auto result) {
        got[static_cast<size_t>(worker)] = std::move(result);
      });
    });
  };
  exchange(0);
  exchange(1);
  job.RunFor(1 * kSecondNs);
  job[1].Do([&](Member& member) {
    member.WithdrawExchange(id, DeadlineExceeded("not done after 1 s"));
  });
  job.RunFor(1 * kSecondNs);
  exchange(2);
  job.RunFor(1 * kSecondNs);
  EXPECT_EQ(got[1].status().code(), StatusCode::kDeadlineExceeded);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(got[i].status().code(), StatusCode::kCancelled);
    EXPECT_EQ(Message(got[i].status()),
              "exchange \"key\": worker 1 (pid 4701) has given it up: not done after 1 s; worker 2 "
              "(pid 4702) has not come");
    EXPECT_EQ(BlamedWorker(got[i].status()), 1);
  }
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(job[i].failure.ok());
}

TEST(MembershipExchange, WhoGivesAnExchangeUpIsToldWhoHasNotCome) {
  SimulatedJob job(21, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  std::vector<Status> got(4);
  uint64_t id = 0;  // the last one's
  const auto exchange = [&](int64_t worker) {
    job[worker].Do([&, worker](Member& member) {
      id = member.Exchange("key", "x", [&got, worker](auto result) {
        got[static_cast<size_t>(worker)] = result.status();
      });
    });
  };
  exchange(1);
  exchange(3);
  job.RunFor(1 * kSecondNs);
  job[3].Do([&](Member& member) {
    member.WithdrawExchange(id, DeadlineExceeded("not done after 1 s").With("waited_ns", 7));
  });
  job.RunFor(1 * kSecondNs);
  EXPECT_EQ(got[3].code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(got[3]),
            "not done after 1 s; worker 0 (pid 4700), worker 2 (pid 4702) have not come");
  EXPECT_EQ(std::get<int64_t>(got[3].FindDetail("peer")->value), 0);
  EXPECT_EQ(std::get<int64_t>(got[3].FindDetail("waited_ns")->value), 7);
  EXPECT_THAT(Message(got[1]),
              HasSubstr("worker 3 (pid 4703) has given it up: not done after 1 s; worker 0"));
}

// The others go on with what they have got, and would wait for the one that has not.
TEST(MembershipExchange, WhoGivesUpWhatHasCompletedMeanwhileGetsTheResultThatTheOthersGot) {
  SimulatedJob job(27, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  std::vector<Result<std::vector<std::string>>> got(3, OkStatus());
  std::vector<Result<Member::Regrouped>> came(3, OkStatus());
  uint64_t exchange = 0;  // worker 1's, as is:
  uint64_t request = 0;
  const auto bring = [&](int64_t worker) {
    job[worker].Do([&, worker](Member& member) {
      const auto index = static_cast<size_t>(worker);
      const uint64_t number =
          member.Exchange("key", Format("of {}", worker),
                          [&got, index](auto result) { got[index] = std::move(result); });
      RegroupPart part;
      part.name = "group";
      const uint64_t id = member.Regroup(
          std::move(part), [&came, index](auto result) { came[index] = std::move(result); });
      if (worker != 1) return;
      exchange = number;
      request = id;
    });
  };
  bring(1);
  job.RunFor(kSecondNs / 10);
  // What worker 0 sends arrives after worker 1 has given up.
  job.wire.Cut(*job[0].network, *job[1].network);
  bring(0);
  bring(2);
  job.RunFor(kSecondNs / 10);
  ASSERT_TRUE(got[0].ok() && got[2].ok() && came[0].ok() && came[2].ok());
  job[1].Do([&](Member& member) {
    member.WithdrawExchange(exchange, Cancelled("enough"));
    member.WithdrawRegroup(request, Cancelled("enough"));
  });
  job.RunFor(kSecondNs);
  job.wire.Heal(*job[0].network, *job[1].network);
  job.RunFor(kSecondNs);
  ASSERT_TRUE(got[1].ok()) << got[1].status().ToString();
  EXPECT_THAT(*got[1], ElementsAre("of 0", "of 1", "of 2"));
  ASSERT_TRUE(came[1].ok()) << came[1].status().ToString();
  EXPECT_EQ(came[1]->epoch, came[0]->epoch);
  // Nor is anybody told anything else later on.
  job.RunFor(2 * Member::kAnswerNs);
  EXPECT_TRUE(got[1].ok() && came[1].ok());
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(job[i].failure.ok()) << job[i].failure.ToString();
}

TEST(MembershipExchange, WithoutAnAnswerAWithdrawalEndsAfterAWhileAndNoLaterExchangeWithIt) {
  SimulatedJob job(28, 2, {kNeverNs, 250 * kMillisecondNs});
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job.wire.Cut(*job[0].network, *job[1].network);
  std::vector<Status> ended;
  const auto give_up = [&](Member& member) {
    const auto end = [&ended](auto result) { ended.push_back(result.status()); };
    const uint64_t exchange = member.Exchange("key", "x", end);
    member.WithdrawExchange(exchange, DeadlineExceeded("not done after 1 s"));
    RegroupPart part;
    part.name = "group";
    const uint64_t id = member.Regroup(std::move(part), end);
    member.WithdrawRegroup(id, DeadlineExceeded("not done after 1 s"));
  };
  job[1].Do(give_up);
  job.RunFor(Member::kAnswerNs / 2);
  EXPECT_THAT(ended, testing::IsEmpty());
  job.RunFor(Member::kAnswerNs);
  ASSERT_EQ(ended.size(), 2u);
  for (const Status& status : ended) {
    EXPECT_EQ(status.ToString(), "DEADLINE_EXCEEDED: not done after 1 s");
  }
  // A later one of the same key goes on when the time of the former, which was answered, is up.
  job.wire.Heal(*job[0].network, *job[1].network);
  job.RunFor(kSecondNs);
  std::vector<Status> former(2);
  std::vector<Result<std::vector<std::string>>> later(2, Internal("not done"));
  const auto exchange = [&](int64_t worker) {
    job[worker].Do([&later, worker](Member& member) {
      member.Exchange("again", "x", [&later, worker](auto result) {
        later[static_cast<size_t>(worker)] = std::move(result);
      });
    });
  };
  job[1].Do([&](Member& member) {
    const uint64_t id =
        member.Exchange("again", "x", [&](auto result) { former[1] = result.status(); });
    member.WithdrawExchange(id, Cancelled("enough"));
  });
  job.RunFor(kSecondNs);
  job[0].Do([&](Member& member) {
    member.Exchange("again", "x", [&](auto result) { former[0] = result.status(); });
  });
  job.RunFor(kSecondNs);
  for (const Status& status : former) EXPECT_EQ(status.code(), StatusCode::kCancelled);
  exchange(1);
  job.RunFor(2 * Member::kAnswerNs);
  EXPECT_EQ(Message(later[1].status()), "not done");
  exchange(0);
  job.RunFor(kSecondNs);
  EXPECT_TRUE(later[0].ok() && later[1].ok()) << later[1].status().ToString();
}

TEST(MembershipExchange, WhoGivesARegroupingUpIsToldWhoHasNotComeAndForHowManyMoreItWaits) {
  SimulatedJob job(21, 4);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  Status got;
  job[1].Do([&](Member& member) {
    RegroupPart part;
    part.name = "group";
    part.at_least = 6;
    const uint64_t id =
        member.Regroup(std::move(part), [&](auto result) { got = result.status(); });
    member.WithdrawRegroup(id, DeadlineExceeded("not done after 1 s"));
  });
  job.RunFor(1 * kSecondNs);
  EXPECT_EQ(Message(got),
            "not done after 1 s; worker 0 (pid 4700), worker 2 (pid 4702), worker 3 (pid 4703) "
            "have not come, nor 2 more that have no seat yet");
}

// Two threads of a worker may shrink the same communicator, or make two of one name.
TEST(MembershipExchange, ASecondPartOfAWorkerForOneRegroupingIsRefusedAndTheFirstGoesOn) {
  for (const bool elastic : {true, false}) {
    for (const int64_t twice : {0, 1}) {
      SCOPED_TRACE(Format("elastic: {}, twice: worker {}", elastic, twice));
      SimulatedJob job(26, 3);
      job[0].elastic = elastic;
      job.StartAll();
      job.RunFor(2 * kSecondNs);
      std::vector<int64_t> epochs(3, 0);
      const auto bring = [&](Member& member, int64_t worker) {
        RegroupPart part;
        part.name = "group";
        member.Regroup(std::move(part), [&epochs, worker](auto result) {
          ASSERT_TRUE(result.ok()) << result.status().ToString();
          EXPECT_EQ(result->members.size(), 3u);
          epochs[static_cast<size_t>(worker)] = result->epoch;
        });
      };
      const auto regroup = [&](int64_t worker) {
        job[worker].Do([&bring, worker](Member& member) { bring(member, worker); });
      };
      Status second;
      job[twice].Do([&](Member& member) {
        bring(member, twice);
        RegroupPart part;
        part.name = "group";
        member.Regroup(part, [&](auto result) { second = result.status(); });
        // Under another name it is another one.
        part.name = "other group";
        member.Regroup(part, [](auto) {});
      });
      job.RunFor(1 * kSecondNs);
      EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition) << second.ToString();
      EXPECT_THAT(Message(second),
                  StartsWith(Format("regrouping \"group\": another thread of worker {} is in it "
                                    "already",
                                    twice)));
      for (int64_t worker = 0; worker < 3; ++worker) {
        if (worker != twice) regroup(worker);
      }
      job.RunFor(1 * kSecondNs);
      EXPECT_THAT(epochs, ElementsAre(1, 1, 1));
      for (int64_t worker = 0; worker < 3; ++worker) regroup(worker);
      job.RunFor(1 * kSecondNs);
      EXPECT_THAT(epochs, ElementsAre(2, 2, 2));
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(job[i].failure.ok()) << job[i].failure.ToString();
        EXPECT_THAT(job[i].departures, testing::IsEmpty());
      }
    }
  }
}

TEST(MembershipExchange, AnExchangeWithoutALeftWorkersPartFails) {
  SimulatedJob job(22, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  std::vector<Result<std::vector<std::string>>> got(4, OkStatus());
  const auto exchange = [&](int64_t worker, const char* key, size_t slot) {
    job[worker].Do([&got, key, slot](Member& member) {
      member.Exchange(key, "x", [&got, slot](auto result) { got[slot] = std::move(result); });
    });
  };
  exchange(0, "before", 0);
  job.RunFor(1 * kSecondNs);
  job[2].Leave();
  job.RunFor(1 * kSecondNs);
  exchange(1, "before", 1);
  exchange(0, "after", 2);
  job.RunFor(1 * kSecondNs);
  for (const size_t slot : {0, 1, 2}) {
    EXPECT_EQ(got[slot].status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(got[slot].status()), HasSubstr("worker 2 (pid 4702) has left the job"));
  }
  EXPECT_TRUE(job[0].failure.ok());
}

TEST(MembershipExchange, APendingExchangeFailsWithTheJob) {
  SimulatedJob job(23, 3);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  Result<std::vector<std::string>> got = OkStatus();
  job[0].Do([&](Member& member) {
    member.Exchange("k", "x", [&](auto result) { got = std::move(result); });
  });
  job.RunFor(1 * kSecondNs);
  job[2].network->Kill(SimulatedDeath::kBroken);
  job.RunFor(1 * kSecondNs);
  EXPECT_EQ(got.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(got.status()), StartsWith("exchange \"k\": worker 2 (pid 4702) is gone"));
  EXPECT_EQ(BlamedWorker(got.status()), 2);
}

TEST(MembershipExchange, AnExchangeAfterTheFailureFailsWithIt) {
  SimulatedJob job(26, 2);
  job.StartAll();
  job.RunFor(2 * kSecondNs);
  job[1].Do([](Member& member) { member.Abort(DataLoss("torn")); });
  job.RunFor(1 * kSecondNs);
  Result<std::vector<std::string>> got = OkStatus();
  job[0].Do([&](Member& member) {
    member.Exchange("k", "x", [&](auto result) { got = std::move(result); });
  });
  job.RunFor(1 * kSecondNs);
  EXPECT_EQ(got.status().ToString(), "DATA_LOSS: exchange \"k\": torn");
}

}  // namespace
}  // namespace tutti
