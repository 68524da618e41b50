#include "core/dataset/records/tf_record.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <vector>

#include "core/dataset/records/list_files.h"
#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TfRecordDataset : public RecordFileDatasetTest {
 protected:
  Ref<Dataset> Read(const std::vector<std::string>& paths, TfRecordOptions options = {}) {
    Result<Ref<Dataset>> dataset = MakeTfRecordDataset(datasets_, paths, std::move(options));
    EXPECT_TRUE(dataset.ok()) << dataset.status().ToString();
    return std::move(dataset).value();
  }
  std::string File(const std::string& name, const std::vector<std::string>& records) {
    return folder_.Write(name, TfRecordFrames(records));
  }
};

TEST_F(TfRecordDataset, GivesTheRecordsOfAllFilesInOrder) {
  const Ref<Dataset> dataset =
      Read({File("a", {"one", "two"}), File("b", {}), File("c", {"three"}), File("a2", {"four"})});
  EXPECT_THAT(All(dataset), ElementsAre("one", "two", "three", "four"));
  EXPECT_THAT(All(dataset), ElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(dataset->cardinality(), kUnknownCardinality);
  EXPECT_EQ(dataset->known_element_spec()->ToString(), "bytes[]");
}

TEST_F(TfRecordDataset, NoFilesHaveNoRecords) { EXPECT_THAT(All(Read({})), ElementsAre()); }

TEST_F(TfRecordDataset, TakesANumberOfParallelReadsThatIsNoLessThanAutotune) {
  const std::vector<std::string> files = {File("a", {"one"}), File("b", {"two"})};
  TfRecordOptions options;
  for (const int64_t number : {int64_t{2}, kAutotune}) {
    options.num_parallel_reads = number;
    EXPECT_THAT(All(Read(files, options)), ElementsAre("one", "two"));
  }
  EXPECT_THAT(Read(files, options)->Explain(), HasSubstr("num_parallel_reads=-1"));
  EXPECT_THAT(Read(files)->Explain(), HasSubstr("num_parallel_reads=0"));
  options.num_parallel_reads = -2;
  const Status refused = MakeTfRecordDataset(datasets_, files, options).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("num_parallel_reads must be a number"));
}

TEST_F(TfRecordDataset, TakesVectorsOfFileNames) {
  const std::string a = File("a", {"one"});
  const std::string b = File("b", {"two"});
  const std::vector<BytesView> names = {
      {a.data(), a.size()}, {b.data(), b.size()}, {a.data(), a.size()}};
  const Ref<Value> value = Value::OfTensor(Tensor::FromStrings(Shape({3}), names).value());
  const Ref<Dataset> files = Dataset::FromTensors(datasets_, value).value();
  const Ref<Dataset> records = MakeTfRecordDataset(*files, {}).value();
  EXPECT_THAT(All(records), ElementsAre("one", "two", "one"));
  ExpectResumesEverywhere(records);
}

TEST_F(TfRecordDataset, BatchesOfRecordsKeepTheirBlocksAlive) {
  std::vector<std::string> written;
  for (int i = 0; i < 300; ++i)
    written.push_back("record " + std::to_string(i) + std::string(i, '.'));
  TfRecordOptions options;
  options.buffer_bytes = 1000;
  const Ref<Dataset> batches = Read({File("a", written)}, options)->Batch(128).value();
  const Ref<Iterator> iterator = Iterate(batches);
  std::vector<Ref<Value>> held;
  for (;;) {
    const Result<Ref<Value>> batch = iterator->Next(CallOptions());
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    if (batch.value() == nullptr) break;
    held.push_back(batch.value());
  }
  ASSERT_EQ(held.size(), 3u);
  EXPECT_EQ(held[2]->leaf().tensor().SpecString(), "bytes[44]");
  size_t i = 0;
  for (const Ref<Value>& batch : held) {
    const Ref<Tensor> rows = batch->leaf().tensor().Contiguous().value();
    for (const BytesView& record : rows->span<BytesView>()) EXPECT_EQ(record.text(), written[i++]);
  }
  EXPECT_EQ(i, written.size());
}

