// The reader of TFRecord files; what was read without an error is written again as it was.

#include "core/base/crc32c.h"
#include "core/dataset/records/tf_record_reader.h"
#include "tests/fuzz/record_file_fuzzing.h"

namespace {

template <typename T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Frame(const std::string& record) {
  std::string length;
  Append(&length, uint64_t{record.size()});
  std::string frame = length;
  Append(&frame, tutti::MaskCrc32c(tutti::Crc32c(length.data(), length.size())));
  frame += record;
  Append(&frame, tutti::MaskCrc32c(tutti::Crc32c(record.data(), record.size())));
  return frame;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  RecordFileFuzz fuzz(data, size);
  std::string again;
  bool failed = false;
  for (const std::string& record : fuzz.Run(OpenTfRecordReader)) {
    failed = failed || record == "!";
    again += Frame(record);
  }
  if (fuzz.is_plain() && !failed) {
    Require(again == fuzz.content(), "a file is the frames of its records");
  }
  return 0;
}
