#include "core/tensor/copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "core/tensor/concat.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Ref<Tensor> Iota(const Shape& shape, int32_t first = 0) {
  Ref<Tensor> tensor = Tensor::Create(DType::kInt32, shape).value();
  std::span<int32_t> items = tensor->mutable_span<int32_t>();
  std::iota(items.begin(), items.end(), first);
  return tensor;
}

Ref<Tensor> Strings(std::vector<std::string_view> texts, const Shape& shape) {
  std::vector<BytesView> views;
  for (std::string_view text : texts) views.push_back({text.data(), text.size()});
  return Tensor::FromStrings(shape, views).value();
}

std::vector<std::string> Texts(const Tensor& tensor) {
  std::vector<std::string> texts;
  for (const BytesView& view : tensor.span<BytesView>()) texts.emplace_back(view.text());
  return texts;
}

std::vector<const Tensor*> Pointers(const std::vector<Ref<Tensor>>& tensors) {
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

TEST(Fill, RepeatsItemsOfEverySize) {
  for (size_t size : {1, 2, 4, 8, 16}) {
    std::vector<char> item(size);
    std::iota(item.begin(), item.end(), 1);
    std::vector<char> out(size * 100);
    FillElements(size, item.data(), out.data(), 100);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], item[i % size]);
  }
}

TEST(Full, ConvertsTheValue) {
  EXPECT_THAT(Full(DType::kInt16, Shape({3}), -2.0).value()->span<int16_t>(),
              ElementsAre(-2, -2, -2));
  EXPECT_EQ(Full(DType::kBytes, Shape(), 0).status().code(), StatusCode::kInvalidArgument);
}

// Random shapes, orders of axes, and gaps, against a copy by indices.
TEST(CopyStrided, CopiesAnyStrides) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t rank = random() % 5;
    std::vector<int64_t> dims(rank);
    for (int64_t& dim : dims) dim = random() % 4 + (random() % 8 != 0);
    const Shape shape{std::span<const int64_t>(dims)};
    const auto make_strides = [&](int64_t* extent) {
      std::vector<size_t> order(rank);
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      std::vector<int64_t> strides(rank);
      int64_t stride = 1 + random() % 2;
      for (size_t axis : order) {
        strides[axis] = stride;
        stride *= std::max<int64_t>(dims[axis], 1);
      }
      *extent = stride + 1;
      return strides;
    };
    int64_t source_extent = 0;
    int64_t destination_extent = 0;
    const auto source_strides = make_strides(&source_extent);
    const auto destination_strides = make_strides(&destination_extent);
    std::vector<int32_t> source(source_extent);
    std::iota(source.begin(), source.end(), 1);
    std::vector<int32_t> copied(destination_extent);
    std::vector<int32_t> expected(destination_extent);
    CopyStrided(sizeof(int32_t), dims, source.data(), source_strides, copied.data(),
                destination_strides);
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      int64_t rest = i;
      int64_t from = 0;
      int64_t to = 0;
      for (size_t axis = rank; axis-- > 0;) {
        from += rest % dims[axis] * source_strides[axis];
        to += rest % dims[axis] * destination_strides[axis];
        rest /= dims[axis];
      }
      expected[to] = source[from];
    }
    ASSERT_EQ(copied, expected) << "trial " << trial;
  }
}

TEST(CopyInto, TakesEqualSpecsAndWritableMemory) {
  const Ref<Tensor> source = Iota(Shape({2, 2}));
  const Ref<Tensor> wide = Tensor::Create(DType::kInt32, Shape({2, 4})).value();
  const Ref<Tensor> columns = wide->SliceAxis(1, 1, 3).value();
  ASSERT_TRUE(CopyInto(*source, columns.get()).ok());
  EXPECT_THAT(wide->span<int32_t>(), ElementsAre(0, 0, 1, 0, 0, 2, 3, 0));
  EXPECT_EQ(CopyInto(*source, wide.get()).code(), StatusCode::kInvalidArgument);
  int32_t one = 1;
  const Ref<Tensor> constant =
      Tensor::Wrap(&one, sizeof(one), DType::kInt32, Shape(), {}, true, nullptr).value();
  EXPECT_EQ(CopyInto(*Tensor::Scalar<int32_t>(2), constant.get()).code(),
            StatusCode::kFailedPrecondition);
  const Ref<Tensor> text = Tensor::Bytes("a");
  EXPECT_EQ(CopyInto(*Tensor::Bytes("b"), text.get()).code(), StatusCode::kInvalidArgument);
}

