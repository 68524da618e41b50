// Random pipelines beside the row-by-row model (testing/row_model_pipeline.h): elements, failures
// and ends are the same for whoever goes on behind failures, takes rows one by one or in slabs, has
// no time to wait for some, or saves and restores in between.
//
//   TUTTI_TEST_SEED=1234         repeats one pipeline, and prints it
//   TUTTI_TEST_FIRST_SEED=1000   begins there, and anywhere otherwise; pipeline i has that seed + i
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/dataset/testing/row_model_pipeline.h"

namespace tutti {
namespace {

constexpr uint64_t kPipelines = 2'000;

ModelElement ElementOf(const Value& value) {
  ModelElement element;
  for (const Leaf& leaf : value.leaves()) {
    const Ref<Tensor> tensor = leaf.tensor().Contiguous().value();
    const std::span<const int64_t> dims = tensor->shape().dims();
    const std::span<const int64_t> items = tensor->span<int64_t>();
    element.push_back({{dims.begin(), dims.end()}, {items.begin(), items.end()}});
  }
  return element;
}

Ref<Value> ValueOf(const Value& like, const ModelElement& element) {
  std::vector<Leaf> leaves;
  for (const ModelTensor& tensor : element) {
    leaves.push_back(Leaf::OfTensor(
        Tensor::FromSpan<int64_t>(Shape::Create(tensor.dims.data(), tensor.dims.size()).value(),
                                  tensor.items)
            .value()));
  }
  return like.WithLeaves(std::move(leaves));
}

std::string TextOf(const ModelRow& row) {
  if (row.end) return ".";
  if (row.failed()) return "!" + row.failure;
  std::string text;
  for (const ModelTensor& tensor : *row.element) {
    text += text.empty() ? "" : ", ";
    for (int64_t dim : tensor.dims) text += Format("{}x", dim);
    text += "[";
    for (int64_t item : tensor.items) text += Format(" {}", item);
    text += " ]";
  }
  return text;
}

// A function that a snapshot may go by: whatever its code is, no other one has this one's folder.
Ref<TestFunction> Known(TestFunction::Body body, FunctionParts parts = {}) {
  parts.fingerprint = "of the model";
  return MakeFunction(body, std::move(parts));
}

Ref<Value> WeightsValue(const std::vector<double>& weights) {
  return Value::OfTensor(
      Tensor::FromSpan<double>(Shape({static_cast<int64_t>(weights.size())}), weights).value());
}

Status Bad(int64_t number) { return Status(StatusCode::kDataLoss, ModelFailure(number)); }

Result<Ref<Value>> CallMap(Context&, const Value& in, void* data) {
  const ModelRow row = ModelMapped(*static_cast<const Step*>(data), ElementOf(in));
  if (row.failed()) return Status(StatusCode::kDataLoss, row.failure);
  return ValueOf(in, *row.element);
}
Result<Ref<Value>> CallPredicate(Context&, const Value& in, void* data) {
  const Step& step = *static_cast<const Step*>(data);
  const int64_t sum = ModelSum(ElementOf(in));
  if (ModelFails(step, sum)) return Bad(sum);
  return Value::OfTensor(Tensor::Scalar(ModelKeeps(step, sum)));
}
Result<Ref<Value>> CallStart(Context&, const Value&, void*) {
  return Value::OfTensor(Tensor::Vector<int64_t>({0}));
}
Result<Ref<Value>> CallNext(Context&, const Value& state, void* data) {
  const Step& step = *static_cast<const Step*>(data);
  auto* at = const_cast<int64_t*>(state.leaf(0).tensor().span<int64_t>().data());
  if (*at == step.a) return Value::None();
  const int64_t number = (*at)++;
  if (ModelFails(step, number)) return Bad(number);
  return Number(number);
}

struct Giver {
  const Step* step;
  Ref<DatasetEnvironment> datasets;
};

Result<Ref<Value>> CallInner(Context&, const Value& in, void* data) {
  const int64_t number = NumberIn(in);
  if (ModelFails(*static_cast<const Step*>(data), number)) return Bad(number);
  return Number(number);
}
Result<Ref<Value>> CallGiver(Context&, const Value& in, void* data) {
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
Result<Ref<Value>> CallZip(Context&, const Value& in, void* data) {
  if (in.is_leaf()) return Value::OfLeaf(in.leaf());
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> rows,
                         Dataset::Zip(*static_cast<const Ref<DatasetEnvironment>*>(data), in));
  return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(rows)));
}

