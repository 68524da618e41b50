#include "core/dataset/records/tf_record_writer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <vector>

#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TfRecordWriterTest : public RecordFileDatasetTest {
 protected:
  Ref<TfRecordWriter> Create(const std::string& path, TfRecordWriterOptions options = {}) {
    Result<Ref<TfRecordWriter>> writer = TfRecordWriter::Create(environment_, path, options);
    EXPECT_TRUE(writer.ok()) << writer.status().ToString();
    return std::move(writer).value();
  }
};

TEST_F(TfRecordWriterTest, WritesTheDocumentedFormat) {
  const std::string path = folder_.Path("a");
  const Ref<TfRecordWriter> writer = Create(path);
  ASSERT_TRUE(writer->Write("one").ok());
  ASSERT_TRUE(writer->Write("").ok());
  ASSERT_TRUE(writer->Write(std::string(1'000'000, 'x')).ok());
  EXPECT_EQ(writer->count(), 3u);
  ASSERT_TRUE(writer->Close(CallOptions()).ok());
  EXPECT_EQ(ReadWholeFile(path), TfRecordFrames({"one", "", std::string(1'000'000, 'x')}));
}

TEST_F(TfRecordWriterTest, WhatIsWrittenIsReadAgainWithEveryCompression) {
  std::vector<std::string> records;
  for (int i = 0; i < 5000; ++i) records.push_back("record " + std::to_string(i * 7919));
  for (const auto compression :
       {RecordCompression::kNone, RecordCompression::kGzip, RecordCompression::kZlib}) {
    for (const int level : {0, 6, 9}) {
      const std::string path = folder_.Path("a");
      const Ref<TfRecordWriter> writer =
          Create(path, {.compression = compression, .compression_level = level});
      for (const std::string& record : records) ASSERT_TRUE(writer->Write(record).ok());
      ASSERT_TRUE(writer->Close(CallOptions()).ok());
      const std::vector<std::string> paths = {path};
      TfRecordOptions options;
      options.compression = compression;
      EXPECT_EQ(All(MakeTfRecordDataset(datasets_, paths, options).value()), records);
    }
  }
}

TEST_F(TfRecordWriterTest, AnEmptyFileIsAFileWithoutRecords) {
  for (const auto compression : {RecordCompression::kNone, RecordCompression::kGzip}) {
    const std::string path = folder_.Path("a");
    ASSERT_TRUE(Create(path, {.compression = compression})->Close(CallOptions()).ok());
    const std::vector<std::string> paths = {path};
    TfRecordOptions options;
    options.compression = compression;
    EXPECT_THAT(All(MakeTfRecordDataset(datasets_, paths, options).value()), ElementsAre());
  }
}

TEST_F(TfRecordWriterTest, OverwritesAndKeepsTheOldFileUntilItIsClosed) {
  const std::string path = folder_.Write("a", "old");
  const Ref<TfRecordWriter> writer = Create(path);
  ASSERT_TRUE(writer->Write(std::string(1'000'000, 'x')).ok());
  EXPECT_EQ(ReadWholeFile(path), "old");
  ASSERT_TRUE(writer->Close(CallOptions()).ok());
  EXPECT_EQ(ReadWholeFile(path), TfRecordFrame(std::string(1'000'000, 'x')));
}

TEST_F(TfRecordWriterTest, AnAbandonedWriterLeavesWhatWasThere) {
  const std::string path = folder_.Path("a");
  for (const auto compression : {RecordCompression::kNone, RecordCompression::kGzip}) {
    Ref<TfRecordWriter> writer = Create(path);
    ASSERT_TRUE(writer->Write("old").ok());
    ASSERT_TRUE(writer->Finish().ok());
    EXPECT_TRUE(writer->Abandon().ok());
    writer = Create(path, {.compression = compression});
    ASSERT_TRUE(writer->Write(std::string(1'000'000, 'x')).ok());
    ASSERT_TRUE(writer->Write("new").ok());
    ASSERT_TRUE(writer->Abandon().ok());
    EXPECT_TRUE(writer->Abandon().ok());
    EXPECT_TRUE(writer->Finish().ok());
    EXPECT_EQ(writer->Write("more").code(), StatusCode::kFailedPrecondition);
    writer.reset();
    EXPECT_EQ(ReadWholeFile(path), TfRecordFrames({"old"}));
    EXPECT_EQ(RealDisk().List(folder_.Path("")).value(), std::vector<std::string>{"a"});
  }
}

