// Variables.
#include "core/strategy/variable.h"

#include <tutti/variable.h>

#include <optional>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/placement.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/function/context.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<VariableOptions> ReadVariableOptions(Call call, const tutti_variable_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  if (set.synchronization < 0 || set.synchronization > TUTTI_SYNCHRONIZATION_ON_READ) {
    return InvalidArgument(
        "{}: the option synchronization is {}; expected AUTO (1), NONE (2), "
        "ON_WRITE (3) or ON_READ (4)",
        call.function, set.synchronization);
  }
  if (set.aggregation < 0 || set.aggregation > TUTTI_AGGREGATION_ONLY_FIRST_REPLICA) {
    return InvalidArgument(
        "{}: the option aggregation is {}; expected NONE (1), SUM (2), MEAN (3) "
        "or ONLY_FIRST_REPLICA (4)",
        call.function, set.aggregation);
  }
  VariableOptions read;
  if (set.name != nullptr) read.name = set.name;
  if (set.synchronization != 0) {
    read.synchronization = static_cast<Synchronization>(set.synchronization);
  }
  if (set.aggregation != 0) read.aggregation = static_cast<Aggregation>(set.aggregation);
  if (set.trainable != TUTTI_UNSET) {
    TUTTI_ASSIGN_OR_RETURN(read.trainable, ReadTristate(call, set.trainable, true, "trainable"));
  }
  if (set.rank == static_cast<size_t>(TUTTI_UNKNOWN_RANK)) {
    read.shape = PartialShape::Unknown();
  } else if (set.dims != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(read.shape, PartialShape::Create(set.dims, set.rank));
  }
  return read;
}

Result<CallOptions> ReadVariableCall(Call call, const Variable &variable,
                                     const tutti_call_options *options) {
  return ReadCall(call, variable.strategy()->environment(), options);
}

// One of Variable's writes.
using WriteFn = Status (Variable::*)(Context *, const Tensor &, const CallOptions &);

Status Write(Call call, WriteFn write, tutti_variable *variable, tutti_context *context,
             const tutti_tensor *tensor, const tutti_call_options *call_options) {
  TUTTI_REQUIRE_ANYWHERE(call, variable, tensor);
  Variable &object = *FromHandle(variable);
  TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadVariableCall(call, object, call_options));
  return (object.*write)(FromHandle(context), *FromHandle(tensor), wait);
}

}  // namespace

tutti_status *tutti_variable_create(tutti_strategy *strategy, const tutti_tensor *initial,
                                    const tutti_variable_options *options,
                                    const tutti_call_options *call_options,
                                    tutti_variable **out_variable) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, initial, out_variable);
    auto object = Ref<Strategy>::Retain(FromHandle(strategy));
    TUTTI_ASSIGN_OR_RETURN(VariableOptions read, ReadVariableOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(read.device, ReadDevice(call, *object, options));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto variable,
                           Variable::Create(std::move(object), *FromHandle(initial), read, wait));
    *out_variable = Give(std::move(variable));
    return OkStatus();
  });
}

tutti_status *tutti_variable_create_in_context(tutti_context *context, const tutti_tensor *initial,
                                               const tutti_variable_options *options,
                                               const tutti_call_options *call_options,
                                               tutti_variable **out_variable) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, context, initial, out_variable);
    Context &object = *FromHandle(context);
    TUTTI_ASSIGN_OR_RETURN(const VariableOptions read, ReadVariableOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto variable,
                           Variable::CreateIn(object, *FromHandle(initial), read, wait));
    *out_variable = Give(std::move(variable));
    return OkStatus();
  });
}

tutti_status *tutti_variable_read(const tutti_variable *variable, tutti_context *context,
                                  const tutti_call_options *call_options,
                                  tutti_tensor **out_tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, variable, out_tensor);
    const Variable &object = *FromHandle(variable);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadVariableCall(call, object, call_options));
    TUTTI_ASSIGN_OR_RETURN(auto tensor, object.Read(FromHandle(context), wait));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_status *tutti_variable_get_data(const tutti_variable *variable, const tutti_context *context,
                                      const tutti_tensor **out_tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, variable, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const Tensor *tensor, FromHandle(variable)->Data(FromHandle(context)));
    *out_tensor = ToHandle(tensor);
    return OkStatus();
  });
}

tutti_status *tutti_variable_assign(tutti_variable *variable, tutti_context *context,
                                    const tutti_tensor *tensor,
                                    const tutti_call_options *call_options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    return Write(call, &Variable::Assign, variable, context, tensor, call_options);
  });
}