// group_by_window's functions.
Result<Ref<Value>> CallKey(Context&, const Value& in, void* data) {
  const int64_t sum = ModelSum(ElementOf(in));
  if (ModelFails(*static_cast<const Step*>(data), sum)) return Bad(sum);
  return Number(ModelKey(sum));
}
Result<Ref<Value>> CallGroup(Context&, const Value& in, void* data) {
  const Step& step = *static_cast<const Step*>(data);
  const int64_t key = NumberIn(in);
  if (ModelCallFails(step, key)) return Bad(key);
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> rows,
                         in.leaf(1).object_as<Dataset>()->Take(step.c == 0 ? -1 : step.c));
  return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(rows)));
}
Result<Ref<Value>> CallShard(Context&, const Value& in, void* data) {
  return Number(ModelShardOf(*static_cast<const Step*>(data), ElementOf(in)));
}
// choose_from_datasets' choices and sample_from_datasets' weights.
Result<Ref<Value>> CallChoice(Context&, const Value& in, void* data) {
  const Step& step = *static_cast<const Step*>(data);
  const int64_t sum = ModelSum(ElementOf(in));
  if (ModelFails(step, sum)) return Bad(sum);
  return Number(ModelChoice(step, sum));
}
Result<Ref<Value>> CallWeights(Context&, const Value& in, void* data) {
  const Step& step = *static_cast<const Step*>(data);
  const int64_t sum = ModelSum(ElementOf(in));
  if (ModelFails(step, sum)) return Bad(sum);
  return WeightsValue(ModelWeights(step, sum, step.inputs.size() - 1));
}
Result<Ref<Value>> CallLength(Context&, const Value& in, void* data) {
  const int64_t sum = ModelSum(ElementOf(in));
  if (ModelFails(*static_cast<const Step*>(data), sum)) return Bad(sum);
  return Number(ModelLengthOf(sum));
}
Result<Ref<Value>> CallGroupSize(Context&, const Value& in, void* data) {
  return Number(ModelGroupSize(*static_cast<const Step*>(data), NumberIn(in)));
}

class RowModel : public DatasetTest {
 protected:
  RowModel() { environment_->log().set_level(LogLevel::kError); }

  using Op = Step::Op;
  using StepRef = std::shared_ptr<Step>;
  using Random = std::mt19937_64;

  struct Pipeline {
    std::vector<StepRef> steps;  // inputs first
    std::map<const Step*, Ref<Dataset>> datasets;
    std::map<const Step*, int> components;
    bool caches = false;      // then nothing reads ahead, and passes are equal
    bool snapshots = false;   // then nothing is read twice
    bool sharded = false;     // then a kept pass has another order
    std::string folder;       // of snapshots
    bool specs_known = true;  // or learnt from the first element
    bool asserted = false;    // then no window is below what takes many elements along
    bool passes_over = false;
    std::deque<Giver> givers;  // of functions that give datasets
    std::string text;

    const StepRef& last() const { return steps.back(); }
  };

