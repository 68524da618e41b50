// text_line: the dataset of the lines of text files, as scalars of byte strings
// (text_line_reader.h says what a line is).
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> lines, MakeTextLineDataset(environment, {"a.txt"}, {}));
//
// Iteration fails with the disk's error for a file that cannot be opened; the next call goes on
// with the next file.
#ifndef TUTTI_CORE_DATASET_RECORDS_TEXT_LINE_H_
#define TUTTI_CORE_DATASET_RECORDS_TEXT_LINE_H_

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

struct TextLineOptions {
  std::string name;
  RecordCompression compression = RecordCompression::kNone;
  int64_t buffer_bytes = 0;  // read at once; 0: kDefaultRecordBufferBytes
  // How many files at a time, of which records come in turn; kAutotune: 10 (parallel_reads.h).
  // 0 and 1: one file after the other.
  int64_t num_parallel_reads = 0;
};

// `files` has elements bytes[] or bytes[n].
Result<Ref<Dataset>> MakeTextLineDataset(const Dataset& files, TextLineOptions options);
Result<Ref<Dataset>> MakeTextLineDataset(const Ref<DatasetEnvironment>& environment,
                                         std::span<const std::string> paths,
                                         TextLineOptions options);

extern const OpTraits kTextLineOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_TEXT_LINE_H_
