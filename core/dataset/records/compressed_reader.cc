#include "core/dataset/records/compressed_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

constexpr size_t kInputBytes = 64 * 1024;
constexpr size_t kSkipBytes = 64 * 1024;
constexpr int kWindowBits = 15;
constexpr int kGzipFlag = 16;  // added to the window bits: zlib then reads and checks GZIP's frame

class InflatingStream final : public RecordFileStream {
 public:
  InflatingStream(std::unique_ptr<ReadableFile> file, RecordCompression compression)
      : RecordFileStream(file->path()),
        file_(std::move(file)),
        compression_(compression),
        input_(kInputBytes) {}
  ~InflatingStream() override {
    if (initialized_) inflateEnd(&zlib_);
  }

  Status Initialize() {
    const int bits =
        compression_ == RecordCompression::kGzip ? kWindowBits + kGzipFlag : kWindowBits;
    if (inflateInit2(&zlib_, bits) != Z_OK) return Status::OutOfMemory();
    initialized_ = true;
    return OkStatus();
  }

  Result<size_t> Read(void* data, size_t bytes) override {
    if (!error_.ok()) return error_;
    if (at_end_) return size_t{0};
    zlib_.next_out = static_cast<Bytef*>(data);
    zlib_.avail_out = static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max()));
    wanted_ = zlib_.avail_out;
    Status status;
    while (zlib_.avail_out == wanted_ && !at_end_ && status.ok()) status = Advance();
    const size_t got = wanted_ - zlib_.avail_out;
    offset_ += got;
    if (!status.ok()) {
      error_ = std::move(status).With("file", path()).With("offset", offset_);
      if (got == 0) return error_;
    }
    return got;
  }

  Status Seek(uint64_t offset) override {
    if (offset < offset_) Rewind();
    if (offset == offset_) return OkStatus();
    std::vector<char> skipped(kSkipBytes);
    while (offset_ < offset) {
      const auto bytes = static_cast<size_t>(std::min<uint64_t>(skipped.size(), offset - offset_));
      TUTTI_ASSIGN_OR_RETURN(const size_t got, Read(skipped.data(), bytes));
      if (got == 0) break;
    }
    return OkStatus();
  }

  std::optional<uint64_t> size() const override {
    if (file_->bytes() == 0) return 0;
    return std::nullopt;
  }

 private:
  // One step: reads input when there is none left, decompresses, goes on to the next member.
  Status Advance() {
    bool ends_early = false;
    if (zlib_.avail_in == 0) {
      TUTTI_RETURN_IF_ERROR(ReadInput());
      if (zlib_.avail_in == 0) {
        if (between_members_) {
          at_end_ = true;
          return OkStatus();
        }
        // What the input was for may be more than there was room for: where a truncated stream
        // ends must not depend on how it is read.
        ends_early = true;
      }
    }
    if (between_members_) {
      if (members_ > 0) TUTTI_RETURN_IF_ERROR(BeginNextMember());
      if (at_end_ || zlib_.avail_in == 0) return OkStatus();
      between_members_ = false;
    }
    const int result = inflate(&zlib_, Z_NO_FLUSH);
    switch (result) {
      case Z_OK:
        return OkStatus();
      case Z_BUF_ERROR:  // no progress without more input, which the next step reads
        if (!ends_early) return OkStatus();
        return Corrupt("ends early: the last bytes of the compressed stream are missing");
      case Z_STREAM_END:
        between_members_ = true;
        ++members_;
        return OkStatus();
      case Z_MEM_ERROR:
        return Status::OutOfMemory();
      case Z_NEED_DICT:
        return Corrupt("needs a preset dictionary, which record files do not have");
      default:
        return Corrupt(zlib_.msg != nullptr ? zlib_.msg : "invalid data");
    }
  }

  Status ReadInput() {
    if (file_offset_ >= file_->bytes()) return OkStatus();
    const auto bytes =
        static_cast<size_t>(std::min<uint64_t>(input_.size(), file_->bytes() - file_offset_));
    TUTTI_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(file_offset_, input_.data(), bytes));
    file_offset_ += got;
    zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
    zlib_.avail_in = static_cast<uInt>(got);
    return OkStatus();
  }

  // What follows a finished member: for GZIP zeros that pad the file, or another member.
  Status BeginNextMember() {
    if (compression_ == RecordCompression::kGzip) {
      while (zlib_.avail_in > 0 && *zlib_.next_in == 0) {
        ++zlib_.next_in;
        --zlib_.avail_in;
        padded_ = true;
      }
      if (zlib_.avail_in == 0) return OkStatus();
      if (!padded_ && inflateReset(&zlib_) == Z_OK) return OkStatus();
    }
    return Corrupt("has other bytes behind the end of the compressed stream");
  }

  void Rewind() {
    inflateReset(&zlib_);
    zlib_.avail_in = 0;
    file_offset_ = 0;
    offset_ = 0;
    members_ = 0;
    between_members_ = true;
    padded_ = false;
    at_end_ = false;
    error_ = OkStatus();
  }

  Status Corrupt(std::string_view reason) const {
    const uint64_t compressed_offset = file_offset_ - zlib_.avail_in;
    const char* advice = members_ == 0 && zlib_.total_out == 0
                             ? "pass the compression that it was written with"
                             : "write the file again or leave it out";
    return DataLoss(
               "the {} stream of file {} is corrupt at its byte {} ({} bytes of content before "
               "it): {}; {}",
               RecordCompressionName(compression_), Quote(path()), compressed_offset,
               offset_ + (wanted_ - zlib_.avail_out), reason, advice)
        .With("compressed_offset", compressed_offset);
  }

  const std::unique_ptr<ReadableFile> file_;
  const RecordCompression compression_;
  std::vector<char> input_;
  z_stream zlib_ = {};
  bool initialized_ = false;
  uInt wanted_ = 0;           // room that the running Read has
  uint64_t file_offset_ = 0;  // where the next input is read
  uint64_t offset_ = 0;       // bytes of content given out
  uint64_t members_ = 0;      // finished ones
  bool between_members_ = true;
  bool padded_ = false;
  bool at_end_ = false;
  Status error_;
};

}  // namespace

Result<std::unique_ptr<RecordFileStream>> OpenCompressedReader(std::unique_ptr<ReadableFile> file,
                                                               RecordCompression compression) {
  auto stream = std::make_unique<InflatingStream>(std::move(file), compression);
  TUTTI_RETURN_IF_ERROR(stream->Initialize());
  return std::unique_ptr<RecordFileStream>(std::move(stream));
}

}  // namespace tutti
