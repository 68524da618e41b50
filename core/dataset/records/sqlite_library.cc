#include "core/dataset/records/sqlite_library.h"

#include <dlfcn.h>

#include <string>

#include "core/base/error.h"

namespace tutti {
namespace {

constexpr const char* kWhatToInstall =
    "install SQLite's library (the package libsqlite3-0 of Debian and Ubuntu, sqlite-libs of "
    "Fedora)";

// The functions of a loaded library, and the first name that it has not.
class SqliteSymbols {
 public:
  explicit SqliteSymbols(void* handle) : handle_(handle) {}

  template <class F>
  void Find(const char* symbol, F* function) {
    *function = reinterpret_cast<F>(dlsym(handle_, symbol));
    if (*function == nullptr && missing_ == nullptr) missing_ = symbol;
  }
  const char* missing() const { return missing_; }

 private:
  void* const handle_;
  const char* missing_ = nullptr;
};

}  // namespace

Result<SqliteLibrary> LoadSqlite(const char* name) {
  // A second time it is only found again.
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = dlerror();
    return FailedPrecondition("sql: SQLite could not be loaded ({}); {}",
                              why != nullptr ? why : name, kWhatToInstall);
  }
  SqliteLibrary library = {};
  SqliteSymbols symbols(handle);
  symbols.Find("sqlite3_threadsafe", &library.threadsafe);
  symbols.Find("sqlite3_errstr", &library.errstr);
  symbols.Find("sqlite3_open_v2", &library.open_v2);
  symbols.Find("sqlite3_close_v2", &library.close_v2);
  symbols.Find("sqlite3_errmsg", &library.errmsg);
  symbols.Find("sqlite3_limit", &library.limit);
  symbols.Find("sqlite3_progress_handler", &library.progress_handler);
  symbols.Find("sqlite3_busy_handler", &library.busy_handler);
  symbols.Find("sqlite3_prepare_v2", &library.prepare_v2);
  symbols.Find("sqlite3_finalize", &library.finalize);
  symbols.Find("sqlite3_step", &library.step);
  symbols.Find("sqlite3_column_count", &library.column_count);
  symbols.Find("sqlite3_column_name", &library.column_name);
  symbols.Find("sqlite3_column_type", &library.column_type);
  symbols.Find("sqlite3_column_int64", &library.column_int64);
  symbols.Find("sqlite3_column_double", &library.column_double);
  symbols.Find("sqlite3_column_blob", &library.column_blob);
  symbols.Find("sqlite3_column_text", &library.column_text);
  symbols.Find("sqlite3_column_bytes", &library.column_bytes);
  dlclose(handle);
  if (symbols.missing() != nullptr) {
    return FailedPrecondition("sql: {} is no SQLite of 3.7.15 or later, for it has no {}; {}",
                              Quote(name), symbols.missing(), kWhatToInstall);
  }
  if (library.threadsafe() == 0) {
    return FailedPrecondition(
        "sql: {} was built for one thread only (SQLITE_THREADSAFE=0); {}", Quote(name),
        kWhatToInstall);
  }
  return library;
}

}  // namespace tutti
