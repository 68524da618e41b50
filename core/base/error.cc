#include "core/base/error.h"

#include <cerrno>
#include <cstring>

namespace tutti {
namespace {

StatusCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ESRCH:
      return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return StatusCode::kPermissionDenied;
    case EEXIST:
      return StatusCode::kAlreadyExists;
    case EINVAL:
    case ENAMETOOLONG:
    case EBADF:
    case ELOOP:
      return StatusCode::kInvalidArgument;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EBUSY:
    case ETXTBSY:
    case EXDEV:
      return StatusCode::kFailedPrecondition;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return StatusCode::kResourceExhausted;
    case EAGAIN:
    case EINTR:
    case ENETDOWN:
    case ENETUNREACH:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case EPIPE:
      return StatusCode::kUnavailable;
    case ETIMEDOUT:
      return StatusCode::kDeadlineExceeded;
    case EIO:
      return StatusCode::kDataLoss;
    case ENOSYS:
    case EOPNOTSUPP:
      return StatusCode::kUnimplemented;
    default:
      return StatusCode::kUnknown;
  }
}

}  // namespace

Status ErrnoStatus(int error_number, std::string_view what) {
  const char* name = strerrordesc_np(error_number);  // the C locale's text, and thread-safe
  std::string text = name != nullptr ? name : Format("error {}", error_number);
  return Status(CodeOfErrno(error_number), Format("{}: {}", what, text))
      .With("errno", error_number);
}

}  // namespace tutti
