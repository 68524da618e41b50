#include <gmock/gmock.h>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Batch : public DatasetTest {};

// x -> a vector of x zeros.
Ref<TestFunction> ZerosOf() {
  return MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> zeros,
                               Tensor::Create(DType::kInt64, Shape({NumberIn(in)})));
        return Value::OfTensor(std::move(zeros));
      },
      {.spec = ElementSpec::OfTensor(DType::kInt64, PartialShape({-1}))});
}

TEST_F(Batch, StacksConsecutiveElements) {
  EXPECT_THAT(All(Ok(Range(8)->Batch(3))), ElementsAre("[0 1 2]", "[3 4 5]", "[6 7]"));
  EXPECT_THAT(All(Ok(Range(8)->Batch(3, true))), ElementsAre("[0 1 2]", "[3 4 5]"));
  EXPECT_THAT(All(Ok(Range(2)->Batch(3, true))), ElementsAre());
  EXPECT_THAT(All(Ok(Ok(Range(5)->Batch(2))->Batch(2, true))), ElementsAre("[[0 1] [2 3]]"));
}

TEST_F(Batch, KnowsItsSpec) {
  EXPECT_EQ(SpecText(Ok(Range(8)->Batch(3))), "int64[?]");
  EXPECT_EQ(SpecText(Ok(Range(8)->Batch(3, true))), "int64[3]");
}

TEST_F(Batch, OfContiguousRowsIsAView) {
  const Ref<Tensor> numbers = Tensor::Vector<int64_t>({1, 2, 3, 4, 5});
  const Ref<Dataset> batches =
      Ok(Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(numbers)))->Batch(2));
  const Ref<Iterator> iterator = Iterate(batches);
  for (size_t row : {0, 2, 4}) {
    const Ref<Value> batch = iterator->Next(CallOptions()).value();
    EXPECT_EQ(batch->AsTensor()->data(), numbers->span<int64_t>().data() + row);
  }
}

TEST_F(Batch, CrossesTheSeamsOfItsInput) {
  const Ref<Dataset> seams = Ok(Ok(Range(2)->Concatenate(*Range(2, 3)))->Repeat(3));
  EXPECT_THAT(All(Ok(seams->Batch(4))), ElementsAre("[0 1 2 0]", "[1 2 0 1]", "[2]"));
}

TEST_F(Batch, LargerThanASlabComesWhole) {
  const Ref<Iterator> iterator = Iterate(Ok(Range(20'000)->Batch(15'000)));
  EXPECT_EQ(iterator->Next(CallOptions()).value()->AsTensor()->dim(0), 15'000);
  const Ref<Value> last = iterator->Next(CallOptions()).value();
  EXPECT_EQ(last->AsTensor()->dim(0), 5'000);
  EXPECT_EQ(last->AsTensor()->span<int64_t>().back(), 19'999);
}

TEST_F(Batch, RefusesASizeThatIsNotPositive) {
  const Result<Ref<Dataset>> none = Range(8)->Batch(0);
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(none.status().message(), "batch: batch_size must be positive, got 0");
}

TEST_F(Batch, NamesBothShapesOfRowsThatDifferAndGoesOnBehindThem) {
  const Ref<Dataset> batches = Ok(Ok(Range(0, 6)->Map(ZerosOf()))->Batch(2, false, "mine"));
  const Ref<Iterator> iterator = Iterate(batches);
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("batch 'mine'"), HasSubstr("element 1 has shape [1]"),
                    HasSubstr("element 0 has [0]")));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 1 has shape [3], element 0 has [2]"));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 1 has shape [5], element 0 has [4]"));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(Batch, OfEachTheirOwnShapeMayDifferFromOneToTheNext) {
  const Ref<Dataset> batches = Ok(Ok(Range(1, 4)->Map(ZerosOf()))->Batch(1));
  const Ref<Iterator> iterator = Iterate(batches);
  Slab slab;
  std::vector<std::string> elements;
  while (!slab.end) {
    ASSERT_TRUE(iterator->NextSlab(10, CallOptions(), &slab).ok());
    ASSERT_TRUE(slab.status.ok());
    for (int64_t i = 0; i < slab.rows; ++i) elements.push_back(slab.Row(i).value()->ToString());
  }
  EXPECT_THAT(elements, ElementsAre("[[0]]", "[[0 0]]", "[[0 0 0]]"));
}

TEST_F(Batch, KeepsTheRowsBeforeAFailedElement) {
  const Ref<TestFunction> fails_at_two = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 2) return Status(StatusCode::kDataLoss, "bad");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(6)->Map(fails_at_two))->Batch(3)));
  EXPECT_EQ(Next(*iterator), "!map: element 2: bad");
  EXPECT_EQ(Next(*iterator), "[0 1 3]");
  EXPECT_EQ(Next(*iterator), "[4 5]");
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(Batch, OfByteStringsKeepsTheirBytes) {
  const std::vector<BytesView> words = {{"a", 1}, {"", 0}, {"xyz", 3}};
  const Ref<Dataset> batches =
      Ok(Ok(Dataset::FromTensorSlices(
                datasets_, Value::OfTensor(Tensor::FromStrings(Shape({3}), words).value())))
             ->Batch(2));
  const Ref<Iterator> iterator = Iterate(batches);
  const Ref<Value> first = iterator->Next(CallOptions()).value();
  EXPECT_EQ(first->AsTensor()->span<BytesView>()[0].text(), "a");
  EXPECT_EQ(first->AsTensor()->span<BytesView>()[1].text(), "");
  EXPECT_EQ(iterator->Next(CallOptions()).value()->AsTensor()->item<BytesView>().text(), "xyz");
}

TEST_F(Batch, RefusesElementsThatAreNoTensors) {
  const Ref<Dataset> texts = Ok(Dataset::FromTensors(datasets_, Value::OfString("x")));
  EXPECT_THAT(std::string(texts->Batch(2).status().message()),
              HasSubstr("only tensors can be stacked"));
}

}  // namespace
}  // namespace tutti
