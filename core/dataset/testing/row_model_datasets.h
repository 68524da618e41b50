// What makes datasets of the steps of the row-by-row model (row_model.h): each operation, with
// functions that do what the model says.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_DATASETS_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_DATASETS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/row_model_pipeline.h"

namespace tutti {

class RowModelDatasets : public DatasetTest {
 protected:
  using Op = Step::Op;
  using StepRef = std::shared_ptr<Step>;

  // What functions that give datasets look at.
  struct Giver {
    const Step* step;
    Ref<DatasetEnvironment> datasets;
  };

  struct Pipeline {
    std::vector<StepRef> steps;  // inputs first
    std::map<const Step*, Ref<Dataset>> datasets;
    std::map<const Step*, int> components;
    bool caches = false;      // then nothing reads ahead, and passes are equal
    bool snapshots = false;   // then nothing is read twice
    bool sharded = false;     // then a kept pass has another order
    std::string folder;       // of snapshots
    bool specs_known = true;  // or learnt from the first element
    bool passes_over = false;
    std::deque<Giver> givers;  // of functions that give datasets

    const StepRef& last() const { return steps.back(); }
  };

  RowModelDatasets() { environment_->log().set_level(LogLevel::kError); }

  static ModelElement ElementOf(const Value& value) {
    ModelElement element;
    for (const Leaf& leaf : value.leaves()) {
      const Ref<Tensor> tensor = leaf.tensor().Contiguous().value();
      const std::span<const int64_t> dims = tensor->shape().dims();
      const std::span<const int64_t> items = tensor->span<int64_t>();
      element.push_back({{dims.begin(), dims.end()}, {items.begin(), items.end()}});
    }
    return element;
  }

  static Ref<Value> ValueOf(const Value& like, const ModelElement& element) {
    std::vector<Leaf> leaves;
    for (const ModelTensor& tensor : element) {
      leaves.push_back(Leaf::OfTensor(
          Tensor::FromSpan<int64_t>(Shape::Create(tensor.dims.data(), tensor.dims.size()).value(),
                                    tensor.items)
              .value()));
    }
    return like.WithLeaves(std::move(leaves));
  }

  static Ref<Value> InputsFrom(size_t first, const Step& step, const Pipeline& pipeline) {
    std::vector<Ref<Value>> inputs;
    for (size_t i = first; i < step.inputs.size(); ++i) {
      inputs.push_back(Value::OfLeaf(
          Leaf(LeafKind::kDataset, pipeline.datasets.at(step.inputs[i].get()))));
    }
    return Value::Tuple(std::span<const Ref<Value>>(inputs));
  }

  // The shapes of the components, -1 for what is open; none where the dataset does not promise how
  // many axes they have.
  static std::optional<std::vector<std::vector<int64_t>>> PromisedShapes(const Dataset& dataset) {
    const Ref<const ElementSpec> spec = dataset.promised_spec();
    if (!spec) return std::nullopt;
    std::vector<std::vector<int64_t>> shapes;
    for (const LeafSpec& leaf : spec->leaves()) {
      if (!leaf.is_tensor() || !leaf.shape.has_rank()) return std::nullopt;
      shapes.emplace_back();
      for (size_t axis = 0; axis < leaf.shape.rank(); ++axis) {
        shapes.back().push_back(leaf.shape.dim(axis));
      }
    }
    return shapes;
  }

  // Builds the dataset of a step whose inputs are there.
  void Add(Step step, Pipeline& pipeline) {
    const auto added = std::make_shared<Step>(std::move(step));
    int components = added->op == Op::kEnumerate ? 1 : 0;
    if (added->op == Op::kZip) components = pipeline.components[added->inputs[1].get()];
    const bool is_new = added->inputs.empty() || added->op == Op::kFlatMap ||
                        added->op == Op::kInterleave;
    const bool is_mixed = added->op == Op::kChoose || added->op == Op::kSample;
    components += is_new     ? 1
                  : is_mixed ? pipeline.components[added->inputs.back().get()]
                             : pipeline.components[added->inputs[0].get()];
    pipeline.components[added.get()] = components;
    if (!added->inputs.empty()) {
      const Dataset& input = *pipeline.datasets.at(added->inputs[0].get());
      added->input_cardinality = input.cardinality();
      if (added->op == Op::kBuckets && added->salt == kModelPadsToBoundary) {
        added->input_shapes = PromisedShapes(input).value();
      }
    }
    pipeline.datasets[added.get()] = Build(*added, pipeline);
    pipeline.steps.push_back(added);
  }

