// Collective calls with whole values.
#include <tutti/communicator.h>

#include <utility>

#include "capi/src/guard.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/runtime/value_collectives.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_communicator_all_gather_value(tutti_communicator *communicator,
                                                  const tutti_value *value,
                                                  const tutti_call_options *call_options,
                                                  tutti_value **out_value) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, value, out_value);
    Communicator &object = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions options,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto all, AllGatherValue(Runtime::Of(object.environment()), object,
                                                    *FromHandle(value), options));
    *out_value = Give(std::move(all));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_broadcast_value(tutti_communicator *communicator,
                                                 const tutti_value *value, int64_t root,
                                                 const tutti_call_options *call_options,
                                                 tutti_value **out_value) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_value);
    Communicator &object = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions options,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto sent, BroadcastValue(Runtime::Of(object.environment()), object,
                                                     root, FromHandle(value), options));
    *out_value = Give(std::move(sent));
    return OkStatus();
  });
}
