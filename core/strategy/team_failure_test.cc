// What happens when workers fail, go different ways, or die: an error that says who and why on
// every worker, and a fresh start with the next run.

#include <atomic>

#include "core/base/error.h"
#include "core/strategy/team_test_fixture.h"

namespace tutti {
namespace {

using testing::Each;

Result<Ref<Value>> SumOfIds(ReplicaContext& replica) {
  return replica.AllReduce(ReduceOp::kSum, *ScalarOf<int64_t>(replica.replica_id()), {});
}

Ref<Function> SumFn() {
  return ReplicaFn([](ReplicaContext& replica, const Value&) { return SumOfIds(replica); });
}

void ExpectWorks(TestWorker& worker) {
  const Result<Ref<Value>> sum = worker.Run(SumFn());
  ASSERT_TRUE(sum.ok()) << "worker " << worker.index << ": " << sum.status().ToString();
  const int64_t n = worker.strategy->num_replicas_in_sync();
  EXPECT_THAT(LocalTexts(worker.strategy, *sum), Each(std::to_string(n * (n - 1) / 2)));
}

int64_t Detail(const Status& status, const char* key) {
  const StatusDetail* detail = status.FindDetail(key);
  return detail == nullptr ? -1 : std::get<int64_t>(detail->value);
}

// ---- A replica fails. ----

class TeamFailureTest : public testing::TestWithParam<JobSize> {};

INSTANTIATE_TEST_SUITE_P(Sizes, TeamFailureTest, testing::ValuesIn(JobSizes()), JobSizeName);

TEST_P(TeamFailureTest, AnErrorOfOneReplicaEndsTheRunsOfAllWorkersAndNamesIt) {
  const JobSize size = GetParam();
  TestJob job(size.workers, size.replicas);
  const int64_t total = static_cast<int64_t>(size.workers) * size.replicas;
  for (int64_t failing = 0; failing < total; ++failing) {
    job.OnWorkers([&](TestWorker& worker) {
      const Ref<Function> fn =
          ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            TUTTI_RETURN_IF_ERROR(SumOfIds(replica).status());
            if (replica.replica_id() == failing) return Status(StatusCode::kDataLoss, "no luck");
            return SumOfIds(replica);
          });
      const Status status = worker.Run(fn).status();
      const bool own = failing / size.replicas == worker.index;
      EXPECT_TRUE(Fails(status, own ? StatusCode::kDataLoss : StatusCode::kAborted, {"no luck"}));
      EXPECT_EQ(Detail(status, "replica"), failing) << status.ToString();
      if (!own) {
        EXPECT_TRUE(Fails(status, StatusCode::kAborted,
                          {Format("replica {}", failing).c_str(),
                           Format("worker {}", failing / size.replicas).c_str()}));
      }
      ExpectWorks(worker);
    });
  }
}

TEST(TeamFailures, WhatAnAssertionFindsIsTheErrorOfAllWorkers) {
  TestJob job(3, 2);
  job.OnWorkers([](TestWorker& worker) {
    const Status status =
        worker
            .Run(ReplicaFn([](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              TUTTI_RETURN_IF_ERROR(SumOfIds(replica).status());
              if (replica.replica_id() == 3) {
                return InvalidArgument("assert_less: x < y does not hold")
                    .With("assertion", std::string("assert_less"));
              }
              return SumOfIds(replica);
            }))
            .status();
    EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument, {"assert_less: x < y"}));
    EXPECT_EQ(Detail(status, "replica"), 3) << status.ToString();
    EXPECT_NE(status.FindDetail("assertion"), nullptr) << status.ToString();
    if (worker.index != 1) {
      EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument, {"worker 1", "replica 3"}));
      ASSERT_FALSE(status.causes().empty()) << status.ToString();
      EXPECT_EQ(status.causes()[0].code(), StatusCode::kInvalidArgument);
    }
    ExpectWorks(worker);
  });
}

