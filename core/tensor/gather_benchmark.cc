// What shuffle and batch cost per row: rows taken at random from a buffer of 10,000, 128 at a time.
#include "core/tensor/gather.h"

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

namespace tutti {
namespace {

void GatherRandomRows(benchmark::State& state) {
  const int64_t buffer_rows = 10000;
  const Ref<Tensor> buffer =
      Tensor::Create(DType::kUint8, Shape({buffer_rows, state.range(0)})).value();
  std::mt19937 random(1);
  std::vector<RowRef> rows(128 * 64);
  for (RowRef& row : rows) row = {0, static_cast<int64_t>(random() % buffer_rows)};
  const Tensor* const sources[] = {buffer.get()};
  size_t first = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(GatherRows(sources, {rows.data() + first, 128}));
    first = (first + 128) % rows.size();
  }
  state.SetItemsProcessed(state.iterations() * 128);
  state.SetBytesProcessed(state.iterations() * 128 * state.range(0));
}
BENCHMARK(GatherRandomRows)->Arg(4)->Arg(8)->Arg(64)->Arg(256)->Arg(4096);

void StackScalars(benchmark::State& state) {
  std::vector<Ref<Tensor>> tensors;
  std::vector<const Tensor*> pointers;
  for (int64_t i = 0; i < 128; ++i) {
    tensors.push_back(Tensor::Scalar(i));
    pointers.push_back(tensors.back().get());
  }
  for (auto _ : state) benchmark::DoNotOptimize(Stack(pointers));
  state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK(StackScalars);

void GatherStrings(benchmark::State& state) {
  std::vector<BytesView> views(1000, BytesView{"0123456789abcdef", 16});
  const Ref<Tensor> strings = Tensor::FromStrings(Shape({1000}), views).value();
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 128; ++i) rows.push_back(i * 7 % 1000);
  for (auto _ : state) benchmark::DoNotOptimize(GatherRows(*strings, rows));
  state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK(GatherStrings);

}  // namespace
}  // namespace tutti
