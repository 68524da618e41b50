// Variables over several workers: one value everywhere, whatever the workers bring.

#include "core/strategy/team_test_fixture.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

class TeamVariableTest : public testing::TestWithParam<JobSize> {
 protected:
  int64_t total() const { return static_cast<int64_t>(GetParam().workers) * GetParam().replicas; }

  // Each replica writes; then the copies of all workers must hold `expected`.
  void ExpectAfterUpdate(Aggregation aggregation, bool assign, const Ref<Tensor>& initial,
                         const std::function<Ref<Tensor>(int64_t)>& delta,
                         const Ref<Tensor>& expected) {
    TestJob job(GetParam().workers, GetParam().replicas);
    job.OnWorkers([&](TestWorker& worker) {
      const Ref<Variable> variable = worker.MakeVariable(initial, aggregation);
      const Status status =
          worker
              .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const Ref<Tensor> mine = delta(replica.replica_id());
                TUTTI_RETURN_IF_ERROR(assign ? variable->Assign(&replica, *mine, {})
                                             : variable->AssignAdd(&replica, *mine, {}));
                EXPECT_TRUE(variable->Read(&replica, {}).value()->ContentsEqual(*expected));
                return Value::None();
              }))
              .status();
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (size_t i = 0; i < variable->num_copies(); ++i) {
        EXPECT_TRUE(variable->copy(i).ContentsEqual(*expected))
            << variable->copy(i).ToString() << " instead of " << expected->ToString();
      }
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Sizes, TeamVariableTest, testing::ValuesIn(JobSizes()), JobSizeName);

Ref<Tensor> Filled(int64_t n, float value) {
  const std::vector<float> values(static_cast<size_t>(n), value);
  return Tensor::FromSpan<float>(Shape({n}), std::span<const float>(values)).value();
}

TEST_P(TeamVariableTest, EveryWorkerStartsWithTheValueOfWorkerZero) {
  TestJob job(GetParam().workers, GetParam().replicas);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<Variable> variable = worker.MakeVariable(
        Tensor::Vector<float>({static_cast<float>(worker.index) + 7, 1}), Aggregation::kSum);
    ASSERT_EQ(variable->num_copies(), static_cast<size_t>(GetParam().replicas));
    for (size_t i = 0; i < variable->num_copies(); ++i) {
      EXPECT_EQ(variable->copy(i).ContentsToString(), "[7 1]");
      EXPECT_EQ(variable->copy_name(i), i == 0 ? "w" : Format("w/replica_{}", i));
    }
  });
}

TEST_P(TeamVariableTest, UpdatesAreFoldedOverAllReplicas) {
  const auto n = static_cast<float>(total());
  // A small one, and one whose copies are written by their replicas.
  for (const int64_t count : {int64_t{3}, int64_t{50'000}}) {
    const auto delta = [&](int64_t replica) {
      return Filled(count, static_cast<float>(replica + 1));
    };
    const float sum = n * (n + 1) / 2;
    ExpectAfterUpdate(Aggregation::kSum, false, Filled(count, 10), delta, Filled(count, 10 + sum));
    ExpectAfterUpdate(Aggregation::kSum, true, Filled(count, 10), delta, Filled(count, sum));
    ExpectAfterUpdate(Aggregation::kMean, false, Filled(count, 10), delta,
                      Filled(count, 10 + sum / n));
    ExpectAfterUpdate(Aggregation::kOnlyFirstReplica, false, Filled(count, 10), delta,
                      Filled(count, 11));
  }
}

TEST_P(TeamVariableTest, MeansOfHalvesAndIntegersFollowTheRulesOfOneProcess) {
  const auto half = [](float value) {
    return Cast(*Tensor::Vector<float>({value}), DType::kFloat16).value();
  };
  const float sum = 2048.0f + static_cast<float>(total() - 1);
  ExpectAfterUpdate(
      Aggregation::kSum, true, half(0),
      [&](int64_t replica) { return half(replica == 0 ? 2048.0f : 1.0f); }, half(sum));
  ExpectAfterUpdate(
      Aggregation::kMean, true, Tensor::Vector<int32_t>({0}),
      [&](int64_t replica) {
        return Tensor::Vector<int32_t>({replica == 0 ? -static_cast<int32_t>(2 * total() - 1) : 0});
      },
      Tensor::Vector<int32_t>({-1}));
}

TEST_P(TeamVariableTest, OnReadVariablesAreAggregatedOverAllWorkersWhenRead) {
  TestJob job(GetParam().workers, GetParam().replicas);
  const int64_t n = total();
  job.OnWorkers([&](TestWorker& worker) {
    const auto check = [&](Aggregation aggregation, float expected) {
      const Ref<Variable> variable = worker.MakeVariable(
          Tensor::Scalar<float>(0), aggregation, Synchronization::kOnRead);
      worker
          .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            const auto mine = static_cast<float>(replica.replica_id() + 1);
            TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *Tensor::Scalar(mine), {}));
            EXPECT_EQ(variable->Read(&replica, {}).value()->item<float>(), mine);
            return Value::None();
          }))
          .value();
      EXPECT_EQ(variable->Read(nullptr, worker.Hang()).value()->item<float>(), expected)
          << AggregationName(aggregation);
      return variable;
    };
    const auto count = static_cast<float>(n);
    const Ref<Variable> sum = check(Aggregation::kSum, count * (count + 1) / 2);
    check(Aggregation::kMean, (count + 1) / 2);
    check(Aggregation::kOnlyFirstReplica, 1);

    // Assigning from outside deals a SUM out to all replicas, so that reading gives it again.
    ASSERT_TRUE(sum->Assign(nullptr, *Tensor::Scalar(3 * count), worker.Hang()).ok());
    EXPECT_EQ(sum->copy(0).item<float>(), 3.0f);
    EXPECT_EQ(sum->Read(nullptr, worker.Hang()).value()->item<float>(), 3 * count);
  });
}

