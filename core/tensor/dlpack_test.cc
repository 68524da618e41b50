#include "core/tensor/dlpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/dlpack_abi.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The layout that every producer and consumer was compiled with.
static_assert(sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8 && sizeof(DLTensor) == 48);
static_assert(offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, shape) == 24);
static_assert(offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, manager_ctx) == 48);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

// A producer of float32[2,3] that counts how often its deleter runs.
struct Producer {
  alignas(64) float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  int deleted = 0;
  DLManagedTensorVersioned versioned = {};
  DLManagedTensor unversioned = {};

  Producer() {
    const DLTensor tensor = {data, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
    versioned.version = {1, 1};
    versioned.manager_ctx = this;
    versioned.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
    };
    versioned.dl_tensor = tensor;
    unversioned.manager_ctx = this;
    unversioned.deleter = [](DLManagedTensor* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
    };
    unversioned.dl_tensor = tensor;
  }
};

TEST(FromDlpack, SharesTheProducersMemoryAndCallsItsDeleterOnce) {
  Producer producer;
  Ref<Tensor> tensor = TensorFromDlpack(&producer.versioned, nullptr).value();
  EXPECT_EQ(tensor->data(), producer.data);
  EXPECT_EQ(tensor->SpecString(), "float32[2,3]");
  EXPECT_FALSE(tensor->read_only());
  Ref<Tensor> row = tensor->Row(1);
  tensor.reset();
  EXPECT_EQ(producer.deleted, 0);
  EXPECT_THAT(row->span<float>(), ElementsAre(3, 4, 5));
  row.reset();
  EXPECT_EQ(producer.deleted, 1);
}

TEST(FromDlpack, TakesTheUnversionedForm) {
  Producer producer;
  Ref<Tensor> tensor = TensorFromDlpack(&producer.unversioned, nullptr).value();
  EXPECT_EQ(tensor->data(), producer.data);
  tensor.reset();
  EXPECT_EQ(producer.deleted, 1);
}

TEST(FromDlpack, TakesStridesOffsetsAndTheReadOnlyFlag) {
  Producer producer;
  producer.versioned.flags = 1;
  producer.versioned.dl_tensor.strides = producer.strides;
  producer.shape[0] = 3;
  producer.shape[1] = 2;
  producer.strides[0] = -1;
  producer.strides[1] = 3;
  producer.versioned.dl_tensor.byte_offset = 2 * sizeof(float);
  const Ref<Tensor> tensor = TensorFromDlpack(&producer.versioned, nullptr).value();
  EXPECT_TRUE(tensor->read_only());
  EXPECT_EQ(tensor->ContentsToString(), "[[2 5] [1 4] [0 3]]");
}

TEST(FromDlpack, TakesTensorsWithoutElementsOrMemory) {
  Producer producer;
  producer.shape[1] = 0;
  producer.versioned.dl_tensor.data = nullptr;
  EXPECT_EQ(TensorFromDlpack(&producer.versioned, nullptr).value()->SpecString(), "float32[2,0]");
  producer.versioned.dl_tensor.data = producer.data;
  producer.versioned.dl_tensor.ndim = 0;
  producer.versioned.dl_tensor.shape = nullptr;
  const Ref<Tensor> scalar = TensorFromDlpack(&producer.versioned, nullptr).value();
  EXPECT_EQ(scalar->rank(), 0u);
  EXPECT_EQ(scalar->item<float>(), 0.0f);
}

TEST(FromDlpack, AcceptsAProducerWithoutADeleter) {
  Producer producer;
  producer.versioned.deleter = nullptr;
  EXPECT_TRUE(TensorFromDlpack(&producer.versioned, nullptr).ok());
}

TEST(FromDlpack, KnowsTheTypeCodes) {
  const std::pair<DLDataType, DType> cases[] = {
      {{0, 8, 1}, DType::kInt8},      {{0, 64, 1}, DType::kInt64},
      {{1, 16, 1}, DType::kUint16},   {{1, 32, 1}, DType::kUint32},
      {{2, 16, 1}, DType::kFloat16},  {{4, 16, 1}, DType::kBfloat16},
      {{2, 64, 1}, DType::kFloat64},  {{5, 64, 1}, DType::kComplex64},
      {{5, 128, 1}, DType::kComplex128}, {{6, 8, 1}, DType::kBool}};
  for (const auto& [type, dtype] : cases) {
    Producer producer;
    producer.shape[0] = 1;
    producer.shape[1] = 1;
    producer.versioned.dl_tensor.dtype = type;
    EXPECT_EQ(TensorFromDlpack(&producer.versioned, nullptr).value()->dtype(), dtype);
  }
}

