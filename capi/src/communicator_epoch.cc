// The end of a communicator's epoch, and the next one: revoke, shrink, grow.
#include <tutti/communicator.h>

#include <utility>

#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"

using namespace tutti;
using namespace tutti::capi;

void tutti_communicator_revoke(tutti_communicator *communicator, const char *message) {
  if (communicator == nullptr) return;
  // A failure to make the reason must not lose the revoke itself.
  Status reason;
  const Status made = GuardedStatus(__func__, From::kAny, [&](Call) -> Status {
    if (message != nullptr) reason = Aborted("{}", message);
    return OkStatus();
  });
  FromHandle(communicator)->Revoke(made.ok() ? std::move(reason) : OkStatus());
}

tutti_status *tutti_communicator_shrink(tutti_communicator *communicator,
                                        const tutti_call_options *options,
                                        tutti_communicator **out_communicator) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_communicator);
    Communicator &object = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, Runtime::Of(object.environment()), options));
    TUTTI_ASSIGN_OR_RETURN(auto next, object.Shrink(wait));
    *out_communicator = Give(std::move(next));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_grow(tutti_communicator *communicator, int64_t least,
                                      const tutti_call_options *options,
                                      tutti_communicator **out_communicator) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_communicator);
    Communicator &object = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, Runtime::Of(object.environment()), options));
    TUTTI_ASSIGN_OR_RETURN(auto next, object.Grow(least, wait));
    *out_communicator = Give(std::move(next));
    return OkStatus();
  });
}
