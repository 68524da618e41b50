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
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/dataset/testing/row_model_datasets.h"

namespace tutti {
namespace {

constexpr uint64_t kPipelines = 2'000;

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

class RowModel : public RowModelDatasets {
 protected:
  using Random = std::mt19937_64;

  static int64_t Below(Random& random, int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
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
        step.salt = Below(random, 4);
        if (step.salt == kModelPadsToBoundary &&
            !PromisedShapes(*pipeline.datasets.at(input.get()))) {
          step.salt = 0;
        }
        break;
      case Op::kAssertCardinality:
        step.a = Below(random, 18) - 1;
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
