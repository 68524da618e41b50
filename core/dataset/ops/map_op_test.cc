// map, filter and from_generator: the ops that call the host.
#include <gmock/gmock.h>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Map : public DatasetTest {};

Result<Ref<Value>> FailAtThree(Context&, const Value& in, void*) {
  if (NumberIn(in) == 3) return Status(StatusCode::kDataLoss, "three is bad").With("file", "f");
  return Number(NumberIn(in) * 10);
}

// x -> x + 1 on slabs; names the row that holds 3 when `data` says so.
Result<Ref<Value>> AddOneToSlab(Context&, const Value& in, void* data) {
  const std::span<const int64_t> numbers = in.AsTensor()->span<int64_t>();
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(DType::kInt64, in.AsTensor()->shape()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (data != nullptr && numbers[i] == 3) {
      return Status(StatusCode::kDataLoss, "three is bad").With("row", i);
    }
    out->mutable_span<int64_t>()[i] = numbers[i] + 1;
  }
  return Value::OfTensor(std::move(out));
}

TEST_F(Map, ReplacesEveryElement) {
  EXPECT_THAT(Numbers(Ok(Range(1, 6)->Map(AddOne()))), ElementsAre(2, 3, 4, 5, 6));
}

TEST_F(Map, CallsARowFunctionOncePerElementAndNeverBeyondTheDemand) {
  const Ref<TestFunction> add = AddOne();
  const Ref<Dataset> batches = Ok(Ok(Ok(Range(100)->Map(add))->Take(7))->Batch(5));
  const Ref<Iterator> iterator = Iterate(batches);
  EXPECT_EQ(add->calls, 0);
  EXPECT_EQ(Next(*iterator), "[1 2 3 4 5]");
  EXPECT_EQ(add->calls, 5);
  EXPECT_EQ(Next(*iterator), "[6 7]");
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_EQ(add->calls, 7);
}

TEST_F(Map, DoesNotCallTheFunctionForElementsThatAreSkipped) {
  const Ref<TestFunction> add = AddOne();
  EXPECT_THAT(Numbers(Ok(Ok(Range(6)->Map(add))->Skip(4))), ElementsAre(5, 6));
  EXPECT_EQ(add->calls, 2);
}

TEST_F(Map, LearnsItsSpecFromTheFirstElementWithoutAnExtraCall) {
  const Ref<TestFunction> add = AddOne(nullptr);
  const Ref<Dataset> mapped = Ok(Ok(Range(3)->Map(add))->Batch(2));
  EXPECT_EQ(mapped->known_element_spec().get(), nullptr);
  const Ref<Iterator> iterator = Iterate(mapped);
  EXPECT_EQ(iterator->element_spec()->ToString(), "int64[?]");
  EXPECT_THAT(All(*iterator), ElementsAre("[1 2]", "[3]"));
  EXPECT_EQ(add->calls, 3);
  EXPECT_EQ(SpecText(mapped), "int64[?]");
  EXPECT_EQ(add->calls, 3);
}

TEST_F(Map, ComputesOneElementWhenAskedForASpecThatNobodyGave) {
  const Ref<TestFunction> add = AddOne(nullptr);
  const Ref<Dataset> mapped = Ok(Range(3)->Map(add, Named("mine")));
  EXPECT_EQ(SpecText(Ok(mapped->Batch(2, true))), "int64[2]");
  EXPECT_EQ(add->calls, 1);
  EXPECT_THAT(SpecText(Ok(Range(0)->Map(AddOne(nullptr), Named("mine")))),
              HasSubstr("map 'mine' has no output spec, and no element to learn it from"));
}

TEST_F(Map, HoldsResultsToThePromisedSpec) {
  const Ref<Dataset> wrong =
      Ok(Range(3)->Map(AddOne(ElementSpec::OfTensor(DType::kFloat32, PartialShape({2})))));
  EXPECT_EQ(Next(*Iterate(wrong)),
            "!map: element 0: the function's result: expected float32[2], found int64[]");
}