TEST(TeamFailures, AnErrorBehindTheLastCollectiveEndsTheNextRunOfTheOthers) {
  TestJob job(3, 2);
  job.OnWorkers([](TestWorker& worker) {
    const Status status =
        worker
            .Run(ReplicaFn([](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              TUTTI_ASSIGN_OR_RETURN(Ref<Value> sum, SumOfIds(replica));
              if (replica.replica_id() == 3) return Status(StatusCode::kDataLoss, "no luck");
              return sum;
            }))
            .status();
    if (worker.index == 1) {
      EXPECT_TRUE(Fails(status, StatusCode::kDataLoss, {"no luck"}));
    } else {
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(Fails(worker.Run(SumFn()).status(), StatusCode::kAborted,
                        {"worker 1", "replica 3", "no luck"}));
    }
    ExpectWorks(worker);
  });
}

TEST(TeamFailures, AnErrorThatAReplicaSwallowsIsStillToldToTheOtherWorkers) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    std::atomic<int> failures{0};
    const Status status =
        worker
            .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              // Nobody fails before all workers are in this run.
              TUTTI_RETURN_IF_ERROR(SumOfIds(replica).status());
              // The replicas of worker 1 do not fit together.
              const Ref<Value> mine =
                  replica.replica_id() == 3 ? VectorOf<float>({1, 2}) : VectorOf<float>({1});
              if (!replica.AllReduce(ReduceOp::kSum, *mine, {}).ok()) ++failures;
              return ScalarOf(1);
            }))
            .status();
    EXPECT_EQ(failures, 2);
    EXPECT_TRUE(status.ok()) << status.ToString();
    ExpectWorks(worker);
  });
}

TEST(TeamFailures, ReplicasOfOneWorkerThatDoNotFitTogetherAreNamedOnAllWorkers) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    const Status status = worker
                              .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
                                const Ref<Value> mine = replica.replica_id() == 3
                                                            ? VectorOf<float>({1, 2})
                                                            : VectorOf<float>({1});
                                return replica.AllReduce(ReduceOp::kSum, *mine, {});
                              }))
                              .status();
    EXPECT_TRUE(Fails(status,
                      worker.index == 1 ? StatusCode::kInvalidArgument : StatusCode::kAborted,
                      {"replica 2", "float32[1]", "replica 3", "float32[2]"}));
    ExpectWorks(worker);
  });
}

TEST(TeamFailures, AMergeFunctionThatFailsOnOneWorkerEndsTheRunsOfAllAlsoWhenItIsSwallowed) {
  TestJob job(2, 2);
  static const char identity = 0;
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Function> merge = Fn([&](Context& context, const Value&) -> Result<Ref<Value>> {
      if (worker.index == 1) return DataLoss("nothing to merge");
      const std::vector<Ref<Value>> two = {ScalarOf(1), ScalarOf(2)};
      return context.strategy()->Reduce(ReduceOp::kSum,
                                        *context.strategy()->CreatePerReplica(two).value(),
                                        std::nullopt, worker.Hang());
    });
    const Status status =
        worker
            .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              Result<Ref<Value>> merged = replica.MergeCall(*merge, &identity, nullptr, {});
              EXPECT_FALSE(merged.ok());
              return worker.index == 1 ? Result<Ref<Value>>(Value::None()) : std::move(merged);
            }))
            .status();
    if (worker.index == 1) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    } else {
      EXPECT_TRUE(Fails(status, StatusCode::kAborted, {"worker 1", "nothing to merge"}));
    }
    ExpectWorks(worker);
  });
}

// ---- Workers go different ways. ----

using Act = std::function<Status(TestWorker&, const Ref<Variable>&)>;

Status Update(TestWorker& worker, const Ref<Variable>& variable, bool add) {
  return worker
      .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        const Ref<Tensor> delta = Tensor::Vector<float>({1, 2});
        TUTTI_RETURN_IF_ERROR(add ? variable->AssignAdd(&replica, *delta, {})
                                  : variable->Assign(&replica, *delta, {}));
        return Value::None();
      }))
      .status();
}

Status ReduceInRun(TestWorker& worker, ReduceOp op, const Ref<Value>& value) {
  return worker
      .Run(ReplicaFn(
          [&](ReplicaContext& replica, const Value&) { return replica.AllReduce(op, *value, {}); }))
      .status();
}

Status MergeInRun(TestWorker& worker) {
  static const char identity = 0;
  const Ref<Function> merge =
      Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); });
  return worker
      .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
        return replica.MergeCall(*merge, &identity, nullptr, {});
      }))
      .status();
}

