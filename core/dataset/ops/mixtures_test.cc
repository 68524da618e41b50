// choose_from_datasets, sample_from_datasets, bucket_by_sequence_length and assert_cardinality.
#include <gmock/gmock.h>

#include <map>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::IsEmpty;

class Mixtures : public DatasetTest {
 protected:
  static Ref<Value> ValueOf(const std::vector<Ref<Dataset>>& datasets) {
    std::vector<Ref<Value>> parts;
    for (const Ref<Dataset>& dataset : datasets) {
      parts.push_back(Value::OfLeaf(Leaf(LeafKind::kDataset, dataset)));
    }
    return Value::Tuple(std::span<const Ref<Value>>(parts));
  }
  Result<Ref<Dataset>> Choose(const std::vector<Ref<Dataset>>& datasets,
                              std::initializer_list<int64_t> choices, bool stops = true) {
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Dataset> numbers,
        Dataset::FromTensorSlices(datasets_, Value::OfTensor(Tensor::Vector<int64_t>(choices))));
    return Dataset::ChooseFromDatasets(datasets_, *ValueOf(datasets), *numbers, stops);
  }
  Result<Ref<Dataset>> Sample(const std::vector<Ref<Dataset>>& datasets,
                              std::initializer_list<double> weights, bool stops = false,
                              bool redraws = true) {
    SampleOptions options;
    if (weights.size() > 0) options.weights = Value::OfTensor(Tensor::Vector<double>(weights));
    options.seed = 9;
    options.stop_on_empty_dataset = stops;
    options.rerandomize_each_iteration = redraws;
    return Dataset::SampleFromDatasets(datasets_, *ValueOf(datasets), std::move(options));
  }
  static Ref<Value> Ints(std::initializer_list<int64_t> values) {
    return Value::OfTensor(Tensor::Vector<int64_t>(values));
  }
  // n becomes n times n.
  Ref<Dataset> Rows(int64_t start, int64_t stop) {
    return Ok(Range(start, stop)->Map(MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          const std::vector<int64_t> row(static_cast<size_t>(NumberIn(in)), NumberIn(in));
          TUTTI_ASSIGN_OR_RETURN(
              Ref<Tensor> out, Tensor::FromSpan<int64_t>(Shape({NumberIn(in)}), row));
          return Value::OfTensor(std::move(out));
        },
        {.spec = ElementSpec::OfTensor(DType::kInt64,
                                       PartialShape({PartialShape::kUnknownDim}))})));
  }
  static Ref<Function> Length() {
    return MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      return Number(in.leaf().tensor().dim(0));
    });
  }
  // However many are asked for at once, and saved after each element: the same comes.
  void ExpectGoesOn(const Ref<Dataset>& dataset) {
    const std::vector<std::string> all = All(dataset);
    for (size_t saved = 0; saved <= all.size(); ++saved) {
      const Ref<Iterator> first = Iterate(dataset);
      std::vector<std::string> got = Take(*first, static_cast<int64_t>(saved));
      const Result<std::string> state = first->Save(CallOptions());
      ASSERT_TRUE(state.ok()) << state.status().ToString();
      const Ref<Iterator> second = Iterate(dataset);
      ASSERT_TRUE(second->Restore(*state, CallOptions()).ok());
      for (std::string& element : All(*second)) got.push_back(std::move(element));
      EXPECT_EQ(got, all) << saved;
    }
    std::vector<std::string> batched;
    const Ref<Dataset> again = Ok(Ok(dataset->OnError("fail"))->Prefetch(3));
    EXPECT_EQ(All(again), all);
  }
};

TEST_F(Mixtures, ChoicesAreFollowed) {
  const std::vector<Ref<Dataset>> both = {Range(3), Range(10, 13)};
  EXPECT_THAT(Numbers(Ok(Choose(both, {1, 1, 0, 1, 0}))), ElementsAre(10, 11, 0, 12, 1));
  EXPECT_THAT(Numbers(Ok(Choose(both, {}))), IsEmpty());
  // The fourth of a dataset of three.
  EXPECT_THAT(Numbers(Ok(Choose(both, {0, 0, 0, 0, 1}))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Choose(both, {0, 0, 0, 0, 1, 0, 1}, false))),
              ElementsAre(0, 1, 2, 10, 11));
  EXPECT_EQ(Ok(Choose(both, {0}))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Choose({Ok(Range(3)->Repeat(-1))}, {0, 0}))->cardinality(), 2);
  ExpectGoesOn(Ok(Choose(both, {0, 0, 0, 0, 1, 0, 1}, false)));
  EXPECT_THAT(Numbers(Ok(Ok(Choose(both, {1, 0}))->Repeat(2))), ElementsAre(10, 0, 10, 0));
}

