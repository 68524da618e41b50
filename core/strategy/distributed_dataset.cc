#include "core/strategy/distributed_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/shard/auto_shard.h"
#include "core/function/function.h"
#include "core/strategy/input_agreement.h"
#include "core/strategy/rebatch.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/team_channel.h"

namespace tutti {

namespace {

constexpr const char* kDistribute = "distribute_dataset";
constexpr const char* kFromFunction = "distribute_datasets_from_function";

const char* PolicyName(AutoShardPolicy policy) {
  switch (policy) {
    case AutoShardPolicy::kOff:
      return "OFF";
    case AutoShardPolicy::kAuto:
      return "AUTO";
    case AutoShardPolicy::kFile:
      return "FILE";
    case AutoShardPolicy::kData:
      return "DATA";
    case AutoShardPolicy::kHint:
      return "HINT";
  }
  return "invalid";
}

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Status CheckInputOptions(const Strategy& strategy, const InputOptions& options, const char* what) {
  if (options.rebatch != Rebatch::kCeil && options.rebatch != Rebatch::kEven) {
    return InvalidArgument("{}: {} is no kind of rebatch; choose CEIL or EVEN", what,
                           static_cast<int32_t>(options.rebatch));
  }
  if (options.replication == InputReplication::kPerWorker) {
    if (!options.place_dataset_on_device) return OkStatus();
    return InvalidArgument(
        "{}: place_dataset_on_device needs the replication mode PER_REPLICA, and this one is "
        "PER_WORKER; leave it out, and the dataset stays on the host",
        what);
  }
  if (std::string_view(strategy.type_name()) != "MirroredStrategy" ||
      std::string_view(what) != kFromFunction) {
    return Unimplemented(
        "{}: {} has no input pipeline for each replica; PER_REPLICA is for "
        "distribute_datasets_from_function of a MirroredStrategy, elsewhere use PER_WORKER, whose "
        "pipeline feeds all replicas of the worker",
        what, strategy.name());
  }
  if (options.place_dataset_on_device && options.prefetch_to_device) {
    return InvalidArgument(
        "{}: a dataset that is placed on its device is not prefetched to it; with "
        "place_dataset_on_device set prefetch_to_device to false",
        what);
  }
  return OkStatus();
}

// The rows of every batch but perhaps the last, as far as the definition tells.
std::optional<int64_t> BatchSizeOf(const Node& node) {
  if (node.op().passes_elements) return BatchSizeOf(node.input());
  if (node.op().row_ratio != RowRatio::kManyToOne) return std::nullopt;
  const int64_t* size = node.attributes().Get<int64_t>("batch_size");
  return size == nullptr ? std::nullopt : std::optional<int64_t>(*size);
}

// The rows of every batch; unknown where a shorter one can come.
int64_t FixedRows(const ElementSpec& spec) {
  for (const LeafSpec& leaf : spec.leaves()) {
    if (leaf.shape.has_rank() && leaf.shape.rank() > 0) return leaf.shape.dim(0);
  }
  return PartialShape::kUnknownDim;
}

bool HasFixedRows(const ElementSpec& spec) { return FixedRows(spec) != PartialShape::kUnknownDim; }

Result<StepPlan> MakePlan(const Strategy& strategy, AutoShardPolicy policy, const Dataset& source,
                          const ElementSpec* spec, Rebatch rebatch) {
  StepPlan plan;
  plan.cut = rebatch == Rebatch::kEven ? StepPlan::Cut::kEven : StepPlan::Cut::kCeil;
  plan.num_replicas = strategy.num_local_replicas();
  plan.num_slices = static_cast<size_t>(strategy.num_replicas_in_sync());
  const bool shares = policy == AutoShardPolicy::kData;
  plan.num_blocks = shares ? 1 : static_cast<size_t>(strategy.num_workers());
  if (shares || plan.cut == StepPlan::Cut::kEven) {
    plan.first_block = static_cast<size_t>(strategy.worker());
  }
  if (plan.cut == StepPlan::Cut::kEven) {
    std::optional<int64_t> size = BatchSizeOf(source.node());
    if (!size && spec != nullptr && HasFixedRows(*spec) && PromisesSpec(source.node())) {
      size = FixedRows(*spec);
    }
    if (!size) {
      return InvalidArgument(
          "{}: the rebatch EVEN needs a batch size that is known beforehand, and that of {} is "
          "not; "
          "call batch last, with drop_remainder=true where a map stands behind it, or choose CEIL",
          kDistribute, source.node().label());
    }
    plan.sizes = EvenSizes(*size, plan.num_slices);
  }
  return plan;
}

// The steps that one worker's batches make; `part`: of those that it keeps.
int64_t StepsOf(const StepPlan& plan, const Dataset& source, const ElementSpec* spec,
                const std::optional<SourcePart>& part = {}) {
  int64_t elements = source.cardinality();
  if (part && elements >= 0) {
    elements = CeilDiv(std::max<int64_t>(elements - part->before, 0), part->stride);
  }
  if (elements < 0) return elements;  // infinite, unknown
  if (plan.cut == StepPlan::Cut::kNone) {
    return CeilDiv(elements, static_cast<int64_t>(plan.num_replicas));
  }
  const bool rows_are_known = spec != nullptr && HasFixedRows(*spec);
  if (plan.cut == StepPlan::Cut::kEven && !rows_are_known) return kUnknownCardinality;
  return elements * static_cast<int64_t>(plan.num_blocks);
}

// The steps until the longer one of two replicas' sources ends.
int64_t LongerSource(int64_t a, int64_t b) {
  if (a == kInfiniteCardinality || b == kInfiniteCardinality) return kInfiniteCardinality;
  if (a == kUnknownCardinality || b == kUnknownCardinality) return kUnknownCardinality;
  return std::max(a, b);
}

Ref<const ElementSpec> StepSpec(const Ref<const ElementSpec>& part, size_t num_replicas) {
  if (num_replicas == 1) return part;
  std::vector<LeafSpec> leaves;
  for (const LeafSpec& leaf : part->leaves()) {
    const std::vector<Ref<const ElementSpec>> components(num_replicas, ElementSpec::OfLeaf(leaf));
    LeafSpec distributed;
    distributed.kind = LeafKind::kDistributed;
    distributed.inner = ElementSpec::Tuple(components);
    leaves.push_back(std::move(distributed));
  }
  return part->WithLeaves(std::move(leaves));
}

}  // namespace

DistributedDataset::DistributedDataset(Ref<Strategy> strategy, InputOptions options, Parts parts,
                                       Ref<const Dataset> dataset, Ref<Function> fn)
    : strategy_(std::move(strategy)),
      dataset_(std::move(dataset)),
      fn_(std::move(fn)),
      sources_(std::move(parts.sources)),
      shared_part_(std::move(parts.shared_part)),
      options_(options),
      plan_(std::move(parts.plan)),
      policy_(parts.policy),
      explanation_(std::move(parts.explanation)),
      whole_steps_(parts.whole_steps),
      cardinality_(parts.cardinality),
      element_spec_(std::move(parts.element_spec)),
      step_spec_(StepSpec(element_spec_, strategy_->num_local_replicas())) {}

DistributedDataset::~DistributedDataset() = default;

size_t DistributedDataset::steps_ahead() const {
  if (options_.steps_ahead) return *options_.steps_ahead;
  // Each replica's own pipeline has its own buffer, if any.
  if (options_.replication == InputReplication::kPerReplica) return 0;
  return options_.prefetch_to_device && plan_.cut != StepPlan::Cut::kNone ? 2 : 1;
}

// ---- Agreement between workers. ----

Status DistributedDataset::Agree(const Strategy& strategy, const char* what, Result<Parts>* parts,
                                 const CallOptions& call) {
  TeamChannel* team = strategy.team_channel();
  if (team == nullptr) return parts->status();
  InputFacts facts;
  facts.status = parts->status();
  if (parts->ok()) {
    const Parts& mine = parts->value();
    facts.plan = Format(
        "sharded by {}, {} workers of {} replicas, rebatch {} of {}", PolicyName(mine.policy),
        strategy.num_workers(), strategy.num_local_replicas(), static_cast<int>(mine.plan.cut),
        mine.plan.sizes.empty() ? -1 : [&] {
          int64_t rows = 0;
          for (const int64_t size : mine.plan.sizes) rows += size;
          return rows;
        }());
    facts.needs_seed = mine.needs_seed;
    facts.seed = static_cast<int64_t>(strategy.environment().DrawSeed());
    facts.steps = mine.cardinality;
    facts.whole_steps = mine.whole_steps;
    facts.spec = mine.element_spec;
  }
  TUTTI_ASSIGN_OR_RETURN(AgreedInput agreed, AgreeOnInput(*team, what, facts, call));
  Parts& mine = parts->value();
  mine.cardinality = agreed.steps;
  mine.whole_steps = agreed.whole_steps;
  mine.element_spec = std::move(agreed.spec);
  if (agreed.needs_seed) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> seeded, WithSeed(*mine.sources[0], agreed.seed));
    mine.sources[0] = std::move(seeded);
  }
  return OkStatus();
}

