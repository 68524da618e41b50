// Reads files that zlib wrote, GZIP (RFC 1952, with any number of members) and ZLIB (RFC 1950), as
// a stream of their content.
#ifndef TUTTI_CORE_DATASET_RECORDS_COMPRESSED_READER_H_
#define TUTTI_CORE_DATASET_RECORDS_COMPRESSED_READER_H_

#include <memory>

#include "core/base/status.h"
#include "core/dataset/records/record_file_stream.h"

namespace tutti {

class ReadableFile;

// `compression` is kGzip or kZlib. An empty file has no content.
//
// The stream's errors are DATA_LOSS for a file that ends early, is corrupt or was written in
// another way, with the details "file", "compressed_offset" (where in the file) and "offset" (bytes
// of content that came before). Whatever was decompressed before the error is read first; after it
// every Read gives the error again.
Result<std::unique_ptr<RecordFileStream>> OpenCompressedReader(std::unique_ptr<ReadableFile> file,
                                                               RecordCompression compression);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_COMPRESSED_READER_H_
