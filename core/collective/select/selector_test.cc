#include "core/collective/select/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kKiB = 1024;

std::shared_ptr<const SelectorTable> Table(std::string_view text) {
  auto table = SelectorTable::Parse(text, "table.txt");
  EXPECT_TRUE(table.ok()) << table.status().ToString();
  return table.ok() ? *table : SelectorTable::BuiltIn();
}

void ExpectError(std::string_view text, const std::string& message) {
  const auto table = SelectorTable::Parse(text, "table.txt");
  ASSERT_FALSE(table.ok()) << text;
  EXPECT_EQ(table.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(table.status().message()), HasSubstr(message));
}

TEST(SelectorTest, BuiltInRowsChooseForEveryCollectiveEverywhere) {
  for (const Locality where : {Locality::kInProcess, Locality::kSharedMemory, Locality::kTcp,
                               Locality::kMixed}) {
    for (const int64_t ranks : {1, 2, 3, 4, 7, 64, 4096}) {
      const Selector selector(nullptr, where, ranks);
      for (const CollectiveOp op :
           {CollectiveOp::kAllReduce, CollectiveOp::kReduce, CollectiveOp::kReduceScatter,
            CollectiveOp::kBroadcast, CollectiveOp::kAllGather, CollectiveOp::kGather,
            CollectiveOp::kScatter, CollectiveOp::kAllToAll}) {
        int64_t rows = 0;
        for (const SelectorRow& row : SelectorTable::BuiltIn()->rows()) {
          rows += row.op == op && row.locality == where && row.limit == SelectorRow::kAny &&
                  row.least_ranks <= ranks && ranks <= row.most_ranks;
        }
        EXPECT_EQ(rows, 1) << CollectiveOpName(op) << " over " << LocalityName(where);
        EXPECT_EQ(selector.MostBytes(op, selector.Choose(op, INT64_MAX).algorithm), INT64_MAX);
      }
    }
  }
}

TEST(SelectorTest, SmallSumsFoldFlatUpToALimitThatAllRanksShare) {
  const auto flat = CollectiveAlgorithm::kFlatFold;
  const auto op = CollectiveOp::kAllReduce;
  const Selector shared(nullptr, Locality::kSharedMemory, 4);
  EXPECT_TRUE(shared.Chooses(flat, op, 0));
  EXPECT_TRUE(shared.Chooses(flat, op, 16 * kKiB));
  EXPECT_FALSE(shared.Chooses(flat, op, 16 * kKiB + 1));
  EXPECT_EQ(shared.Choose(op, 1 << 20).algorithm, CollectiveAlgorithm::kSliceAndShare);
  EXPECT_EQ(shared.Choose(op, 1 << 20).chunk_bytes, 128 * kKiB);
  EXPECT_EQ(shared.MostBytes(op, flat), 16 * kKiB);

  EXPECT_EQ(Selector(nullptr, Locality::kTcp, 2).MostBytes(op, flat), 256 * kKiB);
  EXPECT_EQ(Selector(nullptr, Locality::kTcp, 4).MostBytes(op, flat), 64 * kKiB);
  EXPECT_EQ(Selector(nullptr, Locality::kTcp, 5).MostBytes(op, flat), 16 * kKiB);
  // Where pairs connect at first use, none does for a sum.
  EXPECT_EQ(Selector(nullptr, Locality::kTcp, 8).MostBytes(op, flat), 64 * kKiB / 7);
  EXPECT_EQ(Selector(nullptr, Locality::kTcp, 9).MostBytes(op, flat), -1);
  EXPECT_TRUE(Selector(nullptr, Locality::kTcp, 9).Chooses(CollectiveAlgorithm::kChain, op,
                                                           int64_t{1} << 30));
  // No less than 4 KiB, however many ranks there are.
  EXPECT_EQ(Selector(nullptr, Locality::kMixed, 4096).MostBytes(CollectiveOp::kReduceScatter, flat),
            4 * kKiB);
  EXPECT_EQ(Selector(nullptr, Locality::kInProcess, 4).MostBytes(op, flat), 4 * kKiB);
  EXPECT_EQ(Selector(nullptr, Locality::kInProcess, 4096).MostBytes(op, flat), 256);
  // Two ranks read all that there is in any case.
  EXPECT_EQ(Selector(nullptr, Locality::kInProcess, 2).MostBytes(op, flat), 160 * kKiB);
  EXPECT_EQ(Selector(nullptr, Locality::kSharedMemory, 2).MostBytes(op, flat), 96 * kKiB);
}

TEST(SelectorTest, ARootFoldsAloneWhereRanksAreFew) {
  const auto op = CollectiveOp::kReduce;
  EXPECT_EQ(Selector(nullptr, Locality::kSharedMemory, 3).Choose(op, 1 << 20).algorithm,
            CollectiveAlgorithm::kSliceFold);
  const Selector four(nullptr, Locality::kSharedMemory, 4);
  EXPECT_EQ(four.Choose(op, 16 * kKiB).algorithm, CollectiveAlgorithm::kSliceFold);
  EXPECT_EQ(four.Choose(op, 16 * kKiB + 1).algorithm, CollectiveAlgorithm::kSliceAndShare);
}