TEST_F(Mixtures, AChoiceOfNoDatasetIsAnErrorThatNamesIt) {
  const Ref<Dataset> chosen = Ok(Choose({Range(3), Range(10, 13)}, {1, 2, 0, -1, 1}));
  const std::vector<std::string> all = All(chosen);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0], "10");
  EXPECT_THAT(all[1], HasSubstr("element 1: choice_dataset must give numbers of the 2 datasets"));
  EXPECT_THAT(all[1], HasSubstr("gave 2"));
  EXPECT_EQ(all[2], "0");
  EXPECT_THAT(all[3], HasSubstr("gave -1"));
  EXPECT_EQ(all[4], "11");
  ExpectGoesOn(chosen);
}

TEST_F(Mixtures, ElementsMustBeCompatible) {
  const Ref<Dataset> texts = Ok(Dataset::FromTensors(datasets_, Value::OfString("a")));
  EXPECT_EQ(Choose({Range(3), texts}, {0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Sample({Range(3), texts}, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SpecText(Ok(Choose({Ok(Range(4)->Batch(2, true)), Ok(Range(6)->Batch(3, true))},
                               {0}))),
            "int64[?]");
  EXPECT_THAT(std::string(Choose({}, {0}).status().message()), HasSubstr("there are no datasets"));
  EXPECT_THAT(std::string(
                  Dataset::ChooseFromDatasets(datasets_, *ValueOf({Range(3)}), *texts).status()
                      .message()),
              HasSubstr("choice_dataset must give integer scalars"));
}

// Golden: the order that a seed gives is a promise of compatibility.
TEST_F(Mixtures, SamplesFollowTheSeed) {
  const std::vector<Ref<Dataset>> both = {Range(5), Range(10, 15)};
  const std::vector<int64_t> first = Numbers(Ok(Sample(both, {}, false, false)));
  EXPECT_EQ(first.size(), 10u);
  EXPECT_EQ(Numbers(Ok(Sample(both, {1, 1}, false, false))), first);
  EXPECT_THAT(first, ElementsAre(10, 11, 0, 1, 12, 13, 14, 2, 3, 4));
  const Ref<Dataset> twice = Ok(Ok(Sample(both, {}, false, false))->Repeat(2));
  std::vector<int64_t> same = first;
  same.insert(same.end(), first.begin(), first.end());
  EXPECT_EQ(Numbers(twice), same);
  EXPECT_NE(Numbers(Ok(Ok(Sample(both, {}))->Repeat(2))), same);
  ExpectGoesOn(Ok(Sample(both, {3, 1}, false, false)));
  ExpectGoesOn(Ok(Sample(both, {3, 1}, true, false)));
}

TEST_F(Mixtures, SamplesFollowTheWeights) {
  const Ref<Dataset> ones = Ok(Range(1, 2)->Repeat(-1));
  const Ref<Dataset> zeros = Ok(Range(1)->Repeat(-1));
  const Ref<Dataset> mixed = Ok(Sample({zeros, ones}, {1, 3}));
  EXPECT_EQ(mixed->cardinality(), kInfiniteCardinality);
  int64_t sum = 0;
  for (int64_t number : Numbers(mixed, 10'000)) sum += number;
  EXPECT_NEAR(static_cast<double>(sum), 7500, 200);
  // What has no weight is never drawn, and what is alone is drawn.
  EXPECT_THAT(Numbers(Ok(Sample({zeros, Range(3)}, {0, 1e-300}))), ElementsAre(0, 1, 2));
  EXPECT_EQ(Ok(Sample({zeros, Range(3)}, {0, 1}))->cardinality(), 3);
  EXPECT_EQ(Ok(Sample({zeros, Range(3)}, {0, 1}, true))->cardinality(), 3);
  EXPECT_EQ(Ok(Sample({Range(2), Range(3)}, {}, true))->cardinality(), kUnknownCardinality);
}

TEST_F(Mixtures, WeightsMayBeADatasetOfVectors) {
  const std::vector<Ref<Dataset>> both = {Range(3), Range(10, 13)};
  const auto vectors = [&](std::initializer_list<double> weights, int64_t count = 2) {
    Ref<Tensor> rows = Tensor::FromSpan<double>(
                           Shape({static_cast<int64_t>(weights.size()) / count, count}),
                           std::span<const double>(weights.begin(), weights.size()))
                           .value();
    return Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(std::move(rows))));
  };
  const auto sample = [&](const Ref<Dataset>& weights, bool stops = false, bool redraws = false) {
    SampleOptions options;
    options.weights = Value::OfLeaf(Leaf(LeafKind::kDataset, weights));
    options.seed = 9;
    options.stop_on_empty_dataset = stops;
    options.rerandomize_each_iteration = redraws;
    return Dataset::SampleFromDatasets(datasets_, *ValueOf(both), std::move(options));
  };
  EXPECT_THAT(Numbers(Ok(sample(vectors({0, 1, 0, 3, 1, 0})))), ElementsAre(10, 11, 0));
  // A draw of a dataset that has ended is passed over, or ends the pass.
  const Ref<Dataset> many_first = vectors({1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0});
  EXPECT_THAT(Numbers(Ok(sample(many_first))), ElementsAre(0, 1, 2, 10));
  EXPECT_THAT(Numbers(Ok(sample(many_first, true))), ElementsAre(0, 1, 2));
  EXPECT_EQ(Ok(sample(many_first))->cardinality(), kUnknownCardinality);
  // Vectors without end stop nothing, and what has ended does.
  const Ref<Dataset> even = Ok(vectors({1, 1})->Repeat(-1));
  const std::vector<int64_t> order = Numbers(Ok(sample(even)));
  EXPECT_THAT(order, ::testing::UnorderedElementsAre(0, 1, 2, 10, 11, 12));
  // Golden: the order that a seed gives is a promise of compatibility.
  EXPECT_THAT(order, ElementsAre(10, 11, 0, 1, 12, 2));
  std::vector<int64_t> twice = order;
  twice.insert(twice.end(), order.begin(), order.end());
  EXPECT_EQ(Numbers(Ok(Ok(sample(even))->Repeat(2))), twice);
  EXPECT_NE(Numbers(Ok(Ok(sample(even, false, true))->Repeat(2))), twice);
  ExpectGoesOn(Ok(sample(even)));
  ExpectGoesOn(Ok(sample(many_first)));
  ExpectGoesOn(Ok(sample(vectors({1, 2, 3, 4, 5, 6, 2, 1, 1, 1}))));
  // One that is none is a failed element of its place.
  const Ref<Dataset> bad = Ok(sample(vectors({0, 1, 0, 0, 1, 0, -1, 1, 0, 1})));
  const std::vector<std::string> all = All(bad);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_THAT(all[1], HasSubstr("element 1: weights are all 0"));
  EXPECT_EQ(all[2], "0");
  EXPECT_THAT(all[3], HasSubstr("element 3: weights must be finite numbers of 0 or more"));
  ExpectGoesOn(bad);
  EXPECT_THAT(std::string(sample(vectors({1, 1, 1}, 3)).status().message()),
              HasSubstr("must give vectors of 2 numbers, one for each dataset, and gives"));
}

TEST_F(Mixtures, WrongWeightsAreRefused) {
  const std::vector<Ref<Dataset>> both = {Range(5), Range(10, 15)};
  const auto message = [&](std::initializer_list<double> weights) {
    return std::string(Sample(both, weights).status().message());
  };
  EXPECT_THAT(message({1}), HasSubstr("a vector of 2 numbers, one for each dataset"));
  EXPECT_THAT(message({1, -0.5}), HasSubstr("the one of dataset 1 is -0.5"));
  EXPECT_THAT(message({0, 0}), HasSubstr("are all 0"));
}

TEST_F(Mixtures, BucketsAreBatchesOfAboutOneLength) {
  const Ref<Dataset> rows = Ok(Ok(Rows(1, 6)->Concatenate(*Rows(1, 3)))->Concatenate(*Rows(5, 6)));
  const auto bucket = [&](bool to_boundary, bool drops) {
    return rows->BucketBySequenceLength(Length(), Ints({3, 6}), Ints({2, 2, 1}), {}, {},
                                        to_boundary, false, drops);
  };
  const Ref<Dataset> plain = Ok(bucket(false, false));
  EXPECT_EQ(SpecText(plain), "int64[?,?]");
  EXPECT_THAT(All(plain), ElementsAre("[[1 0] [2 2]]", "[[3 3 3 0] [4 4 4 4]]", "[[1 0] [2 2]]",
                                      "[[5 5 5 5 5] [5 5 5 5 5]]"));
  EXPECT_THAT(All(Ok(bucket(true, false))),
              ElementsAre("[[1 0] [2 2]]", "[[3 3 3 0 0] [4 4 4 4 0]]", "[[1 0] [2 2]]",
                          "[[5 5 5 5 5] [5 5 5 5 5]]"));
  const Ref<Dataset> odd = Ok(Rows(2, 5)->BucketBySequenceLength(
      Length(), Ints({4}), Ints({3, 2}), {}, {}, false, false, true));
  EXPECT_THAT(All(odd), IsEmpty());
  ExpectGoesOn(plain);
  const Ref<Dataset> too_long = Ok(Rows(2, 4)->BucketBySequenceLength(
      Length(), Ints({3}), Ints({1, 1}), {}, {}, true));
  const std::vector<std::string> all = All(too_long);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], "[[2 2]]");
  EXPECT_THAT(all[1], HasSubstr("its length 3 lies in the last bucket"));
}

TEST_F(Mixtures, WrongBucketsAreRefused) {
  const auto message = [&](std::initializer_list<int64_t> boundaries,
                           std::initializer_list<int64_t> sizes, bool to_boundary = false,
                           bool no_padding = false) {
    return std::string(Rows(1, 3)
                           ->BucketBySequenceLength(Length(), Ints(boundaries), Ints(sizes), {},
                                                    {}, to_boundary, no_padding)
                           .status()
                           .message());
  };
  EXPECT_THAT(message({3, 3}, {1, 1, 1}), HasSubstr("must increase, and 3 follows 3"));
  EXPECT_THAT(message({3}, {1}), HasSubstr("2 for 1 bucket_boundaries, got 1"));
  EXPECT_THAT(message({3}, {1, 0}), HasSubstr("must be positive, got 0"));
  EXPECT_THAT(message({3}, {1, 1}, true, true), HasSubstr("exclude each other"));
}

TEST_F(Mixtures, AFullGroupComesBeforeTheFailureBehindIt) {
  const Ref<Function> one_key = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> { return Number(0); },
      {.spec = Int64Scalar()});
  const Ref<Function> rows = MakeFunction([](Context&, const Value& in, void*) {
    return Result<Ref<Value>>(Value::OfLeaf(in.leaf(1)));
  });
  const Ref<Dataset> too_few = Ok(Range(2)->AssertCardinality(3));
  for (const Ref<Dataset>& dataset :
       {Ok(too_few->GroupByWindow(one_key, rows, 2)),
        Ok(Ok(too_few->BucketBySequenceLength(one_key, Ints({1}), Ints({2, 2})))->Unbatch())}) {
    const std::vector<std::string> all = All(dataset);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0], "0");
    EXPECT_EQ(all[1], "1");
    EXPECT_THAT(all[2], HasSubstr("expected 3 elements, and there were 2"));
    ExpectGoesOn(dataset);
  }
}

