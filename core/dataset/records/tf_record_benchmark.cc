// A dataset of TFRecord files from the page cache: records in slabs, in batches, and parsed. Bytes
// per second include the frames.
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/example_testing.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"

namespace tutti {
namespace {

// Files of one record again and again, `file_bytes` in all, and the dataset of them.
class Source {
 public:
  Source(const std::string& record, size_t file_bytes) {
    const std::string frame = TfRecordFrame(record);
    std::string contents;
    while (contents.size() < file_bytes / 4) contents += frame;
    const std::string path = folder_.Write("records", contents);
    bytes_ = 4 * contents.size();
    const std::vector<std::string> paths(4, path);
    dataset_ = MakeTfRecordDataset(datasets_, paths, {}).value();
  }
  ~Source() {
    dataset_.reset();
    benchmark::DoNotOptimize(environment_->Shutdown(CallOptions()));
  }

  const Ref<Dataset>& dataset() const { return dataset_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  const TempFolder folder_;
  const Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  const Ref<DatasetEnvironment> datasets_ =
      DatasetEnvironment::Create(environment_, MakeRef<FunctionRegistry>());
  Ref<Dataset> dataset_;
  size_t bytes_ = 0;
};

// Takes `rows` elements of `dataset` at a time.
void Drain(benchmark::State& state, const Source& source, const Ref<Dataset>& dataset,
           int64_t rows) {
  int64_t count = 0;
  for (auto _ : state) {
    const Ref<Iterator> iterator = Iterator::Create(dataset, {}, CallOptions()).value();
    Slab slab;
    do {
      slab.Clear();
      const Status status = iterator->NextSlab(rows, CallOptions(), &slab);
      if (!status.ok() || !slab.status.ok()) state.SkipWithError("the iterator failed");
      count += slab.rows;
    } while (!slab.end);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * source.bytes());
  state.SetItemsProcessed(count);
}

void BM_TfRecordSlabs(benchmark::State& state) {
  const Source source(std::string(static_cast<size_t>(state.range(0)), 'x'), 256 << 20);
  Drain(state, source, source.dataset(), 128);
}
BENCHMARK(BM_TfRecordSlabs)
    ->ArgName("record")
    ->Arg(100)
    ->Arg(4096)
    ->Arg(65536)
    ->Unit(benchmark::kMillisecond);

void BM_TfRecordBatches(benchmark::State& state) {
  const Source source(std::string(static_cast<size_t>(state.range(0)), 'x'), 256 << 20);
  Drain(state, source, source.dataset()->Batch(128).value(), 1);
}
BENCHMARK(BM_TfRecordBatches)->ArgName("record")->Arg(4096)->Unit(benchmark::kMillisecond);

// What a training step of the digits example takes: records of 64 floats and a label, parsed and
// batched.
void BM_TfRecordParsedBatches(benchmark::State& state) {
  const Source source(
      wire::Example(wire::Entry("image", wire::Floats(std::vector<float>(64, 0.5f))) +
                    wire::Entry("label", wire::Int64s({7}))),
      32 << 20);
  const Ref<Function> parse = MakeParseExample({{"image", DType::kFloat32, Shape({64}), nullptr},
                                                {"label", DType::kInt64, Shape(), nullptr}})
                                  .value();
  Drain(state, source, source.dataset()->Map(parse).value()->Batch(128).value(), 1);
  state.SetItemsProcessed(state.items_processed() * 128);
}
BENCHMARK(BM_TfRecordParsedBatches)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti
