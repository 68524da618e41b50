// Transfers between GPUs by NCCL, over every way that ranks of several processes have: what goes by
// it, what does not, and how it ends.
#include <string>
#include <vector>

#include "core/base/recorder.h"
#include "tests/gpu/collectives/nccl_collectives_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NcclTransfers : public NcclCollectives {
 protected:
  // Rank 0 to rank 1, and back; `host` has its tensors there.
  template <typename Group>
  std::vector<Status> Pass(Group& group, int64_t numbers, int64_t host = -1) {
    return group.Run([&, numbers, host](int64_t rank, Communicator& self) -> Status {
      if (rank > 1) return OkStatus();
      const auto count = static_cast<size_t>(numbers);
      const auto make = [&](float first) {
        std::vector<float> all(count);
        for (size_t i = 0; i < count; ++i) all[i] = first + static_cast<float>(i);
        const Ref<Tensor> there = Floats(rank, all);
        return rank == host ? Tensor::MakeMutable(OnHost(*there).value()).value() : there;
      };
      const Ref<Tensor> mine = make(rank == 0 ? 5 : 0);
      if (rank == 0) {
        TUTTI_RETURN_IF_ERROR(self.Send(*mine, 1, group.Hang()));
        const Ref<Tensor> back = make(0);
        TUTTI_RETURN_IF_ERROR(self.Receive(1, group.Hang(), back.get()));
        return Read(*back) == Read(*mine) ? OkStatus() : DataLoss("other numbers");
      }
      TUTTI_RETURN_IF_ERROR(self.Receive(0, group.Hang(), mine.get()));
      return self.Send(*mine, 0, group.Hang());
    });
  }
  // The group's answer to a transfer of which one rank has its tensor on the host.
  template <typename Group>
  void ExpectAllPlaces(Group& group) {
    for (const int64_t numbers : {0, 3, 100'000}) {
      for (const int64_t host : {-1, 0, 1}) {
        EXPECT_ALL_OK(Pass(group, numbers, host));
      }
    }
  }
};

TEST_F(NcclTransfers, GoOverEveryBuildWithoutACollectiveBeforeThem) {
  for (const char* const build : Builds()) {
    UseNccl(build);
    {
      LinkRanks links(3, LinkKind::kSocketPair);
      const Ref<Lines> lines = Listen(links);
      EXPECT_ALL_OK(Pass(links, 1000));
      EXPECT_EQ(CountNccl(), 2) << build;  // one for each of the two
      EXPECT_ALL_OK(Pass(links, 1000));
      EXPECT_EQ(CountNccl(), 2) << build;
      EXPECT_THAT(lines->Take(), IsEmpty());
      ASSERT_TRUE(links.environment().log().SetSink(nullptr).ok());
    }
    EXPECT_EQ(CountNccl(), 0);
  }
}

TEST_F(NcclTransfers, GoOverEveryTransportFromEveryPlaceToEvery) {
  for (const LinkKind kind : {LinkKind::kSocketPair, LinkKind::kTcp, LinkKind::kRing,
                              LinkKind::kLater}) {
    LinkRanks links(3, kind);
    ExpectAllPlaces(links);
    EXPECT_EQ(CountNccl(), 2);
  }
  {
    SegmentRanks segment(2);
    ExpectAllPlaces(segment);
    EXPECT_EQ(CountNccl(), 2);
  }
  {
    HierarchicalRanks hosts({"a", "a", "b", "b"});
    ExpectAllPlaces(hosts);
    EXPECT_EQ(CountNccl(), 2);
  }
  // Within a process nobody needs it: one copy from device to device.
  RankGroup local(2);
  const Ref<Lines> lines = Listen(local);
  ExpectAllPlaces(local);
  EXPECT_EQ(CountNccl(), 0);
  EXPECT_THAT(lines->Take(), IsEmpty());
  ASSERT_TRUE(local.environment().log().SetSink(nullptr).ok());
}

TEST_F(NcclTransfers, AreMadeByTheCommunicatorOfAllRanksWhereThereIsOne) {
  SegmentRanks ranks(3);
  EXPECT_ALL_OK(Sum(ranks));
  const int32_t all = CountNccl();
  EXPECT_EQ(all, 3);
  EXPECT_ALL_OK(Pass(ranks, 10));
  EXPECT_EQ(CountNccl(), all);
}

