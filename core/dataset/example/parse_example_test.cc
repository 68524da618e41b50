#include "core/dataset/example/parse_example.h"

#include <gmock/gmock.h>

#include <vector>

#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/example_testing.h"
#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using wire::Entry;
using wire::Example;
using wire::Int64s;

std::vector<ExampleFeature> Features() {
  const std::vector<BytesView> names = {{"a", 1}, {"bc", 2}};
  return {{"label", DType::kInt64, Shape(), nullptr},
          {"weight", DType::kFloat32, Shape({2}), Tensor::Vector<float>({0.5, 2})},
          {"names", DType::kBytes, Shape({2}), Tensor::FromStrings(Shape({2}), names).value()}};
}

std::string Digit(int label) { return Example(Entry("label", Int64s({label}))); }

class ParseExample : public RecordFileDatasetTest {
 protected:
  Ref<Value> Call(Function& function, const Ref<Tensor>& examples, Status* status = nullptr) {
    Context context(*environment_);
    Ref<Value> out;
    Status called = function.Call(context, *Value::OfTensor(examples), &out);
    if (status != nullptr) {
      *status = std::move(called);
    } else {
      EXPECT_TRUE(called.ok()) << called.ToString();
    }
    return out;
  }
};

TEST_F(ParseExample, KnowsItsSpecWithoutACall) {
  const Ref<Function> parse = MakeParseExample(Features()).value();
  const auto spec = [&](const PartialShape& shape) {
    return parse->OutputSpec(ElementSpec::OfTensor(DType::kBytes, shape).get()).value()->ToString();
  };
  EXPECT_EQ(spec(Shape()), "{'label': int64[], 'names': bytes[2], 'weight': float32[2]}");
  EXPECT_EQ(spec(PartialShape({-1})),
            "{'label': int64[?], 'names': bytes[?,2], 'weight': float32[?,2]}");
  EXPECT_EQ(parse->granularity(), Granularity::kEither);
  EXPECT_FALSE(parse->calls_host());
  const Status status =
      parse->OutputSpec(ElementSpec::OfTensor(DType::kInt64, Shape()).get()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("should be serialised examples"));
}

TEST_F(ParseExample, IsTheSameFunctionAfterBeingWrittenDown) {
  const Ref<Function> parse = MakeParseExample(Features()).value();
  const FunctionDefinition definition = parse->Define().value();
  EXPECT_EQ(definition.kind, "parse_example");
  const Result<Ref<Function>> again = datasets_->functions()->Make(definition);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again.value()->Define().value(), definition);
  EXPECT_TRUE(Call(*again.value(), Tensor::Bytes(Digit(7)))
                  ->ContentsEqual(*Call(*parse, Tensor::Bytes(Digit(7)))));
}

