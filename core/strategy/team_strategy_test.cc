// Strategies over several workers: contexts, collectives and reductions, against a reference that
// folds the same tensors in the same order.

#include <algorithm>
#include <limits>
#include <mutex>

#include "core/strategy/team_test_fixture.h"
#include "core/tensor/cast.h"
#include "core/tensor/copy.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

using testing::Each;
using testing::ElementsAre;

class TeamStrategyTest : public testing::TestWithParam<JobSize> {
 protected:
  size_t workers() const { return GetParam().workers; }
  int64_t replicas() const { return GetParam().replicas; }
  int64_t total() const { return static_cast<int64_t>(workers()) * replicas(); }
};

INSTANTIATE_TEST_SUITE_P(Sizes, TeamStrategyTest, testing::ValuesIn(JobSizes()), JobSizeName);

// Numbers that differ between replicas and elements, exact in every dtype.
Ref<Tensor> NumbersOf(int64_t replica, int64_t n, DType dtype) {
  std::vector<double> numbers;
  numbers.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto number = static_cast<double>((replica * 7 + i * 3) % 23);
    numbers.push_back(number - (IsUnsignedInteger(dtype) ? 0 : 9));
  }
  const Ref<Tensor> exact =
      Tensor::FromSpan<double>(Shape({n}), std::span<const double>(numbers)).value();
  return Cast(*exact, dtype).value();
}

// What replicas 0, 1, ... hold.
std::vector<Ref<Tensor>> AllNumbers(int64_t replicas, int64_t n, DType dtype) {
  std::vector<Ref<Tensor>> tensors;
  for (int64_t r = 0; r < replicas; ++r) tensors.push_back(NumbersOf(r, n, dtype));
  return tensors;
}

// In every job of the tests' sizes they fold exactly in every order.
Ref<Tensor> ReferenceFold(ReduceOp op, const std::vector<Ref<Tensor>>& tensors) {
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return Reduce(op, pointers).value();
}

TEST_P(TeamStrategyTest, NumbersReplicasThroughAllWorkers) {
  TestJob job(workers(), replicas());
  job.OnWorkers([&](TestWorker& worker) {
    const Strategy& strategy = *worker.strategy;
    EXPECT_STREQ(strategy.type_name(), "MultiWorkerMirroredStrategy");
    EXPECT_EQ(strategy.num_replicas_in_sync(), total());
    EXPECT_EQ(strategy.num_local_replicas(), static_cast<size_t>(replicas()));
    EXPECT_EQ(strategy.worker(), worker.index);
    EXPECT_EQ(strategy.num_workers(), static_cast<int64_t>(workers()));
    EXPECT_EQ(strategy.team(), worker.team.get());
    const Ref<Value> ids =
        worker
            .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
              EXPECT_EQ(replica.num_replicas(), total());
              EXPECT_EQ(replica.replica_id(),
                        worker.index * replicas() + static_cast<int64_t>(replica.local_replica()));
              return Result<Ref<Value>>(ScalarOf(replica.replica_id()));
            }))
            .value();
    std::vector<std::string> expected;
    for (int64_t i = 0; i < replicas(); ++i) {
      expected.push_back(std::to_string(worker.index * replicas() + i));
    }
    EXPECT_EQ(LocalTexts(worker.strategy, ids), expected);

    const Ref<Function> from_id = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
      return in.Find("replica_id_in_sync_group");
    });
    EXPECT_EQ(
        LocalTexts(worker.strategy, worker.strategy->CreateValues(*from_id, worker.Hang()).value()),
        expected);
  });
}

TEST_P(TeamStrategyTest, AllReduceGivesEveryReplicaTheFoldOfAllOfEveryDType) {
  TestJob job(workers(), replicas());
  const DType dtypes[] = {DType::kInt8,    DType::kInt32,    DType::kInt64,    DType::kUint8,
                          DType::kUint64,  DType::kFloat16,  DType::kBfloat16, DType::kFloat32,
                          DType::kFloat64, DType::kComplex64};
  const ReduceOp ops[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax};
  // A small one, and one that the replicas copy themselves. All read the same inputs and
  // references: under a sanitizer they cost far more than the reductions.
  struct Case {
    ReduceOp op;
    std::vector<Ref<Tensor>> inputs;  // by replica
    Ref<Tensor> expected;
  };
  std::vector<Case> cases;
  for (const DType dtype : dtypes) {
    for (const int64_t n : {int64_t{5}, int64_t{70'001}}) {
      const std::vector<Ref<Tensor>> inputs = AllNumbers(total(), n, dtype);
      for (const ReduceOp op : ops) {
        if (!CheckReducible(op, dtype).ok()) continue;
        cases.push_back({op, inputs, ReferenceFold(op, inputs)});
      }
    }
  }
  job.OnWorkers([&](TestWorker& worker) {
    for (const Case& one : cases) {
      Result<Ref<Value>> result =
          worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
            const Ref<Value> mine =
                Value::OfTensor(one.inputs[static_cast<size_t>(replica.replica_id())]);
            Result<Ref<Value>> sum = replica.AllReduce(one.op, *mine, {});
            if (sum.ok()) {
              EXPECT_TRUE((*sum)->AsTensor()->ContentsEqual(*one.expected))
                  << DTypeName(one.expected->dtype()) << " " << ReduceOpName(one.op) << " "
                  << (*sum)->AsTensor()->ToString() << " instead of " << one.expected->ToString();
            }
            return sum;
          }));
      ASSERT_TRUE(result.ok()) << result.status().ToString();
    }
  });
}

