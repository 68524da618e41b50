// Nanoseconds per element of range -> shuffle(10,000) -> batch(128), of its parts, and of a map
// whose function is called per row and per slab.
#include <benchmark/benchmark.h>

#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/callback.h"
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

// Walks over the dataset once per round.
void Walk(benchmark::State& state, const Ref<Dataset>& dataset, int64_t elements) {
  for (auto _ : state) {
    const Ref<Iterator> iterator = Iterator::Create(dataset, {}, CallOptions()).value();
    while (Ref<Value> element = iterator->Next(CallOptions()).value()) {
      benchmark::DoNotOptimize(element.get());
    }
    (void)iterator->Close(CallOptions());
  }
  state.SetItemsProcessed(state.iterations() * elements);
  state.counters["per_element"] =
      benchmark::Counter(static_cast<double>(state.iterations() * elements),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

ShuffleOptions Seeded() {
  ShuffleOptions options;
  options.seed = 7;
  return options;
}

void RangeShuffleBatch(benchmark::State& state) {
  World world;
  Walk(state, world.Range()->Shuffle(10'000, Seeded()).value()->Batch(128).value(), kElements);
}
BENCHMARK(RangeShuffleBatch)->Unit(benchmark::kMillisecond);

void RangeBatch(benchmark::State& state) {
  World world;
  Walk(state, world.Range()->Batch(128).value(), kElements);
}
BENCHMARK(RangeBatch)->Unit(benchmark::kMillisecond);

void RangeShuffleBatchPrefetch(benchmark::State& state) {
  World world;
  Walk(state,
       world.Range()->Shuffle(10'000, Seeded()).value()->Batch(128).value()->Prefetch(8).value(),
       kElements);
}
BENCHMARK(RangeShuffleBatchPrefetch)->Unit(benchmark::kMillisecond);

void RangeElementByElement(benchmark::State& state) {
  World world;
  Walk(state, world.Range()->Take(100'000).value(), 100'000);
}
BENCHMARK(RangeElementByElement)->Unit(benchmark::kMillisecond);

const StatusRep* AddOneToRow(Context*, const Value* in, Value** out, void*) {
  *out = Value::OfTensor(Tensor::Scalar(in->AsTensor()->item<int64_t>() + 1)).release();
  return nullptr;
}

const StatusRep* AddOneToSlab(Context*, const Value* in, Value** out, void*) {
  const std::span<const int64_t> numbers = in->AsTensor()->span<int64_t>();
  TensorOptions options;
  options.zeroed = false;
  Ref<Tensor> sums = Tensor::Create(DType::kInt64, in->AsTensor()->shape(), options).value();
  const std::span<int64_t> result = sums->mutable_span<int64_t>();
  for (size_t i = 0; i < numbers.size(); ++i) result[i] = numbers[i] + 1;
  *out = Value::OfTensor(std::move(sums)).release();
  return nullptr;
}

void WalkMapped(benchmark::State& state, CallbackFn fn, Granularity granularity) {
  World world;
  StoredCallbackOptions options;
  options.granularity = granularity;
  options.output_spec = ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar());
  const Ref<Function> function =
      StoredCallback::Create(fn, MakeRef<HostData>(nullptr, nullptr, nullptr), options).value();
  constexpr int64_t kMapped = 100'000;
  Walk(state, world.Range()->Take(kMapped).value()->Map(function).value()->Batch(128).value(),
       kMapped);
}

void MapCallbackPerRow(benchmark::State& state) {
  WalkMapped(state, AddOneToRow, Granularity::kRow);
}
BENCHMARK(MapCallbackPerRow)->Unit(benchmark::kMillisecond);

void MapCallbackPerSlab(benchmark::State& state) {
  WalkMapped(state, AddOneToSlab, Granularity::kSlab);
}
BENCHMARK(MapCallbackPerSlab)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti
