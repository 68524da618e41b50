// SQLite databases for tests, written by the library that the datasets read them with.
#ifndef TUTTI_CORE_DATASET_TESTING_SQLITE_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_SQLITE_TESTING_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/dataset/records/sqlite_library.h"

namespace tutti {

// A database that is open for writing, one statement after the other.
class TestDatabase {
 public:
  explicit TestDatabase(const std::string& path, const std::vector<std::string>& statements = {})
      : library_(LoadSqlite().value()) {
    EXPECT_EQ(library_.open_v2(path.c_str(), &database_, kSqliteOpenReadWrite | kSqliteOpenCreate,
                               nullptr),
              kSqliteOk);
    for (const std::string& statement : statements) Run(statement);
  }
  ~TestDatabase() { library_.close_v2(database_); }
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;

  void Run(const std::string& text) {
    SqliteStatement* statement = nullptr;
    EXPECT_EQ(library_.prepare_v2(database_, text.c_str(), -1, &statement, nullptr), kSqliteOk)
        << library_.errmsg(database_);
    while (library_.step(statement) == kSqliteRow) continue;
    EXPECT_EQ(library_.finalize(statement), kSqliteOk) << library_.errmsg(database_);
  }

 private:
  const SqliteLibrary library_;
  SqliteDatabase* database_ = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_SQLITE_TESTING_H_
