#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/dataset/ops/shuffle_order.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Shuffle : public DatasetTest {
 protected:
  std::vector<int64_t> Shuffled(int64_t stop, int64_t buffer, ShuffleOptions options) {
    return Numbers(Ok(Range(stop)->Shuffle(buffer, std::move(options))));
  }
  static std::vector<int64_t> Sorted(std::vector<int64_t> numbers) {
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
};

// A promise: these orders never change. A new generator gets a new version beside this one.
TEST_F(Shuffle, OrderOfASeedIsGolden) {
  EXPECT_EQ(ShuffleOrder::kVersion, 1);
  EXPECT_THAT(Shuffled(10, 10, Seed(7)), ElementsAre(4, 0, 2, 7, 1, 5, 6, 8, 3, 9));
  EXPECT_THAT(Shuffled(10, 3, Seed(7)), ElementsAre(1, 0, 4, 5, 6, 7, 3, 8, 2, 9));
  EXPECT_THAT(Shuffled(10, 10, Seed(-1, false)), ElementsAre(6, 8, 0, 1, 2, 7, 5, 3, 9, 4));
}

TEST_F(Shuffle, IsAPermutation) {
  const std::vector<int64_t> order = Shuffled(1000, 100, Seed(7));
  const std::vector<int64_t> sorted = Sorted(order);
  EXPECT_EQ(sorted, Numbers(Range(1000)));
  EXPECT_NE(order, sorted);
  // Nothing comes before it is in the buffer.
  for (size_t i = 0; i < order.size(); ++i) EXPECT_LE(order[i], static_cast<int64_t>(i) + 99);
}

TEST_F(Shuffle, OrderDoesNotDependOnHowTheInputComes) {
  const std::vector<int64_t> order = Shuffled(200, 32, Seed(3));
  const Ref<Dataset> seams =
      Ok(Ok(Range(0, 17)->Concatenate(*Range(17, 90)))->Concatenate(*Range(90, 200)));
  EXPECT_EQ(Numbers(Ok(seams->Shuffle(32, Seed(3)))), order);
  const Ref<Iterator> iterator = Iterate(Ok(Range(200)->Shuffle(32, Seed(3))));
  std::vector<int64_t> by_slab;
  Slab slab;
  for (int64_t rows = 1; !slab.end; rows = rows * 3 % 50 + 1) {
    ASSERT_TRUE(iterator->NextSlab(rows, CallOptions(), &slab).ok());
    for (int64_t i = 0; i < slab.rows; ++i) by_slab.push_back(NumberIn(*slab.Row(i).value()));
  }
  EXPECT_EQ(by_slab, order);
}

TEST_F(Shuffle, IsUniform) {
  // 3 elements have 6 orders; 6000 seeds give each about 1000 times.
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t seed = 0; seed < 6000; ++seed) {
    ShuffleOrder order(seed, 0, 0);
    std::vector<int64_t> left = {0, 1, 2};
    std::vector<int64_t> drawn;
    while (!left.empty()) {
      const size_t i = order.Below(left.size());
      drawn.push_back(left[i]);
      left.erase(left.begin() + static_cast<ptrdiff_t>(i));
    }
    ++counts[drawn];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) {
    EXPECT_GT(count, 850);
    EXPECT_LT(count, 1150);
  }
}

TEST_F(Shuffle, DrawsANewOrderPerEpochUnlessToldNotTo) {
  const auto halves = [this](bool reshuffle) {
    const Ref<Dataset> twice = Ok(Ok(Range(50)->Shuffle(50, Seed(7, reshuffle)))->Repeat(2));
    const std::vector<int64_t> all = Numbers(twice);
    EXPECT_EQ(all.size(), 100u);
    return std::pair(std::vector<int64_t>(all.begin(), all.begin() + 50),
                     std::vector<int64_t>(all.begin() + 50, all.end()));
  };
  const auto [first, second] = halves(true);
  EXPECT_NE(first, second);
  EXPECT_EQ(Sorted(first), Sorted(second));
  const auto [same, again] = halves(false);
  EXPECT_EQ(same, again);
}

TEST_F(Shuffle, DrawsANewOrderPerIteratorUnlessToldNotTo) {
  const Ref<Dataset> anew = Ok(Range(50)->Shuffle(50, Seed(7)));
  EXPECT_NE(Numbers(anew), Numbers(anew));
  const Ref<Dataset> fixed = Ok(Range(50)->Shuffle(50, Seed(7, false)));
  EXPECT_EQ(Numbers(fixed), Numbers(fixed));
}

TEST_F(Shuffle, GivesTheSameOrderWhenBuiltAgainWithTheSeed) {
  EXPECT_EQ(Shuffled(100, 100, Seed(3)), Shuffled(100, 100, Seed(3)));
  EXPECT_NE(Shuffled(100, 100, Seed(3)), Shuffled(100, 100, Seed(4)));
}