TEST(TeamVariables, DifferentVariablesAreAnErrorOnAllWorkersThatNamesBoth) {
  TestJob job(3, 2);
  job.OnWorkers([](TestWorker& worker) {
    const bool odd = worker.index == 2;
    const auto create = [&](const Ref<Tensor>& initial, const char* name,
                            Aggregation aggregation) {
      VariableOptions options;
      options.name = name;
      options.aggregation = aggregation;
      return Variable::Create(worker.strategy, *initial, options, worker.Hang()).status();
    };
    const Ref<Tensor> two = Tensor::Vector<float>({1, 2});
    const Ref<Tensor> three = Tensor::Vector<float>({1, 2, 3});
    EXPECT_TRUE(Fails(create(odd ? three : two, "w", Aggregation::kSum),
                      StatusCode::kInvalidArgument,
                      {"worker 0", "float32[2]", "worker 2", "float32[3]"}));
    EXPECT_TRUE(Fails(create(two, odd ? "v" : "w", Aggregation::kSum),
                      StatusCode::kInvalidArgument, {"worker 0", "'w'", "worker 2", "'v'"}));
    EXPECT_TRUE(Fails(create(two, "w", odd ? Aggregation::kMean : Aggregation::kSum),
                      StatusCode::kInvalidArgument, {"SUM", "worker 2", "MEAN"}));
    // What one worker may not make, nobody makes.
    EXPECT_TRUE(Fails(create(odd ? Tensor::Bytes("x") : two, "w", Aggregation::kSum),
                      StatusCode::kInvalidArgument, {"worker 2", "bytes[]"}));
    // The strategy goes on.
    EXPECT_TRUE(create(two, "w", Aggregation::kSum).ok());
  });
}

TEST(TeamVariables, TheCopiesOfAWorkerStayEqualWhenARunFails) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Variable> variable =
        worker.MakeVariable(Tensor::Vector<float>({0, 0}), Aggregation::kSum);
    for (int64_t failing = 0; failing < 4; ++failing) {
      const Status status =
          worker
              .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                for (int i = 0; i < 5; ++i) {
                  if (replica.replica_id() == failing && i == 3) {
                    return Status(StatusCode::kDataLoss, "no luck");
                  }
                  TUTTI_RETURN_IF_ERROR(
                      variable->AssignAdd(&replica, *Tensor::Vector<float>({1, 2}), {}));
                }
                return Value::None();
              }))
              .status();
      EXPECT_FALSE(status.ok());
      EXPECT_TRUE(variable->copy(0).ContentsEqual(variable->copy(1)));
      EXPECT_EQ(variable->copy(0).item<float>(), static_cast<float>(12 * (failing + 1)));
    }
  });
}

TEST_P(TeamVariableTest, ReplicasOfAllWorkersMakeOneVariable) {
  TestJob job(GetParam().workers, GetParam().replicas);
  job.OnWorkers([&](TestWorker& worker) {
    const Result<Ref<Value>> made =
        worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          VariableOptions options;
          options.aggregation = Aggregation::kSum;
          const auto number = static_cast<float>(replica.replica_id() + 5);
          TUTTI_ASSIGN_OR_RETURN(
              const Ref<Variable> variable,
              Variable::CreateIn(replica, *Tensor::Scalar(number), options, {}));
          TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *Tensor::Scalar(1.0f), {}));
          EXPECT_EQ(variable->Read(&replica, {}).value()->item<float>(),
                    5.0f + static_cast<float>(total()));
          return Value::None();
        }));
    EXPECT_TRUE(made.ok()) << made.status().ToString();
  });
}

