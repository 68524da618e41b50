#include "core/dataset/exec/inner_stages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/graph_header.h"
#include "core/dataset/exec/recorded_writes.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"

namespace tutti {
namespace {

constexpr int64_t kLastNumber = std::numeric_limits<int64_t>::max();

uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }

}  // namespace

Result<Ref<const Dataset>> DatasetOfResult(const Value& result) {
  if (!result.is_leaf() || result.leaf().kind() != LeafKind::kDataset) {
    return InvalidArgument("the function must give a dataset, and gave {}; make one of it with "
                           "from_tensors or from_tensor_slices",
                           ElementSpec::OfValue(result)->ToString());
  }
  return Ref<const Dataset>::Retain(result.leaf().object_as<const Dataset>());
}

Status WriteElement(const Value& element, StateWriter* writer) {
  Slab row;
  row.rows = 1;
  row.tree = element.spec_ref();
  for (const Leaf& leaf : element.leaves()) row.columns.push_back(Column::Rows({leaf}));
  return writer->Rows(row);
}

Result<Ref<const Value>> ReadElement(StateReader* reader) {
  Slab row;
  reader->Rows(&row);
  if (reader->ok() && (row.rows != 1 || !row.tree)) reader->Fail("an element that is none");
  TUTTI_RETURN_IF_ERROR(reader->status());
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> element, row.Row(0));
  return Ref<const Value>(std::move(element));
}

Result<Ref<const Dataset>> LookAtDataset(FunctionRows* function, const Value& argument,
                                         const CallOptions& options) {
  const CallbackScope scope(CallbackClass::kDataset);
  const RecordedWrites nobody_writes_them;
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> result, function->CallValue(argument, 0, options));
  return DatasetOfResult(*result);
}

Result<Ref<const Dataset>> LookAtInnerDataset(const Node& node, const ExecContext& context,
                                              const Ref<Value>& element,
                                              const CallOptions& options) {
  FunctionRows function(node, context, nullptr);
  return LookAtDataset(&function, *element, options);
}

InnerStages::InnerStages(const Node& node, const ExecContext& context, FunctionUse use)
    : node_(node), use_(use), context_(context), iteration_(context.DrawIteration(node)) {
  if (!node.functions().empty()) function_.emplace(node, context, nullptr, use);
  if (node.op().determinism == Determinism::kSeeded) seed_ = context.SeedOf(node);
  context_.restoring = false;
  // What is made late is measured with the operation that makes it.
  context_.profile = nullptr;
  context_.record = nullptr;
}

Result<InnerStages::Inner*> InnerStages::Make(Ref<const Value> element, int64_t index,
                                              const CallOptions& options) {
  return MakeFrom(std::move(element), index, false, options);
}

Result<InnerStages::Inner*> InnerStages::MakeFrom(Ref<const Value> element, int64_t index,
                                                  bool restoring, const CallOptions& options) {
  Ref<Value> result;
  RecordedWrites writes;
  {
    const CallbackScope scope(CallbackClass::kDataset);
    TUTTI_ASSIGN_OR_RETURN(result, function_->CallValue(*element, index, options));
  }
  Result<Ref<const Dataset>> dataset = DatasetOfResult(*result);
  if (dataset.ok()) dataset = std::move(writes).Before(std::move(dataset).value());
  if (!dataset.ok()) return function_->FailOf(*element, dataset.status(), index, CallOptions());
  auto inner = std::make_unique<Inner>();
  inner->element_ = std::move(element);
  inner->index_ = index;
  inner->dataset_ = std::move(dataset).value();
  // Datasets of one runtime need not have one dataset environment.
  if (&inner->dataset_->environment()->environment() != &context_.environment->environment()) {
    return function_->FailOf(
        *inner->element_,
        InvalidArgument("the function gave a dataset of another runtime; make it in the one that "
                        "the outer dataset is of"),
        index, CallOptions());
  }
  inner->numbers_ = IterationNumbers::OfElement(
      KeyOf({Bits(seed_), Bits(iteration_), Bits(pass_), Bits(index)}), KeyOf({Bits(seed_)}),
      KeyOf({Bits(seed_), Bits(index)}));
  const Node& node = inner->dataset_->node();
  inner->context_ = context_;
  inner->context_.depth_around = context_.depth_around + node.depth();
  if (inner->context_.depth_around > kMaxDepth) {
    return function_->FailOf(
        *inner->element_,
        InvalidArgument("the datasets that functions give inside of one another are more than {} "
                        "operations deep together; let one operation do what several do",
                        kMaxDepth),
        index, CallOptions());
  }
  return Add(std::move(inner), node, restoring);
}

