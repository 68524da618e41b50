#include <gmock/gmock.h>

#include "core/base/memory_account.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Unique : public DatasetTest {
 protected:
  Ref<Dataset> Slices(Ref<Tensor> rows) {
    return Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(std::move(rows))));
  }
  std::vector<std::string> UniqueOf(Ref<Tensor> rows) {
    return All(Ok(Slices(std::move(rows))->Unique()));
  }
  static Ref<Tensor> Strings(const Shape& shape, std::vector<std::string_view> texts) {
    std::vector<BytesView> views;
    for (std::string_view text : texts) views.push_back(BytesView{text.data(), text.size()});
    return Tensor::FromStrings(shape, views).value();
  }
};

TEST_F(Unique, KeepsTheFirstOfEqualElementsInTheirOrder) {
  EXPECT_THAT(UniqueOf(Tensor::Vector<int64_t>({3, 1, 3, 2, 1})), ElementsAre("3", "1", "2"));
  EXPECT_THAT(UniqueOf(Tensor::Vector<int32_t>({1, 37, 2, 37, 2, 1})),
              ElementsAre("1", "37", "2"));
  EXPECT_THAT(Numbers(Ok(Ok(Range(4)->Repeat(3))->Unique())), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Numbers(Ok(Range(0)->Unique())), IsEmpty());
}

TEST_F(Unique, ComparesByteStringsByTheirContents) {
  const std::vector<std::string> all =
      UniqueOf(Strings(Shape({6}), {"a", "", "a", "b", "", std::string_view("a\0", 2)}));
  ASSERT_EQ(all.size(), 4u);
  // Strings of strings that would be equal when written one after the other.
  EXPECT_EQ(UniqueOf(Strings(Shape({3, 2}), {"ab", "c", "a", "bc", "ab", "c"})).size(), 2u);
}

TEST_F(Unique, ComparesShapesToo) {
  EXPECT_THAT(
      UniqueOf(
          Tensor::FromSpan<int32_t>(Shape({3, 2}), std::vector<int32_t>{1, 2, 2, 1, 1, 2}).value()),
      ElementsAre("[1 2]", "[2 1]"));
  // x -> x % 2 copies of 0, which only their number tells apart.
  const Ref<TestFunction> zeros =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                               Tensor::Create(DType::kInt64, Shape({NumberIn(in) % 3})));
        return Value::OfTensor(std::move(out));
      });
  EXPECT_THAT(All(Ok(Ok(Range(9)->Map(zeros))->Unique())), ElementsAre("[]", "[0]", "[0 0]"));
}

TEST_F(Unique, BeginsAnewWithEachPassAndEachIterator) {
  const Ref<Dataset> unique = Ok(Slices(Tensor::Vector<int64_t>({1, 1, 2}))->Unique());
  EXPECT_THAT(Numbers(unique), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(unique), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(Ok(unique->Repeat(2))), ElementsAre(1, 2, 1, 2));
}

TEST_F(Unique, SaysWhatItKnowsOfItsElements) {
  const Ref<Dataset> unique = Ok(Range(5)->Unique());
  EXPECT_EQ(unique->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Ok(Range(5)->Repeat(-1))->Unique())->cardinality(), kUnknownCardinality);
  EXPECT_EQ(SpecText(unique), "int64[]");
}

TEST_F(Unique, RefusesWhatHasNoKeyWhenItIsBuilt) {
  const Status pairs = Ok(Range(2)->Enumerate())->Unique().status();
  EXPECT_EQ(pairs.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pairs.message(),
            "unique: the elements are (int64[], int64[]); unique takes elements of one tensor of "
            "int32, int64 or byte strings; map them to such a key");
  EXPECT_EQ(Slices(Tensor::Vector<float>({1, 1}))->Unique().status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(Unique, RefusesWhatHasNoKeyWhereOnlyAnElementShowsIt) {
  const Ref<TestFunction> halves =
      MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Scalar(0.5f));
      });
  EXPECT_THAT(Next(*Iterate(Ok(Ok(Range(2)->Map(halves))->Unique()))),
              HasSubstr("unique: element 0: found float32[]"));
}

TEST_F(Unique, GoesOnBehindAnElementThatFailed) {
  const Ref<TestFunction> fails_at_one = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 1) return Status(StatusCode::kInvalidArgument, "one is bad");
        return Number(NumberIn(in) / 3);
      },
      {.spec = Int64Scalar()});
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(6)->Map(fails_at_one))->Unique()));
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_THAT(Next(*iterator), HasSubstr("one is bad"));
  EXPECT_THAT(All(*iterator), ElementsAre("1"));
}

TEST_F(Unique, IsRestoredWithWhatItHasSeen) {
  const Ref<TestFunction> folded = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Number(NumberIn(in) * NumberIn(in) % 11);
      },
      {.spec = Int64Scalar()});
  const auto build = [&] { return Ok(Ok(Ok(Range(20)->Map(folded))->Unique())->Repeat(2)); };
  const Ref<Iterator> iterator = Iterate(build());
  const Ref<Iterator> other = Iterate(build());
  const std::vector<std::string> all = All(build());
  ASSERT_EQ(all.size(), 12u);
  for (size_t i = 0; i <= all.size(); ++i) {
    const int64_t calls = folded->calls;
    const std::string state = iterator->Save(CallOptions()).value();
    ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
    EXPECT_EQ(folded->calls, calls);
    EXPECT_EQ(All(*other), std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(i),
                                                    all.end()));
    Next(*iterator);
  }
}

TEST_F(Unique, ChargesItsKeysAndLosesNothingWhenTheyDoNotFit) {
  const uint64_t before = environment_->memory().used_bytes();
  {
    // One element at a time.
    environment_->memory().set_limit_bytes(uint64_t{1} << 40);
    const Ref<Iterator> iterator = Iterate(Ok(Range(1000)->Unique()));
    Take(*iterator, 900);
    const uint64_t used = environment_->memory().used_bytes();
    EXPECT_GE(used - before, 900 * sizeof(int64_t));
    environment_->memory().set_limit_bytes(used);
    const Status full = iterator->Next(CallOptions()).status();
    EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(full.message()), HasSubstr("unique: element 900"));
    environment_->memory().set_limit_bytes(0);
    EXPECT_EQ(Next(*iterator), "900");
    EXPECT_EQ(All(*iterator).size(), 99u);
    ASSERT_TRUE(iterator->Close(CallOptions()).ok());
  }
  EXPECT_EQ(environment_->memory().used_bytes(), before);
}

}  // namespace
}  // namespace tutti