 private:
  Ref<Dataset> Build(const Step& step, Pipeline& pipeline) {
    const auto in = [&](size_t i) { return pipeline.datasets.at(step.inputs[i].get()); };
    void* const data = const_cast<Step*>(&step);
    switch (step.op) {
      case Op::kRange:
        return Range(step.a);
      case Op::kSlices: {
        Ref<Tensor> rows = Tensor::Create(DType::kInt64, Shape({step.a, 2})).value();
        int64_t next = 0;
        for (int64_t& item : rows->mutable_span<int64_t>()) item = next++;
        return Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(std::move(rows))));
      }
      case Op::kGenerator:
        return Ok(Dataset::FromGenerator(datasets_, Known(CallStart),
                                         Known(CallNext, {.data = data}), Int64Scalar(),
                                         "generated"));
      case Op::kMap: {
        Ref<const ElementSpec> spec = pipeline.specs_known ? in(0)->known_element_spec() : nullptr;
        return Ok(in(0)->Map(Known(CallMap, {.data = data, .spec = std::move(spec)}),
                             Parallel(step.b)));
      }
      case Op::kFilter:
        return Ok(in(0)->Filter(Known(CallPredicate, {.data = data})));
      case Op::kTakeWhile:
        return Ok(in(0)->TakeWhile(Known(CallPredicate, {.data = data})));
      case Op::kBatch:
        return Ok(in(0)->Batch(step.a, step.b != 0));
      case Op::kPaddedBatch:
        return Ok(in(0)->PaddedBatch(step.a, nullptr, step.c == 0 ? nullptr : Number(step.c),
                                     step.b != 0));
      case Op::kRepeat:
        return Ok(in(0)->Repeat(step.a));
      case Op::kShuffle:
        return Ok(in(0)->Shuffle(step.a, Seed(step.b, step.b % 2 == 1)));
      case Op::kTake:
        return Ok(in(0)->Take(step.a));
      case Op::kSkip:
        return Ok(in(0)->Skip(step.a));
      case Op::kShard:
        return Ok(in(0)->Shard(step.a, step.b));
      case Op::kConcatenate:
        return Ok(in(0)->Concatenate(*in(1)));
      case Op::kEnumerate:
        return Ok(in(0)->Enumerate(step.a));
      case Op::kPrefetch:
        return Ok(in(0)->Prefetch(step.a));
      case Op::kZip:
        return Ok(Dataset::Zip(datasets_, *Value::Tuple({
                                              Value::OfLeaf(Leaf(LeafKind::kDataset, in(0))),
                                              Value::OfLeaf(Leaf(LeafKind::kDataset, in(1))),
                                          })));
      case Op::kUnique:
        return Ok(in(0)->Unique());
      case Op::kUnbatch:
        return Ok(in(0)->Unbatch());
      case Op::kWindow: {
        Ref<const ElementSpec> spec;
        if (pipeline.specs_known) spec = ElementSpec::Dataset(in(0)->known_element_spec());
        const Ref<Function> zip =
            Known(CallZip, {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_),
                                   .spec = std::move(spec)});
        const Ref<Dataset> windows = Ok(in(0)->Window(step.a, step.b, step.c, step.d != 0));
        return Ok((step.salt == 0 ? windows : Ok(windows->Prefetch(step.salt)))->FlatMap(zip));
      }
      case Op::kGroupByWindow: {
        Ref<const ElementSpec> spec;
        if (pipeline.specs_known) spec = ElementSpec::Dataset(in(0)->known_element_spec());
        const Ref<Function> sizes =
            step.b != 0 ? Known(CallGroupSize, {.data = data}) : nullptr;
        return Ok(in(0)->GroupByWindow(
            Known(CallKey, {.data = data}),
            Known(CallGroup, {.data = data, .spec = std::move(spec)}),
            sizes ? std::nullopt : std::optional(step.a), sizes));
      }
      case Op::kChoose:
        return Ok(Dataset::ChooseFromDatasets(
            datasets_, *InputsFrom(1, step, pipeline),
            *Ok(in(0)->Map(Known(CallChoice, {.data = data, .spec = Int64Scalar()}))),
            step.d != 0));
      case Op::kSample: {
        SampleOptions options;
        options.seed = step.b;
        options.rerandomize_each_iteration = step.b % 2 == 1;
        options.stop_on_empty_dataset = step.d != 0;
        if (step.c == 1) options.weights = WeightsValue(ModelWeights(step, 0, step.inputs.size()));
        if (step.c == 2) {
          const auto count = static_cast<int64_t>(step.inputs.size()) - 1;
          options.weights = Value::OfLeaf(Leaf(
              LeafKind::kDataset,
              Ok(in(0)->Map(Known(
                  CallWeights,
                  {.data = data,
                   .spec = ElementSpec::OfTensor(DType::kFloat64, PartialShape({count}))})))));
        }
        return Ok(Dataset::SampleFromDatasets(
            datasets_, *InputsFrom(step.c == 2 ? 1 : 0, step, pipeline), std::move(options)));
      }
      case Op::kBuckets: {
        const auto integers = [](const std::vector<int64_t>& numbers) {
          return Value::OfTensor(
              Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(numbers.size())}), numbers)
                  .value());
        };
        return Ok(in(0)->BucketBySequenceLength(
            Known(CallLength, {.data = data, .spec = Int64Scalar()}),
            integers(ModelBoundaries(step)), integers(ModelBatchSizes(step)), {}, {},
            step.salt == kModelPadsToBoundary, step.salt == 1, step.d != 0));
      }
      case Op::kAssertCardinality:
        return Ok(in(0)->AssertCardinality(step.a));
      case Op::kOnError:
        return Ok(in(0)->OnError(step.b != 0 ? "fail" : "skip", step.b != 0 ? -1 : step.a));
      case Op::kCache:
        return Ok(in(0)->Cache());
      case Op::kSnapshot: {
        SnapshotOptions options;
        if (step.a > 1) options.shard_func = Known(CallShard, {.data = data});
        return Ok(in(0)->Snapshot(Format("{}/{}", pipeline.folder, pipeline.steps.size()),
                                  std::move(options)));
      }
      case Op::kFlatMap:
      case Op::kInterleave: {
        pipeline.givers.push_back({&step, datasets_});
        Ref<const ElementSpec> spec;
        if (pipeline.specs_known) spec = ElementSpec::Dataset(Int64Scalar());
        const Ref<Function> giver =
            Known(CallGiver, {.data = &pipeline.givers.back(), .spec = std::move(spec)});
        if (step.op == Op::kFlatMap) return Ok(in(0)->FlatMap(giver));
        return Ok(in(0)->Interleave(giver, step.a, step.b, step.c));
      }
    }
    return nullptr;
  }

  // A function that a snapshot may go by: whatever its code is, no other one has this one's folder.
  static Ref<TestFunction> Known(TestFunction::Body body, FunctionParts parts = {}) {
    parts.fingerprint = "of the model";
    return MakeFunction(body, std::move(parts));
  }

  static Ref<Value> WeightsValue(const std::vector<double>& weights) {
    return Value::OfTensor(
        Tensor::FromSpan<double>(Shape({static_cast<int64_t>(weights.size())}), weights).value());
  }

  static Status Bad(int64_t number) { return Status(StatusCode::kDataLoss, ModelFailure(number)); }

  static Result<Ref<Value>> CallMap(Context&, const Value& in, void* data) {
    const ModelRow row = ModelMapped(*static_cast<const Step*>(data), ElementOf(in));
    if (row.failed()) return Status(StatusCode::kDataLoss, row.failure);
    return ValueOf(in, *row.element);
  }
  static Result<Ref<Value>> CallPredicate(Context&, const Value& in, void* data) {
    const Step& step = *static_cast<const Step*>(data);
    const int64_t sum = ModelSum(ElementOf(in));
    if (ModelFails(step, sum)) return Bad(sum);
    return Value::OfTensor(Tensor::Scalar(ModelKeeps(step, sum)));
  }
  static Result<Ref<Value>> CallStart(Context&, const Value&, void*) {
    return Value::OfTensor(Tensor::Vector<int64_t>({0}));
  }
  static Result<Ref<Value>> CallNext(Context&, const Value& state, void* data) {
    const Step& step = *static_cast<const Step*>(data);
    auto* at = const_cast<int64_t*>(state.leaf(0).tensor().span<int64_t>().data());
    if (*at == step.a) return Value::None();
    const int64_t number = (*at)++;
    if (ModelFails(step, number)) return Bad(number);
    return Number(number);
  }

  static Result<Ref<Value>> CallInner(Context&, const Value& in, void* data) {
    const int64_t number = NumberIn(in);
    if (ModelFails(*static_cast<const Step*>(data), number)) return Bad(number);
    return Number(number);
  }
  static Result<Ref<Value>> CallGiver(Context&, const Value& in, void* data) {
    const auto& [step, datasets] = *static_cast<const Giver*>(data);
    const int64_t sum = ModelSum(ElementOf(in));
    if (ModelCallFails(*step, sum)) return Bad(sum);
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Dataset> numbers,
        Dataset::Range(datasets, 10 * sum, 10 * sum + ModelLength(*step, sum), 1));
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Dataset> made,
        numbers->Map(Known(CallInner, {.data = const_cast<Step*>(step),
                                              .spec = Int64Scalar()})));
    return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
  }

  // The elements of a window: its components together again.
  static Result<Ref<Value>> CallZip(Context&, const Value& in, void* data) {
    if (in.is_leaf()) return Value::OfLeaf(in.leaf());
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> rows,
                           Dataset::Zip(*static_cast<const Ref<DatasetEnvironment>*>(data), in));
    return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(rows)));
  }

  // group_by_window's functions.
  static Result<Ref<Value>> CallKey(Context&, const Value& in, void* data) {
    const int64_t sum = ModelSum(ElementOf(in));
    if (ModelFails(*static_cast<const Step*>(data), sum)) return Bad(sum);
    return Number(ModelKey(sum));
  }
  static Result<Ref<Value>> CallGroup(Context&, const Value& in, void* data) {
    const Step& step = *static_cast<const Step*>(data);
    const int64_t key = NumberIn(in);
    if (ModelCallFails(step, key)) return Bad(key);
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> rows,
                           in.leaf(1).object_as<Dataset>()->Take(step.c == 0 ? -1 : step.c));
    return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(rows)));
  }
  static Result<Ref<Value>> CallShard(Context&, const Value& in, void* data) {
    return Number(ModelShardOf(*static_cast<const Step*>(data), ElementOf(in)));
  }
  // choose_from_datasets' choices and sample_from_datasets' weights.
  static Result<Ref<Value>> CallChoice(Context&, const Value& in, void* data) {
    const Step& step = *static_cast<const Step*>(data);
    const int64_t sum = ModelSum(ElementOf(in));
    if (ModelFails(step, sum)) return Bad(sum);
    return Number(ModelChoice(step, sum));
  }
  static Result<Ref<Value>> CallWeights(Context&, const Value& in, void* data) {
    const Step& step = *static_cast<const Step*>(data);
    const int64_t sum = ModelSum(ElementOf(in));
    if (ModelFails(step, sum)) return Bad(sum);
    return WeightsValue(ModelWeights(step, sum, step.inputs.size() - 1));
  }
  static Result<Ref<Value>> CallLength(Context&, const Value& in, void* data) {
    const int64_t sum = ModelSum(ElementOf(in));
    if (ModelFails(*static_cast<const Step*>(data), sum)) return Bad(sum);
    return Number(ModelLengthOf(sum));
  }
  static Result<Ref<Value>> CallGroupSize(Context&, const Value& in, void* data) {
    return Number(ModelGroupSize(*static_cast<const Step*>(data), NumberIn(in)));
  }
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_DATASETS_H_
