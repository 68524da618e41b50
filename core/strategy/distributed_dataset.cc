#include "core/strategy/distributed_dataset.h"

#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/function/function.h"
#include "core/strategy/rebatch.h"
#include "core/strategy/replica_context.h"

namespace tutti {

namespace {

int64_t StepsOf(int64_t elements, int64_t elements_per_step) {
  if (elements < 0) return elements;  // infinite, unknown
  return elements / elements_per_step + (elements % elements_per_step != 0 ? 1 : 0);
}

Status CheckInputOptions(const InputOptions& options, const char* what) {
  if (options.rebatch == Rebatch::kCeil) return OkStatus();
  return InvalidArgument("{}: {} is no kind of rebatch; choose CEIL", what,
                         static_cast<int32_t>(options.rebatch));
}

}  // namespace

DistributedDataset::DistributedDataset(Ref<Strategy> strategy, Ref<const Dataset> source,
                                       InputOptions options, bool cuts_batches,
                                       Ref<const ElementSpec> element_spec)
    : strategy_(std::move(strategy)),
      source_(std::move(source)),
      options_(options),
      cuts_batches_(cuts_batches),
      elements_per_step_(cuts_batches ? 1 : static_cast<int64_t>(strategy_->num_local_replicas())),
      cardinality_(StepsOf(source_->cardinality(), elements_per_step_)),
      element_spec_(std::move(element_spec)) {}

DistributedDataset::~DistributedDataset() = default;

Result<Ref<DistributedDataset>> DistributedDataset::Create(Ref<Strategy> strategy,
                                                           const Dataset& dataset,
                                                           const InputOptions& options,
                                                           const CallOptions& call) {
  constexpr const char* kWhat = "distribute_dataset";
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kWhat));
  TUTTI_RETURN_IF_ERROR(strategy->CheckOpen(kWhat));
  TUTTI_RETURN_IF_ERROR(CheckInputOptions(options, kWhat));
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> spec, dataset.GetElementSpec(call));
  TUTTI_RETURN_IF_ERROR(CheckBatchSpec(*spec, kWhat));
  Ref<const ElementSpec> slice = SliceSpec(*spec, strategy->num_local_replicas());
  return MakeRef<DistributedDataset>(std::move(strategy), Ref<const Dataset>::Retain(&dataset),
                                     options, /*cuts_batches=*/true, std::move(slice));
}

Result<Ref<DistributedDataset>> DistributedDataset::CreateFromFunction(
    Ref<Strategy> strategy, Function& fn, const InputOptions& options, const CallOptions& call) {
  constexpr const char* kWhat = "distribute_datasets_from_function";
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kWhat));
  TUTTI_RETURN_IF_ERROR(strategy->CheckOpen(kWhat));
  TUTTI_RETURN_IF_ERROR(CheckInputOptions(options, kWhat));
  const auto number = [](int64_t value) { return Value::OfTensor(Tensor::Scalar<int64_t>(value)); };
  TUTTI_ASSIGN_OR_RETURN(
      const Ref<Value> in,
      Value::Dict({{"input_pipeline_id", number(0)},
                   {"num_input_pipelines", number(1)},
                   {"num_replicas_in_sync", number(strategy->num_replicas_in_sync())}}));
  Ref<Value> out;
  {
    CrossReplicaContext context(*strategy, call);
    CallbackScope scope(CallbackClass::kCrossReplica);
    TUTTI_RETURN_IF_ERROR(fn.Call(context, *in, &out));
  }
  if (!out->is_leaf() || out->leaf().kind() != LeafKind::kDataset) {
    return InvalidArgument("{}: the function must return a dataset, it returned {}", kWhat,
                           out->ToString());
  }
  Ref<const Dataset> dataset = Ref<const Dataset>::Retain(out->leaf().object_as<Dataset>());
  TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> spec, dataset->GetElementSpec(call));
  const int64_t elements = dataset->cardinality();
  const bool whole_steps =
      elements == kInfiniteCardinality ||
      (elements >= 0 && elements % static_cast<int64_t>(strategy->num_local_replicas()) == 0);
  if (!whole_steps) spec = AnyRowsSpec(*spec);
  return MakeRef<DistributedDataset>(std::move(strategy), std::move(dataset), options,
                                     /*cuts_batches=*/false, std::move(spec));
}

}  // namespace tutti
