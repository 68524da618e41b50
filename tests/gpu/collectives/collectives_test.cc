// Collectives of tensors on GPUs: from GPU to GPU within a process, through pinned memory between
// processes; the bits are those of the host's tensors.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/collective/communicator/bucket_plan.h"
#include "core/collective/communicator/future.h"
#include "core/collective/testing/hierarchical_ranks_testing.h"
#include "core/collective/testing/link_ranks.h"
#include "tests/gpu/collectives/collectives_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(GpuCollectives, OfOneProcessGoFromGpuToGpuWithTheHostsBits) {
  for (const size_t size : {1, 4}) {
    RankGroup group(size);
    const Ref<Lines> lines = MakeRef<Lines>();
    ASSERT_TRUE(group.environment().log().SetSink(lines).ok());
    ExpectAllOperations(group);
    // Only the transfer goes by way of the host; of one rank there is none.
    for (const std::string& line : lines->Take()) {
      EXPECT_THAT(line, HasSubstr("NCCL is not used: a transfer is one of two ranks"));
    }
    ASSERT_TRUE(group.environment().log().SetSink(nullptr).ok());
  }
}

// The kernels' own test has all of them.
TEST_F(GpuCollectives, FoldDTypesOfEveryKindAsTheHostDoes) {
  RankGroup group(3);
  for (const auto& [dtype, reduction] :
       {std::pair(DType::kFloat16, ReduceOp::kSum), std::pair(DType::kBfloat16, ReduceOp::kMean),
        std::pair(DType::kBool, ReduceOp::kMin), std::pair(DType::kInt64, ReduceOp::kMean),
        std::pair(DType::kComplex64, ReduceOp::kProd), std::pair(DType::kUint8, ReduceOp::kBitXor),
        std::pair(DType::kInt16, ReduceOp::kMax)}) {
    ExpectReference(group, {.op = CollectiveOp::kAllReduce,
                            .dtype = dtype,
                            .reduction = reduction,
                            .rows = 7,
                            .columns = 5,
                            .in_place = reduction == ReduceOp::kMean});
  }
}

TEST_F(GpuCollectives, BetweenProcessesGoThroughPinnedMemoryAndSayWhyOnce) {
  LinkRanks links(3, LinkKind::kSocketPair);
  links.environment().log().set_level(LogLevel::kWarning);
  const Ref<Lines> lines = MakeRef<Lines>();
  ASSERT_TRUE(links.environment().log().SetSink(lines).ok());
  ExpectAllOperations(links);
  const std::multiset<std::string> written = lines->Take();
  EXPECT_EQ(written.size(), 3u);
  for (const std::string& line : written) {
    EXPECT_THAT(line, AllOf(HasSubstr("communicator group, rank "),
                            HasSubstr("goes through pinned memory of the host, to the same "
                                      "results: NCCL is not used: ")));
  }
  ASSERT_TRUE(links.environment().log().SetSink(nullptr).ok());
  // Which fold host by host: numbers that every order adds up to the same.
  HierarchicalRanks hosts({"a", "a", "b"});
  ExpectAllOperations(hosts, DType::kInt32);
}

