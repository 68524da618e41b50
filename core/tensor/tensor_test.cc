#include "core/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/host_data.h"
#include "core/base/memory_account.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ref<Tensor> Iota(const Shape& shape) {
  Ref<Tensor> tensor = Tensor::Create(DType::kInt32, shape).value();
  std::span<int32_t> items = tensor->mutable_span<int32_t>();
  std::iota(items.begin(), items.end(), 0);
  return tensor;
}

std::vector<int32_t> Items(const Tensor& tensor) {
  std::vector<int32_t> items;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    items.push_back(*static_cast<const int32_t*>(tensor.ElementAt(i)));
  }
  return items;
}

void CountDestroy(void* counter) { ++*static_cast<int*>(counter); }

Ref<HostData> Counting(int* counter) { return MakeRef<HostData>(counter, CountDestroy, nullptr); }

TEST(Tensor, IsZeroedAndAlignedWhetherSmallOrLarge) {
  for (int64_t size : {0, 1, 15, 16, 17, 1000, 100000}) {
    const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({size})).value();
    ASSERT_NE(tensor->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % 64, 0u) << size;
    for (float item : tensor->span<float>()) ASSERT_EQ(item, 0.0f);
    EXPECT_EQ(tensor->byte_size(), static_cast<size_t>(size) * 4);
  }
}

