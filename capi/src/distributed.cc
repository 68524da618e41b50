// Distributed datasets and their iterators.
#include <tutti/distributed.h>

#include <string>
#include <string_view>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/strategy/distributed_dataset.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/strategy.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<InputOptions> ReadInputOptions(Call call, const tutti_input_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  InputOptions input;
  switch (set.rebatch) {
    case TUTTI_UNSET:
    case TUTTI_REBATCH_CEIL:
      break;
    case TUTTI_REBATCH_EVEN:
      input.rebatch = Rebatch::kEven;
      break;
    default:
      return InvalidArgument(
          "{}: the option rebatch is {}; expected TUTTI_REBATCH_CEIL (1) or TUTTI_REBATCH_EVEN (2)",
          call.function, set.rebatch);
  }
  TUTTI_ASSIGN_OR_RETURN(
      input.place_dataset_on_device,
      ReadTristate(call, set.place_dataset_on_device, false, "place_dataset_on_device"));
  TUTTI_ASSIGN_OR_RETURN(input.prefetch_to_device,
                         ReadTristate(call, set.prefetch_to_device, !input.place_dataset_on_device,
                                      "prefetch_to_device"));
  if (set.replication_mode < TUTTI_UNSET || set.replication_mode > TUTTI_INPUT_PER_REPLICA) {
    return InvalidArgument(
        "{}: the option replication_mode is {}; expected TUTTI_INPUT_PER_WORKER (1) or "
        "TUTTI_INPUT_PER_REPLICA (2)",
        call.function, set.replication_mode);
  }
  if (set.replication_mode == TUTTI_INPUT_PER_REPLICA) {
    input.replication = InputReplication::kPerReplica;
  }
  return input;
}

}  // namespace

tutti_status *tutti_strategy_distribute_dataset(tutti_strategy *strategy,
                                                const tutti_dataset *dataset,
                                                const tutti_input_options *options,
                                                const tutti_call_options *call_options,
                                                tutti_distributed_dataset **out_dataset) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, dataset, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const InputOptions input, ReadInputOptions(call, options));
    auto object = Ref<Strategy>::Retain(FromHandle(strategy));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(
        auto distributed,
        DistributedDataset::Create(std::move(object), *FromHandle(dataset), input, wait));
    *out_dataset = Give(std::move(distributed));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_distribute_datasets_from_function(
    tutti_strategy *strategy, tutti_callback fn, const tutti_input_options *options,
    const tutti_call_options *call_options, tutti_distributed_dataset **out_dataset) {
  GivenCallback given(fn);
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, out_dataset);
    auto object = Ref<Strategy>::Retain(FromHandle(strategy));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Function> function,
                           given.Take(call, "fn", &object->environment().callback_executor()));
    TUTTI_ASSIGN_OR_RETURN(const InputOptions input, ReadInputOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto distributed, DistributedDataset::CreateFromFunction(
                                                 std::move(object), *function, input, wait));
    *out_dataset = Give(std::move(distributed));
    return OkStatus();
  });
}

const tutti_spec *tutti_distributed_dataset_get_element_spec(
    const tutti_distributed_dataset *dataset) {
  return dataset == nullptr ? nullptr : ToHandle(&FromHandle(dataset)->step_spec());
}

int64_t tutti_distributed_dataset_get_cardinality(const tutti_distributed_dataset *dataset) {
  return dataset == nullptr ? 0 : FromHandle(dataset)->cardinality();
}

tutti_status *tutti_distributed_dataset_explain(const tutti_distributed_dataset *dataset,
                                                tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_text);
    *out_text = GiveBytes(FromHandle(dataset)->Explain());
    return OkStatus();
  });
}