// ---- From a dataset. ----

namespace {

// One step takes an element for each replica of this process, which is what slack goes by.
Ref<const Dataset> WithSlackPeriod(Ref<const Dataset> dataset, const Strategy& strategy) {
  DatasetOptions options = dataset->options();
  if (!options.slack() || options.num_devices() != 0) return dataset;
  const Status set = options.SetInt("experimental_distribute.num_devices",
                                    static_cast<int64_t>(strategy.num_local_replicas()));
  return set.ok() ? Ref<const Dataset>(dataset->ReplaceOptions(options)) : dataset;
}

}  // namespace

Result<DistributedDataset::Parts> DistributedDataset::Divide(const Strategy& strategy,
                                                             const Dataset& dataset,
                                                             const InputOptions& options,
                                                             const CallOptions& call) {
  Parts parts;
  if (strategy.team_channel() == nullptr) {
    parts.sources.push_back(Ref<const Dataset>::Retain(&dataset));
  } else {
    TUTTI_ASSIGN_OR_RETURN(ShardedDataset shard,
                           AutoShard(dataset, dataset.options().auto_shard_policy(),
                                     strategy.num_workers(), strategy.worker(), call,
                                     dataset.options().share_files() ? TooFewFiles::kShare
                                                                     : TooFewFiles::kError));
    parts.sources.push_back(std::move(shard.dataset));
    parts.policy = shard.policy;
    parts.explanation = std::move(shard.explanation);
    if (parts.policy == AutoShardPolicy::kData) {
      // Which slices are whose is this room's decision.
      parts.explanation = "every worker reads everything and keeps its slices of each batch" +
                          parts.explanation.substr(std::min(parts.explanation.size(),
                                                            parts.explanation.find(", because")));
    }
    parts.needs_seed = shard.needs_agreed_seed;
    if (shard.num_parts != 0) {
      SourcePart& part = parts.shared_part.emplace();
      part.origin = {parts.policy, shard.num_parts, shard.part,
                     static_cast<int64_t>(strategy.num_local_replicas())};
      part.before = shard.before;
      part.stride = shard.stride;
    }
  }
  parts.sources[0] = WithSlackPeriod(std::move(parts.sources[0]), strategy);
  const Dataset& source = *parts.sources[0];
  Result<Ref<const ElementSpec>> spec = source.GetElementSpec(call);
  // A worker without an element hears from the others what elements are like.
  const bool has_no_element = strategy.team_channel() != nullptr && !spec.ok() &&
                              spec.status().code() == StatusCode::kFailedPrecondition;
  if (!spec.ok() && !has_no_element) return std::move(spec).status();
  const ElementSpec* batch = spec.ok() ? spec->get() : nullptr;
  if (batch != nullptr) TUTTI_RETURN_IF_ERROR(CheckBatchSpec(*batch, kDistribute));
  TUTTI_ASSIGN_OR_RETURN(parts.plan,
                         MakePlan(strategy, parts.policy, source, batch, options.rebatch));
  parts.cardinality = StepsOf(parts.plan, source, batch, parts.shared_part);
  if (batch != nullptr) {
    parts.element_spec = SliceSpec(*batch, parts.plan.num_slices);
    const bool cuts_batches = parts.plan.sizes.empty() || [&] {
      int64_t rows = 0;
      for (const int64_t size : parts.plan.sizes) rows += size;
      return rows == FixedRows(*batch);
    }();
    if (!cuts_batches) parts.element_spec = AnyRowsSpec(*parts.element_spec);
    parts.whole_steps = parts.cardinality != kUnknownCardinality && !parts.shared_part &&
                        HasFixedRows(*parts.element_spec) && PromisesSpec(source.node());
  }
  return parts;
}

