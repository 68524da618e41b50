// sample_from_datasets: of several datasets the next element of one that is drawn at random, by
// weights.
//
// One number is drawn for each element, of all datasets that have a weight and are not known to
// have ended; one that turns out to have ended is left out from then on, or ends the pass. So the
// order depends on seed, iteration, epoch, weights and the datasets' lengths only, never on how
// many elements are asked for at once. Weights are whole numbers, parts of the largest: they are
// the same on every machine.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/chosen_inputs.h"
#include "core/dataset/ops/choosing_stage.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/shuffle_order.h"
#include "core/tensor/convert.h"
#include "core/tensor/device_buffer.h"

namespace tutti {
namespace {

// The largest weight as a whole number; so many datasets may have it.
constexpr int kWeightBits = 40;
constexpr size_t kMostDatasets = size_t{1} << 20;

bool HasWeightVectors(const Node& node) { return node.attributes().Bool("weight_vectors"); }

// One for each of `count` datasets; INVALID_ARGUMENT naming `what` for others than may be.
Result<std::vector<uint64_t>> PartsOf(const Value& value, size_t count, const std::string& what) {
  if (!value.is_leaf() || !value.leaf().is_tensor() || value.leaf().tensor().rank() != 1 ||
      value.leaf().tensor().dim(0) != static_cast<int64_t>(count)) {
    return InvalidArgument("{} must be a vector of {} numbers, one for each dataset, and is {}",
                           what, count, ElementSpec::OfValue(value)->ToString());
  }
  TUTTI_RETURN_IF_ERROR(CheckOnHost(what, value.leaf().tensor()));
  Result<Ref<Tensor>> converted = Convert(value.leaf().tensor_ref(), DType::kFloat64);
  if (converted.ok()) converted = (*converted)->Contiguous();
  if (!converted.ok()) return converted.status().WithPrefix(what);
  const std::span<const double> weights = (*converted)->span<double>();
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(weights[i]) && weights[i] >= 0) continue;
    return InvalidArgument("{} must be finite numbers of 0 or more, and the one of dataset {} is "
                           "{}",
                           what, i, weights[i]);
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  if (largest == 0) {
    return InvalidArgument("{} are all 0; give one dataset at least a weight", what);
  }
  std::vector<uint64_t> parts;
  for (double weight : weights) {
    const auto part = static_cast<uint64_t>(std::ldexp(weight / largest, kWeightBits));
    parts.push_back(weight > 0 ? std::max<uint64_t>(part, 1) : 0);
  }
  return parts;
}

// Of weights that are no dataset.
Result<std::vector<uint64_t>> WeightsOf(const Node& node) {
  const size_t count = node.inputs().size();
  const auto* given = node.attributes().Get<Ref<const Value>>("weights");
  if (given == nullptr || ((*given)->is_leaf() && (*given)->leaf().is_none())) {
    return std::vector<uint64_t>(count, 1);
  }
  return PartsOf(**given, count, Format("{}: weights", node.label()));
}

class SampleStage final : public Stage {
 public:
  SampleStage(const Node& node, const ExecContext& context, StageInputs inputs,
              std::vector<uint64_t> weights)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        stops_(node.attributes().Bool("stop_on_empty_dataset")),
        redraws_(node.attributes().Bool("rerandomize_each_iteration")),
        seed_(context.SeedOf(node)),
        iteration_(redraws_ ? context.DrawIteration(node) : 0),
        order_(seed_, iteration_, 0),
        weights_(std::move(weights)) {
    for (size_t i = 0; i < num_inputs(); ++i) inputs_.Add(input(i));
    Sum();
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    for (bool first = true; total_ > 0; first = false) {
      if (!first) slab->status = CheckCallOptions(options, clock_, node().label());
      if (!slab->status.ok()) return;
      const ShuffleOrder before = order_;
      const size_t i = Draw();
      const int64_t most = std::min(demand.max_rows, kMaxSlabRows);
      int64_t drawn = 1;
      while (drawn < most && Draw() == i) ++drawn;
      const int64_t used = inputs_.Pull(i, drawn, demand, options, slab);
      // Draws behind what was used are made again. What the others gave is known, and cannot be
      // asked again once the dataset has ended.
      order_ = before;
      for (int64_t k = 0; k < used; ++k) order_.Below(total_);
      if (inputs_.has_ended(i)) Sum();
      if (slab->rows > 0 || !slab->status.ok()) return;
      slab->Clear();
    }
    slab->end = true;
  }

