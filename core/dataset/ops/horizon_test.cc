// How far ahead of what is asked for a stage may run, as each op tells its input: never beyond what
// a take leaves.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;

// What has been asked of the source, in order.
struct Asked {
  std::vector<Demand> demands;
};
Asked* asked = nullptr;  // of the test that runs

// 0, 1, ... for ever, as scalars.
class Endless final : public Stage {
 public:
  using Stage::Stage;
  void Next(const Demand& demand, const CallOptions&, Slab* slab) override {
    asked->demands.push_back(demand);
    const int64_t rows = std::min<int64_t>(demand.max_rows, 8);
    std::vector<Leaf> leaves;
    for (int64_t i = 0; i < rows; ++i) leaves.push_back(Leaf::OfTensor(Tensor::Scalar(next_++)));
    slab->rows = rows;
    slab->tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    slab->columns.push_back(Column::Rows(std::move(leaves)));
  }

 private:
  int64_t next_ = 0;
};

constinit const OpTraits kEndlessOp = {
    .name = "endless",
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .cardinality = [](const Node&) { return kInfiniteCardinality; },
    .element_spec = [](const Node&) -> Result<Ref<const ElementSpec>> { return Int64Scalar(); },
    .make_stage = [](const Node& node, const ExecContext&,
                     StageInputs inputs) -> Result<std::unique_ptr<Stage>> {
      return std::unique_ptr<Stage>(std::make_unique<Endless>(node, std::move(inputs)));
    },
};

class Horizon : public DatasetTest {
 protected:
  Horizon() {
    EXPECT_TRUE(datasets_->ops().Add(kEndlessOp).ok());
    asked = &asked_;
  }
  ~Horizon() override { asked = nullptr; }

  Ref<Dataset> Source() { return Ok(Dataset::Make(datasets_, "endless", "", {}, {})); }

  // The horizons that the source is told while `elements` elements are taken one by one.
  std::vector<int64_t> Told(const Ref<Dataset>& dataset, int elements) {
    asked_.demands.clear();
    const Ref<Iterator> iterator = Iterate(dataset);
    Take(*iterator, elements);
    EXPECT_TRUE(iterator->Close(CallOptions()).ok());
    std::vector<int64_t> told;
    for (const Demand& demand : asked_.demands) {
      EXPECT_LE(demand.max_rows, demand.Horizon());
      told.push_back(demand.Horizon());
    }
    return told;
  }

  Asked asked_;
};

Ref<TestFunction> Always(bool verdict) {
  return verdict ? MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
    return Value::OfTensor(Tensor::Scalar(true));
  })
                 : MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
                     return Value::OfTensor(Tensor::Scalar(false));
                   });
}

TEST_F(Horizon, CountsAndKnowsNothingLargerThanNone) {
  EXPECT_EQ(HorizonPlus(5, -2), 3);
  EXPECT_EQ(HorizonPlus(kNoHorizon, -2), kNoHorizon);
  EXPECT_EQ(HorizonPlus(kNoHorizon - 1, 7), kNoHorizon);
  EXPECT_EQ(HorizonTimes(5, 4), 20);
  EXPECT_EQ(HorizonTimes(kNoHorizon, 2), kNoHorizon);
  EXPECT_EQ(HorizonTimes(kNoHorizon / 2, 3), kNoHorizon);
  EXPECT_EQ(Demand{.max_rows = 3}.Horizon(), 3);
}

TEST_F(Horizon, IsLoweredByTake) {
  EXPECT_THAT(Told(Source(), 2), ElementsAre(kNoHorizon, kNoHorizon));
  EXPECT_THAT(Told(Ok(Source()->Take(3)), 5), ElementsAre(3, 2, 1));
  EXPECT_THAT(Told(Ok(Ok(Source()->Take(3))->Take(2)), 5), ElementsAre(2, 1));
  EXPECT_THAT(Told(Ok(Source()->Take(-1)), 1), ElementsAre(kNoHorizon));
}

TEST_F(Horizon, OfSkipAndShardHasTheRowsThatTheyPassOver) {
  EXPECT_THAT(Told(Ok(Ok(Source()->Skip(4))->Take(2)), 5), ElementsAre(6, 2, 1));
  // Of rows 1, 4, 7 the last lies eight rows away.
  EXPECT_THAT(Told(Ok(Ok(Source()->Shard(3, 1))->Take(3)), 1), ElementsAre(8, 7));
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Source()->Shard(3, 1))->Take(3)));
  asked_.demands.clear();
  Slab slab;
  ASSERT_TRUE(iterator->NextSlab(3, CallOptions(), &slab).ok());
  EXPECT_EQ(asked_.demands[0].Horizon(), 8);
}

TEST_F(Horizon, OfBatchIsThatOfItsRows) {
  EXPECT_THAT(Told(Ok(Ok(Source()->Batch(5))->Take(2)), 5), ElementsAre(10, 5));
  // Eight rows come at once; the rest of the batch is what is left.
  EXPECT_THAT(Told(Ok(Ok(Source()->Batch(10))->Take(2)), 1), ElementsAre(20, 12));
  EXPECT_THAT(Told(Ok(Source()->Batch(5)), 1), ElementsAre(kNoHorizon));
}

