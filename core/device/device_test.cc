#include "core/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/memory_account.h"
#include "core/device/device_spec.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(DeviceSet, ListsTheConfiguredLogicalCpus) {
  const Ref<DeviceSet> devices = DeviceSet::Create(3, nullptr).value();
  ASSERT_EQ(devices->ListDevices().size(), 3u);
  EXPECT_EQ(devices->ListDevices()[2]->name(), "/device:CPU:2");
  EXPECT_EQ(devices->ListDevices()[2]->short_name(), "CPU:2");
  EXPECT_EQ(devices->ListDevices(DeviceType::kCpu).size(), 3u);
  EXPECT_TRUE(devices->ListDevices(DeviceType::kGpu).empty());
}

TEST(DeviceSet, FindsAnyLogicalCpuByAnyOfItsNames) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  EXPECT_EQ(devices->Find("CPU:7").value()->index(), 7);
  EXPECT_EQ(devices->Find("/device:cpu:1023").value()->index(), 1023);
  EXPECT_EQ(devices->Find("/job:worker/task:1/device:CPU:2").value()->short_name(), "CPU:2");
  EXPECT_EQ(devices->Find("CPU").value()->index(), 0);
  EXPECT_EQ(devices->Find("").value()->short_name(), "CPU:0");
  DeviceSpec spec;
  spec.device_index = 4;
  EXPECT_EQ(devices->Find(spec).value()->id(), (DeviceId{DeviceType::kCpu, 4}));
}

TEST(DeviceSet, NamesADeviceThatIsNotThere) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  const Status gpu = devices->Find("GPU:0").status();
  EXPECT_EQ(gpu.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(gpu.message()), HasSubstr("no GPU:0"));
  EXPECT_EQ(devices->Find("CPU:1024").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(devices->Find("/device:").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DeviceSet::Create(0, nullptr).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DeviceSet::Create(1025, nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST(DeviceSet, SaysWhyThereAreNoGpus) {
  const Ref<DeviceSet> without = DeviceSet::Create(2, nullptr).value();
  EXPECT_EQ(without->cuda(), nullptr);
  EXPECT_EQ(without->ListNames(""), (std::vector<std::string>{"CPU:0", "CPU:1"}));
  EXPECT_THAT(without->ListNames("GPU"), ::testing::IsEmpty());
  EXPECT_THAT(without->DescribePlugins(), HasSubstr("cuda_plugin says that no GPUs are used"));
  DeviceSetOptions options;
  options.cuda_plugin = "/nowhere/plugin.so";
  const Ref<DeviceSet> lost = DeviceSet::Create(1, nullptr, options).value();
  EXPECT_EQ(lost->why_no_cuda().code(), StatusCode::kNotFound);
  const Status gpu = lost->Describe("/gpu:0").status();
  EXPECT_EQ(gpu.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(gpu.message()),
              HasSubstr("(plugin /nowhere/plugin.so: there is no such file)"));
}

TEST(DeviceSet, DescribesTheMemoryOfTheCpu) {
  const auto account = MakeRef<MemoryAccount>("test", nullptr, 4096);
  const Ref<DeviceSet> devices = DeviceSet::Create(1, account.get()).value();
  ASSERT_TRUE(account->Reserve(100).ok());
  EXPECT_EQ(devices->Describe("CPU:0").value(),
            "{\"name\": \"CPU:0\", \"type\": \"CPU\", \"memory\": {\"used_bytes\": 100, "
            "\"peak_bytes\": 100, \"limit_bytes\": 4096}}");
  account->Unreserve(100);
  EXPECT_EQ(devices->Describe("CPU:2000").status().code(), StatusCode::kNotFound);
}

// ---- Placing. ----

TEST(DeviceSet, PlacesOnWhatTheScopesSayTogether) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  EXPECT_EQ(devices->Place("CPU:3").value()->full_name(),
            "/job:localhost/replica:0/task:0/device:CPU:3");
  EXPECT_EQ(devices->Place("/job:localhost/task:0").value()->short_name(), "CPU:0");
  const Status gpu = devices->Place("GPU:0").status();
  EXPECT_EQ(gpu.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(gpu.message()), HasSubstr("it has CPU:0 to CPU:1023"));
  for (const char* other : {"/job:worker/device:CPU:0", "/task:1", "/replica:2/device:CPU:0"}) {
    const Status status = devices->Place(other).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << other;
    EXPECT_THAT(std::string(status.message()), HasSubstr("another task"));
  }
}

TEST(DeviceSet, PlacesOnTheTaskOfTheJobThatThisProcessIs) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  devices->SetTask("worker:1");
  for (const char* here : {"/job:worker/task:1/device:CPU:2", "/job:worker/device:CPU:2",
                           "/task:1/device:CPU:2", "/job:localhost/task:0/device:CPU:2", "CPU:2"}) {
    ASSERT_TRUE(devices->Place(here).ok()) << here;
    EXPECT_EQ(devices->Place(here).value()->short_name(), "CPU:2");
  }
  for (const char* other : {"/job:worker/task:0", "/task:0", "/job:ps/task:1"}) {
    const Status status = devices->Place(other).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << other;
    EXPECT_THAT(std::string(status.message()), HasSubstr("this process is /job:worker/replica:0/"));
  }
}

TEST(DeviceSet, SoftPlacementFallsBackToTheCpu) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  devices->set_soft_placement(true);
  EXPECT_EQ(devices->Place("GPU:7").value()->short_name(), "CPU:0");
  EXPECT_EQ(devices->Place("CPU:5000").value()->short_name(), "CPU:0");
  EXPECT_EQ(devices->Place("CPU:2").value()->short_name(), "CPU:2");
  EXPECT_EQ(devices->Place("/job:ps/device:CPU:0").status().code(), StatusCode::kUnimplemented);
  devices->set_soft_placement(false);
  EXPECT_EQ(devices->Place("GPU:7").status().code(), StatusCode::kNotFound);
}

