// TFRecord files from the page cache, record by record: bytes per second include the frames.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/disk.h"
#include "core/dataset/records/tf_record_reader.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

constexpr size_t kFileBytes = 256 << 20;

std::string MakeFile(const TempFolder& folder, size_t record_bytes) {
  std::string records;
  const std::string frame = TfRecordFrame(std::string(record_bytes, 'x'));
  while (records.size() < (4 << 20)) records += frame;
  std::string contents;
  while (contents.size() < kFileBytes) contents += records;
  return folder.Write("records", contents);
}

// Records of range(0) bytes through blocks of range(1); `held` slabs of 128 records are kept, as a
// pipeline behind the reader does, before their blocks are given back.
void ReadRecords(benchmark::State& state, size_t held) {
  const TempFolder folder;
  const std::string path = MakeFile(folder, static_cast<size_t>(state.range(0)));
  RecordFileOptions options;
  options.buffer_bytes = static_cast<size_t>(state.range(1));
  int64_t bytes = 0;
  int64_t count = 0;
  for (auto _ : state) {
    auto reader = std::move(OpenTfRecordReader(RealDisk(), path, options)).value();
    std::vector<Ref<Buffer>> blocks(held + 1);
    std::vector<BytesView> records;
    for (size_t slab = 0;; ++slab) {
      records.clear();
      if (!reader->Read(128, &records).ok() || records.empty()) break;
      if (held > 0) blocks[slab % held] = reader->block();
      count += static_cast<int64_t>(records.size());
    }
    bytes += static_cast<int64_t>(reader->position().offset);
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(count);
}

void BM_ReadRecords(benchmark::State& state) { ReadRecords(state, 0); }
BENCHMARK(BM_ReadRecords)
    ->ArgNames({"record", "block"})
    ->Args({100, 256 << 10})
    ->Args({4096, 64 << 10})
    ->Args({4096, 256 << 10})
    ->Args({4096, 1 << 20})
    ->Args({65536, 256 << 10})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void BM_ReadRecordsHeld(benchmark::State& state) { ReadRecords(state, 16); }
BENCHMARK(BM_ReadRecordsHeld)
    ->ArgNames({"record", "block"})
    ->Args({4096, 256 << 10})
    ->Args({4096, 1 << 20})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace tutti