Result<InnerStages::Inner*> InnerStages::MakePart(const Node& part, int64_t index,
                                                  bool restoring) {
  auto inner = std::make_unique<Inner>();
  inner->index_ = index;
  const uint64_t key = KeyOf({Bits(iteration_), Bits(pass_), Bits(index)});
  inner->numbers_ = context_.numbers != nullptr ? context_.numbers->OfPart(key, Bits(index))
                                                : IterationNumbers(key);
  inner->context_ = context_;
  return Add(std::move(inner), part, restoring);
}

Result<InnerStages::Inner*> InnerStages::Add(std::unique_ptr<Inner> inner, const Node& node,
                                             bool restoring) {
  inner->context_.numbers = &inner->numbers_;
  inner->context_.restoring = restoring;
  TUTTI_ASSIGN_OR_RETURN(inner->stage_, MakeStage(node, inner->context_));
  inner->context_.restoring = false;
  std::lock_guard lock(mutex_);
  // It has not started anything yet, and goes without having been told to stop.
  if (stopped_) return Cancelled("{}: the iterator was closed", node_.label());
  live_.push_back(std::move(inner));
  return live_.back().get();
}

void InnerStages::End(Inner* inner) {
  inner->stage_->Stop();
  std::lock_guard lock(mutex_);
  const auto place = std::find_if(live_.begin(), live_.end(),
                                  [inner](const auto& one) { return one.get() == inner; });
  ended_.splice(ended_.end(), live_, place);
}

Status InnerStages::JoinEnded(const CallOptions& options) {
  while (true) {
    Inner* first = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (ended_.empty()) return OkStatus();
      first = ended_.front().get();
    }
    TUTTI_RETURN_IF_ERROR(first->stage_->Join(options));
    std::list<std::unique_ptr<Inner>> joined;
    std::lock_guard lock(mutex_);
    joined.splice(joined.end(), ended_, ended_.begin());
  }
}

Status InnerStages::EndAll(const CallOptions& options) {
  while (true) {
    Inner* last = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (live_.empty()) break;
      last = live_.back().get();
    }
    End(last);
  }
  return JoinEnded(options);
}

void InnerStages::Save(StateWriter* writer) const {
  writer->Int(iteration_);
  writer->Int(pass_);
  if (function_) writer->Int(seed_);
}

void InnerStages::Restore(StateReader* reader) {
  iteration_ = reader->IntIn(0, kLastNumber);
  pass_ = reader->IntIn(0, kLastNumber);
  if (function_) seed_ = reader->Int();
}

Status InnerStages::MakeHeader(const Inner& inner) {
  if (!inner.header_.empty()) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(inner.header_, GraphHeader(inner.dataset_->node()));
  return OkStatus();
}

Status InnerStages::SaveElement(const Inner& inner, StateWriter* writer) const {
  TUTTI_RETURN_IF_ERROR(MakeHeader(inner));
  writer->Bytes(inner.header_);
  writer->Int(inner.index_);
  return WriteElement(*inner.element_, writer);
}

Result<InnerStages::Inner*> InnerStages::RestoreElement(StateReader* reader,
                                                        const CallOptions& options) {
  const std::string_view header = reader->Bytes();
  const int64_t index = reader->IntIn(0, kLastNumber);
  TUTTI_ASSIGN_OR_RETURN(Ref<const Value> element, ReadElement(reader));
  TUTTI_ASSIGN_OR_RETURN(Inner* const inner, MakeFrom(std::move(element), index, true, options));
  TUTTI_RETURN_IF_ERROR(MakeHeader(*inner));
  const Status same = CheckGraphHeader(inner->header_, header);
  if (same.ok()) return inner;
  return same.WithPrefix(Format(
      "{}: the dataset that the function gives for {}", node_.label(),
      use_.name != nullptr ? use_.name(*inner->element_) : Format("element {}", index)));
}

void InnerStages::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& inner : live_) inner->stage_->Stop();
}

}  // namespace tutti
