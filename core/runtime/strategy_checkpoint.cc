#include "core/runtime/strategy_checkpoint.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/held_tensor.h"
#include "core/checkpoint/opaque_state.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/communicator_team.h"
#include "core/dataset/exec/iterator.h"
#include "core/runtime/runtime.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/variable.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

template <class T>
Status AddState(Checkpoint& checkpoint, std::string_view name, Ref<T> object) {
  const Ref<OpaqueState> state = OpaqueState::Of(std::move(object));
  return checkpoint.Add(name, state.get(), state, Checkpoint::Part::kPerWorker);
}

}  // namespace

Ref<Checkpoint> MakeStrategyCheckpoint(Ref<Strategy> strategy, const Runtime* runtime) {
  Ref<Environment> environment = Ref<Environment>::Retain(&strategy->environment());
  CheckpointTeam team;
  if (strategy->team_channel() == nullptr && runtime != nullptr) {
    // The checkpoint's environment is that runtime.
    team.may_write = [runtime]() -> Status {
      const std::string place = runtime->PlaceInJob();
      if (place.empty()) return OkStatus();
      return FailedPrecondition(
          "checkpoint: this process is {}, and would save as if it were alone: the workers would "
          "overwrite each other's files; give the checkpoint the communicator or the cluster of "
          "the job, or a strategy over its workers. One that this worker keeps for itself takes a "
          "communicator of its own (split) and a directory of its own",
          place);
    };
  }
  if (strategy->team_channel() != nullptr) {
    team.worker = strategy->worker();
    team.num_workers = strategy->num_workers();
    team.exchange = [strategy = std::move(strategy)](
                        std::string_view key, std::string bytes,
                        const CallOptions& call) -> Result<std::vector<std::string>> {
      TeamChannel& channel = *strategy->team_channel();
      TUTTI_RETURN_IF_ERROR(channel.Renew(call));
      return channel.Exchange(TeamLabel{key}, OkStatus(), std::move(bytes), call);
    };
  }
  return Checkpoint::Create(std::move(environment), std::move(team));
}

Ref<Checkpoint> MakeCommunicatorCheckpoint(Ref<Communicator> communicator) {
  Ref<Environment> environment = Ref<Environment>::Retain(&communicator->environment());
  CheckpointTeam team;
  team.worker = communicator->rank();
  team.num_workers = communicator->size();
  team.exchange = [communicator = std::move(communicator)](
                      std::string_view key, std::string bytes,
                      const CallOptions& call) -> Result<std::vector<std::string>> {
    return ExchangeTexts(*communicator, key, std::move(bytes), call);
  };
  return Checkpoint::Create(std::move(environment), std::move(team));
}

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Variable> variable) {
  return checkpoint.Add(name, variable.get(), variable, Checkpoint::Part::kShared);
}

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name,
                       Ref<DistributedIterator> iterator) {
  const Ref<OpaqueState> state = MakeRef<OpaqueState>(
      [iterator](const CallOptions& call) { return iterator->SaveForCheckpoint(call); },
      [iterator](std::string_view position, const CallOptions& call) {
        return iterator->Restore(position, call);
      });
  return checkpoint.Add(name, state.get(), state, Checkpoint::Part::kPerWorker);
}

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Iterator> iterator) {
  return AddState(checkpoint, name, std::move(iterator));
}

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Tensor> tensor) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<HeldTensor> held, HeldTensor::Create(std::move(tensor)));
  return checkpoint.Add(name, held.get(), held, Checkpoint::Part::kShared);
}

}  // namespace tutti
