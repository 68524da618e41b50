// What root constructors and blocking functions turn their first and last arguments into: the
// runtime that is meant, and a deadline with a cancellation.
#ifndef TUTTI_CAPI_SRC_ROOTS_H_
#define TUTTI_CAPI_SRC_ROOTS_H_

#include <tutti/call.h>

#include "capi/src/guard.h"
#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti::capi {

// The runtime that the caller named, or the default one, started if it is not running.
// FAILED_PRECONDITION after its shutdown.
Result<Ref<Environment>> UseRuntime(Call call, tutti_runtime *runtime);

// The deadline and cancellation of a blocking call; without a timeout the runtime's
// default_timeout. INVALID_ARGUMENT for a negative number that is no constant.
Result<CallOptions> ReadCall(Call call, const Environment &environment,
                             const tutti_call_options *options);

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_ROOTS_H_