TEST_F(Horizon, OfShuffleFillsTheBuffer) {
  // Four rows, then one in the place of each that is drawn but the last.
  EXPECT_THAT(Told(Ok(Ok(Source()->Shuffle(4, Seed(1)))->Take(3)), 5), ElementsAre(6, 2, 1));
}

TEST_F(Horizon, OfWhatKeepsEveryRowIsTheSame) {
  EXPECT_THAT(Told(Ok(Ok(Source()->Map(AddOne()))->Take(2)), 2), ElementsAre(2, 1));
  EXPECT_THAT(Told(Ok(Ok(Source()->Enumerate(0))->Take(2)), 2), ElementsAre(2, 1));
  EXPECT_THAT(Told(Ok(Ok(Source()->Cache())->Take(2)), 2), ElementsAre(2, 1));
  EXPECT_THAT(Told(Ok(Ok(Source()->Repeat(2))->Take(2)), 2), ElementsAre(2, 1));
  EXPECT_THAT(Told(Ok(Ok(Source()->Prefetch(0))->Take(2)), 2), ElementsAre(2, 1));
  EXPECT_THAT(Told(Ok(Ok(Source()->TakeWhile(Always(true)))->Take(2)), 2), ElementsAre(2, 1));
  EXPECT_THAT(Told(Ok(Ok(Range(1)->Concatenate(*Source()))->Take(3)), 3), ElementsAre(2, 1));
}

TEST_F(Horizon, IsUnknownWhereRowsAreLookedFor) {
  EXPECT_THAT(Told(Ok(Ok(Source()->Filter(Always(true)))->Take(1)), 2), ElementsAre(kNoHorizon));
  EXPECT_THAT(Told(Ok(Ok(Source()->Unique())->Take(1)), 2), ElementsAre(kNoHorizon));
}

TEST_F(Horizon, OfZipEndsWithTheShortestInput) {
  const auto zip = [this](const Ref<Dataset>& a, const Ref<Dataset>& b) {
    return Ok(Dataset::Zip(datasets_,
                           *Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, a)),
                                          Value::OfLeaf(Leaf(LeafKind::kDataset, b))})));
  };
  EXPECT_THAT(Told(zip(Source(), Range(3)), 2), ElementsAre(3, 2));
  EXPECT_THAT(Told(Ok(zip(Source(), Range(3))->Take(2)), 2), ElementsAre(2, 1));
  const Ref<Dataset> dataset = zip(Source(), Range(9));
  const Ref<Iterator> iterator = Iterate(dataset);
  Slab slab;
  ASSERT_TRUE(iterator->NextSlab(4, CallOptions(), &slab).ok());
  const Ref<Iterator> restored = Iterate(dataset);
  ASSERT_TRUE(restored->Restore(iterator->Save(CallOptions()).value(), CallOptions()).ok());
  asked_.demands.clear();
  ASSERT_TRUE(restored->NextSlab(100, CallOptions(), &slab).ok());
  EXPECT_EQ(slab.rows, 5);
  EXPECT_EQ(asked_.demands[0].max_rows, 5);
}

TEST_F(Horizon, IsOfRowsOfWhichAShardPassesOverSome) {
  // Whether the source is told of every call that nothing is passed over from there on.
  const auto all_wanted = [this](const Ref<Dataset>& dataset) {
    Told(dataset, 2);
    return std::all_of(asked_.demands.begin(), asked_.demands.end(),
                       [](const Demand& demand) { return demand.all_wanted; });
  };
  const std::vector<Ref<Dataset>> passing = {
      Source(),
      Ok(Source()->Map(AddOne())),
      Ok(Source()->Map(AddOne(), Parallel(2))),
      Ok(Source()->Batch(2)),
      Ok(Source()->Enumerate(1)),
      Ok(Source()->Take(9)),
      Ok(Source()->Repeat(2)),
      Ok(Source()->Skip(0)),
      Ok(Source()->Prefetch(0)),
      Ok(Source()->Shard(1, 0)),
      Ok(Range(1)->Concatenate(*Source())),
      Ok(Source()->Cache()),
  };
  for (const Ref<Dataset>& dataset : passing) {
    EXPECT_TRUE(all_wanted(dataset)) << dataset->Explain();
    EXPECT_FALSE(all_wanted(Ok(dataset->Shard(2, 0)))) << dataset->Explain();
  }
  const std::vector<Ref<Dataset>> making = {
      Ok(Source()->Filter(Always(true))), Ok(Source()->TakeWhile(Always(true))),
      Ok(Source()->Unique()),             Ok(Source()->Shuffle(2, Seed(1))),
      Ok(Source()->Prefetch(2)),
  };
  for (const Ref<Dataset>& dataset : making) {
    EXPECT_TRUE(all_wanted(Ok(dataset->Shard(2, 0)))) << dataset->Explain();
  }
}

TEST_F(Horizon, EndsWhatPrefetchMakesAhead) {
  const Ref<Dataset> dataset = Ok(Ok(Source()->Prefetch(100))->Take(5));
  const Ref<Iterator> iterator = Iterate(dataset);
  Take(*iterator, 9);
  // The thread has had its say when it is joined.
  ASSERT_TRUE(iterator->Close(CallOptions()).ok());
  int64_t rows = 0;
  for (const Demand& demand : asked_.demands) rows += std::min<int64_t>(demand.max_rows, 8);
  EXPECT_EQ(rows, 5);
}

}  // namespace
}  // namespace tutti
