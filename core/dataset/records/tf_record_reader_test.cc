#include "core/dataset/records/tf_record_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/disk.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<RecordFileReader> Open(const std::string& path, RecordFileOptions options = {}) {
  Result<std::unique_ptr<RecordFileReader>> reader = OpenTfRecordReader(RealDisk(), path, options);
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  return std::move(reader).value();
}

// All records, with "!" in the place of each that fails; the failures go to `errors`.
std::vector<std::string> ReadAll(RecordFileReader* reader, size_t at_once = 7,
                                 std::vector<Status>* errors = nullptr) {
  std::vector<std::string> all;
  for (;;) {
    std::vector<BytesView> records;
    Status status = reader->Read(at_once, &records);
    EXPECT_LE(records.size(), at_once);
    if (!status.ok()) {
      EXPECT_TRUE(records.empty());
      all.push_back("!");
      if (errors != nullptr) errors->push_back(std::move(status));
      continue;
    }
    if (records.empty()) return all;
    for (const BytesView& record : records) all.emplace_back(record.text());
  }
}

std::vector<std::string> NumberedRecords(int count, size_t bytes) {
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    std::string record = "record " + std::to_string(i) + " ";
    record.resize(i % 5 == 0 ? i : bytes, static_cast<char>('a' + i % 26));
    records.push_back(std::move(record));
  }
  return records;
}

TEST(TfRecordReader, GivesRecordsInOrder) {
  const TempFolder folder;
  const std::string path = folder.Write("a", TfRecordFrames({"one", "", "three"}));
  EXPECT_THAT(ReadAll(Open(path).get()), ElementsAre("one", "", "three"));
}

TEST(TfRecordReader, AnEmptyFileHasNoRecords) {
  const TempFolder folder;
  EXPECT_THAT(ReadAll(Open(folder.Write("a", "")).get()), ElementsAre());
}

TEST(TfRecordReader, RecordsMaySpanBlocksOfAnySize) {
  const TempFolder folder;
  const std::vector<std::string> records = NumberedRecords(200, 333);
  const std::string path = folder.Write("a", TfRecordFrames(records));
  for (const size_t buffer_bytes : {1, 13, 16, 100, 349, 4096, 1 << 20}) {
    RecordFileOptions options;
    options.buffer_bytes = buffer_bytes;
    EXPECT_EQ(ReadAll(Open(path, options).get()), records) << buffer_bytes;
  }
}

TEST(TfRecordReader, RecordsOfOneReadLieInTheBlockAndStayWhileItIsHeld) {
  const TempFolder folder;
  const std::vector<std::string> written = NumberedRecords(100, 100);
  RecordFileOptions options;
  options.buffer_bytes = 1000;
  const auto reader = Open(folder.Write("a", TfRecordFrames(written)), options);
  std::vector<Ref<Buffer>> held;
  std::vector<BytesView> all;
  for (;;) {
    std::vector<BytesView> records;
    ASSERT_TRUE(reader->Read(1000, &records).ok());
    if (records.empty()) break;
    const auto* begin = static_cast<const char*>(reader->block()->data());
    for (const BytesView& record : records) {
      EXPECT_GE(record.data, begin);
      EXPECT_LE(record.data + record.size, begin + reader->block()->bytes());
    }
    held.push_back(reader->block());
    all.insert(all.end(), records.begin(), records.end());
  }
  EXPECT_GT(held.size(), 5u);
  ASSERT_EQ(all.size(), written.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].text(), written[i]);
}

TEST(TfRecordReader, ABlockThatNobodyHoldsIsFilledAgain) {
  const TempFolder folder;
  RecordFileOptions options;
  options.buffer_bytes = 1000;
  options.account = MakeRef<MemoryAccount>("test");
  const auto reader = Open(folder.Write("a", TfRecordFrames(NumberedRecords(100, 100))), options);
  ReadAll(reader.get());
  EXPECT_EQ(options.account->peak_bytes(), options.account->used_bytes());
  EXPECT_LE(options.account->peak_bytes(), 1100u);
}