Result<Ref<DistributedDataset>> DistributedDataset::Create(Ref<Strategy> strategy,
                                                           const Dataset& dataset,
                                                           const InputOptions& options,
                                                           const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kDistribute));
  TUTTI_RETURN_IF_ERROR(strategy->CheckOpen(kDistribute));
  TUTTI_RETURN_IF_ERROR(CheckInputOptions(*strategy, options, kDistribute));
  if (TeamChannel* team = strategy->team_channel()) TUTTI_RETURN_IF_ERROR(team->Renew(call));
  Result<Parts> parts = Divide(*strategy, dataset, options, call);
  TUTTI_RETURN_IF_ERROR(Agree(*strategy, kDistribute, &parts, call));
  return MakeRef<DistributedDataset>(std::move(strategy), options, std::move(parts).value(),
                                     Ref<const Dataset>::Retain(&dataset), nullptr);
}

// ---- From a function. ----

namespace {

// The dataset of one input pipeline.
Result<Ref<const Dataset>> CallInputFunction(Strategy& strategy, Function& fn, int64_t pipeline,
                                             int64_t num_pipelines, int64_t num_replicas,
                                             const CallOptions& call) {
  const auto number = [](int64_t value) { return Value::OfTensor(Tensor::Scalar<int64_t>(value)); };
  TUTTI_ASSIGN_OR_RETURN(
      const Ref<Value> in,
      Value::Dict({{"input_pipeline_id", number(pipeline)},
                   {"num_input_pipelines", number(num_pipelines)},
                   {"num_replicas_in_sync", number(num_replicas)}}));
  Ref<Value> out;
  {
    CrossReplicaContext context(strategy, call);
    CallbackScope scope(CallbackClass::kCrossReplica);
    TUTTI_RETURN_IF_ERROR(fn.Call(context, *in, &out));
  }
  if (!out->is_leaf() || out->leaf().kind() != LeafKind::kDataset) {
    return InvalidArgument("{}: the function must return a dataset, it returned {}", kFromFunction,
                           out->ToString());
  }
  return Ref<const Dataset>::Retain(out->leaf().object_as<Dataset>());
}

}  // namespace

