#include "core/dataset/records/fixed_length_record_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/disk.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RecordFileOptions Options(RecordCompression compression, size_t buffer_bytes) {
  RecordFileOptions options;
  options.compression = compression;
  options.buffer_bytes = buffer_bytes;
  return options;
}

// The records, and the message of the error that ends them.
std::vector<std::string> ReadAll(const std::string& path, const FixedLengthRecordFormat& format,
                                 const RecordFileOptions& options = {}) {
  std::vector<std::string> all;
  auto reader = OpenFixedLengthRecordReader(RealDisk(), path, format, options);
  if (!reader.ok()) return {std::string(reader.status().message())};
  for (;;) {
    std::vector<BytesView> records;
    const Status status = (*reader)->Read(3, &records);
    if (!status.ok()) {
      EXPECT_EQ(Detail<std::string>(status, "file"), path);
      all.emplace_back(status.message());
      continue;
    }
    if (records.empty()) return all;
    for (const BytesView& record : records) all.emplace_back(record.text());
  }
}

TEST(FixedLengthRecordReader, GivesRecordsBetweenHeaderAndFooter) {
  const TempFolder folder;
  const std::string contents = "HEADaabbccddeeFOOT!";
  const std::string plain = folder.Write("a", contents);
  const std::string gzip = folder.Write("a.gz", Deflated(contents, true));
  const std::string zlib = folder.Write("a.z", Deflated(contents, false));
  const FixedLengthRecordFormat format{.record_bytes = 2, .header_bytes = 4, .footer_bytes = 5};
  for (const size_t buffer_bytes : {1, 2, 3, 5, 7, 100}) {
    EXPECT_THAT(ReadAll(plain, format, Options(RecordCompression::kNone, buffer_bytes)),
                ElementsAre("aa", "bb", "cc", "dd", "ee"));
    EXPECT_THAT(ReadAll(gzip, format, Options(RecordCompression::kGzip, buffer_bytes)),
                ElementsAre("aa", "bb", "cc", "dd", "ee"));
    EXPECT_THAT(ReadAll(zlib, format, Options(RecordCompression::kZlib, buffer_bytes)),
                ElementsAre("aa", "bb", "cc", "dd", "ee"));
  }
}

TEST(FixedLengthRecordReader, FilesWithoutRecordsAreFine) {
  const TempFolder folder;
  EXPECT_THAT(ReadAll(folder.Write("a", ""), {.record_bytes = 2}), ElementsAre());
  EXPECT_THAT(
      ReadAll(folder.Write("b", "HF"), {.record_bytes = 2, .header_bytes = 1, .footer_bytes = 1}),
      ElementsAre());
}

TEST(FixedLengthRecordReader, ARestThatIsNoWholeRecordNamesFileAndSizes) {
  const TempFolder folder;
  const FixedLengthRecordFormat format{.record_bytes = 3, .header_bytes = 4, .footer_bytes = 5};
  const std::string contents = "HEADaaabbbcFOOT!";
  const std::string path = folder.Write("a", contents);
  const std::string expected =
      "fixed_length_record: file \"" + path +
      "\" has 16 bytes, which do not fit a header of 4, records of 3 and a footer of 5: 1 bytes "
      "are "
      "left over behind its last whole record; check the sizes and the compression that the file "
      "was written with";
  EXPECT_THAT(ReadAll(path, format), ElementsAre(expected));
  const auto reader = OpenFixedLengthRecordReader(RealDisk(), path, format, {});
  EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Detail<std::string>(reader.status(), "file"), path);
  EXPECT_EQ(Detail<int64_t>(reader.status(), "size"), 16);
  // Compressed, it shows at the end.
  const std::string gzip = folder.Write("a.gz", Deflated(contents, true));
  EXPECT_THAT(ReadAll(gzip, format, Options(RecordCompression::kGzip, 100)),
              ElementsAre("aaa", "bbb", HasSubstr("has 16 bytes, which do not fit")));
}

TEST(FixedLengthRecordReader, AFileSmallerThanHeaderAndFooterIsRefused) {
  const TempFolder folder;
  const FixedLengthRecordFormat format{.record_bytes = 1, .header_bytes = 4, .footer_bytes = 5};
  for (const std::string contents : {"", "HEA", "HEADFOO"}) {
    EXPECT_THAT(ReadAll(folder.Write("a", contents), format),
                ElementsAre(HasSubstr("header and footer alone are larger")));
    EXPECT_THAT(ReadAll(folder.Write("a.gz", Deflated(contents, true)), format,
                        Options(RecordCompression::kGzip, 100)),
                ElementsAre(HasSubstr("header and footer alone are larger")));
  }
}

TEST(FixedLengthRecordReader, SeeksToAPositionThatItHad) {
  const TempFolder folder;
  const std::string path = folder.Write("a", "HEAD001122334455667788F");
  const FixedLengthRecordFormat format{.record_bytes = 2, .header_bytes = 4, .footer_bytes = 1};
  const RecordFileOptions options = Options(RecordCompression::kNone, 5);
  auto reader = std::move(OpenFixedLengthRecordReader(RealDisk(), path, format, options)).value();
  std::vector<BytesView> some;
  while (reader->position().index < 4) ASSERT_TRUE(reader->Read(1, &some).ok());
  auto other = std::move(OpenFixedLengthRecordReader(RealDisk(), path, format, options)).value();
  ASSERT_TRUE(other->Seek(reader->position()).ok());
  some.clear();
  ASSERT_TRUE(other->Read(1, &some).ok());
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].text(), "44");
  EXPECT_EQ(other->position().index, 5u);
}

TEST(FixedLengthRecordReader, AMissingFileIsNotFoundAndNamed) {
  const TempFolder folder;
  const std::string path = folder.Path("missing");
  const auto reader = OpenFixedLengthRecordReader(RealDisk(), path, {.record_bytes = 1}, {});
  EXPECT_EQ(reader.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr(path));
}

TEST(FixedLengthRecordFormat, RefusesSizesThatCannotBe) {
  EXPECT_THAT(std::string(FixedLengthRecordFormat{.record_bytes = 0}.Check().message()),
              HasSubstr("record_bytes must be positive, got 0"));
  const FixedLengthRecordFormat header{.record_bytes = 1, .header_bytes = -1};
  EXPECT_THAT(std::string(header.Check().message()),
              HasSubstr("header_bytes must not be negative"));
  const FixedLengthRecordFormat footer{.record_bytes = 1, .footer_bytes = -1};
  EXPECT_EQ(footer.Check().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(FixedLengthRecordFormat{.record_bytes = 1}.Check().ok());
}

}  // namespace
}  // namespace tutti
