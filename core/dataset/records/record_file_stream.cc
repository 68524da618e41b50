#include "core/dataset/records/record_file_stream.h"

#include <algorithm>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/dataset/records/compressed_reader.h"

namespace tutti {
namespace {

class PlainStream final : public RecordFileStream {
 public:
  explicit PlainStream(std::unique_ptr<ReadableFile> file)
      : RecordFileStream(file->path()), file_(std::move(file)) {}

  Result<size_t> Read(void* data, size_t bytes) override {
    // What is appended after the file was opened is not ours to read: its last record may be half
    // written.
    if (offset_ >= file_->bytes()) return size_t{0};
    bytes = static_cast<size_t>(std::min<uint64_t>(bytes, file_->bytes() - offset_));
    TUTTI_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset_, data, bytes));
    offset_ += got;
    return got;
  }

  Status Seek(uint64_t offset) override {
    offset_ = offset;
    return OkStatus();
  }

  std::optional<uint64_t> size() const override { return file_->bytes(); }

 private:
  const std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
};

}  // namespace

std::string_view RecordCompressionName(RecordCompression compression) {
  switch (compression) {
    case RecordCompression::kNone:
      return "none";
    case RecordCompression::kGzip:
      return "GZIP";
    case RecordCompression::kZlib:
      return "ZLIB";
  }
  return "unknown";
}

Status CheckRecordCompression(RecordCompression compression, std::string_view what) {
  switch (compression) {
    case RecordCompression::kNone:
    case RecordCompression::kGzip:
    case RecordCompression::kZlib:
      return OkStatus();
  }
  return InvalidArgument("{}: compression {} is not known; pass none (1), GZIP (2) or ZLIB (3)",
                         what, static_cast<int32_t>(compression))
      .With("compression", static_cast<int32_t>(compression));
}

Result<std::unique_ptr<RecordFileStream>> OpenRecordFileStream(Disk& disk, const std::string& path,
                                                               RecordCompression compression) {
  Result<std::unique_ptr<ReadableFile>> opened = disk.Open(path);
  if (!opened.ok() && opened.status().code() == StatusCode::kNotFound) {
    return NotFound("{}; a path that does not begin with / is taken from the current directory",
                    opened.status().message())
        .With("file", path);
  }
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, std::move(opened));
  if (compression == RecordCompression::kNone) {
    return std::unique_ptr<RecordFileStream>(std::make_unique<PlainStream>(std::move(file)));
  }
  return OpenCompressedReader(std::move(file), compression);
}

}  // namespace tutti
