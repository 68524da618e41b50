// What a measured edge costs a slab: a range asked for slabs of the number of rows that is the
// argument, as it is and with so many edges of latency_stats on it; and the same of what explain
// tells after a run (take, which is one comparison, with and without a profile).
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "core/base/real_environment.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/run_profile.h"
#include "core/function/function_registry.h"

namespace tutti {
namespace {

void BM_MeasuredEdges(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t edges = state.range(1);
  const bool on = state.range(2) != 0;
  const auto environment = MakeRef<RealEnvironment>();
  {
    const auto datasets = DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>());
    Ref<Dataset> dataset = Dataset::Range(datasets, 0, int64_t{1} << 60, 1).value();
    for (int64_t i = 0; i < edges; ++i) {
      dataset = dataset->LatencyStats("edge" + std::to_string(i)).value();
    }
    DatasetOptions options;
    if (on) options.SetAggregator(MakeRef<StatsAggregator>());
    const ExecContext context{datasets.get(), &environment->memory(), &options};
    const std::unique_ptr<Stage> stage = MakeStage(dataset->node(), context).value();
    Slab slab;
    for (auto _ : state) {
      slab.Clear();
      stage->Next(Demand::Made(rows, kNoHorizon), CallOptions(), &slab);
    }
  }
  (void)environment->Shutdown(CallOptions());
}
BENCHMARK(BM_MeasuredEdges)
    ->ArgNames({"rows", "edges", "on"})
    ->Args({1, 0, 0})
    ->Args({1, 10, 0})
    ->Args({1, 10, 1})
    ->Args({128, 0, 0})
    ->Args({128, 10, 1});

void BM_ProfiledEdges(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t edges = state.range(1);
  const bool on = state.range(2) != 0;
  const auto environment = MakeRef<RealEnvironment>();
  {
    const auto datasets = DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>());
    Ref<Dataset> dataset = Dataset::Range(datasets, 0, int64_t{1} << 60, 1).value();
    for (int64_t i = 0; i < edges; ++i) dataset = dataset->Take(int64_t{1} << 59).value();
    const DatasetOptions options;
    ExecContext context{datasets.get(), &environment->memory(), &options};
    const auto profile = MakeRef<RunProfile>(environment->clock(), on);
    context.profile = profile.get();
    const std::unique_ptr<Stage> stage = MakeStage(dataset->node(), context).value();
    Slab slab;
    for (auto _ : state) {
      slab.Clear();
      stage->Next(Demand::Made(rows, kNoHorizon), CallOptions(), &slab);
    }
  }
  (void)environment->Shutdown(CallOptions());
}
BENCHMARK(BM_ProfiledEdges)
    ->ArgNames({"rows", "edges", "on"})
    ->Args({1, 10, 0})
    ->Args({1, 10, 1})
    ->Args({128, 10, 0})
    ->Args({128, 10, 1});

}  // namespace
}  // namespace tutti
