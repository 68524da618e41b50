// What the tests of strategies on GPUs share: devices by the fake driver, short ways to make
// variables and tensors there and to look at them.
#ifndef TUTTI_TESTS_GPU_STRATEGIES_STRATEGIES_TESTING_H_
#define TUTTI_TESTS_GPU_STRATEGIES_STRATEGIES_TESTING_H_

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/device/gpu_memory.h"
#include "core/strategy/device_values.h"
#include "core/strategy/team_test_fixture.h"
#include "core/strategy/variable.h"
#include "core/tensor/cast.h"
#include "core/tensor/device_buffer.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {

class Warnings final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    if (record.level == LogLevel::kWarning) warnings.emplace_back(record.message);
  }
  std::vector<std::string> warnings;
};

class GpuStrategies : public StrategyTest {
 protected:
  void SetUp() override {
    setenv("TUTTI_NCCL_LIBRARY", "/there/is/no/nccl.so", 1);
    Open(fake::Machine());
  }
  void TearDown() override { Close(); }

  void Open(const fake::Machine& machine) {
    Close();
    setenv("TUTTI_CUDA_DRIVER", TUTTI_GPU_DRIVER, 1);
    FakeFunction<fake::SetMachine>(fake::kSetMachine)(&machine);
    environment_ = MakeRef<RealEnvironment>();
    DeviceSetOptions options;
    options.cuda_plugin = PluginPath();
    devices_ = DeviceSet::Create(8, nullptr, options).value();
  }
  void Close() {
    if (!environment_) return;
    StrategyTest::TearDown();
    environment_ = nullptr;
    devices_ = nullptr;
    // Memory goes back in the order of streams that nobody holds any more.
    const auto until = std::chrono::steady_clock::now() + kLong;
    const auto count = FakeFunction<fake::CountThings>(fake::kCountThings);
    while (count() != 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_EQ(count(), 0);
  }

  bool HasKernels() { return GpuMemoryOf(*devices_->Find("GPU:0").value())->has_kernels(); }

  Ref<Strategy> On(std::vector<std::string> names, const StrategyOptions& options = {}) {
    return Strategy::CreateMirrored(environment_, *devices_, names, options).value();
  }
  Ref<Variable> Make(const Ref<Strategy>& strategy, const Ref<Tensor>& initial,
                     Aggregation aggregation = Aggregation::kSum,
                     Synchronization synchronization = Synchronization::kAuto) {
    VariableOptions options;
    options.name = "v";
    options.aggregation = aggregation;
    options.synchronization = synchronization;
    return Variable::Create(strategy, *initial, options).value();
  }
  Ref<Tensor> There(const Tensor& tensor, const Device& device) {
    return OnDevice(tensor, &device).value();
  }
  static std::string Host(const Tensor& tensor) {
    return OnHost(tensor).value()->ContentsToString();
  }
  std::vector<std::string> Copies(const Variable& variable) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < variable.num_copies(); ++i) {
      texts.push_back(Host(*variable.ReadCopy(i).value()));
    }
    return texts;
  }
  // Numbers of all signs and sizes, different for each replica.
  static Ref<Tensor> Numbers(DType dtype, int64_t count, int64_t replica) {
    const Ref<Tensor> numbers = Tensor::Create(DType::kFloat64, Shape({count})).value();
    const std::span<double> all = numbers->mutable_span<double>();
    for (int64_t i = 0; i < count; ++i) {
      const double angle = 0.37 * static_cast<double>(i) + 1.7 * static_cast<double>(replica);
      all[static_cast<size_t>(i)] = std::sin(angle) * (IsInteger(dtype) ? 100 : 3.3);
    }
    return Cast(*numbers, dtype).value();
  }
};

}  // namespace tutti::gpu

#endif  // TUTTI_TESTS_GPU_STRATEGIES_STRATEGIES_TESTING_H_