TEST(TfRecordReader, SeeksToAPositionThatItHad) {
  const TempFolder folder;
  const std::vector<std::string> records = NumberedRecords(50, 90);
  const std::string plain = folder.Write("plain", TfRecordFrames(records));
  const std::string gzip = folder.Write("gzip", Deflated(TfRecordFrames(records), true));
  for (const bool compressed : {false, true}) {
    RecordFileOptions options;
    options.buffer_bytes = 700;
    if (compressed) options.compression = RecordCompression::kGzip;
    const auto reader = Open(compressed ? gzip : plain, options);
    std::vector<BytesView> some;
    while (reader->position().index < 20) ASSERT_TRUE(reader->Read(3, &some).ok());
    const RecordFilePosition position = reader->position();
    const std::vector<std::string> rest = ReadAll(reader.get());
    const auto other = Open(compressed ? gzip : plain, options);
    ASSERT_TRUE(other->Seek(position).ok());
    EXPECT_EQ(ReadAll(other.get()), rest);
    ASSERT_TRUE(reader->Seek(position).ok());
    EXPECT_EQ(ReadAll(reader.get()), rest);
    EXPECT_EQ(reader->position().index, records.size());
  }
}

TEST(TfRecordReader, ATruncatedHeaderNamesFileOffsetAndIndexAndEndsTheFile) {
  const TempFolder folder;
  const std::string path =
      folder.Write("a", TfRecordFrames({"one", "two"}) + TfRecordFrame("three").substr(0, 7));
  std::vector<Status> errors;
  EXPECT_THAT(ReadAll(Open(path).get(), 7, &errors), ElementsAre("one", "two", "!"));
  EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
  EXPECT_EQ(errors[0].message(),
            "tf_record: file \"" + path +
                "\": record 2 at byte 38 is truncated: its header should have 12 bytes, the file "
                "ends after 7; the file was not written to its end: write it again or leave it "
                "out");
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
  EXPECT_EQ(Detail<int64_t>(errors[0], "offset"), 38);
  EXPECT_EQ(Detail<int64_t>(errors[0], "index"), 2);
}

TEST(TfRecordReader, TruncatedDataSaysHowMuchThereIs) {
  const TempFolder folder;
  const std::string frame = TfRecordFrame("0123456789");
  for (const size_t kept : {12, 13, 22, 25}) {
    const std::string path = folder.Write("a", TfRecordFrame("") + frame.substr(0, kept));
    std::vector<Status> errors;
    EXPECT_THAT(ReadAll(Open(path).get(), 7, &errors), ElementsAre("", "!"));
    EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(errors[0].message()),
                AllOf(HasSubstr("record 1 at byte 16 is truncated: its data and checksum should "
                                "have 14 bytes"),
                      HasSubstr("ends after " + std::to_string(kept - 12) + ";")));
  }
}

TEST(TfRecordReader, ACorruptLengthIsCaughtByItsChecksumBeforeAnythingIsAllocated) {
  const TempFolder folder;
  std::string bytes = TfRecordFrames({"one", "two", "three"});
  bytes[19 + 7] = 0x7f;  // the second record's length becomes 2^62 and more
  const std::string path = folder.Write("a", bytes);
  RecordFileOptions options;
  options.account = MakeRef<MemoryAccount>("test");
  const auto reader = Open(path, options);
  std::vector<Status> errors;
  EXPECT_THAT(ReadAll(reader.get(), 7, &errors), ElementsAre("one", "!"));
  EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(errors[0].message()),
              AllOf(HasSubstr("record 1 at byte 19 has a corrupt length"),
                    HasSubstr("records behind it cannot be found; write the file again")));
  EXPECT_EQ(Detail<int64_t>(errors[0], "offset"), 19);
  EXPECT_EQ(Detail<int64_t>(errors[0], "index"), 1);
  EXPECT_LE(options.account->peak_bytes(), bytes.size() + 64);
}