TEST_P(TeamStrategyTest, FloatsAreFoldedWorkerByWorkerToTheSameBitsEverywhere) {
  TestJob job(workers(), replicas());
  constexpr int64_t kCount = 1000;
  const auto numbers = [](int64_t replica) {
    std::vector<float> values;
    for (int64_t i = 0; i < kCount; ++i) {
      values.push_back(1.0f / static_cast<float>(3 + replica * kCount + i));
    }
    return values;
  };
  std::vector<float> expected;
  for (size_t w = 0; w < workers(); ++w) {
    std::vector<float> own = numbers(static_cast<int64_t>(w) * replicas());
    for (int64_t r = 1; r < replicas(); ++r) {
      const std::vector<float> more = numbers(static_cast<int64_t>(w) * replicas() + r);
      for (size_t i = 0; i < own.size(); ++i) own[i] += more[i];
    }
    if (w == 0) {
      expected = own;
    } else {
      for (size_t i = 0; i < own.size(); ++i) expected[i] += own[i];
    }
  }
  for (float& value : expected) value /= static_cast<float>(total());
  job.OnWorkers([&](TestWorker& worker) {
    const Status status =
        worker
            .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              const std::vector<float> mine = numbers(replica.replica_id());
              const Ref<Value> value = Value::OfTensor(
                  Tensor::FromSpan<float>(Shape({kCount}), std::span<const float>(mine)).value());
              TUTTI_ASSIGN_OR_RETURN(const Ref<Value> mean,
                                     replica.AllReduce(ReduceOp::kMean, *value, {}));
              const std::span<const float> got = mean->AsTensor()->span<float>();
              EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin()));
              return mean;
            }))
            .status();
    EXPECT_TRUE(status.ok()) << status.ToString();
  });
}

TEST_P(TeamStrategyTest, HalvesAreRoundedOnceAtTheEnd) {
  TestJob job(workers(), replicas());
  // 2048 + 1 is 2048 in float16: rounded at every step the ones would be lost.
  job.OnWorkers([&](TestWorker& worker) {
    worker
        .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
          const Ref<Tensor> mine =
              Cast(*Tensor::Vector<float>({replica.replica_id() == 0 ? 2048.0f : 1.0f}),
                   DType::kFloat16)
                  .value();
          const Ref<Tensor> exact =
              Tensor::Vector<float>({2048.0f + static_cast<float>(total() - 1)});
          Result<Ref<Value>> sum = replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(mine), {});
          EXPECT_TRUE(sum.ok()) << sum.status().ToString();
          EXPECT_TRUE((*sum)->AsTensor()->ContentsEqual(*Cast(*exact, DType::kFloat16).value()));
          return sum;
        }))
        .value();
  });
}

TEST_P(TeamStrategyTest, IntegerMeansAreExactWhereSumsWouldWrap) {
  TestJob job(workers(), replicas());
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max() - 6;
  constexpr uint64_t kLargest = std::numeric_limits<uint64_t>::max();
  job.OnWorkers([&](TestWorker& worker) {
    worker
        .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
          const Ref<Value> mine =
              Value::Tuple({VectorOf<int64_t>({kLarge, -kLarge, -7}),
                            VectorOf<uint64_t>({kLargest}), VectorOf<int8_t>({127, -128})});
          Result<Ref<Value>> mean = replica.AllReduce(ReduceOp::kMean, *mine, {});
          EXPECT_TRUE(mean.ok()) << mean.status().ToString();
          EXPECT_TRUE((*mean)->ContentsEqual(*mine)) << (*mean)->ToString();
          return mean;
        }))
        .value();
  });
}

