#include <gmock/gmock.h>

#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/records/tf_record_writer.h"
#include "core/dataset/testing/op_walks_testing.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What the functions of these tests write and give.
struct Plan {
  Ref<Environment> environment;
  Ref<DatasetEnvironment> datasets;
  std::string folder;             // files are <folder>/<x>
  int64_t texts = 3;              // in each file
  int64_t given = 2;              // elements of the dataset that is given: 10 x, 10 x + 1 ...
  bool shuffled = false;          // what is written
  RecordCompression compression = RecordCompression::kNone;
  // Calls come from several threads at once.
  std::mutex mutex = {};          // guards what follows
  int calls = 0;
  Ref<TfRecordWriter> last;       // what the function let go open
};

Result<Ref<Value>> DatasetValue(Result<Ref<Dataset>> made) {
  TUTTI_RETURN_IF_ERROR(made.status());
  return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made).value()));
}

// "5" of 5.
Ref<TestFunction> AsText() {
  return MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Bytes(std::to_string(NumberIn(in))));
      },
      {.spec = ElementSpec::OfTensor(DType::kBytes, PartialShape::Scalar())});
}

Result<Ref<Dataset>> TextsFrom(const Plan& plan, int64_t first) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made,
                         Dataset::Range(plan.datasets, first, first + plan.texts, 1));
  if (plan.shuffled) {
    TUTTI_ASSIGN_OR_RETURN(made, made->Shuffle(plan.texts));
  }
  return made->Map(AsText());
}

Result<Ref<Value>> WritesAndGives(Context&, const Value& in, void* data) {
  Plan& plan = *static_cast<Plan*>(data);
  const int64_t x = NumberIn(in);
  TUTTI_ASSIGN_OR_RETURN(
      Ref<TfRecordWriter> writer,
      TfRecordWriter::Create(plan.environment, plan.folder + "/" + std::to_string(x),
                             {.compression = plan.compression}));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Dataset> texts, TextsFrom(plan, 100 * x));
  TUTTI_RETURN_IF_ERROR(writer->Write(*texts, CallOptions()));
  {
    // The former one ends without the lock.
    const std::lock_guard<std::mutex> lock(plan.mutex);
    ++plan.calls;
    std::swap(plan.last, writer);
  }
  return DatasetValue(Dataset::Range(plan.datasets, 10 * x, 10 * x + plan.given, 1));
}

class AfterWrites : public OpWalksTest {
 protected:
  AfterWrites() {
    plan_.environment = environment_;
    plan_.datasets = datasets_;
    plan_.folder = folder_.path();
  }
  ~AfterWrites() override { plan_.last = nullptr; }

  Ref<TestFunction> Writing(TestFunction::Body body = WritesAndGives) {
    return MakeFunction(body, {.data = &plan_});
  }
  Ref<Dataset> Written(int64_t stop, TestFunction::Body body = WritesAndGives) {
    return Ok(Range(stop)->FlatMap(Writing(body)));
  }
  std::vector<std::string> Files() { return environment_->disk().List(folder_.path()).value(); }
  std::vector<std::string> Records(const std::string& name, TfRecordOptions options = {}) {
    const std::string paths[] = {folder_.Path(name)};
    return All(Ok(MakeTfRecordDataset(datasets_, paths, options)));
  }
  void Remove(const std::string& name) {
    ASSERT_TRUE(environment_->disk().Remove(folder_.Path(name)).ok());
  }

  Plan plan_;
  const TempFolder folder_;
};

TEST_F(AfterWrites, AFileIsThereWithTheFirstElementAndNotBefore) {
  const Ref<Dataset> dataset = Written(3);
  EXPECT_THAT(SpecText(dataset), "int64[]");
  EXPECT_GE(plan_.calls, 1);
  EXPECT_THAT(Files(), IsEmpty());
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_THAT(Files(), ElementsAre("0"));
  EXPECT_THAT(Records("0"), ElementsAre("\"0\"", "\"1\"", "\"2\""));
  EXPECT_EQ(Next(*iterator), "1");
  EXPECT_THAT(Files(), ElementsAre("0"));
  EXPECT_EQ(Next(*iterator), "10");
  EXPECT_THAT(Files(), ElementsAre("0", "1"));
  EXPECT_THAT(All(*iterator), ElementsAre("11", "20", "21"));
  EXPECT_THAT(Records("2"), ElementsAre("\"200\"", "\"201\"", "\"202\""));
}

