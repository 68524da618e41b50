// Communicators: making, asking, ending; their calls are in communicator_calls.cc and
// communicator_async.cc.
#include "core/collective/communicator/communicator.h"

#include <tutti/communicator.h>

#include <utility>
#include <vector>

#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "capi/src/tensor_arguments.h"
#include "core/base/error.h"
#include "core/cluster/job/cluster.h"
#include "core/runtime/multi_worker.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_communicator_create_local(tutti_runtime *runtime, size_t size,
                                              const tutti_communicator_options *options,
                                              tutti_communicator **out_communicators) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_communicators);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    Communicator::LocalOptions local;
    local.name = TextOr(set.name, "");
    local.table = root->collective_table();
    TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Communicator>> ranks,
                           Communicator::CreateLocal(root.get(), size, local));
    for (Ref<Communicator> &rank : ranks) *out_communicators++ = Give(std::move(rank));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_create(tutti_cluster *cluster,
                                        const tutti_communicator_options *options,
                                        const tutti_call_options *call_options,
                                        tutti_communicator **out_communicator) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, cluster, out_communicator);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    auto object = Ref<Cluster>::Retain(FromHandle(cluster));
    Runtime &root = Runtime::Of(object->environment());
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCall(call, root, call_options));
    TUTTI_ASSIGN_OR_RETURN(auto communicator,
                           CreateCommunicator(root, std::move(object),
                                              TextOr(set.name, ""), wait));
    *out_communicator = Give(std::move(communicator));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_split(tutti_communicator *communicator, int64_t color,
                                       int64_t key, const tutti_communicator_options *options,
                                       const tutti_call_options *call_options,
                                       tutti_communicator **out_communicator) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_communicator);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    Communicator &object = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto part, object.Split(color, key, TextOr(set.name, ""), wait));
    *out_communicator = Give(std::move(part));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_create_tensor(tutti_communicator *communicator,
                                               tutti_dtype dtype, size_t rank,
                                               const int64_t *dims, tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const DType known_dtype, ReadDType(call, dtype));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, ReadShape(call, rank, dims));
    TUTTI_ASSIGN_OR_RETURN(auto tensor,
                           FromHandle(communicator)->CreateTensor(known_dtype, shape));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

const char *tutti_communicator_get_transport(const tutti_communicator *communicator) {
  return communicator == nullptr ? "" : FromHandle(communicator)->transport_name();
}

int64_t tutti_communicator_get_rank(const tutti_communicator *communicator) {
  return communicator == nullptr ? -1 : FromHandle(communicator)->rank();
}

int64_t tutti_communicator_get_size(const tutti_communicator *communicator) {
  return communicator == nullptr ? 0 : FromHandle(communicator)->size();
}

int64_t tutti_communicator_get_epoch(const tutti_communicator *communicator) {
  return communicator == nullptr ? 0 : FromHandle(communicator)->epoch();
}

void tutti_communicator_abort(tutti_communicator *communicator, const char *message) {
  if (communicator == nullptr) return;
  // A failure to make the reason must not lose the abort itself.
  Status reason;
  const Status made = GuardedStatus(__func__, From::kAny, [&](Call) -> Status {
    if (message != nullptr) reason = Aborted("{}", message);
    return OkStatus();
  });
  FromHandle(communicator)->Abort(made.ok() ? std::move(reason) : OkStatus());
}

tutti_status *tutti_communicator_close(tutti_communicator *communicator,
                                       const tutti_call_options *options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    if (communicator == nullptr) return OkStatus();
    Communicator &object = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCallToClose(call, object.environment(), options));
    return object.Close(wait);
  });
}

void tutti_communicator_retain(const tutti_communicator *communicator) {
  RetainHandle(communicator);
}
void tutti_communicator_release(const tutti_communicator *communicator) {
  ReleaseHandle(communicator);
}