TEST_P(TeamStrategyTest, AllGatherJoinsInTheOrderOfAllReplicasWhateverTheirSizes) {
  TestJob job(workers(), replicas());
  std::string expected = "[";
  for (int64_t r = 0; r < total(); ++r) {
    for (int64_t i = 0; i < r % 3; ++i) expected += Format("{}{}", expected == "[" ? "" : " ", r);
  }
  expected += "]";
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<Value> joined =
        worker
            .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              const std::vector<int64_t> mine(static_cast<size_t>(replica.replica_id() % 3),
                                              replica.replica_id());
              return replica.AllGather(
                  *Value::OfTensor(
                      Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(mine.size())}),
                                                std::span<const int64_t>(mine))
                          .value()),
                  0, {});
            }))
            .value();
    const Ref<Value> local = worker.strategy->LocalResults(*joined).value();
    EXPECT_EQ(local->num_children(), static_cast<size_t>(replicas()));
    for (const Ref<Value>& value : local->AllChildren()) {
      EXPECT_EQ(value->AsTensor()->ContentsToString(100), expected);
    }
  });
}

TEST_P(TeamStrategyTest, MergeFunctionsRunOncePerWorkerAndMayReduceOverAll) {
  TestJob job(workers(), replicas());
  static const char identity = 0;
  job.OnWorkers([&](TestWorker& worker) {
    std::atomic<int> calls{0};
    const Ref<Function> merge = Fn([&](Context& context, const Value& in) -> Result<Ref<Value>> {
      ++calls;
      TUTTI_ASSIGN_OR_RETURN(const Ref<Value> part, in.At(0));
      return context.strategy()->Reduce(ReduceOp::kSum, *part, std::nullopt, worker.Hang());
    });
    const Ref<Value> sums =
        worker
            .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
              return replica.MergeCall(*merge, &identity,
                                       Value::Tuple({ScalarOf(replica.replica_id())}).get(), {});
            }))
            .value();
    EXPECT_THAT(LocalTexts(worker.strategy, sums),
                Each(std::to_string(total() * (total() - 1) / 2)));
    EXPECT_EQ(calls, 1);
  });
}

// ---- Values. ----

TEST_P(TeamStrategyTest, ReducesAndGathersWhatRunReturnedOverAllWorkers) {
  TestJob job(workers(), replicas());
  job.OnWorkers([&](TestWorker& worker) {
    // Replica r has r + 1 rows, of the numbers 0 .. r.
    const Ref<Value> rows =
        worker
            .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              std::vector<float> mine;
              for (int64_t i = 0; i <= replica.replica_id(); ++i) {
                mine.push_back(static_cast<float>(i));
              }
              return Value::Dict(
                  {{"rows", Value::OfTensor(
                                Tensor::FromSpan<float>(Shape({static_cast<int64_t>(mine.size())}),
                                                        std::span<const float>(mine))
                                    .value())},
                   {"id", ScalarOf(replica.replica_id())},
                   {"none", Value::None()}});
            }))
            .value();
    float sum = 0;
    float count = 0;
    std::string gathered = "[";
    for (int64_t r = 0; r < total(); ++r) {
      for (int64_t i = 0; i <= r; ++i) {
        sum += static_cast<float>(i);
        count += 1;
        gathered += Format("{}{}", gathered == "[" ? "" : " ", i);
      }
    }
    gathered += "]";
    const CallOptions call = worker.Hang();
    const Ref<Value> just_rows = rows->Find("rows").value();
    EXPECT_EQ(worker.strategy->Reduce(ReduceOp::kMean, *just_rows, 0, call)
                  .value()
                  ->AsTensor()
                  ->item<float>(),
              sum / count);
    EXPECT_EQ(worker.strategy->Reduce(ReduceOp::kSum, *just_rows, -1, call)
                  .value()
                  ->AsTensor()
                  ->item<float>(),
              sum);
    EXPECT_EQ(
        worker.strategy->Gather(*just_rows, 0, call).value()->AsTensor()->ContentsToString(100),
        gathered);
    const Ref<Value> id = rows->Find("id").value();
    const Ref<Value> both = Value::Tuple({id, rows->Find("none").value()});
    EXPECT_EQ(
        worker.strategy->Reduce(ReduceOp::kSum, *both, std::nullopt, call).value()->ToString(),
        Format("({}, None)", total() * (total() - 1) / 2));
    EXPECT_EQ(worker.strategy->Reduce(ReduceOp::kMean, *id, std::nullopt, call).value()->ToString(),
              std::to_string((total() - 1) / 2));
    EXPECT_EQ(worker.strategy->LocalResults(*id).value()->num_children(),
              static_cast<size_t>(replicas()));
  });
}

