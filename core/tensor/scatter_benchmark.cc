// A sparse update: 10,000 rows of 64 floats, at random places of a table of 100,000, by one thread
// and with the table's rows shared by two.
#include "core/tensor/scatter.h"

#include <benchmark/benchmark.h>

#include <random>
#include <thread>
#include <vector>

namespace tutti {
namespace {

constexpr int64_t kTableRows = 100000;

IndexedSlices RandomSlices(int64_t count, int64_t row) {
  std::mt19937 random(1);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t& index : indices) index = static_cast<int64_t>(random() % kTableRows);
  IndexedSlices slices;
  slices.values = Tensor::Create(DType::kFloat32, Shape({count, row})).value();
  slices.indices =
      Tensor::FromSpan<int64_t>(Shape({count}), std::span<const int64_t>(indices)).value();
  return slices;
}

void ScatterAddRows(benchmark::State& state) {
  const Ref<Tensor> table =
      Tensor::Create(DType::kFloat32, Shape({kTableRows, state.range(0)})).value();
  const IndexedSlices slices = RandomSlices(10000, state.range(0));
  for (auto _ : state) ScatterRows(ScatterOp::kAdd, slices, 0, kTableRows, table.get());
  state.SetItemsProcessed(state.iterations() * slices.count());
}
BENCHMARK(ScatterAddRows)->Arg(1)->Arg(8)->Arg(64);

void ScatterAddRowsOnTwoThreads(benchmark::State& state) {
  const Ref<Tensor> table =
      Tensor::Create(DType::kFloat32, Shape({kTableRows, state.range(0)})).value();
  const IndexedSlices slices = RandomSlices(10000, state.range(0));
  for (auto _ : state) {
    std::thread other(
        [&] { ScatterRows(ScatterOp::kAdd, slices, kTableRows / 2, kTableRows, table.get()); });
    ScatterRows(ScatterOp::kAdd, slices, 0, kTableRows / 2, table.get());
    other.join();
  }
  state.SetItemsProcessed(state.iterations() * slices.count());
}
BENCHMARK(ScatterAddRowsOnTwoThreads)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace tutti