TEST(SelectorTest, TensorsInWindowsGoDirectlyUnlessTheTableSaysOtherwise) {
  for (const int64_t ranks : {2, 3, 8}) {
    const Selector windows(nullptr, Locality::kSharedWindow, ranks);
    for (const CollectiveOp op : {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather,
                                  CollectiveOp::kScatter, CollectiveOp::kAllToAll}) {
      EXPECT_TRUE(windows.Chooses(CollectiveAlgorithm::kStaged, op, 1));
      EXPECT_TRUE(windows.Chooses(CollectiveAlgorithm::kDirect, op, 1 << 20));
    }
    // Where every rank folds all inputs, or the root alone does, they had better be few.
    EXPECT_EQ(windows.Chooses(CollectiveAlgorithm::kDirect, CollectiveOp::kReduce, 1 << 20),
              ranks <= 3);
    // Lines that peers have read are dear to write again: what lies in caches is staged.
    constexpr CollectiveOp kAllReduce = CollectiveOp::kAllReduce;
    EXPECT_TRUE(windows.Chooses(CollectiveAlgorithm::kStaged, kAllReduce, 128 * kKiB));
    EXPECT_EQ(windows.Chooses(CollectiveAlgorithm::kStaged, kAllReduce, 512 * kKiB), ranks <= 3);
    EXPECT_EQ(windows.Choose(kAllReduce, 512 * kKiB + 1).algorithm,
              CollectiveAlgorithm::kSliceAndShare);
  }
  const auto table = Table("all_reduce shared_window any any staged");
  EXPECT_TRUE(Selector(table.get(), Locality::kSharedWindow, 2)
                  .Chooses(CollectiveAlgorithm::kStaged, CollectiveOp::kAllReduce, 1 << 20));
  ExpectError("gather shared_window any any direct", "algorithm of gather over shared_window");
  ExpectError("all_reduce shared_memory any any direct", "expected flat_fold, slice_and_share");
}

TEST(SelectorTest, WithinAProcessWhatLiesInCachesIsStaged) {
  constexpr CollectiveOp kAllReduce = CollectiveOp::kAllReduce;
  for (const int64_t ranks : {2, 8}) {
    const Selector selector(nullptr, Locality::kInProcess, ranks);
    EXPECT_TRUE(selector.Chooses(CollectiveAlgorithm::kStaged, kAllReduce, 512 * kKiB));
    EXPECT_EQ(selector.Choose(kAllReduce, 512 * kKiB + 1).algorithm,
              CollectiveAlgorithm::kSliceAndShare);
  }
  ExpectError("reduce in_process any any staged", "expected flat_fold, slice_fold");
}

TEST(SelectorTest, OwnRowsStandBeforeTheBuiltInOnes) {
  const auto table = Table(
      "# tuned\n"
      "all_reduce shared_memory 2-4 4KiB flat_fold   # small\n"
      "all_reduce shared_memory 2-4 any  slice_and_share 64KiB\n");
  EXPECT_EQ(table->num_own_rows(), 2u);
  const Selector three(table.get(), Locality::kSharedMemory, 3);
  EXPECT_EQ(three.MostBytes(CollectiveOp::kAllReduce, CollectiveAlgorithm::kFlatFold), 4 * kKiB);
  EXPECT_EQ(three.Choose(CollectiveOp::kAllReduce, 5 * kKiB).chunk_bytes, 64 * kKiB);
  // What the rows do not speak of is as it was.
  const Selector five(table.get(), Locality::kSharedMemory, 5);
  EXPECT_EQ(five.MostBytes(CollectiveOp::kAllReduce, CollectiveAlgorithm::kFlatFold),
            64 * kKiB / 5);
  EXPECT_EQ(three.Choose(CollectiveOp::kBroadcast, 5).algorithm, CollectiveAlgorithm::kSegments);
}

TEST(SelectorTest, ARowThatAnEarlierOneCoversChangesNothing) {
  const auto table =
      Table("all_reduce tcp any any slice_and_share\nall_reduce tcp any 8 flat_fold");
  const Selector selector(table.get(), Locality::kTcp, 2);
  EXPECT_EQ(selector.Choose(CollectiveOp::kAllReduce, 8).algorithm,
            CollectiveAlgorithm::kSliceAndShare);
  EXPECT_EQ(selector.MostBytes(CollectiveOp::kAllReduce, CollectiveAlgorithm::kFlatFold), -1);
}

TEST(SelectorTest, SemicolonsSeparateRowsToo) {
  const auto table = Table("reduce tcp 2 1KiB flat_fold; reduce tcp 3- any slice_and_share 256KiB");
  EXPECT_EQ(table->num_own_rows(), 2u);
  EXPECT_EQ(Selector(table.get(), Locality::kTcp, 3).Choose(CollectiveOp::kReduce, 1).chunk_bytes,
            256 * kKiB);
}

