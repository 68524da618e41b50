// What goes wrong with drivers, devices and plugins, each with the sentence that says so. Against
// the fake driver only: a real one does not fail on demand.
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::HasSubstr;

class GpuFaults : public GpuKernels {
 protected:
  void SetUp() override {
    if (IsReal()) GTEST_SKIP() << "the real driver does not fail on demand";
    GpuKernels::SetUp();
  }
  void TearDown() override {
    if (!IsReal()) GpuKernels::TearDown();
  }

  // A machine without the stream that the fixture has made.
  void Become(const fake::Machine& machine) {
    api().destroy_stream(std::exchange(stream_, nullptr));
    Open(machine);
  }
  std::string WhyNone(const char* driver) {
    api().destroy_stream(std::exchange(stream_, nullptr));
    Close();
    setenv("TUTTI_CUDA_DRIVER", driver, 1);
    const Ref<DevicePlugin> plugin = DevicePlugin::Open(PluginPath()).value();
    EXPECT_EQ(plugin->num_devices(), 0);
    const Status status = plugin->Properties(0).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(status.ToString(), HasSubstr(plugin->why_no_device()));
    return std::string(plugin->why_no_device());
  }
};

TEST_F(GpuFaults, HostCodeThatTouchesDeviceMemoryDies) {
  GTEST_FLAG_SET(death_test_style, "fast");
  void* const memory = Memory(64);
#if !defined(__SANITIZE_THREAD__)
  EXPECT_DEATH(std::printf("%d", *static_cast<volatile int*>(memory)), "");
#endif
  (void)memory;
}

TEST_F(GpuFaults, AMissingDriverLeavesNoDevicesAndSaysWhy) {
  EXPECT_THAT(WhyNone("/nowhere/libcuda.so.1"),
              ::testing::AllOf(HasSubstr("there is no NVIDIA driver"), HasSubstr("/nowhere/"),
                               HasSubstr("TUTTI_CUDA_DRIVER names that path")));
}

TEST_F(GpuFaults, ADriverThatLacksAFunctionIsNotUsed) {
  EXPECT_THAT(WhyNone(TUTTI_GPU_BARE_DRIVER),
              ::testing::AllOf(HasSubstr("has no cuGetErrorName"), HasSubstr("11.2 or later")));
}

TEST_F(GpuFaults, AnOldDriverIsNotUsed) {
  fake::Machine machine;
  machine.driver_version = 11000;
  Become(machine);
  EXPECT_EQ(plugin_->num_devices(), 0);
  EXPECT_THAT(std::string(plugin_->why_no_device()),
              ::testing::AllOf(HasSubstr("serves CUDA 11.0"), HasSubstr("11.2 or later")));
}

TEST_F(GpuFaults, ADriverOfAnOlderMajorVersionHasDevicesWithoutKernels) {
  fake::Machine machine;
  machine.driver_version = 11080;
  Become(machine);
  ASSERT_EQ(plugin_->num_devices(), 2);
  EXPECT_EQ(plugin_->Properties(0).value().has_kernels, 0);
  GPU_OK(api().create_stream(handle(), 0, &stream_));
  void* const memory = Memory(64);
  GPU_OK(api().fill(stream_, memory, 1, 64));
  const Status status = AsStatus(api().scale(stream_, 12, memory, 2, 16, memory));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("the driver serves CUDA 11.8"));
}

TEST_F(GpuFaults, ADeviceWithoutMachineCodeSaysForWhichThereIsSome) {
  fake::Machine machine;
  machine.compute_major = 7;
  Become(machine);
  GPU_OK(api().create_stream(handle(), 0, &stream_));
  void* const memory = Memory(64);
  EXPECT_THAT(AsStatus(api().scale(stream_, 12, memory, 2, 16, memory)).ToString(),
              ::testing::AllOf(HasSubstr("compute capability is 7.0"), HasSubstr("8.x 9.x")));
}

TEST_F(GpuFaults, AMachineWithoutDevicesSaysSo) {
  fake::Machine machine;
  machine.devices = 0;
  Become(machine);
  EXPECT_EQ(plugin_->num_devices(), 0);
  EXPECT_THAT(std::string(plugin_->why_no_device()), HasSubstr("sees no device"));
  machine.devices = 1;
  machine.init_outcome = 999;
  Open(machine);
  EXPECT_THAT(std::string(plugin_->why_no_device()), HasSubstr("does not start: cuInit"));
}