// ---- Making. ----

TEST(MakeTeamStrategy, AWorkerWithoutATeamIsAlone) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<DeviceSet> devices = DeviceSet::Create(8, nullptr).value();
  {
    MultiWorkerOptions options;
    options.num_replicas = 2;
    const Ref<Strategy> strategy =
        Strategy::CreateMultiWorkerMirrored(environment, *devices, options, {}).value();
    EXPECT_EQ(strategy->num_replicas_in_sync(), 2);
    EXPECT_EQ(strategy->num_workers(), 1);
    EXPECT_EQ(strategy->team(), nullptr);
    const Ref<Value> sum =
        strategy
            ->Run(*ReplicaFn([](ReplicaContext& replica, const Value&) {
              return replica.AllReduce(ReduceOp::kSum, *ScalarOf(replica.replica_id() + 1), {});
            }),
                  nullptr, {})
            .value();
    EXPECT_EQ(sum->ToString(), "PerReplica:{0: 3, 1: 3}");
    ASSERT_TRUE(strategy->Close({}).ok());
  }
  EXPECT_TRUE(environment->Shutdown({}).ok());
}

TEST(MakeTeamStrategy, UnequalNumbersOfReplicasAreAnErrorOnAllWorkers) {
  TestJob job(3, std::vector<int64_t>{2, 2, 1});
  job.OnWorkers([](TestWorker& worker) {
    EXPECT_TRUE(Fails(worker.Make(worker.index == 2 ? 1 : 2).status(), StatusCode::kInvalidArgument,
                      {"equally many replicas", "worker 0", "has 2", "worker 2", "has 1"}));
  });
}

TEST(MakeTeamStrategy, ADeviceThatAWorkerDoesNotHaveIsAnErrorOnAllWorkers) {
  TestJob job(2, std::vector<int64_t>{1, 1});
  job.OnWorkers([](TestWorker& worker) {
    MultiWorkerOptions options;
    options.team = worker.team;
    options.devices = {worker.index == 1 ? "GPU:0" : "CPU:0"};
    EXPECT_TRUE(Fails(Strategy::CreateMultiWorkerMirrored(worker.environment, *worker.devices,
                                                          options, worker.Hang())
                          .status(),
                      StatusCode::kInvalidArgument, {"worker 1", "GPU:0"}));
  });
}

TEST(MakeTeamStrategy, OneWorkerReducesInPacksToo) {
  for (const auto& [bytes_per_pack, packs] : {std::pair{0, 1}, std::pair{8, 2}, std::pair{1, 3}}) {
    CommunicationOptions communication;
    communication.bytes_per_pack = bytes_per_pack;
    TestJob job(1, 2, /*reproducible=*/-1, communication);
    const Ref<Value> three = Value::Tuple({ScalarOf(1), ScalarOf(2), ScalarOf(3)});
    EXPECT_THAT(LocalTexts(job[0].strategy,
                           job[0]
                               .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
                                 return replica.AllReduce(ReduceOp::kSum, *three, {});
                               }))
                               .value()),
                ElementsAre("(2, 4, 6)", "(2, 4, 6)"));
    int calls = 0;
    for (const FlightEvent& event : job[0].environment->recorder().Snapshot()) {
      calls += event.phase == FlightPhase::kBegin && event.type->name == std::string("all_reduce");
    }
    EXPECT_EQ(calls, 2 * packs) << "of " << bytes_per_pack << " bytes";
  }
}

// The all_reduces that this process has begun.
int AllReducesOf(const TestWorker& worker) {
  int calls = 0;
  for (const FlightEvent& event : worker.environment->recorder().Snapshot()) {
    calls += event.phase == FlightPhase::kBegin && event.type->name == std::string("all_reduce");
  }
  return calls;
}

TEST(TeamHints, ThoseOfACallGoBeforeTheStrategys) {
  for (const size_t num_workers : {1u, 2u}) {
    CommunicationOptions communication;
    communication.bytes_per_pack = 1 << 20;
    TestJob job(num_workers, 2, /*reproducible=*/-1, communication);
    job.OnWorkers([&](TestWorker& worker) {
      const Ref<Value> three = Value::Tuple({ScalarOf(1), ScalarOf(2), ScalarOf(3)});
      const auto calls_with = [&](int64_t bytes_per_pack) {
        const int before = AllReducesOf(worker);
        CollectiveOptions call;
        call.hints.bytes_per_pack = bytes_per_pack;
        EXPECT_TRUE(worker
                        .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
                          return replica.AllReduce(ReduceOp::kSum, *three, call);
                        }))
                        .ok());
        return AllReducesOf(worker) - before;
      };
      const int together = calls_with(0);
      // Of four bytes each; over workers the labels are a tensor more, and the run begins alike.
      EXPECT_GE(calls_with(1) - together, 2) << num_workers;
      EXPECT_EQ(calls_with(0), together);
    });
  }
}

