// A call of a function of the program's that may never come back: on a thread of its own, for which
// the caller waits as long as its deadline lets it.
//
// Where the caller gives up, the function is told by its cancellation, and the thread goes on with
// what it holds. What it gives later is dropped with it; the environment's shutdown waits for the
// thread, as for everything that has one.

#ifndef TUTTI_CORE_STRATEGY_BOUNDED_CALL_H_
#define TUTTI_CORE_STRATEGY_BOUNDED_CALL_H_

#include <functional>
#include <string>

#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

// Calls `work` once, on another thread, and returns when it has. `work` owns all that it touches,
// and gets a cancellation that is thrown when nobody waits any more; it lives as long as the call.
// DEADLINE_EXCEEDED and CANCELLED naming `what`, also before `work` has been called at all; what
// `work` throws as a status; ABORTED when it ends its thread; RESOURCE_EXHAUSTED without a thread.
Status CallWithin(Ref<Environment> environment, const CallOptions& options,
                  const std::string& what, std::function<void(Cancellation& stop)> work);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_BOUNDED_CALL_H_
