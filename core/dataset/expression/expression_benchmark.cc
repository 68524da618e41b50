// Nanoseconds per element of range -> map(expression) -> filter(expression) -> batch(128), and of
// its parts.
#include "core/dataset/expression/expression.h"

#include <benchmark/benchmark.h>

#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/function_registry.h"

namespace tutti {
namespace {

constexpr int64_t kElements = 1'000'000;

class World {
 public:
  World() : datasets_(DatasetEnvironment::Create(environment_, nullptr)) {}
  ~World() { (void)environment_->Shutdown(CallOptions()); }
  Ref<Dataset> Range() { return Dataset::Range(datasets_, 0, kElements, 1).value(); }

 private:
  const Ref<Environment> environment_ = MakeRef<RealEnvironment>();
  const Ref<DatasetEnvironment> datasets_;
};

class Maker {
 public:
  Maker()
      : trace_(Expression::Create(ElementSpec::OfTensor(DType::kInt64, Shape())).value()),
        x_(trace_->Parameter(0).value()) {}
  int64_t x() const { return x_; }
  int64_t Of(const char* name, int64_t a, int64_t number) {
    const int64_t constant = trace_->Constant(Tensor::Scalar(number), true).value();
    return trace_->Apply(name, {{a, constant}}, {}).value();
  }
  Ref<Function> Make(int64_t node) {
    return MakeExpressionFunction(*trace_, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {{node}})
        .value();
  }

 private:
  const Ref<Expression> trace_;
  const int64_t x_;
};

Ref<Function> TwicePlusOne() {
  Maker make;
  return make.Make(make.Of("add", make.Of("multiply", make.x(), 2), 1));
}

// Of x % number == 0.
Ref<Function> Divides(int64_t number) {
  Maker make;
  return make.Make(make.Of("equal", make.Of("remainder", make.x(), number), 0));
}

void Walk(benchmark::State& state, const Ref<Dataset>& dataset) {
  for (auto _ : state) {
    const Ref<Iterator> iterator = Iterator::Create(dataset, {}, CallOptions()).value();
    while (Ref<Value> element = iterator->Next(CallOptions()).value()) {
      benchmark::DoNotOptimize(element.get());
    }
    (void)iterator->Close(CallOptions());
  }
  state.SetItemsProcessed(state.iterations() * kElements);
  state.counters["per_element"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kElements),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void RangeMapBatch(benchmark::State& state) {
  World world;
  Walk(state, world.Range()->Map(TwicePlusOne()).value()->Batch(128).value());
}
BENCHMARK(RangeMapBatch)->Unit(benchmark::kMillisecond);

void RangeMapFilterBatch(benchmark::State& state) {
  World world;
  Walk(state, world.Range()
                  ->Map(TwicePlusOne())
                  .value()
                  ->Filter(Divides(state.range(0)))
                  .value()
                  ->Batch(128)
                  .value());
}
BENCHMARK(RangeMapFilterBatch)->Arg(1)->Arg(3)->Arg(5)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti
