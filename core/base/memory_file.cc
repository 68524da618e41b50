#include "core/base/memory_file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {

Result<FileDescriptor> MakeMemoryFile(const char* name, size_t bytes, const char* what) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    return ResourceExhausted("{}: {} are more than files may have here (ulimit -f): {}; raise it",
                             what, HumanBytes(bytes), HumanBytes(limit.rlim_cur));
  }
  FileDescriptor descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) return ErrnoStatus(errno, Format("{}: memfd_create", what));
  if (bytes > static_cast<size_t>(std::numeric_limits<off_t>::max()) ||
      ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) {
    return ErrnoStatus(errno, Format("{}: make it {} bytes long", what, bytes));
  }
  return descriptor;
}

}  // namespace tutti
