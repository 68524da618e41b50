// Compresses what is appended to a file: GZIP (RFC 1952) or ZLIB (RFC 1950) over the whole file.
#ifndef TUTTI_CORE_DATASET_RECORDS_COMPRESSED_WRITER_H_
#define TUTTI_CORE_DATASET_RECORDS_COMPRESSED_WRITER_H_

#include <cstddef>
#include <memory>

#include "core/base/disk.h"
#include "core/base/status.h"
#include "core/dataset/records/record_file_stream.h"

namespace tutti {

inline constexpr int kDefaultCompressionLevel = 6;

// A file like the one it writes to, with the same promises. `compression` is kGzip or kZlib,
// `level` 0 to 9: INVALID_ARGUMENT otherwise.
Result<std::unique_ptr<WritableFile>> MakeCompressedWriter(std::unique_ptr<WritableFile> file,
                                                           RecordCompression compression,
                                                           int level);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_COMPRESSED_WRITER_H_
