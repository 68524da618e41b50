#include "core/base/exception.h"

#include <exception>
#include <new>

#include "core/base/error.h"

namespace tutti {
namespace {

// Memory may run out while the message is made, too.
Status Unexpected(std::string_view where, std::string_view what) noexcept {
  try {
    return Internal(
        "{}: an exception: {}; catch it in the function that throws it, or, if that is none of "
        "yours, report it",
        where, what);
  } catch (...) {
    return Status::OutOfMemory();
  }
}

}  // namespace

Status StatusOfThreadsEnd(std::string_view where) noexcept {
  try {
    return Aborted(
        "{}: a thread of the library was ended (pthread_exit) in a function that it called; return "
        "from the function instead",
        where);
  } catch (...) {
    return Status::OutOfMemory();
  }
}

Status StatusOfException(std::string_view where) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory();
  } catch (const std::exception& error) {
    return Unexpected(where, error.what());
  } catch (...) {
    return Unexpected(where, "of an unknown type");
  }
}

}  // namespace tutti