TEST(TfRecordReader, AnInsaneLengthWithAGoodChecksumIsATruncatedRecordAndAllocatesNothing) {
  const TempFolder folder;
  for (const uint64_t length : {uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 15}) {
    const std::string head = LittleEndian(length);
    const std::string bytes =
        TfRecordFrame("one") + head + LittleEndian(MaskCrc32c(Crc32c(head.data(), 8))) + "rest";
    const std::string plain = folder.Write("plain", bytes);
    const std::string gzip = folder.Write("gzip", Deflated(bytes, true));
    for (const bool compressed : {false, true}) {
      RecordFileOptions options;
      if (compressed) options.compression = RecordCompression::kGzip;
      options.buffer_bytes = 100;
      options.account = MakeRef<MemoryAccount>("test");
      std::vector<Status> errors;
      EXPECT_THAT(ReadAll(Open(compressed ? gzip : plain, options).get(), 7, &errors),
                  ElementsAre("one", "!"));
      EXPECT_THAT(std::string(errors[0].message()), HasSubstr("the file ends after 4"));
      EXPECT_LE(options.account->peak_bytes(), 1000u);
    }
  }
}

TEST(TfRecordReader, CorruptDataCostsOneRecord) {
  const TempFolder folder;
  std::string bytes = TfRecordFrames({"one", "two", "three"});
  bytes[19 + 12] ^= 1;
  const std::string path = folder.Write("a", bytes);
  std::vector<Status> errors;
  const auto reader = Open(path);
  EXPECT_THAT(ReadAll(reader.get(), 7, &errors), ElementsAre("one", "!", "three"));
  EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(errors[0].message()),
              AllOf(HasSubstr("record 1 at byte 19 has corrupt data"), HasSubstr("its 3 bytes"),
                    HasSubstr("can still be read")));
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
  EXPECT_EQ(Detail<int64_t>(errors[0], "offset"), 19);
  EXPECT_EQ(Detail<int64_t>(errors[0], "index"), 1);
  EXPECT_EQ(reader->position().index, 3u);
}

TEST(TfRecordReader, ACorruptDataChecksumCostsOneRecord) {
  const TempFolder folder;
  std::string bytes = TfRecordFrames({"one", "two", "three"});
  bytes[19 + 12 + 3] ^= 0x10;
  EXPECT_THAT(ReadAll(Open(folder.Write("a", bytes)).get()), ElementsAre("one", "!", "three"));
}

TEST(TfRecordReader, AMissingFileIsNotFoundAndNamed) {
  const TempFolder folder;
  const std::string path = folder.Path("missing.tfrecord");
  const auto reader = OpenTfRecordReader(RealDisk(), path, {});
  EXPECT_EQ(reader.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(reader.status().message()),
              AllOf(HasSubstr("tf_record"), HasSubstr(path)));
}

TEST(TfRecordReader, ADirectoryIsRefusedAndNamed) {
  const TempFolder folder;
  const auto reader = OpenTfRecordReader(RealDisk(), folder.path(), {});
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.status().code(), StatusCode::kFailedPrecondition) << reader.status().ToString();
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr(folder.path()));
}

TEST(TfRecordReader, ReadsGzipWithAnyNumberOfMembersAndZlib) {
  const TempFolder folder;
  const std::string gzip =
      folder.Write("a.gz", Deflated(TfRecordFrames({"one", "two"}), true) + Deflated("", true) +
                               Deflated(TfRecordFrames({"three"}), true));
  const std::string zlib = folder.Write("a.z", Deflated(TfRecordFrames({"one", "two"}), false));
  RecordFileOptions options;
  options.buffer_bytes = 20;
  options.compression = RecordCompression::kGzip;
  EXPECT_THAT(ReadAll(Open(gzip, options).get()), ElementsAre("one", "two", "three"));
  options.compression = RecordCompression::kZlib;
  EXPECT_THAT(ReadAll(Open(zlib, options).get()), ElementsAre("one", "two"));
  EXPECT_THAT(ReadAll(Open(folder.Write("empty", ""), options).get()), ElementsAre());
}

