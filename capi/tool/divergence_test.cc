#include "capi/tool/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "capi/tool/flight_testing.h"

namespace tutti::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Texts(const std::vector<FlightRecord>& records) {
  const std::vector<FlightGroup> groups = FindGroups(records);
  std::vector<std::string> texts;
  for (const Divergence& found :
       FindDivergences(records, groups, AlignClocks(records, groups))) {
    texts.push_back(found.text);
  }
  return texts;
}

TEST(Divergence, IsNoneWhereAllCallsAreAlikeAndSucceed) {
  EXPECT_THAT(Texts({RecordWriter(0, 2).Call("barrier", 10, 20).Call("all_reduce", 30, 40),
                     RecordWriter(1, 2).Call("barrier", 11, 20).Call("all_reduce", 31, 40)}),
              IsEmpty());
}

TEST(Divergence, NamesWhoNeverCame) {
  EXPECT_THAT(
      Texts({RecordWriter(0, 3).Call("barrier", 10, 20).Call("all_reduce", 30, 900, 4),
             RecordWriter(1, 3).Call("barrier", 11, 20).Call("all_reduce", 32, 900, 4),
             RecordWriter(2, 3).Call("barrier", 12, 20)}),
      ElementsAre("communicator \"c\", epoch 1: rank 2 stopped before #2 all_reduce (float32, 32 "
                  "bytes, SUM), which ranks 0 and 1 entered; the last call of rank 2 was #1 "
                  "barrier"));
}

TEST(Divergence, IsNoneWhereARecordEndsBeforeTheOthersWentOn) {
  EXPECT_THAT(Texts({RecordWriter(0, 2).Call("barrier", 10, 20).Call("all_reduce", 30, 40),
                     RecordWriter(1, 2).Call("barrier", 11, 20).WrittenAt(25, 25)}),
              IsEmpty());
}

TEST(Divergence, NamesBothSidesOfDifferentCalls) {
  EXPECT_THAT(
      Texts({RecordWriter(0, 3).Call("all_reduce", 10, 20, 3),
             RecordWriter(1, 3).Call("barrier", 11, 20, 3),
             RecordWriter(2, 3).Call("all_reduce", 12, 20, 3)}),
      ElementsAre(
          "communicator \"c\", epoch 1: the ranks made different calls as #1: ranks 0 and 2 "
          "all_reduce (float32, 32 bytes, SUM); rank 1 barrier (float32, 32 bytes, SUM)"));
}

TEST(Divergence, SeesDimsThatDifferInEqualBytes) {
  EXPECT_THAT(
      Texts({RecordWriter(0, 2).Call("all_reduce", 10, 20, 3, 7),
             RecordWriter(1, 2).Call("all_reduce", 11, 20, 3, 8)}),
      ElementsAre("communicator \"c\", epoch 1: the ranks made different calls as #1: rank 0 "
                  "all_reduce (float32, 32 bytes, SUM); rank 1 all_reduce (float32, 32 bytes, SUM) "
                  "of other dims"));
}

TEST(Divergence, LetsBytesDifferWhereTheCallAllowsIt) {
  EXPECT_THAT(Texts({RecordWriter(0, 2).Call("all_gather", 10, 20, 0, 7, 32),
                     RecordWriter(1, 2).Call("all_gather", 11, 20, 0, 7, 64)}),
              IsEmpty());
}

TEST(Divergence, NamesTheRankWithoutARecord) {
  EXPECT_THAT(
      Texts({RecordWriter(0, 3).Call("all_reduce", 10, 30, 14),
             RecordWriter(1, 3).Call("all_reduce", 11, 20, 14)}),
      ElementsAre(
          "communicator \"c\", epoch 1: #1 all_reduce (float32, 32 bytes, SUM) failed first "
          "on rank 1, with UNAVAILABLE; rank 2 left no record: killed or hanging, or not "
          "among these files"));
}

