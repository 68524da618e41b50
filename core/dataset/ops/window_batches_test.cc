#include <gmock/gmock.h>

#include <cstdlib>
#include <random>

#include "core/base/seeded_runs_testing.h"
#include "core/dataset/expression/dataset_function.h"
#include "core/dataset/graph/run_report.h"
#include "core/dataset/testing/op_walks_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFused = "batches of windows are made in one operation";

// What a function makes of its windows.
enum class Form : uint8_t { kBatch, kBatchOfZip, kZipOfBatches };

class WindowBatches : public OpWalksTest {
 protected:
  // The traced function of `windows` that makes batches of the datasets in the components named.
  Ref<Function> Batches(const Ref<Dataset>& windows, Form form, int64_t size, bool drop_remainder,
                        const std::vector<int64_t>& components = {0}) {
    const Ref<Expression> trace = Expression::Create(windows->promised_spec()).value();
    std::vector<Ref<Value>> datasets;
    for (const int64_t component : components) {
      const int64_t node = trace->Parameter(component).value();
      Ref<Dataset> dataset =
          MakeTracedSource(datasets_, trace.get(), "element",
                           Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {&node, 1})
              .value();
      if (form != Form::kBatchOfZip) dataset = Ok(dataset->Batch(size, drop_remainder));
      datasets.push_back(Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(dataset))));
    }
    Ref<Dataset> made =
        Ref<Dataset>::Retain(const_cast<Dataset*>(datasets[0]->leaf(0).object_as<Dataset>()));
    if (form != Form::kBatch) made = Ok(Dataset::Zip(datasets_, *Value::Tuple(datasets), ""));
    if (form == Form::kBatchOfZip) made = Ok(made->Batch(size, drop_remainder));
    return MakeDatasetFunction(trace, *made).value();
  }
  Ref<Dataset> Batched(const Ref<Dataset>& windows, int64_t size, bool drop_remainder = false) {
    return Ok(windows->FlatMap(Batches(windows, Form::kBatch, size, drop_remainder)));
  }
  static Ref<Dataset> AsWritten(const Ref<Dataset>& dataset) {
    DatasetOptions options;
    EXPECT_TRUE(
        options.SetBool("experimental_optimization.apply_default_optimizations", false).ok());
    return Ok(dataset->WithOptions(options));
  }
  // Both ways.
  void ExpectWalks(const std::vector<OpWalk>& walks) {
    std::vector<OpWalk> both = walks;
    for (const OpWalk& walk : walks) {
      both.push_back(walk);
      both.back().name += ", as written";
      both.back().build = [this, build = walk.build] { return AsWritten(build()); };
    }
    ExpectAllWalks(both);
  }
  static std::string ExplainedRun(const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    std::string text = iterator->Explain().ToText();
    Close(*iterator);
    return text;
  }
  static std::string Saved(Iterator& iterator) {
    const Result<std::string> state = iterator.Save(CallOptions());
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    return state.ok() ? *state : "";
  }

  // Fails for the numbers that have a bit in *bits.
  static Ref<TestFunction> FailsAt(uint64_t* bits) {
    return MakeFunction(
        [](Context&, const Value& in, void* bits) -> Result<Ref<Value>> {
          const int64_t number = NumberIn(in);
          if (*static_cast<const uint64_t*>(bits) >> (number % 64) & 1) {
            return Status(StatusCode::kDataLoss, Format("{} is bad", number));
          }
          return Number(number);
        },
        {.data = bits, .spec = Int64Scalar()});
  }
  // x -> x zeros.
  static Ref<TestFunction> Zeros() {
    return MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                                 Tensor::Create(DType::kInt64, Shape({NumberIn(in) / 2})));
          return Value::OfTensor(std::move(out));
        },
        {.spec = ElementSpec::OfTensor(DType::kInt64,
                                       PartialShape({PartialShape::kUnknownDim}))});
  }
  Ref<Dataset> Pairs(int64_t rows) {
    std::vector<int32_t> left;
    std::vector<std::string> texts;
    for (int64_t i = 0; i < rows; ++i) {
      left.push_back(static_cast<int32_t>(10 * i));
      left.push_back(static_cast<int32_t>(10 * i + 1));
      texts.push_back(Format("t{}", i));
    }
    std::vector<BytesView> views;
    for (const std::string& text : texts) views.push_back({text.data(), text.size()});
    return Ok(Dataset::FromTensorSlices(
        datasets_,
        Value::Tuple({Value::OfTensor(Tensor::FromSpan<int32_t>(Shape({rows, 2}), left).value()),
                      Value::OfTensor(Tensor::FromStrings(Shape({rows}), views).value())})));
  }

  uint64_t bad_ = 0;
};

