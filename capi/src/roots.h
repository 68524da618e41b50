// What root constructors and blocking functions turn their first and last arguments into: the
// runtime that is meant, and a deadline with a cancellation.
#ifndef TUTTI_CAPI_SRC_ROOTS_H_
#define TUTTI_CAPI_SRC_ROOTS_H_

#include <tutti/call.h>

#include "capi/src/guard.h"
#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/executor.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communication_options.h"
#include "core/runtime/runtime.h"

namespace tutti::capi {

// The runtime that the caller named, or the default one, started if it is not running.
// FAILED_PRECONDITION after its shutdown.
Result<Ref<Runtime>> UseRuntime(Call call, tutti_runtime *runtime);

// INVALID_ARGUMENT for a number that is none of them; unset is AUTO.
Result<CommunicationImplementation> ReadImplementation(Call call, tutti_communication number);

// The deadline and cancellation of a blocking call on an object of `environment`; without a timeout
// the runtime's default_timeout. FAILED_PRECONDITION after shutdown, INVALID_ARGUMENT for a
// negative number that is no constant.
Result<CallOptions> ReadCall(Call call, const Environment &environment,
                             const tutti_call_options *options);
// The same of a collective, with its hints. INVALID_ARGUMENT names what is wrong with them.
Result<CollectiveOptions> ReadCollective(Call call, const Environment &environment,
                                         const tutti_call_options *options);
// As ReadCall where shutdown does not matter: for closing, and for shutdown itself.
Result<CallOptions> ReadCallToClose(Call call, const Environment &environment,
                                    const tutti_call_options *options);
Result<CallOptions> ReadCallAlways(Call call, const Clock &clock, int64_t default_timeout_ns,
                                   const tutti_call_options *options);

// Where `destroy` of objects runs that no runtime was named for: on the default runtime's callback
// thread; null (on the releasing thread) when it is not running.
Ref<CallbackExecutor> DefaultCallbackExecutor();

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_ROOTS_H_
