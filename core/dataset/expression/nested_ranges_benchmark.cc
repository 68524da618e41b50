// Nanoseconds per element of what takes elements apart and puts them together again: interleave of
// ranges that an expression gives, windows that a function gives as batches, unbatch, the second
// pass of a cache; and of rows of 64 floats, shuffled and batched, beside a copy of them alone.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/expression/dataset_function.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/callback.h"
#include "core/function/function_registry.h"

namespace tutti {
namespace {

constexpr int64_t kElements = 1'000'000;
constexpr int64_t kInner = 1000;

class World {
 public:
  World() : datasets_(DatasetEnvironment::Create(environment_, nullptr)) {}
  ~World() { (void)environment_->Shutdown(CallOptions()); }
  const Ref<DatasetEnvironment>& datasets() const { return datasets_; }
  Ref<Dataset> Range(int64_t count) { return Dataset::Range(datasets_, 0, count, 1).value(); }

 private:
  const Ref<Environment> environment_ = MakeRef<RealEnvironment>();
  const Ref<DatasetEnvironment> datasets_;
};

// x -> range(x, x + kInner).
Ref<Function> RangesFrom(World& world) {
  const Ref<Expression> trace =
      Expression::Create(ElementSpec::OfTensor(DType::kInt64, Shape())).value();
  const int64_t x = trace->Parameter(0).value();
  const int64_t inner = trace->Constant(Tensor::Scalar(kInner), false).value();
  const int64_t one = trace->Constant(Tensor::Scalar(int64_t{1}), false).value();
  const int64_t stop = trace->Apply("add", {{x, inner}}, {}).value();
  const auto leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  const Ref<Dataset> range =
      MakeTracedSource(world.datasets(), trace.get(), "range", TreeSpec::Tuple({leaf, leaf, leaf}),
                       {{x, stop, one}})
          .value();
  return MakeDatasetFunction(trace, *range).value();
}

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

void InterleaveRanges(benchmark::State& state) {
  World world;
  Walk(state,
       world.Range(kElements / kInner)
           ->Interleave(RangesFrom(world), 10, state.range(0))
           .value()
           ->Batch(128)
           .value(),
       kElements);
}
BENCHMARK(InterleaveRanges)->ArgName("block")->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);

void RangeBatchUnbatchBatch(benchmark::State& state) {
  World world;
  Walk(state,
       world.Range(kElements)->Batch(100).value()->Unbatch().value()->Batch(128).value(),
       kElements);
}
BENCHMARK(RangeBatchUnbatchBatch)->Unit(benchmark::kMillisecond);

void RangeCacheBatch(benchmark::State& state) {
  World world;
  const Ref<Dataset> dataset = world.Range(kElements)->Cache("").value()->Batch(128).value();
  const Ref<Iterator> first = Iterator::Create(dataset, {}, CallOptions()).value();
  while (first->Next(CallOptions()).value()) continue;
  Walk(state, dataset, kElements);
}
BENCHMARK(RangeCacheBatch)->Unit(benchmark::kMillisecond);

const StatusRep* BatchOfWindow(Context*, const Value* in, Value** out, void*) {
  const auto* window = in->leaf(0).object_as<const Dataset>();
  *out = Value::OfLeaf(Leaf(LeafKind::kDataset, window->Batch(8).value())).release();
  return nullptr;
}

constexpr int64_t kFew = 80'000;

// By a function of the host, which is called for each window.
void RangeWindowCallback(benchmark::State& state) {
  World world;
  const Ref<Function> function =
      StoredCallback::Create(BatchOfWindow, MakeRef<HostData>(nullptr, nullptr, nullptr), {})
          .value();
  Walk(state, world.Range(kFew)->Window(8).value()->FlatMap(function).value(), kFew);
}
BENCHMARK(RangeWindowCallback)->Unit(benchmark::kMillisecond);

// Traced: batches of 8 of windows of 8, one behind the other or each one element further.
void RangeWindowBatch(benchmark::State& state) {
  World world;
  const Ref<Dataset> windows =
      world.Range(kFew)->Window(8, state.range(0), 1, state.range(0) == 1).value();
  const Ref<Expression> trace = Expression::Create(windows->promised_spec()).value();
  const int64_t window = trace->Parameter(0).value();
  const Ref<Dataset> batches =
      MakeTracedSource(world.datasets(), trace.get(), "element",
                       Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {&window, 1})
          .value()
          ->Batch(8)
          .value();
  Walk(state, windows->FlatMap(MakeDatasetFunction(trace, *batches).value()).value(), kFew);
}
BENCHMARK(RangeWindowBatch)->ArgName("shift")->Arg(8)->Arg(1)->Unit(benchmark::kMillisecond);

constexpr int64_t kVectors = 50'000;
constexpr int64_t kFloats = 64;

void FloatsShuffleBatch(benchmark::State& state) {
  World world;
  const Ref<Tensor> rows = Tensor::Create(DType::kFloat32, Shape({kVectors, kFloats})).value();
  ShuffleOptions options;
  options.seed = 7;
  Walk(state,
       Dataset::FromTensorSlices(world.datasets(), Value::OfTensor(rows))
           .value()
           ->Shuffle(10'000, options)
           .value()
           ->Batch(128)
           .value(),
       kVectors);
  state.SetBytesProcessed(state.iterations() * kVectors * kFloats * 4);
}
BENCHMARK(FloatsShuffleBatch)->Unit(benchmark::kMillisecond);

void FloatsCopied(benchmark::State& state) {
  std::vector<float> rows(static_cast<size_t>(kVectors * kFloats), 1.0f);
  std::vector<float> copy(static_cast<size_t>(128 * kFloats));
  for (auto _ : state) {
    for (size_t i = 0; i + copy.size() <= rows.size(); i += copy.size()) {
      std::memcpy(copy.data(), rows.data() + i, copy.size() * sizeof(float));
      benchmark::DoNotOptimize(copy.data());
      benchmark::ClobberMemory();
    }
  }
  state.SetBytesProcessed(state.iterations() * kVectors * kFloats * 4);
}
BENCHMARK(FloatsCopied)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti
