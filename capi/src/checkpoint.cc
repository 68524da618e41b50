// Checkpoints and their managers.
#include "core/checkpoint/checkpoint.h"

#include <tutti/checkpoint.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/checkpoint/checkpoint_manager.h"
#include "core/collective/communicator/communicator.h"
#include "core/dataset/exec/iterator.h"
#include "core/runtime/strategy_checkpoint.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/strategy.h"
#include "core/strategy/variable.h"
#include "core/tensor/value.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

// The object of a handle under a name.
template <class Handle>
Status Add(tutti_checkpoint *checkpoint, const char *name, Handle *object) {
  auto *core = FromHandle(object);
  return AddToCheckpoint(*FromHandle(checkpoint), name,
                         Ref<std::remove_pointer_t<decltype(core)>>::Retain(core));
}

Result<CallOptions> ReadCallOn(Call call, const tutti_checkpoint *checkpoint,
                               const tutti_call_options *options) {
  return ReadCall(call, FromHandle(checkpoint)->environment(), options);
}

}  // namespace

tutti_status *tutti_checkpoint_create(tutti_strategy *strategy, tutti_checkpoint **out_checkpoint) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, out_checkpoint);
    Strategy *const object = FromHandle(strategy);
    TUTTI_RETURN_IF_ERROR(object->environment().CheckUsable(call.function));
    *out_checkpoint = Give(MakeStrategyCheckpoint(Ref<Strategy>::Retain(object),
                                                  &Runtime::Of(object->environment())));
    return OkStatus();
  });
}

tutti_status *tutti_checkpoint_create_for_communicator(tutti_communicator *communicator,
                                                       tutti_checkpoint **out_checkpoint) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_checkpoint);
    Communicator *const object = FromHandle(communicator);
    TUTTI_RETURN_IF_ERROR(object->environment().CheckUsable(call.function));
    *out_checkpoint = Give(MakeCommunicatorCheckpoint(Ref<Communicator>::Retain(object)));
    return OkStatus();
  });
}

tutti_status *tutti_checkpoint_add_variable(tutti_checkpoint *checkpoint, const char *name,
                                            tutti_variable *variable) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, name, variable);
    return Add(checkpoint, name, variable);
  });
}

tutti_status *tutti_checkpoint_add_distributed_iterator(tutti_checkpoint *checkpoint,
                                                        const char *name,
                                                        tutti_distributed_iterator *iterator) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, name, iterator);
    return Add(checkpoint, name, iterator);
  });
}

tutti_status *tutti_checkpoint_add_iterator(tutti_checkpoint *checkpoint, const char *name,
                                            tutti_iterator *iterator) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, name, iterator);
    return Add(checkpoint, name, iterator);
  });
}

tutti_status *tutti_checkpoint_add_tensor(tutti_checkpoint *checkpoint, const char *name,
                                          tutti_tensor *tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, name, tensor);
    return Add(checkpoint, name, tensor);
  });
}

tutti_status *tutti_checkpoint_save(tutti_checkpoint *checkpoint, const char *prefix, int64_t step,
                                    const tutti_call_options *call_options) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, prefix);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCallOn(call, checkpoint, call_options));
    return FromHandle(checkpoint)->Save(prefix, step, wait).status();
  });
}

tutti_status *tutti_checkpoint_restore(tutti_checkpoint *checkpoint, const char *prefix,
                                       const tutti_call_options *call_options, int64_t *out_step) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, prefix);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCallOn(call, checkpoint, call_options));
    TUTTI_ASSIGN_OR_RETURN(const Manifest manifest, FromHandle(checkpoint)->Restore(prefix, wait));
    if (out_step != nullptr) *out_step = manifest.step;
    return OkStatus();
  });
}

tutti_status *tutti_checkpoint_write(tutti_checkpoint *checkpoint, const char *path,
                                     const tutti_call_options *call_options) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, path);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCallOn(call, checkpoint, call_options));
    return FromHandle(checkpoint)->WriteFile(path, wait);
  });
}

tutti_status *tutti_checkpoint_read(tutti_checkpoint *checkpoint, const char *path,
                                    const tutti_call_options *call_options) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, path);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCallOn(call, checkpoint, call_options));
    return FromHandle(checkpoint)->ReadFile(path, wait);
  });
}

void tutti_checkpoint_retain(const tutti_checkpoint *checkpoint) { RetainHandle(checkpoint); }
void tutti_checkpoint_release(const tutti_checkpoint *checkpoint) { ReleaseHandle(checkpoint); }

tutti_status *tutti_checkpoint_manager_create(tutti_checkpoint *checkpoint, const char *directory,
                                              const tutti_checkpoint_manager_options *options,
                                              tutti_checkpoint_manager **out_manager) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, checkpoint, directory, out_manager);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    CheckpointManagerOptions manager_options;
    if (set.max_to_keep < TUTTI_KEEP_ALL) {
      return InvalidArgument("{}: the option max_to_keep is {}; expected 1 or more, or "
                             "TUTTI_KEEP_ALL (-1)",
                             call.function, set.max_to_keep);
    }
    if (set.max_to_keep != 0) {
      manager_options.max_to_keep = set.max_to_keep == TUTTI_KEEP_ALL ? 0 : set.max_to_keep;
    }
    manager_options.name = TextOr(set.name, manager_options.name);
    TUTTI_ASSIGN_OR_RETURN(
        auto manager, CheckpointManager::Create(Ref<Checkpoint>::Retain(FromHandle(checkpoint)),
                                                directory, std::move(manager_options)));
    *out_manager = Give(std::move(manager));
    return OkStatus();
  });
}

tutti_status *tutti_checkpoint_manager_save(tutti_checkpoint_manager *manager, int64_t step,
                                            const tutti_call_options *call_options,
                                            tutti_bytes **out_prefix) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, manager);
    CheckpointManager &object = *FromHandle(manager);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.checkpoint()->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(std::string prefix, object.Save(step, wait));
    if (out_prefix != nullptr) *out_prefix = GiveBytes(std::move(prefix));
    return OkStatus();
  });
}

tutti_status *tutti_checkpoint_manager_restore_latest(tutti_checkpoint_manager *manager,
                                                      const tutti_call_options *call_options,
                                                      int64_t *out_step) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, manager, out_step);
    CheckpointManager &object = *FromHandle(manager);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.checkpoint()->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(const auto restored, object.RestoreLatest(wait));
    *out_step = restored.has_value() ? restored->step : -1;
    return OkStatus();
  });
}

tutti_status *tutti_checkpoint_manager_latest(const tutti_checkpoint_manager *manager,
                                              tutti_bytes **out_prefix) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, manager, out_prefix);
    TUTTI_ASSIGN_OR_RETURN(const auto latest, FromHandle(manager)->Latest());
    *out_prefix = latest.has_value() ? GiveBytes(latest->prefix) : nullptr;
    return OkStatus();
  });
}

tutti_status *tutti_checkpoint_manager_list(const tutti_checkpoint_manager *manager,
                                            tutti_value **out_prefixes) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, manager, out_prefixes);
    TUTTI_ASSIGN_OR_RETURN(const auto all, FromHandle(manager)->List());
    std::vector<Ref<Value>> prefixes;
    for (const auto &one : all) prefixes.push_back(Value::OfString(one.prefix));
    *out_prefixes = Give(Value::List(prefixes));
    return OkStatus();
  });
}

void tutti_checkpoint_manager_retain(const tutti_checkpoint_manager *manager) {
  RetainHandle(manager);
}
void tutti_checkpoint_manager_release(const tutti_checkpoint_manager *manager) {
  ReleaseHandle(manager);
}
