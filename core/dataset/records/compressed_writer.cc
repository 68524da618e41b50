#include "core/dataset/records/compressed_writer.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace tutti {
namespace {

constexpr size_t kOutputBytes = 64 * 1024;
constexpr int kDeflateBits = 15;
constexpr int kGzipFrame = 16;
constexpr int kMemoryLevel = 8;  // zlib's default

class DeflatingFile final : public WritableFile {
 public:
  explicit DeflatingFile(std::unique_ptr<WritableFile> file)
      : WritableFile(file->path()), file_(std::move(file)), output_(kOutputBytes) {}
  ~DeflatingFile() override {
    if (initialized_) deflateEnd(&zlib_);
  }

  Status Initialize(RecordCompression compression, int level) {
    const int bits =
        compression == RecordCompression::kGzip ? kDeflateBits + kGzipFrame : kDeflateBits;
    if (deflateInit2(&zlib_, level, Z_DEFLATED, bits, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
      return Status::OutOfMemory();
    }
    initialized_ = true;
    return OkStatus();
  }

  Status Append(const void* data, size_t bytes) override {
    const auto* next = static_cast<const Bytef*>(data);
    while (bytes > 0) {
      const auto part =
          static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max()));
      zlib_.next_in = const_cast<Bytef*>(next);  // zlib only reads it
      zlib_.avail_in = part;
      while (zlib_.avail_in > 0) {
        NextOutput();
        deflate(&zlib_, Z_NO_FLUSH);
        TUTTI_RETURN_IF_ERROR(WriteOutput());
      }
      next += part;
      bytes -= part;
    }
    return OkStatus();
  }

  Status Commit() override {
    int result = Z_OK;
    while (result != Z_STREAM_END) {
      NextOutput();
      result = deflate(&zlib_, Z_FINISH);
      TUTTI_RETURN_IF_ERROR(WriteOutput());
    }
    return file_->Commit();
  }

 private:
  void NextOutput() {
    zlib_.next_out = reinterpret_cast<Bytef*>(output_.data());
    zlib_.avail_out = static_cast<uInt>(output_.size());
  }
  Status WriteOutput() {
    const size_t bytes = output_.size() - zlib_.avail_out;
    return bytes > 0 ? file_->Append(output_.data(), bytes) : OkStatus();
  }

  const std::unique_ptr<WritableFile> file_;
  std::vector<char> output_;
  z_stream zlib_ = {};
  bool initialized_ = false;
};

}  // namespace

Result<std::unique_ptr<WritableFile>> MakeCompressedWriter(std::unique_ptr<WritableFile> file,
                                                           RecordCompression compression,
                                                           int level) {
  if (level < 0 || level > 9) {
    return InvalidArgument("file {}: compression level {} is not between 0 (none) and 9 (best)",
                           Quote(file->path()), level)
        .With("level", level);
  }
  auto deflating = std::make_unique<DeflatingFile>(std::move(file));
  TUTTI_RETURN_IF_ERROR(deflating->Initialize(compression, level));
  return std::unique_ptr<WritableFile>(std::move(deflating));
}

}  // namespace tutti