TEST_F(GpuCollectives, AreAsynchronousAndInBuckets) {
  RankGroup group(2);
  for (const Status& status : group.Run([&](int64_t rank, Communicator& self) -> Status {
         const Ref<Tensor> first = Floats(rank, {1, 2});
         const Ref<Tensor> second = Floats(rank, {3, static_cast<float>(rank)});
         TUTTI_ASSIGN_OR_RETURN(const Ref<Future> sum, self.AllReduceAsync(*first, ReduceOp::kSum,
                                                                           group.Hang(),
                                                                           first.get()));
         TUTTI_ASSIGN_OR_RETURN(const Ref<Future> joined,
                                self.AllGatherAsync(*second, 0, group.Hang()));
         Ref<Value> value;
         TUTTI_RETURN_IF_ERROR(joined->Wait(group.Hang()));
         TUTTI_RETURN_IF_ERROR(joined->GetResult(&value));
         EXPECT_EQ(value->leaf(0).tensor().device(), first->device());
         EXPECT_EQ(Read(value->leaf(0).tensor()), (std::vector<float>{3, 0, 3, 1}));
         TUTTI_RETURN_IF_ERROR(sum->Wait(group.Hang()));
         EXPECT_EQ(Read(*first), (std::vector<float>{2, 4}));

         const Tensor* like[] = {first.get(), second.get()};
         TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan,
                                BucketPlan::CreateLike(Ref<Communicator>::Retain(&self), like,
                                                       ReduceOp::kMean, 0));
         const Ref<Tensor> given[] = {first, second};
         for (size_t i = 0; i < 2; ++i) {
           TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> gradient, plan->GetTensor(i));
           EXPECT_EQ(gradient->device(), first->device());
           TUTTI_RETURN_IF_ERROR(CopyAnywhere(*given[i], gradient.get()));
           TUTTI_RETURN_IF_ERROR(plan->Ready(i));
         }
         TUTTI_RETURN_IF_ERROR(plan->Wait(group.Hang()));
         EXPECT_EQ(Read(*plan->GetTensor(0).value()), (std::vector<float>{2, 4}));
         EXPECT_EQ(Read(*plan->GetTensor(1).value()), (std::vector<float>{3, 0.5}));
         return OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

// Of ranks that differ in where their tensors lie.
template <typename Group>
std::vector<Status> ReduceMixed(Group& group, GpuMemory& memory) {
  return group.Run([&](int64_t rank, Communicator& self) {
    const Ref<Tensor> tensor = rank == 0 ? Tensor::Create(DType::kFloat32, Shape({4})).value()
                                         : memory.Create(DType::kFloat32, Shape({4}), true).value();
    return self.AllReduce(*tensor, ReduceOp::kSum, group.Hang(), tensor.get());
  });
}

TEST_F(GpuCollectives, OfTheHostAndOfGpusInOneCallAreOneErrorOnAllRanks) {
  const char* const sentence =
      "rank 1: all_reduce #1 got tensors on a GPU, rank 0 on the host; let the tensors of a call "
      "lie on GPUs on all ranks, or on the host on all (copy_to)";
  RankGroup local(2);
  LinkRanks links(2, LinkKind::kSocketPair);
  HierarchicalRanks hosts({"a", "a", "b", "b"});
  for (const std::vector<Status>& statuses :
       {ReduceMixed(local, MemoryOf(0)), ReduceMixed(links, MemoryOf(1)),
        ReduceMixed(hosts, MemoryOf(2))}) {
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
    }
  }
}

TEST_F(GpuCollectives, RefuseTensorsOfSeveralDevicesInOneCall) {
  RankGroup group(1);
  const Ref<Tensor> first = Floats(0, {1});
  const Ref<Tensor> second = Floats(1, {1});
  const Status refused =
      group[0].AllReduce(*first, ReduceOp::kSum, group.Hang(), second.get());
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("rank 0: all_reduce #1: the tensor float32[1] lies on GPU:1, and the "
                        "tensor float32[1] of the same call on GPU:0; the tensors of a rank's call "
                        "lie on one device (copy_to)"));
  RankGroup closed(1);
  ASSERT_TRUE(closed[0].Close(closed.Hang()).ok());
  EXPECT_THAT(std::string(closed[0].Barrier(closed.Hang()).message()), HasSubstr("after close"));
}

TEST_F(GpuCollectives, EndWhenAPeerDoesNotCome) {
  RankGroup group(2);
  const Ref<Tensor> alone = Floats(0, {1, 2});
  const Status late = group[0].AllReduce(*alone, ReduceOp::kSum, group.Timeout(20'000'000),
                                         alone.get());
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.ToString();
  EXPECT_EQ(Read(*alone), (std::vector<float>{1, 2}));
  EXPECT_EQ(group[1].AllReduce(*alone, ReduceOp::kSum, group.Hang(), alone.get()).code(),
            StatusCode::kDeadlineExceeded);
}

// A result that has no memory ends the epoch for all ranks; nobody waits for it.
TEST_F(GpuCollectives, FailOnAllRanksWhenOneGpuIsFull) {
  RankGroup group(2);
  bool failed = false;
  for (const Status& status : group.Run([&](int64_t, Communicator& self) {
         const Ref<Tensor> input =
             MemoryOf(0).Create(DType::kFloat32, Shape({int64_t{5} << 20}), false).value();
         Ref<Tensor> output;
         return self.AllGather(*input, 0, group.Hang(), &output);
       })) {
    failed = failed || status.code() == StatusCode::kResourceExhausted;
  }
  EXPECT_TRUE(failed);
  EXPECT_EQ(group[0].epoch_status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tutti::gpu
