#include "core/dataset/example/decode_csv.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "core/dataset/example/parse_sequence_example.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/testing/example_testing.h"
#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using wire::Part;

std::string TextOf(const Status& status) { return std::string(status.message()); }

class NativeParsers : public RecordFileDatasetTest {
 protected:
  // What it gives, or says; of what was written down and read, too.
  std::string Call(const Ref<Function>& function, const Ref<Tensor>& records) {
    std::string said;
    for (const bool read : {false, true}) {
      Ref<Function> called = function;
      if (read) {
        const FunctionDefinition definition = function->Define().value();
        called = datasets_->functions()->Make(definition).value();
        EXPECT_EQ(called->Define().value(), definition);
        for (size_t size = 0; size < definition.payload.size(); ++size) {
          FunctionDefinition part = definition;
          part.payload.resize(size);
          EXPECT_FALSE(datasets_->functions()->Make(part).ok()) << size;
        }
      }
      Context context(*environment_);
      Ref<Value> out;
      const Status status = called->Call(context, *Value::OfTensor(records), &out);
      const std::string now = status.ok() ? out->ToString() : TextOf(status);
      EXPECT_TRUE(!read || now == said) << now << "\n" << said;
      said = now;
      row_ = -1;
      if (const StatusDetail* row = status.FindDetail("row")) row_ = std::get<int64_t>(row->value);
    }
    return said;
  }

  static Ref<Tensor> Lines(std::vector<std::string> lines) {
    std::vector<BytesView> views;
    for (const std::string& line : lines) views.push_back({line.data(), line.size()});
    return Tensor::FromStrings(Shape({static_cast<int64_t>(lines.size())}), views).value();
  }

  static CsvFormat Format(std::vector<CsvColumn> columns) {
    CsvFormat format;
    format.columns = std::move(columns);
    return format;
  }
  // The texts of the fields of a record, or what is wrong with it.
  std::string Fields(const std::string& record, size_t count, CsvFormat format = {}) {
    for (size_t i = 0; i < count; ++i) {
      format.columns.push_back({"", DType::kBytes, Tensor::Bytes("-")});
    }
    return Call(MakeDecodeCsv(std::move(format)).value(), Tensor::Bytes(record));
  }

  int64_t row_ = -1;
};

using DecodeCsv = NativeParsers;

TEST_F(DecodeCsv, FieldsAreThoseOfRfc4180) {
  EXPECT_EQ(Fields("a,b c,", 3), "(\"a\", \"b c\", \"-\")");
  EXPECT_EQ(Fields("\"a,\n\"\"b\"\"\",\"\",c\r\n", 3),
            "(\"a,\\n\\\"b\\\"\", \"-\", \"c\")");
  EXPECT_EQ(Fields("\"\"", 1), "(\"-\",)");
  for (const char* line : {"", "\r\n"}) {
    EXPECT_THAT(Fields(line, 1), HasSubstr("decode_csv: it has 0 fields, expected 1"));
  }
  EXPECT_THAT(Fields("a,b", 3), HasSubstr("decode_csv: it has 2 fields, expected 3"));
  EXPECT_THAT(Fields("a,b,c", 2), HasSubstr("it has 3 fields, expected 2"));
  EXPECT_THAT(Fields("x,a\"b", 2), HasSubstr("field 1: it has a quote at byte 1"));
  EXPECT_THAT(Fields("\"a", 1), HasSubstr("field 0: it begins with a quote, and no quote ends it"));
  EXPECT_THAT(Fields("\"a\"b,", 2), HasSubstr("'b' follows where ',' or the end is due"));
  EXPECT_THAT(Fields("a\nb", 1), HasSubstr("line end"));
  CsvFormat format;
  format.field_delim = ";";
  format.use_quote_delim = false;
  format.na_value = "NA";
  EXPECT_EQ(Fields("\"a;NA;,", 3, format), "(\"\\\"a\", \"-\", \",\")");
}

TEST_F(DecodeCsv, NumbersAreReadAndDefaultsStandForNone) {
  const Ref<Function> decode =
      MakeDecodeCsv(Format({{"n", DType::kInt8, Tensor::Scalar<int64_t>(7)},
                            {"x", DType::kFloat32, nullptr}}))
          .value();
  EXPECT_EQ(Call(decode, Lines({"1,2.5", " -3 ,1e3", ",+4"})),
            "([1 -3 7], [2.5 1000 4])");
  EXPECT_EQ(Call(decode, Lines({"1,2", "300,1"})),
            "decode_csv: field 0 (\"n\") is '300', which is no int8");
  EXPECT_EQ(row_, 1);
  EXPECT_EQ(Call(decode, Lines({"1,"})),
            "decode_csv: field 1 (\"x\") is empty, and is required; give it a default");
  EXPECT_THAT(Call(decode, Lines({"1,a"})), HasSubstr("'a', which is no float32"));
  EXPECT_EQ(decode->OutputSpec(ElementSpec::OfTensor(DType::kBytes, PartialShape({-1})).get())
                .value()
                ->ToString(),
            "(int8[?], float32[?])");
  EXPECT_FALSE(decode->OutputSpec(ElementSpec::OfTensor(DType::kInt64, Shape()).get()).ok());
}

