// One pass over a record finds its fields, of which quoted ones with doubled quotes are unquoted
// into a store of their own; every other field is a view. Columns are filled record by record.
#include "core/dataset/example/decode_csv.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/slab.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"
#include "core/tensor/cast.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_spec.h"

namespace tutti {
namespace {

constexpr std::string_view kCsvKind = "decode_csv";
constexpr int64_t kCsvVersion = 1;

bool IsCsvNumber(DType dtype) { return IsInteger(dtype) || IsFloating(dtype); }

// "field 2 ("price")".
std::string FieldText(int64_t place, const CsvColumn& column) {
  return column.name.empty() ? Format("field {}", place)
                             : Format("field {} ({})", place, Quote(column.name));
}

// Finds the fields of a record.
class CsvFields {
 public:
  // `store` keeps what is unquoted.
  CsvFields(const CsvFormat& format, std::string_view record, std::deque<std::string>* store)
      : format_(format), rest_(record), store_(store) {
    // The end of the line itself.
    while (!rest_.empty() && (rest_.back() == '\n' || rest_.back() == '\r')) rest_.remove_suffix(1);
    done_ = rest_.empty();  // a line without anything has no field, not an empty one
  }

  // False at the end. INVALID_ARGUMENT for quotes that do not fit.
  Result<bool> Next(std::string_view* field) {
    if (done_) return false;
    if (format_.use_quote_delim && !rest_.empty() && rest_[0] == '"') {
      TUTTI_RETURN_IF_ERROR(Quoted(field));
    } else {
      const size_t end = rest_.find(delim());
      *field = rest_.substr(0, end);
      rest_.remove_prefix(field->size());
      const size_t wrong = format_.use_quote_delim ? field->find_first_of("\"\r\n")
                                                   : field->find_first_of("\r\n");
      if (wrong != std::string_view::npos) {
        return InvalidArgument("it has a {} at byte {} and does not stand in quotes",
                               (*field)[wrong] == '"' ? "quote" : "line end", wrong);
      }
    }
    done_ = rest_.empty();
    if (!done_) rest_.remove_prefix(1);  // the delimiter; what follows is a field, if an empty one
    return true;
  }

 private:
  char delim() const { return format_.field_delim[0]; }

  Status Quoted(std::string_view* field) {
    const std::string_view body = rest_.substr(1);
    std::string unquoted;
    bool is_view = true;
    size_t at = 0;
    for (;;) {
      const size_t quote = body.find('"', at);
      if (quote == std::string_view::npos) {
        return InvalidArgument("it begins with a quote, and no quote ends it");
      }
      if (quote + 1 < body.size() && body[quote + 1] == '"') {
        is_view = false;
        unquoted.append(body.substr(at, quote + 1 - at));
        at = quote + 2;
        continue;
      }
      if (quote + 1 < body.size() && body[quote + 1] != delim()) {
        return InvalidArgument("a quote ends it, and '{}' follows where '{}' or the end is due",
                               body.substr(quote + 1, 1), format_.field_delim);
      }
      if (is_view) {
        *field = body.substr(0, quote);
      } else {
        unquoted.append(body.substr(at, quote - at));
        *field = store_->emplace_back(std::move(unquoted));
      }
      rest_ = body.substr(quote + 1);
      return OkStatus();
    }
  }

  const CsvFormat& format_;
  std::string_view rest_;
  bool done_ = false;
  std::deque<std::string>* const store_;
};

template <class T>
bool ParseCsvNumber(std::string_view text, DType dtype, void* to) {
  T value{};
  if (!ReadNumber(text, &value)) return false;
  CastElements(DTypeOf<T>, &value, dtype, to, 1);
  if constexpr (std::is_integral_v<T>) {
    T back = 0;
    CastElements(dtype, to, DTypeOf<T>, &back, 1);
    return back == value;
  }
  return true;
}

bool ParseCsvField(std::string_view text, DType dtype, void* to) {
  if (dtype == DType::kUint64) return ParseCsvNumber<uint64_t>(text, dtype, to);
  if (IsInteger(dtype)) return ParseCsvNumber<int64_t>(text, dtype, to);
  if (dtype == DType::kFloat64) return ParseCsvNumber<double>(text, dtype, to);
  return ParseCsvNumber<float>(text, dtype, to);
}

// A column while it is filled.
struct CsvOutput {
  Ref<Tensor> tensor;             // of numbers
  std::vector<BytesView> views;   // of bytes
};

class DecodeCsv final : public Function {
 public:
  explicit DecodeCsv(CsvFormat format)
      : Function(std::string(kCsvKind)), format_(std::move(format)) {}

