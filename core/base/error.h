// Makers of failed statuses, one per canonical code, with a message in fmt's syntax checked at
// compile time:
//
//   return InvalidArgument("batch: batch_size must be positive, got {}; pass 1 or more", size)
//       .With("index", 0);
//
// A message says who, what, expected, found, next step. Include this from .cc files.

#ifndef TUTTI_CORE_BASE_ERROR_H_
#define TUTTI_CORE_BASE_ERROR_H_

#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"

namespace tutti {

#define TUTTI_DEFINE_ERROR_(name) \
  template <typename... Args> \
  Status name(fmt::format_string<Args...> message, Args&&... args) { \
    return Status(StatusCode::k##name, Format(message, std::forward<Args>(args)...)); \
  }

TUTTI_DEFINE_ERROR_(Cancelled)
TUTTI_DEFINE_ERROR_(Unknown)
TUTTI_DEFINE_ERROR_(InvalidArgument)
TUTTI_DEFINE_ERROR_(DeadlineExceeded)
TUTTI_DEFINE_ERROR_(NotFound)
TUTTI_DEFINE_ERROR_(AlreadyExists)
TUTTI_DEFINE_ERROR_(PermissionDenied)
TUTTI_DEFINE_ERROR_(ResourceExhausted)
TUTTI_DEFINE_ERROR_(FailedPrecondition)
TUTTI_DEFINE_ERROR_(Aborted)
TUTTI_DEFINE_ERROR_(OutOfRange)
TUTTI_DEFINE_ERROR_(Unimplemented)
TUTTI_DEFINE_ERROR_(Internal)
TUTTI_DEFINE_ERROR_(Unavailable)
TUTTI_DEFINE_ERROR_(DataLoss)
TUTTI_DEFINE_ERROR_(Unauthenticated)

#undef TUTTI_DEFINE_ERROR_

// The status of a failed system call: code from errno (ENOENT is NOT_FOUND, EACCES
// PERMISSION_DENIED, ...), message "what: No such file or directory", detail errno.
Status ErrnoStatus(int error_number, std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_ERROR_H_
