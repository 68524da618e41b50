#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "core/base/log.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/records/text_line.h"
#include "core/dataset/shard/auto_shard.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/op_walks_testing.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class SkipLog final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::lock_guard lock(mutex_);
    lines_.emplace_back(record.message);
  }
  std::vector<std::string> lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class OnError : public OpWalksTest {
 protected:
  OnError() { environment_->log().set_level(LogLevel::kError); }

  // x; fails where x % 3 == 2.
  Ref<Dataset> Bad(int64_t stop, MapOptions options = {}) {
    const auto function = MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          const int64_t number = NumberIn(in);
          if (number % 3 == 2) return InvalidArgument("{} is bad", number);
          return Number(number);
        },
        {.spec = Int64Scalar()});
    return Ok(Range(stop)->Map(function, std::move(options)));
  }

  // 0, 1, ... of which those in `raising` raise; then it is over.
  struct Raises {
    int64_t stop;
    std::vector<int64_t> raising;
    int64_t at = 0;
  };
  Ref<Dataset> Generated(Raises* raises) {
    const Ref<TestFunction> start = MakeFunction(
        [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
          static_cast<Raises*>(data)->at = 0;
          return Number(0);
        },
        {.data = raises});
    const Ref<TestFunction> next = MakeFunction(
        [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
          auto& of = *static_cast<Raises*>(data);
          if (of.at == of.stop) return Value::None();
          const int64_t number = of.at++;
          if (std::ranges::count(of.raising, number) > 0) {
            return InvalidArgument("raised at {}", number);
          }
          return Number(number);
        },
        {.data = raises});
    return Ok(Dataset::FromGenerator(datasets_, start, next, Int64Scalar()));
  }
};

TEST_F(OnError, SkipsAsManyAsMayBeAndReportsTheRestInTheirPlaces) {
  EXPECT_THAT(Numbers(Ok(Bad(9)->OnError("skip"))), ElementsAre(0, 1, 3, 4, 6, 7));
  EXPECT_THAT(All(Ok(Bad(4)->OnError("fail"))), ElementsAre("0", "1", HasSubstr("2 is bad"), "3"));
  EXPECT_THAT(All(Ok(Bad(4)->OnError("skip", 0))),
              ElementsAre("0", "1", HasSubstr("2 is bad"), "3"));
  const std::vector<std::string> all = All(Ok(Bad(10)->OnError("skip", 1)));
  ASSERT_THAT(all, SizeIs(9));
  EXPECT_THAT(all[4], HasSubstr("on_error: 1 element that failed was skipped before this one in "
                                "this pass, as many as max_skipped allows: map: element 5: "));
  EXPECT_THAT(all[7], HasSubstr("8 is bad"));
  EXPECT_EQ(all[8], "9");
}

TEST_F(OnError, LeavesWhatItSkipsInAFile) {
  const std::string path = testing::TempDir() + "/tutti_quarantine_" +
                           std::to_string(getpid()) + ".tfrecord";
  const auto quarantined = [&] {
    std::vector<std::string> causes;
    const Ref<Dataset> records =
        Ok(MakeTfRecordDataset(datasets_, std::span(&path, 1), {}));
    const Ref<Function> parse =
        MakeParseExample({{"quarantine/cause", DType::kBytes, Shape(), nullptr},
                          {"quarantine/element", DType::kInt64, Shape(), nullptr},
                          {"quarantine/node", DType::kBytes, Shape(), nullptr},
                          {"value", DType::kInt64, Shape(), nullptr}})
            .value();
    return All(Ok(records->Map(parse)));
  };
  for (const bool parallel : {false, true}) {
    const Ref<Dataset> bad =
        Ok(Bad(9, parallel ? Parallel(2) : MapOptions())->OnError("quarantine:" + path));
    EXPECT_THAT(Numbers(bad), ElementsAre(0, 1, 3, 4, 6, 7));
    const std::vector<std::string> causes = quarantined();
    ASSERT_THAT(causes, SizeIs(3));
    EXPECT_THAT(causes[1], HasSubstr("map: element 5: 5 is bad"));
    EXPECT_THAT(causes[1], HasSubstr("'value': 5"));
    // A position is gone on from without a record twice or lost.
    const Ref<Iterator> first = Iterate(bad);
    EXPECT_THAT(Take(*first, 3), ElementsAre("0", "1", "3"));
    const std::string state = first->Save(CallOptions()).value();
    EXPECT_THAT(All(*first), ElementsAre("4", "6", "7"));
    const Ref<Iterator> again = Iterate(bad);
    ASSERT_TRUE(again->Restore(state, CallOptions()).ok());
    EXPECT_THAT(quarantined(), SizeIs(3));
    EXPECT_THAT(All(*again), ElementsAre("4", "6", "7"));
    EXPECT_EQ(quarantined(), causes);
  }
  EXPECT_THAT(All(Ok(Bad(4)->OnError("quarantine:/no/such/folder/file")))[2],
              HasSubstr("the quarantine cannot be written"));
  EXPECT_THAT(std::string(Bad(4)->OnError("quarantine:").status().message()),
              HasSubstr("the path of a file"));
  std::filesystem::remove(path);
}