Status GatherInRun(TestWorker& worker) {
  return worker
      .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
        return replica.AllGather(*VectorOf<float>({1, 2}), 0, {});
      }))
      .status();
}

struct Contradiction {
  const char* name;
  Act acts[2];
  std::vector<const char*> parts;  // of the message on both workers
};

std::vector<Contradiction> Contradictions() {
  const Act all_reduce = [](TestWorker& worker, const Ref<Variable>&) {
    return ReduceInRun(worker, ReduceOp::kSum, VectorOf<float>({1, 2}));
  };
  const Act add = [](TestWorker& worker, const Ref<Variable>& variable) {
    return Update(worker, variable, true);
  };
  return {
      // The same dtype, shape and reduction: only the label tells them apart.
      {"AllReduceAndUpdate", {all_reduce, add}, {"all_reduce 'SUM'", "assign_add of variable 'w'"}},
      {"AddAndAssign",
       {add, [](TestWorker& worker,
                const Ref<Variable>& variable) { return Update(worker, variable, false); }},
       {"assign_add of variable 'w'", "assign of variable 'w'"}},
      {"AllReduceAndMerge",
       {all_reduce, [](TestWorker& worker, const Ref<Variable>&) { return MergeInRun(worker); }},
       {"rank 0 sent", "as many on all ranks"}},
      {"MergeAndGather",
       {[](TestWorker& worker, const Ref<Variable>&) { return MergeInRun(worker); },
        [](TestWorker& worker, const Ref<Variable>&) { return GatherInRun(worker); }},
       {"merge_call", "all_gather"}},
      {"AllReduceAndReduceOutside",
       {all_reduce,
        [](TestWorker& worker, const Ref<Variable>&) {
          const std::vector<Ref<Value>> components(worker.strategy->num_local_replicas(),
                                                   VectorOf<float>({1, 2}));
          return worker.strategy
              ->Reduce(ReduceOp::kSum, *worker.strategy->CreatePerReplica(components).value(),
                       std::nullopt, worker.Hang())
              .status();
        }},
       {"all_reduce 'SUM'", "reduce 'SUM'"}},
      {"Shapes",
       {all_reduce,
        [](TestWorker& worker, const Ref<Variable>&) {
          return ReduceInRun(worker, ReduceOp::kSum, VectorOf<float>({1, 2, 3}));
        }},
       {"float32[2]", "float32[3]"}},
      {"DTypes",
       {all_reduce,
        [](TestWorker& worker, const Ref<Variable>&) {
          return ReduceInRun(worker, ReduceOp::kSum, VectorOf<int32_t>({1, 2}));
        }},
       {"float32[2]", "int32[2]"}},
      {"Reductions",
       {all_reduce,
        [](TestWorker& worker, const Ref<Variable>&) {
          return ReduceInRun(worker, ReduceOp::kMax, VectorOf<float>({1, 2}));
        }},
       {"SUM", "MAX"}},
      {"SumAndMean",
       {all_reduce,
        [](TestWorker& worker, const Ref<Variable>&) {
          return ReduceInRun(worker, ReduceOp::kMean, VectorOf<float>({1, 2}));
        }},
       {"all_reduce 'SUM'", "all_reduce 'MEAN'"}},
      {"Structures",
       {[](TestWorker& worker, const Ref<Variable>&) {
          return ReduceInRun(worker, ReduceOp::kSum, Value::Tuple({VectorOf<float>({1})}));
        },
        [](TestWorker& worker, const Ref<Variable>&) {
          return ReduceInRun(worker, ReduceOp::kSum, Value::List({VectorOf<float>({1})}));
        }},
       {"all_reduce 'SUM' of (", "all_reduce 'SUM' of ["}},
  };
}

class DifferentWaysTest : public testing::TestWithParam<Contradiction> {};

INSTANTIATE_TEST_SUITE_P(All, DifferentWaysTest, testing::ValuesIn(Contradictions()),
                         [](const auto& info) { return info.param.name; });

