// The reaper: takes objects with threads whose last reference went away unclosed, closes them on a
// thread of its own and deletes them. The thread starts with the first object; shutdown joins it.

#ifndef TUTTI_CORE_BASE_REAPER_H_
#define TUTTI_CORE_BASE_REAPER_H_

#include "core/base/call_options.h"
#include "core/base/status.h"

namespace tutti {

class Closable;

class Reaper {
 public:
  virtual ~Reaper() = default;
  // Any thread; never blocks. After shutdown, or when no thread can be started, an object that is
  // not closed is left to a later shutdown, which closes and deletes it: a release must not join.
  virtual void Take(Closable* object) noexcept = 0;
  // For the closing of `self`: waits until what was taken before is closed: all that has been
  // taken, but of what was taken before `self` if it was taken itself. On the reaper's own thread,
  // which closes one after the other, returns at once.
  virtual Status AwaitTakenBefore(const Closable& self, const CallOptions& options) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_REAPER_H_
