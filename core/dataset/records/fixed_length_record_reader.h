// Reads files of records of equal length, with a header before and a footer behind them that are
// passed over:
//
//   header[header_bytes] | record[record_bytes] * n | footer[footer_bytes]
#ifndef TUTTI_CORE_DATASET_RECORDS_FIXED_LENGTH_RECORD_READER_H_
#define TUTTI_CORE_DATASET_RECORDS_FIXED_LENGTH_RECORD_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/dataset/records/record_file_reader.h"

namespace tutti {

class Disk;

struct FixedLengthRecordFormat {
  int64_t record_bytes = 0;
  int64_t header_bytes = 0;
  int64_t footer_bytes = 0;

  // INVALID_ARGUMENT unless record_bytes is positive and the others are not negative.
  Status Check() const;
};

// A file whose size does not fit the format is INVALID_ARGUMENT naming file and sizes: before its
// first record, or, when it is compressed and the size cannot be known before, after its last.
Result<std::unique_ptr<RecordFileReader>> OpenFixedLengthRecordReader(
    Disk& disk, const std::string& path, const FixedLengthRecordFormat& format,
    const RecordFileOptions& options);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_FIXED_LENGTH_RECORD_READER_H_
