// The context stands in field 1, as the features of an Example do, so that its parser reads it. A
// feature list is a column of which each step is what an Example is elsewhere.
#include "core/dataset/example/parse_sequence_example.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/example/example_column.h"
#include "core/dataset/example/example_wire.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/example/variable_feature.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"
#include "core/tensor/element_spec.h"

namespace tutti {
namespace {

constexpr std::string_view kSequenceKind = "parse_sequence_example";
constexpr int64_t kSequenceVersion = 1;

using FeatureLists = std::map<std::string_view, std::string_view>;

// The FeatureList messages by key; of several entries with one key the last one counts.
bool FindLists(WireReader* reader, FeatureLists* lists) {
  WireTag tag;
  while (reader->Next(&tag)) {
    if (!tag.Is(2, WireType::kLengthDelimited)) {
      if (!reader->Skip(tag)) return false;
      continue;
    }
    std::string_view part;
    if (!reader->ReadPart(&part)) return false;
    WireReader entries(part);
    WireTag entry_tag;
    while (entries.Next(&entry_tag)) {
      std::string_view entry_bytes;
      if (!entry_tag.Is(1, WireType::kLengthDelimited)) {
        if (!entries.Skip(entry_tag)) break;
        continue;
      }
      if (!entries.ReadPart(&entry_bytes)) break;
      WireReader entry(entry_bytes);
      std::string_view key;
      std::string_view list;
      WireTag field;
      while (entry.Next(&field)) {
        const bool is_key = field.Is(1, WireType::kLengthDelimited);
        if (!is_key && !field.Is(2, WireType::kLengthDelimited)) {
          if (!entry.Skip(field)) break;
        } else if (!entry.ReadPart(is_key ? &key : &list)) {
          break;
        }
      }
      if (entry.failed()) {
        *reader = entry;
        return false;
      }
      (*lists)[key] = list;
    }
    if (entries.failed()) {
      *reader = entries;
      return false;
    }
  }
  return !reader->failed();
}

Status MalformedSequence(const WireReader& reader, std::string_view bytes) {
  const int64_t offset = reader.position() - bytes.data();
  return InvalidArgument("the bytes are no SequenceExample: {} at byte {}", reader.error(), offset)
      .With("offset", offset);
}

// The Feature messages of a FeatureList.
bool FindSteps(WireReader* list, std::vector<std::string_view>* steps) {
  WireTag tag;
  while (list->Next(&tag)) {
    std::string_view part;
    if (!tag.Is(1, WireType::kLengthDelimited)) {
      if (!list->Skip(tag)) return false;
      continue;
    }
    if (!list->ReadPart(&part)) return false;
    steps->push_back(part);
  }
  return !list->failed();
}

class ParseSequenceExample final : public Function {
 public:
  ParseSequenceExample(std::unique_ptr<const ExampleParser> context,
                       std::unique_ptr<const ExampleParser> lists)
      : Function(std::string(kSequenceKind)),
        context_(std::move(context)),
        lists_(std::move(lists)) {}

