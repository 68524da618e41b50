// Collective calls with whole values: any structure of tensors, texts and optionals, another one on
// each rank. They travel as bytes (dataset/graph/value_bytes.h), so that ranks may be of different
// languages; for large tensors the calls of the communicator itself are the way.
#ifndef TUTTI_CORE_RUNTIME_VALUE_COLLECTIVES_H_
#define TUTTI_CORE_RUNTIME_VALUE_COLLECTIVES_H_

#include <cstdint>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"
#include "core/tensor/value.h"

namespace tutti {

class Runtime;

// A list: what every rank brought, in their order.
Result<Ref<const Value>> AllGatherValue(Runtime& runtime, Communicator& communicator,
                                        const Value& value, const CollectiveOptions& options);
// What rank `root` brought; `value` of the others is not looked at, and may be null.
Result<Ref<const Value>> BroadcastValue(Runtime& runtime, Communicator& communicator, int64_t root,
                                        const Value* value, const CollectiveOptions& options);

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_VALUE_COLLECTIVES_H_
