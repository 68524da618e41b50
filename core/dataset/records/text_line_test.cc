#include "core/dataset/records/text_line.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

class TextLineDataset : public RecordFileDatasetTest {
 protected:
  Ref<Dataset> Read(const Strings& paths, TextLineOptions options = {}) {
    Result<Ref<Dataset>> dataset = MakeTextLineDataset(datasets_, paths, std::move(options));
    EXPECT_TRUE(dataset.ok()) << dataset.status().ToString();
    return std::move(dataset).value();
  }
};

TEST_F(TextLineDataset, LinesEndWithOneLfAndOneCrBeforeItAndResumeAnywhere) {
  const struct {
    const char* what;
    std::string content;
    Strings lines;
  } cases[] = {
      {"empty", "", {}},
      {"no final LF", "a\nb", {"a", "b"}},
      {"a final LF", "a\nb\n", {"a", "b"}},
      {"one LF", "\n", {""}},
      {"empty lines", "\n\na\n\n", {"", "", "a", ""}},
      {"CRLF", "a\r\n\r\nb\r\n", {"a", "", "b"}},
      {"other CRs stay", "a\r\r\nb\rc\n\rd\n", {"a\r", "b\rc", "\rd"}},
      {"a NUL", std::string("a\0b\n", 4), {std::string("a\0b", 3)}},
      {"longer than blocks", std::string(50, 'x') + "\r\n" + std::string(33, 'y'),
       {std::string(50, 'x'), std::string(33, 'y')}},
  };
  const Strings others = {folder_.Write("before", "1\n2"), folder_.Write("behind", "3\n")};
  for (const auto& c : cases) {
    for (const RecordCompression compression :
         {RecordCompression::kNone, RecordCompression::kGzip, RecordCompression::kZlib}) {
      for (const int64_t buffer : {1, 2, 3, 7, 0}) {
        SCOPED_TRACE(std::string(c.what) + ", buffer " + std::to_string(buffer));
        const bool plain = compression == RecordCompression::kNone;
        const std::string path = folder_.Write(
            "file", plain ? c.content
                          : Deflated(c.content, compression == RecordCompression::kGzip));
        TextLineOptions options;
        options.compression = compression;
        options.buffer_bytes = buffer;
        const Ref<Dataset> dataset = Read({path}, options);
        EXPECT_EQ(All(dataset), c.lines);
        ExpectResumesEverywhere(dataset);
        if (!plain) continue;
        Strings all = {"1", "2"};
        all.insert(all.end(), c.lines.begin(), c.lines.end());
        all.emplace_back("3");
        EXPECT_EQ(All(Read({others[0], path, others[1]}, options)), all);
      }
    }
  }
}

TEST_F(TextLineDataset, AMissingFileIsOneErrorAndTheNextFileFollows) {
  std::vector<Status> errors;
  const Ref<Dataset> dataset =
      Read({folder_.Write("a", "1\n2\n"), folder_.Path("none"), folder_.Write("b", "3")});
  EXPECT_THAT(All(dataset, &errors), ElementsAre("1", "2", "!", "3"));
  EXPECT_EQ(errors[0].code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(errors[0].message()), HasSubstr(folder_.Path("none")));
  ExpectResumesEverywhere(dataset);
}

TEST_F(TextLineDataset, ATruncatedCompressedFileIsDataLossBehindItsWholeLines) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "line " + std::to_string(i * 7919) + "\n";
  for (const bool gzip : {true, false}) {
    const std::string whole = Deflated(lines, gzip);
    TextLineOptions options;
    options.compression = gzip ? RecordCompression::kGzip : RecordCompression::kZlib;
    const std::string path = folder_.Write("cut", whole.substr(0, whole.size() / 2));
    std::vector<Status> errors;
    const Strings got = All(Read({path}, options), &errors);
    ASSERT_EQ(errors.size(), 1);
    EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss) << errors[0].ToString();
    EXPECT_EQ(got.back(), "!");
    EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
    EXPECT_EQ(Detail<int64_t>(errors[0], "index"), static_cast<int64_t>(got.size()) - 1);
    size_t offset = 0;
    for (size_t i = 0; i + 1 < got.size(); ++i) offset += got[i].size() + 1;
    EXPECT_EQ(Detail<int64_t>(errors[0], "offset"), static_cast<int64_t>(offset));
  }
}

TEST_F(TextLineDataset, ALineThatNoMemoryIsLeftForIsOneErrorAndTheNextLineFollows) {
  environment_->memory().set_limit_bytes(1 << 20);
  std::vector<Status> errors;
  TextLineOptions options;
  options.buffer_bytes = 4096;
  const std::string path =
      folder_.Write("long", "a\n" + std::string(3 << 20, 'x') + "\nb\n");
  EXPECT_THAT(All(Read({path}, options), &errors), ElementsAre("a", "!", "b"));
  EXPECT_EQ(errors[0].code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(errors[0].message()), HasSubstr("text_line: line 1 at byte 2"));
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
}

