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
                      StatusCode::kInvalidArgument, {"worker 2", "byte strings"}));
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

}  // namespace
}  // namespace tutti
