// SqlQuery: one statement that runs on a SQLite database, row by row.
//
//   TUTTI_ASSIGN_OR_RETURN(auto query, SqlQuery::Open(path, "select id from people", 1, watch));
//   TUTTI_ASSIGN_OR_RETURN(const bool is_row, query->Step(watch));
//
// The database is opened to be read and nothing else. While SQLite computes, or waits for somebody
// who writes, it asks a watch now and then whether to go on: a query may have no end.
#ifndef TUTTI_CORE_DATASET_RECORDS_SQL_QUERY_H_
#define TUTTI_CORE_DATASET_RECORDS_SQL_QUERY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/dataset/records/sqlite_library.h"

namespace tutti {

// Whether a query is still wanted.
class SqlWatch {
 public:
  virtual ~SqlWatch() = default;
  // A failure ends the call that SQLite is in, with this status.
  virtual Status Check() = 0;
  // A few milliseconds, or less when Check would fail.
  virtual void Pause() = 0;
};

class SqlQuery {
 public:
  // Larger values than this many bytes are RESOURCE_EXHAUSTED.
  static constexpr int kMaxValueBytes = 256 << 20;

  // The disk's errors for the file (NOT_FOUND, PERMISSION_DENIED ...); DATA_LOSS where it is no
  // database; INVALID_ARGUMENT, with SQLite's text, for anything but one statement that gives
  // `num_columns` columns. Errors have the detail "file".
  static Result<std::unique_ptr<SqlQuery>> Open(const std::string& path, const std::string& text,
                                                size_t num_columns, SqlWatch& watch);
  ~SqlQuery();
  SqlQuery(const SqlQuery&) = delete;
  SqlQuery& operator=(const SqlQuery&) = delete;

  // Goes to the next row; false behind the last. After a failure, and after false, it is over.
  Result<bool> Step(SqlWatch& watch);

  // Of the current row.
  SqliteType TypeOf(size_t column) const;
  int64_t Integer(size_t column) const;
  double Real(size_t column) const;
  // Numbers as SQLite writes them; good until the next call for this column or Step. Ask for the
  // type before, and not afterwards.
  Result<std::string_view> Text(size_t column) const;
  std::string_view ColumnName(size_t column) const;

 private:
  SqlQuery(const SqliteLibrary& library, std::string path) : library_(library), path_(path) {}

  Status OpenDatabase();
  Status Prepare(const std::string& text, size_t num_columns);
  // What SQLite's `code` means.
  Status Failure(int code) const;
  static int OnProgress(void* query);
  static int OnBusy(void* query, int attempt);

  const SqliteLibrary library_;
  const std::string path_;
  SqliteDatabase* database_ = nullptr;
  SqliteStatement* statement_ = nullptr;
  SqlWatch* watch_ = nullptr;  // of the call that is being made
  Status called_off_;          // what the watch said
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_SQL_QUERY_H_
