#include "core/dataset/records/sql.h"

#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/memory_account.h"
#include "core/dataset/records/sqlite_library.h"
#include "core/dataset/shard/auto_shard.h"
#include "core/dataset/testing/op_walks_testing.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/dataset/testing/sqlite_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

// All numbers from 0 on, without an end.
constexpr const char* kEndless =
    "with recursive n(i) as (select 0 union all select i + 1 from n) select i from n";
// A row that never comes.
constexpr const char* kNeverARow =
    "with recursive n(i) as (select 0 union all select i + 1 from n) select i from n where i < 0";

class SqlDataset : public OpWalksTest {
 protected:
  SqlDataset()
      : path_(folder_.Path("people.db")),
        people_(path_, {"create table people (id integer, name text, score real)",
                        "insert into people values (1, 'ada', 1.5), (2, 'bo', -2.0), "
                        "(3, null, null)"}) {}

  Result<Ref<Dataset>> Make(std::string query, std::vector<DType> types) {
    return MakeSqlDataset(datasets_, {.driver_name = "sqlite",
                                      .data_source_name = path_,
                                      .query = std::move(query),
                                      .output_types = std::move(types)});
  }
  Ref<Dataset> Read(std::string query, std::vector<DType> types) {
    return Ok(Make(std::move(query), std::move(types)));
  }
  // How the first element fails.
  Status Failure(const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    const Result<Ref<Value>> element = iterator->Next(CallOptions());
    EXPECT_FALSE(element.ok());
    // Once, and then it is over.
    EXPECT_EQ(Next(*iterator), ".");
    return element.status();
  }

  const TempFolder folder_;
  const std::string path_;
  TestDatabase people_;
};

TEST_F(SqlDataset, RowsAreTuplesOnEveryWay) {
  Strings numbers;
  for (int i = 0; i < 40; ++i) numbers.push_back("(" + std::to_string(i) + ",)");
  ExpectAllWalks({
      {.name = "three types",
       .build = [this] {
         return Read("select id, name, score from people order by id",
                     {DType::kInt64, DType::kBytes, DType::kFloat64});
       },
       .elements = {"(1, \"ada\", 1.5)", "(2, \"bo\", -2)", "(3, \"\", 0)"}},
      {.name = "no rows",
       .build = [this] { return Read("select id from people where id > 9", {DType::kInt64}); },
       .elements = {}},
      {.name = "a value that does not fit",
       .build = [this] {
         return Read("select id * 100 from people order by id", {DType::kInt8});
       },
       .elements = {"(100,)", "!sql: row 1: column 0 (\"id * 100\"): 200 does not fit int8",
                    "!row 2"}},
      {.name = "an error in the middle",
       .build = [this] {
         return Read("select abs(case id when 2 then -9223372036854775807 - 1 else id end) "
                     "from people",
                     {DType::kInt64});
       },
       .elements = {"(1,)", "!integer overflow"}},
      {.name = "a query that cannot be run",
       .build = [this] { return Read("selec id from people", {DType::kInt64}); },
       .elements = {"!syntax error"}},
      {.name = "many rows",
       .build = [this] {
         return Read(std::string(kEndless) + " limit 40", {DType::kInt32});
       },
       .elements = numbers},
      {.name = "without an end",
       .build = [this] { return Read(kEndless, {DType::kInt32}); },
       .elements = numbers,
       .endless = true},
  });
}

