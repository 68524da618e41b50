// DistributedDataset: a dataset whose elements are dealt out to the replicas of a strategy, one
// step after the other; DistributedIterator walks over the steps.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<DistributedDataset> digits,
//                          DistributedDataset::Create(strategy, batches, {}, options));
//   TUTTI_ASSIGN_OR_RETURN(Ref<DistributedIterator> steps, DistributedIterator::Create(digits,
//   options)); while (true) {
//     TUTTI_ASSIGN_OR_RETURN(Ref<Value> batch, steps->Next(options));
//     if (!batch) break;
//     TUTTI_RETURN_IF_ERROR(strategy->Run(step, batch.get(), options).status());
//   }
//
// Create cuts every batch over the replicas (step_plan.h); CreateFromFunction deals out the
// elements of a dataset that a function makes, one per replica in turn, or has a dataset for each
// replica. When the data ends in the middle of a step, the replicas without any get batches of 0
// rows, and zeros for elements of rank 0, which CreateFromFunction may deal out. The leaves of a
// step are distributed, or, where this process has one replica, the plain ones of its part; either
// way its tensors know the rows of the whole step (distributed_value.h). What replicas get are
// views on the source's elements.
//
// Under several workers both are collective. Create gives each worker its part by the dataset's
// option auto_shard_policy (dataset/shard/auto_shard.h), and all of them fail when one cannot have
// a part.

#ifndef TUTTI_CORE_STRATEGY_DISTRIBUTED_DATASET_H_
#define TUTTI_CORE_STRATEGY_DISTRIBUTED_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/graph/run_report.h"
#include "core/function/function.h"
#include "core/strategy/step_plan.h"
#include "core/strategy/step_source.h"
#include "core/strategy/strategy.h"
#include "core/tensor/element_spec.h"

namespace tutti {

// How a batch is cut over replicas. The same numbers as TUTTI_REBATCH_*. EVEN needs a batch size
// that is known beforehand.
enum class Rebatch : int32_t { kCeil = 1, kEven = 2 };

// How many input pipelines there are. The same numbers as TUTTI_INPUT_*.
enum class InputReplication : int32_t { kPerWorker = 1, kPerReplica = 2 };

// A thread makes steps ahead, from the first Next on: the buffer of one element for each replica,
// and behind a rebatch the N slices (one step) that it adds. Replicas on GPUs get their parts there
// with prefetch_to_device of kPerWorker: copied from pinned memory while the step before runs; else
// in the host's memory, where the buffers of CPUs lie either way. Without prefetch_to_device only
// the first of the two buffers is left.
// Pipelines of kPerReplica have a buffer and a thread each, and none for datasets on their devices.
struct InputOptions {
  Rebatch rebatch = Rebatch::kCeil;
  bool prefetch_to_device = true;
  // kPerReplica, of a Mirrored strategy's CreateFromFunction only.
  InputReplication replication = InputReplication::kPerWorker;
  // Of kPerReplica without prefetch_to_device only.
  bool place_dataset_on_device = false;
  std::optional<size_t> steps_ahead;  // in the place of what the above says
};

class DistributedDataset final : public RefCounted {
 public:
  // INVALID_ARGUMENT unless every leaf of an element is a tensor of rank >= 1: call batch first.
  static Result<Ref<DistributedDataset>> Create(Ref<Strategy> strategy, const Dataset& dataset,
                                                const InputOptions& options,
                                                const CallOptions& call);
  // Calls `fn` once per input pipeline of this process, now, in cross-replica context, with the
  // dict {"input_pipeline_id", "num_input_pipelines", "num_replicas_in_sync"} of int64 scalars; it
  // gives a dataset, which is neither rebatched nor sharded.
  static Result<Ref<DistributedDataset>> CreateFromFunction(Ref<Strategy> strategy, Function& fn,
                                                            const InputOptions& options,
                                                            const CallOptions& call);

  // Of one replica's part; the first dimension is unknown where a partial batch can occur.
  const ElementSpec& element_spec() const { return *element_spec_; }
  // Of a step: of every leaf those of all replicas of this process, or, where it has one, the plain
  // leaf.
  const ElementSpec& step_spec() const { return *step_spec_; }
  // Steps, kInfiniteCardinality or kUnknownCardinality.
  int64_t cardinality() const { return cardinality_; }

  const Ref<Strategy>& strategy() const { return strategy_; }
  // One, or one for each replica of this process.
  std::span<const Ref<const Dataset>> sources() const { return sources_; }
  const InputOptions& options() const { return options_; }
  const StepPlan& plan() const { return plan_; }
  // Without an iterator: what this worker reads of sources()[0], which others read, too (the option
  // share_files, where there are fewer files than workers); none: all of it.
  const std::optional<SourcePart>& shared_part() const { return shared_part_; }
  // How many steps an iterator makes before they are asked for.
  size_t steps_ahead() const;
  // What each worker reads: never kAuto, kOff with one worker and for CreateFromFunction.
  AutoShardPolicy shard_policy() const { return policy_; }
  // Every step of every worker has data for all of its replicas, so that nothing is exchanged.
  bool whole_steps() const { return whole_steps_; }
  // How the data is divided, and why, then the ops of this worker's source.
  std::string Explain() const;
  // This worker's sources, with what the last iterators over them have done (run_report.h).
  RunReport ExplainRun() const;

  // What a worker of such a job reads, which need not be this one: calls the function again where
  // there is one.
  Result<Ref<const Dataset>> PartOf(const PartOrigin& origin, const CallOptions& call) const;
  // Whether positions in it can be gone on from by another number of workers such that every
  // element comes once: FAILED_PRECONDITION for data that all workers read whole (policy OFF), for
  // generators of the host's, whose elements no position finds again, for an order that is another
  // one each time (deterministic false), and for PER_REPLICA.
  Status CheckElastic() const;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  struct Parts {
    std::vector<Ref<const Dataset>> sources;
    std::optional<SourcePart> shared_part;
    StepPlan plan;
    AutoShardPolicy policy = AutoShardPolicy::kOff;
    std::string explanation;
    bool needs_seed = false;  // the order is drawn at random, and the workers share it
    bool whole_steps = false;
    int64_t cardinality = 0;
    Ref<const ElementSpec> element_spec;
  };
  // Of a dataset or of a function.
  DistributedDataset(Ref<Strategy> strategy, InputOptions options, Parts parts,
                     Ref<const Dataset> dataset, Ref<Function> fn);
  ~DistributedDataset() override;

  static Result<Parts> Divide(const Strategy& strategy, const Dataset& dataset,
                              const InputOptions& options, const CallOptions& call);
  static Result<Parts> CallFunction(Strategy& strategy, Function& fn, const InputOptions& options,
                                    const CallOptions& call);
  // Makes one dataset of all workers' parts; `parts` is this worker's, or why it has none.
  static Status Agree(const Strategy& strategy, const char* what, Result<Parts>* parts,
                      const CallOptions& call);

  const Ref<Strategy> strategy_;
  const Ref<const Dataset> dataset_;
  const Ref<Function> fn_;
  const std::vector<Ref<const Dataset>> sources_;
  const std::optional<SourcePart> shared_part_;
  const InputOptions options_;
  const StepPlan plan_;
  const AutoShardPolicy policy_;
  const std::string explanation_;
  const bool whole_steps_;
  const int64_t cardinality_;
  const Ref<const ElementSpec> element_spec_;
  const Ref<const ElementSpec> step_spec_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_DISTRIBUTED_DATASET_H_
