// Text files from the page cache, line by line: bytes per second include the ends of the lines.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/records/text_line.h"
#include "core/dataset/records/text_line_reader.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/function/function_registry.h"

namespace tutti {
namespace {

constexpr size_t kFileBytes = 128 << 20;

// Lines of `line_bytes` with their ends.
std::string WriteLines(const TempFolder& folder, size_t line_bytes) {
  std::string lines;
  while (lines.size() < (4 << 20)) lines += std::string(line_bytes - 1, 'x') + "\n";
  std::string contents;
  while (contents.size() < kFileBytes) contents += lines;
  return folder.Write("lines", contents);
}

void BM_ReadLines(benchmark::State& state) {
  const TempFolder folder;
  const std::string path = WriteLines(folder, static_cast<size_t>(state.range(0)));
  int64_t bytes = 0;
  int64_t count = 0;
  for (auto _ : state) {
    auto reader = std::move(OpenTextLineReader(RealDisk(), path, {})).value();
    std::vector<BytesView> lines;
    do {
      lines.clear();
      if (!reader->Read(128, &lines).ok()) state.SkipWithError("the reader failed");
      count += static_cast<int64_t>(lines.size());
    } while (!lines.empty());
    bytes += static_cast<int64_t>(reader->position().offset);
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(count);
}
BENCHMARK(BM_ReadLines)
    ->ArgName("line")
    ->Arg(20)
    ->Arg(80)
    ->Arg(1000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// The dataset, 128 elements at a time.
void BM_TextLineSlabs(benchmark::State& state) {
  const TempFolder folder;
  const std::string path = WriteLines(folder, static_cast<size_t>(state.range(0)));
  const auto environment = MakeRef<RealEnvironment>();
  {
    const Ref<Dataset> dataset =
        MakeTextLineDataset(DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>()),
                            std::vector{path}, {})
            .value();
    int64_t count = 0;
    for (auto _ : state) {
      const Ref<Iterator> iterator = Iterator::Create(dataset, {}, CallOptions()).value();
      Slab slab;
      do {
        slab.Clear();
        const Status status = iterator->NextSlab(128, CallOptions(), &slab);
        if (!status.ok() || !slab.status.ok()) state.SkipWithError("the iterator failed");
        count += slab.rows;
      } while (!slab.end);
    }
    state.SetBytesProcessed(count * state.range(0));
    state.SetItemsProcessed(count);
  }
  benchmark::DoNotOptimize(environment->Shutdown(CallOptions()));
}
BENCHMARK(BM_TextLineSlabs)
    ->ArgName("line")
    ->Arg(20)
    ->Arg(80)
    ->Arg(1000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace tutti