tutti_status *tutti_distributed_dataset_explain_as(const tutti_distributed_dataset *dataset,
                                                   const char *format, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, format, out_text);
    const DistributedDataset &object = *FromHandle(dataset);
    TUTTI_ASSIGN_OR_RETURN(std::string text, std::string_view(format) == "text"
                                                 ? Result<std::string>(object.Explain())
                                                 : object.ExplainRun().As(format));
    *out_text = GiveBytes(std::move(text));
    return OkStatus();
  });
}

tutti_status *tutti_distributed_iterator_explain(const tutti_distributed_iterator *iterator,
                                                 const char *format, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, format, out_text);
    TUTTI_ASSIGN_OR_RETURN(std::string text, FromHandle(iterator)->Explain().As(format));
    *out_text = GiveBytes(std::move(text));
    return OkStatus();
  });
}

void tutti_distributed_dataset_retain(const tutti_distributed_dataset *dataset) {
  RetainHandle(dataset);
}
void tutti_distributed_dataset_release(const tutti_distributed_dataset *dataset) {
  ReleaseHandle(dataset);
}

tutti_status *tutti_distributed_iterator_create(const tutti_distributed_dataset *dataset,
                                                const tutti_call_options *call_options,
                                                tutti_distributed_iterator **out_iterator) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_iterator);
    auto object = Ref<const DistributedDataset>::Retain(FromHandle(dataset));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object->strategy()->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto iterator, DistributedIterator::Create(std::move(object), wait));
    *out_iterator = Give(std::move(iterator));
    return OkStatus();
  });
}

tutti_status *tutti_distributed_iterator_next(tutti_distributed_iterator *iterator,
                                              const tutti_call_options *call_options,
                                              tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, out_value);
    DistributedIterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto step, object.Next(wait));
    *out_value = Give(std::move(step));
    return OkStatus();
  });
}

tutti_status *tutti_distributed_iterator_next_optional(tutti_distributed_iterator *iterator,
                                                       const tutti_call_options *call_options,
                                                       tutti_value **out_optional) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, out_optional);
    DistributedIterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto step, object.NextOptional(wait));
    *out_optional = Give(std::move(step));
    return OkStatus();
  });
}

const tutti_spec *tutti_distributed_iterator_get_element_spec(
    const tutti_distributed_iterator *iterator) {
  return iterator == nullptr ? nullptr : ToHandle(&FromHandle(iterator)->step_spec());
}

tutti_status *tutti_distributed_iterator_save(tutti_distributed_iterator *iterator,
                                              const tutti_call_options *call_options,
                                              tutti_bytes **out_state) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, out_state);
    DistributedIterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(std::string state, object.Save(wait));
    *out_state = GiveBytes(std::move(state));
    return OkStatus();
  });
}

tutti_status *tutti_distributed_iterator_save_joint(tutti_distributed_iterator *iterator,
                                                    const tutti_call_options *call_options,
                                                    tutti_bytes **out_state) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator, out_state);
    DistributedIterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(std::string state, object.SaveJoint(wait));
    *out_state = GiveBytes(std::move(state));
    return OkStatus();
  });
}

tutti_status *tutti_distributed_iterator_restore(tutti_distributed_iterator *iterator,
                                                 const void *state, size_t size,
                                                 const tutti_call_options *call_options) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, iterator);
    TUTTI_REQUIRE_ARRAY(call, size, state);
    DistributedIterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    return object.Restore(std::string_view(static_cast<const char *>(state), size), wait);
  });
}

tutti_status *tutti_distributed_iterator_close(tutti_distributed_iterator *iterator,
                                               const tutti_call_options *call_options) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    if (iterator == nullptr) return OkStatus();
    DistributedIterator &object = *FromHandle(iterator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCallToClose(call, object.environment(), call_options));
    return object.Close(wait);
  });
}

void tutti_distributed_iterator_retain(const tutti_distributed_iterator *iterator) {
  RetainHandle(iterator);
}
void tutti_distributed_iterator_release(const tutti_distributed_iterator *iterator) {
  ReleaseHandle(iterator);
}