  Granularity granularity() const override { return Granularity::kRow; }
  bool calls_host() const override { return false; }

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const Tensor> example, in.GetTensor(kSequenceKind));
    if (example->dtype() != DType::kBytes || example->rank() != 0) return WrongInput(
        example->SpecString());
    MemoryAccount* const account = &context.environment().memory();
    Ref<Value> of_context = NoFeatures();
    if (context_) {
      Result<Ref<Value>> parsed = context_->Parse(example, account);
      if (!parsed.ok()) return parsed.status().WithPrefix(kSequenceKind);
      of_context = std::move(parsed).value();
    }
    Ref<Value> of_lists = NoFeatures();
    if (lists_) {
      Result<Ref<Value>> parsed = ParseLists(example, account);
      if (!parsed.ok()) return parsed.status().WithPrefix(kSequenceKind);
      of_lists = std::move(parsed).value();
    }
    *out = Value::Tuple({std::move(of_context), std::move(of_lists)});
    return OkStatus();
  }

  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override {
    if (input != nullptr) {
      const bool fits = input->tree().is_leaf() && input->leaf(0).is_tensor() &&
                        input->leaf(0).dtype == DType::kBytes &&
                        input->leaf(0).shape.IsCompatibleWith(PartialShape::Scalar());
      if (!fits) return WrongInput(input->ToString());
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> context,
                           SpecOf(context_.get(), PartialShape::Scalar()));
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> lists,
                           SpecOf(lists_.get(), PartialShape({PartialShape::kUnknownDim})));
    const Ref<const ElementSpec> parts[] = {context, lists};
    return ElementSpec::Tuple(parts);
  }

  // Each half is written as parse_example writes it.
  Result<FunctionDefinition> Define() const override {
    StateWriter writer;
    writer.Section(kSequenceKind);
    writer.Int(kSequenceVersion);
    for (const ExampleParser* half : {context_.get(), lists_.get()}) {
      writer.Int(half != nullptr);
      if (half == nullptr) continue;
      TUTTI_ASSIGN_OR_RETURN(const Ref<Function> written, MakeParseExample(half->features()));
      TUTTI_ASSIGN_OR_RETURN(const FunctionDefinition definition, written->Define());
      writer.Bytes(definition.payload);
    }
    return FunctionDefinition{std::string(kSequenceKind), writer.bytes()};
  }

 private:
  static Ref<Value> NoFeatures() { return Value::Dict({}).value(); }

  static Status WrongInput(const std::string& given) {
    return InvalidArgument("parse_sequence_example: the input should be one serialised "
                           "SequenceExample (bytes, a scalar) and is {}; call it before batch",
                           given);
  }

  static Result<Ref<const ElementSpec>> SpecOf(const ExampleParser* half,
                                               const PartialShape& outer) {
    if (half == nullptr) {
      TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> none, TreeSpec::Dict({}, {}));
      return ElementSpec::Create(std::move(none), {});
    }
    return half->OutputSpec(outer);
  }

  Result<Ref<Value>> ParseLists(const Ref<const Tensor>& example, MemoryAccount* account) const {
    const std::string_view bytes = example->span<BytesView>()[0].text();
    FeatureLists lists;
    WireReader reader(bytes);
    if (!FindLists(&reader, &lists)) return MalformedSequence(reader, bytes);
    std::vector<Leaf> leaves;
    for (const ExampleFeature& feature : lists_->features()) {
      const auto found = lists.find(feature.key);
      if (found == lists.end() && IsRequired(feature)) {
        return InvalidArgument("feature list {} is missing, and is required; give it a default",
                               Quote(feature.key))
            .With("feature", feature.key);
      }
      std::vector<std::string_view> steps;
      if (found != lists.end()) {
        WireReader list(found->second);
        if (!FindSteps(&list, &steps)) return MalformedSequence(list, bytes);
      }
      TUTTI_ASSIGN_OR_RETURN(const Ref<Value> part, ParseList(feature, steps, example, account));
      leaves.insert(leaves.end(), part->leaves().begin(), part->leaves().end());
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> spec,
                           lists_->OutputSpec(PartialShape({PartialShape::kUnknownDim})));
    return Value::FromLeaves(spec->tree_ref(), std::move(leaves));
  }

  static bool IsRequired(const ExampleFeature& feature) {
    return feature.kind == FeatureKind::kFixed && feature.default_value == nullptr;
  }

  static Result<Ref<Value>> ParseList(const ExampleFeature& feature,
                                      const std::vector<std::string_view>& steps,
                                      const Ref<const Tensor>& example, MemoryAccount* account) {
    const std::string_view bytes = example->span<BytesView>()[0].text();
    ExampleColumn column(feature);
    const Shape outer({static_cast<int64_t>(steps.size())});
    TUTTI_RETURN_IF_ERROR(column.Allocate(outer, account));
    for (size_t step = 0; step < steps.size(); ++step) {
      column.BeginExample();
      WireReader reader(steps[step]);
      if (!column.AddFeature(&reader)) return MalformedSequence(reader, bytes);
      Status status = column.empty() && IsRequired(feature) ? NoValues() : column.EndExample();
      if (!status.ok()) {
        return std::move(status)
            .WithPrefix(Format("step {} of feature list {}", step, Quote(feature.key)))
            .With("step", step);
      }
    }
    if (feature.kind != FeatureKind::kFixed) {
      return PartOfColumn(&column, outer, example, bytes.size(), account);
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, column.Finish(example, bytes.size()));
    return Value::OfTensor(std::move(tensor));
  }

  static Status NoValues() {
    return InvalidArgument("there are no values, and the feature is required; give it a default, "
                           "which stands for steps without values, or a kind of any length");
  }

  const std::unique_ptr<const ExampleParser> context_;  // null: no features
  const std::unique_ptr<const ExampleParser> lists_;
};

}  // namespace

Result<Ref<Function>> MakeParseSequenceExample(std::vector<ExampleFeature> context,
                                               std::vector<ExampleFeature> lists) {
  if (context.empty() && lists.empty()) {
    return InvalidArgument("parse_sequence_example: there are no features; name at least one");
  }
  std::unique_ptr<const ExampleParser> halves[2];
  std::vector<ExampleFeature>* const features[] = {&context, &lists};
  for (size_t i = 0; i < 2; ++i) {
    if (features[i]->empty()) continue;
    Result<std::unique_ptr<const ExampleParser>> made =
        ExampleParser::Create(std::move(*features[i]));
    if (!made.ok()) return made.status().WithPrefix(kSequenceKind);
    halves[i] = std::move(made).value();
  }
  if (halves[1] != nullptr) {
    for (const ExampleFeature& feature : halves[1]->features()) {
      if (feature.kind != FeatureKind::kSequence) continue;
      return InvalidArgument("parse_sequence_example: feature list {} is a sequence of sequences; "
                             "expected fixed with the shape of one step, var_len, or ragged",
                             Quote(feature.key))
          .With("feature", feature.key);
    }
  }
  return Ref<Function>(
      MakeRef<ParseSequenceExample>(std::move(halves[0]), std::move(halves[1])));
}

Result<Ref<Function>> ReadParseSequenceExample(std::string_view payload) {
  StateReader reader(payload);
  reader.Section(kSequenceKind);
  reader.Version(kSequenceKind, kSequenceVersion);
  std::vector<ExampleFeature> halves[2];
  for (std::vector<ExampleFeature>& half : halves) {
    if (reader.IntIn(0, 1) == 0 || !reader.ok()) continue;
    const std::string_view written = reader.Bytes();
    if (!reader.ok()) break;
    TUTTI_ASSIGN_OR_RETURN(half, ReadParseExampleFeatures(written));
  }
  if (reader.ok() && !reader.at_end()) reader.Fail("there are bytes behind its end");
  if (!reader.ok()) {
    return Status(reader.status())
        .WithPrefix("parse_sequence_example: these bytes are no definition of it");
  }
  return MakeParseSequenceExample(std::move(halves[0]), std::move(halves[1]));
}

Status AddParseSequenceExampleKind(FunctionRegistry* functions) {
  return functions->AddKind(std::string(kSequenceKind), ReadParseSequenceExample);
}

}  // namespace tutti