// ---- Configuring. ----

TEST(DeviceConfiguration, ACpuIsAsManyLogicalOnesAsAreSetAndNoMore) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  EXPECT_EQ(devices->ListPhysicalNames(""), std::vector<std::string>{"/physical_device:CPU:0"});
  EXPECT_EQ(devices->NumLogicalDevices("CPU:0").value(), std::nullopt);
  const LogicalDevice two[2] = {};
  ASSERT_TRUE(devices->SetLogicalDevices("/physical_device:CPU:0", two).ok());
  EXPECT_EQ(devices->NumLogicalDevices("CPU:0").value(), 2u);
  EXPECT_EQ(devices->ListNames("CPU"), (std::vector<std::string>{"CPU:0", "CPU:1"}));
  const Status third = devices->Find("CPU:2").status();
  EXPECT_EQ(third.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(third.message()), HasSubstr("it has CPU:0 to CPU:1"));
  // Devices have been listed; the same again changes nothing.
  EXPECT_TRUE(devices->SetLogicalDevices("CPU:0", two).ok());
  const LogicalDevice three[3] = {};
  const Status late = devices->SetLogicalDevices("CPU:0", three);
  EXPECT_EQ(late.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(late.message()), HasSubstr("in use already"));
}

TEST(DeviceConfiguration, RefusesWhatACpuCannotBe) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  const LogicalDevice limited[] = {{.memory_limit_bytes = 1 << 20}};
  const Status limit = devices->SetLogicalDevices("CPU:0", limited);
  EXPECT_EQ(limit.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(limit.message()), HasSubstr("leave memory_limit out"));
  const LogicalDevice negative[] = {{.memory_limit_bytes = -1}};
  EXPECT_EQ(devices->SetLogicalDevices("CPU:0", negative).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(devices->SetLogicalDevices("CPU:0", {}).code(), StatusCode::kInvalidArgument);
  const Status gpu = devices->SetLogicalDevices("GPU:0", limited);
  EXPECT_EQ(gpu.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(gpu.message()), HasSubstr("this machine has CPU:0"));
  EXPECT_EQ(devices->NumLogicalDevices("CPU:1").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(devices->SetLogicalDevices("/what", limited).code(), StatusCode::kInvalidArgument);
}

TEST(DeviceConfiguration, TheHostStaysVisible) {
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr).value();
  const std::vector<std::string> none, cpu{"/physical_device:CPU:0"}, gpu{"GPU:0"};
  EXPECT_TRUE(devices->SetVisible("GPU", none).ok());
  EXPECT_TRUE(devices->SetVisible("CPU", cpu).ok());
  EXPECT_EQ(devices->ListVisibleNames(""), cpu);
  EXPECT_EQ(devices->ListVisibleNames("GPU"), none);
  EXPECT_EQ(devices->SetVisible("CPU", none).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(devices->SetVisible("", none).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(devices->SetVisible("GPU", cpu).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(devices->SetVisible("GPU", gpu).code(), StatusCode::kNotFound);
  EXPECT_EQ(devices->SetVisible("NPU", none).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(devices->SetVisible("CPU", std::vector<std::string>{"CPU:0", "CPU:0"}).code(),
            StatusCode::kInvalidArgument);
}

TEST(CpuAllocator, ChargesItsAccountAndRefusesWhatIsTooMuch) {
  const auto account = MakeRef<MemoryAccount>("test", nullptr, 4096);
  const Ref<DeviceSet> devices = DeviceSet::Create(1, account.get()).value();
  TensorOptions options;
  const Ref<Device> cpu = devices->Find("CPU:1").value();
  options.allocator = cpu->allocator();
  options.device = cpu->id();
  Ref<Tensor> tensor = Tensor::Create(DType::kInt8, Shape({3000}), options).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % 64, 0u);
  EXPECT_EQ(tensor->device().ToString(), "CPU:1");
  EXPECT_EQ(account->used_bytes(), 3000u);
  EXPECT_EQ(Tensor::Create(DType::kInt8, Shape({3000}), options).status().code(),
            StatusCode::kResourceExhausted);
  tensor.reset();
  EXPECT_EQ(account->used_bytes(), 0u);
  const auto unlimited = MakeRef<CpuAllocator>(nullptr);
  EXPECT_EQ(unlimited->Allocate(size_t{1} << 60, false).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tutti