TEST_F(SqlDataset, ValuesAreConvertedAndNeverChangedToFit) {
  const struct {
    const char* value;
    DType dtype;
    const char* element;  // "!" and a part of the message
  } cases[] = {
      {"127", DType::kInt8, "(127,)"},
      {"-128", DType::kInt8, "(-128,)"},
      {"128", DType::kInt8, "!128 does not fit int8"},
      {"-129", DType::kInt8, "!does not fit int8"},
      {"32767", DType::kInt16, "(32767,)"},
      {"32768", DType::kInt16, "!does not fit int16"},
      {"2147483647", DType::kInt32, "(2147483647,)"},
      {"2147483648", DType::kInt32, "!does not fit int32"},
      {"9223372036854775807", DType::kInt64, "(9223372036854775807,)"},
      {"-9223372036854775807 - 1", DType::kInt64, "(-9223372036854775808,)"},
      {"9223372036854775808", DType::kInt64, "!does not fit int64"},
      {"9223372036854775808", DType::kUint64, "(9223372036854775808,)"},
      {"18446744073709551616", DType::kUint64, "!does not fit uint64"},
      {"-1", DType::kUint64, "!-1 does not fit uint64"},
      {"255", DType::kUint8, "(255,)"},
      {"256", DType::kUint8, "!does not fit uint8"},
      {"-1", DType::kUint8, "!does not fit uint8"},
      {"65535", DType::kUint16, "(65535,)"},
      {"65536", DType::kUint16, "!does not fit uint16"},
      {"4294967295", DType::kUint32, "(4294967295,)"},
      {"4294967296", DType::kUint32, "!does not fit uint32"},
      {"2.0", DType::kInt32, "(2,)"},
      {"1.5", DType::kInt32, "!1.5 does not fit int32"},
      {"9e999", DType::kInt64, "!does not fit int64"},
      {"'12'", DType::kInt32, "(12,)"},
      {"'1e2'", DType::kInt32, "(100,)"},
      {"'12 apples'", DType::kInt32, "!found the text \"12 apples\""},
      {"x'00'", DType::kInt32, "!found a blob of 1 bytes"},
      {"null", DType::kInt16, "(0,)"},
      {"0", DType::kBool, "(False,)"},
      {"2", DType::kBool, "(True,)"},
      {"0.5", DType::kBool, "(True,)"},
      {"null", DType::kBool, "(False,)"},
      {"'yes'", DType::kBool, "!expected a number for bool"},
      {"3", DType::kFloat32, "(3,)"},
      {"0.25", DType::kFloat32, "(0.25,)"},
      {"1e39", DType::kFloat32, "!does not fit float32"},
      {"9e999", DType::kFloat32, "(inf,)"},
      {"'0.5'", DType::kFloat64, "(0.5,)"},
      {"null", DType::kFloat64, "(0,)"},
      {"7", DType::kBytes, "(\"7\",)"},
      {"-2.0", DType::kBytes, "(\"-2.0\",)"},
      {"x''", DType::kBytes, "(\"\",)"},
      {"x'610062'", DType::kBytes, "(\"a\\x00b\",)"},
      {"'\xc3\xa4'", DType::kBytes, "(\"\xc3\xa4\",)"},
      {"null", DType::kBytes, "(\"\",)"},
  };
  for (const auto& c : cases) {
    const std::string found =
        All(Read(std::string("select ") + c.value + " as v", {c.dtype})).at(0);
    const std::string expected = c.element;
    if (expected.starts_with("!")) {
      EXPECT_THAT(found, AllOf(HasSubstr("!sql: row 0: column 0 (\"v\")"),
                               HasSubstr(expected.substr(1))));
    } else {
      EXPECT_EQ(found, expected) << c.value << " as " << DTypeName(c.dtype);
    }
  }
}

TEST_F(SqlDataset, ARowFailsAsAWholeAndOthersStay) {
  const Ref<Dataset> dataset = Read(
      "select name, id * 100 from people order by id", {DType::kBytes, DType::kUint8});
  EXPECT_THAT(All(dataset),
              ElementsAre("(\"ada\", 100)", "(\"bo\", 200)", HasSubstr("!sql: row 2")));
  const Ref<Dataset> other = Read(
      "select name, 400 - id * 100 from people order by id", {DType::kBytes, DType::kUint8});
  EXPECT_THAT(All(other), ElementsAre(HasSubstr("!sql: row 0"), "(\"bo\", 200)", "(\"\", 100)"));
  const Ref<Iterator> iterator = Iterate(other);
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Detail<int64_t>(status, "index"), 0);
  EXPECT_EQ(Detail<int64_t>(status, "column"), 1);
  EXPECT_EQ(Detail<std::string>(status, "file"), path_);
}

// Every fourth row fails when it is made. In a batch that is passed over none is made.
TEST_F(SqlDataset, RowsThatArePassedOverDoNotFailBelowAMapThatCallsAhead) {
  const Ref<Dataset> rows = Read(
      "with recursive n(i) as (select 0 union all select i + 1 from n where i < 15) "
      "select i + 300 * (i % 4 = 1) from n",
      {DType::kUint8});
  const Ref<TestFunction> first = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(in.leaf(0).tensor_ref());
      });
  const auto outcomes = [&](int64_t calls, int64_t index) {
    std::vector<std::string> all =
        All(Ok(Ok(Ok(rows->Map(first, Parallel(calls)))->Batch(2))->Shard(2, index)));
    for (std::string& text : all) text = text.starts_with('!') ? "!" : text;
    return all;
  };
  for (const int64_t index : {0, 1}) {
    const std::vector<std::string> in_turn = outcomes(0, index);
    EXPECT_GT(in_turn.size(), 2u);
    EXPECT_EQ(outcomes(1, index), in_turn);
    EXPECT_EQ(outcomes(4, index), in_turn);
  }
}

