// Any text as the query of a sql dataset: it gives rows or a status, ends with its deadline, and
// leaves the database as it was. What it gives at a position, it gives after going back there.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/records/sql.h"
#include "core/dataset/records/sqlite_library.h"
#include "core/function/function_registry.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr int64_t kDeadlineNs = 20 * kMillisecondNs;
constexpr int kMostRows = 20;

// A database of a few rows.
class SqlDatabase {
 public:
  SqlDatabase() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti_sql_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    const SqliteLibrary library = LoadSqlite().value();
    SqliteDatabase* database = nullptr;
    Require(library.open_v2(path().c_str(), &database, kSqliteOpenReadWrite | kSqliteOpenCreate,
                            nullptr) == kSqliteOk,
            "the database can be made");
    for (const char* text : {"create table people (id integer, name text, score real, data blob)",
                             "insert into people values (1, 'ada', 1.5, x'00ff'), "
                             "(2, null, -1e300, null), (300, '12', null, zeroblob(9))"}) {
      SqliteStatement* statement = nullptr;
      library.prepare_v2(database, text, -1, &statement, nullptr);
      Require(library.step(statement) == kSqliteDone, "the database can be written");
      library.finalize(statement);
    }
    library.close_v2(database);
    contents_ = Read();
  }
  ~SqlDatabase() { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/people.db"; }
  bool IsAsItWas() const { return Read() == contents_; }

 private:
  std::string Read() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::string folder_;
  std::string contents_;
};

// Made before main: a replay runs inputs in a child, which ends without destructors, and its parent
// is the one that removes the folder.
const SqlDatabase database;

struct SqlWorld {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<DatasetEnvironment> datasets =
      DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>());

  ~SqlWorld() { (void)environment->Shutdown(CallOptions()); }
};

SqlWorld& World() {
  static SqlWorld world;
  return world;
}

// The next element as text; "." at the end, "" when the call was called off.
std::string NextText(Iterator& iterator) {
  const Result<Ref<Value>> element = iterator.Next(
      CallOptions::WithTimeout(World().environment->clock(), kDeadlineNs));
  if (element.ok()) return *element ? (*element)->ToString() : ".";
  Require(element.status().code() != StatusCode::kInternal, "no failure is internal");
  if (element.status().code() == StatusCode::kDeadlineExceeded) return "";
  return "!" + std::string(element.status().message());
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  constexpr DType kTypes[] = {DType::kBytes, DType::kInt64, DType::kUint8, DType::kFloat32,
                              DType::kBool,  DType::kFloat64, DType::kInt16, DType::kUint64};
  FuzzInput input(data, size);
  SqlDatasetOptions options{"sqlite", database.path(), {}, {}, {}};
  const auto shape = input.Take<uint8_t>();
  for (int i = 0; i < 1 + shape % 4; ++i) {
    options.output_types.push_back(kTypes[(shape / 4 + i) % std::size(kTypes)]);
  }
  options.query = std::string(input.TakeRest());
  const Result<Ref<Dataset>> dataset = MakeSqlDataset(World().datasets, options);
  if (!dataset.ok()) return 0;

  const Ref<Iterator> iterator = Iterator::Create(*dataset, {}, CallOptions()).value();
  std::string last;
  int rows = 0;
  while (rows < kMostRows) {
    last = NextText(*iterator);
    if (last.empty() || last == ".") break;
    ++rows;
  }
  if (last == ".") {
    Require(NextText(*iterator) == ".", "the end stays the end");
    const Result<std::string> state = iterator->Save(CallOptions());
    Require(state.ok(), "every position can be saved");
    const Ref<Iterator> again = Iterator::Create(*dataset, {}, CallOptions()).value();
    Require(again->Restore(*state, CallOptions()).ok(), "the end can be gone back to");
    Require(NextText(*again) == ".", "the end is where it was");
    (void)again->Close(CallOptions());
  }
  (void)iterator->Close(CallOptions());
  Require(database.IsAsItWas(), "a query writes nothing");
  return 0;
}
