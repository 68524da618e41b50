// What tests of collectives between GPUs share: a machine of three fake GPUs, with or without the
// fake NCCL, and every operation on tensors there.
#ifndef TUTTI_TESTS_GPU_COLLECTIVES_COLLECTIVES_TESTING_H_
#define TUTTI_TESTS_GPU_COLLECTIVES_COLLECTIVES_TESTING_H_

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/collective/testing/all_operations_testing.h"
#include "core/collective/testing/rank_threads.h"
#include "core/device/device.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/device_buffer.h"
#include "tests/gpu/fakes/fake_nccl.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {

class Lines final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    const std::lock_guard lock(mutex_);
    lines_.insert(std::string(record.message));
  }
  std::multiset<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::multiset<std::string> lines_;
};

class GpuCollectives : public Gpu {
 protected:
  static constexpr int64_t kDevices = 3;

  void SetUp() override { Use("/there/is/no/nccl.so"); }
  // The machine anew, with this NCCL.
  void Use(const char* nccl) {
    if (IsReal()) GTEST_SKIP() << "several ranks need several devices";
    GiveBack();
    setenv("TUTTI_NCCL_LIBRARY", nccl, 1);
    fake::Machine machine;
    machine.devices = kDevices;
    Open(machine);
    Close();
    DeviceSetOptions options;
    options.cuda_plugin = PluginPath();
    devices_ = DeviceSet::Create(2, nullptr, options).value();
    for (int device = 0; device < kDevices; ++device) {
      const Ref<Device> found = devices_->Find(Format("GPU:{}", device)).value();
      memories_.push_back(Ref<GpuMemory>::Retain(GpuMemoryOf(*found)));
    }
  }
  void TearDown() override {
    GiveBack();
    if (!IsReal()) Gpu::TearDown();
  }
  void GiveBack() {
    if (!devices_) return;
    memories_.clear();
    devices_.reset();
    // Memory goes back in the order of streams that nobody holds any more.
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (FakeFunction<fake::CountThings>(fake::kCountThings)() != 0 &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
  }

  GpuMemory& MemoryOf(int64_t rank) { return *memories_[static_cast<size_t>(rank % kDevices)]; }
  Ref<Tensor> Floats(int64_t rank, std::vector<float> numbers) {
    Ref<Tensor> here =
        Tensor::Create(DType::kFloat32, Shape({static_cast<int64_t>(numbers.size())})).value();
    std::copy(numbers.begin(), numbers.end(), here->mutable_span<float>().begin());
    return CopyToGpu(*here, MemoryOf(rank)).value();
  }
  static std::vector<float> Read(const Tensor& tensor) {
    const Ref<Tensor> here = OnHost(tensor).value();
    return {here->span<float>().begin(), here->span<float>().end()};
  }
  // The call with tensors on a GPU for each rank.
  ReferenceCall OnGpus(ReferenceCall call) {
    call.make = [this](int64_t rank, DType dtype, const Shape& shape) {
      return MemoryOf(rank).Create(dtype, shape, true).value();
    };
    return call;
  }
  template <typename Group>
  void ExpectReference(Group& group, const ReferenceCall& call) {
    const ReferenceCall on_gpus = OnGpus(call);
    const ReferenceCase reference(on_gpus, static_cast<int64_t>(group.size()));
    for (const Status& status : group.Run([&](int64_t rank, Communicator& communicator) {
           return reference.Run(rank, communicator, group.Hang());
         })) {
      EXPECT_TRUE(status.ok()) << call.ToString() << ": " << status.ToString();
    }
  }
  template <typename Group>
  void ExpectAllOperations(Group& group, DType dtype = DType::kFloat32) {
    for (const bool in_place : {false, true}) {
      for (ReferenceCall& call : AllOperations(group.size(), 3, in_place, /*strided=*/!in_place)) {
        call.dtype = dtype;
        ExpectReference(group, call);
      }
    }
    ExpectReference(group, {.op = CollectiveOp::kSend, .rows = 3});
    ExpectReference(group, {.op = CollectiveOp::kAllReduce, .rows = 0});
    ExpectReference(group, {.op = CollectiveOp::kBarrier});
  }

  Ref<DeviceSet> devices_;
  std::vector<Ref<GpuMemory>> memories_;
};

}  // namespace tutti::gpu

#endif  // TUTTI_TESTS_GPU_COLLECTIVES_COLLECTIVES_TESTING_H_