TEST_F(SqlDataset, WrongArgumentsAreRefusedWhenItIsBuilt) {
  const struct {
    SqlDatasetOptions options;
    const char* message;
  } cases[] = {
      {{"mysql", path_, "select 1", {DType::kInt64}}, "the only driver_name is \"sqlite\""},
      {{"", path_, "select 1", {DType::kInt64}}, "driver_name"},
      {{"sqlite", "", "select 1", {DType::kInt64}}, "data_source_name is empty"},
      {{"sqlite", path_, "", {DType::kInt64}}, "query is empty"},
      {{"sqlite", path_, std::string("select\0 1", 9), {DType::kInt64}}, "a byte 0"},
      {{"sqlite", path_, std::string((1 << 20) + 1, ' '), {DType::kInt64}}, "1048577 bytes"},
      {{"sqlite", path_, "select 1", {}}, "output_types is empty"},
      {{"sqlite", path_, "select 1", {DType::kFloat16}}, "output_types[0] must be one of"},
      {{"sqlite", path_, "select 1, 2", {DType::kInt8, DType::kComplex64}}, "output_types[1]"},
      {{"sqlite", path_, "select 1", {static_cast<DType>(99)}}, "the number 99"},
  };
  for (const auto& c : cases) {
    const Result<Ref<Dataset>> dataset = MakeSqlDataset(datasets_, c.options);
    ASSERT_FALSE(dataset.ok()) << c.message;
    EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(c.message));
  }
}

TEST_F(SqlDataset, AWrongQueryIsInvalidArgumentWithSqlitesTextAndEndsIt) {
  const struct {
    const char* query;
    const char* message;
  } cases[] = {
      {"selec id from people", "near \"selec\": syntax error"},
      {"select age from people", "no such column: age"},
      {"select id from animals", "no such table: animals"},
      {"select id, name from people", "rows of 2 columns, and output_types has 1"},
      {"-- only words", "is no statement"},
      {"select 1; select 2", "more than one statement"},
      {"select 1; selec 2", "more than one statement"},
      {"insert into people values (4, 'x', 0)", "rows of 0 columns"},
      {"insert into people values (4, 'x', 0) returning id", "readonly"},
      {"attach 'other.db' as other", "rows of 0 columns"},
  };
  for (const auto& c : cases) {
    const Status status = Failure(Read(c.query, {DType::kInt64}));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.query;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("sql: "), HasSubstr(c.message)));
    EXPECT_EQ(LossOf(status), Loss::kMany);
    EXPECT_EQ(Detail<std::string>(status, "file"), path_);
  }
  EXPECT_THAT(All(Read(" select count(*) from people; -- all\n", {DType::kInt64})),
              ElementsAre("(3,)"));
}

TEST_F(SqlDataset, AFileThatCannotBeReadIsSaidAsSuch) {
  const auto failure = [this](std::string path) {
    return Failure(Ok(MakeSqlDataset(
        datasets_, {"sqlite", std::move(path), "select id from people", {DType::kInt64}})));
  };
  EXPECT_EQ(failure(folder_.Path("none.db")).code(), StatusCode::kNotFound);
  EXPECT_EQ(failure(":memory:").code(), StatusCode::kNotFound);
  EXPECT_EQ(failure("file:" + path_).code(), StatusCode::kNotFound);
  EXPECT_EQ(failure(folder_.path()).code(), StatusCode::kFailedPrecondition);
  const Status text = failure(folder_.Write("text.db", std::string(2000, 'x')));
  EXPECT_EQ(text.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(text.message()), HasSubstr("file is not a database"));
  EXPECT_EQ(LossOf(text), Loss::kMany);
}

TEST_F(SqlDataset, WithoutTheLibraryItIsSaidWhatToInstall) {
  const Status status = LoadSqlite("libsqlite3-of-nobody.so.0").status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("install SQLite's library"));
  EXPECT_THAT(std::string(LoadSqlite("libc.so.6").status().message()),
              HasSubstr("has no sqlite3_threadsafe"));
}

TEST_F(SqlDataset, AQueryThatNeverGivesARowEndsWithTheCall) {
  const Ref<Iterator> iterator = Iterate(Read(kNeverARow, {DType::kInt64}));
  const CallOptions call = CallOptions::WithTimeout(environment_->clock(), 20 * kMillisecondNs);
  EXPECT_EQ(iterator->Next(call).status().code(), StatusCode::kDeadlineExceeded);
  const auto cancellation = MakeRef<Cancellation>();
  std::thread other([&] { cancellation->Cancel(); });
  EXPECT_EQ(iterator->Next({Deadline::Infinite(), cancellation.get()}).status().code(),
            StatusCode::kCancelled);
  other.join();
}

TEST_F(SqlDataset, ClosingEndsAQueryThatNeverGivesARow) {
  const Ref<Iterator> iterator = Iterate(Read(kNeverARow, {DType::kInt64}));
  std::atomic<bool> asks{false};
  // It asks for its host before it waits: then the query runs, or is about to.
  const auto polled = MakeRef<Cancellation>(
      [](void* data) {
        static_cast<std::atomic<bool>*>(data)->store(true);
        return false;
      },
      &asks, nullptr);
  std::thread closer([&] {
    while (!asks) std::this_thread::yield();
    Close(*iterator);
  });
  const Status status = iterator->Next({Deadline::Infinite(), polled.get()}).status();
  closer.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "sql: the iterator was closed");
}