TEST_F(Map, ConvertsResultsToThePromisedDType) {
  const auto halves = [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    if (NumberIn(in) == 1) return Number(7);
    return Value::OfTensor(Tensor::Scalar(0.5 * static_cast<double>(NumberIn(in))));
  };
  for (const int parallel : {0, 2}) {
    const Ref<Dataset> mapped = Ok(Range(3)->Map(
        MakeFunction(halves, {.spec = ElementSpec::OfTensor(DType::kFloat32, PartialShape({}))}),
        Parallel(parallel)));
    EXPECT_EQ(SpecText(mapped), "float32[]");
    const Ref<Iterator> iterator = Iterate(mapped);
    for (const float expected : {0.0f, 7.0f, 1.0f}) {
      EXPECT_EQ(iterator->Next(CallOptions()).value()->AsTensor()->item<float>(), expected);
    }
    EXPECT_EQ(All(Ok(mapped->Batch(3))), std::vector<std::string>{"[0 7 1]"});
  }
}

TEST_F(Map, RefusesResultsThatThePromisedDTypeDoesNotHold) {
  const Ref<Dataset> mapped = Ok(Range(3)->Map(MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Value::Tuple({Number(NumberIn(in)), Number(NumberIn(in) * 3000000000)});
      },
      {.spec = ElementSpec::Tuple(std::vector<Ref<const ElementSpec>>{
           ElementSpec::OfTensor(DType::kInt8, PartialShape::Scalar()),
           ElementSpec::OfTensor(DType::kInt32, PartialShape::Scalar())})})));
  EXPECT_THAT(
      All(*Iterate(mapped)),
      ElementsAre("(0, 0)",
                  "!map: element 1: the function's result: expected int32[] at [1], found int64[]: "
                  "3000000000 does not fit into int32; int64 holds it (in Python np.int64)",
                  HasSubstr("!map: element 2: the function's result: expected int32[] at [1]")));
}

TEST_F(Map, ConvertsSlabsOfResultsAndNamesTheRowThatDoesNotFit) {
  const Ref<TestFunction> powers = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const std::span<const int64_t> numbers = in.AsTensor()->span<int64_t>();
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                               Tensor::Create(DType::kInt64, in.AsTensor()->shape()));
        for (size_t i = 0; i < numbers.size(); ++i) {
          out->mutable_span<int64_t>()[i] = numbers[i] == 2 ? 300 : numbers[i];
        }
        return Value::OfTensor(std::move(out));
      },
      {.spec = ElementSpec::OfTensor(DType::kInt8, PartialShape::Scalar()),
       .granularity = Granularity::kSlab});
  const Ref<Dataset> mapped = Ok(Range(5)->Map(powers));
  EXPECT_EQ(SpecText(mapped), "int8[]");
  const Ref<Iterator> iterator = Iterate(Ok(mapped->Batch(4)));
  EXPECT_THAT(Next(*iterator), AllOf(HasSubstr("map: element 2: the function's result"),
                                     HasSubstr("300 does not fit into int8")));
  EXPECT_EQ(Next(*iterator), "[0 1 3 4]");
}

TEST_F(Map, MakesLaterIntegersThoseOfTheFirstResult) {
  const auto result = [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    switch (NumberIn(in)) {
      case 0: return Value::OfTensor(Tensor::Scalar<int32_t>(5));
      case 1: return Number(6);
      case 2: return Number(3000000000);
      default: return Value::OfTensor(Tensor::Scalar(1.0));
    }
  };
  const Ref<Iterator> iterator = Iterate(Ok(Range(4)->Map(MakeFunction(result))));
  EXPECT_EQ(Next(*iterator), "5");
  const Ref<Value> second = iterator->Next(CallOptions()).value();
  EXPECT_EQ(second->AsTensor()->dtype(), DType::kInt32);
  EXPECT_THAT(Next(*iterator), HasSubstr("expected int32[] as in the first result, found int64[]: "
                                         "3000000000 does not fit into int32; int64 holds it"));
  EXPECT_THAT(Next(*iterator), HasSubstr("expected int32[] as in the first result, found "
                                         "float64[]: an output spec says"));
}

