// The ops without functions, randomness or threads: what they yield, their cardinalities and specs,
// and what they refuse.
#include <gmock/gmock.h>

#include "core/base/text.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BasicOps : public DatasetTest {
 protected:
  std::vector<int64_t> RangeOf(int64_t start, int64_t stop, int64_t step) {
    return Numbers(Ok(Dataset::Range(datasets_, start, stop, step)));
  }
  Ref<Dataset> Slices(Ref<Value> value) {
    return Ok(Dataset::FromTensorSlices(datasets_, std::move(value)));
  }
  static Ref<Value> DatasetValue(const Ref<Dataset>& dataset) {
    return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
  }
  static std::string Refusal(const Result<Ref<Dataset>>& dataset) {
    EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
    return std::string(dataset.status().message());
  }
};

TEST_F(BasicOps, RangeCountsFromStartToBeforeStop) {
  EXPECT_THAT(RangeOf(0, 5, 1), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(RangeOf(2, 5, 1), ElementsAre(2, 3, 4));
  EXPECT_THAT(RangeOf(1, 5, 2), ElementsAre(1, 3));
  EXPECT_THAT(RangeOf(1, 5, -2), IsEmpty());
  EXPECT_THAT(RangeOf(5, 1, 1), IsEmpty());
  EXPECT_THAT(RangeOf(5, 1, -2), ElementsAre(5, 3));
}

TEST_F(BasicOps, RangeReachesTheEndsOfInt64) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(RangeOf(kMax - 2, kMax, 1), ElementsAre(kMax - 2, kMax - 1));
  EXPECT_THAT(RangeOf(kMin, kMax, kMax), ElementsAre(kMin, -1, kMax - 1));
  EXPECT_THAT(RangeOf(kMax, kMin, kMin), ElementsAre(kMax, -1));
}

TEST_F(BasicOps, RangeMakesTheDtypeThatIsAskedFor) {
  EXPECT_THAT(All(Ok(Dataset::Range(datasets_, 1, 5, 2, DType::kFloat32))), ElementsAre("1", "3"));
  EXPECT_EQ(SpecText(Ok(Dataset::Range(datasets_, 1, 5, 2, DType::kFloat32))), "float32[]");
  EXPECT_EQ(SpecText(Ok(Dataset::Range(datasets_, 2, 5, 1, DType::kInt32))), "int32[]");
  EXPECT_THAT(Refusal(Dataset::Range(datasets_, 0, 300, 1, DType::kUint8)),
              HasSubstr("299 does not fit uint8"));
  EXPECT_THAT(Refusal(Dataset::Range(datasets_, 0, 3, 1, DType::kBytes)), HasSubstr("bytes"));
  EXPECT_THAT(Refusal(Dataset::Range(datasets_, 0, 3, 0)), HasSubstr("step must not be 0"));
}

TEST_F(BasicOps, FromTensorsYieldsItsValueOnce) {
  const Ref<Value> value = Value::Tuple(
      {Value::OfTensor(Tensor::Vector<int32_t>({1, 2, 3})), Value::OfTensor(Tensor::Bytes("A"))});
  const Ref<Dataset> one = Ok(Dataset::FromTensors(datasets_, value));
  const std::vector<std::string> elements = All(one);
  ASSERT_EQ(elements.size(), 1u);
  EXPECT_EQ(elements[0], value->ToString());
  EXPECT_EQ(one->cardinality(), 1);
  EXPECT_EQ(SpecText(one), "(int32[3], bytes[])");
}

TEST_F(BasicOps, FromTensorSlicesYieldsViewsOfTheRows) {
  const Ref<Tensor> matrix =
      Tensor::FromSpan<int32_t>(Shape({2, 2}), std::vector<int32_t>{1, 2, 3, 4}).value();
  const Ref<Dataset> rows =
      Slices(Value::Dict({{"b", Value::OfTensor(Tensor::Vector<int32_t>({5, 6}))},
                          {"a", Value::OfTensor(matrix)}})
                 .value());
  EXPECT_THAT(All(rows), ElementsAre("{'a': [1 2], 'b': 5}", "{'a': [3 4], 'b': 6}"));
  EXPECT_EQ(SpecText(rows), "{'a': int32[2], 'b': int32[]}");
  const Ref<Value> first = Iterate(rows)->Next(CallOptions()).value();
  EXPECT_EQ(first->leaf(0).tensor().data(), matrix->data());
}

