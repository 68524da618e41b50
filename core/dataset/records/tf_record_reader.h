// Reads TFRecord files:
//
//   u64 length | u32 masked crc32c(length) | data[length] | u32 masked crc32c(data)
//
// in little-endian byte order, one record after the other. Both checksums are always checked, the
// length's before anything is allocated or read by it.
#ifndef TUTTI_CORE_DATASET_RECORDS_TF_RECORD_READER_H_
#define TUTTI_CORE_DATASET_RECORDS_TF_RECORD_READER_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/dataset/records/record_file_reader.h"

namespace tutti {

class Disk;

inline constexpr size_t kTfRecordHeaderBytes = 12;
inline constexpr size_t kTfRecordFooterBytes = 4;

// Errors of Read are DATA_LOSS: a truncated record and a corrupt length end the file, corrupt data
// costs one record.
Result<std::unique_ptr<RecordFileReader>> OpenTfRecordReader(Disk& disk, const std::string& path,
                                                             const RecordFileOptions& options);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_TF_RECORD_READER_H_