  Granularity granularity() const override { return Granularity::kEither; }
  bool calls_host() const override { return false; }

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const Tensor> given, in.GetTensor(kCsvKind));
    if (given->dtype() != DType::kBytes) {
      return InvalidArgument("decode_csv: the input should be records (bytes) and is {}",
                             given->SpecString());
    }
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Tensor> records,
        Ref<Tensor>::Retain(const_cast<Tensor*>(given.get()))->Contiguous());
    MemoryAccount* const account = &context.environment().memory();
    std::vector<CsvOutput> outputs(format_.columns.size());
    TensorOptions options;
    options.account = account;
    const std::span<const BytesView> texts = std::as_const(*records).span<BytesView>();
    for (size_t c = 0; c < outputs.size(); ++c) {
      if (format_.columns[c].dtype == DType::kBytes) {
        outputs[c].views.resize(texts.size());
      } else {
        TUTTI_ASSIGN_OR_RETURN(
            outputs[c].tensor,
            Tensor::Create(format_.columns[c].dtype, records->shape(), options));
      }
    }
    std::deque<std::string> unquoted;  // until the columns are made
    for (size_t i = 0; i < texts.size(); ++i) {
      Status status = DecodeRecord({format_, texts[i].text(), &unquoted}, i, &outputs);
      if (!status.ok()) return OfRecord(std::move(status), *records, static_cast<int64_t>(i));
    }
    std::vector<Ref<Value>> columns;
    for (CsvOutput& output : outputs) {
      if (!output.tensor) {
        TUTTI_ASSIGN_OR_RETURN(output.tensor,
                               Tensor::FromStrings(records->shape(), output.views, account));
      }
      columns.push_back(Value::OfTensor(std::move(output.tensor)));
    }
    *out = Value::Tuple(columns);
    return OkStatus();
  }

  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override {
    PartialShape shape;
    if (input != nullptr) {
      if (!input->tree().is_leaf() || !input->leaf(0).is_tensor() ||
          input->leaf(0).dtype != DType::kBytes) {
        return InvalidArgument("decode_csv: the input should be records (bytes) and is {}",
                               input->ToString());
      }
      shape = input->leaf(0).shape;
    }
    std::vector<Ref<const ElementSpec>> parts;
    for (const CsvColumn& column : format_.columns) {
      parts.push_back(ElementSpec::OfTensor(column.dtype, shape));
    }
    return ElementSpec::Tuple(parts);
  }

  Result<FunctionDefinition> Define() const override {
    StateWriter writer;
    writer.Section(kCsvKind);
    writer.Int(kCsvVersion);
    writer.Bytes(format_.field_delim);
    writer.Int(format_.use_quote_delim);
    writer.Bytes(format_.na_value);
    writer.Ints(format_.select_cols);
    writer.Int(static_cast<int64_t>(format_.columns.size()));
    for (const CsvColumn& column : format_.columns) {
      writer.Bytes(column.name);
      writer.Int(static_cast<int64_t>(column.dtype));
      writer.Int(column.default_value != nullptr);
      if (column.default_value == nullptr) continue;
      const Ref<Value> value =
          Value::OfTensor(Ref<Tensor>::Retain(const_cast<Tensor*>(column.default_value.get())));
      TUTTI_RETURN_IF_ERROR(writer.Rows(SlabOfValues({&value, 1})));
    }
    return FunctionDefinition{std::string(kCsvKind), writer.bytes()};
  }

 private:
  int64_t PlaceOf(size_t column) const {
    return format_.select_cols.empty() ? static_cast<int64_t>(column)
                                       : format_.select_cols[column];
  }

  Status DecodeRecord(CsvFields fields, size_t record, std::vector<CsvOutput>* outputs) const {
    size_t column = 0;
    int64_t place = 0;
    for (;; ++place) {
      std::string_view field;
      Result<bool> found = fields.Next(&field);
      if (!found.ok()) return found.status().WithPrefix(Format("field {}", place));
      if (!*found) break;
      if (column >= outputs->size() || PlaceOf(column) != place) continue;
      TUTTI_RETURN_IF_ERROR(Store(field, place, column, record, &(*outputs)[column]));
      ++column;
      // What stands behind the last one that is selected is not looked at.
      if (column == outputs->size() && !format_.select_cols.empty()) return OkStatus();
    }
    const bool all = format_.select_cols.empty() ? place == static_cast<int64_t>(outputs->size())
                                                 : column == outputs->size();
    if (all) return OkStatus();
    if (format_.select_cols.empty()) {
      return InvalidArgument("it has {} fields, expected {}; select_cols picks some of a record's",
                             place, outputs->size());
    }
    return InvalidArgument("it has {} fields, and {} is selected", place,
                           FieldText(PlaceOf(column), format_.columns[column]));
  }

  Status Store(std::string_view field, int64_t place, size_t number, size_t record,
               CsvOutput* output) const {
    const CsvColumn& column = format_.columns[number];
    const bool missing = field.empty() || field == format_.na_value;
    if (missing && column.default_value == nullptr) {
      return InvalidArgument("{} is empty, and is required; give it a default",
                             FieldText(place, column))
          .With("field", place);
    }
    if (column.dtype == DType::kBytes) {
      output->views[record] = missing ? column.default_value->span<BytesView>()[0]
                                      : BytesView{field.data(), field.size()};
      return OkStatus();
    }
    const size_t size = ItemSize(column.dtype);
    char* const to = static_cast<char*>(output->tensor->mutable_data()) + record * size;
    if (missing) {
      const auto* const from = static_cast<const char*>(column.default_value->data());
      std::copy(from, from + size, to);
      return OkStatus();
    }
    if (ParseCsvField(field, column.dtype, to)) return OkStatus();
    return InvalidArgument("{} is '{}', which is no {}", FieldText(place, column),
                           field.substr(0, 64), DTypeName(column.dtype))
        .With("field", place);
  }

  static Status OfRecord(Status status, const Tensor& records, int64_t i) {
    if (records.rank() == 0) return std::move(status).WithPrefix("decode_csv");
    const int64_t per_row = records.num_elements() / records.dim(0);
    return std::move(status)
        .WithPrefix(per_row == 1 ? std::string("decode_csv")
                                 : Format("decode_csv: record {}", i % per_row))
        .With("row", i / per_row);
  }

  const CsvFormat format_;
};

