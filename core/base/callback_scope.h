// Which kind of user callback the current thread is inside of. A blocking function asks here first
// and answers FAILED_PRECONDITION where waiting could never end, instead of a deadlock.
//
// Classes nest: a merge function called from a replica function is cross-replica while it runs. The
// innermost one counts.
//
//   Context: any            everywhere; never blocks                     no check
//   Context: building       not in notifications                         CheckBuildingAllowed
//   Context: computing      nor in dataset callbacks                     CheckComputingAllowed
//   Context: cross-replica  outside callbacks, in cross-replica ones     CheckCrossReplicaAllowed
//   Context: collective     computing, but not in updates                CheckCollectiveAllowed
//   Context: replica        directly inside a replica callback           CheckInside(kReplica, ...)
//   Context: host only      outside of callbacks                         CheckOutsideCallbacks

#ifndef TUTTI_CORE_BASE_CALLBACK_SCOPE_H_
#define TUTTI_CORE_BASE_CALLBACK_SCOPE_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

enum class CallbackClass : int32_t {
  kNone = 0,          // the host's own code, outside of any callback
  kReplica = 1,       // a function given to run
  kCrossReplica = 2,  // merge, value-from-function
  kDataset = 3,       // map, filter, generator ...: builds values and datasets, never iterates
  kNotification = 4,  // on_ready, destroy, log sink: only what never blocks
  kUpdate = 5,        // update functions, cross-device ops: on one device, nobody else takes part
};

// "a replica callback", "a notification callback (on_ready, destroy or log sink)" ...; "no
// callback".
const char* CallbackClassName(CallbackClass callback_class);

// The innermost class the calling thread is in.
CallbackClass CurrentCallbackClass() noexcept;

// Marks the calling thread as inside a callback of a class while it lives. On the stack only.
class CallbackScope {
 public:
  explicit CallbackScope(CallbackClass callback_class) noexcept;
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  CallbackClass previous_;
};

// FAILED_PRECONDITION unless the calling thread is in one of `allowed`. `what` names the function
// that was called.
Status CheckCallbackClass(std::initializer_list<CallbackClass> allowed, std::string_view what);
// Refused inside notification callbacks.
Status CheckBuildingAllowed(std::string_view what);
// Refused inside dataset and notification callbacks.
Status CheckComputingAllowed(std::string_view what);
// Refused where computing is, and inside updates, which no other replica or rank takes part in.
Status CheckCollectiveAllowed(std::string_view what);
// Refused inside replica, update, dataset and notification callbacks.
Status CheckCrossReplicaAllowed(std::string_view what);
// Refused inside every callback.
Status CheckOutsideCallbacks(std::string_view what);
// Refused everywhere but directly inside that class.
Status CheckInside(CallbackClass callback_class, std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_CALLBACK_SCOPE_H_