// The elements that a quarantine wants are told to nobody else, in the same process or its log.
TEST_F(OnError, AQuarantineKeepsWhatItWantsToItself) {
  const std::string path = testing::TempDir() + "/tutti_quarantine_of_its_own_" +
                           std::to_string(getpid()) + ".tfrecord";
  const auto log = MakeRef<SkipLog>();
  ASSERT_TRUE(environment_->log().SetSink(log).ok());
  environment_->log().set_level(LogLevel::kWarning);
  const Ref<Iterator> keeps = Iterate(Ok(Bad(4)->OnError("quarantine:" + path)));
  EXPECT_THAT(All(*keeps), ElementsAre("0", "1", "3"));
  for (const bool by_slab : {false, true}) {
    const Ref<Iterator> other = Iterate(Bad(4));
    EXPECT_THAT(Take(*other, 2), ElementsAre("0", "1"));
    Slab slab;
    const Status failed = by_slab ? other->NextSlab(1, CallOptions(), &slab)
                                  : other->Next(CallOptions()).status();
    const Status& told = by_slab ? slab.status : failed;
    EXPECT_EQ(told.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(told.FindDetail("index"), nullptr);
    EXPECT_EQ(told.FindDetail("refused"), nullptr);
  }
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
  ASSERT_THAT(log->lines(), SizeIs(1));
  EXPECT_THAT(log->lines()[0], HasSubstr("2 is bad"));
  EXPECT_THAT(log->lines()[0], Not(HasSubstr("refused")));
  std::filesystem::remove(path);
}

TEST_F(OnError, GivesTheSameHoweverItIsWalked) {
  static Raises inside{5, {2}};
  static Raises at_end{4, {3}};
  static Raises twice_at_end{5, {3, 4}};
  const auto map = [&](const Ref<Dataset>& dataset) {
    return Ok(dataset->Map(AddOne(), Parallel(2)));
  };
  ExpectAllWalks({
      {"all", [&] { return Ok(Bad(9)->OnError("skip")); }, {"0", "1", "3", "4", "6", "7"}},
      {"none", [&] { return Ok(Bad(4)->OnError("skip", 0)); }, {"0", "1", "!2 is bad", "3"}},
      {"one", [&] { return Ok(Bad(10)->OnError("skip", 1)); },
       {"0", "1", "3", "4", "!5 is bad", "6", "7", "!8 is bad", "9"}},
      {"fail", [&] { return Ok(Bad(4)->OnError("fail")); }, {"0", "1", "!2 is bad", "3"}},
      {"nothing is left", [&] { return Ok(Ok(Ok(Bad(3)->Skip(2))->OnError("skip"))->Take(9)); },
       {}},
      {"above a parallel map", [&] { return Ok(Bad(9, Parallel(2))->OnError("skip", 2)); },
       {"0", "1", "3", "4", "6", "7", "!8 is bad"}},
      {"below a parallel map", [&] { return map(Ok(Bad(9)->OnError("skip", 2))); },
       {"1", "2", "4", "5", "7", "8", "!8 is bad"}},
      {"below a prefetch", [&] { return Ok(Ok(Bad(7)->OnError("skip"))->Prefetch(2)); },
       {"0", "1", "3", "4", "6"}},
      {"below a batch", [&] { return Ok(Ok(Bad(7)->OnError("skip"))->Batch(2)); },
       {"[0 1]", "[3 4]", "[6]"}},
      {"below a shuffle",
       [&] { return Ok(Ok(Bad(4)->OnError("skip"))->Shuffle(1, Seed(3))); }, {"0", "1", "3"}},
      {"twice", [&] { return Ok(Ok(Bad(10)->OnError("skip", 1))->OnError("skip", 1)); },
       {"0", "1", "3", "4", "6", "7", "!8 is bad", "9"}},
      {"each pass", [&] { return Ok(Ok(Bad(6)->OnError("skip", 2))->Repeat(2)); },
       {"0", "1", "3", "4", "0", "1", "3", "4"}},
      {"all passes", [&] { return Ok(Ok(Bad(4)->Repeat(2))->OnError("skip", 1)); },
       {"0", "1", "3", "0", "1", "!2 is bad", "3"}},
      {"a generator that goes on", [&] { return Ok(Generated(&inside)->OnError("skip")); },
       {"0", "1", "3", "4"}, false, false},
      {"a generator that is over", [&] { return Ok(Generated(&at_end)->OnError("skip")); },
       {"0", "1", "2", "!raised at 3"}, false, false},
      {"one that raised twice", [&] { return Ok(Generated(&twice_at_end)->OnError("skip")); },
       {"0", "1", "2", "!raised at 4"}, false, false},
      {"endless", [&] { return Ok(Ok(Bad(4)->Repeat(-1))->OnError("skip")); },
       {"0", "1", "3", "0", "1", "3"}, true},
  });
}

TEST_F(OnError, KeepsAHeldFailureInItsState) {
  Raises raises{4, {3}};
  const Ref<Dataset> dataset = Ok(Generated(&raises)->OnError("skip"));
  // A slab of three has met the failure behind it.
  const Ref<Iterator> iterator = Iterate(dataset);
  Slab slab;
  ASSERT_TRUE(iterator->NextSlab(10, CallOptions(), &slab).ok());
  EXPECT_EQ(slab.rows, 3);
  EXPECT_TRUE(slab.status.ok());
  const std::string state = iterator->Save(CallOptions()).value();
  EXPECT_THAT(All(*iterator), ElementsAre(HasSubstr("raised at 3")));
  raises.raising.clear();  // it does not come from there
  const Ref<Iterator> other = Iterate(dataset);
  ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
  EXPECT_THAT(All(*other), ElementsAre(HasSubstr("raised at 3")));
}

TEST_F(OnError, CountsOnWhereItIsRestored) {
  const Ref<Dataset> dataset = Ok(Bad(10)->OnError("skip", 2));
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_THAT(Take(*iterator, 5), ElementsAre("0", "1", "3", "4", "6"));
  const Ref<Iterator> other = Iterate(dataset);
  ASSERT_TRUE(other->Restore(iterator->Save(CallOptions()).value(), CallOptions()).ok());
  const Result<Ref<Value>> seven = other->Next(CallOptions());
  ASSERT_TRUE(seven.ok());
  const Status beyond = other->Next(CallOptions()).status();
  EXPECT_EQ(beyond.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(std::get<int64_t>(beyond.FindDetail("skipped")->value), 2);
  EXPECT_EQ(std::get<int64_t>(beyond.FindDetail("index")->value), 8);
  // A number above what may be skipped is no position of this dataset.
  const Ref<Iterator> fewer = Iterate(Ok(Bad(10)->OnError("skip", 1)));
  EXPECT_FALSE(fewer->Restore(iterator->Save(CallOptions()).value(), CallOptions()).ok());
}

TEST_F(OnError, NeverSkipsWhatIsNotOneElements) {
  // A file that is missing, between two that are there.
  const TempFolder folder;
  const std::string there = folder.path() + "/there.txt";
  std::ofstream(there) << "a\n";
  const std::string paths[] = {there, folder.path() + "/missing.txt", there};
  const Ref<Dataset> lines = Ok(Ok(MakeTextLineDataset(datasets_, paths, {}))->OnError("skip"));
  EXPECT_THAT(All(lines), ElementsAre("\"a\"", HasSubstr("missing.txt"), "\"a\""));
  // No file at all.
  const Ref<Dataset> none = Ok(MakeListFilesDataset(datasets_, {folder.path() + "/no*.x"},
                                                    {.name = {}, .shuffle = false, .seed = {}}));
  EXPECT_THAT(All(Ok(none->OnError("skip"))), ElementsAre(HasSubstr("no file matches")));
  for (int64_t worker : {0, 1}) {
    EXPECT_THAT(All(Ok(none->Shard(2, worker))), ElementsAre(HasSubstr("no file matches")));
  }
  // No memory.
  const Ref<TestFunction> full = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 1) return ResourceExhausted("full");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  EXPECT_THAT(All(Ok(Ok(Range(3)->Map(full))->OnError("skip"))),
              ElementsAre("0", HasSubstr("full"), "2"));
}

TEST_F(OnError, ReportsAnInputThatCannotStart) {
  const Ref<TestFunction> start =
      MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return InvalidArgument("cannot start");
      });
  // It fails to start each time that it is asked.
  const Ref<Iterator> iterator = Iterate(
      Ok(Ok(Dataset::FromGenerator(datasets_, start, AddOne(), Int64Scalar()))->OnError("skip")));
  EXPECT_THAT(Take(*iterator, 2),
              ElementsAre(HasSubstr("cannot start"), HasSubstr("cannot start")));
}

