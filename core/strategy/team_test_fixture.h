// What the tests of strategies over several workers share: a job of several workers within this
// process, each with an environment, a team and a thread of its own.

#ifndef TUTTI_CORE_STRATEGY_TEAM_TEST_FIXTURE_H_
#define TUTTI_CORE_STRATEGY_TEAM_TEST_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/collective/group/local_team.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/function/function_registry.h"
#include "core/strategy/strategy_test_fixture.h"
#include "core/strategy/variable.h"

namespace tutti {

// One worker of a job.
struct TestWorker {
  int64_t index = 0;
  Ref<RealEnvironment> environment;
  Ref<DeviceSet> devices;
  Ref<DatasetEnvironment> datasets;
  Ref<WorkerTeam> team;
  Ref<Strategy> strategy;

  CallOptions Hang() const { return CallOptions::WithTimeout(environment->clock(), kHangNs); }
  Result<Ref<Strategy>> Make(int64_t replicas, const CommunicationOptions& communication = {}) {
    MultiWorkerOptions options;
    options.team = team;
    options.communication = communication;
    options.num_replicas = replicas;
    return Strategy::CreateMultiWorkerMirrored(environment, *devices, options, Hang());
  }
  Result<Ref<Value>> Run(const Ref<Function>& fn, const Ref<Value>& args = nullptr) {
    return strategy->Run(*fn, args.get(), Hang());
  }
  Ref<Variable> MakeVariable(const Ref<Tensor>& initial, Aggregation aggregation,
                             Synchronization synchronization = Synchronization::kAuto) {
    VariableOptions options;
    options.name = "w";
    options.aggregation = aggregation;
    options.synchronization = synchronization;
    return Variable::Create(strategy, *initial, options, Hang()).value();
  }
};

// Workers with a strategy of `replicas` each; they are shut down at the end.
class TestJob {
 public:
  using Body = std::function<void(TestWorker&)>;

  // Worker `reproducible` wants folds to be so; -1: none does.
  TestJob(size_t workers, std::vector<int64_t> replicas, int64_t reproducible = -1) {
    std::vector<Ref<Environment>> environments;
    for (size_t w = 0; w < workers; ++w) {
      TestWorker worker;
      worker.index = static_cast<int64_t>(w);
      worker.environment = MakeRef<RealEnvironment>();
      worker.devices = DeviceSet::Create(8, nullptr).value();
      worker.datasets = DatasetEnvironment::Create(worker.environment, nullptr);
      environments.push_back(worker.environment);
      workers_.push_back(std::move(worker));
    }
    const std::vector<Ref<WorkerTeam>> teams =
        LocalTeam::Create(environments, replicas, reproducible);
    for (size_t w = 0; w < workers; ++w) workers_[w].team = teams[w];
  }
  TestJob(size_t workers, int64_t replicas, int64_t reproducible = -1,
          const CommunicationOptions& communication = {})
      : TestJob(workers, std::vector<int64_t>(workers, replicas), reproducible) {
    OnWorkers([&](TestWorker& worker) {
      Result<Ref<Strategy>> strategy = worker.Make(replicas, communication);
      ASSERT_TRUE(strategy.ok()) << strategy.status().ToString();
      worker.strategy = std::move(strategy).value();
    });
  }
  ~TestJob() {
    for (TestWorker& worker : workers_) {
      if (!worker.strategy) continue;
      EXPECT_TRUE(worker.strategy->Close(worker.Hang()).ok());
    }
    for (TestWorker& worker : workers_) {
      worker.strategy = nullptr;
      worker.team = nullptr;
      worker.datasets = nullptr;
      const Status status = worker.environment->Shutdown(worker.Hang());
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }

  // body(worker) on a thread per worker.
  void OnWorkers(const Body& body) {
    std::vector<std::thread> threads;
    for (TestWorker& worker : workers_) {
      threads.emplace_back([&body, &worker] { body(worker); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  TestWorker& operator[](size_t w) { return workers_[w]; }
  size_t size() const { return workers_.size(); }
  // As the death of a worker: ends the job of all.
  void Fail(Status error) {
    static_cast<LocalTeam*>(workers_[0].team.get())->Fail(std::move(error));
  }

 private:
  std::vector<TestWorker> workers_;
};

// A job's size.
struct JobSize {
  size_t workers;
  int64_t replicas;
};

inline std::vector<JobSize> JobSizes() {
  return {{2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}, {3, 3}};
}

inline std::string JobSizeName(const testing::TestParamInfo<JobSize>& info) {
  return Format("{}x{}", info.param.workers, info.param.replicas);
}

// What each local replica holds, as text.
inline std::vector<std::string> LocalTexts(const Ref<Strategy>& strategy, const Ref<Value>& value) {
  std::vector<std::string> texts;
  const Ref<Value> results = strategy->LocalResults(*value).value();
  for (const Ref<Value>& result : results->AllChildren()) texts.push_back(result->ToString());
  return texts;
}

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_TEAM_TEST_FIXTURE_H_