Status CheckCsvColumn(size_t place, CsvColumn* column) {
  const std::string what = FieldText(static_cast<int64_t>(place), *column);
  if (column->dtype != DType::kBytes && !IsCsvNumber(column->dtype)) {
    return InvalidArgument("decode_csv: the column of {} has dtype {}; expected bytes, an integer "
                           "or a real floating dtype",
                           what, DTypeName(column->dtype));
  }
  if (column->default_value == nullptr) return OkStatus();
  const Tensor& given = *column->default_value;
  if (given.rank() != 0) {
    return InvalidArgument("decode_csv: the default of {} is {}; expected a scalar, or none where "
                           "the field is required",
                           what, given.SpecString());
  }
  Result<Ref<Tensor>> converted =
      Convert(Ref<Tensor>::Retain(const_cast<Tensor*>(&given)), column->dtype);
  if (!converted.ok()) {
    return converted.status().WithPrefix(Format("decode_csv: the default of {}", what));
  }
  TUTTI_ASSIGN_OR_RETURN(column->default_value, (*converted)->Contiguous());
  return OkStatus();
}

}  // namespace

Result<Ref<Function>> MakeDecodeCsv(CsvFormat format) {
  if (format.columns.empty()) {
    return InvalidArgument("decode_csv: there are no columns; give the default of one at least");
  }
  if (format.field_delim.size() != 1 || format.field_delim.find_first_of("\"\r\n") == 0) {
    return InvalidArgument("decode_csv: field_delim is {}; expected one byte that is no quote and "
                           "no line end",
                           Quote(format.field_delim));
  }
  const std::vector<int64_t>& select = format.select_cols;
  if (!select.empty() && select.size() != format.columns.size()) {
    return InvalidArgument("decode_csv: select_cols has {} places for {} columns", select.size(),
                           format.columns.size());
  }
  for (size_t i = 0; i < select.size(); ++i) {
    if (select[i] < 0 || (i > 0 && select[i] <= select[i - 1])) {
      return InvalidArgument("decode_csv: select_cols are {}; expected growing places from 0 on",
                             "[" + JoinAll(select, ", ") + "]");
    }
  }
  for (size_t i = 0; i < format.columns.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckCsvColumn(
        select.empty() ? i : static_cast<size_t>(select[i]), &format.columns[i]));
  }
  return Ref<Function>(MakeRef<DecodeCsv>(std::move(format)));
}

Result<Ref<Function>> ReadDecodeCsv(std::string_view payload) {
  StateReader reader(payload);
  reader.Section(kCsvKind);
  reader.Version("decode_csv", kCsvVersion);
  CsvFormat format;
  format.field_delim = std::string(reader.Bytes());
  format.use_quote_delim = reader.IntIn(0, 1) != 0;
  format.na_value = std::string(reader.Bytes());
  format.select_cols = reader.Ints();
  const int64_t count = reader.IntIn(1, INT64_MAX);
  for (int64_t i = 0; i < count && reader.ok(); ++i) {
    CsvColumn column;
    column.name = std::string(reader.Bytes());
    column.dtype = static_cast<DType>(reader.IntIn(0, INT32_MAX));
    if (reader.IntIn(0, 1) != 0) {
      Slab slab;
      reader.Rows(&slab);
      if (!reader.ok()) break;
      if (slab.rows != 1 || slab.columns.size() != 1 || !slab.columns[0].Row(0).is_tensor()) {
        reader.Fail("there is no default where one is due");
        break;
      }
      column.default_value = slab.columns[0].Row(0).tensor_ref();
    }
    if (reader.ok() && !IsValid(column.dtype)) reader.Fail("there is no such dtype");
    format.columns.push_back(std::move(column));
  }
  if (reader.ok() && !reader.at_end()) reader.Fail("there are bytes behind its end");
  if (!reader.ok()) {
    return Status(reader.status()).WithPrefix("decode_csv: these bytes are no definition of it");
  }
  return MakeDecodeCsv(std::move(format));
}

Status AddDecodeCsvKind(FunctionRegistry* functions) {
  return functions->AddKind(std::string(kCsvKind), ReadDecodeCsv);
}

}  // namespace tutti
