/* Tutti's C interface: one include for all of it.
 *
 * Conventions, once and for all (a header says only what differs):
 *
 *  1. Errors. A function that can fail returns `tutti_status *`: NULL is success, anything else
 * belongs to the caller, who releases it. On failure every out-pointer is untouched; the contents
 * of a destination tensor are unspecified.
 *  2. Handles are opaque and reference-counted. `_retain` and `_release` take NULL, any thread, any
 * order (children hold their parents), and never block or call the host. What has threads has
 * `_close`, which stops and joins them; an object released without close is closed by the runtime's
 * reaper.
 *  3. A `_get_` function borrows: what it returns lives as long as the object it came from, is not
 * released, and is not modified. Every other out-pointer gives the caller a reference of its own to
 * release.
 *  4. Parameters come in the order object, inputs, options, call options, outputs. A count precedes
 * its array.
 *  5. Options. NULL means the defaults. A public struct starts with `struct_size` (use its `_INIT`
 * macro); 0 is *unset* in every field. Structs without a size are frozen: tutti_string_view,
 * tutti_callback, tutti_notification, tutti_optional_int64, tutti_release_hook.
 *  6. Blocking. Whatever may wait takes `const tutti_call_options *` with a timeout and a
 * cancellation.
 *  7. `const` on an object parameter means that concurrent calls with the same object are allowed.
 *  8. Text is UTF-8. Inputs are NUL-terminated unless a size stands beside them.
 *  9. `Context:` says from where a function may be called; a call from elsewhere is
 * FAILED_PRECONDITION, never a deadlock:
 *    - any: everywhere, also in notifications; it never blocks
 *    - building: everywhere but in notifications (values, statuses, dataset definitions)
 *    - computing: outside callbacks, in replica and in cross-replica callbacks
 *    - cross-replica: outside callbacks and in cross-replica callbacks
 *    - replica: inside a replica callback, with that callback's own context
 *    - host: outside every callback
 *
 *     `Threads:` is `any` (concurrent calls on the same object are safe) or `one at a time` (the
 * caller serialises).
 * 10. `Since:` is the version of the interface that brought a function.
 *
 * A program that only has dlopen includes <tutti/tutti_dl.h> instead of linking.
 */
#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include <tutti/abi.h>
#include <tutti/bucket_plan.h>
#include <tutti/call.h>
#include <tutti/checkpoint.h>
#include <tutti/cluster.h>
#include <tutti/communicator.h>
#include <tutti/context.h>
#include <tutti/dataset.h>
#include <tutti/debugging.h>
#include <tutti/device.h>
#include <tutti/distributed.h>
#include <tutti/expression.h>
#include <tutti/extended.h>
#include <tutti/function.h>
#include <tutti/future.h>
#include <tutti/iterator.h>
#include <tutti/record.h>
#include <tutti/reducer.h>
#include <tutti/runtime.h>
#include <tutti/spec.h>
#include <tutti/stats_aggregator.h>
#include <tutti/status.h>
#include <tutti/strategy.h>
#include <tutti/stream.h>
#include <tutti/tensor.h>
#include <tutti/value.h>
#include <tutti/variable.h>

#endif /* TUTTI_TUTTI_H_ */
