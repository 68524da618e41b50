// Hints of calls: what they change, that all ranks must give the same, and what is said where they
// cannot be followed. Over links, and between threads, where nothing passes from rank to rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/recorder.h"
#include "core/collective/communicator/future.h"
#include "core/collective/communicator/packing.h"
#include "core/collective/select/selector.h"
#include "core/collective/testing/link_ranks.h"
#include "core/collective/testing/rank_threads.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr CommunicationImplementation kRing = CommunicationImplementation::kRing;

CollectiveOptions Hinted(const CallOptions& call, CommunicationImplementation implementation,
                         int64_t bytes_per_pack = 0) {
  return CollectiveOptions(call, CommunicationHints{implementation, bytes_per_pack});
}

Ref<Tensor> FloatsOf(int64_t rank, int64_t count) {
  Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({count})).value();
  auto* values = static_cast<float*>(tensor->mutable_data());
  for (int64_t i = 0; i < count; ++i) values[i] = 1.f / static_cast<float>(1 + rank + i);
  return tensor;
}

// "all_reduce chain" for each collective that has ended, in order, of all ranks.
std::vector<std::string> AlgorithmsTaken(const Environment& environment) {
  std::vector<std::string> taken;
  for (const FlightEvent& event : environment.recorder().Snapshot()) {
    if (event.phase != FlightPhase::kEnd) continue;
    for (size_t i = 0; i < kFlightArguments && event.type->argument_names[i] != nullptr; ++i) {
      if (event.type->argument_names[i] != std::string("algorithm")) continue;
      const int64_t number = event.arguments[i];
      taken.push_back(Format(
          "{} {}", event.type->name,
          number < 0 ? "-" : AlgorithmName(static_cast<CollectiveAlgorithm>(number))));
    }
  }
  return taken;
}

class Warnings final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    const std::lock_guard lock(mutex_);
    if (record.level == LogLevel::kWarning) lines_.emplace_back(record.message);
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;  // guards lines_
  std::vector<std::string> lines_;
};

Ref<Warnings> Listen(Environment& environment) {
  Ref<Warnings> warnings = MakeRef<Warnings>();
  environment.log().set_level(LogLevel::kWarning);
  EXPECT_TRUE(environment.log().SetSink(warnings).ok());
  return warnings;
}

// One of each operation that asks for it, on ranks of any group.
template <class Group>
std::vector<Status> RunAll(Group& group, CommunicationImplementation implementation,
                           int64_t count, std::vector<std::vector<float>>* sums) {
  sums->resize(group.size());
  return group.Run([&](int64_t rank, Communicator& self) -> Status {
    const CollectiveOptions call = Hinted(group.Hang(), implementation);
    const auto size = static_cast<int64_t>(group.size());
    const Ref<Tensor> mine = FloatsOf(rank, count * size);
    const Ref<Tensor> sum = FloatsOf(rank, count * size);
    const Ref<Tensor> share = FloatsOf(rank, count);
    TUTTI_RETURN_IF_ERROR(self.AllReduce(*mine, ReduceOp::kSum, call, sum.get()));
    std::vector<float>& all = (*sums)[static_cast<size_t>(rank)];
    const auto take = [&all](const Tensor& tensor) {
      const auto* values = static_cast<const float*>(tensor.data());
      all.insert(all.end(), values, values + tensor.num_elements());
    };
    take(*sum);
    TUTTI_RETURN_IF_ERROR(self.ReduceScatter(*mine, ReduceOp::kSum, call, share.get()));
    Ref<Tensor> joined;
    TUTTI_RETURN_IF_ERROR(self.AllGather(*share, 0, call, &joined));
    take(*joined);
    TUTTI_RETURN_IF_ERROR(self.Reduce(*mine, ReduceOp::kSum, 0, call, sum.get()));
    return self.Broadcast(0, call, sum.get());
  });
}