TEST_F(WindowBatches, WalkAsItShould) {
  bad_ = uint64_t{1} << 3;
  ExpectWalks({
      {"one behind the other", [&] { return Batched(Ok(Range(7)->Window(3)), 3); },
       {"[0 1 2]", "[3 4 5]", "[6]"}},
      {"of half a window", [&] { return Batched(Ok(Range(10)->Window(4)), 2); },
       {"[0 1]", "[2 3]", "[4 5]", "[6 7]", "[8 9]"}},
      {"of parts of a window", [&] { return Batched(Ok(Range(12)->Window(5)), 2); },
       {"[0 1]", "[2 3]", "[4]", "[5 6]", "[7 8]", "[9]", "[10 11]"}},
      {"of parts of a window, dropped", [&] { return Batched(Ok(Range(12)->Window(5)), 2, true); },
       {"[0 1]", "[2 3]", "[5 6]", "[7 8]", "[10 11]"}},
      {"larger than a window", [&] { return Batched(Ok(Range(5)->Window(2)), 9); },
       {"[0 1]", "[2 3]", "[4]"}},
      {"larger than a window, dropped", [&] { return Batched(Ok(Range(50)->Window(2)), 3, true); },
       {}},
      {"overlapping", [&] { return Batched(Ok(Range(5)->Window(3, 1)), 3); },
       {"[0 1 2]", "[1 2 3]", "[2 3 4]", "[3 4]", "[4]"}},
      {"overlapping, dropped", [&] { return Batched(Ok(Range(6)->Window(3, 1, 1, true)), 3); },
       {"[0 1 2]", "[1 2 3]", "[2 3 4]", "[3 4 5]"}},
      {"overlapping parts", [&] { return Batched(Ok(Range(8)->Window(4, 3)), 2); },
       {"[0 1]", "[2 3]", "[3 4]", "[5 6]", "[6 7]"}},
      {"apart", [&] { return Batched(Ok(Range(10)->Window(2, 4)), 2); },
       {"[0 1]", "[4 5]", "[8 9]"}},
      {"with a stride", [&] { return Batched(Ok(Range(9)->Window(3, 2, 2)), 3); },
       {"[0 2 4]", "[2 4 6]", "[4 6 8]", "[6 8]", "[8]"}},
      {"of nothing", [&] { return Batched(Ok(Range(0)->Window(2)), 2); }, {}},
      {"of a failed element", [&] {
         return Batched(Ok(Ok(Range(9)->Map(FailsAt(&bad_)))->Window(2)), 2);
       }, {"[0 1]", "!3 is bad", "[4 5]", "[6 7]", "[8]"}},
      {"of a failed element in several", [&] {
         return Batched(Ok(Ok(Range(7)->Map(FailsAt(&bad_)))->Window(3, 1)), 2);
       }, {"[0 1]", "[2]", "!3 is bad", "!3 is bad", "!3 is bad", "[4 5]", "[6]", "[5 6]", "[6]"}},
      {"of a failed element between", [&] {
         return Batched(Ok(Ok(Range(9)->Map(FailsAt(&bad_)))->Window(2, 4)), 2);
       }, {"[0 1]", "[4 5]", "[8]"}},
      {"of batches", [&] { return Batched(Ok(Ok(Range(9)->Batch(2, true))->Window(3)), 3); },
       {"[[0 1] [2 3] [4 5]]", "[[6 7]]"}},
      {"of other shapes", [&] { return Batched(Ok(Ok(Range(6)->Map(Zeros()))->Window(3)), 2); },
       {"[]", "[[0]]", "!batch: element 1 has shape [2], element 0 has [1]", "[[0 0]]"}},
      {"in a cycle of one", [&] {
         const Ref<Dataset> windows = Ok(Range(7)->Window(3));
         return Ok(windows->Interleave(Batches(windows, Form::kBatch, 3, false), 1, 2));
       }, {"[0 1 2]", "[3 4 5]", "[6]"}},
      {"infinite", [&] { return Batched(Ok(Ok(Range(3)->Repeat(-1))->Window(2)), 2); },
       {"[0 1]", "[2 0]", "[1 2]", "[0 1]"}, true},
      {"of a zip", [&] {
         const Ref<Dataset> windows = Ok(Pairs(4)->Window(2, 1, 1, true));
         return Ok(windows->FlatMap(Batches(windows, Form::kBatchOfZip, 2, false, {1, 0})));
       },
       {"([\"t0\" \"t1\"], [[0 1] [10 11]])", "([\"t1\" \"t2\"], [[10 11] [20 21]])",
        "([\"t2\" \"t3\"], [[20 21] [30 31]])"}},
      {"of batches, zipped", [&] {
         const Ref<Dataset> windows = Ok(Pairs(3)->Window(2));
         return Ok(windows->FlatMap(Batches(windows, Form::kZipOfBatches, 1, false, {0, 1})));
       },
       {"([[0 1]], [\"t0\"])", "([[10 11]], [\"t1\"])", "([[20 21]], [\"t2\"])"}},
  });
}

