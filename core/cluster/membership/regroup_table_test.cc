#include "core/cluster/membership/regroup_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

using Answer = RegroupTable::Answer;

RegroupPart Part(uint64_t id, std::vector<MemberId> among = {}, bool all = false) {
  RegroupPart part;
  part.id = id;
  part.name = "group";
  part.among = std::move(among);
  part.all = all;
  part.part = Format("part {}", id);
  return part;
}

std::optional<Answer> Bring(RegroupTable& table, int64_t worker, RegroupPart part) {
  auto answer = table.Bring(worker, std::move(part));
  EXPECT_TRUE(answer.ok()) << answer.status().ToString();
  return answer.ok() ? *answer : std::nullopt;
}

Status Gone(int64_t worker) { return BlameWorker(worker, Format("worker {} is gone", worker)); }

TEST(RegroupTable, WhoeverIsThereComesTogetherAndEachTimeIsAnEpoch) {
  RegroupTable table(3);
  EXPECT_FALSE(Bring(table, 2, Part(7)).has_value());
  EXPECT_FALSE(Bring(table, 0, Part(5)).has_value());
  const std::optional<Answer> answer = Bring(table, 1, Part(6));
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->to, ElementsAre(Pair(0, 5), Pair(1, 6), Pair(2, 7)));
  EXPECT_THAT(answer->parts, ElementsAre("part 5", "part 6", "part 7"));
  EXPECT_EQ(answer->epoch, 1);
  Bring(table, 0, Part(8));
  Bring(table, 1, Part(9));
  EXPECT_EQ(Bring(table, 2, Part(10))->epoch, 2);
  EXPECT_EQ(table.size(), 0u);
}

TEST(RegroupTable, AnEpochIsLaterThanAnyThatAParticipantKnows) {
  RegroupTable table(2);
  RegroupPart part = Part(1);
  part.epoch = 41;
  Bring(table, 0, part);
  EXPECT_EQ(Bring(table, 1, Part(2))->epoch, 42);
}

TEST(RegroupTable, ADeathCompletesWithoutTheDead) {
  RegroupTable table(3);
  Bring(table, 0, Part(1));
  Bring(table, 2, Part(2));
  EXPECT_THAT(table.Leave(2, Gone(2)), SizeIs(0));  // worker 1 is to come still
  const std::optional<Answer> answer = Bring(table, 1, Part(3));
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->members, ElementsAre(MemberId{0, 0}, MemberId{1, 0}));
  Bring(table, 0, Part(4));
  const std::vector<Answer> answers = table.Leave(1, Gone(1));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_THAT(answers[0].to, ElementsAre(Pair(0, 4)));
  EXPECT_TRUE(answers[0].failure.ok());
}

TEST(RegroupTable, AListKeepsItsOrderAndDoesNotWaitForASuccessor) {
  RegroupTable table(4);
  table.Leave(3, Gone(3));
  table.Arrive({3, 1});
  const std::vector<MemberId> among = {{3, 0}, {2, 0}, {0, 0}};
  Bring(table, 0, Part(1, among));
  EXPECT_EQ(Bring(table, 3, Part(9, among))->failure.code(), StatusCode::kInvalidArgument);
  const std::optional<Answer> answer = Bring(table, 2, Part(2, among));
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->members, ElementsAre(MemberId{2, 0}, MemberId{0, 0}));
}

TEST(RegroupTable, SoManyAreWaitedForAndASuccessorCounts) {
  RegroupTable table(3);
  table.Leave(2, Gone(2));
  RegroupPart part = Part(1);
  part.at_least = 3;
  Bring(table, 0, part);
  EXPECT_FALSE(Bring(table, 1, Part(2)).has_value());
  table.Arrive({2, 1});
  const std::optional<Answer> answer = Bring(table, 2, Part(3));
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->members, ElementsAre(MemberId{0, 0}, MemberId{1, 0}, MemberId{2, 1}));
}

TEST(RegroupTable, AllOfAListFailWithoutOneOfThemNowAndLater) {
  RegroupTable table(3);
  const std::vector<MemberId> among = {{0, 0}, {1, 0}, {2, 0}};
  Bring(table, 0, Part(1, among, true));
  const std::vector<Answer> answers = table.Leave(2, Gone(2));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_THAT(answers[0].to, ElementsAre(Pair(0, 1)));
  EXPECT_THAT(std::string(answers[0].failure.message()),
              HasSubstr("regrouping \"group\": worker 2 is gone"));
  EXPECT_EQ(Bring(table, 1, Part(2, among, true))->failure.code(), StatusCode::kUnavailable);
  table.Arrive({2, 1});
  EXPECT_EQ(Bring(table, 1, Part(3, among, true))->failure.code(), StatusCode::kUnavailable);
  EXPECT_EQ(table.size(), 0u);
}

TEST(RegroupTable, AWithdrawalFailsTheOthersAndTheyMayTryAgain) {
  RegroupTable table(2);
  Bring(table, 0, Part(1));
  EXPECT_FALSE(table.Withdraw(0, 2, Cancelled("enough")).has_value());  // another request
  EXPECT_THAT(table.Withdraw(0, 1, Cancelled("enough"))->to, ElementsAre());
  Bring(table, 0, Part(3));
  EXPECT_TRUE(Bring(table, 1, Part(4))->failure.ok());
}

TEST(RegroupTable, AWithdrawalFromAllOfAListIsToldToWhoComesLater) {
  RegroupTable table(3);
  const std::vector<MemberId> among = {{0, 0}, {1, 0}, {2, 0}};
  Bring(table, 0, Part(1, among, true));
  Bring(table, 1, Part(2, among, true));
  const std::optional<Answer> answer = table.Withdraw(0, 1, Cancelled("enough"));
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->to, ElementsAre(Pair(1, 2)));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(Bring(table, 2, Part(3, among, true))->failure.code(), StatusCode::kCancelled);
  EXPECT_EQ(table.size(), 0u);
}

