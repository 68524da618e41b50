// decode_csv: the native function from records of comma-separated values (bytes, any shape) to a
// tuple of columns, each of the input's shape. It runs without the host, on rows and slabs alike,
// can be written down, and can be called in expressions.
//
//   CsvFormat format;
//   format.columns = {{.name = "id", .dtype = DType::kInt64},
//                     {.name = "name", .dtype = DType::kBytes, .default_value = none}};
//   TUTTI_ASSIGN_OR_RETURN(Ref<Function> decode, MakeDecodeCsv(std::move(format)));
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> rows, lines->Map(decode));
//
// A record is one line, as RFC 4180 has it: a field may stand in quotes, in which a quote is
// written twice and everything else, the delimiter and line ends, too, stands for itself. Spaces
// around a number do not count. A field that is empty or `na_value` has the column's default; a
// record that is empty has no field at all.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_DECODE_CSV_H_
#define TUTTI_CORE_DATASET_EXAMPLE_DECODE_CSV_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Function;
class FunctionRegistry;

struct CsvColumn {
  std::string name;  // for messages; may be empty
  DType dtype = DType::kInvalid;  // bytes, or of real numbers
  Ref<const Tensor> default_value;  // a scalar, converted to the dtype; null: the field is required
};

struct CsvFormat {
  std::vector<CsvColumn> columns;
  std::string field_delim = ",";  // one byte, no quote and no line end
  bool use_quote_delim = true;    // false: a quote stands for itself
  std::string na_value;
  // The places of the columns' fields in a record, growing; empty: a record has these fields alone.
  std::vector<int64_t> select_cols;
};

// INVALID_ARGUMENT naming what does not fit.
Result<Ref<Function>> MakeDecodeCsv(CsvFormat format);

// The function that Define wrote down. INVALID_ARGUMENT for other bytes.
Result<Ref<Function>> ReadDecodeCsv(std::string_view payload);

// Makes the registry read such definitions.
Status AddDecodeCsvKind(FunctionRegistry* functions);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_DECODE_CSV_H_
