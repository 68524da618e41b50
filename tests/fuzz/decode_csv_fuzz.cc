// Any bytes as a record of comma-separated values: its columns or INVALID_ARGUMENT, and the same as
// a row among others. Without quotes fields are what lies between delimiters; what was read is read
// again when it is written as RFC 4180 has it. And any bytes as the definition of the function.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/example/decode_csv.h"
#include "core/function/context.h"
#include "core/function/function.h"
#include "core/tensor/tensor.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

Environment& World() {
  static const auto& environment = *new Ref<RealEnvironment>(MakeRef<RealEnvironment>());
  return *environment;
}

// The forms that the first byte of an input chooses from.
CsvFormat FormatOf(uint8_t which) {
  CsvFormat format;
  const bool has_defaults = (which & 1) != 0;
  format.use_quote_delim = (which & 2) == 0;
  if ((which & 4) != 0) format.field_delim = ";";
  if ((which & 8) != 0) format.na_value = "na";
  if ((which & 16) != 0) format.select_cols = {0, 2, 5};
  const auto add = [&](const char* name, DType dtype, Ref<const Tensor> otherwise) {
    format.columns.push_back({name, dtype, has_defaults ? std::move(otherwise) : nullptr});
  };
  if ((which & 32) != 0) {
    for (int i = 0; i < 3; ++i) add("", DType::kBytes, Tensor::Bytes(""));
    return format;
  }
  add("number", (which & 64) != 0 ? DType::kUint8 : DType::kInt64, Tensor::Scalar<int64_t>(7));
  add("text", DType::kBytes, Tensor::Bytes("none"));
  add("weight", (which & 64) != 0 ? DType::kFloat16 : DType::kFloat64, Tensor::Scalar<float>(.5f));
  return format;
}

Result<Ref<Value>> Decode(Function& function, const Ref<Tensor>& records) {
  Context context(World());
  Ref<Value> out;
  const Status status = function.Call(context, *Value::OfTensor(records), &out);
  Require(status.ok() || status.code() == StatusCode::kInvalidArgument,
          "what does not fit is INVALID_ARGUMENT");
  Require(status.ok() == static_cast<bool>(out), "columns or a status");
  if (!status.ok()) return status;
  return out;
}

std::string_view TextAt(const Value& columns, size_t i) {
  return columns.leaf(i).tensor().item<BytesView>().text();
}

// Three fields that stand as they are, where there are no quotes and no line ends inside.
void RequireSplit(const CsvFormat& format, std::string_view record, const Value& columns) {
  while (!record.empty() && (record.back() == '\n' || record.back() == '\r')) {
    record.remove_suffix(1);
  }
  for (size_t i = 0; i < 3; ++i) {
    const size_t end = record.find(format.field_delim);
    const std::string_view field = record.substr(0, end);
    // What is missing has the default, which is empty.
    Require(TextAt(columns, i) == (field == format.na_value ? "" : field),
            "fields lie between delimiters");
    Require((end == std::string_view::npos) == (i == 2), "there are as many fields as columns");
    if (i < 2) record.remove_prefix(end + 1);
  }
}

// Each field in quotes.
std::string Quoted(const CsvFormat& format, const Value& columns) {
  std::string record;
  for (size_t i = 0; i < columns.num_leaves(); ++i) {
    if (i > 0) record += format.field_delim;
    record += '"';
    for (const char byte : TextAt(columns, i)) record += std::string(byte == '"' ? 2 : 1, byte);
    record += '"';
  }
  return record;
}

void DecodeRecord(uint8_t which, std::string_view bytes) {
  const CsvFormat format = FormatOf(which);
  const Ref<Function> function = MakeDecodeCsv(format).value();
  const Result<Ref<Value>> alone = Decode(*function, Tensor::Bytes(bytes));
  const BytesView view{bytes.data(), bytes.size()};
  const std::vector<BytesView> rows = {view, view};
  const Result<Ref<Value>> twice =
      Decode(*function, Tensor::FromStrings(Shape({2}), rows).value());
  Require(twice.ok() == alone.ok(), "a record is one in a batch, too");
  if (!alone.ok()) return;
  for (size_t leaf = 0; leaf < (*alone)->num_leaves(); ++leaf) {
    const Ref<Tensor> one = (*alone)->leaf(leaf).tensor().ExpandFront();
    for (int64_t i = 0; i < 2; ++i) {
      Require((*twice)->leaf(leaf).tensor().Slice(i, i + 1)->ContentsEqual(*one),
              "and has the same columns there");
    }
  }
  const bool all_texts = (which & 32) != 0 && (which & 16) == 0;
  if (!all_texts) return;
  if (!format.use_quote_delim) return RequireSplit(format, bytes, **alone);
  // What is empty, or stands for a missing value, is read as that again.
  for (size_t i = 0; i < 3; ++i) {
    const std::string_view text = TextAt(**alone, i);
    if ((which & 1) == 0 && (text.empty() || text == format.na_value)) return;
  }
  const Result<Ref<Value>> again = Decode(*function, Tensor::Bytes(Quoted(format, **alone)));
  Require(again.ok(), "what was read is read again");
  for (size_t i = 0; i < 3; ++i) {
    Require(TextAt(**again, i) == TextAt(**alone, i), "and is the same");
  }
}

void ReadDefinition(std::string_view bytes) {
  const Result<Ref<Function>> read = ReadDecodeCsv(bytes);
  if (!read.ok()) {
    Require(read.status().code() == StatusCode::kInvalidArgument,
            "what is no definition is INVALID_ARGUMENT");
    return;
  }
  const std::string written = (*read)->Define().value().payload;
  const Result<Ref<Function>> again = ReadDecodeCsv(written);
  Require(again.ok(), "a definition is read again");
  Require((*again)->Define().value().payload == written, "and then written the same");
  (void)Decode(**read, Tensor::Bytes("1,two,\"3\""));
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] >= 128) {
    tutti::ReadDefinition(bytes);
  } else {
    tutti::DecodeRecord(data[0], bytes);
  }
  return 0;
}
