// Bandwidth of folds and casts. bytes_per_second counts what is read and written.
#include "core/tensor/reduce.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "core/tensor/cast.h"

namespace tutti {
namespace {

void Reduce2(benchmark::State& state, ReduceOp op, DType dtype) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const auto n = static_cast<int64_t>(bytes / ItemSize(dtype));
  std::vector<char> a(bytes);
  std::vector<char> b(bytes);
  std::vector<char> out(bytes);
  const void* inputs[] = {a.data(), b.data()};
  for (auto _ : state) {
    const Status status = ReduceInto(op, dtype, inputs, n, out.data());
    benchmark::DoNotOptimize(status.ok());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(3 * bytes));
}
BENCHMARK_CAPTURE(Reduce2, sum_float32, ReduceOp::kSum, DType::kFloat32)
    ->RangeMultiplier(8)
    ->Range(8, 64 << 20);
BENCHMARK_CAPTURE(Reduce2, mean_float32, ReduceOp::kMean, DType::kFloat32)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, min_float32, ReduceOp::kMin, DType::kFloat32)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, sum_float16, ReduceOp::kSum, DType::kFloat16)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, sum_bfloat16, ReduceOp::kSum, DType::kBfloat16)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, sum_float64, ReduceOp::kSum, DType::kFloat64)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, max_float64, ReduceOp::kMax, DType::kFloat64)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, sum_int64, ReduceOp::kSum, DType::kInt64)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, mean_int32, ReduceOp::kMean, DType::kInt32)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce2, prod_complex64, ReduceOp::kProd, DType::kComplex64)->Arg(1 << 20);

void Reduce4SumFloat32(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<std::vector<char>> data(5, std::vector<char>(bytes));
  const void* inputs[] = {data[0].data(), data[1].data(), data[2].data(), data[3].data()};
  for (auto _ : state) {
    const Status status = ReduceInto(ReduceOp::kSum, DType::kFloat32, inputs,
                                     static_cast<int64_t>(bytes / 4), data[4].data());
    benchmark::DoNotOptimize(status.ok());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(5 * bytes));
}
BENCHMARK(Reduce4SumFloat32)->Arg(1 << 12)->Arg(1 << 20)->Arg(16 << 20);

void SumOfRows(benchmark::State& state) {
  const Ref<Tensor> batch = Tensor::Create(DType::kFloat32, Shape({128, state.range(0)})).value();
  const auto axis = static_cast<size_t>(state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(ReduceAxis(ReduceOp::kSum, *batch, axis));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(batch->byte_size()));
}
BENCHMARK(SumOfRows)->Args({64, 0})->Args({64, 1})->Args({4096, 0});

void CastBlock(benchmark::State& state, DType from, DType to) {
  const int64_t n = 1 << 18;
  std::vector<char> source(n * ItemSize(from));
  std::vector<char> destination(n * ItemSize(to));
  for (auto _ : state) {
    CastElements(from, source.data(), to, destination.data(), n);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(source.size() + destination.size()));
}
BENCHMARK_CAPTURE(CastBlock, uint8_to_float32, DType::kUint8, DType::kFloat32);
BENCHMARK_CAPTURE(CastBlock, float32_to_float16, DType::kFloat32, DType::kFloat16);
BENCHMARK_CAPTURE(CastBlock, float32_to_int64, DType::kFloat32, DType::kInt64);

}  // namespace
}  // namespace tutti