TEST_F(WindowBatches, SayThatTheyAreOne) {
  const Ref<Dataset> windows = Ok(Range(9)->Window(3));
  const Ref<Dataset> batches = Batched(windows, 3);
  EXPECT_THAT(ExplainedRun(batches), HasSubstr(kFused));
  EXPECT_THAT(ExplainedRun(AsWritten(batches)), Not(HasSubstr(kFused)));
  EXPECT_EQ(SpecText(batches), "int64[?]");
  EXPECT_EQ(SpecText(Batched(windows, 2, true)), "int64[2]");
  EXPECT_EQ(batches->cardinality(), kUnknownCardinality);
  // What is not known before the first element is not relied on.
  const Ref<Dataset> learnt = Ok(Range(9)->Map(AddOne(nullptr)));
  ASSERT_TRUE(learnt->GetElementSpec(CallOptions()).ok());
  const Ref<Dataset> some = Ok(learnt->Window(3));
  EXPECT_THAT(ExplainedRun(Ok(some->FlatMap(Batches(windows, Form::kBatch, 3, false)))),
              Not(HasSubstr(kFused)));
  EXPECT_THAT(ExplainedRun(Ok(windows->Interleave(Batches(windows, Form::kBatch, 3, false), 2))),
              Not(HasSubstr(kFused)));
}

TEST_F(WindowBatches, GoOnFromWhatTheTwoHaveSaved) {
  const Ref<Dataset> batches = Batched(Ok(Range(12)->Window(4)), 2);
  const Ref<Iterator> two = Iterate(AsWritten(batches));
  EXPECT_THAT(Take(*two, 3), ElementsAre("[0 1]", "[2 3]", "[4 5]"));
  const Ref<Iterator> one = Iterate(batches);
  const Status restored = one->Restore(Saved(*two), CallOptions());
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  EXPECT_EQ(Next(*one), "[6 7]");
  // It stays what the two save.
  const Ref<Iterator> again = Iterate(AsWritten(batches));
  ASSERT_TRUE(again->Restore(Saved(*one), CallOptions()).ok());
  EXPECT_THAT(All(*again), ElementsAre("[8 9]", "[10 11]"));
  EXPECT_THAT(All(*one), ElementsAre("[8 9]", "[10 11]"));
  for (const Ref<Iterator>& iterator : {two, one, again}) Close(*iterator);
}

TEST_F(WindowBatches, TellTheTwoWhatTheyCannotGoOnFrom) {
  const Ref<Dataset> batches = Batched(Ok(Range(12)->Window(4)), 2);
  const Ref<Iterator> one = Iterate(batches);
  EXPECT_EQ(Next(*one), "[0 1]");
  const Ref<Iterator> two = Iterate(AsWritten(batches));
  const Status refused = two->Restore(Saved(*one), CallOptions());
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("apply_default_optimizations true"));
  EXPECT_EQ(Next(*two), "[0 1]");
  Close(*one);
  Close(*two);
}

TEST_F(WindowBatches, AreWrittenAndRead) {
  const Ref<Dataset> windows = Ok(Pairs(5)->Window(2, 1));
  const Ref<Dataset> batches =
      Ok(windows->FlatMap(Batches(windows, Form::kBatchOfZip, 2, false, {0, 1})));
  const Result<std::string> written = batches->Serialize();
  ASSERT_TRUE(written.ok()) << written.status().ToString();
  const Ref<Dataset> read = Ok(Dataset::Deserialize(datasets_, *written));
  EXPECT_EQ(All(read), All(batches));
  EXPECT_THAT(ExplainedRun(read), HasSubstr(kFused));
  EXPECT_EQ(*read->Serialize(), *written);
}

TEST_F(WindowBatches, RefuseTensorsAndUsesOfTensors) {
  const Ref<Dataset> windows = Ok(Range(9)->Window(3));
  const Ref<Expression> trace = Expression::Create(windows->promised_spec()).value();
  const int64_t window = trace->Parameter(0).value();
  const auto leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  EXPECT_THAT(std::string(trace->Apply("negative", {{window}}, {}).status().message()),
              HasSubstr("is a dataset, and a tensor is needed"));
  EXPECT_THAT(std::string(MakeTracedSource(datasets_, trace.get(), "from_tensors", leaf,
                                           {&window, 1}).status().message()),
              HasSubstr("is a dataset, and a tensor is needed"));
  const int64_t two = trace->Constant(Tensor::Scalar<int64_t>(2), false).value();
  EXPECT_THAT(std::string(MakeTracedSource(datasets_, trace.get(), "element", leaf,
                                           {&two, 1}).status().message()),
              HasSubstr("is a tensor"));
  // Nodes beside them have to be computed of an element that is no tensor.
  const Ref<Dataset> element =
      MakeTracedSource(datasets_, trace.get(), "element", leaf, {&window, 1}).value();
  EXPECT_EQ(Iterator::Create(element, {}, CallOptions()).status().code(),
            StatusCode::kFailedPrecondition);
  const Ref<Dataset> taken = MakeTracedCount(*element, trace.get(), "take", two).value();
  EXPECT_THAT(std::string(MakeDatasetFunction(trace, *taken).status().message()),
              HasSubstr("elements must be tensors"));
}