TEST_F(GpuFaults, AnAllocationThatFailsLosesNothing) {
  for (const int32_t failing : {1, 2, 3}) {
    fake::Machine machine;
    machine.fail_allocation = failing;
    Become(machine);
    GPU_OK(api().create_stream(handle(), 0, &stream_));
    void* memories[3] = {};
    for (int32_t i = 1; i <= 3; ++i) {
      const Status status = AsStatus(api().allocate_on_stream(stream_, 100, &memories[i - 1]));
      EXPECT_EQ(status.code(), i == failing ? StatusCode::kResourceExhausted : StatusCode::kOk);
      if (i == failing) {
        EXPECT_THAT(status.ToString(), HasSubstr("100 bytes of its memory were asked for"));
      }
    }
    EXPECT_EQ(plugin_->account(0).used_bytes(), 200u);
    for (void* memory : memories) GPU_OK(api().release_on_stream(stream_, memory));
    EXPECT_EQ(plugin_->account(0).used_bytes(), 0u);
    GPU_OK(api().wait_for_stream(stream_, nullptr));
  }
}

TEST_F(GpuFaults, WorkThatFailsOnTheDeviceIsReportedByALaterCall) {
  fake::Machine machine;
  machine.fail_work = 2;
  Become(machine);
  GPU_OK(api().create_stream(handle(), 0, &stream_));
  void* memory = nullptr;
  GPU_OK(api().allocate_memory(handle(), 0, 64, &memory));
  GPU_OK(api().fill(stream_, memory, 1, 64));
  (void)AsStatus(api().fill(stream_, memory, 2, 64));
  const Status status = AsStatus(api().wait_for_stream(stream_, nullptr));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(),
              ::testing::AllOf(HasSubstr("GPU:0"), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
                               HasSubstr("start it again")));
  void* more = nullptr;
  EXPECT_EQ(AsStatus(api().allocate_memory(handle(), 0, 64, &more)).code(),
            StatusCode::kDataLoss);
  // Another device goes on, and what was taken can be given back.
  GPU_OK(api().allocate_memory(handle(), 1, 64, &more));
  GPU_OK(api().release_memory(handle(), 1, more));
  GPU_OK(api().release_memory(handle(), 0, memory));
  EXPECT_EQ(plugin_->account(0).used_bytes(), 0u);
  api().destroy_stream(std::exchange(stream_, nullptr));
}

TEST_F(GpuFaults, AnAddressThatIsNobodysFailsOnTheDevice) {
  void* const memory = Memory(64);
  GPU_OK(api().scale(stream_, 12, static_cast<char*>(memory) + (1 << 20), 2, 16, memory));
  EXPECT_EQ(AsStatus(api().wait_for_stream(stream_, nullptr)).code(), StatusCode::kDataLoss);
  fake::Machine machine;
  for (void* gone : memories_) GPU_OK(api().release_on_stream(stream_, gone));
  memories_.clear();
  Become(machine);
}

TEST_F(GpuFaults, WaitsGoOnWhileTheDriverSaysNotReady) {
  fake::Machine machine;
  machine.not_ready = 50;
  Become(machine);
  GPU_OK(api().create_stream(handle(), 0, &stream_));
  GPU_OK(api().wait_for_stream(stream_, nullptr));
  tutti_plugin_event* event = nullptr;
  GPU_OK(api().create_event(handle(), 0, 0, &event));
  GPU_OK(api().record_event(event, stream_));
  GPU_OK(api().wait_for_event(event, nullptr));
  api().destroy_event(event);
}

TEST_F(GpuFaults, PluginsThatAreNoneAreRefused) {
  EXPECT_EQ(DevicePlugin::Open("/nowhere/libtutti_cuda.so").status().code(),
            StatusCode::kNotFound);
  const Status not_one = DevicePlugin::Open(TUTTI_GPU_BARE_DRIVER).status();
  EXPECT_EQ(not_one.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(not_one.ToString(), HasSubstr("it is no plugin: it has no tutti_plugin_abi_version"));
  const Status foreign = DevicePlugin::Open(TUTTI_GPU_FOREIGN_PLUGIN).status();
  EXPECT_EQ(foreign.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(foreign.ToString(),
              HasSubstr("speaks version 2.0 of the interface, this library 1.0"));
  EXPECT_THAT(DevicePlugin::Open("/dev/null").status().ToString(), HasSubstr("does not load"));
}

}  // namespace
}  // namespace tutti::gpu