// Fails for lines of "bad", and gives the others.
Result<Ref<Value>> RefuseBad(Context&, const Value& in, void*) {
  if (in.leaf().tensor().item<BytesView>().text() == "bad") {
    return Status(StatusCode::kDataLoss, "it is bad");
  }
  return Value::OfLeaf(in.leaf());
}
Result<Ref<Value>> Pass(Context&, const Value& in, void*) { return Value::OfLeaf(in.leaf()); }

TEST_F(TextLineDataset, AFunctionThatFailsSaysForWhichRecordOfWhichFile) {
  const std::string second = folder_.Write("second", "c\nbad\nd\n");
  const Ref<Dataset> lines = Read({folder_.Write("first", "a\nb\n"), second});
  const std::string said = "element 3 (record 1 of \"" + second + "\"): it is bad";
  for (const int64_t calls : {0, 2}) {
    const Ref<Dataset> passed = lines->Map(MakeFunction(Pass), Parallel(calls)).value();
    for (const Ref<Dataset>& refused :
         {lines->Map(MakeFunction(RefuseBad), Parallel(calls)).value(),
          passed->Map(MakeFunction(RefuseBad), Parallel(calls)).value(),
          passed->Prefetch(2, {}).value()->Map(MakeFunction(RefuseBad), Parallel(calls)).value()}) {
      std::vector<Status> errors;
      EXPECT_THAT(All(refused, &errors), ElementsAre("a", "b", "c", "!", "d"));
      ASSERT_EQ(errors.size(), 1u);
      EXPECT_THAT(std::string(errors[0].message()), HasSubstr(said));
      EXPECT_EQ(Detail<std::string>(errors[0], "source_file"), second);
      EXPECT_EQ(Detail<int64_t>(errors[0], "source_record"), 1);
    }
  }
}

Result<Ref<Value>> AsItIs(Context&, const Value& in, void*) { return Value::OfLeaf(in.leaf()); }

Result<Ref<Value>> RefuseBadPair(Context& context, const Value& in, void* data) {
  return RefuseBad(context, *in.Child(0), data);
}

TEST_F(TextLineDataset, WhatInnerDatasetsGiveAndTheFirstOfAPairKnowTheirRecord) {
  const std::string path = folder_.Write("lines", "a\nbad\nc\n");
  const Ref<Dataset> lines = Read({path});
  const Ref<Function> as_it_is = MakeFunction(AsItIs);
  const Ref<Dataset> nested =
      Dataset::FromTensors(datasets_, Value::OfLeaf(Leaf(LeafKind::kDataset, lines))).value();
  const Ref<Value> pair =
      Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, lines)),
                    Value::OfLeaf(Leaf(LeafKind::kDataset, Read({path})))});
  for (const Ref<Dataset>& refused :
       {nested->FlatMap(as_it_is).value()->Map(MakeFunction(RefuseBad), {}).value(),
        nested->Interleave(as_it_is, 2).value()->Map(MakeFunction(RefuseBad), {}).value(),
        Dataset::Zip(datasets_, *pair).value()->Map(MakeFunction(RefuseBadPair), {}).value()}) {
    std::vector<Status> errors;
    EXPECT_THAT(All(refused, &errors), ElementsAre("a", "!", "c"));
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_THAT(std::string(errors[0].message()),
                HasSubstr("element 1 (record 1 of \"" + path + "\"): it is bad"));
  }
}

TEST_F(TextLineDataset, WhatIsShuffledShardedOrRestoredKnowsItsRecord) {
  const std::string path = folder_.Write("lines", "a\nb\nc\nd\nbad\nf\n");
  const Ref<Dataset> lines = Read({path});
  const auto says = [&](const Ref<Dataset>& dataset, Iterator* iterator = nullptr) {
    std::vector<Status> errors;
    const Ref<Dataset> refused = dataset->Map(MakeFunction(RefuseBad), {}).value();
    (void)(iterator != nullptr ? Rest(*iterator, &errors) : All(refused, &errors));
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_THAT(std::string(errors[0].message()), HasSubstr("(record 4 of \"" + path + "\")"));
  };
  says(lines->Shuffle(3, Seed(7)).value());
  says(lines->Shuffle(100, Seed(7)).value());
  says(lines->Shard(2, 0).value());
  says(lines->Take(5).value());
  says(lines->Skip(2).value());
  says(lines->Repeat(1).value());
  const Ref<Dataset> refused = lines->Map(MakeFunction(RefuseBad), {}).value();
  const Ref<Iterator> before = Iterate(refused);
  Next(*before);
  Next(*before);
  const Ref<Iterator> after = Iterate(refused);
  ASSERT_TRUE(after->Restore(before->Save(CallOptions()).value(), CallOptions()).ok());
  says(lines, after.get());
}