TEST_F(OnError, SearchesNoLongerThanItMayAndEndsWithItsIterator) {
  const Ref<TestFunction> fails = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return InvalidArgument("always");
      },
      {.spec = Int64Scalar()});
  const Ref<Dataset> nothing = Ok(Ok(Ok(Range(3)->Repeat(-1))->Map(fails))->OnError("skip"));
  const Ref<Iterator> iterator = Iterate(nothing);
  const CallOptions soon{Deadline::After(environment_->clock(), kMillisecondNs), nullptr};
  EXPECT_EQ(iterator->Next(soon).status().code(), StatusCode::kDeadlineExceeded);
  std::thread waits([&] {
    const Status status = iterator->Next(CallOptions()).status();
    EXPECT_TRUE(status.code() == StatusCode::kCancelled ||
                status.code() == StatusCode::kFailedPrecondition)
        << status.ToString();
  });
  Close(*iterator);
  waits.join();
}

TEST_F(OnError, SaysWhatItKnowsOfItsElements) {
  EXPECT_EQ(Ok(Range(5)->OnError("skip"))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Range(5)->OnError("skip", 0))->cardinality(), 5);
  EXPECT_EQ(Ok(Range(5)->OnError("fail"))->cardinality(), 5);
  EXPECT_EQ(Ok(Range(0)->OnError("skip"))->cardinality(), 0);
  EXPECT_EQ(Ok(Ok(Range(5)->Repeat(-1))->OnError("skip"))->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(SpecText(Ok(Range(5)->OnError("skip"))), "int64[]");
  // Where an iterator learns the spec, from the first element that did not fail.
  const Ref<TestFunction> late = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 0) return InvalidArgument("the first");
        return Value::OfTensor(Tensor::Vector<float>({1, 2}));
      });
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(3)->Map(late))->OnError("skip")));
  EXPECT_EQ(iterator->element_spec()->ToString(), "float32[2]");
  EXPECT_THAT(All(*iterator), ElementsAre("[1 2]", "[1 2]"));
}