  Status Restart(const CallOptions& options) override {
    // What is interrupted is restarted again, and that is one epoch.
    TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    inputs_.Clear();
    if (redraws_) ++epoch_;
    order_ = ShuffleOrder(seed_, iteration_, epoch_);
    Sum();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("sample_from_datasets");
    writer->Int(ShuffleOrder::kVersion);
    writer->Int(seed_);
    writer->Int(iteration_);
    writer->Int(epoch_);
    writer->Int(static_cast<int64_t>(order_.state()));
    TUTTI_RETURN_IF_ERROR(inputs_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    reader->Section("sample_from_datasets");
    reader->Version("the order of sample_from_datasets", ShuffleOrder::kVersion);
    seed_ = reader->Int();
    iteration_ = reader->IntIn(0, kMost);
    epoch_ = reader->IntIn(0, kMost);
    order_.set_state(static_cast<uint64_t>(reader->Int()));
    inputs_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    Sum();
    return Stage::Restore(reader, options);
  }

 private:
  // Of the datasets that may be drawn; 0: the pass is over.
  void Sum() {
    total_ = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!inputs_.has_ended(i)) {
        total_ += weights_[i];
      } else if (stops_) {
        total_ = 0;
        return;
      }
    }
  }

  size_t Draw() {
    uint64_t at = order_.Below(total_);
    size_t i = 0;
    for (;; ++i) {
      if (inputs_.has_ended(i)) continue;
      if (at < weights_[i]) return i;
      at -= weights_[i];
    }
  }

  Clock& clock_;
  const bool stops_;
  const bool redraws_;
  int64_t seed_;
  int64_t iteration_;
  int64_t epoch_ = 0;
  ShuffleOrder order_;
  const std::vector<uint64_t> weights_;
  uint64_t total_ = 0;
  ChosenInputs inputs_;
};

// The same by vectors, one for each draw. Datasets that have ended are drawn all the same, and
// passed over: what a vector says is said of all.
class SampleByVectorsStage final : public ChoosingStage {
 public:
  SampleByVectorsStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : ChoosingStage(node, context, std::move(inputs)),
        redraws_(node.attributes().Bool("rerandomize_each_iteration")),
        seed_(context.SeedOf(node)),
        iteration_(redraws_ ? context.DrawIteration(node) : 0),
        order_(seed_, iteration_, 0) {}

  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(ChoosingStage::Restart(options));
    if (redraws_) ++epoch_;
    order_ = ShuffleOrder(seed_, iteration_, epoch_);
    drawn_.clear();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("sample_from_datasets");
    writer->Int(ShuffleOrder::kVersion);
    writer->Int(seed_);
    writer->Int(iteration_);
    writer->Int(epoch_);
    writer->Int(static_cast<int64_t>(order_.state()));
    TUTTI_RETURN_IF_ERROR(SaveChoices(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    reader->Section("sample_from_datasets");
    reader->Version("the order of sample_from_datasets", ShuffleOrder::kVersion);
    seed_ = reader->Int();
    iteration_ = reader->IntIn(0, kMost);
    epoch_ = reader->IntIn(0, kMost);
    order_.set_state(static_cast<uint64_t>(reader->Int()));
    RestoreChoices(reader);
    drawn_.clear();
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 protected:
  Result<int64_t> ChoiceIn(const Slab& choices, int64_t row) override {
    drawn_.push_back(order_);
    const Result<Ref<Value>> vector = choices.Row(row);
    if (!vector.ok()) return FailedChoice(vector.status(), row);
    const Result<std::vector<uint64_t>> weights =
        PartsOf(**vector, static_cast<size_t>(num_choices()), "weights");
    if (!weights.ok()) return FailedChoice(weights.status(), row);
    ShuffleOrder order = order_;
    uint64_t at = order.Below(std::accumulate(weights->begin(), weights->end(), uint64_t{0}));
    order_ = order;
    int64_t i = 0;
    for (; at >= (*weights)[static_cast<size_t>(i)]; ++i) at -= (*weights)[static_cast<size_t>(i)];
    return i;
  }

  void Use(int64_t rows) override {
    if (static_cast<size_t>(rows) < drawn_.size()) order_ = drawn_[static_cast<size_t>(rows)];
    drawn_.clear();
  }

 private:
  const bool redraws_;
  int64_t seed_;
  int64_t iteration_;
  int64_t epoch_ = 0;
  ShuffleOrder order_;
  std::vector<ShuffleOrder> drawn_;  // before each draw that is not used up yet
};

Result<Ref<const ElementSpec>> SampleSpec(const Node& node) {
  return SpecOfChosen(node, HasWeightVectors(node) ? 1 : 0);
}

// Of the dataset of weights.
Status CheckWeightVectors(const Node& node) {
  if (node.inputs().size() < 2) {
    return InvalidArgument("{}: there are no datasets; give one or more", node.label());
  }
  if (node.attributes().Find("weights") != nullptr) {
    return InvalidArgument("{}: weights are a vector or a dataset of vectors, not both",
                           node.label());
  }
  const auto count = static_cast<int64_t>(node.inputs().size() - 1);
  const Ref<const ElementSpec> spec = node.input(0).element_spec();
  if (spec && !(spec->tree().is_leaf() && spec->leaf(0).is_tensor() &&
                (IsInteger(spec->leaf(0).dtype) || IsFloating(spec->leaf(0).dtype)) &&
                spec->leaf(0).shape.IsCompatibleWith(PartialShape({count})))) {
    return InvalidArgument(
        "{}: a dataset of weights must give vectors of {} numbers, one for each dataset, and gives "
        "{}",
        node.label(), count, spec->ToString());
  }
  return OkStatus();
}

Status CheckSample(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckSeed(node));
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "stop_on_empty_dataset"));
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "rerandomize_each_iteration"));
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "weight_vectors"));
  if (node.inputs().size() > kMostDatasets) {
    return InvalidArgument("{}: there may be {} datasets, got {}", node.label(), kMostDatasets,
                           node.inputs().size());
  }
  if (HasWeightVectors(node)) {
    TUTTI_RETURN_IF_ERROR(CheckWeightVectors(node));
    return SampleSpec(node).status();
  }
  if (node.attributes().Find("weights") != nullptr) {
    TUTTI_RETURN_IF_ERROR(CheckValue(node, "weights"));
  }
  TUTTI_RETURN_IF_ERROR(WeightsOf(node).status());
  return SampleSpec(node).status();
}