TEST_F(Shuffle, WithoutASeedTakesTheEnvironments) {
  environment_->SetDefaultSeed(11);
  const std::vector<int64_t> first = Shuffled(100, 100, {});
  const std::vector<int64_t> second = Shuffled(100, 100, {});
  EXPECT_NE(first, second);
  environment_->SetDefaultSeed(11);
  EXPECT_EQ(Shuffled(100, 100, {}), first);
  environment_->SetDefaultSeed(std::nullopt);
  EXPECT_NE(Shuffled(100, 100, {}), Shuffled(100, 100, {}));
}

TEST_F(Shuffle, KeepsTheComponentsOfAnElementTogether) {
  const Ref<Dataset> pairs = Ok(Ok(Range(1000, 1500)->Enumerate())->Shuffle(64, Seed(1)));
  const Ref<Iterator> iterator = Iterate(pairs);
  std::set<int64_t> seen;
  while (const Ref<Value> pair = iterator->Next(CallOptions()).value()) {
    EXPECT_EQ(pair->leaf(0).tensor().item<int64_t>() + 1000,
              pair->leaf(1).tensor().item<int64_t>());
    seen.insert(NumberIn(*pair));
  }
  EXPECT_EQ(seen.size(), 500u);
}

TEST_F(Shuffle, TakesRowsOfAnyShapeAndByteStrings) {
  const Ref<TestFunction> ragged =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const int64_t n = NumberIn(in);
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> vector, Tensor::Create(DType::kInt64, Shape({n % 4})));
        for (int64_t& item : vector->mutable_span<int64_t>()) item = n;
        return Value::Tuple({Value::OfTensor(std::move(vector)),
                             Value::OfTensor(Tensor::Bytes(std::to_string(n)))});
      });
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(60)->Map(ragged))->Shuffle(16, Seed(5))));
  std::set<std::string> seen;
  while (const Ref<Value> element = iterator->Next(CallOptions()).value()) {
    const std::string name(element->leaf(1).tensor().item<BytesView>().text());
    const Tensor& vector = element->leaf(0).tensor();
    EXPECT_EQ(vector.dim(0), std::stoll(name) % 4);
    for (int64_t item : vector.span<int64_t>()) EXPECT_EQ(std::to_string(item), name);
    seen.insert(name);
  }
  EXPECT_EQ(seen.size(), 60u);
}

TEST_F(Shuffle, CopesWithRowsWhoseShapeChangesOnTheWay) {
  const Ref<Dataset> narrow = Ok(Dataset::FromTensorSlices(
      datasets_, Value::OfTensor(Tensor::Create(DType::kInt64, Shape({8, 2})).value())));
  const Ref<Dataset> wide = Ok(Dataset::FromTensorSlices(
      datasets_, Value::OfTensor(Tensor::Create(DType::kInt64, Shape({8, 3})).value())));
  std::map<std::string, int> counts;
  for (const std::string& row : All(Ok(Ok(narrow->Concatenate(*wide))->Shuffle(5, Seed(2))))) {
    ++counts[row];
  }
  EXPECT_EQ(counts["[0 0]"], 8);
  EXPECT_EQ(counts["[0 0 0]"], 8);
}

TEST_F(Shuffle, PassesErrorsOnAndGoesOnBehindThem) {
  const Ref<TestFunction> fails_at_five = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 5) return Status(StatusCode::kDataLoss, "bad");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<Iterator> iterator =
      Iterate(Ok(Ok(Range(20)->Map(fails_at_five))->Shuffle(8, Seed(1))));
  EXPECT_THAT(Next(*iterator), HasSubstr("bad"));
  std::vector<std::string> rest = All(*iterator);
  EXPECT_EQ(rest.size(), 19u);
  EXPECT_EQ(std::set<std::string>(rest.begin(), rest.end()).size(), 19u);
}

TEST_F(Shuffle, GivesUpRestoringWhereTheInputOnlyFails) {
  static std::atomic<bool> fails;
  fails = false;
  const Ref<TestFunction> function = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (fails) return Status(StatusCode::kDataLoss, "bad");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<Iterator> iterator =
      Iterate(Ok(Ok(Ok(Range(9)->Repeat(-1))->Map(function))->Shuffle(4, Seed(1))));
  Take(*iterator, 3);
  const std::string state = iterator->Save(CallOptions()).value();
  fails = true;
  EXPECT_EQ(iterator->Restore(state, CallOptions()).code(), StatusCode::kDataLoss);
  fails = false;
  EXPECT_TRUE(iterator->Restore(state, CallOptions()).ok());
}

TEST_F(Shuffle, RefusesABufferThatIsNotPositive) {
  EXPECT_EQ(Range(3)->Shuffle(0).status().message(),
            "shuffle: buffer_size must be positive, got 0");
}

TEST_F(Shuffle, OfNothingIsEmpty) {
  EXPECT_TRUE(Shuffled(0, 10, Seed(1)).empty());
  EXPECT_THAT(Shuffled(1, 10, Seed(1)), ElementsAre(0));
}

}  // namespace
}  // namespace tutti