TEST_P(DifferentWaysTest, FailOnAllWorkersNamingBothAndTheVariableStaysAsItWas) {
  for (const int64_t replicas : {1, 2}) {
    for (const size_t workers : {2, 3}) {
      TestJob job(workers, replicas);
      job.OnWorkers([&](TestWorker& worker) {
        const Ref<Variable> variable =
            worker.MakeVariable(Tensor::Vector<float>({5, 6}), Aggregation::kSum);
        // The last worker is the one that is wrong.
        const bool last = worker.index + 1 == static_cast<int64_t>(workers);
        const Status status = GetParam().acts[last ? 1 : 0](worker, variable);
        EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument)) << "worker " << worker.index;
        for (const char* part : GetParam().parts) {
          EXPECT_NE(status.message().find(part), std::string_view::npos)
              << "worker " << worker.index << ": no \"" << part << "\" in " << status.ToString();
        }
        for (size_t i = 0; i < variable->num_copies(); ++i) {
          EXPECT_EQ(variable->copy(i).ContentsToString(), "[5 6]");
        }
        ExpectWorks(worker);
      });
    }
  }
}

// ---- A worker leaves or dies. ----

TEST(TeamFailures, AWorkerThatClosesItsStrategyEndsTheOthersCalls) {
  TestJob job(3, 2);
  job.OnWorkers([](TestWorker& worker) {
    ExpectWorks(worker);
    if (worker.index == 1) {
      EXPECT_TRUE(worker.strategy->Close(worker.Hang()).ok());
      return;
    }
    EXPECT_TRUE(Fails(worker.Run(SumFn()).status(), StatusCode::kUnavailable, {"rank 1", "left"}));
  });
}

TEST(TeamFailures, TheDeathOfAWorkerReachesEverySurvivorAndEveryLaterCall) {
  TestJob job(3, 2);
  const Status death = Unavailable("rank 2 (worker 2, pid 4711) is gone: killed by signal 9")
                           .With("rank", 2)
                           .With("worker", 2);
  std::atomic<int> inside{0};
  job.OnWorkers([&](TestWorker& worker) {
    ExpectWorks(worker);
    if (worker.index == 2) {
      while (inside.load() < 4) std::this_thread::yield();
      job.Fail(death);
      return;
    }
    const Status status = worker
                              .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) {
                                ++inside;
                                return SumOfIds(replica);
                              }))
                              .status();
    EXPECT_TRUE(Fails(status, StatusCode::kUnavailable, {"rank 2", "worker 2", "signal 9"}));
    EXPECT_EQ(Detail(status, "rank"), 2);
    EXPECT_EQ(Detail(status, "worker"), 2);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(Fails(worker.Run(SumFn()).status(), StatusCode::kUnavailable, {"worker 2"}));
    }
    VariableOptions options;
    EXPECT_TRUE(Fails(
        Variable::Create(worker.strategy, *Tensor::Scalar(1.0f), options, worker.Hang()).status(),
        StatusCode::kUnavailable, {"worker 2"}));
  });
}

// ---- Time. ----

TEST(TeamFailures, AWorkerWhoseTimeIsUpEndsTheRunOfAll) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    if (worker.index == 0) {
      const CallOptions soon =
          CallOptions::WithTimeout(worker.environment->clock(), 20 * kMillisecondNs);
      EXPECT_TRUE(Fails(worker.strategy->Run(*SumFn(), nullptr, soon).status(),
                        StatusCode::kDeadlineExceeded));
    }
  });
  // The other comes late: it is told why there is nobody to meet.
  job.OnWorkers([](TestWorker& worker) {
    if (worker.index == 1) {
      EXPECT_FALSE(worker.Run(SumFn()).ok());
    }
    ExpectWorks(worker);
  });
}

// ---- What is refused before it begins. ----

// A call of a strategy that fails on the worker that makes it, and what its error says.
struct RefusedCall {
  const char* name;
  StatusCode code;
  std::function<Status(TestWorker&)> make;
};

