// All_reduces between the GPUs of one thread by NCCL, in packs; and why there are none.
#include <vector>

#include "core/collective/communicator/nccl_devices.h"
#include "tests/gpu/collectives/collectives_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::HasSubstr;

class NcclDevicesTest : public GpuCollectives {
 protected:
  void SetUp() override { Use(TUTTI_GPU_NCCL); }
  GpuWait Hang() { return {&hang_, &RealClock(), nullptr}; }

  const CallOptions hang_ = CallOptions::WithTimeout(RealClock(), 60 * kSecondNs);
};

TEST_F(NcclDevicesTest, ReduceInAsManyPacksAsAreAskedFor) {
  NcclDevices devices;
  for (const int64_t num_packs : {0, 1, 2, 9}) {
    std::vector<std::vector<Ref<Tensor>>> tensors(4);
    for (int64_t d = 0; d < kDevices; ++d) {
      const auto rank = static_cast<float>(d);
      tensors[0].push_back(Floats(d, {1, rank}));
      tensors[1].push_back(MemoryOf(d).Create(DType::kInt32, Shape({3}), true).value());
      tensors[2].push_back(Floats(d, {}));
      tensors[3].push_back(Floats(d, {rank, rank, 2 * rank}));
    }
    const auto results = devices.AllReduce(ReduceOp::kSum, tensors, num_packs, 0, Hang());
    ASSERT_TRUE(results.ok()) << results.status().ToString();
    for (size_t d = 0; d < static_cast<size_t>(kDevices); ++d) {
      EXPECT_EQ((*results)[0][d]->device(), tensors[0][d]->device());
      EXPECT_EQ(Read(*(*results)[0][d]), (std::vector<float>{3, 3}));
      EXPECT_TRUE(OnHost(*(*results)[1][d]).value()->ContentsEqual(
          *OnHost(*tensors[1][d]).value()));
      EXPECT_EQ(Read(*(*results)[3][d]), (std::vector<float>{3, 3, 6}));
      EXPECT_EQ(Read(*tensors[0][d]), (std::vector<float>{1, static_cast<float>(d)}));
    }
  }
}

TEST_F(NcclDevicesTest, ReduceInPacksOfAtMostSoManyBytes) {
  std::vector<std::vector<Ref<Tensor>>> tensors(5);
  for (std::vector<Ref<Tensor>>& each : tensors) {
    for (int64_t d = 0; d < kDevices; ++d) each.push_back(Floats(d, {1, static_cast<float>(d)}));
  }
  NcclDevices devices;
  for (const int64_t bytes : {0, 7, 8, 16, 1000}) {
    const auto results = devices.AllReduce(ReduceOp::kSum, tensors, 1, bytes, Hang());
    ASSERT_TRUE(results.ok()) << results.status().ToString();
    for (const std::vector<Ref<Tensor>>& each : *results) {
      EXPECT_EQ(Read(*each[2]), (std::vector<float>{3, 3}));
    }
  }
}

TEST_F(NcclDevicesTest, PackIntoRegisteredMemoryWhereThatIsAskedFor) {
  const auto of_nccl = [](const char* name) {
    return reinterpret_cast<int32_t (*)()>(dlsym(dlopen(TUTTI_GPU_NCCL, RTLD_NOW), name));
  };
  const auto registered = of_nccl(fake::kCountRegistered);
  const auto reduce = [&](NcclDevices& devices, size_t count) {
    std::vector<std::vector<Ref<Tensor>>> tensors(count);
    for (std::vector<Ref<Tensor>>& each : tensors) {
      for (int64_t d = 0; d < kDevices; ++d) each.push_back(Floats(d, {1, static_cast<float>(d)}));
    }
    const auto results = devices.AllReduce(ReduceOp::kSum, tensors, 1, 0, Hang());
    ASSERT_TRUE(results.ok()) << results.status().ToString();
    for (const std::vector<Ref<Tensor>>& each : *results) {
      EXPECT_EQ(Read(*each[1]), (std::vector<float>{3, 3}));
    }
  };
  {
    NcclDevices devices;
    reduce(devices, 3);
    EXPECT_EQ(registered(), 0);
  }
  setenv("TUTTI_NCCL_REGISTER", "1", 1);
  {
    NcclDevices devices;
    reduce(devices, 1);  // one tensor goes as it is
    EXPECT_EQ(registered(), 0);
    for (const size_t count : {3, 2, 50}) {  // kept, and once too small
      reduce(devices, count);
      EXPECT_EQ(registered(), kDevices);
    }
  }
  unsetenv("TUTTI_NCCL_REGISTER");
  EXPECT_EQ(registered(), 0);
  EXPECT_EQ(of_nccl(fake::kCountNcclThings)(), 0);
}

TEST_F(NcclDevicesTest, SayWhyNot) {
  NcclDevices devices;
  const auto refused = [&](ReduceOp op, std::vector<std::vector<Ref<Tensor>>> tensors,
                           int64_t num_packs = 0) {
    return std::string(devices.AllReduce(op, tensors, num_packs, 0, Hang()).status().message());
  };
  const Ref<Tensor> there = Floats(0, {1});
  const Ref<Tensor> here = Tensor::Create(DType::kFloat32, Shape({1})).value();
  EXPECT_THAT(refused(ReduceOp::kSum, {{there, Floats(1, {1})}}, -1),
              HasSubstr("num_packs is -1; expected 0 (no packing) or more"));
  EXPECT_THAT(refused(ReduceOp::kSum, {{there, here}}),
              HasSubstr("float32[1] lies on CPU:0, and NCCL reduces between GPUs"));
  const Ref<Tensor> numbers = MemoryOf(0).Create(DType::kInt16, Shape({1}), true).value();
  EXPECT_THAT(refused(ReduceOp::kSum, {{numbers}}), HasSubstr("NCCL has no SUM of int16"));
  EXPECT_THAT(refused(ReduceOp::kSum, {{there, Floats(1, {1, 2})}}),
              HasSubstr("tensor 0 is float32[1] on device 0 and float32[2] on device 1"));
  EXPECT_THAT(refused(ReduceOp::kSum, {{there, Floats(1, {1})}, {there}}),
              HasSubstr("tensor 1 is on 1 devices, the first on 2"));
  EXPECT_THAT(refused(ReduceOp::kSum, {{there, Floats(1, {1})}, {there, Floats(2, {1})}}),
              HasSubstr("tensor 1 of device 1 lies on GPU:2, and one before it on GPU:1"));
}

TEST_F(NcclDevicesTest, AreOneForEachDeviceWhereThereIsNccl) {
  {
    const Ref<Tensor> pair[] = {Floats(0, {1}), Floats(0, {2})};
    EXPECT_THAT(std::string(NcclDevices::CheckCan(ReduceOp::kSum, pair).message()),
                HasSubstr("two of the tensors lie on GPU:0, which folds them by kernels"));
  }
  Use("/there/is/no/nccl.so");
  const Ref<Tensor> apart[] = {Floats(0, {1}), Floats(1, {2})};
  EXPECT_EQ(NcclDevices::CheckCan(ReduceOp::kSum, apart).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tutti::gpu
