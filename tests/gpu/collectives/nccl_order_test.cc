// Collectives between GPUs: folds in the order of the ranks, the order of a caller's stream, and
// how ranks that differ are told so before NCCL is called.
#include <atomic>
#include <string>
#include <vector>

#include "core/collective/select/selector.h"
#include "core/tensor/reduce.h"
#include "tests/gpu/collectives/nccl_collectives_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NcclOrder : public NcclCollectives {
 protected:
  // Work of a stream that begins when Open has been called, and then writes a number.
  struct Gate {
    std::atomic<bool> open{false};
    float* at = nullptr;
    float number = 0;
    static int32_t Run(void* data) {
      auto& self = *static_cast<Gate*>(data);
      while (!self.open.load()) std::this_thread::yield();
      *self.at = self.number;
      return 0;
    }
  };
  struct Look {
    const float* at = nullptr;
    float seen = -1;
    static int32_t Run(void* data) {
      auto& self = *static_cast<Look*>(data);
      self.seen = *self.at;
      return 0;
    }
  };
  template <typename Work>
  void Give(const GpuStream& stream, Work* work) {
    ASSERT_EQ(FakeFunction<fake::AddStreamWork>(fake::kAddStreamWork)(
                  reinterpret_cast<void*>(stream.handle()), &Work::Run, work),
              0);
  }
  float* Real(const Tensor& tensor) {
    return static_cast<float*>(
        FakeFunction<fake::RealMemory>(fake::kRealMemory)(tensor.address()));
  }
  // Both ranks' streams hold back until both have called; the numbers that they then write are in
  // the sum, and what is given to the streams afterwards sees it.
  template <typename Group>
  void ExpectOrder(Group& group, const CommunicationHints& hints) {
    Gate gates[2];
    Look looks[2];
    std::atomic<int> called{0};
    EXPECT_ALL_OK(group.Run([&](int64_t rank, Communicator& self) -> Status {
      const auto own = static_cast<size_t>(rank);
      const Ref<Tensor> mine = Floats(rank, {0, 0});
      TUTTI_RETURN_IF_ERROR(StreamOf(*mine)->Wait());
      TUTTI_ASSIGN_OR_RETURN(const Ref<GpuStream> stream,
                             GpuStream::Create(MemoryOf(rank).place()));
      gates[own].at = Real(*mine);
      gates[own].number = static_cast<float>(rank + 1);
      Give(*stream, &gates[own]);
      CollectiveOptions options(group.Hang(), hints);
      options.stream = stream;
      TUTTI_ASSIGN_OR_RETURN(const Ref<Future> future,
                             self.AllReduceAsync(*mine, ReduceOp::kSum, options, mine.get()));
      if (++called == 2) {
        for (Gate& gate : gates) gate.open = true;
      }
      TUTTI_RETURN_IF_ERROR(End(*future, group.Hang()));
      looks[own].at = Real(*mine);
      Give(*stream, &looks[own]);
      TUTTI_RETURN_IF_ERROR(stream->Wait());
      EXPECT_EQ(Read(*mine)[0], 3);
      return OkStatus();
    }));
    EXPECT_EQ(looks[0].seen, 3);
    EXPECT_EQ(looks[1].seen, 3);
  }
};

TEST_F(NcclOrder, FoldsWhatNcclDoesNotByKernelsWithTheHostsBits) {
  for (const char* const build : Builds()) {
    UseNccl(build);
    LinkRanks links(3, LinkKind::kSocketPair);
    const Ref<Lines> lines = Listen(links);
    for (const CollectiveOp op :
         {CollectiveOp::kAllReduce, CollectiveOp::kReduce, CollectiveOp::kReduceScatter}) {
      for (const auto& [dtype, reduction] :
           {std::pair(DType::kInt32, ReduceOp::kBitAnd), std::pair(DType::kInt16, ReduceOp::kSum),
            std::pair(DType::kUint16, ReduceOp::kMax), std::pair(DType::kInt64, ReduceOp::kMean),
            std::pair(DType::kComplex64, ReduceOp::kProd),
            std::pair(DType::kUint8, ReduceOp::kBitXor)}) {
        for (const int64_t rows : {1, 37, 2000}) {
          ExpectReference(links, {.op = op,
                                  .dtype = dtype,
                                  .reduction = reduction,
                                  .root = 1,
                                  .rows = rows,
                                  .columns = 3,
                                  .in_place = rows == 37});
        }
      }
    }
    EXPECT_EQ(CountNccl(), 3);
    EXPECT_THAT(lines->Take(), IsEmpty());
    ASSERT_TRUE(links.environment().log().SetSink(nullptr).ok());
  }
}

TEST_F(NcclOrder, FoldsSeveralTensorsOfWhichOneHasNoFormInNccl) {
  SegmentRanks ranks(3);
  EXPECT_ALL_OK(ranks.Run([&](int64_t rank, Communicator& self) -> Status {
    const Ref<Tensor> floats = Floats(rank, std::vector<float>(5000, static_cast<float>(rank)));
    Ref<Tensor> shorts = Tensor::Create(DType::kInt16, Shape({3})).value();
    for (int16_t& each : shorts->mutable_span<int16_t>()) each = static_cast<int16_t>(rank + 1);
    TUTTI_ASSIGN_OR_RETURN(shorts, CopyToGpu(*shorts, MemoryOf(rank)));
    const Tensor* inputs[] = {floats.get(), shorts.get()};
    Tensor* outputs[] = {floats.get(), shorts.get()};
    TUTTI_RETURN_IF_ERROR(self.AllReduce(inputs, ReduceOp::kSum, ranks.Hang(), outputs));
    EXPECT_EQ(Read(*floats), std::vector<float>(5000, 3));
    EXPECT_EQ(OnHost(*shorts).value()->ContentsToString(), "[6 6 6]");
    return OkStatus();
  }));
  EXPECT_EQ(CountNccl(), 3);
}

