#include "core/base/crc32c.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace tutti {
namespace {

template <uint32_t (*extend)(uint32_t, const void*, size_t)>
void BM_Crc32c(benchmark::State& state) {
  const std::vector<char> data(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) benchmark::DoNotOptimize(extend(0, data.data(), data.size()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.SetLabel(Crc32cImplementation());
}
uint32_t ByInstruction(uint32_t crc, const void* data, size_t bytes) {
  return ExtendCrc32c(crc, data, bytes);
}
uint32_t ByTable(uint32_t crc, const void* data, size_t bytes) {
  return ExtendCrc32cByTable(crc, data, bytes);
}
BENCHMARK(BM_Crc32c<ByInstruction>)->Arg(8)->Arg(64)->Arg(512)->Arg(4096)->Arg(1 << 20);
BENCHMARK(BM_Crc32c<ByTable>)->Arg(4096);

}  // namespace
}  // namespace tutti
