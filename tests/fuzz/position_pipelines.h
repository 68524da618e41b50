// The datasets whose positions are fuzzed, and how long a call may take: for the target and for the
// corpus.

#ifndef TUTTI_TESTS_FUZZ_POSITION_PIPELINES_H_
#define TUTTI_TESTS_FUZZ_POSITION_PIPELINES_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/device/device.h"
#include "core/function/function_registry.h"
#include "core/strategy/distributed_dataset.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/strategy.h"

namespace tutti {

struct PositionPipelines {
  Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  Ref<DatasetEnvironment> datasets =
      DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>());
  Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  Ref<Strategy> strategy =
      Strategy::CreateOneDevice(environment, *devices, "CPU:0", StrategyOptions()).value();
  std::vector<Ref<Dataset>> pipelines = Make();

  CallOptions Call() const {
    return CallOptions::WithTimeout(environment->clock(), 50 * kMillisecondNs);
  }
  Ref<DistributedIterator> Distributed() const {
    InputOptions options;
    options.steps_ahead = 0;
    const Ref<DistributedDataset> distributed =
        DistributedDataset::Create(strategy, *pipelines[0], options, Call()).value();
    return DistributedIterator::Create(distributed, Call()).value();
  }

 private:
  std::vector<Ref<Dataset>> Make() const {
    const auto range = [&](int64_t stop) { return Dataset::Range(datasets, 0, stop, 1).value(); };
    ShuffleOptions seeded;
    seeded.seed = 3;
    std::vector<Ref<Dataset>> made;
    made.push_back(range(20)->Shuffle(4, seeded).value()->Batch(3).value());
    made.push_back(range(9)->Window(3, 2).value());
    made.push_back(range(5)->Repeat(3).value()->Skip(2).value()->Take(9).value());
    made.push_back(range(6)->Cache().value()->Unique().value());
    made.push_back(range(7)->Concatenate(*range(3)).value()->Shard(2, 1).value());
    made.push_back(range(12)->Batch(5).value()->Unbatch().value()->Enumerate().value());
    return made;
  }
};

}  // namespace tutti

#endif  // TUTTI_TESTS_FUZZ_POSITION_PIPELINES_H_
