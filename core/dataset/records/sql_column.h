// SqlColumn: the values of one column of a query, converted to a dtype, as a tensor of a slab.
//
// A value is never changed to fit: an integer out of the dtype's range, a real that is no integer
// where one is asked for, and text that is no number are errors. NULL is 0, false or "". Of numbers
// 0 is false; as a byte string a number is what SQLite writes for it.
#ifndef TUTTI_CORE_DATASET_RECORDS_SQL_COLUMN_H_
#define TUTTI_CORE_DATASET_RECORDS_SQL_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace tutti {

class MemoryAccount;
class SqlQuery;

class SqlColumn {
 public:
  // Byte strings, booleans, integers, float32 and float64.
  static bool Takes(DType dtype);
  static const char* TakenDTypes();  // for messages

  SqlColumn(DType dtype, size_t index) : dtype_(dtype), index_(index) {}

  // The value of the query's current row. INVALID_ARGUMENT naming the column; nothing is added
  // then.
  Status Append(const SqlQuery& query);
  size_t bytes() const { return items_.size() + text_.size(); }
  // Back to the first `rows`.
  void Truncate(size_t rows);
  Result<Ref<Tensor>> Take(MemoryAccount* account);

 private:
  template <class T>
  Status AppendNumber(const SqlQuery& query);
  template <class T>
  void Push(T value);

  const DType dtype_;
  const size_t index_;
  std::vector<char> items_;   // of byte strings unused
  std::string text_;          // of byte strings, one behind the other
  std::vector<size_t> ends_;  // of each of them in text_
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_SQL_COLUMN_H_
