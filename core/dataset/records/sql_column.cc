#include "core/dataset/records/sql_column.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/records/sql_query.h"

namespace tutti {
namespace {

// What SQLite has where a number is asked for.
struct SqlNumber {
  bool is_integer = true;
  int64_t integer = 0;
  double real = 0;
};

template <class T>
bool ReadWhole(std::string_view text, T* number) {
  const char* end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, *number);
  return read.ec == std::errc() && read.ptr == end;
}

// False for what is no number.
bool ReadNumber(const SqlQuery& query, size_t column, SqlNumber* number) {
  switch (query.TypeOf(column)) {
    case kSqliteNull:
      return true;
    case kSqliteInteger:
      number->integer = query.Integer(column);
      return true;
    case kSqliteFloat:
      number->is_integer = false;
      number->real = query.Real(column);
      return true;
    case kSqliteText: {
      const Result<std::string_view> text = query.Text(column);
      if (!text.ok()) return false;
      if (ReadWhole(*text, &number->integer)) return true;
      number->is_integer = false;
      return ReadWhole(*text, &number->real);
    }
    default:
      return false;
  }
}

template <class T>
bool FitNumber(const SqlNumber& number, T* out) {
  if constexpr (std::is_same_v<T, bool>) {
    *out = number.is_integer ? number.integer != 0 : number.real != 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    const double real = number.is_integer ? static_cast<double>(number.integer) : number.real;
    if (std::isfinite(real) && std::fabs(real) > std::numeric_limits<T>::max()) return false;
    *out = static_cast<T>(real);
  } else if (number.is_integer) {
    if (!std::in_range<T>(number.integer)) return false;
    *out = static_cast<T>(number.integer);
  } else {
    const double past = std::ldexp(1.0, std::numeric_limits<T>::digits);  // behind the largest
    const double least = static_cast<double>(std::numeric_limits<T>::min());
    // Nor is what is no number at all.
    if (!(number.real >= least && number.real < past)) return false;
    if (number.real != std::trunc(number.real)) return false;
    *out = static_cast<T>(number.real);
  }
  return true;
}

// For messages: long values only begin.
std::string ValueText(const SqlQuery& query, size_t column) {
  constexpr size_t kMostBytes = 60;
  const SqliteType type = query.TypeOf(column);
  const Result<std::string_view> text = query.Text(column);
  if (!text.ok()) return "a value that there is no memory for";
  const std::string begin(text->substr(0, kMostBytes));
  const char* rest = text->size() > kMostBytes ? "..." : "";
  if (type == kSqliteBlob) return Format("a blob of {} bytes", text->size());
  return type == kSqliteText ? Format("the text {}{}", Quote(begin), rest) : begin;
}

}  // namespace

bool SqlColumn::Takes(DType dtype) {
  return dtype == DType::kBytes || dtype == DType::kBool || IsInteger(dtype) ||
         dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

const char* SqlColumn::TakenDTypes() {
  return "bytes, bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64";
}

template <class T>
void SqlColumn::Push(T value) {
  const size_t before = items_.size();
  items_.resize(before + sizeof(T));
  std::memcpy(items_.data() + before, &value, sizeof(T));
}

template <class T>
Status SqlColumn::AppendNumber(const SqlQuery& query) {
  SqlNumber number;
  const bool is_number = ReadNumber(query, index_, &number);
  T value{};
  if (is_number && FitNumber(number, &value)) {
    Push(value);
    return OkStatus();
  }
  const std::string found = ValueText(query, index_);
  const std::string where = Format("column {} ({})", index_, Quote(query.ColumnName(index_)));
  Status status =
      is_number ? InvalidArgument("{}: {} does not fit {}; take another dtype in output_types",
                                  where, found, DTypeName(dtype_))
                : InvalidArgument(
                      "{}: expected a number for {}, found {}; take bytes in output_types, or cast "
                      "it in the query",
                      where, DTypeName(dtype_), found);
  return std::move(status).With("column", static_cast<int64_t>(index_));
}

Status SqlColumn::Append(const SqlQuery& query) {
  switch (dtype_) {
    case DType::kBool: return AppendNumber<bool>(query);
    case DType::kInt8: return AppendNumber<int8_t>(query);
    case DType::kInt16: return AppendNumber<int16_t>(query);
    case DType::kInt32: return AppendNumber<int32_t>(query);
    case DType::kInt64: return AppendNumber<int64_t>(query);
    case DType::kUint8: return AppendNumber<uint8_t>(query);
    case DType::kUint16: return AppendNumber<uint16_t>(query);
    case DType::kUint32: return AppendNumber<uint32_t>(query);
    case DType::kUint64: return AppendNumber<uint64_t>(query);
    case DType::kFloat32: return AppendNumber<float>(query);
    case DType::kFloat64: return AppendNumber<double>(query);
    default: break;  // byte strings
  }
  if (query.TypeOf(index_) != kSqliteNull) {
    TUTTI_ASSIGN_OR_RETURN(const std::string_view text, query.Text(index_));
    text_ += text;
  }
  ends_.push_back(text_.size());
  return OkStatus();
}

void SqlColumn::Truncate(size_t rows) {
  if (dtype_ == DType::kBytes) {
    ends_.resize(rows);
    text_.resize(rows == 0 ? 0 : ends_.back());
  } else {
    items_.resize(rows * ItemSize(dtype_));
  }
}

Result<Ref<Tensor>> SqlColumn::Take(MemoryAccount* account) {
  if (dtype_ == DType::kBytes) {
    std::vector<BytesView> views;
    views.reserve(ends_.size());
    size_t begin = 0;
    for (const size_t end : ends_) {
      views.push_back({text_.data() + begin, end - begin});
      begin = end;
    }
    return Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views, account);
  }
  TensorOptions options;
  options.zeroed = false;
  options.account = account;
  const auto rows = static_cast<int64_t>(items_.size() / ItemSize(dtype_));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, Tensor::Create(dtype_, Shape({rows}), options));
  if (!items_.empty()) std::memcpy(tensor->mutable_data(), items_.data(), items_.size());
  return tensor;
}

}  // namespace tutti