TEST_F(NcclTransfers, OfEveryDTypeStridedAndToItselfInTurn) {
  LinkRanks links(3, LinkKind::kSocketPair);
  for (const DType dtype :
       {DType::kBool, DType::kInt8, DType::kInt16, DType::kUint16, DType::kInt32, DType::kUint64,
        DType::kFloat16, DType::kBfloat16, DType::kFloat64, DType::kComplex64,
        DType::kComplex128}) {
    for (const bool strided : {false, true}) {
      ExpectReference(links, {.op = CollectiveOp::kSend,
                              .dtype = dtype,
                              .rows = 3,
                              .columns = 5,
                              .strided = strided});
    }
  }
  EXPECT_GE(CountNccl(), 2);
}

TEST_F(NcclTransfers, FallBackOnBothRanksAndSayWhy) {
  for (const auto& [library, why] :
       {std::pair(TUTTI_GPU_NCCL_2_27, "ranks 0 and 1 are both on device"),
        std::pair(TUTTI_GPU_NCCL_BARE, "has no ncclCommSplit"),
        std::pair("/there/is/no/nccl.so", "rank 0: ")}) {
    library == std::string("/there/is/no/nccl.so") ? Use(library) : UseNccl(library);
    SegmentRanks segment(4);
    const Ref<Lines> lines = Listen(segment);
    for (int i = 0; i < 2; ++i) {
      EXPECT_ALL_OK(segment.Run([&](int64_t rank, Communicator& self) -> Status {
        // Both on GPU:0.
        const Ref<Tensor> mine = Floats(0, {static_cast<float>(rank)});
        if (rank == 0) return self.Send(*mine, 3, segment.Hang());
        if (rank != 3) return OkStatus();
        TUTTI_RETURN_IF_ERROR(self.Receive(0, segment.Hang(), mine.get()));
        return Read(*mine) == std::vector<float>{0} ? OkStatus() : DataLoss("other numbers");
      }));
    }
    const std::multiset<std::string> written = lines->Take();
    EXPECT_EQ(written.size(), 2u);
    EXPECT_THAT(written, Each(AllOf(HasSubstr("NCCL is not used: "), HasSubstr(why))));
    ASSERT_TRUE(segment.environment().log().SetSink(nullptr).ok());
  }
}

TEST_F(NcclTransfers, OfRanksThatDifferAreOneErrorOnBoth) {
  const auto differ = [&](auto& group) {
    EXPECT_ALL_OK(Pass(group, 1));
    for (const Status& status : group.Run([&](int64_t rank, Communicator& self) {
           const Ref<Tensor> mine = rank == 0 ? Floats(0, {1}) : Floats(1, {1, 2});
           return rank == 0 ? self.Send(*mine, 1, group.Hang())
                            : self.Receive(0, group.Hang(), mine.get());
         })) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("got a tensor float32[2] to fill, rank 0 sent float32[1]"));
    }
  };
  LinkRanks links(2, LinkKind::kSocketPair);
  differ(links);
  SegmentRanks segment(2);
  differ(segment);
  // And on another GPU than before.
  SegmentRanks moved(2);
  EXPECT_ALL_OK(Pass(moved, 1));
  for (const Status& status : moved.Run([&](int64_t rank, Communicator& self) {
         const Ref<Tensor> mine = Floats(rank == 0 ? 0 : 2, {1});
         return rank == 0 ? self.Send(*mine, 1, moved.Hang())
                          : self.Receive(0, moved.Hang(), mine.get());
       })) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the tensors lie on GPU:2, and those of this rank's first call lay on "
                          "GPU:1"));
  }
}