TEST(TeamHints, ReplicasAndWorkersThatDisagreeAreNamed) {
  for (const bool workers : {false, true}) {
    TestJob job(2, 2);
    job.OnWorkers([&](TestWorker& worker) {
      const Result<Ref<Value>> result =
          worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
            const int64_t number = workers ? worker.index : replica.replica_id() % 2;
            CollectiveOptions call;
            call.hints.bytes_per_pack = 8 * number;
            return replica.AllReduce(ReduceOp::kSum, *ScalarOf(1), call);
          }));
      EXPECT_FALSE(result.ok());
      EXPECT_THAT(std::string(result.status().message()),
                  testing::HasSubstr("pass the same communication options on all "));
    });
  }
}

TEST(TeamHints, AReductionInOneProcessSaysOnceThatNothingIsPassedOn) {
  class Lines final : public LogSink {
   public:
    void Write(const LogRecord& record) override { warnings.emplace_back(record.message); }
    std::vector<std::string> warnings;
  };
  TestJob job(1, 2);
  const Ref<Lines> lines = MakeRef<Lines>();
  ASSERT_TRUE(job[0].environment->log().SetSink(lines).ok());
  const Ref<Value> values = job[0]
                                .Run(ReplicaFn([&](ReplicaContext&, const Value&) {
                                  return Result<Ref<Value>>(ScalarOf(1));
                                }))
                                .value();
  CollectiveOptions call;
  call.hints.implementation = CommunicationImplementation::kRing;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(job[0].strategy->Reduce(ReduceOp::kSum, *values, std::nullopt, call).ok());
  }
  EXPECT_THAT(lines->warnings, ElementsAre(testing::AllOf(testing::HasSubstr("reduce asks for the"),
                                                          testing::HasSubstr("RING"))));
  call.hints.bytes_per_pack = -1;
  EXPECT_TRUE(Fails(job[0].strategy->Reduce(ReduceOp::kSum, *values, std::nullopt, call).status(),
                    StatusCode::kInvalidArgument, {"reduce: bytes_per_pack is -1"}));
  ASSERT_TRUE(job[0].environment->log().SetSink(nullptr).ok());
}

TEST(MakeTeamStrategy, WhoAsksForNcclIsToldOnceWhatTakesItsPlace) {
  class Lines final : public LogSink {
   public:
    void Write(const LogRecord& record) override {
      if (record.level == LogLevel::kWarning) warnings.emplace_back(record.message);
    }
    std::vector<std::string> warnings;
  };
  TestJob job(2, std::vector<int64_t>{1, 1});
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Lines> lines = MakeRef<Lines>();
    ASSERT_TRUE(worker.environment->log().SetSink(lines).ok());
    for (const auto implementation :
         {CommunicationImplementation::kNccl, CommunicationImplementation::kRing,
          CommunicationImplementation::kAuto}) {
      CommunicationOptions communication;
      communication.implementation = implementation;
      const Ref<Strategy> strategy = worker.Make(1, communication).value();
      EXPECT_TRUE(strategy->Close(worker.Hang()).ok());
    }
    ASSERT_TRUE(worker.environment->log().SetSink(nullptr).ok());
    EXPECT_THAT(lines->warnings,
                ElementsAre(testing::AllOf(
                    testing::HasSubstr(Format("worker {} asks for the communication NCCL",
                                              worker.index)),
                    testing::HasSubstr("the library's own collectives"),
                    testing::HasSubstr("Ask for AUTO"))));
  });
}

TEST(MakeTeamStrategy, SeveralStrategiesOfOneTeamDoNotMix) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Strategy> other = worker.Make(3).value();
    const Ref<Function> count = ReplicaFn([](ReplicaContext& replica, const Value&) {
      return replica.AllReduce(ReduceOp::kSum, *ScalarOf(1), {});
    });
    for (int i = 0; i < 5; ++i) {
      EXPECT_THAT(LocalTexts(worker.strategy, worker.Run(count).value()), ElementsAre("4", "4"));
      EXPECT_THAT(LocalTexts(other, other->Run(*count, nullptr, worker.Hang()).value()),
                  ElementsAre("6", "6", "6"));
    }
    EXPECT_TRUE(other->Close(worker.Hang()).ok());
  });
}

}  // namespace
}  // namespace tutti