int64_t SampleCardinality(const Node& node) {
  if (HasWeightVectors(node)) return CardinalityOfChosen(node);
  const Result<std::vector<uint64_t>> weights = WeightsOf(node);
  if (!weights.ok()) return kUnknownCardinality;
  int64_t sum = 0;
  int64_t drawn = 0;
  bool is_known = true;
  bool any_infinite = false;
  bool all_infinite = true;
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const int64_t n = node.input(i).cardinality();
    if ((*weights)[i] == 0) continue;
    ++drawn;
    any_infinite = any_infinite || n == kInfiniteCardinality;
    all_infinite = all_infinite && n == kInfiniteCardinality;
    is_known = is_known && n >= 0 && !__builtin_add_overflow(sum, n, &sum);
  }
  // One that is drawn alone is all there is, wherever drawing stops.
  const bool stops = node.attributes().Bool("stop_on_empty_dataset") && drawn > 1;
  if (stops ? all_infinite : any_infinite) return kInfiniteCardinality;
  return stops || !is_known ? kUnknownCardinality : sum;
}

Result<std::unique_ptr<Stage>> MakeSample(const Node& node, const ExecContext& context,
                                          StageInputs inputs) {
  if (HasWeightVectors(node)) {
    return std::unique_ptr<Stage>(
        std::make_unique<SampleByVectorsStage>(node, context, std::move(inputs)));
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<uint64_t> weights, WeightsOf(node));
  return std::unique_ptr<Stage>(
      std::make_unique<SampleStage>(node, context, std::move(inputs), std::move(weights)));
}

}  // namespace

constinit const OpTraits kSampleFromDatasetsOp = {
    .name = "sample_from_datasets",
    .attributes = {{"weights"},
                   {"seed"},
                   {"seed_given", true},
                   {"stop_on_empty_dataset", false},
                   {"rerandomize_each_iteration", true},
                   {"seed_by_element"},
                   {"weight_vectors", false}},
    .num_inputs = -1,
    .row_ratio = RowRatio::kCombined,
    .can_seek = true,
    .determinism = Determinism::kSeeded,
    .check = CheckSample,
    .cardinality = SampleCardinality,
    .element_spec = SampleSpec,
    .make_stage = MakeSample,
};

Result<Ref<Dataset>> Dataset::SampleFromDatasets(Environments environment, const Value& datasets,
                                                 SampleOptions options) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Dataset>> inputs,
                         DatasetsIn(datasets, "sample_from_datasets"));
  Attributes attributes;
  const bool are_vectors = options.weights && options.weights->is_leaf() &&
                           options.weights->leaf().kind() == LeafKind::kDataset;
  attributes.Set("weight_vectors", are_vectors);
  if (are_vectors) {
    inputs.insert(inputs.begin(),
                  Ref<Dataset>::Retain(options.weights->leaf().object_as<Dataset>()));
  } else if (options.weights) {
    attributes.Set("weights", std::move(options.weights));
  }
  if (options.seed.has_value()) {
    attributes.Set("seed", *options.seed);
    attributes.Set("seed_given", true);
  } else {
    SetDrawnSeed(environment->environment(), &attributes);
  }
  attributes.Set("stop_on_empty_dataset", options.stop_on_empty_dataset);
  attributes.Set("rerandomize_each_iteration", options.rerandomize_each_iteration);
  return Make(environment, "sample_from_datasets", std::move(options.name), std::move(attributes),
              inputs);
}

}  // namespace tutti