TEST_F(NcclTransfers, EndOnBothRanksByADeadlineACancellationAndALeavingPeer) {
  for (const bool before : {false, true}) {
    LinkRanks late(2, LinkKind::kSocketPair);
    if (before) {
      EXPECT_ALL_OK(Pass(late, 1));
    }
    const Ref<Tensor> mine = Floats(0, {1});
    const Status timed = late[0].Send(*mine, 1, late.Timeout(30'000'000));
    EXPECT_EQ(timed.code(), StatusCode::kDeadlineExceeded) << timed.ToString();
    EXPECT_EQ(late[1].Barrier(late.Hang()).code(), StatusCode::kDeadlineExceeded);

    SegmentRanks given_up(2);
    if (before) {
      EXPECT_ALL_OK(Pass(given_up, 1));
    }
    const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    CallOptions call = given_up.Hang();
    call.cancellation = cancellation.get();
    cancellation->Cancel();
    const Ref<Tensor> theirs = Floats(1, {1});
    EXPECT_EQ(given_up[1].Receive(0, call, theirs.get()).code(), StatusCode::kCancelled);
    EXPECT_EQ(given_up[0].Barrier(given_up.Hang()).code(), StatusCode::kCancelled);

    LinkRanks left(2, LinkKind::kSocketPair);
    if (before) {
      EXPECT_ALL_OK(Pass(left, 1));
    }
    left.Drop(1);
    EXPECT_EQ(left[0].Send(*mine, 1, left.Hang()).code(), StatusCode::kUnavailable);
  }
}

TEST_F(NcclTransfers, EndOnBothRanksWhenNcclFailsOrStandsStill) {
  {
    LinkRanks broken(2, LinkKind::kSocketPair);
    EXPECT_ALL_OK(Pass(broken, 1));
    fake::NcclFaults faults;
    faults.refuse = 3;
    Break(faults);
    for (const Status& status : Pass(broken, 1)) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL"));
      EXPECT_NE(status.FindDetail("op"), nullptr);
    }
    Break({});
  }
  // One rank's part alone is under way: its deadline ends it on both.
  SegmentRanks still(2);
  EXPECT_ALL_OK(Pass(still, 1));
  fake::NcclFaults faults;
  faults.error = 3;
  faults.error_rank = 1;
  faults.error_operation = 1;
  Break(faults);
  std::vector<Status> statuses = Pass(still, 1);
  EXPECT_FALSE(statuses[1].ok());
  statuses = Pass(still, 1);
  for (const Status& status : statuses) EXPECT_FALSE(status.ok());
  EXPECT_FALSE(still[0].epoch_status().ok());
  EXPECT_FALSE(still[1].epoch_status().ok());
  Break({});
}

TEST_F(NcclTransfers, AreRecordedOnceWithTheirNumbers) {
  SegmentRanks ranks(2);
  EXPECT_ALL_OK(Pass(ranks, 7));
  EXPECT_ALL_OK(Pass(ranks, 7));
  int begun = 0;
  int ended = 0;
  for (const FlightEvent& event : ranks.environment().recorder().Snapshot()) {
    const std::string name = event.type->name;
    if (name != "send" && name != "receive") continue;
    (event.phase == FlightPhase::kBegin ? begun : ended) += 1;
  }
  EXPECT_EQ(begun, 8);
  EXPECT_EQ(ended, 8);
}

TEST_F(NcclTransfers, MayBeIssuedAtOnceInBothDirections) {
  LinkRanks links(2, LinkKind::kSocketPair);
  EXPECT_ALL_OK(links.Run([&](int64_t rank, Communicator& self) -> Status {
    const Ref<Tensor> mine = Floats(rank, {static_cast<float>(rank), 7});
    const Ref<Tensor> theirs = Floats(rank, {0, 0});
    const int64_t peer = 1 - rank;
    std::vector<Ref<Future>> futures;
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == rank) {
        TUTTI_ASSIGN_OR_RETURN(futures.emplace_back(), self.SendAsync(*mine, peer, links.Hang()));
      } else {
        TUTTI_ASSIGN_OR_RETURN(futures.emplace_back(),
                               self.ReceiveAsync(peer, links.Hang(), theirs.get()));
      }
    }
    TUTTI_ASSIGN_OR_RETURN(futures.emplace_back(), self.AllReduceAsync(*mine, ReduceOp::kSum,
                                                                       links.Hang(), mine.get()));
    for (const Ref<Future>& future : futures) TUTTI_RETURN_IF_ERROR(End(*future, links.Hang()));
    EXPECT_EQ(Read(*theirs), (std::vector<float>{static_cast<float>(peer), 7}));
    EXPECT_EQ(Read(*mine), (std::vector<float>{1, 14}));
    return OkStatus();
  }));
}

}  // namespace
}  // namespace tutti::gpu