// ---- Who resigns ----

const std::vector<MemberId> kThree = {{0, 0}, {1, 0}, {2, 0}};

// The three have formed an epoch, the first or a later one.
void FormEpoch(RegroupTable& table, std::vector<MemberId> among = {}) {
  for (uint64_t worker = 0; worker < 2; ++worker) {
    EXPECT_FALSE(Bring(table, static_cast<int64_t>(worker), Part(worker, among)).has_value());
  }
  EXPECT_THAT(Bring(table, 2, Part(2, among))->members, SizeIs(3));
}

Resignation FromThree(int64_t epoch) { return {"group", kThree, epoch}; }

TEST(RegroupTable, AListDoesNotWaitForWhoHasResigned) {
  RegroupTable table(3);
  FormEpoch(table);
  EXPECT_THAT(table.Resign(1, FromThree(1)), SizeIs(0));
  EXPECT_FALSE(Bring(table, 0, Part(3, kThree)).has_value());
  const std::optional<Answer> answer = Bring(table, 2, Part(4, kThree));
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->to, ElementsAre(Pair(0, 3), Pair(2, 4)));
  EXPECT_THAT(answer->members, ElementsAre(MemberId{0, 0}, MemberId{2, 0}));
  // Nor if they have to try again.
  EXPECT_FALSE(Bring(table, 2, Part(5, kThree)).has_value());
  EXPECT_TRUE(Bring(table, 0, Part(6, kThree)).has_value());
}

TEST(RegroupTable, AListThatWaitsGoesOnWhenTheLastOneResigns) {
  RegroupTable table(3);
  FormEpoch(table);
  Bring(table, 0, Part(3, kThree));
  Bring(table, 2, Part(4, kThree));
  const std::vector<Answer> answers = table.Resign(1, FromThree(1));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_TRUE(answers[0].failure.ok());
  EXPECT_THAT(answers[0].to, ElementsAre(Pair(0, 3), Pair(2, 4)));
  EXPECT_EQ(table.size(), 0u);
}

TEST(RegroupTable, WhoeverIsThereWaitsForWhoHasResignedAndThatOneIsAMemberAgain) {
  RegroupTable table(3);
  FormEpoch(table);
  table.Resign(1, FromThree(1));
  Bring(table, 0, Part(3));
  EXPECT_FALSE(Bring(table, 2, Part(4)).has_value());
  EXPECT_THAT(Bring(table, 1, Part(5))->members, SizeIs(3));
  FormEpoch(table, kThree);
}

TEST(RegroupTable, FromAnEarlierEpochNobodyResigns) {
  RegroupTable table(3);
  FormEpoch(table);
  FormEpoch(table);
  EXPECT_THAT(table.Resign(1, FromThree(1)), SizeIs(0));
  FormEpoch(table, kThree);
}

TEST(RegroupTable, WhoComesHasNotResigned) {
  RegroupTable table(3);
  FormEpoch(table);
  Bring(table, 0, Part(3, kThree));
  Bring(table, 1, Part(4, kThree));
  EXPECT_THAT(table.Resign(1, FromThree(1)), SizeIs(0));
  EXPECT_THAT(Bring(table, 2, Part(5, kThree))->members, SizeIs(3));
  table.Resign(1, FromThree(2));
  FormEpoch(table, kThree);
}

TEST(RegroupTable, WhoWaitsForWhoeverIsThereMayResign) {
  RegroupTable table(3);
  FormEpoch(table);
  Bring(table, 0, Part(3, kThree));
  Bring(table, 2, Part(4, kThree));
  Bring(table, 1, Part(5));
  EXPECT_THAT(table.Resign(1, FromThree(1)), SizeIs(1));
  Bring(table, 0, Part(6));
  EXPECT_THAT(Bring(table, 2, Part(7))->members, SizeIs(3));
}

TEST(RegroupTable, OnlyMembersResign) {
  RegroupTable table(4);
  table.Leave(3, Gone(3));
  table.Arrive({3, 1});
  EXPECT_THAT(table.Resign(3, FromThree(0)), SizeIs(0));
  EXPECT_THAT(table.Resign(3, {"group", {{0, 0}, {3, 0}}, 0}), SizeIs(0));
  const std::vector<MemberId> two = {{0, 0}, {3, 1}};
  EXPECT_FALSE(Bring(table, 0, Part(1, two)).has_value());
  EXPECT_THAT(Bring(table, 3, Part(2, two))->members, SizeIs(2));
}

TEST(RegroupTable, WhoAllHaveLeftIsForgotten) {
  RegroupTable table(3);
  FormEpoch(table);
  table.Resign(0, FromThree(1));
  table.Resign(1, FromThree(1));
  EXPECT_EQ(table.num_names_with_resigned(), 1u);
  table.Resign(2, FromThree(1));
  EXPECT_EQ(table.num_names_with_resigned(), 0u);
  FormEpoch(table);
  table.Resign(1, FromThree(2));
  table.Leave(0, Gone(0));
  EXPECT_EQ(table.num_names_with_resigned(), 1u);
  table.Leave(2, Gone(2));
  EXPECT_EQ(table.num_names_with_resigned(), 0u);
}

TEST(RegroupTable, APartTwiceIsAnError) {
  RegroupTable table(2);
  Bring(table, 0, Part(1));
  EXPECT_EQ(table.Bring(0, Part(2)).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