TEST_F(Map, HoldsLaterResultsToTheFirstOnesStructure) {
  const Ref<Dataset> changes =
      Ok(Range(3)->Map(MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 1) return Value::Tuple({Number(1)});
        if (NumberIn(in) == 2) return Value::OfTensor(Tensor::Scalar(2.0f));
        return Number(0);
      })));
  const Ref<Iterator> iterator = Iterate(changes);
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_THAT(Next(*iterator), HasSubstr("map: element 1: the function's result"));
  EXPECT_THAT(Next(*iterator),
              HasSubstr("expected int64[] as in the first result, found float32[]"));
}

TEST_F(Map, ErrorNamesNodeAndElementKeepsItsDetailsAndTheNextCallGoesOnBehindIt) {
  const Ref<Dataset> mapped =
      Ok(Range(5)->Map(MakeFunction(FailAtThree, {.spec = Int64Scalar()}), Named("times")));
  const Ref<Iterator> iterator = Iterate(mapped);
  EXPECT_THAT(Take(*iterator, 3), ElementsAre("0", "10", "20"));
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "map 'times': element 3: three is bad");
  EXPECT_EQ(std::get<int64_t>(status.FindDetail("index")->value), 3);
  EXPECT_EQ(std::get<std::string>(status.FindDetail("file")->value), "f");
  EXPECT_EQ(std::get<std::string>(status.FindDetail("node")->value), "map 'times'");
  EXPECT_THAT(All(*iterator), ElementsAre("40"));
}

// Throws for 1 and 3.
Ref<TestFunction> Throws(Granularity granularity = Granularity::kRow) {
  return MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const int64_t number = in.leaf().tensor().rank() == 0 ? NumberIn(in) : 1;
        if (number == 1) throw std::runtime_error("no such row");
        if (number == 3) throw std::bad_alloc();
        return Number(number);
      },
      {.spec = Int64Scalar(), .granularity = granularity});
}

TEST_F(Map, AnExceptionOfTheFunctionIsItsElementsFailure) {
  const std::string thrown =
      "!map: element 1: the function: an exception: no such row; catch it in the function that "
      "throws it, or, if that is none of yours, report it";
  for (int64_t parallel : {0, 3}) {
    const Ref<Dataset> mapped = Ok(Range(5)->Map(Throws(), Parallel(parallel)));
    EXPECT_THAT(All(mapped), ElementsAre("0", thrown, "2", "!map: element 3: out of memory", "4"));
    EXPECT_THAT(All(Ok(mapped->Prefetch(4))),
                ElementsAre("0", thrown, "2", "!map: element 3: out of memory", "4"));
    const Ref<Iterator> batches = Iterate(Ok(mapped->Batch(2)));
    EXPECT_EQ(Next(*batches), thrown);
    EXPECT_TRUE(batches->Close(CallOptions()).ok());
  }
  const Ref<Iterator> slabs = Iterate(Ok(Range(5)->Map(Throws(Granularity::kSlab))));
  EXPECT_EQ(slabs->Next(CallOptions()).status().code(), StatusCode::kInternal);
  EXPECT_TRUE(slabs->Close(CallOptions()).ok());
}

TEST_F(Map, OfSlabsCallsOncePerSlab) {
  const Ref<TestFunction> add =
      MakeFunction(AddOneToSlab, {.spec = Int64Scalar(), .granularity = Granularity::kSlab});
  EXPECT_THAT(All(Ok(Ok(Range(8)->Map(add))->Batch(4))), ElementsAre("[1 2 3 4]", "[5 6 7 8]"));
  EXPECT_EQ(add->calls, 2);
}

TEST_F(Map, OfSlabsGoesOnAroundTheRowThatTheFunctionNames) {
  int flag = 0;
  const Ref<TestFunction> add = MakeFunction(
      AddOneToSlab, {.data = &flag, .spec = Int64Scalar(), .granularity = Granularity::kSlab});
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(8)->Map(add))->Batch(4)));
  EXPECT_EQ(Next(*iterator), "!map: element 3: three is bad");
  EXPECT_EQ(Next(*iterator), "[1 2 3 5]");
  EXPECT_EQ(Next(*iterator), "[6 7 8]");
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(Map, OfSlabsDemandsARowPerRow) {
  const Ref<Dataset> mapped = Ok(Range(8)->Map(
      MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> { return Number(1); },
                   {.granularity = Granularity::kSlab})));
  EXPECT_THAT(Next(*Iterate(Ok(mapped->Batch(4)))),
              AllOf(HasSubstr("got 4 rows"), HasSubstr("leaf 0 is int64[]")));
}