TEST(FromDlpack, RefusesWhatItCannotReadAndLeavesItToTheCaller) {
  const auto refused = [](auto change, StatusCode code, std::string_view text) {
    Producer producer;
    change(producer.versioned);
    const Status status = TensorFromDlpack(&producer.versioned, nullptr).status();
    EXPECT_EQ(status.code(), code) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(text)));
    EXPECT_EQ(producer.deleted, 0) << text;
  };
  using Managed = DLManagedTensorVersioned;
  refused([](Managed& m) { m.dl_tensor.device = {2, 3}; }, StatusCode::kUnimplemented,
          "on device cuda:3");
  refused([](Managed& m) { m.version.major = 2; }, StatusCode::kUnimplemented, "version 2.1");
  refused([](Managed& m) { m.dl_tensor.dtype.lanes = 4; }, StatusCode::kInvalidArgument,
          "4 lanes");
  refused([](Managed& m) { m.dl_tensor.dtype = {3, 64, 1}; }, StatusCode::kInvalidArgument,
          "type code 3");
  refused([](Managed& m) { m.dl_tensor.dtype = {2, 8, 1}; }, StatusCode::kInvalidArgument,
          "8 bits");
  refused([](Managed& m) { m.dl_tensor.dtype = {0, 4, 1}; }, StatusCode::kInvalidArgument,
          "4 bits");
  refused([](Managed& m) { m.dl_tensor.data = nullptr; }, StatusCode::kInvalidArgument, "NULL");
  refused([](Managed& m) { m.dl_tensor.shape[0] = -1; }, StatusCode::kInvalidArgument,
          "dimension 0 is -1");
  refused([](Managed& m) { m.dl_tensor.ndim = -1; }, StatusCode::kInvalidArgument,
          "-1 dimensions");
  refused([](Managed& m) { m.dl_tensor.byte_offset = 2; }, StatusCode::kInvalidArgument,
          "not aligned");
}

TEST(ToDlpack, ExportsTheSameMemoryAndHoldsIt) {
  Ref<Tensor> tensor =
      Tensor::FromSpan<float>(Shape({2, 2}), std::vector<float>{1, 2, 3, 4}).value();
  const Ref<Tensor> column = tensor->SliceAxis(1, 1, 2).value();
  DLManagedTensorVersioned* managed = TensorToDlpack(*column, false).value();
  const DLTensor& exported = managed->dl_tensor;
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, 0u);
  EXPECT_EQ(exported.data, column->data());
  EXPECT_EQ(exported.device.device_type, 1);
  EXPECT_EQ(exported.ndim, 2);
  EXPECT_THAT(std::vector<int64_t>(exported.shape, exported.shape + 2), ElementsAre(2, 1));
  EXPECT_EQ(exported.strides[0], 2);
  EXPECT_EQ(exported.dtype.code, 2);
  EXPECT_EQ(exported.dtype.bits, 32);
  tensor.reset();
  EXPECT_EQ(static_cast<float*>(exported.data)[exported.strides[0]], 4.0f);
  EXPECT_FALSE(column->IsUnique());
  managed->deleter(managed);
  EXPECT_TRUE(column->IsUnique());
}

TEST(ToDlpack, FlagsReadOnlyTensorsAndCopies) {
  float one = 1;
  const Ref<Tensor> constant =
      Tensor::Wrap(&one, sizeof(one), DType::kFloat32, Shape(), {}, true, nullptr).value();
  DLManagedTensorVersioned* managed = TensorToDlpack(*constant, false).value();
  EXPECT_EQ(managed->flags, 1u);
  managed->deleter(managed);
  managed = TensorToDlpack(*constant, true).value();
  EXPECT_EQ(managed->flags, 2u);
  EXPECT_NE(managed->dl_tensor.data, &one);
  managed->deleter(managed);
  EXPECT_EQ(TensorToDlpackUnversioned(*constant, false).status().code(),
            StatusCode::kFailedPrecondition);
  DLManagedTensor* unversioned = TensorToDlpackUnversioned(*constant, true).value();
  EXPECT_NE(unversioned->dl_tensor.data, &one);
  unversioned->deleter(unversioned);
}

TEST(ToDlpack, ComesBackAsItWentForEveryDType) {
  for (int32_t number = 1; number <= 15; ++number) {
    const Ref<Tensor> tensor =
        Tensor::Create(static_cast<DType>(number), Shape({3, 0 + number})).value();
    Ref<Tensor> back =
        TensorFromDlpack(TensorToDlpack(*tensor, false).value(), nullptr).value();
    EXPECT_EQ(back->data(), tensor->data());
    EXPECT_EQ(back->spec(), tensor->spec());
    back.reset();
    back = TensorFromDlpack(TensorToDlpackUnversioned(*tensor, false).value(), nullptr).value();
    EXPECT_EQ(back->spec(), tensor->spec());
  }
}

TEST(ToDlpack, RefusesByteStrings) {
  EXPECT_EQ(TensorToDlpack(*Tensor::Bytes("a"), false).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(TensorToDlpackUnversioned(*Tensor::Bytes("a"), true).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