TEST(Divergence, NamesWhoCameWhenTheOthersHadGivenUp) {
  EXPECT_THAT(
      Texts({RecordWriter(0, 2).Call("all_reduce", 10, 100'000, 4),
             RecordWriter(1, 2).Call("all_reduce", 600'000, 600'010, 4)}),
      ElementsAre(
          "communicator \"c\", epoch 1: #1 all_reduce (float32, 32 bytes, SUM) failed first "
          "on rank 0, with DEADLINE_EXCEEDED; rank 1 came 0.5 ms after that"));
}

TEST(Divergence, ComparesOnlyCallsThatNoRecorderHasForgotten) {
  EXPECT_THAT(Texts({RecordWriter(0, 2).Forget(40).Call("all_reduce", 10, 20),
                     RecordWriter(1, 2)
                         .Forget(38)
                         .Call("barrier", 1, 2)
                         .Call("barrier", 3, 4)
                         .Call("all_reduce", 11, 20)}),
              IsEmpty());
}

// Workers 0 and 1 are one row, 2 and 3 the other.
FlightRecord RecordOfRow(int64_t worker, int64_t code_of_second_call) {
  FlightRecord record = RecordWriter(worker % 2, 2)
                            .Call("barrier", 10 + worker, 20)
                            .Call("all_reduce", 30 + worker, 40 + worker, code_of_second_call);
  record.worker = worker;
  record.members = {{0, "row", worker % 2, 2, 1, 500 + worker / 2, worker / 2}};
  return record;
}

TEST(Divergence, NamesTheFailedOneOfPartsOfOneName) {
  EXPECT_THAT(
      Texts({RecordOfRow(0, 14), RecordOfRow(1, 14), RecordOfRow(2, 0), RecordOfRow(3, 0)}),
      ElementsAre("communicator \"row\" of color 0, epoch 1: #2 all_reduce (float32, 32 bytes, "
                  "SUM) failed first on rank 0, with UNAVAILABLE"));
}

TEST(Divergence, IsNoneBetweenPartsOfOneNameThatDoDifferentThings) {
  FlightRecord first = RecordOfRow(0, 0), second = RecordOfRow(1, 0);
  first.events[0].name = second.events[0].name = "broadcast";
  // Worker 2 has left no record.
  EXPECT_THAT(Texts({first, second, RecordOfRow(3, 0)}), IsEmpty());
}

TEST(Divergence, IsFoundAtAnyNumber) {
  const int64_t last = std::numeric_limits<int64_t>::max();
  FlightRecord records[2];
  for (int64_t rank = 0; rank < 2; ++rank) {
    records[rank] = RecordWriter(rank, 2).Call("barrier", 10, 20).Call("barrier", 30, 40, 14);
    for (size_t i = 2; i < 4; ++i) records[rank].events[i].arguments["sequence"] = last;
  }
  EXPECT_THAT(Texts({records[0], records[1]}),
              ElementsAre(HasSubstr("#9223372036854775807 barrier (float32, 32 bytes, SUM) failed "
                                    "first on rank 0, with UNAVAILABLE")));
}

TEST(FlightGroup, KeepsPartsOfOneNameApart) {
  FlightRecord records[2];
  for (int64_t i = 0; i < 2; ++i) {
    records[i] = RecordWriter(i, 2);
    // Rank i of the one, and rank 1 - i of the other.
    records[i].members = {{0, "part", i, 2, 1, 5, 0}, {1, "part", 1 - i, 2, 1, 6, 0}};
  }
  const std::vector<FlightGroup> groups = FindGroups({records[0], records[1]});
  EXPECT_EQ(groups.size(), 2u);
  for (const FlightGroup& group : groups) {
    EXPECT_EQ(group.ranks.size(), 2u);
    EXPECT_FALSE(group.is_local);
  }
}

TEST(FlightGroup, KeepsGroupsOfOneProcessApart) {
  FlightRecord records[2];
  for (int64_t i = 0; i < 2; ++i) {
    records[i] = RecordWriter(i, 2);
    records[i].members = {{0, "l", 0, 2, 1}, {1, "l", 1, 2, 1}, {2, "l", 0, 2, 1},
                          {3, "l", 1, 2, 1}, {4, "c", i, 2, 1}};
  }
  const std::vector<FlightGroup> groups = FindGroups({records[0], records[1]});
  size_t local = 0;
  for (const FlightGroup& group : groups) {
    EXPECT_EQ(group.ranks.size(), 2u);
    if (group.is_local) ++local;
  }
  EXPECT_EQ(groups.size(), 5u);
  EXPECT_EQ(local, 4u);
}

TEST(AlignClocks, LeavesOneKernelsClockAlone) {
  const std::vector<FlightRecord> records = {RecordWriter(0, 2).WrittenAt(100, 5000),
                                             RecordWriter(1, 2).WrittenAt(200, 9000)};
  EXPECT_THAT(AlignClocks(records, FindGroups(records)), ElementsAre(0, 0));
}

TEST(AlignClocks, TakesTheWallClockWhereNothingContradictsIt) {
  const std::vector<FlightRecord> records = {RecordWriter(0, 2, "a").WrittenAt(100, 5000),
                                             RecordWriter(1, 2, "b").WrittenAt(200, 9000)};
  EXPECT_THAT(AlignClocks(records, FindGroups(records)), ElementsAre(0, 3900));
}

TEST(AlignClocks, CorrectsItByCollectivesThatBothRanksLeft) {
  // Rank 1's clock is 7000 behind; its wall clock says nothing of it.
  const std::vector<FlightRecord> records = {
      RecordWriter(0, 2, "a").Call("barrier", 10'000, 10'100).Call("all_reduce", 20'000, 20'060),
      RecordWriter(1, 2, "b").Call("barrier", 3'050, 3'100).Call("all_reduce", 12'980, 13'060)};
  const std::vector<int64_t> offsets = AlignClocks(records, FindGroups(records));
  EXPECT_GE(offsets[1], 20'000 - 13'060);
  EXPECT_LE(offsets[1], 10'100 - 3'050);
  EXPECT_NEAR(static_cast<double>(offsets[1]), 7000, 60);
}

}  // namespace
}  // namespace tutti::tool