TEST_F(BasicOps, FromTensorSlicesRefusesWhatHasNoCommonRows) {
  const auto slices = [this](std::initializer_list<Ref<Value>> parts) {
    return Refusal(Dataset::FromTensorSlices(datasets_, Value::Tuple(parts)));
  };
  EXPECT_THAT(slices({Value::OfTensor(Tensor::Vector<int32_t>({1, 2, 3})),
                      Value::OfTensor(Tensor::Vector<int32_t>({1, 2}))}),
              HasSubstr("component 1[1] has 2 and component 0 has 3"));
  EXPECT_THAT(slices({Value::OfTensor(Tensor::Scalar(1))}), HasSubstr("rank 1 or more"));
  EXPECT_THAT(slices({Value::OfString("x")}), HasSubstr("string"));
  EXPECT_THAT(slices({}), HasSubstr("no tensors"));
}

TEST_F(BasicOps, TakeAndSkipCutTheSequence) {
  EXPECT_THAT(Numbers(Ok(Range(10)->Take(3))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Range(3)->Take(10))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Range(3)->Take(-1))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Range(3)->Take(0))), IsEmpty());
  EXPECT_THAT(Numbers(Ok(Range(10)->Skip(7))), ElementsAre(7, 8, 9));
  EXPECT_THAT(Numbers(Ok(Range(10)->Skip(-1))), IsEmpty());
  EXPECT_THAT(Numbers(Ok(Range(10)->Skip(11))), IsEmpty());
  EXPECT_THAT(Refusal(Range(10)->Take(-2)),
              HasSubstr("count must be -1 (all) or 0 and more, got -2"));
}

