// What only an element can tell is told by the first one that does not fail.
#include <gmock/gmock.h>

#include <deque>
#include <functional>
#include <optional>

#include "core/base/error.h"
#include "core/dataset/exec/first_elements.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class FirstElements : public DatasetTest {
 protected:
  using Give = std::function<Result<Ref<Value>>(const Value&)>;

  // Without an output spec.
  Ref<TestFunction> Gives(Give give) {
    gives_.push_back(std::move(give));
    return MakeFunction(
        [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
          return (*static_cast<Give*>(data))(in);
        },
        {.data = &gives_.back()});
  }
  // x -> x; fails below `good`.
  Ref<TestFunction> From(int64_t good) {
    return Gives([good](const Value& in) -> Result<Ref<Value>> {
      if (NumberIn(in) < good) return DataLoss("{} is bad", NumberIn(in));
      return Number(NumberIn(in));
    });
  }
  static Ref<Value> ValueOf(const Ref<Dataset>& dataset) {
    return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
  }
  // Datasets of one element; fails below `good`.
  Ref<TestFunction> DatasetsFrom(int64_t good) {
    return Gives([this, good](const Value& in) -> Result<Ref<Value>> {
      if (NumberIn(in) < good) return DataLoss("{} is bad", NumberIn(in));
      return ValueOf(Ok(Dataset::FromTensors(datasets_, Number(NumberIn(in)))));
    });
  }

  std::deque<Give> gives_;
};

TEST_F(FirstElements, ThatFailDoNotDecideAboutTheSpecOfAMap) {
  const Ref<TestFunction> function = From(2);
  const Ref<Dataset> mapped = Ok(Range(5)->Map(function));
  EXPECT_EQ(SpecText(Ok(mapped->Batch(2))), "int64[?]");
  EXPECT_EQ(function->calls, 3);
  // By slabs, and at once.
  const Ref<TestFunction> slabs = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (in.AsTensor()->span<int64_t>()[0] < 3) return DataLoss("too small");
        return Value::OfTensor(in.leaf(0).tensor_ref());
      },
      {.granularity = Granularity::kSlab});
  EXPECT_EQ(SpecText(Ok(Range(5)->Map(slabs))), "int64[]");
  EXPECT_EQ(SpecText(Ok(Range(5)->Map(From(4), Parallel(3)))), "int64[]");
}

TEST_F(FirstElements, OfTheSourceMayFail) {
  int64_t made = 0;
  const Ref<TestFunction> start = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> { return Number(0); });
  const auto next = [](Context&, const Value&, void* made) -> Result<Ref<Value>> {
    const int64_t number = (*static_cast<int64_t*>(made))++;
    if (number < 2) return DataLoss("{} cannot be read", number);
    return number < 5 ? Number(number) : Ref<Value>();
  };
  const Ref<Dataset> source = Ok(Dataset::FromGenerator(
      datasets_, start, MakeFunction(next, {.data = &made}), Int64Scalar()));
  EXPECT_EQ(SpecText(Ok(source->Map(From(0)))), "int64[]");
  made = 0;
  EXPECT_EQ(SpecText(Ok(source->FlatMap(DatasetsFrom(0)))), "int64[]");
}

TEST_F(FirstElements, BelowASkipMayFail) {
  const Ref<Dataset> skipped = Ok(Ok(Range(5)->Map(From(2)))->Skip(2));
  const Ref<Dataset> mapped = Ok(skipped->Map(From(0)));
  EXPECT_EQ(SpecText(mapped), "int64[]");
  EXPECT_THAT(Numbers(mapped), ElementsAre(2, 3, 4));
}

TEST_F(FirstElements, ThatFailDoNotDecideAboutWhatDatasetsOfAFunctionHave) {
  EXPECT_EQ(SpecText(Ok(Range(5)->FlatMap(DatasetsFrom(3)))), "int64[]");
  EXPECT_EQ(SpecText(Ok(Range(5)->Interleave(DatasetsFrom(3), 2))), "int64[]");
  EXPECT_EQ(SpecText(Ok(Ok(Range(5)->Map(From(3)))->Interleave(DatasetsFrom(0), 2, 1, 2))),
            "int64[]");
  // Elements of the dataset that it gives: of the first one all fail, the second is empty.
  const Ref<TestFunction> inner = Gives([this](const Value& in) -> Result<Ref<Value>> {
    const int64_t x = NumberIn(in);
    return ValueOf(Ok(Range(x == 1 ? 0 : 3)->Map(From(x == 0 ? 10 : 0))));
  });
  EXPECT_EQ(SpecText(Ok(Range(3)->FlatMap(inner))), "int64[]");
}

