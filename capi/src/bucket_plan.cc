// Bucket plans.
#include "core/collective/communicator/bucket_plan.h"

#include <tutti/bucket_plan.h>

#include <string>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_bucket_plan_create(tutti_communicator *communicator, size_t count,
                                       tutti_tensor *const *tensors, tutti_reduce_op op,
                                       const tutti_bucket_plan_options *options,
                                       tutti_bucket_plan **out_plan) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_plan);
    TUTTI_REQUIRE_ARRAY(call, count, tensors);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const bool own,
                           ReadTristate(call, set.own_tensors, false, "own_tensors"));
    std::vector<Tensor *> given;
    for (size_t i = 0; i < count; ++i) given.push_back(FromHandle(tensors[i]));
    const std::vector<const Tensor *> like(given.begin(), given.end());
    auto ranks = Ref<Communicator>::Retain(FromHandle(communicator));
    const auto reduction = static_cast<ReduceOp>(op);
    TUTTI_REQUIRE_ARRAY(call, set.name_count, set.names);
    std::vector<std::string> names;
    for (size_t i = 0; i < set.name_count; ++i) {
      names.emplace_back(set.names[i] == nullptr ? "" : set.names[i]);
    }
    TUTTI_ASSIGN_OR_RETURN(
        auto plan, own ? BucketPlan::CreateLike(std::move(ranks), like, reduction,
                                                set.bytes_per_pack, std::move(names))
                       : BucketPlan::Create(std::move(ranks), given, reduction,
                                            set.bytes_per_pack, std::move(names)));
    plan->SetWaitWarning(Runtime::Of(plan->communicator().environment()).wait_warning_ns());
    *out_plan = Give(std::move(plan));
    return OkStatus();
  });
}

int64_t tutti_bucket_plan_get_bucket_count(const tutti_bucket_plan *plan) {
  return plan == nullptr ? 0 : static_cast<int64_t>(FromHandle(plan)->buckets().size());
}

tutti_status *tutti_bucket_plan_get_tensor(const tutti_bucket_plan *plan, size_t index,
                                           tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, plan, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(auto tensor, FromHandle(plan)->GetTensor(index));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_status *tutti_bucket_plan_ready(tutti_bucket_plan *plan, size_t index) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, plan);
    return FromHandle(plan)->Ready(index);
  });
}

tutti_status *tutti_bucket_plan_wait(tutti_bucket_plan *plan, const tutti_call_options *options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, plan);
    BucketPlan &object = *FromHandle(plan);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.communicator().environment(), options));
    return object.Wait(wait);
  });
}

tutti_status *tutti_bucket_plan_to_string(const tutti_bucket_plan *plan, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, plan, out_text);
    *out_text = GiveBytes(FromHandle(plan)->ToString());
    return OkStatus();
  });
}

void tutti_bucket_plan_retain(const tutti_bucket_plan *plan) { RetainHandle(plan); }
void tutti_bucket_plan_release(const tutti_bucket_plan *plan) { ReleaseHandle(plan); }