TEST_F(Map, RefusesParallelismBelowAutotune) {
  EXPECT_THAT(std::string(Range(3)->Map(AddOne(), Parallel(-2)).status().message()),
              HasSubstr("num_parallel_calls must be 0 or more, or -1 (AUTOTUNE), got -2"));
}

TEST_F(Map, FunctionThatGivesUpByItselfIsAnElementsFailure) {
  const Ref<Dataset> mapped = Ok(Range(3)->Map(MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 1) return Status(StatusCode::kCancelled, "no more");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()})));
  const Ref<Iterator> iterator = Iterate(mapped);
  EXPECT_EQ(Next(*iterator), "0");
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no more"));
  EXPECT_EQ(Next(*iterator), "2");
}

TEST_F(Map, CallbackMayBuildDatasetsAndNotIterate) {
  struct Parts {
    Ref<Dataset> dataset;
    Ref<Iterator> iterator;
    std::vector<Status> refusals;
  } parts{Range(3), Iterate(Range(3)), {}};
  const Ref<Dataset> mapped = Ok(Range(1)->Map(MakeFunction(
      [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        Parts& parts = *static_cast<Parts*>(data);
        parts.refusals.push_back(parts.iterator->Next(CallOptions()).status());
        parts.refusals.push_back(Iterator::Create(parts.dataset, {}, CallOptions()).status());
        parts.refusals.push_back(parts.iterator->Save(CallOptions()).status());
        parts.refusals.push_back(parts.iterator->Close(CallOptions()));
        TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> built, parts.dataset->Batch(2));
        return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(built)));
      },
      {.data = &parts})));
  const Ref<Value> element = Iterate(mapped)->Next(CallOptions()).value();
  EXPECT_EQ(LeafSpec::Of(element->leaf()).ToString(), "dataset(int64[?])");
  ASSERT_EQ(parts.refusals.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(parts.refusals[i].code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(parts.refusals[i].message()), HasSubstr("a dataset callback"));
  }
}

class Filter : public DatasetTest {};

Ref<TestFunction> IsOdd() {
  return MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    return Value::OfTensor(Tensor::Scalar(NumberIn(in) % 2 == 1));
  });
}

TEST_F(Filter, KeepsWhatThePredicateAccepts) {
  const Ref<Dataset> odd = Ok(Range(10)->Filter(IsOdd()));
  EXPECT_THAT(Numbers(odd), ElementsAre(1, 3, 5, 7, 9));
  EXPECT_THAT(All(Ok(odd->Batch(2))), ElementsAre("[1 3]", "[5 7]", "[9]"));
  EXPECT_EQ(SpecText(odd), "int64[]");
}

TEST_F(Filter, BySlabKeepsTheSame) {
  const Ref<TestFunction> is_odd = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const std::span<const int64_t> numbers = in.AsTensor()->span<int64_t>();
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                               Tensor::Create(DType::kBool, in.AsTensor()->shape()));
        for (size_t i = 0; i < numbers.size(); ++i) {
          out->mutable_span<bool>()[i] = numbers[i] % 2 == 1;
        }
        return Value::OfTensor(std::move(out));
      },
      {.granularity = Granularity::kSlab});
  EXPECT_THAT(All(Ok(Ok(Range(10)->Filter(is_odd))->Batch(3))), ElementsAre("[1 3 5]", "[7 9]"));
}

TEST_F(Filter, WantsABooleanScalar) {
  EXPECT_EQ(Next(*Iterate(Ok(Range(3)->Filter(AddOne(nullptr))))),
            "!filter: element 0: the function's result: expected bool[], found int64[]: 1 is an "
            "integer, which never becomes a boolean; give bool, or declare int64");
  EXPECT_THAT(std::string(Range(3)->Filter(AddOne()).status().message()),
              HasSubstr("must give a boolean scalar, and gives int64[]"));
}

TEST_F(Filter, NeverCallsBeyondTheDemand) {
  const Ref<TestFunction> odd = IsOdd();
  EXPECT_THAT(Numbers(Ok(Ok(Range(100)->Filter(odd))->Take(2))), ElementsAre(1, 3));
  EXPECT_EQ(odd->calls, 4);
}