TEST(TfRecordReader, ATruncatedCompressedStreamGivesWhatCameBeforeAndThenDataLoss) {
  const TempFolder folder;
  const std::vector<std::string> records = NumberedRecords(100, 50);
  for (const bool gzip : {true, false}) {
    const std::string whole = Deflated(TfRecordFrames(records), gzip);
    const std::string path = folder.Write("a", whole.substr(0, whole.size() - 3));
    RecordFileOptions options;
    options.compression = gzip ? RecordCompression::kGzip : RecordCompression::kZlib;
    std::vector<Status> errors;
    const std::vector<std::string> found = ReadAll(Open(path, options).get(), 7, &errors);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(found.size(), records.size() + 1);  // only the stream's own checksum is missing
    EXPECT_EQ(found.back(), "!");
    EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(errors[0].message()),
                AllOf(HasSubstr(path), HasSubstr("ends early"), HasSubstr("record 100 at byte")));
    EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
    EXPECT_EQ(Detail<int64_t>(errors[0], "index"), 100);
    EXPECT_EQ(Detail<int64_t>(errors[0], "compressed_offset"),
              static_cast<int64_t>(whole.size()) - 3);
  }
}

TEST(TfRecordReader, ACorruptCompressedStreamIsDataLoss) {
  const TempFolder folder;
  std::string bytes = Deflated(TfRecordFrames(NumberedRecords(100, 50)), true);
  bytes[bytes.size() / 2] ^= 0x55;
  const std::string path = folder.Write("a", bytes);
  RecordFileOptions options;
  options.compression = RecordCompression::kGzip;
  std::vector<Status> errors;
  ReadAll(Open(path, options).get(), 7, &errors);
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
}

TEST(TfRecordReader, BytesBehindTheCompressedStreamAreDataLossButPaddingIsNot) {
  const TempFolder folder;
  const std::string stream = Deflated(TfRecordFrame("one"), true);
  RecordFileOptions options;
  options.compression = RecordCompression::kGzip;
  EXPECT_THAT(ReadAll(Open(folder.Write("a", stream + std::string(9, '\0')), options).get()),
              ElementsAre("one"));
  EXPECT_THAT(ReadAll(Open(folder.Write("b", stream + "junk"), options).get()),
              ElementsAre("one", "!"));
}

TEST(TfRecordReader, AdvisesOnTheWrongCompression) {
  const TempFolder folder;
  const std::string frames = TfRecordFrames({"one", "two"});
  const auto first_error = [&](const std::string& bytes, RecordCompression compression) {
    RecordFileOptions options;
    options.compression = compression;
    std::vector<Status> errors;
    ReadAll(Open(folder.Write("a", bytes), options).get(), 7, &errors);
    return errors.empty() ? std::string() : std::string(errors[0].message());
  };
  EXPECT_THAT(first_error(Deflated(frames, true), RecordCompression::kNone),
              HasSubstr("looks like GZIP: pass compression GZIP"));
  EXPECT_THAT(first_error(Deflated(frames, false), RecordCompression::kNone),
              HasSubstr("looks like ZLIB: pass compression ZLIB"));
  EXPECT_THAT(first_error(frames, RecordCompression::kGzip),
              HasSubstr("pass the compression that it was written with"));
  EXPECT_THAT(first_error("this is a text file", RecordCompression::kNone),
              HasSubstr("is it a TFRecord file?"));
}

TEST(TfRecordReader, ARecordThatTheMemoryAccountRefusesIsPassedOver) {
  const TempFolder folder;
  const std::string path =
      folder.Write("a", TfRecordFrames({"one", std::string(100'000, 'x'), "three"}));
  RecordFileOptions options;
  options.buffer_bytes = 1000;
  options.account = MakeRef<MemoryAccount>("test", nullptr, 10'000);
  std::vector<Status> errors;
  EXPECT_THAT(ReadAll(Open(path, options).get(), 7, &errors), ElementsAre("one", "!", "three"));
  EXPECT_EQ(errors[0].code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Detail<int64_t>(errors[0], "index"), 1);
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), path);
}

TEST(TfRecordReader, SurvivesAnyDamageOfOneByte) {
  const TempFolder folder;
  const std::string whole = TfRecordFrames({"one", "twenty-two", ""});
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      std::vector<Status> errors;
      ReadAll(Open(folder.Write("a", bytes)).get(), 7, &errors);
      ASSERT_EQ(errors.size(), 1u) << "byte " << i;
      EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace tutti