TEST(LinkHintsTest, RingGoesFromNeighbourToNeighbourWithTheSameBits) {
  for (const size_t size : {2, 3, 5}) {
    for (const int64_t count : {1, 5000}) {
      std::vector<std::vector<float>> usual, around;
      LinkRanks by_table(size, LinkKind::kTcp);
      EXPECT_THAT(RunAll(by_table, CommunicationImplementation::kAuto, count, &usual),
                  Each(testing::Property(&Status::ok, true)));
      EXPECT_THAT(AlgorithmsTaken(by_table.environment()),
                  Not(testing::Contains(HasSubstr("chain"))));
      LinkRanks ring(size, LinkKind::kTcp);
      const Ref<Warnings> warnings = Listen(ring.environment());
      EXPECT_THAT(RunAll(ring, kRing, count, &around),
                  Each(testing::Property(&Status::ok, true)));
      EXPECT_EQ(usual, around) << size << " ranks, " << count;
      int chains = 0;
      for (const std::string& taken : AlgorithmsTaken(ring.environment())) {
        if (taken.starts_with("all_gather")) {
          EXPECT_EQ(taken, "all_gather ring");
        } else if (!taken.starts_with("broadcast")) {
          EXPECT_THAT(taken, HasSubstr(" chain"));
          ++chains;
        }
      }
      EXPECT_EQ(chains, static_cast<int>(3 * size));
      // A line of each rank, and of none a second one.
      EXPECT_THAT(warnings->lines(),
                  AllOf(testing::SizeIs(size),
                        Each(AllOf(HasSubstr("broadcast asks for the communication RING"),
                                   HasSubstr("no algorithm")))));
      ASSERT_TRUE(ring.environment().log().SetSink(nullptr).ok());
    }
  }
}

TEST(LinkHintsTest, ManyRanksThatConnectLaterGoAroundToo) {
  constexpr size_t kSize = 10;
  std::vector<std::vector<float>> sums;
  LinkRanks ring(kSize, LinkKind::kLater);
  EXPECT_THAT(RunAll(ring, kRing, 3, &sums), Each(testing::Property(&Status::ok, true)));
  for (size_t rank = 1; rank < kSize; ++rank) EXPECT_EQ(sums[rank], sums[0]);
  EXPECT_THAT(AlgorithmsTaken(ring.environment()), testing::Contains("all_reduce chain"));
}

TEST(LinkHintsTest, WhereNothingIsPassedOnRingIsOneWarningAndTheSameResult) {
  std::vector<std::vector<float>> usual, sums;
  RankGroup plain(3), asked(3);
  const Ref<Warnings> warnings = Listen(asked.environment());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(RunAll(asked, kRing, 7, &sums), Each(testing::Property(&Status::ok, true)));
  }
  EXPECT_THAT(RunAll(plain, CommunicationImplementation::kAuto, 7, &usual),
              Each(testing::Property(&Status::ok, true)));
  sums[0].resize(usual[0].size());
  EXPECT_EQ(sums[0], usual[0]);
  EXPECT_THAT(warnings->lines(),
              ElementsAre(AllOf(HasSubstr("rank 0: all_reduce asks for the communication RING"),
                                HasSubstr("reach each other's memory"))));
  ASSERT_TRUE(asked.environment().log().SetSink(nullptr).ok());
}

TEST(LinkHintsTest, NcclAndTransportsAreOneWarningEachThatNamesThem) {
  LinkRanks links(2, LinkKind::kTcp);
  const Ref<Warnings> warnings = Listen(links.environment());
  for (const auto asked :
       {CommunicationImplementation::kNccl, CommunicationImplementation::kNccl,
        CommunicationImplementation::kTcp, CommunicationImplementation::kSharedMemory}) {
    EXPECT_THAT(links.Run([&](int64_t, Communicator& self) {
      const Ref<Tensor> one = FloatsOf(0, 1);
      return self.AllReduce(*one, ReduceOp::kSum, Hinted(links.Hang(), asked), one.get());
    }),
                Each(testing::Property(&Status::ok, true)));
  }
  EXPECT_THAT(warnings->lines(), testing::SizeIs(6));
  for (const char* name : {"NCCL, which is not used: it reduces between GPUs, and these tensors "
                           "lie on the host",
                           "TCP in one call", "SHARED_MEMORY in one call"}) {
    EXPECT_THAT(warnings->lines(), testing::Contains(HasSubstr(name)).Times(2));
  }
  ASSERT_TRUE(links.environment().log().SetSink(nullptr).ok());
}