std::vector<RefusedCall> RefusedCalls() {
  const auto over = [](const TestWorker& worker) {
    return CallOptions::WithTimeout(worker.environment->clock(), 0);
  };
  // Components of three replicas, where there are two.
  const auto three = [](const TestWorker&) {
    return Regroup(std::vector<Ref<Value>>{ScalarOf(1), ScalarOf(2), ScalarOf(3)},
                   Wrap::kAlways, "test")
        .value();
  };
  const auto two = [](const TestWorker& worker) {
    const std::vector<Ref<Value>> components = {VectorOf<float>({1}), VectorOf<float>({2})};
    return worker.strategy->CreatePerReplica(components).value();
  };
  return {
      {"a run whose time is up", StatusCode::kDeadlineExceeded,
       [=](TestWorker& worker) {
         return worker.strategy->Run(*SumFn(), nullptr, over(worker)).status();
       }},
      {"a run of wrong arguments", StatusCode::kInvalidArgument,
       [=](TestWorker& worker) {
         return worker.strategy->Run(*SumFn(), three(worker).get(), worker.Hang()).status();
       }},
      {"a reduce whose time is up", StatusCode::kDeadlineExceeded,
       [=](TestWorker& worker) {
         return worker.strategy->Reduce(ReduceOp::kSum, *two(worker), std::nullopt, over(worker))
             .status();
       }},
      {"a reduce that there is not", StatusCode::kInvalidArgument,
       [=](TestWorker& worker) {
         return worker.strategy
             ->Reduce(ReduceOp::kMax, *two(worker), std::nullopt, worker.Hang())
             .status();
       }},
      {"a reduce of wrong components", StatusCode::kInvalidArgument,
       [=](TestWorker& worker) {
         return worker.strategy
             ->Reduce(ReduceOp::kSum, *three(worker), std::nullopt, worker.Hang())
             .status();
       }},
      {"a gather whose time is up", StatusCode::kDeadlineExceeded,
       [=](TestWorker& worker) {
         return worker.strategy->Gather(*two(worker), 0, over(worker)).status();
       }},
      {"a gather of wrong components", StatusCode::kInvalidArgument,
       [=](TestWorker& worker) {
         return worker.strategy->Gather(*three(worker), 0, worker.Hang()).status();
       }},
  };
}

TEST(TeamFailures, ACallThatIsRefusedBeforeItBeginsEndsTheRunOfTheOtherWorker) {
  for (const RefusedCall& call : RefusedCalls()) {
    SCOPED_TRACE(call.name);
    TestJob job(2, 2);
    job.OnWorkers([&](TestWorker& worker) {
      // The second time there is no connection, which is made anew to be told by.
      for (int i = 0; i < 2; ++i) {
        if (worker.index == 0) {
          EXPECT_TRUE(Fails(call.make(worker), call.code));
        } else {
          const Status status = worker.Run(SumFn()).status();
          EXPECT_THAT(status.message(), testing::HasSubstr("worker 0"));
          EXPECT_THAT(status.code(),
                      testing::AnyOf(StatusCode::kAborted, StatusCode::kCancelled))
              << status.ToString();
        }
      }
      ExpectWorks(worker);
    });
  }
}

TEST(TeamFailures, ACallThatAllWorkersAreRefusedIsTheOwnErrorOfEach) {
  for (const RefusedCall& call : RefusedCalls()) {
    SCOPED_TRACE(call.name);
    TestJob job(2, 2);
    job.OnWorkers([&](TestWorker& worker) {
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(Fails(call.make(worker), call.code));
      ExpectWorks(worker);
    });
  }
}

// ---- Cancellation. ----

TEST(TeamFailures, ACancelledRunEndsTheRunsOfAll) {
  TestJob job(2, 2);
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  job.OnWorkers([&](TestWorker& worker) {
    if (worker.index == 0) {
      CallOptions call = worker.Hang();
      call.cancellation = cancellation.get();
      const Ref<Function> fn =
          ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            TUTTI_RETURN_IF_ERROR(SumOfIds(replica).status());
            if (replica.replica_id() == 1) cancellation->Cancel();
            return SumOfIds(replica);
          });
      EXPECT_TRUE(Fails(worker.strategy->Run(*fn, nullptr, call).status(), StatusCode::kCancelled));
    } else {
      const Ref<Function> fn =
          ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            TUTTI_RETURN_IF_ERROR(SumOfIds(replica).status());
            TUTTI_RETURN_IF_ERROR(SumOfIds(replica).status());
            return SumOfIds(replica);
          });
      EXPECT_FALSE(worker.Run(fn).ok());
    }
    ExpectWorks(worker);
  });
}

}  // namespace
}  // namespace tutti
