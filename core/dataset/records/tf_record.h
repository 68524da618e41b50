// tf_record: the dataset of the records in TFRecord files, as scalars of byte strings.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> files, MakeListFilesDataset(environment, {"train-*"}, {}));
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> records, MakeTfRecordDataset(*files, {}));
//
// Iteration fails with the disk's error for a file that cannot be opened (the next call goes on
// with the next file), and with DATA_LOSS naming file, offset and record index for a bad record
// (tf_record_reader.h says where it goes on).
#ifndef TUTTI_CORE_DATASET_RECORDS_TF_RECORD_H_
#define TUTTI_CORE_DATASET_RECORDS_TF_RECORD_H_

#include <cstdint>
#include <span>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/records/record_file_stream.h"

namespace tutti {

class Dataset;
class DatasetEnvironment;
struct OpTraits;

struct TfRecordOptions {
  std::string name;
  RecordCompression compression = RecordCompression::kNone;
  int64_t buffer_bytes = 0;  // read at once; 0: kDefaultRecordBufferBytes
  // How many files at a time, of which records come in turn; kAutotune: 10 (parallel_reads.h).
  // 0 and 1: one file after the other.
  int64_t num_parallel_reads = 0;
};

// `files` has elements bytes[] or bytes[n].
Result<Ref<Dataset>> MakeTfRecordDataset(const Dataset& files, TfRecordOptions options);
Result<Ref<Dataset>> MakeTfRecordDataset(const Ref<DatasetEnvironment>& environment,
                                         std::span<const std::string> paths,
                                         TfRecordOptions options);

extern const OpTraits kTfRecordOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_TF_RECORD_H_
