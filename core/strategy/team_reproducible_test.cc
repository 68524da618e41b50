// Reproducible jobs: a strategy's reductions of floats have the bits of a fold in the order of all
// replicas, however these are spread over workers.

#include <array>
#include <thread>

#include "core/base/random.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/replica_order_fold.h"
#include "core/strategy/team_test_fixture.h"
#include "core/tensor/cast.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kReplicas = 4;
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat16, DType::kFloat64,
                             DType::kComplex64};

class TeamReproducibleTest : public testing::TestWithParam<JobSize> {
 protected:
  size_t workers() const { return GetParam().workers; }
  int64_t replicas() const { return GetParam().replicas; }
};

INSTANTIATE_TEST_SUITE_P(Layouts, TeamReproducibleTest,
                         testing::Values(JobSize{1, 4}, JobSize{2, 2}, JobSize{4, 1}),
                         JobSizeName);

// Numbers of both signs and many magnitudes: every order of a fold shows.
Ref<Tensor> NumbersOf(int64_t replica, const Shape& shape, DType dtype) {
  SplitMix64 random(static_cast<uint64_t>(1000 + replica));
  std::vector<double> numbers(static_cast<size_t>(shape.num_elements()));
  for (double& number : numbers) {
    const uint64_t bits = random.Next();
    const auto magnitude = static_cast<double>(int64_t{1} << (bits % 12));
    number = (static_cast<double>(bits >> 11) / 0x1p53 - 0.5) * magnitude;
  }
  const Ref<Tensor> exact =
      Tensor::FromSpan<double>(shape, std::span<const double>(numbers)).value();
  return Cast(*exact, dtype).value();
}

std::vector<Ref<Tensor>> AllNumbers(const Shape& shape, DType dtype) {
  std::vector<Ref<Tensor>> tensors;
  for (int64_t r = 0; r < kReplicas; ++r) tensors.push_back(NumbersOf(r, shape, dtype));
  return tensors;
}

Ref<Tensor> InOrder(ReduceOp op, const std::vector<Ref<Tensor>>& tensors) {
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return Reduce(op, pointers).value();
}

// What all replicas hold of several tensors, and what they fold to.
struct Tensors {
  std::vector<std::vector<Ref<Tensor>>> inputs;  // [tensor][replica]
  std::vector<Ref<Tensor>> expected;

  Ref<Value> Of(int64_t replica) const {
    std::vector<Ref<Value>> values;
    for (const auto& tensor : inputs) {
      values.push_back(Value::OfTensor(tensor[static_cast<size_t>(replica)]));
    }
    return Value::Tuple(values);
  }
  void ExpectIn(const Value& value) const {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(value.leaf(i).tensor().ContentsEqual(*expected[i]))
          << i << ": " << expected[i]->SpecString();
    }
  }
};

Tensors TensorsFor(ReduceOp op, std::span<const int64_t> sizes) {
  Tensors tensors;
  for (const DType dtype : kDTypes) {
    for (const int64_t n : sizes) {
      tensors.inputs.push_back(AllNumbers(Shape({n}), dtype));
      tensors.expected.push_back(InOrder(op, tensors.inputs.back()));
    }
  }
  return tensors;
}

// The replicas' values of this worker.
Ref<Value> PerReplica(const TestWorker& worker, const Tensors& tensors) {
  std::vector<Ref<Value>> values;
  const auto n = static_cast<int64_t>(worker.strategy->num_local_replicas());
  for (int64_t i = 0; i < n; ++i) values.push_back(tensors.Of(worker.index * n + i));
  return worker.strategy->CreatePerReplica(values).value();
}