TEST_F(Mixtures, AnAssertedCardinalityHolds) {
  const Ref<Dataset> three = Ok(Range(3)->AssertCardinality(3));
  EXPECT_EQ(three->cardinality(), 3);
  EXPECT_THAT(Numbers(three), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(three->Repeat(2))), ElementsAre(0, 1, 2, 0, 1, 2));
  const std::vector<std::string> few = All(Ok(Range(2)->AssertCardinality(3)));
  ASSERT_EQ(few.size(), 3u);
  EXPECT_THAT(few[2], HasSubstr("expected 3 elements, and there were 2"));
  // It comes behind the elements, also for who keeps them before it gives any.
  const std::vector<std::string> drawn =
      All(Ok(Ok(Range(3)->AssertCardinality(4))->Shuffle(3, Seed(1))));
  ASSERT_EQ(drawn.size(), 4u);
  EXPECT_THAT(drawn[0], Not(HasSubstr("expected")));
  EXPECT_THAT(drawn[1], HasSubstr("expected 4 elements, and there were 3"));
  const std::vector<std::string> many = All(Ok(Range(9)->AssertCardinality(1)));
  ASSERT_EQ(many.size(), 2u);
  EXPECT_THAT(many[1], HasSubstr("expected 1 elements, and there are more"));
  // Nothing skips that.
  EXPECT_EQ(All(Ok(Ok(Range(9)->AssertCardinality(1))->OnError("skip"))).size(), 2u);
  const std::vector<std::string> ends = All(Ok(Range(1)->AssertCardinality(-1)));
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_THAT(ends[1], HasSubstr("expected elements without end, and there were 1"));
  EXPECT_THAT(std::string(Range(1)->AssertCardinality(-2).status().message()),
              HasSubstr("or -1 for those without end, got -2"));
  ExpectGoesOn(Ok(Range(4)->AssertCardinality(2)));
  ExpectGoesOn(Ok(Range(4)->AssertCardinality(6)));
}

}  // namespace
}  // namespace tutti
