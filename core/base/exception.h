// Exceptions as statuses. Nothing of ours throws but what the language does when memory runs out; a
// function that a program brings may. Where an exception must not go on (a thread of ours, C's
// border) or belongs to one element of many, it is caught:
//
//   Status status = CatchExceptions("map", [&] { return function.Call(context, in, &out); });
//
// A thread that is being cancelled (pthread_cancel), or ends itself (pthread_exit), unwinds as if
// by an exception; that one goes on, since the process would be aborted otherwise. Whoever would be
// waited for then says so by an IfThreadEnds.

#ifndef TUTTI_CORE_BASE_EXCEPTION_H_
#define TUTTI_CORE_BASE_EXCEPTION_H_

#include <cxxabi.h>

#include <string_view>
#include <utility>

#include "core/base/status.h"

namespace tutti {

// The status for the exception that is being handled; call it in a catch block. RESOURCE_EXHAUSTED
// for memory that has run out, else INTERNAL with what the exception says. `where` names who was at
// work.
Status StatusOfException(std::string_view where) noexcept;

#ifdef __SANITIZE_ADDRESS__
// There is no object behind the reference by which what unwinds a cancelled thread is caught.
// UndefinedBehaviorSanitizer would report that, and leaves out whole functions only.
#define TUTTI_CATCHES_FORCED_UNWINDING [[gnu::noinline, gnu::no_sanitize("null")]]
#else
#define TUTTI_CATCHES_FORCED_UNWINDING
#endif

// What `body`, which returns a Status, returns, or the status of its exception.
template <typename Body>
TUTTI_CATCHES_FORCED_UNWINDING Status CatchExceptions(std::string_view where, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return StatusOfException(where);
  }
}

#undef TUTTI_CATCHES_FORCED_UNWINDING

// ABORTED, of a thread that ends itself in a function of the program's.
Status StatusOfThreadsEnd(std::string_view where) noexcept;

// Calls `left` with StatusOfThreadsEnd when its scope is left in any other way than behind Stays:
//
//   IfThreadEnds ends("map", [&](Status why) { ... });  // throws nothing
//   ... function.Call(...) ...
//   ends.Stays();
template <typename Left>
class IfThreadEnds {
 public:
  IfThreadEnds(std::string_view where, Left left) : where_(where), left_(std::move(left)) {}
  ~IfThreadEnds() {
    if (!stays_) left_(StatusOfThreadsEnd(where_));
  }
  IfThreadEnds(const IfThreadEnds&) = delete;
  IfThreadEnds& operator=(const IfThreadEnds&) = delete;
  void Stays() { stays_ = true; }

 private:
  const std::string_view where_;
  const Left left_;
  bool stays_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_EXCEPTION_H_