// Random windows, batches and steps over them: what one operation gives is what the two give.
TEST_F(WindowBatches, AreWhatTheTwoGive) {
  const std::optional<uint64_t> given = NumberOf(std::getenv("TUTTI_TEST_SEED"));
  const uint64_t first = given ? *given : std::random_device()();
  std::printf("from seed %llu (TUTTI_TEST_SEED repeats one)\n",
              static_cast<unsigned long long>(first));
  SeededRuns runs("pipelines", given ? 1 : 1500);
  while (runs.Next() && !HasFailure()) {
    const uint64_t seed = first + runs.number();
    SCOPED_TRACE(Format("TUTTI_TEST_SEED={}", seed));
    std::mt19937_64 random(seed);
    const auto below = [&random](uint64_t count) { return static_cast<int64_t>(random() % count); };
    bad_ = below(2) == 0 ? 0 : random() & random() & random();
    const int64_t rows = below(60);
    const int64_t source = below(5);
    Ref<Dataset> input = source == 0   ? Range(rows)
                         : source == 1 ? Ok(Range(rows)->Map(FailsAt(&bad_)))
                         : source == 2 ? Ok(Range(rows)->Batch(below(3) + 1, below(2) == 0))
                         : source == 3 ? Ok(Range(rows)->Map(Zeros()))
                                       : Pairs(rows);
    if (below(3) == 0) input = Ok(input->Repeat(2));
    if (below(3) == 0) input = Ok(Ok(input->Batch(below(4) + 1))->Unbatch());
    const int64_t size = below(7) + 1;
    const Ref<Dataset> windows =
        Ok(input->Window(size, below(8) + 1, below(3) + 1, below(2) == 0));
    const Form form = source < 4 ? Form::kBatch
                                 : below(2) == 0 ? Form::kBatchOfZip : Form::kZipOfBatches;
    const std::vector<int64_t> components =
        source < 4 ? std::vector<int64_t>{0}
                   : below(2) == 0 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 0, 1};
    Ref<Dataset> batches =
        Ok(windows->FlatMap(Batches(windows, form, below(8) + 1, below(2) == 0, components)));
    const int64_t behind = below(5);
    if (behind == 0) batches = Ok(batches->Skip(below(10)));
    if (behind == 1) batches = Ok(batches->Repeat(2));
    if (behind == 2) batches = Ok(Ok(batches->Take(below(20)))->Prefetch(2));
    const Ref<Dataset> two = AsWritten(batches);
    const std::vector<std::string> expected = All(two);
    std::vector<std::string> found;
    Ref<Iterator> iterator = Iterate(batches);
    if (below(4) == 0) {
      // From somewhere in what the two do.
      const Ref<Iterator> start = Iterate(two);
      found = Take(*start, below(6));
      ASSERT_TRUE(iterator->Restore(Saved(*start), CallOptions()).ok());
      Close(*start);
    }
    for (bool ended = false; !ended && found.size() <= expected.size();) {
      const int64_t step = below(10);
      if (step == 0) {
        const Ref<Iterator> other = Iterate(batches);
        const Status restored = other->Restore(Saved(*iterator), CallOptions());
        ASSERT_TRUE(restored.ok()) << restored.ToString();
        Close(*iterator);
        iterator = other;
      } else if (step < 5) {
        const std::vector<std::string> one = Take(*iterator, 1);
        ended = one.empty();
        found.insert(found.end(), one.begin(), one.end());
      } else {
        Slab slab;
        ASSERT_TRUE(iterator->NextSlab(below(12) + 1, CallOptions(), &slab).ok());
        for (int64_t i = 0; i < slab.rows; ++i) found.push_back((*slab.Row(i))->ToString());
        if (!slab.status.ok()) found.push_back("!" + std::string(slab.status.message()));
        ended = slab.end;
      }
    }
    Close(*iterator);
    EXPECT_EQ(found, expected) << batches->Explain();
  }
}

}  // namespace
}  // namespace tutti
