// The content of a record file as a sequence of bytes, whatever its compression: what the readers
// of TFRecord and fixed-length files stand on.
//
// Offsets count bytes of the content, that is, after decompression. Errors name the file.
#ifndef TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_STREAM_H_
#define TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/status.h"

namespace tutti {

class Disk;

// The same numbers as TUTTI_COMPRESSION_* of the C interface.
enum class RecordCompression : int32_t { kNone = 1, kGzip = 2, kZlib = 3 };

// "none", "GZIP", "ZLIB"; "unknown" for other numbers.
std::string_view RecordCompressionName(RecordCompression compression);

// INVALID_ARGUMENT, naming `what` and the choices, for a number that is no compression.
Status CheckRecordCompression(RecordCompression compression, std::string_view what);

// One thread.
class RecordFileStream {
 public:
  virtual ~RecordFileStream() = default;

  // Reads up to `bytes`, which must not be 0; 0 only at the end.
  virtual Result<size_t> Read(void* data, size_t bytes) = 0;
  // The next Read begins at `offset`. Behind the end there is nothing to read. Compressed content
  // is decompressed up to there, from the start when it lies behind.
  virtual Status Seek(uint64_t offset) = 0;
  // The size of the content when it is known without reading it.
  virtual std::optional<uint64_t> size() const = 0;

  const std::string& path() const { return path_; }

 protected:
  explicit RecordFileStream(std::string path) : path_(std::move(path)) {}

 private:
  const std::string path_;
};

// The disk's error for a file that cannot be opened: NOT_FOUND, PERMISSION_DENIED, ...
Result<std::unique_ptr<RecordFileStream>> OpenRecordFileStream(Disk& disk, const std::string& path,
                                                               RecordCompression compression);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_STREAM_H_