TEST(SelectorTest, SharedMovesAndSliceFoldsHaveAChunkToChoose) {
  const auto chunk_of = [](const std::string& rows, CollectiveOp op) {
    const auto table = Table(rows);
    return Selector(table.get(), Locality::kSharedMemory, 2).Choose(op, 1 << 20).chunk_bytes;
  };
  // As it is, as rows without a chunk have it, and as one says.
  EXPECT_EQ(chunk_of("", CollectiveOp::kBroadcast), 64 * kKiB);
  EXPECT_EQ(chunk_of("broadcast shared_memory any any segments", CollectiveOp::kBroadcast),
            64 * kKiB);
  EXPECT_EQ(chunk_of("broadcast shared_memory any any segments 256KiB", CollectiveOp::kBroadcast),
            256 * kKiB);
  EXPECT_EQ(chunk_of("", CollectiveOp::kAllToAll), 128 * kKiB);
  EXPECT_EQ(chunk_of("all_to_all shared_memory 2 any segments 32KiB", CollectiveOp::kAllToAll),
            32 * kKiB);
  EXPECT_EQ(chunk_of("reduce_scatter shared_memory any any slice_fold 16KiB",
                     CollectiveOp::kReduceScatter),
            16 * kKiB);
  ExpectError("scatter shared_memory any any segments 256KiB",
              "expected whole KiB from 16KiB to 128KiB");
  ExpectError("gather shared_memory any any segments 64KiB", "has none to be chosen");
}

TEST(SelectorTest, WhatIsPrintedReadsBackAsTheSameTable) {
  const auto table = Table(
      "all_reduce mixed 2-4 10000 flat_fold\nreduce_scatter tcp 7 3KiB/peers flat_fold");
  const auto own = Table(table->OwnRows());
  EXPECT_EQ(own->ToString(), table->ToString());
  EXPECT_EQ(own->hash(), table->hash());
  EXPECT_THAT(table->ToString(), StartsWith("all_reduce     mixed         2-4   10000"));
  const auto built_in = Table(SelectorTable::BuiltIn()->ToString());
  EXPECT_EQ(built_in->num_own_rows(), SelectorTable::BuiltIn()->rows().size());
}

TEST(SelectorTest, TablesThatDifferHaveDifferentHashes) {
  EXPECT_EQ(Table("")->hash(), SelectorTable::BuiltIn()->hash());
  EXPECT_NE(Table("all_reduce tcp any 8KiB flat_fold")->hash(), Table("")->hash());
  EXPECT_NE(Table("all_reduce tcp any 8KiB flat_fold")->hash(),
            Table("all_reduce tcp any 9KiB flat_fold")->hash());
}

TEST(SelectorTest, ErrorsNameTheLineAndWhatIsAllowed) {
  ExpectError("\nall_reduce tcp any\n", "table.txt:2: 3 words; expected collective, where, ranks");
  ExpectError("barrier tcp any any direct",
              "collective is \"barrier\"; expected all_reduce, reduce, reduce_scatter, broadcast");
  ExpectError("all_reduce moon any any direct",
              "where is \"moon\"; expected in_process, shared_memory, tcp, mixed");
  ExpectError("all_reduce tcp 4-2 any flat_fold", "ranks is \"4-2\"; expected any, 4, 2-4 or 2-");
  ExpectError("all_reduce tcp 0 any flat_fold", "ranks is \"0\"");
  ExpectError("all_reduce tcp - any flat_fold", "ranks is \"-\"");
  ExpectError("all_reduce tcp any 4KiB/worker flat_fold",
              "expected any, a size like 32KiB, 64KiB/ranks or 64KiB/peers");
  ExpectError("all_reduce tcp any -5 flat_fold", "up to is \"-5\"");
  ExpectError("all_reduce tcp any any direct",
              "algorithm of all_reduce over tcp is \"direct\"; expected flat_fold, "
              "slice_and_share");
  ExpectError("all_reduce tcp any any flat_fold",
              "up to is \"any\", and all_reduce over tcp by flat_fold can take 256KiB at most");
  ExpectError("all_reduce tcp any any slice_and_share 5",
              "expected whole KiB from 16KiB to 512KiB");
  ExpectError("all_reduce mixed any any chain 2KiB", "expected whole KiB from 4KiB to 512KiB");
  ExpectError("all_reduce hosts any any hierarchical 32KiB",
              "expected whole KiB from 64KiB to 64MiB");
  ExpectError("all_gather hosts any any hierarchical 1MiB",
              "all_gather over hosts by hierarchical has none to be chosen");
  ExpectError("all_gather tcp any any chain", "expected segments, tree, ring");
  ExpectError("broadcast tcp any any segments 64KiB",
              "chunk is \"64KiB\", and broadcast over tcp by segments has none to be chosen");
}

TEST(SelectorTest, AnErrorCarriesFileAndLine) {
  const auto table = SelectorTable::Parse("\n\nnonsense", "table.txt");
  ASSERT_FALSE(table.ok());
  ASSERT_NE(table.status().FindDetail("line"), nullptr);
  EXPECT_EQ(std::get<int64_t>(table.status().FindDetail("line")->value), 3);
  EXPECT_EQ(std::get<std::string>(table.status().FindDetail("file")->value), "table.txt");
}

}  // namespace
}  // namespace tutti