TEST_F(SqlDataset, ACallThatIsCalledOffLosesNothing) {
  // Each row takes a while: many calls end before the next one is there.
  const Ref<Iterator> iterator = Iterate(Read(
      "select id, (with recursive n(i) as (select 0 union all select i + 1 from n where i < 20000) "
      "select sum(i) from n) from people order by id",
      {DType::kInt64, DType::kInt64}));
  Strings found;
  int called_off = 0;
  for (int64_t timeout_ns = 1000; found.empty() || found.back() != "."; timeout_ns *= 2) {
    const std::string element =
        Next(*iterator, CallOptions::WithTimeout(environment_->clock(), timeout_ns));
    if (element.starts_with("!")) {
      ++called_off;
    } else {
      found.push_back(element);
    }
  }
  EXPECT_GT(called_off, 0);
  EXPECT_THAT(found, ElementsAre("(1, 200010000)", "(2, 200010000)", "(3, 200010000)", "."));
}

TEST_F(SqlDataset, WhoReadsWhileSomebodyWritesWaitsOrSaysSo) {
  people_.Run("begin exclusive");
  const Ref<Iterator> iterator = Iterate(Read("select id from people", {DType::kInt64}));
  EXPECT_EQ(iterator->Next(CallOptions::WithTimeout(environment_->clock(), 10 * kMillisecondNs))
                .status()
                .code(),
            StatusCode::kDeadlineExceeded);
  std::thread writer([&] { people_.Run("commit"); });
  EXPECT_EQ(Next(*iterator), "(1,)");
  writer.join();
}

TEST_F(SqlDataset, APositionInADatabaseThatHasFewerRowsIsRefused) {
  const Ref<Dataset> dataset = Read("select id from people order by id", {DType::kInt64});
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_EQ(Next(*iterator), "(1,)");
  EXPECT_EQ(Next(*iterator), "(2,)");
  const std::string state = iterator->Save(CallOptions()).value();
  Close(*iterator);
  people_.Run("delete from people where id > 1");
  const Status restored = Iterate(dataset)->Restore(state, CallOptions());
  EXPECT_EQ(restored.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(restored.message()), HasSubstr("gave 1 rows, and at least 2"));
}

TEST_F(SqlDataset, ARowThatThereIsNoMemoryForIsOneErrorAndOthersFollow) {
  environment_->memory().set_limit_bytes(1 << 20);
  const Ref<Dataset> dataset =
      Read("select zeroblob(case id when 2 then 3000000 else 1 end) from people order by id",
           {DType::kBytes});
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_EQ(Next(*iterator), "(\"\\x00\",)");
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_EQ(Detail<int64_t>(status, "index"), 1);
  EXPECT_EQ(Next(*iterator), "(\"\\x00\",)");
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_EQ(Failure(Read("select zeroblob(400000000)", {DType::kBytes})).code(),
            StatusCode::kResourceExhausted);
}

TEST_F(SqlDataset, IsDealtOutByRowAndNotByFile) {
  const Ref<Dataset> dataset = Read("select id from people order by id", {DType::kInt64});
  EXPECT_EQ(dataset->cardinality(), kUnknownCardinality);
  EXPECT_EQ(SpecText(dataset), "(int64[],)");
  const Status by_file =
      AutoShard(*dataset, AutoShardPolicy::kFile, 2, 0, CallOptions()).status();
  EXPECT_EQ(by_file.code(), StatusCode::kInvalidArgument) << by_file.ToString();
  const Result<ShardedDataset> by_data =
      AutoShard(*dataset, AutoShardPolicy::kAuto, 2, 0, CallOptions());
  ASSERT_TRUE(by_data.ok()) << by_data.status().ToString();
  EXPECT_EQ(by_data->policy, AutoShardPolicy::kData);
  EXPECT_THAT(All(Ok(dataset->Shard(2, 0))), ElementsAre("(1,)", "(3,)"));
  EXPECT_THAT(All(Ok(dataset->Shard(2, 1))), ElementsAre("(2,)"));
}

TEST_F(SqlDataset, IsSerialised) {
  const Ref<Dataset> dataset = Read("select id from people order by id", {DType::kUint16});
  const Result<Ref<Dataset>> again = Dataset::Deserialize(datasets_, dataset->Serialize().value());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_THAT(All(*again), ElementsAre("(1,)", "(2,)", "(3,)"));
  EXPECT_EQ(SpecText(*again), "(uint16[],)");
  EXPECT_THAT((*again)->Explain(), HasSubstr("output_types=[uint16]"));
}

}  // namespace
}  // namespace tutti