TEST(Concat, JoinsAlongAnyAxis) {
  const std::vector<Ref<Tensor>> parts = {Iota(Shape({1, 2})), Iota(Shape({1, 3}), 10)};
  const Ref<Tensor> joined = Concat(Pointers(parts), 1).value();
  EXPECT_EQ(joined->shape(), Shape({1, 5}));
  EXPECT_THAT(joined->span<int32_t>(), ElementsAre(0, 1, 10, 11, 12));
  const std::vector<Ref<Tensor>> rows = {Iota(Shape({2, 2})), Iota(Shape({0, 2})),
                                         Iota(Shape({1, 2}), 10)};
  EXPECT_THAT(Concat(Pointers(rows), 0).value()->span<int32_t>(),
              ElementsAre(0, 1, 2, 3, 10, 11));
  const std::vector<Ref<Tensor>> blocks = {Iota(Shape({2, 2})),
                                           Iota(Shape({2, 4}), 10)->SliceAxis(1, 1, 2).value()};
  EXPECT_THAT(Concat(Pointers(blocks), 1).value()->span<int32_t>(),
              ElementsAre(0, 1, 11, 2, 3, 15));
}

TEST(Concat, GathersByteStrings) {
  std::vector<Ref<Tensor>> parts = {Strings({"a", "b", "c", "d"}, Shape({2, 2})),
                                    Strings({"e", "f"}, Shape({2, 1}))};
  const Ref<Tensor> joined = Concat(Pointers(parts), 1).value();
  parts.clear();
  EXPECT_THAT(Texts(*joined), ElementsAre("a", "b", "e", "c", "d", "f"));
}

