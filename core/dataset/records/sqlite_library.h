// SQLite, as far as it is used here: its library is loaded when the first query runs, so that
// neither a build nor a program that asks nothing of it needs it. What the functions do stands at
// sqlite.org/c3ref.
#ifndef TUTTI_CORE_DATASET_RECORDS_SQLITE_LIBRARY_H_
#define TUTTI_CORE_DATASET_RECORDS_SQLITE_LIBRARY_H_

#include "core/base/status.h"

namespace tutti {

struct SqliteDatabase;   // sqlite3
struct SqliteStatement;  // sqlite3_stmt

// The numbers that SQLite's interface has for good.
enum SqliteCode : int {
  kSqliteOk = 0,
  kSqliteBusy = 5,
  kSqliteLocked = 6,
  kSqliteNoMemory = 7,
  kSqliteInterrupt = 9,
  kSqliteIoError = 10,
  kSqliteCorrupt = 11,
  kSqliteCannotOpen = 14,
  kSqliteTooBig = 18,
  kSqliteNoDatabase = 26,
  kSqliteRow = 100,
  kSqliteDone = 101,
};
enum SqliteType : int {
  kSqliteInteger = 1,
  kSqliteFloat = 2,
  kSqliteText = 3,
  kSqliteBlob = 4,
  kSqliteNull = 5,
};
inline constexpr int kSqliteOpenReadOnly = 0x1;
inline constexpr int kSqliteOpenReadWrite = 0x2;
inline constexpr int kSqliteOpenCreate = 0x4;
inline constexpr int kSqliteOpenNoMutex = 0x8000;
inline constexpr int kSqliteOpenPrivateCache = 0x40000;
inline constexpr int kSqliteLimitLength = 0;
inline constexpr int kSqliteLimitAttached = 7;

struct SqliteLibrary {
  int (*threadsafe)();
  const char* (*errstr)(int code);
  int (*open_v2)(const char* path, SqliteDatabase** database, int flags, const char* vfs);
  int (*close_v2)(SqliteDatabase* database);
  const char* (*errmsg)(SqliteDatabase* database);
  int (*limit)(SqliteDatabase* database, int which, int value);
  void (*progress_handler)(SqliteDatabase* database, int steps, int (*stop)(void*), void* data);
  int (*busy_handler)(SqliteDatabase* database, int (*wait)(void*, int), void* data);
  int (*prepare_v2)(SqliteDatabase* database, const char* text, int bytes,
                    SqliteStatement** statement, const char** rest);
  int (*finalize)(SqliteStatement* statement);
  int (*step)(SqliteStatement* statement);
  int (*column_count)(SqliteStatement* statement);
  const char* (*column_name)(SqliteStatement* statement, int column);
  int (*column_type)(SqliteStatement* statement, int column);
  long long (*column_int64)(SqliteStatement* statement, int column);
  double (*column_double)(SqliteStatement* statement, int column);
  const void* (*column_blob)(SqliteStatement* statement, int column);
  const unsigned char* (*column_text)(SqliteStatement* statement, int column);
  int (*column_bytes)(SqliteStatement* statement, int column);
};

// FAILED_PRECONDITION that says what to install where there is no such library, or one that several
// threads cannot use. It stays loaded.
Result<SqliteLibrary> LoadSqlite(const char* name = "libsqlite3.so.0");

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_SQLITE_LIBRARY_H_