TEST_F(AfterWrites, EveryWayToWalkWritesTheSameFiles) {
  const std::vector<std::string> elements = {"0", "1", "10", "11", "20", "21"};
  const std::vector<std::string> in_turn = {"0", "10", "1", "11", "20", "21"};
  for (const bool shuffled : {false, true}) {
    for (const int64_t threads : {0, 2}) {
      plan_.shuffled = shuffled;
      plan_.texts = 400;
      ExpectAllWalks({{"flat_map", [&] { return Written(3); }, elements},
                      {"interleave",
                       [&] {
                         return Ok(Range(3)->Interleave(Writing(), 2, 1, threads));
                       },
                       in_turn}});
      EXPECT_THAT(Files(), ElementsAre("0", "1", "2"));
      EXPECT_EQ(Records("1").size(), 400u);
    }
  }
}

TEST_F(AfterWrites, AStateFromBehindTheFirstElementDoesNotWriteAgain) {
  plan_.shuffled = true;
  environment_->SetDefaultSeed(7);
  const Ref<Dataset> dataset = Written(2);
  const Ref<Iterator> iterator = Iterate(dataset);
  const std::string before = iterator->Save(CallOptions()).value();
  EXPECT_EQ(Next(*iterator), "0");
  const std::string behind = iterator->Save(CallOptions()).value();
  const std::vector<std::string> written = Records("0");
  Remove("0");
  const Ref<Iterator> later = Iterate(dataset);
  ASSERT_TRUE(later->Restore(behind, CallOptions()).ok());
  EXPECT_THAT(All(*later), ElementsAre("1", "10", "11"));
  EXPECT_THAT(Files(), ElementsAre("1"));
  const Ref<Iterator> again = Iterate(dataset);
  ASSERT_TRUE(again->Restore(before, CallOptions()).ok());
  EXPECT_THAT(All(*again), ElementsAre("0", "1", "10", "11"));
  EXPECT_EQ(Records("0"), written);
}

TEST_F(AfterWrites, WhatCannotBeWrittenIsTheFirstElementsFailure) {
  plan_.folder = folder_.Path("none");
  plan_.given = 3;
  const Ref<Iterator> iterator = Iterate(Written(2));
  const Status failed = iterator->Next(CallOptions()).status();
  EXPECT_EQ(failed.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(failed.message()),
              AllOf(HasSubstr("none/0\", which was to be written before the first element"),
                    HasSubstr("none/0")));
  ASSERT_NE(failed.FindDetail("file"), nullptr);
  EXPECT_EQ(std::get<std::string>(failed.FindDetail("file")->value), folder_.Path("none/0"));
  EXPECT_EQ(failed.causes().size(), 1u);
  EXPECT_EQ(Next(*iterator), "1");
  EXPECT_EQ(Next(*iterator), "2");
  EXPECT_THAT(Next(*iterator), HasSubstr("none/1"));
  EXPECT_THAT(All(*iterator), ElementsAre("11", "12"));
  ExpectAllWalks({{"nowhere", [&] { return Written(2); }, {"!none/0", "1", "2", "!none/1", "11",
                                                           "12"}}});
}

TEST_F(AfterWrites, AnElementThatCannotBeMadeLeavesNoFile) {
  folder_.Write("0", "old");
  const Ref<Iterator> iterator =
      Iterate(Written(1, [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        const Plan& plan = *static_cast<Plan*>(data);
        TUTTI_ASSIGN_OR_RETURN(const Ref<TfRecordWriter> writer,
                               TfRecordWriter::Create(plan.environment, plan.folder + "/0", {}));
        TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> texts, Dataset::Range(plan.datasets, 0, 3, 1));
        TUTTI_ASSIGN_OR_RETURN(
            texts, texts->Map(MakeFunction([](Context&, const Value& in, void*) {
              return NumberIn(in) == 2
                         ? Result<Ref<Value>>(Status(StatusCode::kDataLoss, "no text for 2"))
                         : Result<Ref<Value>>(Value::OfTensor(Tensor::Bytes("text")));
            })));
        TUTTI_RETURN_IF_ERROR(writer->Write(*texts, CallOptions()));
        return DatasetValue(Dataset::Range(plan.datasets, 0, 1, 1));
      }));
  EXPECT_THAT(Next(*iterator), HasSubstr("no text for 2"));
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_EQ(ReadWholeFile(folder_.Path("0")), "old");
  EXPECT_THAT(Files(), ElementsAre("0"));
}