TEST_F(TfRecordWriterTest, AFailedCloseIsSaidToWhoClosesAndToNobodyElse) {
  const std::string path = folder_.Path("a");
  struct Lines final : LogSink {
    void Write(const LogRecord& record) override { all.emplace_back(record.message); }
    std::vector<std::string> all;
  };
  const Ref<Lines> lines = MakeRef<Lines>();
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  Ref<TfRecordWriter> writer = Create(path);
  ASSERT_TRUE(writer->Write("one").ok());
  // A directory takes the name, so that the file cannot have it.
  ASSERT_TRUE(RealDisk().MakeDirectories(path).ok());
  const Status failed = writer->Finish();
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(writer->Finish().ToString(), failed.ToString());
  EXPECT_TRUE(writer->closed());
  writer.reset();
  ASSERT_TRUE(environment_->Shutdown(CallOptions()).ok());
  EXPECT_THAT(lines->all, testing::IsEmpty());
}

TEST_F(TfRecordWriterTest, AWriterThatIsReleasedOpenIsFlushed) {
  const std::string path = folder_.Path("a");
  Ref<TfRecordWriter> writer = Create(path);
  ASSERT_TRUE(writer->Write("one").ok());
  writer.reset();
  ASSERT_TRUE(environment_->Shutdown(CallOptions()).ok());  // joins the reaper
  EXPECT_EQ(ReadWholeFile(path), TfRecordFrame("one"));
}

TEST_F(TfRecordWriterTest, AWriterThatIsOpenAtShutdownIsFlushed) {
  const std::string path = folder_.Path("a");
  const Ref<TfRecordWriter> writer = Create(path);
  ASSERT_TRUE(writer->Write("one").ok());
  ASSERT_TRUE(environment_->Shutdown(CallOptions()).ok());
  EXPECT_EQ(ReadWholeFile(path), TfRecordFrame("one"));
  EXPECT_EQ(writer->Write("two").code(), StatusCode::kFailedPrecondition);
}

TEST_F(TfRecordWriterTest, WritingAfterCloseIsRefusedAndClosingAgainIsFine) {
  const std::string path = folder_.Path("a");
  const Ref<TfRecordWriter> writer = Create(path);
  ASSERT_TRUE(writer->Close(CallOptions()).ok());
  const Status status = writer->Write("one");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path), HasSubstr("is closed")));
  EXPECT_TRUE(writer->Close(CallOptions()).ok());
}

TEST_F(TfRecordWriterTest, AFolderThatIsNotThereIsNotFound) {
  const std::string path = folder_.Path("missing/a");
  const Status status = TfRecordWriter::Create(environment_, path, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("tf_record_writer"), HasSubstr(path)));
}

TEST_F(TfRecordWriterTest, RefusesOptionsThatCannotBeAndMakesNoFile) {
  const std::string path = folder_.Path("a");
  Status status =
      TfRecordWriter::Create(environment_, path,
                             {.compression = RecordCompression::kGzip, .compression_level = 10})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("compression level 10"));
  status =
      TfRecordWriter::Create(environment_, path, {.compression = static_cast<RecordCompression>(0)})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(TfRecordWriterTest, WritesADatasetOfByteStrings) {
  const std::string source = folder_.Write("source", TfRecordFrames({"one", "two", "three"}));
  const std::string path = folder_.Path("copy");
  const std::vector<std::string> paths = {source};
  const Ref<TfRecordWriter> writer = Create(path);
  ASSERT_TRUE(writer->Write("zero").ok());
  const Status written =
      writer->Write(*MakeTfRecordDataset(datasets_, paths, {}).value(), CallOptions());
  ASSERT_TRUE(written.ok()) << written.ToString();
  ASSERT_TRUE(writer->Close(CallOptions()).ok());
  EXPECT_EQ(ReadWholeFile(path), TfRecordFrames({"zero", "one", "two", "three"}));
}

TEST_F(TfRecordWriterTest, ADatasetOfOtherElementsIsRefused) {
  const Ref<TfRecordWriter> writer = Create(folder_.Path("a"));
  const Ref<Dataset> numbers = Dataset::Range(datasets_, 0, 3, 1).value();
  const Status status = writer->Write(*numbers, CallOptions());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("should be scalars of byte strings (bytes[]) and are int64[]"));
  const Ref<Value> vectors =
      Value::OfTensor(Tensor::FromStrings(Shape({1, 2}), std::vector<BytesView>(2)).value());
  const Ref<Dataset> pairs = Dataset::FromTensorSlices(datasets_, vectors).value();
  EXPECT_EQ(writer->Write(*pairs, CallOptions()).code(), StatusCode::kInvalidArgument);
}

TEST_F(TfRecordWriterTest, AnErrorOfTheDatasetEndsTheWriting) {
  const std::string missing = folder_.Path("missing");
  const std::vector<std::string> paths = {folder_.Write("a", TfRecordFrame("one")), missing};
  const Ref<TfRecordWriter> writer = Create(folder_.Path("copy"));
  const Status status =
      writer->Write(*MakeTfRecordDataset(datasets_, paths, {}).value(), CallOptions());
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(writer->count(), 1u);
}

}  // namespace
}  // namespace tutti
