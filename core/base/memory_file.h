// A file in memory without a name, for memory that processes share (memfd_create(2)).

#ifndef TUTTI_CORE_BASE_MEMORY_FILE_H_
#define TUTTI_CORE_BASE_MEMORY_FILE_H_

#include <cstddef>

#include "core/base/file_descriptor.h"
#include "core/base/status.h"

namespace tutti {

// `bytes` zeros, whose pages come into being when they are first touched; seals may be added.
// RESOURCE_EXHAUSTED when it is longer than files of this process may be (ulimit -f): the kernel
// would answer with a signal that ends the process. `what` begins the messages: "shared window".
Result<FileDescriptor> MakeMemoryFile(const char* name, size_t bytes, const char* what);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_MEMORY_FILE_H_
