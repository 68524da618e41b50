// What a check of a tensor costs, and an event of a dump.
#include <benchmark/benchmark.h>

#include <memory>

#include "core/base/clock.h"
#include "core/base/disk.h"
#include "core/debugging/dump_writer.h"
#include "core/debugging/first_failure.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

constexpr int64_t kElements = 256 * 1024;  // 1 MiB of float32

Ref<Tensor> Zeros(DType dtype) { return Tensor::Create(dtype, Shape({kElements})).value(); }

void CountBytes(benchmark::State& state, const Tensor& tensor) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(tensor.byte_size()));
}

void BM_FirstNotFinite(benchmark::State& state) {
  const Ref<Tensor> x = Zeros(static_cast<DType>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(FirstNotFinite(*x));
  CountBytes(state, *x);
}
BENCHMARK(BM_FirstNotFinite)
    ->Arg(static_cast<int64_t>(DType::kFloat32))
    ->Arg(static_cast<int64_t>(DType::kFloat64))
    ->Arg(static_cast<int64_t>(DType::kBfloat16));

void BM_FirstUnlike(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  const Ref<Tensor> x = Zeros(dtype);
  const Ref<Tensor> y = Zeros(dtype);
  for (auto _ : state) {
    benchmark::DoNotOptimize(FirstUnlike(Comparison::kLessEqual, *x, *y, x->shape()));
  }
  CountBytes(state, *x);
}
BENCHMARK(BM_FirstUnlike)
    ->Arg(static_cast<int64_t>(DType::kFloat32))
    ->Arg(static_cast<int64_t>(DType::kInt32))
    ->Arg(static_cast<int64_t>(DType::kInt8))
    ->Arg(static_cast<int64_t>(DType::kFloat16));

void BM_NobodyLooks(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(TensorsAreObserved());
}
BENCHMARK(BM_NobodyLooks);

void BM_DumpedEvent(benchmark::State& state) {
  const std::unique_ptr<Disk> disk = MakeMemoryDisk();
  DumpOptions options;
  options.root = "/dumps";
  options.mode = static_cast<DebugMode>(state.range(0));
  const Ref<DumpWriter> writer = DumpWriter::Create(*disk, RealClock(), options).value();
  const Ref<Tensor> x = Tensor::Vector<float>({1, 2, 3, 4});
  const TensorSighting sighting{.op = "all_reduce", .name = "the input of finite", .replica = 1};
  for (auto _ : state) benchmark::DoNotOptimize(writer->Observe(sighting, *x).ok());
}
BENCHMARK(BM_DumpedEvent)
    ->Arg(static_cast<int64_t>(DebugMode::kNoTensor))
    ->Arg(static_cast<int64_t>(DebugMode::kFullHealth));

}  // namespace
}  // namespace tutti
