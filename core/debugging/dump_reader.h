// Reads the dumps of all processes in a directory.
#ifndef TUTTI_CORE_DEBUGGING_DUMP_READER_H_
#define TUTTI_CORE_DEBUGGING_DUMP_READER_H_

#include <string>

#include "core/base/disk.h"
#include "core/base/status.h"

namespace tutti {

// What is there, as a JSON object:
//   processes: host, pid, mode, format_version, circular_buffer_size, op_regex, events (how many)
//   events: in the order of time: process (an index), time_us, sequence, op, name, replica, step
//     (null where there is none), dtype; shape, or has_nan_or_infinity, elements, nan,
//     positive_infinity, negative_infinity, rank, negative, zero, positive, as the mode has them
//   first_not_finite: the first event with has_nan_or_infinity, null where there is none
//   damaged: file and reason of what does not read to its end; what stands before is there
// NOT_FOUND without a dump; DATA_LOSS where a process's metadata do not read, UNIMPLEMENTED for a
// newer format.
Result<std::string> ReadDumps(Disk& disk, const std::string& directory);

}  // namespace tutti

#endif  // TUTTI_CORE_DEBUGGING_DUMP_READER_H_
