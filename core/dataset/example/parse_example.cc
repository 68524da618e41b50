#include "core/dataset/example/parse_example.h"

#include <memory>
#include <string>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"
#include "core/tensor/element_spec.h"

namespace tutti {
namespace {

constexpr std::string_view kKind = "parse_example";
constexpr int64_t kFormatVersion = 1;
// Of one with features that are not of a fixed number of values.
constexpr int64_t kVariableVersion = 2;

class ParseExample final : public Function {
 public:
  explicit ParseExample(std::unique_ptr<const ExampleParser> parser)
      : Function(std::string(kKind)), parser_(std::move(parser)) {}

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const Tensor> examples, in.GetTensor(kKind));
    TUTTI_ASSIGN_OR_RETURN(*out, parser_->Parse(examples, &context.environment().memory()));
    return OkStatus();
  }

  // Rows of a slab have as many values each.
  Granularity granularity() const override {
    return parser_->is_fixed() ? Granularity::kEither : Granularity::kRow;
  }
  bool calls_host() const override { return false; }

  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override {
    PartialShape outer;
    if (input != nullptr) {
      const bool fits = input->tree().is_leaf() && input->leaf(0).is_tensor() &&
                        input->leaf(0).dtype == DType::kBytes;
      if (!fits) {
        return InvalidArgument(
            "parse_example: the input should be serialised examples (bytes) and "
            "is {}",
            input->ToString());
      }
      outer = input->leaf(0).shape;
    }
    return parser_->OutputSpec(outer);
  }

  Result<FunctionDefinition> Define() const override {
    StateWriter writer;
    writer.Section(kKind);
    writer.Int(parser_->is_fixed() ? kFormatVersion : kVariableVersion);
    writer.Int(static_cast<int64_t>(parser_->features().size()));
    for (const ExampleFeature& feature : parser_->features()) {
      writer.Bytes(feature.key);
      writer.Int(static_cast<int64_t>(feature.dtype));
      writer.Ints(feature.shape.dims());
      if (!parser_->is_fixed()) writer.Int(static_cast<int64_t>(feature.kind));
      writer.Int(feature.default_value != nullptr);
      if (feature.default_value != nullptr) WriteDefault(*feature.default_value, &writer);
    }
    return FunctionDefinition{std::string(kKind), writer.bytes()};
  }

 private:
  static void WriteDefault(const Tensor& value, StateWriter* writer) {
    if (value.dtype() == DType::kBytes) {
      for (const BytesView& view : value.span<BytesView>()) writer->Bytes(view.text());
      return;
    }
    writer->Bytes({static_cast<const char*>(value.data()), value.byte_size()});
  }

  const std::unique_ptr<const ExampleParser> parser_;
};

Result<Ref<Tensor>> ReadDefault(DType dtype, const Shape& shape, StateReader* reader) {
  if (dtype != DType::kBytes) {
    const std::string_view bytes = reader->Bytes();
    return Tensor::FromData(dtype, shape, bytes.data(), bytes.size());
  }
  std::vector<BytesView> views;
  for (int64_t i = 0; i < shape.num_elements() && reader->ok(); ++i) {
    const std::string_view bytes = reader->Bytes();
    views.push_back({bytes.data(), bytes.size()});
  }
  TUTTI_RETURN_IF_ERROR(reader->status());
  return Tensor::FromStrings(shape, views);
}

Result<ExampleFeature> ReadFeature(int64_t version, StateReader* reader) {
  ExampleFeature feature;
  feature.key = std::string(reader->Bytes());
  feature.dtype = static_cast<DType>(reader->IntIn(0, INT32_MAX));
  const std::vector<int64_t> dims = reader->Ints();
  if (version == kVariableVersion) feature.kind = static_cast<FeatureKind>(reader->IntIn(0, 3));
  const bool has_default = reader->IntIn(0, 1) != 0;
  if (reader->ok() && !IsValid(feature.dtype)) reader->Fail("there is no such dtype");
  TUTTI_RETURN_IF_ERROR(reader->status());
  TUTTI_ASSIGN_OR_RETURN(feature.shape, Shape::Create(dims.data(), dims.size()));
  if (has_default) {
    TUTTI_ASSIGN_OR_RETURN(feature.default_value,
                           ReadDefault(feature.dtype,
                                       feature.kind == FeatureKind::kFixed ? feature.shape
                                                                           : Shape(),
                                       reader));
  }
  return feature;
}

}  // namespace

Result<Ref<Function>> MakeParseExample(std::vector<ExampleFeature> features) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<const ExampleParser> parser,
                         ExampleParser::Create(std::move(features)));
  return Ref<Function>(MakeRef<ParseExample>(std::move(parser)));
}

Result<std::vector<ExampleFeature>> ReadParseExampleFeatures(std::string_view payload) {
  StateReader reader(payload);
  reader.Section(kKind);
  const int64_t version = reader.Int();
  if (reader.ok() && version != kFormatVersion && version != kVariableVersion) {
    return InvalidArgument(
               "deserialize: this definition has parse_example in version {}, and version {} is "
               "known here; read it with the release that wrote it",
               version, kVariableVersion)
        .With("version", version);
  }
  const int64_t count = reader.IntIn(1, INT64_MAX);
  std::vector<ExampleFeature> features;
  for (int64_t i = 0; i < count && reader.ok(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(ExampleFeature feature, ReadFeature(version, &reader));
    features.push_back(std::move(feature));
  }
  if (reader.ok() && !reader.at_end()) reader.Fail("there are bytes behind its end");
  if (!reader.ok()) {
    return Status(reader.status()).WithPrefix("parse_example: these bytes are no definition of it");
  }
  return features;
}

Result<Ref<Function>> ReadParseExample(std::string_view payload) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<ExampleFeature> features, ReadParseExampleFeatures(payload));
  return MakeParseExample(std::move(features));
}

Status AddParseExampleKind(FunctionRegistry* functions) {
  return functions->AddKind(std::string(kKind), ReadParseExample);
}

}  // namespace tutti