TEST_F(OnError, RefusesWhatItDoesNotKnow) {
  const auto refused = [](const Result<Ref<Dataset>>& made) {
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  };
  EXPECT_THAT(refused(Range(3)->OnError("ignore")),
              StartsWith("on_error: the policy must be 'fail' (failed elements are reported in "
                         "their places), 'skip' (they are left out) or 'quarantine:PATH' (they are "
                         "left in a file), got "));
  EXPECT_EQ(refused(Range(3)->OnError("skip", -2)),
            "on_error: max_skipped must be -1 (any number) or 0 and more, got -2");
  EXPECT_THAT(refused(Range(3)->OnError("fail", 3)), HasSubstr("skips nothing"));
}

TEST_F(OnError, IsLoggedAtFirstAndInTheEndAndNotEachTime) {
  const auto log = MakeRef<SkipLog>();
  ASSERT_TRUE(environment_->log().SetSink(log).ok());
  environment_->log().set_level(LogLevel::kWarning);
  EXPECT_THAT(Numbers(Ok(Bad(3000)->OnError("skip"))), SizeIs(2000));
  const std::vector<std::string> lines = log->lines();
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("on_error: skipped 1 element that failed, 1 in this pass; the "
                                  "last: INVALID_ARGUMENT: map: element 2: "));
  EXPECT_LT(lines.size(), 100u);
  EXPECT_THAT(lines.back(), HasSubstr("1000 in this pass; the last: "));
  EXPECT_THAT(lines.back(), HasSubstr("2999 is bad"));
}

TEST_F(OnError, IsSeenThroughWhereDataIsDealtOut) {
  const TempFolder folder;
  for (const char* name : {"a.txt", "b.txt"}) {
    std::ofstream(folder.path() + "/" + name) << name << "\n";
  }
  const Ref<Dataset> names = Ok(MakeListFilesDataset(datasets_, {folder.path() + "/*.txt"},
                                                     {.name = {}, .shuffle = false, .seed = {}}));
  const Ref<Dataset> lines =
      Ok(Ok(MakeTextLineDataset(*Ok(names->OnError("skip")), {}))->OnError("skip", 3));
  for (int64_t worker : {0, 1}) {
    const Result<ShardedDataset> sharded =
        AutoShard(*lines, AutoShardPolicy::kAuto, 2, worker, CallOptions());
    ASSERT_TRUE(sharded.ok()) << sharded.status().ToString();
    EXPECT_EQ(sharded->policy, AutoShardPolicy::kFile);
    EXPECT_THAT(All(sharded->dataset), ElementsAre(worker == 0 ? "\"a.txt\"" : "\"b.txt\""));
  }
}

}  // namespace
}  // namespace tutti
