// What the tests of the plugin share: the plugin, opened with the fake driver (or with the
// machine's own where TUTTI_GPU_REAL=1), and owners of what it makes.
#ifndef TUTTI_TESTS_GPU_GPU_TESTING_H_
#define TUTTI_TESTS_GPU_GPU_TESTING_H_

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/device/plugin.h"
#include "tests/gpu/fakes/fake_driver.h"

namespace tutti::gpu {

#define GPU_OK(call) \
  do { \
    const ::tutti::Status status_ = ::tutti::gpu::AsStatus(call); \
    ASSERT_TRUE(status_.ok()) << status_.ToString(); \
  } while (false)

#define GPU_EXPECT(call) \
  do { \
    const ::tutti::Status status_ = ::tutti::gpu::AsStatus(call); \
    EXPECT_TRUE(status_.ok()) << status_.ToString(); \
  } while (false)

inline Status AsStatus(tutti_status* status) { return DevicePlugin::Taken(status); }
inline Status AsStatus(Status status) { return status; }
template <class T>
Status AsStatus(const Result<T>& result) {
  return result.ok() ? OkStatus() : result.status();
}

inline bool IsReal() {
  const char* const real = std::getenv("TUTTI_GPU_REAL");
  return real != nullptr && std::string(real) == "1";
}

inline std::string PluginPath() {
  const char* const path = std::getenv("TUTTI_GPU_PLUGIN_PATH");
  return path != nullptr ? path : TUTTI_GPU_PLUGIN;
}

template <class FunctionType>
FunctionType FakeFunction(const char* name) {
  void* const fake = dlopen(TUTTI_GPU_DRIVER, RTLD_NOW | RTLD_LOCAL);
  return fake == nullptr ? nullptr : reinterpret_cast<FunctionType>(dlsym(fake, name));
}

// The time after which a wait that should end has not.
constexpr auto kLong = std::chrono::seconds(60);

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override { Open(fake::Machine()); }

  // A fake machine, and the plugin on it. The real machine is what it is.
  void Open(const fake::Machine& machine) {
    Close();
    if (IsReal()) {
      unsetenv("TUTTI_CUDA_DRIVER");
    } else {
      setenv("TUTTI_CUDA_DRIVER", TUTTI_GPU_DRIVER, 1);
      FakeFunction<fake::SetMachine>(fake::kSetMachine)(&machine);
    }
    Result<Ref<DevicePlugin>> opened = DevicePlugin::Open(PluginPath(), options_);
    GPU_OK(opened);
    plugin_ = std::move(opened).value();
    if (IsReal() && plugin_->num_devices() == 0) GTEST_SKIP() << plugin_->why_no_device();
  }
  void Close() { plugin_.reset(); }

  void TearDown() override {
    Close();
    if (IsReal()) return;
    EXPECT_EQ(FakeFunction<fake::CountThings>(fake::kCountThings)(), 0);
  }

  const tutti_plugin_api& api() const { return plugin_->api(); }
  tutti_plugin* handle() const { return plugin_->handle(); }

  DevicePluginOptions options_;
  Ref<DevicePlugin> plugin_;
};

// Without kernels there is nothing to test where they run.
class GpuKernels : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (!plugin_ || IsSkipped()) return;
    const auto properties = plugin_->Properties(0);
    GPU_OK(properties);
    if (properties.value().has_kernels == 0) GTEST_SKIP() << "built without a CUDA toolkit";
    GPU_OK(api().create_stream(handle(), 0, &stream_));
  }
  void TearDown() override {
    for (void* memory : memories_) {
      EXPECT_TRUE(AsStatus(api().release_on_stream(stream_, memory)).ok());
    }
    if (stream_ != nullptr) {
      EXPECT_TRUE(AsStatus(api().wait_for_stream(stream_, nullptr)).ok());
      api().destroy_stream(stream_);
    }
    Gpu::TearDown();
  }

  // Device memory that lives as long as the test; null when there is none.
  void* Memory(uint64_t bytes) {
    void* memory = nullptr;
    const Status status = AsStatus(api().allocate_on_stream(stream_, bytes, &memory));
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (memory != nullptr) memories_.push_back(memory);
    return memory;
  }
  // ... `shift` bytes behind an aligned address, with a copy of `bytes`.
  void* Copied(const void* from, uint64_t bytes, uint64_t shift = 0) {
    char* const memory = static_cast<char*>(Memory(bytes + shift)) + shift;
    const Status status = AsStatus(
        api().copy(stream_, TUTTI_PLUGIN_HOST_TO_DEVICE, memory, from, bytes));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return memory;
  }
  std::vector<unsigned char> Read(const void* from, uint64_t bytes) {
    std::vector<unsigned char> read(bytes);
    Status status = AsStatus(
        api().copy(stream_, TUTTI_PLUGIN_DEVICE_TO_HOST, read.data(), from, bytes));
    EXPECT_TRUE(status.ok()) << status.ToString();
    status = AsStatus(api().wait_for_stream(stream_, nullptr));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return read;
  }

  tutti_plugin_stream* stream_ = nullptr;
  std::vector<void*> memories_;
};

}  // namespace tutti::gpu

#endif  // TUTTI_TESTS_GPU_GPU_TESTING_H_