TEST_F(TfRecordDataset, ResumesWithAnotherBuffer) {
  const std::vector<std::string> files = {File("a", {"one", "two", "three"}), File("b", {"four"})};
  TfRecordOptions small;
  small.buffer_bytes = 20;
  const Ref<Iterator> iterator = Iterate(Read(files, small));
  EXPECT_EQ(Next(*iterator), "one");
  const std::string state = iterator->Save(CallOptions()).value();
  const Ref<Iterator> other = Iterate(Read(files));
  const Status restored = other->Restore(state, CallOptions());
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  EXPECT_THAT(Rest(*other), ElementsAre("two", "three", "four"));
}

TEST_F(TfRecordDataset, ResumesAtAnyRecordBySeeking) {
  std::vector<std::string> records;
  for (int i = 0; i < 40; ++i) records.push_back("record " + std::to_string(i));
  const std::string plain = File("a", records);
  const std::string other = File("b", {"x", "y"});
  const std::string gzip = folder_.Write("c", Deflated(TfRecordFrames(records), true));
  TfRecordOptions options;
  options.buffer_bytes = 100;
  ExpectResumesEverywhere(Read({plain, other, plain}, options));
  ExpectResumesEverywhere(Read({plain, other}, options)->Repeat(2).value());
  options.compression = RecordCompression::kGzip;
  ExpectResumesEverywhere(Read({gzip, gzip}, options));
}

TEST_F(TfRecordDataset, RestoringDoesNotReadWhatLiesBefore) {
  std::string bytes = TfRecordFrames({"one", "two", "three", "four"});
  const std::string path = folder_.Write("a", bytes);
  const Ref<Dataset> dataset = Read({path});
  const Ref<Iterator> iterator = Iterate(dataset);
  Next(*iterator);
  Next(*iterator);
  const std::string state = iterator->Save(CallOptions()).value();
  bytes[0] ^= 1;  // nobody could read the file from its start any more
  folder_.Write("a", bytes);
  const Ref<Iterator> other = Iterate(dataset);
  ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
  EXPECT_THAT(Rest(*other), ElementsAre("three", "four"));
}

TEST_F(TfRecordDataset, RestoringFailsWhenTheFileIsGone) {
  const std::string path = File("a", {"one", "two", "three"});
  const Ref<Dataset> dataset = Read({path});
  const Ref<Iterator> iterator = Iterate(dataset);
  Next(*iterator);
  const std::string state = iterator->Save(CallOptions()).value();
  std::filesystem::remove(path);
  const Status restored = Iterate(dataset)->Restore(state, CallOptions());
  EXPECT_EQ(restored.code(), StatusCode::kNotFound) << restored.ToString();
  EXPECT_THAT(std::string(restored.message()), HasSubstr(path));
}

TEST_F(TfRecordDataset, AMissingFileIsOneErrorAndTheNextFileFollows) {
  const std::string missing = folder_.Path("missing");
  const Ref<Dataset> dataset = Read({File("a", {"one"}), missing, File("b", {"two"})});
  std::vector<Status> errors;
  EXPECT_THAT(All(dataset, &errors), ElementsAre("one", "!", "two"));
  EXPECT_EQ(errors[0].code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(errors[0].message()), AllOf(HasSubstr("tf_record"), HasSubstr(missing)));
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), missing);
}

TEST_F(TfRecordDataset, ACorruptRecordIsOneErrorThatNamesFileOffsetAndIndex) {
  std::string bytes = TfRecordFrames({"one", "two", "three"});
  bytes[19 + 12] ^= 1;
  const std::string path = folder_.Write("bad", bytes);
  const Ref<Dataset> dataset = Read({File("a", {"zero"}), path, File("b", {"four"})});
  std::vector<Status> errors;
  EXPECT_THAT(All(dataset, &errors), ElementsAre("zero", "one", "!", "three", "four"));
  EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(errors[0].message()),
              HasSubstr("file \"" + path + "\": record 1 at byte 19 has corrupt data"));
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
  EXPECT_EQ(Detail<int64_t>(errors[0], "offset"), 19);
  EXPECT_EQ(Detail<int64_t>(errors[0], "index"), 1);
}

