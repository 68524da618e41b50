// What it costs that rows which are made ahead may be passed over instead (Demand::tentative): a
// map over a map asked for rows all of which are wanted, and for rows of which nobody knows.
#include <benchmark/benchmark.h>

#include <memory>

#include "core/base/real_environment.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"

namespace tutti {
namespace {

constexpr int64_t kNumbers = 200'000;
constexpr int64_t kAtOnce = 128;

class Same final : public Function {
 public:
  explicit Same(Granularity granularity) : Function("same"), granularity_(granularity) {}
  Status Call(Context&, const Value& in, Ref<Value>* out) override {
    *out = Ref<Value>::Retain(const_cast<Value*>(&in));
    return OkStatus();
  }
  Granularity granularity() const override { return granularity_; }
  bool calls_host() const override { return true; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec*) const override {
    return ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar());
  }

 private:
  const Granularity granularity_;
};

void MapOverMap(benchmark::State& state, Granularity granularity, int64_t calls) {
  const bool all_wanted = state.range(0) != 0;
  const auto environment = MakeRef<RealEnvironment>();
  {
    const auto datasets = DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>());
    MapOptions options;
    options.num_parallel_calls = calls;
    const auto same = MakeRef<Same>(granularity);
    const Ref<Dataset> mapped = Dataset::Range(datasets, 0, kNumbers, 1)
                                    .value()
                                    ->Map(same)
                                    .value()
                                    ->Map(same, options)
                                    .value();
    const DatasetOptions own;
    const ExecContext context{datasets.get(), &environment->memory(), &own};
    for (auto _ : state) {
      const std::unique_ptr<Stage> stage = MakeStage(mapped->node(), context).value();
      Slab slab;
      while (!slab.end) {
        slab.Clear();
        stage->Next(Demand{kAtOnce, false, kNoHorizon, all_wanted}, CallOptions(), &slab);
        if (!slab.status.ok()) state.SkipWithError("the stage failed");
      }
      stage->Stop();
      if (!stage->Join(CallOptions()).ok()) state.SkipWithError("the stage goes on");
    }
    state.SetItemsProcessed(state.iterations() * kNumbers);
    state.counters["per_element"] =
        benchmark::Counter(static_cast<double>(state.iterations() * kNumbers),
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  }
  benchmark::DoNotOptimize(environment->Shutdown(CallOptions()));
}

BENCHMARK_CAPTURE(MapOverMap, by_row, Granularity::kRow, 0)->ArgName("all_wanted")->Arg(1)->Arg(0);
BENCHMARK_CAPTURE(MapOverMap, by_slab, Granularity::kSlab, 0)
    ->ArgName("all_wanted")
    ->Arg(1)
    ->Arg(0);
BENCHMARK_CAPTURE(MapOverMap, parallel, Granularity::kRow, 2)
    ->ArgName("all_wanted")
    ->Arg(1)
    ->Arg(0)
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace tutti