// Three tensors of 4, 8 and 4 bytes, in a call per pack.
template <class Group>
std::vector<Status> ReduceThree(Group& group, bool async,
                                const std::vector<CommunicationHints>& of_ranks) {
  return group.Run([&](int64_t rank, Communicator& self) -> Status {
    const CollectiveOptions call(group.Hang(), of_ranks[static_cast<size_t>(rank)]);
    const Ref<Tensor> tensors[] = {FloatsOf(0, 1), FloatsOf(0, 2), FloatsOf(0, 1)};
    const Tensor* inputs[] = {tensors[0].get(), tensors[1].get(), tensors[2].get()};
    Tensor* outputs[] = {tensors[0].get(), tensors[1].get(), tensors[2].get()};
    if (async) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Future> future,
                             self.AllReduceAsync(inputs, ReduceOp::kSum, call, outputs));
      TUTTI_RETURN_IF_ERROR(future->Wait(group.Hang()));
      Ref<Value> nothing;
      TUTTI_RETURN_IF_ERROR(future->GetResult(&nothing));
    } else {
      TUTTI_RETURN_IF_ERROR(self.AllReduce(inputs, ReduceOp::kSum, call, outputs));
    }
    const auto* last = static_cast<const float*>(tensors[2]->data());
    EXPECT_EQ(*last, static_cast<float>(group.size()));
    return OkStatus();
  });
}

TEST(LinkHintsTest, BytesPerPackDecideHowManyCallsAreMade) {
  for (const bool async : {false, true}) {
    for (const auto& [bytes, calls] : {std::pair{0, 1}, {16, 1}, {12, 2}, {8, 3}, {1, 3}}) {
      const CommunicationHints hints{CommunicationImplementation::kAuto, bytes};
      RankGroup threads(2);
      EXPECT_THAT(ReduceThree(threads, async, {hints, hints}),
                  Each(testing::Property(&Status::ok, true)));
      EXPECT_EQ(threads[0].sequence(), calls) << bytes;
      EXPECT_EQ(threads[1].sequence(), calls) << bytes;
      LinkRanks links(2, LinkKind::kTcp);
      EXPECT_THAT(ReduceThree(links, async, {hints, hints}),
                  Each(testing::Property(&Status::ok, true)));
      EXPECT_EQ(links[0].sequence(), calls) << bytes;
    }
  }
}

TEST(LinkHintsTest, RanksThatDisagreeGetOneErrorThatNamesBothSides) {
  const CommunicationHints packs{CommunicationImplementation::kAuto, 8};
  const CommunicationHints ring{kRing, 0};
  const auto refused = [](const std::vector<Status>& statuses, const char* first,
                          const char* second) {
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("rank 1: all_reduce #1"), HasSubstr(first), HasSubstr(second),
                        HasSubstr("pass the same communication options on all ranks")));
    }
  };
  for (const bool async : {false, true}) {
    RankGroup threads(2), other_threads(2);
    refused(ReduceThree(threads, async, {{}, packs}), "a bytes_per_pack of 8", "rank 0 one of 0");
    refused(ReduceThree(other_threads, async, {ring, {}}), "AUTO", "rank 0 for RING");
    LinkRanks links(2, LinkKind::kTcp), other_links(3, LinkKind::kTcp);
    refused(ReduceThree(links, async, {{}, packs}), "a bytes_per_pack of 8", "rank 0 one of 0");
    refused(ReduceThree(other_links, async, {ring, {}, {}}), "AUTO", "rank 0 for RING");
  }
  LinkRanks later(9, LinkKind::kLater);
  std::vector<CommunicationHints> of_ranks(9);
  of_ranks[1] = ring;
  refused(ReduceThree(later, false, of_ranks), "RING", "rank 0 for AUTO");
}

TEST(LinkHintsTest, WrongOnesAreRefusedAndTheEpochGoesOn) {
  RankGroup group(1);
  const Ref<Tensor> one = FloatsOf(0, 1);
  const auto all_reduce = [&](const CollectiveOptions& call) {
    return group[0].AllReduce(*one, ReduceOp::kSum, call, one.get());
  };
  Status status = all_reduce(Hinted(group.Hang(), CommunicationImplementation::kAuto, -8));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("all_reduce: bytes_per_pack is -8"));
  status = all_reduce(Hinted(group.Hang(), static_cast<CommunicationImplementation>(9)));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("9 is no implementation"));
  EXPECT_EQ(group[0]
                .AllGatherAsync(*one, 0, Hinted(group.Hang(), CommunicationImplementation::kAuto,
                                                -1))
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(all_reduce(group.Hang()).ok());
}

}  // namespace
}  // namespace tutti
