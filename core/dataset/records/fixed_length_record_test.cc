#include "core/dataset/records/fixed_length_record.h"

#include <gmock/gmock.h>

#include <vector>

#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FixedLengthRecordDataset : public RecordFileDatasetTest {
 protected:
  Ref<Dataset> Read(const std::vector<std::string>& paths, const FixedLengthRecordFormat& format,
                    FixedLengthRecordOptions options = {}) {
    Result<Ref<Dataset>> dataset =
        MakeFixedLengthRecordDataset(datasets_, paths, format, std::move(options));
    EXPECT_TRUE(dataset.ok()) << dataset.status().ToString();
    return std::move(dataset).value();
  }
};

TEST_F(FixedLengthRecordDataset, GivesTheRecordsOfAllFilesAndResumesAnywhere) {
  const FixedLengthRecordFormat format{.record_bytes = 2, .header_bytes = 1, .footer_bytes = 1};
  const std::vector<std::string> paths = {folder_.Write("a", "<aabb>"), folder_.Write("b", "<>"),
                                          folder_.Write("c", "<cc>")};
  FixedLengthRecordOptions options;
  options.buffer_bytes = 3;
  const Ref<Dataset> dataset = Read(paths, format, options);
  EXPECT_THAT(All(dataset), ElementsAre("aa", "bb", "cc"));
  EXPECT_EQ(dataset->cardinality(), kUnknownCardinality);
  ExpectResumesEverywhere(dataset);
}

TEST_F(FixedLengthRecordDataset, ReadsCompressedFilesAndIsSerialised) {
  const FixedLengthRecordFormat format{.record_bytes = 2, .header_bytes = 1, .footer_bytes = 1};
  FixedLengthRecordOptions options;
  options.compression = RecordCompression::kGzip;
  const Ref<Dataset> dataset =
      Read({folder_.Write("a", Deflated("<aabb>", true))}, format, options);
  EXPECT_THAT(All(dataset), ElementsAre("aa", "bb"));
  ExpectResumesEverywhere(dataset);
  const Result<Ref<Dataset>> again = Dataset::Deserialize(datasets_, dataset->Serialize().value());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_THAT(All(again.value()), ElementsAre("aa", "bb"));
}

TEST_F(FixedLengthRecordDataset, AFileThatDoesNotFitIsOneErrorAndTheNextFileFollows) {
  const std::string bad = folder_.Write("bad", "aab");
  std::vector<Status> errors;
  EXPECT_THAT(All(Read({bad, folder_.Write("good", "ccdd")}, {.record_bytes = 2}), &errors),
              ElementsAre("!", "cc", "dd"));
  EXPECT_EQ(errors[0].code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(errors[0].message()),
              HasSubstr("file \"" + bad + "\" has 3 bytes, which do not fit"));
  EXPECT_EQ(Detail<std::string>(errors[0], "file"), bad);
}

TEST_F(FixedLengthRecordDataset, RefusesSizesThatCannotBe) {
  const std::vector<std::string> paths = {"a"};
  const Status status =
      MakeFixedLengthRecordDataset(datasets_, paths, {.record_bytes = 0}, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("record_bytes must be positive"));
}

}  // namespace
}  // namespace tutti