TEST_F(AfterWrites, WritersTakeSeveralDatasetsAndMayBeClosedOrAbandoned) {
  const Ref<Iterator> iterator =
      Iterate(Written(1, [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        const Plan& plan = *static_cast<Plan*>(data);
        const auto writer_of = [&](const char* name) {
          return TfRecordWriter::Create(plan.environment, plan.folder + "/" + name,
                                        {.compression = RecordCompression::kGzip})
              .value();
        };
        const Ref<Dataset> few = TextsFrom(plan, 0).value();
        const Ref<Dataset> more = TextsFrom(plan, 50).value();
        const Ref<TfRecordWriter> both = writer_of("both");
        EXPECT_TRUE(both->is_recorded());
        TUTTI_RETURN_IF_ERROR(both->Write(*few, CallOptions()));
        TUTTI_RETURN_IF_ERROR(both->Write(*more, CallOptions()));
        TUTTI_RETURN_IF_ERROR(both->Finish());
        EXPECT_EQ(both->Write(*few, CallOptions()).code(), StatusCode::kFailedPrecondition);
        const Ref<TfRecordWriter> dropped = writer_of("dropped");
        TUTTI_RETURN_IF_ERROR(dropped->Write(*few, CallOptions()));
        TUTTI_RETURN_IF_ERROR(dropped->Abandon());
        TUTTI_RETURN_IF_ERROR(writer_of("empty")->Finish());
        // Bytes, and other elements.
        const Ref<TfRecordWriter> bad = writer_of("bad");
        EXPECT_EQ(bad->Write("a record").code(), StatusCode::kFailedPrecondition);
        const Ref<Dataset> numbers = Dataset::Range(plan.datasets, 0, 1, 1).value();
        EXPECT_EQ(bad->Write(*numbers, CallOptions()).code(), StatusCode::kInvalidArgument);
        TUTTI_RETURN_IF_ERROR(bad->Abandon());
        return DatasetValue(Dataset::Range(plan.datasets, 0, 0, 1));
      }));
  // Also before the end of what has no element.
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_THAT(Files(), ElementsAre("both", "empty"));
  TfRecordOptions options;
  options.compression = RecordCompression::kGzip;
  EXPECT_THAT(Records("both", options), ElementsAre("\"0\"", "\"1\"", "\"2\"", "\"50\"", "\"51\"",
                                                    "\"52\""));
  EXPECT_THAT(Records("empty", options), IsEmpty());
}

TEST_F(AfterWrites, AWriterEndsWithItsFunctionAndOthersDoNotWriteThere) {
  const Ref<Iterator> iterator = Iterate(Written(1));
  EXPECT_EQ(Next(*iterator), "0");
  const Ref<Dataset> texts = Ok(TextsFrom(plan_, 0));
  const Status late = plan_.last->Write(*texts, CallOptions());
  EXPECT_EQ(late.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(late.message()), HasSubstr("a dataset function that has returned"));
  // One that is made outside, in a function; one in a function that gives no dataset.
  plan_.last = TfRecordWriter::Create(environment_, folder_.Path("outside"), {}).value();
  const Ref<Iterator> outside =
      Iterate(Written(1, [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        Plan& plan = *static_cast<Plan*>(data);
        TUTTI_ASSIGN_OR_RETURN(const Ref<Dataset> some, TextsFrom(plan, 0));
        TUTTI_RETURN_IF_ERROR(plan.last->Write(*some, CallOptions()));
        return Value::None();
      }));
  EXPECT_THAT(Next(*outside), HasSubstr("make the writer in the function"));
  EXPECT_TRUE(plan_.last->Abandon().ok());
}

}  // namespace
}  // namespace tutti
