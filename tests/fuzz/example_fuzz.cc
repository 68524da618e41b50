// Any bytes as a tf.train.Example: its features or INVALID_ARGUMENT, and the same as a row among
// others, which are what they are without it.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/dataset/example/example_parser.h"
#include "core/tensor/tensor.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

std::unique_ptr<const ExampleParser> MakeParser(bool has_defaults) {
  std::vector<ExampleFeature> features = {{"i", DType::kInt64, Shape({2}), nullptr},
                                          {"f", DType::kFloat32, Shape(), nullptr},
                                          {"s", DType::kBytes, Shape(), nullptr},
                                          {"b", DType::kUint8, Shape({1}), nullptr}};
  if (has_defaults) {
    features[0].default_value = Tensor::Vector<int64_t>({1, 2});
    features[1].default_value = Tensor::Scalar<float>(1.5f);
    features[2].default_value = Tensor::Bytes("none");
    features[3].default_value = Tensor::Vector<uint8_t>({3});
  }
  return ExampleParser::Create(std::move(features)).value();
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  static const std::unique_ptr<const ExampleParser> parsers[] = {MakeParser(false),
                                                                 MakeParser(true)};
  if (size == 0) return 0;
  const ExampleParser& parser = *parsers[data[0] % 2];
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const Result<Ref<Value>> alone = parser.Parse(Tensor::Bytes(bytes), nullptr);
  Require(alone.ok() || alone.status().code() == StatusCode::kInvalidArgument,
          "what is no example is INVALID_ARGUMENT");
  const std::string row(bytes);
  const BytesView view{row.data(), row.size()};
  const std::vector<BytesView> rows = {view, view};
  const Result<Ref<Value>> twice =
      parser.Parse(Tensor::FromStrings(Shape({2}), rows).value(), nullptr);
  Require(twice.ok() == alone.ok(), "an example is one in a batch, too");
  if (!alone.ok()) return 0;
  for (size_t leaf = 0; leaf < (*alone)->num_leaves(); ++leaf) {
    const Tensor& one = (*alone)->leaf(leaf).tensor();
    for (int64_t i = 0; i < 2; ++i) {
      const Ref<Tensor> same = (*twice)->leaf(leaf).tensor().Slice(i, i + 1);
      Require(same->ContentsEqual(*one.ExpandFront()), "and has the same features there");
    }
  }
  return 0;
}