TEST_P(TeamVariableTest, SparseUpdatesAreJoinedOverAllReplicas) {
  const auto n = static_cast<float>(total());
  for (const Aggregation aggregation :
       {Aggregation::kSum, Aggregation::kMean, Aggregation::kOnlyFirstReplica}) {
    TestJob job(GetParam().workers, GetParam().replicas);
    job.OnWorkers([&](TestWorker& worker) {
      const Ref<Variable> table = worker.MakeVariable(Filled(3, 0), aggregation);
      const Result<Ref<Value>> result =
          worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            // As many slices as the replica's number says, all for row 1, and one for row 2.
            const int64_t count = replica.replica_id() + 1;
            IndexedSlices mine;
            mine.values = Filled(count, 1);
            std::vector<int64_t> places(static_cast<size_t>(count), 1);
            places[0] = 2;
            mine.indices =
                Tensor::FromSpan<int64_t>(Shape({count}), std::span<const int64_t>(places)).value();
            TUTTI_RETURN_IF_ERROR(table->Scatter(ScatterOp::kAdd, &replica, mine, {}));
            return Value::None();
          }));
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      const float rest = n * (n - 1) / 2;
      const Ref<Tensor> expected = aggregation == Aggregation::kSum
                                       ? Tensor::Vector<float>({0, rest, n})
                                   : aggregation == Aggregation::kMean
                                       ? Tensor::Vector<float>({0, rest / n, 1})
                                       : Tensor::Vector<float>({0, 0, 1});
      for (size_t i = 0; i < table->num_copies(); ++i) {
        const auto found = table->copy(i).span<float>();
        for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(found[k], expected->span<float>()[k], 1e-5);
      }
    });
  }
}

TEST_P(TeamVariableTest, ByteStringsAreThoseOfWorkerZero) {
  TestJob job(GetParam().workers, GetParam().replicas);
  job.OnWorkers([&](TestWorker& worker) {
    const std::string own = Format("worker {}", worker.index);
    const Ref<Variable> name =
        worker.MakeVariable(Tensor::Bytes(own), Aggregation::kOnlyFirstReplica);
    EXPECT_EQ(name->Read(nullptr, {}).value()->item<BytesView>().text(), "worker 0");
    const Result<Ref<Value>> result =
        worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const std::string text = Format("replica {}", replica.replica_id());
          TUTTI_RETURN_IF_ERROR(name->Assign(&replica, *Tensor::Bytes(text), {}));
          return Value::None();
        }));
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ(name->Read(nullptr, {}).value()->item<BytesView>().text(), "replica 0");
  });
}

TEST_P(TeamVariableTest, AnOpenShapeIsWorkerZerosWhereItsValueIs) {
  TestJob job(GetParam().workers, GetParam().replicas);
  job.OnWorkers([&](TestWorker& worker) {
    for (const Aggregation aggregation : {Aggregation::kOnlyFirstReplica, Aggregation::kSum}) {
      VariableOptions options;
      options.name = "open";
      options.aggregation = aggregation;
      options.shape = PartialShape({-1});
      const Ref<Variable> open =
          Variable::Create(worker.strategy, *Tensor::Vector<float>({1}), options).value();
      const bool sum = aggregation == Aggregation::kSum;
      const Result<Ref<Value>> result =
          worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            // Of the first replica's alone the others' shapes say nothing.
            const Ref<Tensor> own =
                sum || replica.replica_id() == 0 ? Filled(3, 1) : Filled(2, 5);
            TUTTI_RETURN_IF_ERROR(open->Assign(&replica, *own, {}));
            return Value::None();
          }));
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      const Ref<Tensor> expected = Filled(3, sum ? static_cast<float>(total()) : 1.0f);
      EXPECT_EQ(open->Read(nullptr, {}).value()->ToString(), expected->ToString());
    }
  });
}

TEST_P(TeamVariableTest, SlicesAreReducedAndJoinedOverAllWorkers) {
  TestJob job(GetParam().workers, GetParam().replicas);
  job.OnWorkers([&](TestWorker& worker) {
    const Result<Ref<Value>> gradients =
        worker.Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const Ref<Value> mine =
              MakeIndexedSlices(Filled(1, 1),
                                Tensor::Vector<int64_t>({replica.replica_id()}), nullptr)
                  .value();
          TUTTI_ASSIGN_OR_RETURN(const Ref<Value> all,
                                 replica.AllReduce(ReduceOp::kSum, *mine, {}));
          EXPECT_EQ(all->leaf(1).tensor().num_elements(), total());
          return mine;
        }));
    ASSERT_TRUE(gradients.ok()) << gradients.status().ToString();
    const Result<Ref<Value>> sum = worker.strategy->Reduce(ReduceOp::kSum, **gradients,
                                                           std::nullopt, CallOptions());
    ASSERT_TRUE(sum.ok()) << sum.status().ToString();
    for (int64_t i = 0; i < total(); ++i) {
      EXPECT_EQ((*sum)->leaf(1).tensor().span<int64_t>()[static_cast<size_t>(i)], i);
    }
    const Ref<Value> mirrored =
        worker.strategy->CreateMirroredValue(*Value::OfTensor(Filled(1, 0.1f))).value();
    const Result<Ref<Value>> mean = worker.strategy->Reduce(ReduceOp::kMean, *mirrored,
                                                            std::nullopt, CallOptions());
    ASSERT_TRUE(mean.ok()) << mean.status().ToString();
    EXPECT_EQ((*mean)->leaf().tensor().item<float>(), 0.1f);
  });
}

}  // namespace
}  // namespace tutti