TEST_P(TeamReproducibleTest, AllReduceFoldsInTheOrderOfAllReplicas) {
  for (const int64_t bytes_per_pack : {int64_t{0}, int64_t{64}}) {
    CommunicationOptions communication;
    communication.bytes_per_pack = bytes_per_pack;
    TestJob job(workers(), replicas(), /*reproducible=*/0, communication);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd}) {
      const Tensors tensors = TensorsFor(op, std::array<int64_t, 5>{0, 1, 5, 1000, 20'001});
      job.OnWorkers([&](TestWorker& worker) {
        const Result<Ref<Value>> result =
            worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
              Result<Ref<Value>> folded =
                  replica.AllReduce(op, *tensors.Of(replica.replica_id()), {});
              if (folded.ok()) tensors.ExpectIn(**folded);
              return folded;
            }));
        EXPECT_TRUE(result.ok()) << result.status().ToString();
      });
    }
  }
}

TEST_P(TeamReproducibleTest, TheWishOfOneWorkerHoldsForAll) {
  const Tensors tensors = TensorsFor(ReduceOp::kSum, std::array<int64_t, 1>{1000});
  TestJob job(workers(), replicas(), /*reproducible=*/static_cast<int64_t>(workers()) - 1);
  job.OnWorkers([&](TestWorker& worker) {
    const auto sum = worker.strategy->Reduce(ReduceOp::kSum, *PerReplica(worker, tensors),
                                             std::nullopt, worker.Hang());
    ASSERT_TRUE(sum.ok()) << sum.status().ToString();
    tensors.ExpectIn(**sum);
  });
}

TEST_P(TeamReproducibleTest, ReduceFoldsInTheOrderOfAllReplicasWithAnAxisAndWithout) {
  TestJob job(workers(), replicas(), /*reproducible=*/0);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    Tensors along;  // rows of 7
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kInt32}) {
      along.inputs.push_back(AllNumbers(Shape({9, 7}), dtype));
      std::vector<const Tensor*> pointers;
      for (const Ref<Tensor>& tensor : along.inputs.back()) pointers.push_back(tensor.get());
      along.expected.push_back(ReduceAcrossReplicas(op, pointers, 0, "test").value());
    }
    const Tensors across = TensorsFor(op, std::array<int64_t, 2>{3, 5000});
    job.OnWorkers([&](TestWorker& worker) {
      const auto first = worker.strategy->Reduce(op, *PerReplica(worker, across), std::nullopt,
                                                 worker.Hang());
      ASSERT_TRUE(first.ok()) << first.status().ToString();
      across.ExpectIn(**first);
      const auto second =
          worker.strategy->Reduce(op, *PerReplica(worker, along), 0, worker.Hang());
      ASSERT_TRUE(second.ok()) << second.status().ToString();
      along.ExpectIn(**second);
    });
  }
}

TEST_P(TeamReproducibleTest, VariablesAreUpdatedAndReadInTheOrderOfAllReplicas) {
  TestJob job(workers(), replicas(), /*reproducible=*/0);
  const std::vector<Ref<Tensor>> deltas = AllNumbers(Shape({1000}), DType::kFloat32);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<Tensor> zero = Tensor::Create(DType::kFloat32, Shape({1000})).value();
    const Ref<Variable> written = worker.MakeVariable(zero, Aggregation::kMean);
    const Ref<Variable> read =
        worker.MakeVariable(zero, Aggregation::kSum, Synchronization::kOnRead);
    const auto result = worker.Run(
        ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const Tensor& mine = *deltas[static_cast<size_t>(replica.replica_id())];
          TUTTI_RETURN_IF_ERROR(written->AssignAdd(&replica, mine, {}));
          TUTTI_RETURN_IF_ERROR(read->Assign(&replica, mine, {}));
          return Value::None();
        }));
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_TRUE(written->Read(nullptr, worker.Hang())
                    .value()
                    ->ContentsEqual(*InOrder(ReduceOp::kMean, deltas)));
    EXPECT_TRUE(read->Read(nullptr, worker.Hang())
                    .value()
                    ->ContentsEqual(*InOrder(ReduceOp::kSum, deltas)));
  });
}