TEST_F(TfRecordDataset, ACorruptLengthAndATruncatedFileGoOnWithTheNextFile) {
  std::string corrupt = TfRecordFrames({"one", "two"});
  corrupt[19] ^= 1;
  const std::string truncated = TfRecordFrames({"three", "four"});
  const Ref<Dataset> dataset =
      Read({folder_.Write("a", corrupt),
            folder_.Write("b", truncated.substr(0, truncated.size() - 1)), File("c", {"five"})});
  std::vector<Status> errors;
  EXPECT_THAT(All(dataset, &errors), ElementsAre("one", "!", "three", "!", "five"));
  EXPECT_THAT(std::string(errors[0].message()), HasSubstr("corrupt length"));
  EXPECT_THAT(std::string(errors[1].message()), HasSubstr("is truncated"));
}

TEST_F(TfRecordDataset, ResumesBehindAnError) {
  std::string corrupt = TfRecordFrames({"one", "two"});
  corrupt[19] ^= 1;
  const Ref<Dataset> dataset = Read({folder_.Write("a", corrupt), File("b", {"three", "four"})});
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_EQ(Next(*iterator), "one");
  EXPECT_EQ(Next(*iterator), "!");
  const Ref<Iterator> other = Iterate(dataset);
  ASSERT_TRUE(other->Restore(iterator->Save(CallOptions()).value(), CallOptions()).ok());
  EXPECT_THAT(Rest(*other), ElementsAre("three", "four"));
}

TEST_F(TfRecordDataset, AnErrorAmongTheNamesComesBetweenTheRecordsOfTheFiles) {
  const std::vector<std::string> names = {File("a", {"one", "two"}), File("b", {"lost"}),
                                          File("c", {"three", "four"})};
  std::string bytes = TfRecordFrames(names);
  bytes[TfRecordFrame(names[0]).size() + 12] ^= 1;
  const Ref<Dataset> files = Read({folder_.Write("names", bytes)})->Prefetch(10).value();
  const Ref<Dataset> records = MakeTfRecordDataset(*files, {}).value();
  EXPECT_THAT(All(records), ElementsAre("one", "two", "!", "three", "four"));
  ExpectResumesEverywhere(records);
}

TEST_F(TfRecordDataset, RefusesArgumentsThatCannotBe) {
  const std::vector<std::string> paths = {"a"};
  TfRecordOptions options;
  options.name = "train";
  options.buffer_bytes = -1;
  Status status = MakeTfRecordDataset(datasets_, paths, options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("tf_record 'train'"), HasSubstr("buffer_size must be a positive")));
  options.buffer_bytes = 0;
  options.compression = static_cast<RecordCompression>(9);
  status = MakeTfRecordDataset(datasets_, paths, options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("compression 9 is not known"));
  const Ref<Dataset> numbers = Dataset::Range(datasets_, 0, 3, 1).value();
  status = MakeTfRecordDataset(*numbers, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its input should name files"));
}

TEST_F(TfRecordDataset, IsSerialisedWithItsOptions) {
  TfRecordOptions options;
  options.compression = RecordCompression::kZlib;
  const std::string path = folder_.Write("a", Deflated(TfRecordFrames({"one", "two"}), false));
  const std::string bytes = Read({path}, options)->Serialize().value();
  const Result<Ref<Dataset>> again = Dataset::Deserialize(datasets_, bytes);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_THAT(All(again.value()), ElementsAre("one", "two"));
}

TEST_F(TfRecordDataset, ReadsWhatListFilesFinds) {
  File("train-1", {"three"});
  File("train-0", {"one", "two"});
  File("test-0", {"no"});
  ListFilesOptions options;
  options.shuffle = false;
  const Ref<Dataset> files =
      MakeListFilesDataset(datasets_, {folder_.Path("train-*")}, options).value();
  EXPECT_THAT(All(MakeTfRecordDataset(*files, {}).value()), ElementsAre("one", "two", "three"));
}

}  // namespace
}  // namespace tutti