TEST_F(BasicOps, ShardTakesEveryNthElement) {
  EXPECT_THAT(Numbers(Ok(Range(10)->Shard(3, 0))), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(Numbers(Ok(Range(10)->Shard(3, 1))), ElementsAre(1, 4, 7));
  EXPECT_THAT(Numbers(Ok(Range(10)->Shard(3, 2))), ElementsAre(2, 5, 8));
  EXPECT_THAT(Numbers(Ok(Range(2)->Shard(3, 2))), IsEmpty());
  EXPECT_THAT(All(Ok(Ok(Range(100)->Shard(7, 3))->Batch(5))),
              ElementsAre("[3 10 17 24 31]", "[38 45 52 59 66]", "[73 80 87 94]"));
  EXPECT_THAT(Refusal(Range(10)->Shard(3, 3)), HasSubstr("index 3 with num_shards 3"));
  EXPECT_THAT(Refusal(Range(10)->Shard(0, 0)), HasSubstr("num_shards must be positive, got 0"));
}

TEST_F(BasicOps, ConcatenateAppends) {
  const Ref<Dataset> both = Ok(Range(1, 4)->Concatenate(*Range(4, 8)));
  EXPECT_THAT(Numbers(both), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Numbers(Ok(both->Concatenate(*Range(2)))), ElementsAre(1, 2, 3, 4, 5, 6, 7, 0, 1));
  const Ref<Dataset> pairs = Ok(Range(3)->Enumerate());
  EXPECT_THAT(Refusal(Range(3)->Concatenate(*pairs)), HasSubstr("concatenate"));
  const Ref<Dataset> words = Slices(
      Value::OfTensor(Tensor::FromStrings(Shape({1}), std::vector<BytesView>{{"a", 1}}).value()));
  EXPECT_THAT(Refusal(Range(3)->Concatenate(*words)), HasSubstr("expected int64[], found bytes[]"));
}

TEST_F(BasicOps, ConcatenateRelaxesTheShapes) {
  const Ref<Dataset> longer =
      Slices(Value::OfTensor(Tensor::Create(DType::kInt64, Shape({1, 3})).value()));
  const Ref<Dataset> shorter =
      Slices(Value::OfTensor(Tensor::Create(DType::kInt64, Shape({1, 2})).value()));
  EXPECT_EQ(SpecText(Ok(longer->Concatenate(*shorter))), "int64[?]");
}

TEST_F(BasicOps, EnumerateHasNoNumberAfterTheLastOne) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  const Ref<Dataset> dataset = Ok(Range(5)->Enumerate(kLast - 1));
  const std::string refusal = Format("!enumerate: the numbers from {} on have come to their end, "
                                     "{}, and an element follows; start at a smaller number",
                                     kLast - 1, kLast);
  const std::vector<std::string> all = {Format("({}, 0)", kLast - 1), Format("({}, 1)", kLast),
                                        refusal, refusal, refusal};
  const Ref<Iterator> iterator = Iterate(dataset);
  for (int taken = 0; taken < 5; ++taken) {
    const Ref<Iterator> other = Iterate(dataset);
    ASSERT_TRUE(other->Restore(iterator->Save(CallOptions()).value(), CallOptions()).ok());
    EXPECT_EQ(All(*other), std::vector<std::string>(all.begin() + taken, all.end()));
    EXPECT_EQ(Next(*iterator), all[static_cast<size_t>(taken)]);
  }
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_EQ(Iterate(Ok(dataset->Skip(2)))->Next(CallOptions()).status().code(),
            StatusCode::kOutOfRange);
  // No element follows the last number.
  EXPECT_THAT(All(Ok(Range(2)->Enumerate(kLast - 1))), ElementsAre(all[0], all[1]));
  EXPECT_THAT(All(Ok(Ok(Range(2)->Enumerate(kLast))->Repeat(2))),
              ElementsAre(Format("({}, 0)", kLast), testing::HasSubstr("come to their end"),
                          Format("({}, 0)", kLast), testing::HasSubstr("come to their end")));
  // Nor does counting overflow where nothing is made.
  EXPECT_THAT(All(Ok(Ok(Range(5)->Enumerate(kLast - 9))->Skip(4))),
              ElementsAre(Format("({}, 4)", kLast - 5)));
}

TEST_F(BasicOps, EnumerateCountsFromItsStart) {
  const Ref<Dataset> dict =
      Slices(Value::Dict({{"a", Value::OfTensor(Tensor::Vector<int32_t>({1, 2}))}}).value());
  EXPECT_THAT(All(Ok(dict->Enumerate(5))), ElementsAre("(5, {'a': 1})", "(6, {'a': 2})"));
  EXPECT_EQ(SpecText(Ok(dict->Enumerate())), "(int64[], {'a': int32[]})");
}

TEST_F(BasicOps, RepeatRunsAgainAndEndsWhenThereIsNothing) {
  EXPECT_THAT(Numbers(Ok(Range(3)->Repeat(3))), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Range(3)->Repeat(0))), IsEmpty());
  EXPECT_THAT(Numbers(Ok(Range(0)->Repeat())), IsEmpty());
  EXPECT_THAT(Numbers(Ok(Range(2)->Repeat()), 5), ElementsAre(0, 1, 0, 1, 0));
  const Ref<Dataset> chain = Ok(Ok(Ok(Range(3)->Repeat(3))->Skip(2))->Take(4));
  EXPECT_THAT(Numbers(chain), ElementsAre(2, 0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Ok(Range(2)->Repeat(2))->Repeat(2))), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