TEST(TeamReproducibleMismatchTest, WorkersThatBringOtherShapesAreToldSo) {
  TestJob job(2, 2, /*reproducible=*/0);
  job.OnWorkers([&](TestWorker& worker) {
    const Shape shape = worker.index == 0 ? Shape({2, 3}) : Shape({3, 2});
    const auto result = worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
      return replica.AllReduce(
          ReduceOp::kSum, *Value::OfTensor(NumbersOf(0, shape, DType::kFloat32)), {});
    }));
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(result.status().message(), testing::HasSubstr("float32[2,3]"));
    EXPECT_THAT(result.status().message(), testing::HasSubstr("float32[3,2]"));
  });
}

// Otherwise the tests above would show nothing.
TEST(TeamReproducibleNeedTest, AnOrdinaryJobFoldsWorkerByWorkerToOtherBits) {
  const Tensors tensors = TensorsFor(ReduceOp::kSum, std::array<int64_t, 1>{1000});
  TestJob job(2, 2);
  job.OnWorkers([&](TestWorker& worker) {
    const auto sum = worker.strategy->Reduce(ReduceOp::kSum, *PerReplica(worker, tensors),
                                             std::nullopt, worker.Hang());
    ASSERT_TRUE(sum.ok()) << sum.status().ToString();
    EXPECT_FALSE((*sum)->leaf(0).tensor().ContentsEqual(*tensors.expected[0]));
  });
}

// ---- The fold itself ----

// What `workers` ranks with `replicas` each fold, slice by slice.
void FoldAndCompare(size_t workers, size_t replicas, size_t slice_bytes) {
  SCOPED_TRACE(Format("{} x {}, slices of {} bytes", workers, replicas, slice_bytes));
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const CallOptions call = CallOptions::WithTimeout(environment->clock(), kHangNs);
  const auto ranks = Communicator::CreateLocal(environment.get(), workers).value();
  const int64_t sizes[] = {0, 7, 1, 100, 0, 33};
  const DType dtypes[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat32,
                          DType::kFloat64, DType::kFloat64,  DType::kFloat32};
  std::vector<std::thread> threads;
  for (size_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      std::vector<ReplicaOrderOperand> operands;
      std::vector<Ref<Tensor>> folded;
      std::vector<Ref<Tensor>> expected;
      for (size_t i = 0; i < std::size(sizes); ++i) {
        ReplicaOrderOperand operand;
        std::vector<Ref<Tensor>> all;
        for (size_t r = 0; r < workers * replicas; ++r) {
          const Ref<Tensor> tensor =
              NumbersOf(static_cast<int64_t>(r), Shape({sizes[i]}), dtypes[i]);
          const bool half = dtypes[i] == DType::kBfloat16;
          all.push_back(half ? Cast(*tensor, DType::kFloat32).value() : tensor);
          if (r / replicas == w) operand.replicas.push_back(tensor);
        }
        expected.push_back(InOrder(ReduceOp::kSum, all));
        folded.push_back(
            Tensor::Create(expected.back()->dtype(), Shape({sizes[i]})).value());
        operand.folded = folded.back().get();
        operands.push_back(std::move(operand));
      }
      const Status status =
          FoldInReplicaOrder(*ranks[w], ReduceOp::kSum, operands, slice_bytes, call);
      EXPECT_TRUE(status.ok()) << status.ToString();
      for (size_t i = 0; i < folded.size(); ++i) {
        EXPECT_TRUE(folded[i]->ContentsEqual(*expected[i])) << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ref<Communicator>& rank : ranks) EXPECT_TRUE(rank->Close(call).ok());
  EXPECT_TRUE(environment->Shutdown(call).ok());
}

TEST(ReplicaOrderFoldTest, EverySliceSizeGivesTheFoldOfAllReplicas) {
  for (const size_t slice_bytes : {size_t{1}, size_t{64}, size_t{200}, kReplicaOrderSliceBytes}) {
    FoldAndCompare(2, 2, slice_bytes);
    FoldAndCompare(3, 3, slice_bytes);
  }
}

}  // namespace
}  // namespace tutti