TEST_F(FirstElements, ThatFailDoNotDecideAboutGroups) {
  const auto rows = [](const Value& in) -> Result<Ref<Value>> {
    if (NumberIn(in) < 2) return DataLoss("a group of {}", NumberIn(in));
    return Value::OfLeaf(in.leaf(1));
  };
  const auto group = [&](Ref<TestFunction> key, const Ref<Dataset>& input) {
    return Ok(input->GroupByWindow(std::move(key), Gives(rows), int64_t{2}, nullptr));
  };
  EXPECT_EQ(SpecText(group(From(0), Range(5))), "int64[]");
  EXPECT_EQ(SpecText(group(From(3), Range(5))), "int64[]");
  EXPECT_EQ(SpecText(group(From(0), Ok(Range(5)->Map(From(1))))), "int64[]");
}

TEST_F(FirstElements, AllOfWhichFailGiveTheFirstFailureAndWhatToDo) {
  const Ref<Dataset> mapped = Ok(Range(5)->Map(From(10), Named("mine")));
  const Status failed = mapped->GetElementSpec(CallOptions()).status();
  EXPECT_EQ(failed.code(), StatusCode::kDataLoss);
  EXPECT_EQ(std::string(failed.message()),
            "element_spec: map 'mine' has no output spec, and each of the first 5 elements, which "
            "could show it, has failed; give its function an output spec. The first failure: map "
            "'mine': element 0: 0 is bad");
  EXPECT_THAT(SpecText(Ok(Range(1)->FlatMap(DatasetsFrom(10)))),
              AllOf(HasSubstr("the only element, which could show it, has failed"),
                    HasSubstr("flat_map: element 0: 0 is bad")));
}

TEST_F(FirstElements, OfAnEndlessInputAreLookedAtSoManyTimes) {
  const Ref<TestFunction> never = From(1'000'000'000);
  EXPECT_THAT(SpecText(Ok(Ok(Range(2)->Repeat(-1))->Map(never))),
              HasSubstr("each of the first 100 elements"));
  EXPECT_EQ(never->calls, kMostFailedLooks);
  EXPECT_EQ(SpecText(Ok(Range(200)->Map(From(kMostFailedLooks - 1)))), "int64[]");
  EXPECT_THAT(SpecText(Ok(Range(200)->Map(From(kMostFailedLooks)))), StartsWith("element_spec"));
}

TEST_F(FirstElements, OfASourceThatDoesNotGetOnAreNotAskedForAgain) {
  const Ref<TestFunction> start = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> { return NotFound("no database"); });
  const Ref<Dataset> source =
      Ok(Dataset::FromGenerator(datasets_, start, From(0), Int64Scalar()));
  EXPECT_THAT(SpecText(Ok(source->Map(From(0)))), HasSubstr("no database"));
  EXPECT_LE(start->calls, 100);
}

TEST_F(FirstElements, AreNotLookedAtBehindAnInterruption) {
  const auto cancellation = MakeRef<Cancellation>();
  const Ref<TestFunction> cancels = Gives([&](const Value&) -> Result<Ref<Value>> {
    cancellation->Cancel();
    return Cancelled("given up");
  });
  CallOptions call;
  call.cancellation = cancellation.get();
  for (const Ref<Dataset>& dataset :
       {Ok(Range(5)->Map(cancels)), Ok(Range(5)->FlatMap(cancels))}) {
    EXPECT_EQ(dataset->GetElementSpec(call).status().code(), StatusCode::kCancelled);
  }
  EXPECT_LE(cancels->calls, 2);
}

TEST_F(FirstElements, LeaveNoTrace) {
  const Ref<TestFunction> below = AddOne();
  const Ref<Dataset> cached = Ok(Ok(Range(3)->Map(below))->Cache());
  // To the end of the input, and a cache has not been filled by it.
  EXPECT_THAT(SpecText(Ok(cached->Map(From(10)))), HasSubstr("each of the first 3 elements"));
  EXPECT_EQ(below->calls, 3);
  EXPECT_THAT(Numbers(cached), ElementsAre(1, 2, 3));
  EXPECT_EQ(below->calls, 6);
}

}  // namespace
}  // namespace tutti
