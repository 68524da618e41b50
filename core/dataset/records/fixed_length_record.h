// fixed_length_record: the dataset of the records of equal length in files, as scalars of byte
// strings.
//
// Iteration fails with the disk's error for a file that cannot be opened, and with INVALID_ARGUMENT
// naming file and sizes for one that does not consist of whole records; the next call goes on with
// the next file.
#ifndef TUTTI_CORE_DATASET_RECORDS_FIXED_LENGTH_RECORD_H_
#define TUTTI_CORE_DATASET_RECORDS_FIXED_LENGTH_RECORD_H_

#include <cstdint>
#include <span>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/records/fixed_length_record_reader.h"
#include "core/dataset/records/record_file_stream.h"

namespace tutti {

class Dataset;
class DatasetEnvironment;
struct OpTraits;

struct FixedLengthRecordOptions {
  std::string name;
  RecordCompression compression = RecordCompression::kNone;
  int64_t buffer_bytes = 0;  // read at once; 0: kDefaultRecordBufferBytes
  // How many files at a time, of which records come in turn; kAutotune: 10 (parallel_reads.h).
  // 0 and 1: one file after the other.
  int64_t num_parallel_reads = 0;
};

// `files` has elements bytes[] or bytes[n].
Result<Ref<Dataset>> MakeFixedLengthRecordDataset(const Dataset& files,
                                                  const FixedLengthRecordFormat& format,
                                                  FixedLengthRecordOptions options);
Result<Ref<Dataset>> MakeFixedLengthRecordDataset(const Ref<DatasetEnvironment>& environment,
                                                  std::span<const std::string> paths,
                                                  const FixedLengthRecordFormat& format,
                                                  FixedLengthRecordOptions options);

extern const OpTraits kFixedLengthRecordOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_FIXED_LENGTH_RECORD_H_