TEST_F(NcclOrder, OfAReproducibleJobIsThatOfTheRanks) {
  HierarchicalRanks ranks({"a", "a", "b"},
                          SelectorTable::Reproducible(*SelectorTable::Parse("", "test").value()));
  std::vector<Ref<Tensor>> inputs;
  for (int64_t rank = 0; rank < 3; ++rank) {
    std::vector<float> numbers(3000);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(rank * 7919 + static_cast<int64_t>(i) * 104'729 % 65'521) *
                   (rank == 1 ? 1e-3f : 1.7f);
    }
    inputs.push_back(OnHost(*Floats(rank, numbers)).value());
  }
  const Tensor* const pointers[] = {inputs[0].get(), inputs[1].get(), inputs[2].get()};
  const Ref<Tensor> expected = Reduce(ReduceOp::kSum, pointers).value();
  EXPECT_ALL_OK(ranks.Run([&](int64_t rank, Communicator& self) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> mine,
                           CopyToGpu(*inputs[static_cast<size_t>(rank)], MemoryOf(rank)));
    TUTTI_RETURN_IF_ERROR(self.AllReduce(*mine, ReduceOp::kSum, ranks.Hang(), mine.get()));
    return Read(*mine) == Read(*expected) ? OkStatus() : DataLoss("other bits");
  }));
}

TEST_F(NcclOrder, OfRanksThatDifferIsOneErrorOverEveryTransport) {
  const auto differ = [&](auto& group) {
    EXPECT_ALL_OK(Sum(group));
    std::string first;
    for (const Status& status : group.Run([&](int64_t rank, Communicator& self) {
           const Ref<Tensor> mine = rank == 1 ? Floats(1, {1, 2}) : Floats(rank, {1});
           return self.AllReduce(*mine, ReduceOp::kSum, group.Hang(), mine.get());
         })) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 1: all_reduce #"));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("got float32[2], rank 0 sent float32[1]; dtype and shape must be the "
                            "same on all ranks"));
    }
  };
  for (const LinkKind kind :
       {LinkKind::kSocketPair, LinkKind::kTcp, LinkKind::kRing, LinkKind::kLater,
        LinkKind::kChain}) {
    LinkRanks links(3, kind);
    differ(links);
  }
  SegmentRanks segment(3);
  differ(segment);
  HierarchicalRanks hosts({"a", "a", "b", "b"});
  differ(hosts);
  // In what is done, and with which root.
  SegmentRanks other(2);
  EXPECT_ALL_OK(Sum(other));
  for (const Status& status : other.Run([&](int64_t rank, Communicator& self) {
         const Ref<Tensor> mine = Floats(rank, {1});
         return self.Broadcast(rank, other.Hang(), mine.get());
       })) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("has root 1, rank 0 has root 0"));
  }
  SegmentRanks calls(2);
  EXPECT_ALL_OK(Sum(calls));
  for (const Status& status : calls.Run([&](int64_t rank, Communicator& self) {
         const Ref<Tensor> mine = Floats(rank, {1});
         return rank == 0 ? self.AllReduce(*mine, ReduceOp::kSum, calls.Hang(), mine.get())
                          : self.Broadcast(0, calls.Hang(), mine.get());
       })) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("is broadcast, rank 0 called all_reduce"));
  }
}

TEST_F(NcclOrder, OfACallersStreamHoldsBeforeAndAfterACall) {
  {
    LinkRanks links(2, LinkKind::kSocketPair);
    ExpectOrder(links, {});
    ExpectOrder(links, {.implementation = CommunicationImplementation::kRing});
  }
  RankGroup local(2);
  ExpectOrder(local, {});
  ExpectOrder(local, {.implementation = CommunicationImplementation::kNccl});
}

TEST_F(NcclOrder, OfAnotherDevicesStreamIsRefused) {
  const Ref<GpuStream> other = GpuStream::Create(MemoryOf(2).place()).value();
  const auto expect = [&](const char* sentence, auto call) {
    RankGroup alone(1);
    CollectiveOptions options(alone.Hang());
    options.stream = other;
    const Status status = call(alone[0], options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
  };
  const Ref<Tensor> mine = Floats(0, {1});
  const Ref<Tensor> here = Tensor::Create(DType::kFloat32, Shape({1})).value();
  expect("the stream is one of GPU:2, and the tensors lie on GPU:0; pass one of theirs",
         [&](Communicator& self, const CollectiveOptions& options) {
           return self.AllReduce(*mine, ReduceOp::kSum, options, mine.get());
         });
  for (const bool known : {false, true}) {
    expect("the stream is one of GPU:2, and no tensor of the call lies on a GPU",
           [&](Communicator& self, const CollectiveOptions& options) {
             if (known) {
               EXPECT_TRUE(self.AllReduce(*here, ReduceOp::kSum, CallOptions(), here.get()).ok());
             }
             return self.AllReduce(*here, ReduceOp::kSum, options, here.get());
           });
  }
  expect("and no tensor of the call lies on a GPU",
         [&](Communicator& self, const CollectiveOptions& options) {
           return self.Barrier(options);
         });
  expect("the stream is one of GPU:2", [&](Communicator& self, const CollectiveOptions& options) {
    return End(*self.BroadcastAsync(0, options, mine.get()).value(), CallOptions());
  });
}

}  // namespace
}  // namespace tutti::gpu
