// Reads files of text as their lines:
//
//   line | [CR] LF | line | [CR] LF | ... | line
//
// A line ends with LF; one CR before that belongs to the end. The last line needs none, and what
// is behind the last LF is a line only when there is something.
#ifndef TUTTI_CORE_DATASET_RECORDS_TEXT_LINE_READER_H_
#define TUTTI_CORE_DATASET_RECORDS_TEXT_LINE_READER_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/dataset/records/record_file_reader.h"

namespace tutti {

class Disk;

// Lines may have any length that there is memory for; a longer one is RESOURCE_EXHAUSTED, and the
// next Read goes on behind it.
Result<std::unique_ptr<RecordFileReader>> OpenTextLineReader(Disk& disk, const std::string& path,
                                                             const RecordFileOptions& options);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_TEXT_LINE_READER_H_