class FromGenerator : public DatasetTest {
 protected:
  // Counts from 0 to 2, as often as it is started; an element of 1 fails once.
  struct Counters {
    std::atomic<int> starts{0};
    int64_t next = 0;
    bool fails = false;
    bool misfits = false;
    bool throws = false;
  };
  Ref<Dataset> Counting(Counters* counters, DType dtype = DType::kInt64) {
    const Ref<TestFunction> start = MakeFunction(
        [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
          auto* counters = static_cast<Counters*>(data);
          ++counters->starts;
          counters->next = 0;
          return Value::OfString("state");
        },
        {.data = counters});
    const Ref<TestFunction> next = MakeFunction(
        [](Context&, const Value& state, void* data) -> Result<Ref<Value>> {
          auto* counters = static_cast<Counters*>(data);
          EXPECT_EQ(state.leaf().string(), "state");
          const int64_t number = counters->next++;
          if (number == 1 && counters->fails) return Status(StatusCode::kDataLoss, "one is bad");
          if (number == 1 && counters->throws) throw std::runtime_error("one is bad");
          if (number == 1 && counters->misfits) return Value::OfTensor(Tensor::Scalar(1.0f));
          if (number > 2) return Value::None();
          return Number(number);
        },
        {.data = counters});
    return Ok(Dataset::FromGenerator(datasets_, start, next,
                                     ElementSpec::OfTensor(dtype, PartialShape::Scalar()),
                                     "counting"));
  }
};

TEST_F(FromGenerator, YieldsUntilNothingComes) {
  Counters counters;
  const Ref<Dataset> dataset = Counting(&counters);
  EXPECT_THAT(Numbers(dataset), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(dataset->Repeat(2))), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(counters.starts, 3);
  EXPECT_EQ(dataset->cardinality(), kUnknownCardinality);
  EXPECT_EQ(SpecText(dataset), "int64[]");
}

TEST_F(FromGenerator, GoesOnBehindAnElementThatFailed) {
  Counters counters;
  counters.fails = true;
  const Ref<Iterator> iterator = Iterate(Counting(&counters));
  EXPECT_THAT(All(*iterator),
              ElementsAre("0", "!from_generator 'counting': element 1: one is bad", "2"));
}

TEST_F(FromGenerator, AnExceptionIsItsElementsFailure) {
  Counters counters;
  counters.throws = true;
  const std::vector<std::string> elements = All(*Iterate(Counting(&counters)));
  EXPECT_THAT(elements, ElementsAre("0",
                                    "!from_generator 'counting': element 1: the generator: an "
                                    "exception: one is bad; catch it in the function that throws "
                                    "it, or, if that is none of yours, report it",
                                    "2"));
}

TEST_F(FromGenerator, HoldsElementsToTheSpec) {
  Counters counters;
  counters.misfits = true;
  const Ref<Iterator> iterator = Iterate(Counting(&counters));
  EXPECT_THAT(All(*iterator),
              ElementsAre("0",
                          "!from_generator 'counting': element 1: the generated value: expected "
                          "int64[], found float32[]: 1 is a float, which never becomes an integer; "
                          "give int64, or declare float32",
                          "2"));
}

TEST_F(FromGenerator, ConvertsElementsToTheDeclaredDTypes) {
  Counters counters;
  const Ref<Dataset> dataset = Counting(&counters, DType::kFloat32);
  EXPECT_EQ(SpecText(dataset), "float32[]");
  const Ref<Iterator> iterator = Iterate(dataset);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(iterator->Next(CallOptions()).value()->AsTensor()->item<float>(),
              static_cast<float>(i));
  }
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(FromGenerator, ResumesByReplay) {
  Counters counters;
  const Ref<Dataset> dataset = Counting(&counters);
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_EQ(Next(*iterator), "0");
  const std::string state = iterator->Save(CallOptions()).value();
  EXPECT_EQ(Next(*iterator), "1");
  ASSERT_TRUE(iterator->Restore(state, CallOptions()).ok());
  EXPECT_THAT(All(*iterator), ElementsAre("1", "2"));
}

}  // namespace
}  // namespace tutti