TEST_F(DecodeCsv, SomeFieldsAreSelected) {
  CsvFormat format = Format({{"", DType::kInt64, nullptr}, {"", DType::kInt64, nullptr}});
  format.select_cols = {1, 3};
  const Ref<Function> decode = MakeDecodeCsv(format).value();
  EXPECT_EQ(Call(decode, Lines({"a,1,b,2,c", "a,3,b,4"})), "([1 3], [2 4])");
  EXPECT_EQ(Call(decode, Lines({"a,1,b"})),
            "decode_csv: it has 3 fields, and field 3 is selected");
  // What stands behind the last of them is not looked at.
  EXPECT_EQ(Call(decode, Lines({"a,1,b,2,\"torn", "a,3,b,4,c\"d"})), "([1 3], [2 4])");
  format.select_cols = {3, 1};
  EXPECT_THAT(TextOf(MakeDecodeCsv(format).status()), HasSubstr("expected growing places"));
  format.select_cols = {3};
  EXPECT_THAT(TextOf(MakeDecodeCsv(format).status()), HasSubstr("1 places for 2 columns"));
}

TEST_F(DecodeCsv, WrongFormatsAreRefused) {
  const auto refused = [](CsvFormat format) {
    return TextOf(MakeDecodeCsv(std::move(format)).status());
  };
  EXPECT_THAT(refused({}), HasSubstr("there are no columns"));
  EXPECT_THAT(refused(Format({{"", DType::kBool, nullptr}})), HasSubstr("dtype bool"));
  EXPECT_THAT(refused(Format({{"a", DType::kInt64, Tensor::Vector<int64_t>({1})}})),
              HasSubstr("field 0 (\"a\") is int64[1]; expected a scalar"));
  EXPECT_THAT(refused(Format({{"", DType::kInt64, Tensor::Scalar<float>(0.5)}})),
              HasSubstr("the default of field 0"));
  CsvFormat format = Format({{"", DType::kBytes, nullptr}});
  for (const char* delim : {"", "ab", "\"", "\n"}) {
    format.field_delim = delim;
    EXPECT_THAT(refused(format), HasSubstr("expected one byte")) << delim;
  }
}

TEST_F(DecodeCsv, AFailingRecordIsNamedInADataset) {
  const Ref<Dataset> lines = Dataset::FromTensorSlices(
      datasets_, Value::OfTensor(Lines({"1", "b", "3"}))).value();
  const Ref<Function> decode = MakeDecodeCsv(Format({{"", DType::kInt64, nullptr}})).value();
  const Ref<Iterator> iterator = Iterate(lines->Map(decode).value());
  EXPECT_TRUE(iterator->Next(CallOptions()).ok());
  EXPECT_THAT(TextOf(iterator->Next(CallOptions()).status()),
              HasSubstr("map: element 1: decode_csv: field 0 is 'b'"));
  EXPECT_TRUE(iterator->Next(CallOptions()).ok());
}

// ---- SequenceExample

// A SequenceExample of one context entry and one feature list.
std::string Sequence(const std::string& context, const std::string& key,
                     const std::vector<std::string>& steps) {
  std::string list;
  for (const std::string& step : steps) list += Part(1, step);
  return Part(1, context) + Part(2, Part(1, Part(1, key) + Part(2, list)));
}

using ParseSequenceExample = NativeParsers;

TEST_F(ParseSequenceExample, GivesContextAndLists) {
  const Ref<Function> parse =
      MakeParseSequenceExample({{"id", DType::kInt64, Shape(), nullptr}},
                               {{"x", DType::kInt64, Shape({2}), nullptr}})
          .value();
  const std::string context = wire::Entry("id", wire::Int64s({7}));
  EXPECT_EQ(Call(parse, Tensor::Bytes(Sequence(context, "x", {wire::Int64s({1, 2}),
                                                             wire::Int64s({3, 4})}))),
            "({'id': 7}, {'x': [[1 2] [3 4]]})");
  EXPECT_EQ(Call(parse, Tensor::Bytes(Sequence(context, "x", {}))),
            "({'id': 7}, {'x': []})");
  EXPECT_THAT(Call(parse, Tensor::Bytes(Sequence(context, "x", {wire::Int64s({1, 2}),
                                                               wire::Int64s({3})}))),
              HasSubstr("parse_sequence_example: step 1 of feature list \"x\""));
  EXPECT_THAT(Call(parse, Tensor::Bytes(Sequence(context, "y", {}))),
              HasSubstr("feature list \"x\" is missing"));
  EXPECT_THAT(Call(parse, Tensor::Bytes(Sequence("", "x", {}))), HasSubstr("\"id\""));
  EXPECT_THAT(Call(parse, Tensor::Bytes(Part(1, context) + "\x12\x7f")), HasSubstr("at byte"));
  EXPECT_THAT(Call(parse, Lines({"", ""})), HasSubstr("call it before batch"));
  EXPECT_EQ(parse->OutputSpec(nullptr).value()->ToString(),
            "({'id': int64[]}, {'x': int64[?,2]})");
  EXPECT_FALSE(MakeParseSequenceExample({}, {}).ok());
}

TEST_F(ParseSequenceExample, AListWithADefaultMayBeMissing) {
  const Ref<Function> parse =
      MakeParseSequenceExample({}, {{"x", DType::kInt64, Shape(), Tensor::Scalar<int64_t>(5)}})
          .value();
  EXPECT_EQ(Call(parse, Tensor::Bytes(Sequence("", "x", {wire::Int64s({1}), ""}))),
            "({}, {'x': [1 5]})");
  EXPECT_EQ(Call(parse, Tensor::Bytes("")), "({}, {'x': []})");
}

}  // namespace
}  // namespace tutti
