#include "capi/src/roots.h"

#include "capi/src/options.h"
#include "core/base/error.h"

namespace tutti::capi {

Result<Ref<Runtime>> UseRuntime(Call call, tutti_runtime *runtime) {
  if (runtime == nullptr) return Runtime::Default();
  Environment *environment = FromHandle(runtime);
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable(call.function));
  return Ref<Runtime>::Retain(&Runtime::Of(*environment));
}

Result<CommunicationImplementation> ReadImplementation(Call call, tutti_communication number) {
  if (number == TUTTI_UNSET) return CommunicationImplementation::kAuto;
  if (number < TUTTI_COMMUNICATION_AUTO || number > TUTTI_COMMUNICATION_TCP) {
    return InvalidArgument(
        "{}: the option implementation is {}; expected AUTO (1), RING (2), NCCL (3), "
        "SHARED_MEMORY (4) or TCP (5)",
        call.function, number);
  }
  return static_cast<CommunicationImplementation>(number - TUTTI_COMMUNICATION_AUTO);
}

Result<CallOptions> ReadCallAlways(Call call, const Clock &clock, int64_t default_timeout_ns,
                                   const tutti_call_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  CallOptions read;
  read.cancellation = FromHandle(set.cancellation);
  switch (set.timeout) {
    case 0:
      if (default_timeout_ns != kNeverNs)
        read.deadline = Deadline::After(clock, default_timeout_ns);
      return read;
    case TUTTI_TIMEOUT_NONE:
      return read;
    case TUTTI_TIMEOUT_EXPIRED:
      read.deadline = Deadline::After(clock, 0);
      return read;
  }
  if (set.timeout < 0) {
    return InvalidArgument(
               "{}: the timeout is {} ns; expected a positive number, 0 (unset), "
               "TUTTI_TIMEOUT_NONE or TUTTI_TIMEOUT_EXPIRED",
               call.function, set.timeout)
        .With("timeout_ns", set.timeout);
  }
  read.deadline = Deadline::After(clock, set.timeout);
  return read;
}

Result<CallOptions> ReadCall(Call call, const Environment &environment,
                             const tutti_call_options *options) {
  TUTTI_RETURN_IF_ERROR(environment.CheckUsable(call.function));
  return ReadCallAlways(call, environment.clock(), environment.default_timeout_ns(), options);
}

Result<CollectiveOptions> ReadCollective(Call call, const Environment &environment,
                                         const tutti_call_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCall(call, environment, options));
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  CollectiveOptions read = wait;
  if (set.communication == nullptr) return read;
  TUTTI_ASSIGN_OR_RETURN(const auto hints, ReadOptions(call, set.communication));
  read.hints.bytes_per_pack = hints.bytes_per_pack;
  TUTTI_ASSIGN_OR_RETURN(read.hints.implementation,
                         ReadImplementation(call, hints.implementation));
  TUTTI_RETURN_IF_ERROR(CheckHints(read.hints, call.function));
  return read;
}

Result<CallOptions> ReadCallToClose(Call call, const Environment &environment,
                                    const tutti_call_options *options) {
  return ReadCallAlways(call, environment.clock(), environment.default_timeout_ns(), options);
}

Ref<CallbackExecutor> DefaultCallbackExecutor() {
  const Ref<Runtime> runtime = Runtime::DefaultIfRunning();
  return runtime ? Ref<CallbackExecutor>::Retain(&runtime->callback_executor()) : nullptr;
}

}  // namespace tutti::capi