// Fails for a batch with a "bad" in it, and a window whose place in its list is said in `data`.
Result<Ref<Value>> RefuseBadBatch(Context&, const Value& in, void*) {
  for (const BytesView& line : in.leaf().tensor().span<BytesView>()) {
    if (line.text() == "bad") return InvalidArgument("it is bad");
  }
  return Value::OfLeaf(in.leaf());
}
Result<Ref<Value>> RefuseThird(Context&, const Value& in, void* count) {
  if (++*static_cast<int64_t*>(count) == 3) return InvalidArgument("it is bad");
  return Value::OfLeaf(in.leaf());
}

TEST_F(TextLineDataset, BatchesAndWindowsKnowAmongWhichRecordsTheyLie) {
  const std::string path = folder_.Write("lines", "a\nb\nc\nd\nbad\nf\ng\n");
  const Ref<Dataset> lines = Read({path});
  const auto error_of = [](const Ref<Dataset>& dataset) {
    std::vector<Status> errors;
    const Ref<Iterator> iterator = Iterate(dataset);
    for (Result<Ref<Value>> element = iterator->Next(CallOptions()); !element.ok() || *element;
         element = iterator->Next(CallOptions())) {
      if (!element.ok()) errors.push_back(element.status());
    }
    EXPECT_EQ(errors.size(), 1u);
    return errors.empty() ? OkStatus() : errors[0];
  };
  const auto expect = [&](const Ref<Dataset>& dataset, int64_t first, int64_t last) {
    const Status error = error_of(dataset->Map(MakeFunction(RefuseBadBatch), {}).value());
    EXPECT_THAT(std::string(error.message()),
                HasSubstr(Format("(records {} to {} of \"{}\")", first, last, path)));
    EXPECT_EQ(Detail<std::string>(error, "source_file"), path);
    EXPECT_EQ(Detail<int64_t>(error, "source_record"), first);
    EXPECT_EQ(Detail<int64_t>(error, "source_last_record"), last);
  };
  expect(lines->Batch(2).value(), 4, 5);
  expect(lines->Skip(1).value()->Batch(3).value(), 4, 6);
  expect(lines->PaddedBatch(4).value(), 4, 6);
  expect(lines->Batch(2).value()->Shuffle(3, Seed(7)).value(), 4, 5);
  expect(lines->Batch(3).value()->Prefetch(1).value(), 3, 5);
  // Among those that it keeps: 0, 2, 4 and 6.
  expect(lines->Shard(2, 0).value()->Batch(2).value(), 4, 6);
  // From anywhere in the file.
  expect(lines->Shuffle(100, Seed(7)).value()->Batch(7).value(), 0, 6);

  int64_t count = 0;
  const Status window = error_of(
      lines->Window(2, 2).value()->Map(MakeFunction(RefuseThird, {.data = &count}), {}).value());
  EXPECT_THAT(std::string(window.message()),
              HasSubstr(Format("element 2 (records 4 to 5 of \"{}\")", path)));
  // Of several files none.
  const Ref<Dataset> both = Read({folder_.Write("first", "a\n"), path});
  const Status mixed = error_of(
      both->Batch(8).value()->Map(MakeFunction(RefuseBadBatch), {}).value());
  EXPECT_THAT(std::string(mixed.message()), Not(HasSubstr("record")));
  EXPECT_EQ(mixed.FindDetail("source_file"), nullptr);
}

TEST_F(TextLineDataset, WhatIsCachedInMemoryKnowsItsRecord) {
  const std::string path = folder_.Write("lines", "a\nb\nc\nd\nbad\nf\n");
  const Ref<Dataset> lines = Read({path});
  for (const Ref<Dataset>& cached :
       {lines->Cache().value(), lines->Shuffle(9, Seed(7)).value()->Cache().value()}) {
    const Ref<Dataset> twice =
        cached->Repeat(2).value()->Map(MakeFunction(RefuseBad), {}).value();
    std::vector<Status> errors;
    (void)All(twice, &errors);
    ASSERT_EQ(errors.size(), 2u);
    for (const Status& error : errors) {
      EXPECT_THAT(std::string(error.message()), HasSubstr("(record 4 of \"" + path + "\")"));
    }
  }
}

TEST_F(TextLineDataset, IsSerialised) {
  const Ref<Dataset> dataset = Read({folder_.Write("a", "1\r\n2")});
  EXPECT_EQ(dataset->cardinality(), kUnknownCardinality);
  const Result<Ref<Dataset>> again = Dataset::Deserialize(datasets_, dataset->Serialize().value());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_THAT(All(again.value()), ElementsAre("1", "2"));
}

}  // namespace
}  // namespace tutti
