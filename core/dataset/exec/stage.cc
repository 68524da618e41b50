#include "core/dataset/exec/stage.h"

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/measured_stage.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/run_profile.h"

namespace tutti {
namespace {

constexpr int64_t kMostStages = int64_t{1} << 20;

// While it lives the context has the record of the stage that is made. Stages keep the context, so
// that it cannot be a copy; who has a profile has made a context that changes, too.
class RecordInContext {
 public:
  RecordInContext(const ExecContext& context, const Node& node) {
    if (context.profile == nullptr || !context.profile->measures()) return;
    context_ = const_cast<ExecContext*>(&context);
    around_ = std::exchange(context_->record, context.profile->Add(node));
  }
  ~RecordInContext() {
    if (context_ != nullptr) context_->record = around_;
  }
  RecordInContext(const RecordInContext&) = delete;
  RecordInContext& operator=(const RecordInContext&) = delete;

 private:
  ExecContext* context_ = nullptr;
  NodeProfile* around_ = nullptr;
};

}  // namespace

uint64_t KeyOf(std::initializer_list<uint64_t> values) {
  uint64_t key = 0;
  for (uint64_t value : values) key = SplitMix64(key ^ value).Next();
  return key;
}

IterationNumbers IterationNumbers::OfElement(uint64_t key, uint64_t op_key, uint64_t element_key) {
  IterationNumbers numbers(key);
  numbers.gives_seeds_ = true;
  numbers.op_key_ = op_key;
  numbers.element_key_ = element_key;
  numbers.op_seeds_ = SplitMix64(op_key);
  numbers.element_seeds_ = SplitMix64(element_key);
  return numbers;
}

IterationNumbers IterationNumbers::OfPart(uint64_t key, uint64_t index) const {
  if (!gives_seeds_) return IterationNumbers(key);
  return OfElement(key, KeyOf({op_key_, index}), KeyOf({element_key_, index}));
}

int64_t ExecContext::SeedOf(const Node& node) const {
  const int64_t seed = node.attributes().Int("seed");
  if (node.attributes().Bool("seed_given") || probe || restoring) return seed;
  const bool by_element = node.attributes().Bool("seed_by_element");
  if (numbers != nullptr && numbers->gives_seeds()) return numbers->DrawSeed(by_element);
  // Built in a function, and read by somebody else than the op that called it.
  return by_element ? static_cast<int64_t>(environment->environment().DrawSeed()) : seed;
}

Stage::~Stage() = default;

Status Stage::Restart(const CallOptions& options) {
  for (const auto& input : inputs_) TUTTI_RETURN_IF_ERROR(input->Restart(options));
  return OkStatus();
}

Status Stage::Save(StateWriter* writer) {
  for (const auto& input : inputs_) TUTTI_RETURN_IF_ERROR(input->Save(writer));
  return OkStatus();
}

Status Stage::Restore(StateReader* reader, const CallOptions& options) {
  for (const auto& input : inputs_) TUTTI_RETURN_IF_ERROR(input->Restore(reader, options));
  return OkStatus();
}

void Stage::Stop() {
  for (const auto& input : inputs_) input->Stop();
}

Status Stage::Join(const CallOptions& options) {
  for (const auto& input : inputs_) TUTTI_RETURN_IF_ERROR(input->Join(options));
  return OkStatus();
}

Result<std::unique_ptr<Stage>> MakeStage(const Node& node, const ExecContext& context) {
  if (node.num_stages() > kMostStages) {
    return ResourceExhausted(
        "{}: an iterator would need more than {} stages at once, because datasets that were zipped "
        "or batched are used again and again in what is made of them; use each fewer times",
        node.label(), kMostStages);
  }
  const Node* const below =
      node.op().input_of_fused != nullptr ? node.op().input_of_fused(node, context) : nullptr;
  const auto measured = [&](StageInputs inputs) -> Result<std::unique_ptr<Stage>> {
    const RecordInContext record(context, node);
    const auto make = below != nullptr ? node.op().make_fused : node.op().make_stage;
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Stage> stage, make(node, context, std::move(inputs)));
    return Profiled(node, MeasuredIfAll(node, std::move(stage), context), context);
  };
  if (node.makes_parts_late()) return measured({});
  StageInputs inputs;
  if (below != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Stage> stage, MakeStage(*below, context));
    // What the input that is left out would have told is what stands below it.
    const RecordInContext record(context, node.input());
    inputs.push_back(Profiled(node.input(), std::move(stage), context));
    return measured(std::move(inputs));
  }
  for (const Ref<const Node>& input : node.inputs()) {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Stage> stage, MakeStage(*input, context));
    inputs.push_back(std::move(stage));
  }
  return measured(std::move(inputs));
}

Status PassOver(Stage& stage, int64_t count, const CallOptions& options, int64_t* passed,
                Status* behind) {
  *passed = 0;
  *behind = OkStatus();
  while (*passed < count) {
    Slab slab;
    stage.Next(Demand{count - *passed, true}, options, &slab);
    *passed += slab.rows;
    if (slab.end) break;
    if (slab.status.ok()) continue;
    if (IsInterruption(slab.status)) return slab.status;
    if (*passed == count) {
      *behind = std::move(slab.status);
    } else {
      ++*passed;
    }
  }
  return OkStatus();
}

bool IsInterruption(const Status& status) {
  return status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kCancelled;
}

Status Undecided(const Node& node) {
  return Cancelled("{}: whether the next element is wanted is not decided yet", node.label());
}

}  // namespace tutti
