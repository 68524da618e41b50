#include "core/runtime/multi_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cluster/resolve/simple_cluster_resolver.h"
#include "core/cluster/testing/reserved_port_testing.h"
#include "core/runtime/runtime.h"
#include "core/strategy/strategy.h"

namespace tutti {
namespace {

constexpr int64_t kHangNs = 60 * kSecondNs;

Ref<ClusterResolver> ResolverOf(const std::vector<std::string>& addresses, int64_t worker) {
  SimpleClusterResolver::Options options;
  for (size_t i = 0; i < addresses.size(); ++i) {
    EXPECT_TRUE(
        options.cluster_spec.AddTask("worker", static_cast<int64_t>(i), addresses[i]).ok());
  }
  options.task_type = "worker";
  options.task_id = worker;
  return MakeRef<SimpleClusterResolver>(std::move(options));
}

CallOptions WithinReason(Runtime& runtime) {
  return CallOptions::WithTimeout(runtime.clock(), kHangNs);
}

TEST(MultiWorker, WithoutAClusterAWorkerIsAlone) {
  const Ref<Runtime> runtime = Runtime::Create().value();
  const auto strategy = CreateMultiWorkerMirrored(*runtime, *ResolverOf({}, 0),
                                                  {"CPU:0", "CPU:1", "CPU:2"}, {}, {},
                                                  WithinReason(*runtime));
  ASSERT_TRUE(strategy.ok()) << strategy.status().ToString();
  EXPECT_EQ((*strategy)->num_replicas_in_sync(), 3);
  EXPECT_EQ((*strategy)->num_workers(), 1);
  EXPECT_TRUE(runtime->Shutdown(WithinReason(*runtime)).ok());
}

TEST(MultiWorker, MoreGpusThanTheMachineListsAreAnError) {
  const Ref<Runtime> runtime = Runtime::Create().value();
  SimpleClusterResolver::Options options;
  options.num_accelerators = {{"GPU", 2}};
  const Status status =
      CreateMultiWorkerMirrored(*runtime, *MakeRef<SimpleClusterResolver>(std::move(options)), {},
                                {}, {}, WithinReason(*runtime))
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("has 2 GPUs, and this machine lists 0"));
  EXPECT_TRUE(runtime->Shutdown(WithinReason(*runtime)).ok());
}

TEST(MultiWorker, AnEmptyClusterIsOneOfThisProcess) {
  const Ref<Runtime> runtime = Runtime::Create().value();
  EXPECT_EQ(runtime->PlaceInJob(), "");
  const Result<Ref<Cluster>> joined =
      runtime->JoinCluster(*ResolverOf({}, 0), 1, WithinReason(*runtime));
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_EQ((*joined)->num_workers(), 1);
  EXPECT_EQ(runtime->PlaceInJob(), "");
  EXPECT_TRUE(runtime->Shutdown(WithinReason(*runtime)).ok());
}

TEST(MultiWorker, AHostThatThrowsWhileItJoinsLeavesTheSeatToOthers) {
  ::setenv("TUTTI_JOB_SECRET", "a secret that only this test knows", 1);
  const Ref<Runtime> runtime = Runtime::Create().value();
  const Ref<ClusterResolver> resolver = ResolverOf({Format("127.0.0.1:{}", ReservePort()),
                                                    Format("127.0.0.1:{}", ReservePort())},
                                                   0);
  const Ref<Cancellation> host = MakeRef<Cancellation>(
      [](void*) -> bool { throw std::runtime_error("the host's own"); }, nullptr, nullptr);
  CallOptions call = WithinReason(*runtime);
  call.cancellation = host.get();
  EXPECT_THROW((void)runtime->JoinCluster(*resolver, 1, call), std::runtime_error);
  // The other worker is what it waits for.
  const Status status =
      runtime
          ->JoinCluster(*resolver, 1,
                        CallOptions::WithTimeout(runtime->clock(), 50 * kMillisecondNs))
          .status();
  EXPECT_THAT(status.message(), testing::Not(testing::HasSubstr("another thread that joins")));
  EXPECT_TRUE(runtime->Shutdown(WithinReason(*runtime)).ok());
}

TEST(MultiWorker, StrategiesAndCommunicatorsOfARuntimeShareItsSeat) {
  ::setenv("TUTTI_JOB_SECRET", "a secret that only this test knows", 1);
  const std::vector<std::string> addresses = {Format("127.0.0.1:{}", ReservePort()),
                                              Format("127.0.0.1:{}", ReservePort())};
  const auto work = [&](int64_t worker) {
    const Ref<Runtime> runtime = Runtime::Create({{{"replicas", "2"}}, nullptr}).value();
    const Ref<ClusterResolver> resolver = ResolverOf(addresses, worker);
    const CallOptions call = WithinReason(*runtime);
    for (int i = 0; i < 2; ++i) {
      auto strategy = CreateMultiWorkerMirrored(*runtime, *resolver, {}, {}, {}, call);
      ASSERT_TRUE(strategy.ok()) << strategy.status().ToString();
      EXPECT_EQ((*strategy)->num_replicas_in_sync(), 4);
      EXPECT_EQ((*strategy)->worker(), worker);
    }
    auto cluster = runtime->JoinCluster(*resolver, 0, call);
    ASSERT_TRUE(cluster.ok()) << cluster.status().ToString();
    EXPECT_EQ(runtime->JoinCluster(*resolver, 3, call).status().code(),
              StatusCode::kFailedPrecondition)
        << "the seat has two replicas";
    for (int64_t epoch = 1; epoch <= 2; ++epoch) {
      auto communicator = CreateCommunicator(*runtime, *cluster, "", call);
      ASSERT_TRUE(communicator.ok()) << communicator.status().ToString();
      EXPECT_EQ((*communicator)->rank(), worker);
      EXPECT_EQ((*communicator)->epoch(), epoch);
      EXPECT_TRUE((*communicator)->Barrier(call).ok());
    }
    EXPECT_TRUE(runtime->Shutdown(WithinReason(*runtime)).ok());
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
}

// Four replicas' numbers, whose sum shows the order of a fold.
Ref<Value> NumbersOf(int64_t replica) {
  std::vector<float> numbers(5000);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto step = static_cast<float>(static_cast<size_t>(replica) * 5000 + i);
    numbers[i] = 1.0f / (3.0f + step) * (i % 2 == 0 ? 1.0f : -1.0f);
  }
  return Value::OfTensor(
      Tensor::FromSpan<float>(Shape({5000}), std::span<const float>(numbers)).value());
}

TEST(MultiWorker, AReproducibleJobHasTheSameBitsInEveryLayoutOverEveryTransport) {
  ::setenv("TUTTI_JOB_SECRET", "a secret that only this test knows", 1);
  const auto sum_of = [](int64_t workers, const char* transport) {
    std::vector<std::string> addresses;
    for (int64_t w = 0; w < workers; ++w) {
      addresses.push_back(Format("127.0.0.1:{}", ReservePort()));
    }
    std::vector<Ref<Value>> sums(static_cast<size_t>(workers));
    const auto work = [&](int64_t worker) {
      const Ref<Runtime> runtime =
          Runtime::Create({{{"replicas", std::to_string(4 / workers)},
                            {"reproducible", worker == 0 ? "0" : "1"},
                            {"transport", transport}},
                           nullptr})
              .value();
      const CallOptions call = WithinReason(*runtime);
      {
        auto strategy =
            CreateMultiWorkerMirrored(*runtime, *ResolverOf(addresses, worker), {}, {}, {}, call);
        ASSERT_TRUE(strategy.ok()) << strategy.status().ToString();
        const int64_t first = (*strategy)->first_replica();
        std::vector<Ref<Value>> numbers;
        for (int64_t i = 0; i < 4 / workers; ++i) numbers.push_back(NumbersOf(first + i));
        const Ref<Value> value = (*strategy)->CreatePerReplica(numbers).value();
        auto sum = (*strategy)->Reduce(ReduceOp::kSum, *value, std::nullopt, call);
        ASSERT_TRUE(sum.ok()) << sum.status().ToString();
        sums[static_cast<size_t>(worker)] = std::move(sum).value();
      }
      EXPECT_TRUE(runtime->Shutdown(call).ok());
    };
    std::vector<std::thread> others;
    for (int64_t w = 1; w < workers; ++w) others.emplace_back(work, w);
    work(0);
    for (std::thread& other : others) other.join();
    return sums;
  };
  const std::vector<Ref<Value>> alone = sum_of(1, "auto");
  ASSERT_TRUE(alone[0]);
  for (const char* transport : {"shared_memory", "tcp"}) {
    for (const int64_t workers : {2, 4}) {
      for (const Ref<Value>& sum : sum_of(workers, transport)) {
        ASSERT_TRUE(sum);
        EXPECT_TRUE(sum->AsTensor()->ContentsEqual(*alone[0]->AsTensor()))
            << workers << " workers over " << transport;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