TEST(Concat, NamesTensorsThatDoNotFit) {
  const std::vector<Ref<Tensor>> parts = {Iota(Shape({1, 2})), Iota(Shape({2, 3}))};
  const Status status = Concat(Pointers(parts), 1).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("int32[1,2]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("int32[2,3]"));
  EXPECT_EQ(Concat({}, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Concat(Pointers({parts[0]}), 2).status().code(), StatusCode::kInvalidArgument);
  const Ref<Tensor> scalar = Tensor::Scalar<int32_t>(1);
  EXPECT_EQ(Concat(Pointers({scalar}), 0).status().code(), StatusCode::kInvalidArgument);
}

TEST(Split, UndoesConcat) {
  const Ref<Tensor> tensor = Iota(Shape({2, 5}));
  const int64_t sizes[] = {2, 0, 3};
  const std::vector<Ref<Tensor>> parts = Split(*tensor, sizes, 1).value();
  EXPECT_EQ(parts[1]->shape(), Shape({2, 0}));
  EXPECT_TRUE(Concat(Pointers(parts), 1).value()->ContentsEqual(*tensor));
  const int64_t short_sizes[] = {2, 2};
  EXPECT_EQ(Split(*tensor, short_sizes, 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(Split(*tensor, sizes, 2).ok());
}

TEST(GatherRows, TakesRowsOfSeveralTensorsInOrder) {
  const std::vector<Ref<Tensor>> sources = {Iota(Shape({3, 2})), Iota(Shape({2, 2}), 100)};
  const RowRef rows[] = {{1, 1}, {0, 2}, {0, 0}, {1, 0}, {0, 2}};
  const Ref<Tensor> gathered = GatherRows(Pointers(sources), rows).value();
  EXPECT_EQ(gathered->shape(), Shape({5, 2}));
  EXPECT_THAT(gathered->span<int32_t>(), ElementsAre(102, 103, 4, 5, 0, 1, 100, 101, 4, 5));
  const Ref<Tensor> into = Tensor::Create(DType::kInt32, Shape({5, 2})).value();
  ASSERT_TRUE(GatherRowsInto(Pointers(sources), rows, into.get()).ok());
  EXPECT_TRUE(into->ContentsEqual(*gathered));
  EXPECT_EQ(GatherRowsInto(Pointers(sources), rows, sources[0].get()).code(),
            StatusCode::kInvalidArgument);
}

TEST(GatherRows, CopiesRowsOfEverySize) {
  for (int64_t width : {0, 1, 2, 4, 5, 8, 16, 100}) {
    Ref<Tensor> bytes = Tensor::Create(DType::kUint8, Shape({10, width})).value();
    std::span<uint8_t> items = bytes->mutable_span<uint8_t>();
    std::iota(items.begin(), items.end(), uint8_t{0});
    const int64_t rows[] = {9, 0, 5};
    const Ref<Tensor> gathered = GatherRows(*bytes, rows).value();
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(gathered->Row(i)->ContentsEqual(*bytes->Row(rows[i])));
    }
  }
}

TEST(GatherRows, ReadsViewsWithGaps) {
  const Ref<Tensor> tensor = Iota(Shape({3, 4}));
  const int64_t rows[] = {2, 0};
  EXPECT_THAT(GatherRows(*tensor->SliceAxis(1, 1, 3).value(), rows).value()->span<int32_t>(),
              ElementsAre(9, 10, 1, 2));
  const int64_t begin[] = {2, 3};
  const int64_t size[] = {3, 2};
  const int64_t step[] = {-1, -2};
  const Ref<Tensor> backwards = tensor->SliceGeneral(begin, size, step).value();
  EXPECT_THAT(GatherRows(*backwards, rows).value()->span<int32_t>(), ElementsAre(3, 1, 11, 9));
}

TEST(GatherRows, GathersByteStrings) {
  Ref<Tensor> strings = Strings({"zero", "one", "two"}, Shape({3}));
  const int64_t rows[] = {2, 0, 2};
  const Ref<Tensor> gathered = GatherRows(*strings, rows).value();
  Ref<Tensor> table = Strings({"a", "b", "c", "d", "e", "f"}, Shape({2, 3}));
  const int64_t second[] = {1};
  const Ref<Tensor> from_view = GatherRows(*table->SliceAxis(1, 0, 2).value(), second).value();
  strings.reset();
  table.reset();
  EXPECT_THAT(Texts(*gathered), ElementsAre("two", "zero", "two"));
  EXPECT_THAT(Texts(*from_view), ElementsAre("d", "e"));
}

TEST(GatherRows, RefusesRowsAndTensorsThatDoNotFit) {
  const Ref<Tensor> tensor = Iota(Shape({3, 2}));
  const int64_t outside[] = {3};
  EXPECT_EQ(GatherRows(*tensor, outside).status().code(), StatusCode::kOutOfRange);
  const RowRef no_source[] = {{1, 0}};
  EXPECT_EQ(GatherRows(Pointers({tensor}), no_source).status().code(), StatusCode::kOutOfRange);
  const std::vector<Ref<Tensor>> unequal = {tensor, Iota(Shape({3, 3}))};
  const Status status = GatherRows(Pointers(unequal), {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("int32[3,3]"));
  EXPECT_EQ(GatherRows(*Tensor::Scalar<int32_t>(1), {}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Stack, PutsTensorsUnderANewAxis) {
  const std::vector<Ref<Tensor>> rows = {Iota(Shape({2})),
                                         Iota(Shape({2, 2}), 10)->SliceAxis(1, 1, 2).value()
                                             ->Reshape(std::vector<int64_t>{2}).value()};
  const Ref<Tensor> stacked = Stack(Pointers(rows)).value();
  EXPECT_EQ(stacked->shape(), Shape({2, 2}));
  EXPECT_THAT(stacked->span<int32_t>(), ElementsAre(0, 1, 11, 13));
  const std::vector<Ref<Tensor>> texts = {Tensor::Bytes("x"), Tensor::Bytes("yz")};
  EXPECT_THAT(Texts(*Stack(Pointers(texts)).value()), ElementsAre("x", "yz"));
  const std::vector<Ref<Tensor>> unequal = {Iota(Shape({2})), Iota(Shape({3}))};
  const Status status = Stack(Pointers(unequal)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 1 is int32[3]"));
  EXPECT_EQ(Stack({}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Stack, ReadsViewsWithGaps) {
  const Ref<Tensor> column = Iota(Shape({2, 3}))->SliceAxis(1, 1, 2).value();
  const std::vector<Ref<Tensor>> twice = {column, column};
  EXPECT_THAT(Stack(Pointers(twice)).value()->span<int32_t>(), ElementsAre(1, 4, 1, 4));
}

}  // namespace
}  // namespace tutti
