#include "core/dataset/records/sql_query.h"

#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

// Steps of SQLite's machine between two looks at the watch: about 10 microseconds.
constexpr int kStepsBetweenChecks = 1000;
// So often it is waited for somebody who writes: with the watch's pauses some seconds.
constexpr int kMaxPauses = 2000;

}  // namespace

Result<std::unique_ptr<SqlQuery>> SqlQuery::Open(const std::string& path, const std::string& text,
                                                 size_t num_columns, SqlWatch& watch) {
  TUTTI_ASSIGN_OR_RETURN(const SqliteLibrary library, LoadSqlite());
  // SQLite's own messages do not say why a file cannot be opened.
  TUTTI_RETURN_IF_ERROR(RealDisk().Open(path).status());
  std::unique_ptr<SqlQuery> query(new SqlQuery(library, path));
  query->watch_ = &watch;
  TUTTI_RETURN_IF_ERROR(query->OpenDatabase());
  TUTTI_RETURN_IF_ERROR(query->Prepare(text, num_columns));
  query->watch_ = nullptr;
  return query;
}

SqlQuery::~SqlQuery() {
  if (statement_ != nullptr) library_.finalize(statement_);
  if (database_ != nullptr) library_.close_v2(database_);
}

Status SqlQuery::OpenDatabase() {
  // Names such as ":memory:", and URIs, are names of files here.
  const std::string name = path_.starts_with('/') ? path_ : "./" + path_;
  const int code = library_.open_v2(
      name.c_str(), &database_,
      kSqliteOpenReadOnly | kSqliteOpenNoMutex | kSqliteOpenPrivateCache, nullptr);
  if (code != kSqliteOk) return Failure(code);
  library_.limit(database_, kSqliteLimitLength, kMaxValueBytes);
  library_.limit(database_, kSqliteLimitAttached, 0);
  library_.progress_handler(database_, kStepsBetweenChecks, &OnProgress, this);
  library_.busy_handler(database_, &OnBusy, this);
  return OkStatus();
}

Status SqlQuery::Prepare(const std::string& text, size_t num_columns) {
  const char* rest = nullptr;
  int code = library_.prepare_v2(database_, text.data(), static_cast<int>(text.size()) + 1,
                                 &statement_, &rest);
  if (code != kSqliteOk) return Failure(code);
  if (statement_ == nullptr) {
    return InvalidArgument("the query {} is no statement; pass a select", Quote(text))
        .With("file", path_);
  }
  // Behind it there may be comments, and nothing else.
  SqliteStatement* other = nullptr;
  code = library_.prepare_v2(database_, rest, -1, &other, nullptr);
  if (other != nullptr) library_.finalize(other);
  if (code != kSqliteOk || other != nullptr) {
    return InvalidArgument("the query has more than one statement: {} follows; pass one",
                           Quote(rest))
        .With("file", path_);
  }
  const int found = library_.column_count(statement_);
  if (static_cast<size_t>(found) != num_columns) {
    return InvalidArgument(
               "the query gives rows of {} columns, and output_types has {} dtypes; pass one dtype "
               "for each column",
               found, num_columns)
        .With("file", path_);
  }
  return OkStatus();
}

Result<bool> SqlQuery::Step(SqlWatch& watch) {
  watch_ = &watch;
  const int code = library_.step(statement_);
  watch_ = nullptr;
  if (code == kSqliteRow) return true;
  if (code == kSqliteDone) return false;
  return Failure(code);
}

SqliteType SqlQuery::TypeOf(size_t column) const {
  return static_cast<SqliteType>(library_.column_type(statement_, static_cast<int>(column)));
}

int64_t SqlQuery::Integer(size_t column) const {
  return library_.column_int64(statement_, static_cast<int>(column));
}

double SqlQuery::Real(size_t column) const {
  return library_.column_double(statement_, static_cast<int>(column));
}

Result<std::string_view> SqlQuery::Text(size_t column) const {
  const int i = static_cast<int>(column);
  const bool is_blob = library_.column_type(statement_, i) == kSqliteBlob;
  const void* text = is_blob ? library_.column_blob(statement_, i)
                             : library_.column_text(statement_, i);
  const int bytes = library_.column_bytes(statement_, i);
  // An empty blob has no address.
  if (text == nullptr && !is_blob) return Failure(kSqliteNoMemory);
  return std::string_view(static_cast<const char*>(text), static_cast<size_t>(bytes));
}

std::string_view SqlQuery::ColumnName(size_t column) const {
  const char* name = library_.column_name(statement_, static_cast<int>(column));
  return name == nullptr ? "" : name;
}

Status SqlQuery::Failure(int code) const {
  if (!called_off_.ok()) return called_off_;
  const std::string why =
      database_ == nullptr ? library_.errstr(code) : library_.errmsg(database_);
  const std::string message = Format("SQLite says of {}: {}", Quote(path_), why);
  Status status;
  switch (code & 0xff) {
    case kSqliteBusy:
    case kSqliteLocked:
      status = Unavailable("{}; somebody else writes to it", message);
      break;
    case kSqliteNoMemory:
      status = ResourceExhausted("{}", message);
      break;
    case kSqliteTooBig:
      status = ResourceExhausted("{}; a value may have {} bytes", message, kMaxValueBytes);
      break;
    case kSqliteIoError:
      status = Unavailable("{}", message);
      break;
    case kSqliteCannotOpen:
      status = FailedPrecondition("{}", message);
      break;
    case kSqliteCorrupt:
    case kSqliteNoDatabase:
      status = DataLoss("{}", message);
      break;
    default:
      status = InvalidArgument("{}; look at the query", message);
  }
  return std::move(status).With("file", path_);
}

int SqlQuery::OnProgress(void* data) {
  auto* query = static_cast<SqlQuery*>(data);
  if (query->watch_ == nullptr) return 0;
  query->called_off_ = query->watch_->Check();
  return !query->called_off_.ok();
}

int SqlQuery::OnBusy(void* data, int attempt) {
  if (attempt >= kMaxPauses || OnProgress(data) != 0) return 0;
  auto* query = static_cast<SqlQuery*>(data);
  if (query->watch_ == nullptr) return 0;
  query->watch_->Pause();
  return 1;
}

}  // namespace tutti