Result<DistributedDataset::Parts> DistributedDataset::CallFunction(Strategy& strategy, Function& fn,
                                                                   const InputOptions& options,
                                                                   const CallOptions& call) {
  Parts parts;
  parts.plan.num_replicas = strategy.num_local_replicas();
  const bool per_replica = options.replication == InputReplication::kPerReplica;
  const size_t num_sources = per_replica ? strategy.num_local_replicas() : 1;
  bool ends_even = true;  // all replicas' data ends with the same step
  bool promises = true;
  for (size_t i = 0; i < num_sources; ++i) {
    const int64_t pipeline = per_replica ? static_cast<int64_t>(i) : strategy.worker();
    TUTTI_ASSIGN_OR_RETURN(
        Ref<const Dataset> source,
        CallInputFunction(strategy, fn, pipeline,
                          per_replica ? static_cast<int64_t>(num_sources) : strategy.num_workers(),
                          strategy.num_replicas_in_sync(), call));
    Result<Ref<const ElementSpec>> spec = source->GetElementSpec(call);
    const bool has_no_element = strategy.team_channel() != nullptr && !spec.ok() &&
                                spec.status().code() == StatusCode::kFailedPrecondition;
    if (!spec.ok() && !has_no_element) return std::move(spec).status();
    if (parts.element_spec) {
      spec = parts.element_spec->Relax(
          **spec, Format("{}: the dataset of replica {} beside those before", kFromFunction, i));
      TUTTI_RETURN_IF_ERROR(spec.status());
    }
    if (spec.ok()) parts.element_spec = std::move(spec).value();
    promises = promises && PromisesSpec(source->node());
    const int64_t elements = source->cardinality();
    if (per_replica) {
      if (!options.place_dataset_on_device) {
        // With a thread of its own, so that the replicas' elements are made at the same time.
        TUTTI_ASSIGN_OR_RETURN(source, source->Prefetch(1));
      }
      ends_even = ends_even && elements != kUnknownCardinality &&
                  (i == 0 || elements == parts.cardinality);
      parts.cardinality = i == 0 ? elements : LongerSource(parts.cardinality, elements);
    } else {
      ends_even = elements == kInfiniteCardinality ||
                  (elements >= 0 && elements % static_cast<int64_t>(parts.plan.num_replicas) == 0);
      parts.cardinality = StepsOf(parts.plan, *source, parts.element_spec.get());
    }
    parts.sources.push_back(std::move(source));
  }
  if (!ends_even && parts.element_spec) parts.element_spec = AnyRowsSpec(*parts.element_spec);
  parts.whole_steps = ends_even && promises;
  return parts;
}

