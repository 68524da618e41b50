#include "core/runtime/strategy_checkpoint.h"

#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/held_tensor.h"
#include "core/checkpoint/opaque_state.h"
#include "core/dataset/exec/iterator.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/variable.h"

namespace tutti {
namespace {

template <class T>
Status AddState(Checkpoint& checkpoint, std::string_view name, Ref<T> object) {
  const Ref<OpaqueState> state = OpaqueState::Of(std::move(object));
  return checkpoint.Add(name, state.get(), state, Checkpoint::Part::kPerWorker);
}

}  // namespace

Ref<Checkpoint> MakeStrategyCheckpoint(Ref<Strategy> strategy) {
  Ref<Environment> environment = Ref<Environment>::Retain(&strategy->environment());
  CheckpointTeam team;
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

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Variable> variable) {
  return checkpoint.Add(name, variable.get(), variable, Checkpoint::Part::kShared);
}

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name,
                       Ref<DistributedIterator> iterator) {
  return AddState(checkpoint, name, std::move(iterator));
}

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Iterator> iterator) {
  return AddState(checkpoint, name, std::move(iterator));
}

Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Tensor> tensor) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<HeldTensor> held, HeldTensor::Create(std::move(tensor)));
  return checkpoint.Add(name, held.get(), held, Checkpoint::Part::kShared);
}

}  // namespace tutti