TEST(Tensor, RefusesWhatIsNoDTypeAndWhatNoMachineHolds) {
  EXPECT_EQ(Tensor::Create(DType::kInvalid, Shape()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::Create(DType::kFloat64, Shape({int64_t{1} << 62})).status().code(),
            StatusCode::kResourceExhausted);
  const Status huge = Tensor::Create(DType::kInt8, Shape({int64_t{1} << 50})).status();
  EXPECT_EQ(huge.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(huge.message()), HasSubstr("int8[1125899906842624]"));
}

TEST(Tensor, ChargesAnAccountUntilTheLastViewIsGone) {
  const auto account = MakeRef<MemoryAccount>("test", nullptr, 10000);
  TensorOptions options;
  options.account = account.get();
  Ref<Tensor> tensor = Tensor::Create(DType::kInt8, Shape({6000}), options).value();
  EXPECT_EQ(account->used_bytes(), 6000u);
  const Status refused = Tensor::Create(DType::kInt8, Shape({6000}), options).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  Ref<Tensor> view = tensor->Slice(1, 2);
  tensor.reset();
  EXPECT_EQ(account->used_bytes(), 6000u);
  view.reset();
  EXPECT_EQ(account->used_bytes(), 0u);
}

TEST(Tensor, HoldsScalarsOfEveryKind) {
  EXPECT_EQ(Tensor::Scalar<int64_t>(-7)->item<int64_t>(), -7);
  EXPECT_EQ(Tensor::Scalar(2.5)->item<double>(), 2.5);
  EXPECT_EQ(Tensor::Scalar(true)->dtype(), DType::kBool);
  EXPECT_EQ(Tensor::Scalar(Complex64{1, 2})->item<Complex64>().imag, 2.0f);
  EXPECT_EQ(Tensor::Bytes("abc")->item<BytesView>().text(), "abc");
  EXPECT_EQ(Tensor::Bytes("")->item<BytesView>().size, 0u);
  EXPECT_EQ(Tensor::Scalar<uint8_t>(3)->rank(), 0u);
}

TEST(Tensor, CopiesDataOfTheRightSizeOnly) {
  const float data[] = {1, 2, 3, 4};
  const Ref<Tensor> tensor =
      Tensor::FromData(DType::kFloat32, Shape({2, 2}), data, sizeof(data)).value();
  EXPECT_THAT(tensor->span<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(Tensor::FromData(DType::kFloat32, Shape({3}), data, sizeof(data)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::FromData(DType::kFloat32, Shape({3}), data, 13).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::FromData(DType::kBytes, Shape({1}), data, 16).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Tensor, SharesMemoryWithSlicesAndRows) {
  const Ref<Tensor> tensor = Iota(Shape({4, 3}));
  const Ref<Tensor> middle = tensor->Slice(1, 3);
  EXPECT_EQ(middle->shape(), Shape({2, 3}));
  EXPECT_THAT(Items(*middle), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_TRUE(middle->is_contiguous());
  const Ref<Tensor> row = middle->Row(1);
  EXPECT_EQ(row->shape(), Shape({3}));
  tensor->mutable_span<int32_t>()[7] = 70;
  EXPECT_THAT(Items(*row), ElementsAre(6, 70, 8));
}

TEST(Tensor, KeepsInlineElementsAliveThroughViews) {
  Ref<Tensor> small = Iota(Shape({4}));
  Ref<Tensor> row = small->Row(2);
  Ref<Tensor> part = small->Slice(1, 3)->Slice(1, 2);
  EXPECT_EQ(row->data(), part->data());
  small.reset();
  EXPECT_EQ(row->item<int32_t>(), 2);
  EXPECT_EQ(part->item<int32_t>(), 2);
}

TEST(Tensor, SlicesAlongAnyAxis) {
  const Ref<Tensor> tensor = Iota(Shape({2, 4}));
  const Ref<Tensor> columns = tensor->SliceAxis(1, 1, 3).value();
  EXPECT_EQ(columns->shape(), Shape({2, 2}));
  EXPECT_FALSE(columns->is_contiguous());
  EXPECT_THAT(Items(*columns), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(Items(*columns->Row(1)), ElementsAre(5, 6));
  EXPECT_EQ(tensor->SliceAxis(2, 0, 1).status().code(), StatusCode::kInvalidArgument);
  const Status outside = tensor->SliceAxis(1, 1, 5).status();
  EXPECT_EQ(outside.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(outside.message()), HasSubstr("int32[2,4]"));
}

TEST(Tensor, SlicesRectanglesWithSteps) {
  const Ref<Tensor> tensor = Iota(Shape({3, 5}));
  const int64_t begin[] = {2, 4};
  const int64_t size[] = {2, 3};
  const int64_t step[] = {-2, -2};
  const Ref<Tensor> part = tensor->SliceGeneral(begin, size, step).value();
  EXPECT_THAT(Items(*part), ElementsAre(14, 12, 10, 4, 2, 0));
  const int64_t too_many[] = {3, 3};
  EXPECT_EQ(tensor->SliceGeneral(begin, too_many, step).status().code(), StatusCode::kOutOfRange);
  const int64_t nothing[] = {0, 3};
  const int64_t at_end[] = {3, 0};
  EXPECT_EQ(tensor->SliceGeneral(at_end, nothing).value()->num_elements(), 0);
}

TEST(Tensor, ReshapesWithoutACopyWhenDense) {
  const Ref<Tensor> tensor = Iota(Shape({2, 6}));
  const int64_t dims[] = {-1, 3};
  const Ref<Tensor> reshaped = tensor->Reshape(dims).value();
  EXPECT_EQ(reshaped->shape(), Shape({4, 3}));
  EXPECT_EQ(reshaped->data(), tensor->data());
  const Ref<Tensor> columns = tensor->SliceAxis(1, 0, 3).value();
  const int64_t flat[] = {6};
  EXPECT_THAT(Items(*columns->Reshape(flat).value()), ElementsAre(0, 1, 2, 6, 7, 8));
  const int64_t five[] = {5, -1};
  EXPECT_EQ(tensor->Reshape(five).status().code(), StatusCode::kInvalidArgument);
  const int64_t two_unknown[] = {-1, -1};
  EXPECT_EQ(tensor->Reshape(two_unknown).status().code(), StatusCode::kInvalidArgument);
  const int64_t unknown_of_nothing[] = {0, -1};
  EXPECT_EQ(Iota(Shape({0}))->Reshape(unknown_of_nothing).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(columns->ExpandFront()->shape(), Shape({1, 2, 3}));
  EXPECT_THAT(Items(*columns->ExpandFront()), ElementsAre(0, 1, 2, 6, 7, 8));
}

TEST(Tensor, WrapsMemoryAndGivesItBackOnce) {
  alignas(8) float data[6] = {0, 1, 2, 3, 4, 5};
  int destroyed = 0;
  Ref<Tensor> tensor = Tensor::Wrap(data, sizeof(data), DType::kFloat32, Shape({2, 3}), {}, true,
                                    Counting(&destroyed))
                           .value();
  EXPECT_EQ(tensor->data(), data);
  EXPECT_TRUE(tensor->read_only());
  Ref<Tensor> row = tensor->Row(1);
  EXPECT_TRUE(row->read_only());
  tensor.reset();
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(row->span<float>()[0], 3.0f);
  row.reset();
  EXPECT_EQ(destroyed, 1);
}

TEST(Tensor, WrapsBackwardsMemory) {
  int32_t data[] = {0, 1, 2, 3};
  const int64_t strides[] = {-1};
  const Ref<Tensor> tensor =
      Tensor::Wrap(data, sizeof(data), DType::kInt32, Shape({4}), strides, false, nullptr).value();
  EXPECT_THAT(Items(*tensor), ElementsAre(3, 2, 1, 0));
  const Ref<Tensor> two = Tensor::Wrap(data, sizeof(data), DType::kInt32, Shape({2}), strides,
                                       false, nullptr, sizeof(int32_t))
                              .value();
  EXPECT_THAT(Items(*two), ElementsAre(1, 0));
}

TEST(Tensor, RefusesToWrapWhatDoesNotFitAndStillGivesItBack) {
  alignas(8) float data[6] = {};
  int destroyed = 0;
  const auto wrap = [&](size_t bytes, const Shape& shape, std::vector<int64_t> strides,
                        void* place, size_t offset) {
    return Tensor::Wrap(place, bytes, DType::kFloat32, shape, strides, false, Counting(&destroyed),
                        offset)
        .status();
  };
  EXPECT_EQ(wrap(20, Shape({2, 3}), {}, data, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(wrap(24, Shape({2, 2}), {4, 2}, data, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(wrap(24, Shape({2, 3}), {-3, 1}, data, 8).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(wrap(24, Shape({2, 3}), {3}, data, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(wrap(24, Shape({2, 3}), {}, nullptr, 0).code(), StatusCode::kInvalidArgument);
  const Status misaligned = wrap(23, Shape({5}), {}, reinterpret_cast<char*>(data) + 1, 0);
  EXPECT_EQ(misaligned.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(misaligned.message()), HasSubstr("not aligned to 4 bytes"));
  EXPECT_EQ(wrap(24, Shape({int64_t{1} << 40}), {int64_t{1} << 40}, data, 0).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(destroyed, 7);
}

TEST(Tensor, MakesMutableInPlaceOnlyWhenNobodyElseLooks) {
  Ref<Tensor> tensor = Iota(Shape({100}));
  const void* data = tensor->data();
  tensor = Tensor::MakeMutable(std::move(tensor)).value();
  EXPECT_EQ(tensor->data(), data);

  Ref<Tensor> view = tensor->Slice(0, 50);
  Ref<Tensor> copy = Tensor::MakeMutable(view).value();
  EXPECT_NE(copy->data(), data);
  copy = Tensor::MakeMutable(std::move(view)).value();
  EXPECT_NE(copy->data(), data);
  EXPECT_THAT(Items(*copy->Slice(0, 3)), ElementsAre(0, 1, 2));

  view = tensor->Slice(10, 20);
  tensor.reset();
  const void* view_data = view->data();
  view = Tensor::MakeMutable(std::move(view)).value();
  EXPECT_EQ(view->data(), view_data);
}

TEST(Tensor, KnowsItsStepUnlikeWhatIsMadeOfIt) {
  const Ref<Tensor> plain = Tensor::Vector<int64_t>({1, 2, 3, 4});
  const Ref<Tensor> even = plain->SliceGeneral(std::array<int64_t, 1>{0}, std::array<int64_t, 1>{2},
                                               std::array<int64_t, 1>{2})
                               .value();
  EXPECT_EQ(plain->step_rows(), Tensor::kNoStep);
  EXPECT_EQ(plain->OfNoStep().get(), plain.get());
  for (const Ref<Tensor>& tensor : {plain, even}) {
    Ref<Tensor> part = tensor->OfStep(7);
    EXPECT_EQ(part->step_rows(), 7);
    EXPECT_EQ(tensor->step_rows(), Tensor::kNoStep);
    EXPECT_EQ(part->data(), tensor->data());
    EXPECT_TRUE(part->ContentsEqual(*tensor));
    EXPECT_EQ(part->OfStep(0)->step_rows(), 0);
    const Ref<Tensor> no_step = part->OfNoStep();
    EXPECT_TRUE(no_step->ContentsEqual(*tensor));
    for (const Ref<Tensor>& made :
         {no_step, part->Slice(0, 2), part->Reshape(std::array<int64_t, 1>{-1}).value(),
          part->ExpandFront(), part->Copy().value(), Tensor::MakeMutable(part).value()}) {
      EXPECT_EQ(made->step_rows(), Tensor::kNoStep);
    }
  }
}

TEST(Tensor, OfAStepIsOfNoneOnceItIsMadeMutableInPlace) {
  Ref<Tensor> part = Tensor::Vector<int64_t>({1, 2, 3})->OfStep(3);
  const Tensor* before = part.get();
  const Ref<Tensor> mine = Tensor::MakeMutable(std::move(part)).value();
  EXPECT_EQ(mine.get(), before);
  EXPECT_EQ(mine->step_rows(), Tensor::kNoStep);
}

TEST(Tensor, MakesMutableCopiesOfInlineAndReadOnlyMemory) {
  Ref<Tensor> small = Iota(Shape({3}));
  Ref<Tensor> row = small->Row(1);
  EXPECT_NE(Tensor::MakeMutable(small).value()->data(), small->data());
  const void* data = row->data();
  small.reset();
  row = Tensor::MakeMutable(std::move(row)).value();
  EXPECT_EQ(row->data(), data);
  EXPECT_EQ(row->item<int32_t>(), 1);

  float one = 1;
  Ref<Tensor> constant =
      Tensor::Wrap(&one, sizeof(one), DType::kFloat32, Shape(), {}, true, nullptr).value();
  Ref<Tensor> writable = Tensor::MakeMutable(std::move(constant)).value();
  EXPECT_FALSE(writable->read_only());
  *static_cast<float*>(writable->mutable_data()) = 2;
  EXPECT_EQ(one, 1.0f);
}

TEST(Tensor, GathersThePayloadOfByteStringsInCopies) {
  std::string first = "first";
  std::string second(1000, 'x');
  const BytesView views[] = {{first.data(), first.size()}, {nullptr, 0},
                             {second.data(), second.size()}};
  const Ref<Tensor> strings = Tensor::FromStrings(Shape({3}), views).value();
  first = "gone!";
  EXPECT_EQ(strings->span<BytesView>()[0].text(), "first");
  EXPECT_EQ(strings->span<BytesView>()[1].size, 0u);
  Ref<Tensor> last = strings->Row(2);
  const Ref<Tensor> copy = last->Copy().value();
  last.reset();
  EXPECT_EQ(copy->item<BytesView>().text(), std::string(1000, 'x'));
  EXPECT_EQ(Tensor::FromStrings(Shape({2}), views).status().code(), StatusCode::kInvalidArgument);
  const Ref<Tensor> every_second = strings->SliceGeneral(std::vector<int64_t>{0},
                                                         std::vector<int64_t>{2},
                                                         std::vector<int64_t>{2})
                                       .value();
  EXPECT_EQ(every_second->Copy().value()->span<BytesView>()[1].size, 1000u);
}

TEST(Tensor, ViewsByteStringsThatAnOwnerKeeps) {
  std::string payload = "hello world";
  int destroyed = 0;
  const BytesView views[] = {{payload.data(), 5}, {payload.data() + 6, 5}};
  Ref<Tensor> words =
      Tensor::FromBytesViews(Shape({2}), views, Counting(&destroyed)).value();
  Ref<Tensor> word = words->Row(1);
  words.reset();
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(word->item<BytesView>().data, payload.data() + 6);
  word.reset();
  EXPECT_EQ(destroyed, 1);
  Ref<Tensor> scalar = Tensor::BytesViewScalar(views[0], Counting(&destroyed));
  EXPECT_EQ(scalar->item<BytesView>().text(), "hello");
  scalar.reset();
  EXPECT_EQ(destroyed, 2);
}

TEST(Tensor, CopiesWhenItPinsFarMoreThanItShows) {
  const Ref<Tensor> large = Iota(Shape({1000}));
  const Ref<Tensor> row = large->Slice(0, 100);
  EXPECT_EQ(row->pinned_bytes(), 4000u);
  EXPECT_NE(row->Unpinned().value()->data(), row->data());
  EXPECT_EQ(row->Unpinned(10).value()->data(), row->data());
  const Ref<Tensor> half = large->Slice(0, 500);
  EXPECT_EQ(half->Unpinned().value()->data(), half->data());
}

TEST(Tensor, ComparesContentsOverStrides) {
  const Ref<Tensor> tensor = Iota(Shape({2, 4}));
  const Ref<Tensor> columns = tensor->SliceAxis(1, 1, 3).value();
  const Ref<Tensor> same = columns->Contiguous().value();
  EXPECT_TRUE(columns->ContentsEqual(*same));
  same->mutable_span<int32_t>()[3] = 0;
  EXPECT_FALSE(columns->ContentsEqual(*same));
  const Ref<Tensor> column = tensor->SliceAxis(1, 1, 2).value();
  EXPECT_TRUE(column->ContentsEqual(*column->Contiguous().value()));
  EXPECT_FALSE(column->ContentsEqual(*tensor->SliceAxis(1, 2, 3).value()));
  EXPECT_TRUE(column->Slice(0, 1)->ContentsEqual(*column->Slice(0, 1)->Contiguous().value()));
  EXPECT_FALSE(Iota(Shape({4}))->ContentsEqual(*Iota(Shape({2, 2}))));
  EXPECT_FALSE(Tensor::Scalar<int32_t>(0)->ContentsEqual(*Tensor::Scalar<int64_t>(0)));
  const float nan = std::nanf("");
  EXPECT_TRUE(Tensor::Vector({nan, -0.0f})->ContentsEqual(*Tensor::Vector({nan, 0.0f})));
  EXPECT_FALSE(Tensor::Vector({nan})->ContentsEqual(*Tensor::Vector({1.0f})));
  EXPECT_TRUE(Tensor::Bytes("abc")->ContentsEqual(*Tensor::Bytes("abc")));
  EXPECT_FALSE(Tensor::Bytes("abc")->ContentsEqual(*Tensor::Bytes("abd")));
}

TEST(Tensor, PrintsInShort) {
  EXPECT_EQ(Tensor::Vector<int32_t>({1, 2, 3})->ToString(), "int32[3] [1 2 3]");
  EXPECT_EQ(Iota(Shape({2, 2}))->ContentsToString(), "[[0 1] [2 3]]");
  EXPECT_EQ(Iota(Shape({100}))->ContentsToString(), "[0 1 2 ... 97 98 99]");
  EXPECT_EQ(Iota(Shape({11}))->ContentsToString(), "[0 1 2 ... 8 9 10]");
  EXPECT_EQ(Iota(Shape({10}))->ContentsToString(), "[0 1 2 3 4 5 6 7 8 9]");
  EXPECT_EQ(Iota(Shape({2, 0}))->ToString(), "int32[2,0] []");
  EXPECT_EQ(Tensor::Scalar(0.1f)->ContentsToString(), "0.1");
  EXPECT_EQ(Tensor::Scalar(true)->ContentsToString(), "True");
  EXPECT_EQ(Tensor::Scalar<int8_t>(65)->ContentsToString(), "65");
  EXPECT_EQ(Tensor::Scalar(Float16{0x3c00})->ContentsToString(), "1");
  EXPECT_EQ(Tensor::Scalar(Complex128{1, -2})->ContentsToString(), "1-2j");
  EXPECT_EQ(Tensor::Bytes("a\n")->ContentsToString(), "\"a\\n\"");
  EXPECT_EQ(Iota(Shape({4, 3}))->SliceAxis(1, 1, 2).value()->ContentsToString(),
            "[[1] [4] [7] [10]]");
}

TEST(Tensor, UsesTheAllocatorItIsGiven) {
  class Counter : public BufferAllocator {
   public:
    Result<Ref<Buffer>> Allocate(size_t bytes, bool zeroed) override {
      ++calls;
      return Buffer::Create(bytes, zeroed);
    }
    int calls = 0;
  };
  const auto allocator = MakeRef<Counter>();
  TensorOptions options;
  options.allocator = allocator.get();
  options.device = DeviceId{DeviceType::kCpu, 3};
  const Ref<Tensor> tensor = Tensor::Create(DType::kInt8, Shape({2}), options).value();
  EXPECT_EQ(allocator->calls, 1);
  EXPECT_EQ(tensor->device().ToString(), "CPU:3");
  EXPECT_EQ(tensor->Row(0)->device().ToString(), "CPU:3");
}

}  // namespace
}  // namespace tutti