TEST_F(BasicOps, ZipHasTheStructureOfItsDatasets) {
  const Ref<Value> datasets =
      Value::Tuple({DatasetValue(Range(1, 4)), DatasetValue(Range(13, 15))});
  const Ref<Dataset> zipped = Ok(Dataset::Zip(datasets_, *datasets));
  EXPECT_THAT(All(zipped), ElementsAre("(1, 13)", "(2, 14)"));
  EXPECT_EQ(SpecText(zipped), "(int64[], int64[])");
  const Ref<Dataset> pairs = Ok(Range(5)->Enumerate(10));
  const Ref<Dataset> nested = Ok(Dataset::Zip(
      datasets_,
      *Value::Dict({{"x", DatasetValue(pairs)}, {"y", DatasetValue(Range(3))}}).value()));
  EXPECT_THAT(All(Ok(nested->Batch(2))),
              ElementsAre("{'x': ([10 11], [0 1]), 'y': [0 1]}", "{'x': ([12], [2]), 'y': [2]}"));
  EXPECT_THAT(Refusal(Dataset::Zip(datasets_, *Value::Tuple({Value::None()}))),
              HasSubstr("leaf 0[0] is none"));
}

TEST_F(BasicOps, ZipOfUnevenSlabsLosesNothing) {
  const Ref<Dataset> left = Ok(Range(3)->Concatenate(*Range(3, 50)));
  const Ref<Dataset> right = Ok(Range(7)->Concatenate(*Range(7, 50)));
  const Ref<Dataset> zipped =
      Ok(Dataset::Zip(datasets_, *Value::Tuple({DatasetValue(left), DatasetValue(right)})));
  const Ref<Iterator> iterator = Iterate(zipped);
  int64_t next = 0;
  Slab slab;
  while (!slab.end) {
    ASSERT_TRUE(iterator->NextSlab(20, CallOptions(), &slab).ok());
    for (int64_t i = 0; i < slab.rows; ++i, ++next) {
      const Ref<Value> row = slab.Row(i).value();
      EXPECT_EQ(row->leaf(0).tensor().item<int64_t>(), next);
      EXPECT_EQ(row->leaf(1).tensor().item<int64_t>(), next);
    }
  }
  EXPECT_EQ(next, 50);
}

TEST_F(BasicOps, CardinalitiesFollowTheRules) {
  const Ref<Dataset> infinite = Ok(Range(3)->Repeat());
  const Ref<Dataset> unknown = Ok(Range(3)->Filter(AddOne(nullptr)));
  EXPECT_EQ(Range(42)->cardinality(), 42);
  EXPECT_EQ(infinite->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(unknown->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Range(0)->Repeat())->cardinality(), 0);
  EXPECT_EQ(Ok(Range(4)->Repeat(3))->cardinality(), 12);
  EXPECT_EQ(Ok(infinite->Take(7))->cardinality(), 7);
  EXPECT_EQ(Ok(unknown->Take(7))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(infinite->Skip(7))->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Ok(Range(5)->Skip(7))->cardinality(), 0);
  EXPECT_EQ(Ok(Range(5)->Concatenate(*infinite))->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Ok(unknown->Concatenate(*infinite))->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Ok(unknown->Concatenate(*Range(5)))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Range(10)->Shard(3, 0))->cardinality(), 4);
  EXPECT_EQ(Ok(Range(10)->Shard(3, 1))->cardinality(), 3);
  EXPECT_EQ(Ok(Range(42)->Batch(4))->cardinality(), 11);
  EXPECT_EQ(Ok(Range(42)->Batch(4, true))->cardinality(), 10);
  const auto zip = [this](const Ref<Dataset>& a, const Ref<Dataset>& b) {
    return Ok(Dataset::Zip(datasets_, *Value::Tuple({DatasetValue(a), DatasetValue(b)})))
        ->cardinality();
  };
  EXPECT_EQ(zip(Range(5), infinite), 5);
  EXPECT_EQ(zip(Range(5), Range(3)), 3);
  EXPECT_EQ(zip(Range(5), unknown), kUnknownCardinality);
  EXPECT_EQ(zip(infinite, infinite), kInfiniteCardinality);
}

}  // namespace
}  // namespace tutti