Result<Ref<DistributedDataset>> DistributedDataset::CreateFromFunction(Ref<Strategy> strategy,
                                                                       Function& fn,
                                                                       const InputOptions& options,
                                                                       const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kFromFunction));
  TUTTI_RETURN_IF_ERROR(strategy->CheckOpen(kFromFunction));
  TUTTI_RETURN_IF_ERROR(CheckInputOptions(*strategy, options, kFromFunction));
  if (TeamChannel* team = strategy->team_channel()) TUTTI_RETURN_IF_ERROR(team->Renew(call));
  Result<Parts> parts = CallFunction(*strategy, fn, options, call);
  TUTTI_RETURN_IF_ERROR(Agree(*strategy, kFromFunction, &parts, call));
  return MakeRef<DistributedDataset>(std::move(strategy), options, std::move(parts).value(),
                                     nullptr, Ref<Function>::Retain(&fn));
}

// ---- Parts of other workers. ----

Result<Ref<const Dataset>> DistributedDataset::PartOf(const PartOrigin& origin,
                                                      const CallOptions& call) const {
  if (fn_) {
    int64_t num_replicas = 0;
    if (__builtin_mul_overflow(origin.num_workers, origin.num_replicas, &num_replicas)) {
      return InvalidArgument("restore: the position is one of {} workers with {} replicas each",
                             origin.num_workers, origin.num_replicas);
    }
    return CallInputFunction(*strategy_, *fn_, origin.worker, origin.num_workers, num_replicas,
                             call);
  }
  TUTTI_ASSIGN_OR_RETURN(ShardedDataset shard, AutoShard(*dataset_, origin.policy,
                                                         origin.num_workers, origin.worker, call));
  return Ref<const Dataset>(std::move(shard.dataset));
}

Status DistributedDataset::CheckElastic() const {
  constexpr const char* kWhat = "a joint position";
  if (options_.replication == InputReplication::kPerReplica) {
    return FailedPrecondition(
        "{}: each replica has an input pipeline of its own (PER_REPLICA), and another number of "
        "replicas could not go on from it; use PER_WORKER, or save a position of this worker",
        kWhat);
  }
  if (!fn_ && policy_ == AutoShardPolicy::kOff && strategy_->num_workers() > 1) {
    return FailedPrecondition(
        "{}: all {} workers read all of the data (auto-shard policy OFF), so that no element is "
        "one worker's; choose FILE, DATA or HINT, or let each worker save its own position",
        kWhat, strategy_->num_workers());
  }
  const Dataset& source = *sources_[0];
  for (const Node* node : InputsFirst(source.node())) {
    if (node->op().row_ratio == RowRatio::kSource &&
        node->op().determinism == Determinism::kHost) {
      return FailedPrecondition(
          "{}: {} calls the program for its elements, which no position finds again elsewhere; "
          "write the data into files, or let each worker save its own position",
          kWhat, node->label());
    }
    if (node->op().FindAttribute("deterministic") == nullptr ||
        node->attributes().Bool("deterministic", source.options().deterministic()) ||
        node->attributes().Int("num_parallel_calls") == 0) {
      continue;
    }
    return FailedPrecondition(
        "{}: the order of {} is another one each time (deterministic is false), so that workers "
        "which share what is left of it would lose elements; set deterministic to true, or let "
        "each worker save its own position",
        kWhat, node->label());
  }
  return OkStatus();
}

std::string DistributedDataset::Explain() const {
  std::string text =
      Format("distributed over {} replicas of {} workers; {}\n", strategy_->num_replicas_in_sync(),
             strategy_->num_workers(), plan_.ToString());
  if (strategy_->num_workers() > 1) {
    text += Format("sharding policy {}{}{}\n", PolicyName(policy_),
                   explanation_.empty() ? "" : ": ", explanation_);
    text += whole_steps_
                ? "steps: equally many and whole on all workers, nothing is exchanged\n"
                : "steps: the workers exchange in each how many replicas have data, and the rows\n";
  }
  if (options_.replication == InputReplication::kPerReplica) {
    text += Format("{} input pipelines, one for each replica; that of replica 0 follows\n",
                   sources_.size());
  }
  return text + Format("each replica: {}\n", element_spec_->ToString()) + sources_[0]->Explain();
}

RunReport DistributedDataset::ExplainRun() const {
  std::vector<std::pair<std::string, RunReport>> runs;
  for (const Ref<const Dataset>& source : sources_) {
    runs.emplace_back(Format("pipeline {}", runs.size()), source->ExplainRun());
  }
  return RunReport::Sum(std::move(runs));
}

}  // namespace tutti
