// Groups split from groups, in one process; cluster_team_test.cc has them between workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/recorder.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

std::string Message(const Status& status) { return std::string(status.message()); }

// The ranks' numbers in `parent`, in the order of `group`.
Result<std::vector<int64_t>> ParentRanks(Communicator& group, int64_t parent_rank,
                                         const CallOptions& call) {
  const Ref<Tensor> own = Tensor::Create(DType::kInt64, Shape({1})).value();
  own->mutable_span<int64_t>()[0] = parent_rank;
  const Ref<Tensor> all = Tensor::Create(DType::kInt64, Shape({group.size()})).value();
  TUTTI_RETURN_IF_ERROR(group.AllGatherInto(*own, call, all.get()));
  return std::vector<int64_t>(all->span<int64_t>().begin(), all->span<int64_t>().end());
}

TEST(CommunicatorSplit, RanksOfOneColorAreAGroupInTheOrderOfKeyAndRank) {
  RankGroup group(5);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    // Ranks 0, 2, 4 backwards; 1 is in none; 3 alone.
    const int64_t color = rank % 2 == 0 ? 7 : rank == 1 ? -1 : 3;
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> part,
                           self.Split(color, -rank, "", group.Hang()));
    EXPECT_EQ(part.get() == nullptr, rank == 1);
    if (!part) return OkStatus();
    EXPECT_EQ(part->size(), color == 7 ? 3 : 1);
    TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> ranks,
                           ParentRanks(*part, rank, group.Hang()));
    EXPECT_EQ(ranks, color == 7 ? (std::vector<int64_t>{4, 2, 0}) : (std::vector<int64_t>{3}));
    EXPECT_EQ(ranks[static_cast<size_t>(part->rank())], rank);
    EXPECT_EQ(part->name(), color == 7 ? "communicator/1.7" : "communicator/1.3");
    return part->Close(group.Hang());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

// By the number of the part: its color, and the ranks of it that the flight recorder knows.
std::map<int64_t, std::pair<int64_t, std::multiset<int64_t>>> RecordedParts(
    const Environment& environment, const std::string& name) {
  const std::string text = environment.recorder().ToJson();
  const std::regex subject("\"name\":\"" + name + "\",\"rank\":(\\d+),\"size\":2,\"epoch\":\\d+," +
                           "\"group\":(\\d+),\"color\":(\\d+)\\}");
  std::map<int64_t, std::pair<int64_t, std::multiset<int64_t>>> parts;
  for (std::sregex_iterator found(text.begin(), text.end(), subject), end; found != end; ++found) {
    auto& [color, ranks] = parts[std::stoll((*found)[2])];
    color = std::stoll((*found)[3]);
    ranks.insert(std::stoll((*found)[1]));
  }
  return parts;
}

TEST(CommunicatorSplit, PartsOfOneNameAreToldApartInTheFlightRecord) {
  RankGroup group(4);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    for (int round = 0; round < 2; ++round) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> row,
                             self.Split(rank / 2, 0, "row", group.Hang()));
      // The same number and color in each row.
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> again,
                             row->Split(7, 0, "again", group.Hang()));
      TUTTI_RETURN_IF_ERROR(again->Barrier(group.Hang()));
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> next, again->Shrink(group.Hang()));
      for (const auto& part : {next, again, row}) {
        TUTTI_RETURN_IF_ERROR(part->Close(group.Hang()));
      }
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  const auto rows = RecordedParts(group.environment(), "row");
  std::multiset<int64_t> colors;
  for (const auto& [number, row] : rows) {
    EXPECT_GT(number, 0);
    colors.insert(row.first);
    EXPECT_EQ(row.second, (std::multiset<int64_t>{0, 1}));
  }
  EXPECT_EQ(colors, (std::multiset<int64_t>{0, 0, 1, 1}));
  const auto agains = RecordedParts(group.environment(), "again");
  EXPECT_EQ(agains.size(), 4u);
  for (const auto& [number, again] : agains) {
    EXPECT_FALSE(rows.contains(number));
    EXPECT_EQ(again.first, 7);
    // Of each rank two epochs.
    EXPECT_EQ(again.second, (std::multiset<int64_t>{0, 0, 1, 1}));
  }
}

TEST(CommunicatorSplit, PartsCanBeSplitAgainAndUsedWithTheWhole) {
  RankGroup group(4);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    for (int round = 0; round < 3; ++round) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> half,
                             self.Split(rank / 2, 0, "half", group.Hang()));
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> one,
                             half->Split(half->rank(), 0, "one", group.Hang()));
      EXPECT_EQ(one->size(), 1);
      TUTTI_ASSIGN_OR_RETURN(const Ref<Future> under_way, self.BarrierAsync(group.Hang()));
      TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> ranks,
                             ParentRanks(*half, rank, group.Hang()));
      EXPECT_EQ(ranks, (std::vector<int64_t>{rank / 2 * 2, rank / 2 * 2 + 1}));
      TUTTI_RETURN_IF_ERROR(under_way->Wait(group.Hang()));
      TUTTI_RETURN_IF_ERROR(one->Close(group.Hang()));
      TUTTI_RETURN_IF_ERROR(half->Close(group.Hang()));
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(CommunicatorSplit, TheErrorOfAPartIsItsOwn) {
  RankGroup group(4);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> part,
                           self.Split(rank % 2, 0, "part", group.Hang()));
    if (rank == 0) part->Abort(Aborted("enough"));
    const Status status = part->Barrier(group.Hang());
    EXPECT_EQ(status.code(), rank % 2 == 0 ? StatusCode::kAborted : StatusCode::kOk);
    TUTTI_RETURN_IF_ERROR(self.Barrier(group.Hang()));
    return part->Close(group.Hang());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(CommunicatorSplit, IsACallOfTheWhole) {
  RankGroup group(2);
  const Result<Ref<Communicator>> part =
      group[0].Split(0, 0, "", group.Timeout(10 * kMillisecondNs));
  EXPECT_EQ(part.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(part.status()), HasSubstr("split: "));
  EXPECT_EQ(group[1].Barrier(group.Hang()).code(), StatusCode::kDeadlineExceeded);
}

TEST(CommunicatorSplit, MessagesNameTheRanksOfThePart) {
  RankGroup group(3);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> part,
                           self.Split(rank == 0 ? 0 : 1, -rank, "part", group.Hang()));
    Status status;
    if (rank == 1) {
      status = part->Barrier(group.Timeout(10 * kMillisecondNs));
      EXPECT_THAT(Message(status), HasSubstr("rank 0"));
    }
    TUTTI_RETURN_IF_ERROR(self.Barrier(group.Hang()));
    TUTTI_RETURN_IF_ERROR(part->Close(group.Hang()));
    return rank == 1 ? status : OkStatus();
  });
  EXPECT_EQ(statuses[1].code(), StatusCode::kDeadlineExceeded) << statuses[1].ToString();
}

}  // namespace
}  // namespace tutti
