// Guard: what every C function that can fail passes through.
//
//   tutti_status *tutti_tensor_copy(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
//     return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
//       TUTTI_REQUIRE(call, tensor, out_tensor);
//       TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy, FromHandle(tensor)->Copy());
//       *out_tensor = Give(std::move(copy));
//       return OkStatus();
//     });
//   }
//
// It refuses calls from a callback that may not make them (the `Context:` line of the header) and
// calls in a forked child, and no exception leaves it. Out-pointers are written last, so that they
// are untouched on failure.
#ifndef TUTTI_CAPI_SRC_GUARD_H_
#define TUTTI_CAPI_SRC_GUARD_H_

#include <tutti/abi.h>

#include <type_traits>
#include <utility>

#include "capi/src/handles.h"
#include "core/base/exception.h"
#include "core/base/status.h"

namespace tutti::capi {

// From where a function may be called; the words of the headers' `Context:` lines.
enum class From {
  kAny,           // everywhere
  kBuilding,      // everywhere but in notifications
  kComputing,     // outside callbacks, in replica and cross-replica callbacks
  kCrossReplica,  // outside callbacks and in cross-replica callbacks
  kReplica,       // in a replica callback
  kHost,          // outside callbacks
};

// The call in progress: its name, for messages.
struct Call {
  const char *function;
};

// Gives the reference to C; NULL when `status` is OK.
inline tutti_status *GiveStatus(Status status) {
  return ToHandle(const_cast<StatusRep *>(status.release()));
}

// Whether `function` may be called here and now.
Status CheckEntry(const char *function, From from);
// INVALID_ARGUMENT for the argument number `index` of the list `names` ("tensor, out_tensor").
Status NullArgument(const char *function, const char *names, int index);

template <class Body>
Status GuardedStatus(const char *function, From from, Body &&body) {
  return CatchExceptions(function, [&]() -> Status {
    TUTTI_RETURN_IF_ERROR(CheckEntry(function, from));
    return body(Call{function});
  });
}

// ABORTED with a message of the host's; without memory for it the status says so, since the abort
// itself must not be lost.
Status AbortReason(const char *function, const char *message);

template <class Body>
tutti_status *Guard(const char *function, From from, Body &&body) {
  return GiveStatus(GuardedStatus(function, from, std::forward<Body>(body)));
}

template <class... Pointers>
Status CheckNotNull(Call call, const char *names, const Pointers &...pointers) {
  int index = -1;
  int position = 0;
  ((index = index < 0 && pointers == nullptr ? position : index, ++position), ...);
  return index < 0 ? OkStatus() : NullArgument(call.function, names, index);
}

// Whether host code may read an argument: of a tensor, and of the tensors of a value, whether they
// lie in the host's memory. FAILED_PRECONDITION names the argument number `index` of `names`.
Status CheckOnHost(Call call, const char *names, int index, const tutti_tensor *tensor);
Status CheckOnHost(Call call, const char *names, int index, const tutti_value *value);
// The same of an argument that may be NULL.
template <class Handle>
Status CheckGivenOnHost(Call call, const char *name, const Handle *given) {
  return given == nullptr ? OkStatus() : CheckOnHost(call, name, 0, given);
}
template <class Pointer>
Status CheckArgument(Call call, const char *names, int index, Pointer pointer) {
  if constexpr (std::is_convertible_v<Pointer, const tutti_tensor *> ||
                std::is_convertible_v<Pointer, const tutti_value *>) {
    return CheckOnHost(call, names, index, pointer);
  }
  return OkStatus();
}

template <class... Pointers>
Status CheckReadable(Call call, const char *names, const Pointers &...pointers) {
  TUTTI_RETURN_IF_ERROR(CheckNotNull(call, names, pointers...));
  Status status;
  int index = -1;
  ((++index,
    status.ok() ? void(status = CheckArgument(call, names, index, pointers)) : void()), ...);
  return status;
}

// Returns INVALID_ARGUMENT naming function and parameter when one of the pointers is NULL, and
// FAILED_PRECONDITION when one is a tensor, or a value with one, that the host cannot read.
#define TUTTI_REQUIRE(call, ...) \
  TUTTI_RETURN_IF_ERROR(::tutti::capi::CheckReadable(call, #__VA_ARGS__, __VA_ARGS__))

// The same of functions that take tensors wherever they lie.
#define TUTTI_REQUIRE_ANYWHERE(call, ...) \
  TUTTI_RETURN_IF_ERROR(::tutti::capi::CheckNotNull(call, #__VA_ARGS__, __VA_ARGS__))

// An array may be NULL when its count is 0.
#define TUTTI_REQUIRE_ARRAY(call, count, array)                                       \
  TUTTI_RETURN_IF_ERROR((count) != 0 && (array) == nullptr                            \
                            ? ::tutti::capi::NullArgument((call).function, #array, 0) \
                            : ::tutti::OkStatus())

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_GUARD_H_
