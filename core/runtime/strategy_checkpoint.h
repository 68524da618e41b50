// The checkpoint of a strategy: its variables and iterators as objects of core/checkpoint, and its
// workers as the team that writes together.
//
//   Ref<Checkpoint> checkpoint = MakeStrategyCheckpoint(strategy);
//   TUTTI_RETURN_IF_ERROR(AddToCheckpoint(*checkpoint, "weights", weights));   // a Variable
//   TUTTI_RETURN_IF_ERROR(AddToCheckpoint(*checkpoint, "steps", steps));       // an iterator
//
// Variables are the same on all workers; each worker has an iterator of its own.
#ifndef TUTTI_CORE_RUNTIME_STRATEGY_CHECKPOINT_H_
#define TUTTI_CORE_RUNTIME_STRATEGY_CHECKPOINT_H_

#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class Checkpoint;
class Communicator;
class DistributedIterator;
class Iterator;
class Runtime;
class Strategy;
class Tensor;
class Variable;

// Saving and restoring it is collective when the strategy spans several workers. With a strategy of
// this process alone it is not saved where `runtime`, which may be null and outlives it otherwise,
// is one of the workers of a job (FAILED_PRECONDITION): all would write the same files.
Ref<Checkpoint> MakeStrategyCheckpoint(Ref<Strategy> strategy, const Runtime* runtime = nullptr);
// The ranks of a communicator save and restore it together. Every call is one of the communicator,
// which must be free.
Ref<Checkpoint> MakeCommunicatorCheckpoint(Ref<Communicator> communicator);

// ALREADY_EXISTS for a name that is taken.
Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Variable> variable);
Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name,
                       Ref<DistributedIterator> iterator);
Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Iterator> iterator);
// Its memory, which the host alone writes to; equal on all workers. INVALID_ARGUMENT for a tensor
// that a restore could not write to.
Status AddToCheckpoint(Checkpoint& checkpoint, std::string_view name, Ref<Tensor> tensor);

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_STRATEGY_CHECKPOINT_H_