  static int64_t Below(Random& random, int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  }

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
            integers(ModelBoundaries(step)), integers(ModelBatchSizes(step)), {}, {}, false,
            step.salt == 1, step.d != 0));
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

  static Ref<Value> InputsFrom(size_t first, const Step& step, const Pipeline& pipeline) {
    std::vector<Ref<Value>> inputs;
    for (size_t i = first; i < step.inputs.size(); ++i) {
      inputs.push_back(Value::OfLeaf(
          Leaf(LeafKind::kDataset, pipeline.datasets.at(step.inputs[i].get()))));
    }
    return Value::Tuple(std::span<const Ref<Value>>(inputs));
  }

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
      added->input_cardinality = pipeline.datasets.at(added->inputs[0].get())->cardinality();
    }
    pipeline.datasets[added.get()] = Build(*added, pipeline);
    pipeline.steps.push_back(added);
  }

  void AddSource(Random& random, Pipeline& pipeline) {
    Step step;
    const Op sources[] = {Op::kRange, Op::kSlices, Op::kGenerator, Op::kGenerator};
    step.op = sources[Below(random, 4)];
    step.a = Below(random, 14) + (step.op == Op::kSlices ? 1 : 0);
    step.failing = Below(random, 6);
    step.salt = Below(random, 7);
    Add(step, pipeline);
  }

  void AddStep(Random& random, Pipeline& pipeline) {
    const Op ops[] = {Op::kMap,    Op::kMap,   Op::kMap,     Op::kFilter,      Op::kTakeWhile,
                      Op::kBatch,  Op::kBatch, Op::kBatch,   Op::kRepeat,      Op::kShuffle,
                      Op::kTake,   Op::kSkip,  Op::kShard,   Op::kShard,       Op::kEnumerate,
                      Op::kShard,  Op::kZip,   Op::kZip,     Op::kConcatenate, Op::kPrefetch,
                      Op::kUnique, Op::kCache, Op::kFlatMap, Op::kInterleave, Op::kInterleave,
                      Op::kUnbatch, Op::kUnbatch, Op::kWindow, Op::kWindow,
                      Op::kPaddedBatch, Op::kPaddedBatch, Op::kGroupByWindow,
                      Op::kGroupByWindow, Op::kOnError, Op::kOnError, Op::kSnapshot,
                      Op::kSnapshot, Op::kSnapshot,
                      Op::kChoose, Op::kChoose, Op::kSample, Op::kSample, Op::kSample,
                      Op::kBuckets, Op::kBuckets, Op::kAssertCardinality};
    // Rows that fail below those that pass over rows: what is hardest.
    const Op passing[] = {Op::kMap,   Op::kMap,   Op::kMap,  Op::kFlatMap, Op::kInterleave,
                          Op::kBatch, Op::kBatch, Op::kTake, Op::kShard,   Op::kShard,
                          Op::kSkip,  Op::kRepeat, Op::kOnError, Op::kSnapshot,
                          Op::kChoose, Op::kSample, Op::kAssertCardinality};
    // Those that give all rows that they take: a pass is kept where it is for the model.
    const Op exact[] = {Op::kBatch, Op::kTake, Op::kSkip, Op::kEnumerate, Op::kRepeat};
    // Of a map at once; 0 stands for most, and starts no threads.
    const int64_t calls[] = {0, 0, 0, 1, 2, 4};
    Step step;
    step.op = pipeline.passes_over ? passing[Below(random, std::size(passing))]
                                   : ops[Below(random, std::size(ops))];
    if (pipeline.sharded) step.op = exact[Below(random, std::size(exact))];
    const StepRef input = pipeline.last();
    step.inputs = {input};
    switch (step.op) {
      case Op::kFlatMap:
      case Op::kInterleave:
        step.a = step.op == Op::kFlatMap ? 1 : Below(random, 4) + 1;
        step.b = step.op == Op::kFlatMap ? 1 : Below(random, 3) + 1;
        if (step.op == Op::kInterleave && !pipeline.caches) {
          step.c = std::min(calls[Below(random, std::size(calls))], step.a);
        }
        step.failing = std::max<int64_t>(Below(random, 9) - 2, 0);
        step.salt = Below(random, 7);
        break;
      case Op::kMap:
        step.b = pipeline.caches ? 0 : calls[Below(random, std::size(calls))];
        [[fallthrough]];
      case Op::kFilter:
      case Op::kTakeWhile:
        step.failing = std::max<int64_t>(Below(random, 9) - 2, 0);
        step.salt = Below(random, 7);
        break;
      case Op::kPaddedBatch:
        step.c = -Below(random, 3);
        [[fallthrough]];
      case Op::kBatch:
        step.a = Below(random, 4) + 1;
        step.b = Below(random, 4) == 0;
        break;
      case Op::kRepeat:
        step.a = Below(random, 4);
        break;
      case Op::kShuffle:
        step.a = Below(random, 6) + 1;
        step.b = Below(random, 20) * (pipeline.caches ? 2 : 1);
        break;
      case Op::kTake:
        step.a = Below(random, 20);
        break;
      case Op::kSkip:
        step.a = Below(random, 5);
        break;
      case Op::kShard:
        step.a = Below(random, 4) + 1;
        step.b = Below(random, step.a);
        break;
      case Op::kEnumerate:
        step.a = Below(random, 3);
        break;
      case Op::kPrefetch:
        step.a = pipeline.caches ? 0 : Below(random, 4);
        break;
      case Op::kUnique:
        if (pipeline.components[input.get()] != 1) return;
        break;
      case Op::kWindow:
        if (pipeline.asserted) return;
        step.a = Below(random, 4) + 1;
        step.b = Below(random, 5) + 1;
        step.c = Below(random, 3) + 1;
        step.d = Below(random, 3) == 0;
        step.salt = pipeline.caches ? 0 : std::max<int64_t>(Below(random, 4) - 1, 0);
        break;
      case Op::kGroupByWindow:
        step.a = Below(random, 4) + 1;
        step.b = Below(random, 2);
        step.c = Below(random, 3);
        step.failing = std::max<int64_t>(Below(random, 9) - 2, 0);
        step.salt = Below(random, 7);
        break;
      case Op::kOnError:
        step.a = Below(random, 5) - 1;
        // "fail" is as if none may be skipped.
        step.b = Below(random, 4) == 0;
        if (step.b != 0) step.a = 0;
        break;
      case Op::kUnbatch:
        if (Below(random, 2) == 0) {
          Step batch = {.op = Op::kBatch, .inputs = {input}, .a = Below(random, 4) + 1};
          batch.b = Below(random, 2);
          Add(batch, pipeline);
          step.inputs = {pipeline.last()};
        }
        // Where its spec says that it has no rows.
        if (!pipeline.datasets.at(step.inputs[0].get())->Unbatch().ok()) return;
        break;
      case Op::kCache:
        if (!pipeline.caches) return;
        break;
      case Op::kSnapshot:
        if (!pipeline.caches) return;
        step.a = Below(random, 3) + 1;
        pipeline.sharded = step.a > 1;
        pipeline.snapshots = true;
        break;
      case Op::kBuckets:
        step.a = Below(random, 4) + 1;
        step.b = Below(random, 3) + 1;
        step.c = Below(random, 3) + 1;
        step.d = Below(random, 3) == 0;
        step.failing = std::max<int64_t>(Below(random, 9) - 2, 0);
        step.salt = Below(random, 3);
        break;
      case Op::kAssertCardinality:
        step.a = Below(random, 18) - 1;
        pipeline.asserted = true;
        break;
      case Op::kChoose:
      case Op::kSample: {
        if (pipeline.snapshots) return;
        step.failing = std::max<int64_t>(Below(random, 12) - 5, 0);
        step.salt = Below(random, 4);
        step.b = Below(random, 20);
        step.c = step.op == Op::kSample ? Below(random, 3) : 0;
        step.d = Below(random, 2);
        // With itself, or what was made of it.
        if (Below(random, 3) != 0) {
          Step part = {.op = Op::kMap, .inputs = {input}, .failing = 4, .salt = Below(random, 7)};
          Add(part, pipeline);
        }
        step.inputs.push_back(pipeline.last());
        if (Below(random, 3) == 0) step.inputs.push_back(input);
        if (step.op == Op::kSample && step.c != 2) break;
        AddSource(random, pipeline);
        step.inputs.insert(step.inputs.begin(), pipeline.last());
        break;
      }
      case Op::kConcatenate:
        if (pipeline.snapshots) return;
        // With itself, or what was made of it.
        if (Below(random, 2) == 0) {
          Step part = {.op = Op::kMap, .inputs = {input}, .failing = 4, .salt = Below(random, 7)};
          Add(part, pipeline);
        }
        step.inputs.push_back(pipeline.last());
        break;
      case Op::kZip:
        // With something else, on either side.
        if (Below(random, 3) != 0 || pipeline.snapshots) {
          AddSource(random, pipeline);
          for (int64_t more = Below(random, 3); more > 0; --more) {
            Step part = {.op = more == 2 ? Op::kMap : Op::kBatch,
                         .inputs = {pipeline.last()},
                         .a = more == 2 ? 0 : 2,
                         .failing = 5,
                         .salt = Below(random, 7)};
            Add(part, pipeline);
          }
        }
        step.inputs.push_back(pipeline.last());
        if (Below(random, 2) == 0) std::swap(step.inputs[0], step.inputs[1]);
        break;
      default:
        break;
    }
    Add(step, pipeline);
  }

  // One in which nothing fails: what has to keep elements may, and what runs ahead has no room.
  static Ref<Dataset> WithinABudget(const Ref<Dataset>& dataset, const Pipeline& pipeline) {
    const bool keeps = std::ranges::any_of(pipeline.steps, [](const StepRef& step) {
      return step->op == Op::kBatch || step->op == Op::kPaddedBatch || step->op == Op::kShuffle ||
             step->op == Op::kWindow || step->op == Op::kGroupByWindow ||
             step->op == Op::kBuckets ||
             step->op == Op::kUnique || step->op == Op::kCache;
    });
    DatasetOptions options;
    EXPECT_TRUE(options.SetInt("autotune.ram_budget", keeps ? int64_t{1} << 40 : 1).ok());
    return Ok(dataset->WithOptions(options));
  }

  // The rows that one call gives; none when it was interrupted.
  static std::vector<ModelRow> Call(Iterator& iterator, int64_t most, const CallOptions& options) {
    std::vector<ModelRow> rows;
    if (most == 0) {
      const Result<Ref<Value>> element = iterator.Next(options);
      if (!element.ok() && IsInterruption(element.status())) return rows;
      if (!element.ok()) return {ModelRow::Failure(std::string(element.status().message()))};
      if (!*element) return {ModelRow::End()};
      return {ModelRow::Of(ElementOf(**element))};
    }
    Slab slab;
    const Status status = iterator.NextSlab(most, options, &slab);
    if (IsInterruption(status)) return rows;
    EXPECT_TRUE(status.ok()) << status.ToString();
    for (int64_t i = 0; i < slab.rows; ++i) {
      rows.push_back(ModelRow::Of(ElementOf(*slab.Row(i).value())));
    }
    if (!slab.status.ok()) {
      rows.push_back(ModelRow::Failure(std::string(slab.status.message())));
    } else if (slab.end) {
      rows.push_back(ModelRow::End());
    }
    return rows;
  }

  static bool Same(const ModelRow& row, const ModelRow& expected) {
    if (row.end != expected.end || row.failed() != expected.failed()) return false;
    if (row.failed()) return row.failure.find(expected.failure) != std::string::npos;
    return row.end || row.element == expected.element;
  }

  // Whether the pipeline of this seed gives what the model gives.
  bool Agrees(uint64_t seed, bool print, std::string* why) {
    Random random(seed);
    Pipeline pipeline;
    pipeline.caches = Below(random, 4) == 0;
    pipeline.specs_known = pipeline.caches || Below(random, 2) == 0;
    pipeline.passes_over = Below(random, 3) == 0;
    const TempFolder folder;
    pipeline.folder = folder.path();
    AddSource(random, pipeline);
    for (int64_t more = Below(random, 6) + 1; more > 0; --more) AddStep(random, pipeline);
    Ref<Dataset> dataset = pipeline.datasets.at(pipeline.last().get());
    if (Below(random, 4) == 0) dataset = WithinABudget(dataset, pipeline);
    if (print) std::fputs(dataset->Explain().c_str(), stderr);
    Model::Shared shared;
    const std::unique_ptr<Model> model = Model::Make(*pipeline.last(), &shared);
    Ref<Iterator> iterator = Iterate(dataset);
    // The threads of one that nobody closes may outlive the steps that its functions look at.
    struct Closer {
      Ref<Iterator>& open;
      ~Closer() { EXPECT_TRUE(open->Close(CallOptions()).ok()); }
    } const closer{iterator};

    // 0 stands for one by one, -1 for now so many, now so many.
    const int64_t sizes[] = {0, 0, 0, -1, -1, 1, 2, 7, 64, 1000};
    const int64_t size = sizes[Below(random, std::size(sizes))];
    const bool is_hurried = Below(random, 4) == 0;
    std::string so_far;
    int64_t after_the_end = 0;
    // A call that was interrupted may have begun a pass that a snapshot writes in shards, of which
    // the model does not know: what is saved then goes on in another order (CanGoOnElsewhere).
    bool may_have_begun = false;
    for (int outcomes = 0; outcomes < 150 && after_the_end < 2;) {
      if (Below(random, 8) == 0 && !may_have_begun && model->CanGoOnElsewhere()) {
        const Result<std::string> state = iterator->Save(CallOptions());
        EXPECT_TRUE(iterator->Close(CallOptions()).ok());
        iterator = Iterate(dataset);
        const Status status =
            state.ok() ? iterator->Restore(*state, CallOptions()) : state.status();
        so_far += "(restored) ";
        model->GoOnElsewhere();
        if (!status.ok()) {
          *why = so_far + status.ToString() + "\n" + dataset->Explain();
          return false;
        }
      }
      const int64_t most = size < 0 ? Below(random, 5) + 1 : size;
      CallOptions options;
      if (is_hurried && Below(random, 3) == 0) options.deadline = Deadline::At(0);
      const std::vector<ModelRow> rows = Call(*iterator, most, options);
      if (rows.empty()) may_have_begun = pipeline.sharded;
      for (const ModelRow& row : rows) {
        const ModelRow expected = model->Next(false);
        ++outcomes;
        after_the_end += row.end ? 1 : 0;
        if (!Same(row, expected)) {
          *why = Format("{}\nexpected {}\nfound    {}\n{}", so_far, TextOf(expected), TextOf(row),
                        dataset->Explain());
          return false;
        }
        so_far += TextOf(expected) + "; ";
      }
    }
    return true;
  }
};

TEST_F(RowModel, SaysWhatPipelinesGive) {
  const std::optional<uint64_t> given = NumberOf(std::getenv("TUTTI_TEST_SEED"));
  const std::optional<uint64_t> given_first = NumberOf(std::getenv("TUTTI_TEST_FIRST_SEED"));
  const uint64_t first = given_first ? *given_first : std::random_device()();
  if (!given) {
    std::printf("from seed %llu (TUTTI_TEST_FIRST_SEED=%llu repeats them)\n",
                static_cast<unsigned long long>(first), static_cast<unsigned long long>(first));
    std::fflush(stdout);
  }
  const auto begin = std::chrono::steady_clock::now();
  SeededRuns runs("pipelines", kPipelines);
  int failed = 0;
  while (failed < 5 && std::chrono::steady_clock::now() - begin < SeededRuns::kMostTime &&
         runs.Next()) {
    const uint64_t seed = given ? *given : first + runs.number();
    std::string why;
    if (!Agrees(seed, given.has_value(), &why)) {
      ADD_FAILURE() << "TUTTI_TEST_SEED=" << seed << " (the first was " << first << ")\n" << why;
      ++failed;
    }
    if (given) break;
  }
}

}  // namespace
}  // namespace tutti
