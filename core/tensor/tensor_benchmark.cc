// What a row costs: making and releasing scalars, row views and values.
#include "core/tensor/tensor.h"

#include <benchmark/benchmark.h>

#include "core/tensor/value.h"

namespace tutti {
namespace {

void MakeScalar(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tensor::Scalar<int64_t>(7));
}
BENCHMARK(MakeScalar);

void MakeSmallTensor(benchmark::State& state) {
  const Shape shape({16});
  for (auto _ : state) benchmark::DoNotOptimize(Tensor::Create(DType::kFloat32, shape));
}
BENCHMARK(MakeSmallTensor);

void MakeLargeTensor(benchmark::State& state) {
  const Shape shape({128, 64});
  TensorOptions options;
  options.zeroed = false;
  for (auto _ : state) benchmark::DoNotOptimize(Tensor::Create(DType::kFloat32, shape, options));
}
BENCHMARK(MakeLargeTensor);

void SliceRow(benchmark::State& state) {
  const Ref<Tensor> batch = Tensor::Create(DType::kFloat32, Shape({128, 64})).value();
  int64_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(batch->Row(i++ % 128));
}
BENCHMARK(SliceRow);

void MakeString(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tensor::Bytes("a short string"));
}
BENCHMARK(MakeString);

void MakeLeafValue(benchmark::State& state) {
  const Ref<Tensor> tensor = Tensor::Scalar<int64_t>(7);
  for (auto _ : state) benchmark::DoNotOptimize(Value::OfTensor(tensor));
}
BENCHMARK(MakeLeafValue);

void MakeDictFromLeaves(benchmark::State& state) {
  const Ref<Value> leaf = Value::OfTensor(Tensor::Scalar<int64_t>(7));
  const Ref<Value> dict = Value::Dict({{"image", leaf}, {"label", leaf}}).value();
  const std::vector<Leaf> leaves(dict->leaves().begin(), dict->leaves().end());
  for (auto _ : state) benchmark::DoNotOptimize(dict->WithLeaves(leaves));
}
BENCHMARK(MakeDictFromLeaves);

}  // namespace
}  // namespace tutti