TEST_F(ParseExample, RefusesDefinitionsThatAreNone) {
  const std::string good = MakeParseExample(Features()).value()->Define().value().payload;
  EXPECT_EQ(ReadParseExample("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadParseExample(good + "x").status().code(), StatusCode::kInvalidArgument);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(ReadParseExample(good.substr(0, i)).ok()) << i;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0xff);
    const Result<Ref<Function>> read = ReadParseExample(bad);
    if (read.ok()) {
      EXPECT_NE((*read)->Define().value().payload, good);
    }
  }
}

TEST_F(ParseExample, MapsRecordsByRowAndByBatch) {
  std::vector<std::string> records;
  for (int i = 0; i < 10; ++i) records.push_back(Digit(i));
  const std::vector<std::string> paths = {folder_.Write("a", TfRecordFrames(records))};
  const Ref<Dataset> source = MakeTfRecordDataset(datasets_, paths, {}).value();
  const Ref<Function> parse = MakeParseExample(Features()).value();
  const Ref<Dataset> by_row = source->Map(parse).value()->Batch(4).value();
  const Ref<Dataset> by_batch = source->Batch(4).value()->Map(parse).value();
  EXPECT_EQ(by_row->known_element_spec()->ToString(), by_batch->known_element_spec()->ToString());
  const Ref<Iterator> rows = Iterate(by_row);
  const Ref<Iterator> batches = Iterate(by_batch);
  for (int i = 0; i < 3; ++i) {
    const Ref<Value> row = rows->Next(CallOptions()).value();
    const Ref<Value> batch = batches->Next(CallOptions()).value();
    ASSERT_NE(row, nullptr);
    EXPECT_TRUE(row->ContentsEqual(*batch));
    EXPECT_EQ(batch->Find("label").value()->AsTensor()->dim(0), i < 2 ? 4 : 2);
    EXPECT_EQ(batch->Find("label").value()->AsTensor()->span<int64_t>()[1], 4 * i + 1);
  }
  EXPECT_EQ(rows->Next(CallOptions()).value(), nullptr);
}

TEST_F(ParseExample, ABadRecordIsOneErrorThatNamesTheElement) {
  const std::vector<std::string> paths = {
      folder_.Write("a", TfRecordFrames({Digit(0), Digit(1), "junk", Digit(3)}))};
  const Ref<Dataset> dataset = MakeTfRecordDataset(datasets_, paths, {})
                                   .value()
                                   ->Map(MakeParseExample(Features()).value())
                                   .value();
  const Ref<Iterator> iterator = Iterate(dataset);
  std::vector<int64_t> labels;
  std::vector<Status> errors;
  for (;;) {
    const Result<Ref<Value>> element = iterator->Next(CallOptions());
    if (!element.ok()) {
      errors.push_back(element.status());
      ASSERT_LT(errors.size(), 10u);
      continue;
    }
    if (element.value() == nullptr) break;
    labels.push_back(element.value()->Find("label").value()->AsTensor()->item<int64_t>());
  }
  EXPECT_THAT(labels, ::testing::ElementsAre(0, 1, 3));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(errors[0].message()),
              AllOf(HasSubstr("element 2"), HasSubstr("parse_example: malformed at byte")));
  EXPECT_EQ(Detail<int64_t>(errors[0], "index"), 2);
}

TEST_F(ParseExample, IsSerialisedWithADataset) {
  const std::vector<std::string> paths = {folder_.Write("a", TfRecordFrames({Digit(5)}))};
  const Ref<Dataset> dataset = MakeTfRecordDataset(datasets_, paths, {})
                                   .value()
                                   ->Map(MakeParseExample(Features()).value())
                                   .value();
  const Result<std::string> bytes = dataset->Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const Result<Ref<Dataset>> again = Dataset::Deserialize(datasets_, *bytes);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  const Ref<Value> element = Iterate(again.value())->Next(CallOptions()).value();
  EXPECT_EQ(element->Find("label").value()->AsTensor()->item<int64_t>(), 5);
}

TEST_F(ParseExample, RefusesAnotherVersionOfItsDefinition) {
  std::string definition = MakeParseExample(Features()).value()->Define().value().payload;
  StateWriter now;
  now.Section("parse_example");
  const size_t head = now.bytes().size();
  now.Int(1);
  ASSERT_EQ(definition.substr(0, now.bytes().size()), now.bytes());
  StateWriter later;
  later.Int(3);
  definition.replace(head, later.bytes().size(), later.bytes());
  const Status refused = ReadParseExample(definition).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "deserialize: this definition has parse_example in version 3, and version 2 is known "
            "here; read it with the release that wrote it");
}

TEST_F(ParseExample, TakesTensorsOnly) {
  const Ref<Function> parse = MakeParseExample(Features()).value();
  Status status;
  Call(*parse, Tensor::Scalar<int64_t>(1), &status);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  Context context(*environment_);
  Ref<Value> out;
  status = parse->Call(context, *Value::None(), &out);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(out, nullptr);
}

}  // namespace
}  // namespace tutti