tutti_status *tutti_variable_assign_add(tutti_variable *variable, tutti_context *context,
                                        const tutti_tensor *tensor,
                                        const tutti_call_options *call_options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    return Write(call, &Variable::AssignAdd, variable, context, tensor, call_options);
  });
}

tutti_status *tutti_variable_assign_sub(tutti_variable *variable, tutti_context *context,
                                        const tutti_tensor *tensor,
                                        const tutti_call_options *call_options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    return Write(call, &Variable::AssignSub, variable, context, tensor, call_options);
  });
}

tutti_status *tutti_variable_scatter(tutti_variable *variable, tutti_context *context,
                                     tutti_scatter scatter, const tutti_value *sparse_delta,
                                     const tutti_call_options *call_options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, variable, sparse_delta);
    if (scatter < TUTTI_SCATTER_ADD || scatter > TUTTI_SCATTER_DIV) {
      return InvalidArgument("{}: {} is no sparse update; expected TUTTI_SCATTER_ADD (1) to "
                             "TUTTI_SCATTER_DIV (7)",
                             call.function, scatter);
    }
    Variable &object = *FromHandle(variable);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadVariableCall(call, object, call_options));
    const auto op = static_cast<ScatterOp>(scatter);
    TUTTI_ASSIGN_OR_RETURN(const IndexedSlices slices,
                           ReadIndexedSlices(*FromHandle(sparse_delta), ScatterOpName(op)));
    return object.Scatter(op, FromHandle(context), slices, wait);
  });
}

const char *tutti_variable_get_name(const tutti_variable *variable) {
  return variable == nullptr ? "" : FromHandle(variable)->name().c_str();
}

tutti_dtype tutti_variable_get_dtype(const tutti_variable *variable) {
  return variable == nullptr ? TUTTI_DTYPE_INVALID
                             : static_cast<tutti_dtype>(FromHandle(variable)->dtype());
}

size_t tutti_variable_get_rank(const tutti_variable *variable) {
  if (variable == nullptr) return 0;
  const PartialShape &shape = FromHandle(variable)->shape();
  return shape.has_rank() ? shape.rank() : static_cast<size_t>(TUTTI_UNKNOWN_RANK);
}

const int64_t *tutti_variable_get_dims(const tutti_variable *variable) {
  if (variable == nullptr || FromHandle(variable)->shape().rank() == 0) return nullptr;
  return FromHandle(variable)->shape().dims().data();
}

tutti_synchronization tutti_variable_get_synchronization(const tutti_variable *variable) {
  if (variable == nullptr) return 0;
  return static_cast<tutti_synchronization>(FromHandle(variable)->synchronization());
}

tutti_aggregation tutti_variable_get_aggregation(const tutti_variable *variable) {
  return variable == nullptr ? 0
                             : static_cast<tutti_aggregation>(FromHandle(variable)->aggregation());
}

int32_t tutti_variable_is_trainable(const tutti_variable *variable) {
  return variable != nullptr && FromHandle(variable)->trainable();
}

tutti_distribution tutti_variable_get_distribution(const tutti_variable *variable) {
  return variable == nullptr
             ? 0
             : static_cast<tutti_distribution>(FromHandle(variable)->distribution());
}

tutti_strategy *tutti_variable_get_strategy(const tutti_variable *variable) {
  return variable == nullptr ? nullptr : ToHandle(FromHandle(variable)->strategy().get());
}

size_t tutti_variable_get_copy_count(const tutti_variable *variable) {
  return variable == nullptr ? 0 : FromHandle(variable)->num_copies();
}

const tutti_tensor *tutti_variable_get_copy(const tutti_variable *variable, size_t copy) {
  if (copy >= tutti_variable_get_copy_count(variable)) return nullptr;
  if (FromHandle(variable)->moves()) return nullptr;
  return ToHandle(&FromHandle(variable)->copy(copy));
}

const char *tutti_variable_get_copy_name(const tutti_variable *variable, size_t copy) {
  if (copy >= tutti_variable_get_copy_count(variable)) return nullptr;
  return FromHandle(variable)->copy_name(copy).c_str();
}

const char *tutti_variable_get_copy_device(const tutti_variable *variable, size_t copy) {
  if (copy >= tutti_variable_get_copy_count(variable)) return nullptr;
  return FromHandle(variable)->copy_device(copy).c_str();
}

tutti_status *tutti_variable_to_string(const tutti_variable *variable, tutti_bytes **out_text) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, variable, out_text);
    *out_text = GiveBytes(FromHandle(variable)->ToString());
    return OkStatus();
  });
}

void tutti_variable_retain(const tutti_variable *variable) { RetainHandle(variable); }
void tutti_variable_release(const tutti_variable *variable) { ReleaseHandle(variable); }
