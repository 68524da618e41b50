// parse_example per record: a digit of 64 floats and a label, an image of 784 small integers, and a
// dozen features of one value each. A slab has 128 examples.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "core/dataset/example/example_parser.h"
#include "core/dataset/testing/example_testing.h"

namespace tutti {
namespace {

constexpr int64_t kSlabRows = 128;

void Parse(benchmark::State& state, std::vector<ExampleFeature> features,
           const std::string& example, int64_t rows) {
  const auto parser = std::move(ExampleParser::Create(std::move(features))).value();
  const std::vector<BytesView> views(static_cast<size_t>(rows), {example.data(), example.size()});
  const Ref<const Tensor> slab = Tensor::FromStrings(Shape({rows}), views).value();
  for (auto _ : state) {
    auto parsed = parser->Parse(slab, nullptr);
    if (!parsed.ok()) state.SkipWithError(parsed.status().ToString().c_str());
    benchmark::DoNotOptimize(parsed);
  }
  state.SetItemsProcessed(state.iterations() * rows);
  state.SetBytesProcessed(state.iterations() * rows * static_cast<int64_t>(example.size()));
}

std::string Digit() {
  return wire::Example(wire::Entry("image", wire::Floats(std::vector<float>(64, 0.5f))) +
                       wire::Entry("label", wire::Int64s({7})));
}

void BM_ParseDigits(benchmark::State& state) {
  Parse(state,
        {{"image", DType::kFloat32, Shape({64}), nullptr},
         {"label", DType::kInt64, Shape(), nullptr}},
        Digit(), state.range(0));
}
BENCHMARK(BM_ParseDigits)->ArgName("rows")->Arg(1)->Arg(kSlabRows);

void BM_ParseImageOfIntegers(benchmark::State& state, DType dtype) {
  Parse(state, {{"image", dtype, Shape({784}), nullptr}},
        wire::Example(wire::Entry("image", wire::Int64s(std::vector<int64_t>(784, 100)))),
        kSlabRows);
}
BENCHMARK_CAPTURE(BM_ParseImageOfIntegers, int64, DType::kInt64);
BENCHMARK_CAPTURE(BM_ParseImageOfIntegers, uint8, DType::kUint8);

void BM_ParseTwelveScalars(benchmark::State& state) {
  std::vector<ExampleFeature> features;
  std::string entries;
  for (int i = 0; i < 12; ++i) {
    const std::string key = "feature_" + std::to_string(i * 7 % 12);
    features.push_back({key, DType::kInt64, Shape(), nullptr});
    entries += wire::Entry(key, wire::Int64s({i * 1000}));
  }
  Parse(state, std::move(features), wire::Example(entries), kSlabRows);
}
BENCHMARK(BM_ParseTwelveScalars);

}  // namespace
}  // namespace tutti
