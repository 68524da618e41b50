// The dump of the process: at most one at a time, as tensors are recorded once.
#ifndef TUTTI_CORE_RUNTIME_DUMPS_H_
#define TUTTI_CORE_RUNTIME_DUMPS_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/debugging/dump_writer.h"

namespace tutti {

// Begins a dump and gives the number of its writer; that of the one that is there where it has the
// same root. Another root ends the dump before. INVALID_ARGUMENT for another mode or another size
// of the buffer than that of the dump that is there.
Result<int64_t> EnableDump(const DumpOptions& options);

// FAILED_PRECONDITION for the writer of a dump that has ended.
Status FlushDump(int64_t writer, bool execution);

// Ends it: what was not flushed is gone. OK when there is none.
void DisableDump();

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_DUMPS_H_
