// How fast the kernels are beside a copy within the device, of the same bytes: read and written
// ones are counted. Of a real device only; prints, and asserts nothing on time.
#include <algorithm>
#include <future>

#include "core/device/device.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_staging.h"
#include "core/tensor/dtype.h"
#include "core/tensor/reduce.h"
#include "core/tensor/value.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

class GpuSpeed : public GpuKernels {
 protected:
  void SetUp() override {
    if (!IsReal()) GTEST_SKIP() << "of a real device only";
    GpuKernels::SetUp();
    if (stream_ == nullptr) return;
    for (auto& event : events_) GPU_OK(api().create_event(handle(), 0, 1, &event));
  }
  void TearDown() override {
    if (!IsReal()) return;
    for (tutti_plugin_event* event : events_) api().destroy_event(event);
    GpuKernels::TearDown();
  }

  // The median of several runs, milliseconds.
  template <class Work>
  double Time(Work work, int runs = 21) {
    std::vector<double> times;
    for (int i = 0; i < runs + 3; ++i) {
      EXPECT_TRUE(AsStatus(api().record_event(events_[0], stream_)).ok());
      const Status status = AsStatus(work());
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(AsStatus(api().record_event(events_[1], stream_)).ok());
      EXPECT_TRUE(AsStatus(api().wait_for_event(events_[1], nullptr)).ok());
      double ms = 0;
      EXPECT_TRUE(AsStatus(api().event_elapsed(events_[0], events_[1], &ms)).ok());
      if (i >= 3) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void Print(const std::string& what, double bytes, double ms, double copy_rate) {
    const double rate = bytes / ms / 1e6;
    std::printf("  %-44s %9.3f ms %8.0f GB/s %6.1f %% of the copy\n", what.c_str(), ms, rate,
                100 * rate / copy_rate);
  }

  tutti_plugin_event* events_[2] = {};
};

TEST_F(GpuSpeed, KernelsBesideACopy) {
  constexpr uint64_t kBytes = uint64_t{1} << 30;
  void* memories[5];
  for (void*& memory : memories) {
    memory = Memory(kBytes);
    ASSERT_NE(memory, nullptr);
  }
  // Numbers, not zeros: random bits of float16, which are ordinary numbers as float32, too.
  std::vector<uint16_t> noise(kBytes / 2);
  uint32_t seed = 1;
  for (uint16_t& item : noise) {
    seed = seed * 1664525 + 1013904223;
    item = static_cast<uint16_t>(0x3000 + (seed >> 20));
  }
  for (void* memory : memories) {
    GPU_OK(api().copy(stream_, TUTTI_PLUGIN_HOST_TO_DEVICE, memory, noise.data(), kBytes));
  }
  const double copy_ms = Time([&] {
    return api().copy(stream_, TUTTI_PLUGIN_DEVICE_TO_DEVICE, memories[4], memories[0], kBytes);
  });
  const double copy_rate = 2.0 * kBytes / copy_ms / 1e6;
  Print("copy within the device, 1 GiB", 2.0 * kBytes, copy_ms, copy_rate);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kFloat64,
                            DType::kInt32, DType::kInt8}) {
    for (const uint64_t count : {uint64_t{2}, uint64_t{4}}) {
      const double ms = Time([&] {
        return api().reduce(stream_, 1, static_cast<int32_t>(dtype), memories, count,
                            kBytes / ItemSize(dtype), memories[4]);
      });
      Print("sum of " + std::to_string(count) + " " + std::string(DTypeName(dtype)),
            static_cast<double>((count + 1) * kBytes), ms, copy_rate);
    }
  }
  for (const ReduceOp op : {ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kProd}) {
    const double ms = Time([&] {
      return api().reduce(stream_, static_cast<int32_t>(op), static_cast<int32_t>(DType::kBfloat16),
                          memories, 4, kBytes / 2, memories[4]);
    });
    Print(std::string(ReduceOpName(op)) + " of 4 bfloat16", 5.0 * kBytes, ms, copy_rate);
  }
  for (const uint64_t piece : {uint64_t{4} << 10, uint64_t{64} << 10, uint64_t{1} << 20,
                               uint64_t{16} << 20}) {
    std::vector<tutti_plugin_piece> pieces;
    const uint64_t count = std::min<uint64_t>(kBytes / piece, 20000);
    for (uint64_t i = 0; i < count; ++i) {
      // Every second tensor of the one memory, so that they do not lie side by side.
      const uint64_t at = i % 2 == 0 ? i / 2 : count / 2 + i / 2;
      pieces.push_back({static_cast<char*>(memories[0]) + at * piece, piece, i * piece});
    }
    const double pack = Time([&] {
      return api().pack(stream_, pieces.data(), count, memories[4]);
    });
    const double unpack = Time([&] {
      return api().unpack(stream_, pieces.data(), count, memories[4]);
    });
    const double bytes = 2.0 * static_cast<double>(count * piece);
    const std::string of = std::to_string(count) + " of " + std::to_string(piece >> 10) + " KiB";
    Print("pack " + of, bytes, pack, copy_rate);
    Print("unpack " + of, bytes, unpack, copy_rate);
  }
  const auto f16 = static_cast<int32_t>(DType::kFloat16);
  const auto f32 = static_cast<int32_t>(DType::kFloat32);
  Print("cast float32 to float16", 1.5 * kBytes,
        Time([&] { return api().cast(stream_, f32, memories[0], f16, memories[4], kBytes / 4); }),
        copy_rate);
  Print("cast float16 to float32", 1.5 * kBytes,
        Time([&] { return api().cast(stream_, f16, memories[0], f32, memories[4], kBytes / 4); }),
        copy_rate);
  Print("scale float32", 2.0 * kBytes,
        Time([&] { return api().scale(stream_, f32, memories[0], 0.5, kBytes / 4, memories[4]); }),
        copy_rate);
  auto* const counts = static_cast<uint64_t*>(Memory(16));
  Print("check_numerics float32", 1.0 * kBytes,
        Time([&] { return api().check_numerics(stream_, f32, memories[0], kBytes / 4, counts); }),
        copy_rate);
  const int64_t shape[] = {16384, 16384}, across[] = {1, 16384}, along[] = {16384, 1};
  Print("strided copy: a transpose of 16384 x 16384", 2.0 * kBytes, Time([&] {
          return api().copy_strided(stream_, 4, 2, shape, memories[0], across, memories[4], along);
        }), copy_rate);
  const int64_t half[] = {16384, 8192};
  Print("strided copy: every second column", 1.0 * kBytes, Time([&] {
          const int64_t second[] = {16384, 2}, dense[] = {8192, 1};
          return api().copy_strided(stream_, 4, 2, half, memories[0], second, memories[4], dense);
        }), copy_rate);
}

TEST_F(GpuSpeed, CopiesFromAndToTheHost) {
  constexpr uint64_t kBytes = 256 << 20;
  void* const memory = Memory(kBytes);
  void* pinned = nullptr;
  GPU_OK(api().allocate_pinned(handle(), 0, kBytes, &pinned));
  std::memset(pinned, 1, kBytes);
  std::vector<unsigned char> pageable(kBytes, 2);
  const auto copy = [&](int32_t direction, void* host) {
    return Time([&] {
      return direction == TUTTI_PLUGIN_HOST_TO_DEVICE
                 ? api().copy(stream_, direction, memory, host, kBytes)
                 : api().copy(stream_, direction, host, memory, kBytes);
    }, 7);
  };
  for (const auto& [name, host] : {std::pair<const char*, void*>{"pinned", pinned},
                                   {"pageable", pageable.data()}}) {
    const double in = copy(TUTTI_PLUGIN_HOST_TO_DEVICE, host);
    const double out = copy(TUTTI_PLUGIN_DEVICE_TO_HOST, host);
    std::printf("  256 MiB of %s memory: to the device %.1f GB/s, back %.1f GB/s\n", name,
                kBytes / in / 1e6, kBytes / out / 1e6);
  }
  GPU_OK(api().release_pinned(handle(), 0, pinned));
}

TEST_F(GpuSpeed, PrefetchHidesTheCopy) {
  constexpr uint64_t kBytes = 32 << 20, kScratch = 256 << 20;
  DeviceSetOptions options;
  options.cuda_plugin = PluginPath();
  const Ref<DeviceSet> devices = DeviceSet::Create(1, nullptr, options).value();
  const Ref<Device> gpu = devices->Find("GPU:0").value();
  GpuMemory& memory = *GpuMemoryOf(*gpu);
  const Ref<GpuStream> own = memory.stream().value();
  const std::unique_ptr<GpuStaging> staging = GpuStaging::Create(*gpu).value();
  const Ref<Value> batch =
      Value::OfTensor(Tensor::Create(DType::kFloat32, Shape({kBytes / 4})).value());
  const Ref<Tensor> from = memory.Create(DType::kInt8, Shape({kScratch}), true).value();
  const Ref<Tensor> to = memory.Create(DType::kInt8, Shape({kScratch}), true).value();
  const auto median = [](int runs, const auto& work) {
    std::vector<double> times;
    for (int i = 0; i < runs + 3; ++i) {
      const auto began = std::chrono::steady_clock::now();
      work();
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - began;
      if (i >= 3) times.push_back(took.count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  const double copy_ms = median(20, [&] {
    StagedValue sent = staging->Send(*batch).value();
    GPU_EXPECT(sent.Arrive());
    GPU_EXPECT(own->Wait());
  });
  int parts = 1;
  const auto begin_step = [&] {
    for (int i = 0; i < parts; ++i) {
      GPU_EXPECT(api().copy(own->raw(), TUTTI_PLUGIN_DEVICE_TO_DEVICE, to->address(),
                            from->address(), kScratch));
    }
  };
  const auto step = [&] {
    begin_step();
    GPU_EXPECT(own->Wait());
  };
  parts = std::max(1, static_cast<int>(copy_ms / median(10, step)));
  const double step_ms = median(20, step);
  // The next batch is sent by a thread, as a distributed iterator does, while a step runs.
  StagedValue current = staging->Send(*batch).value();
  const double both_ms = median(40, [&] {
    std::future<StagedValue> next =
        std::async(std::launch::async, [&] { return staging->Send(*batch).value(); });
    GPU_EXPECT(current.Arrive());
    step();
    current = next.get();
  });
  std::printf("  prefetch of 32 MiB: copy %.3f ms, step %.3f ms, both at once %.3f ms: %.1f %% "
              "more than the longer\n",
              copy_ms, step_ms, both_ms, 100 * (both_ms / std::max(copy_ms, step_ms) - 1));
}

TEST_F(GpuSpeed, WhatCallsCost) {
  using std::chrono::steady_clock;
  void* const memory = Memory(4096);
  const void* inputs[] = {memory, memory};
  const auto each = [&](const char* what, int times, const auto& call) {
    GPU_OK(api().wait_for_stream(stream_, nullptr));
    const auto began = steady_clock::now();
    for (int i = 0; i < times; ++i) GPU_OK(call());
    const auto called = steady_clock::now();
    GPU_OK(api().wait_for_stream(stream_, nullptr));
    const std::chrono::duration<double, std::micro> submit = called - began;
    const std::chrono::duration<double, std::micro> all = steady_clock::now() - began;
    std::printf("  %-36s %6.2f us a call, %6.2f us with its end\n", what, submit.count() / times,
                all.count() / times);
  };
  for (int round = 0; round < 2; ++round) {
    each("launch: sum of 2 x 1 KiB float32", 1000,
         [&] { return api().reduce(stream_, 1, 12, inputs, 2, 256, memory); });
    each("launch and wait", 1000, [&] {
      if (tutti_status* status = api().reduce(stream_, 1, 12, inputs, 2, 256, memory)) {
        return status;
      }
      return api().wait_for_stream(stream_, nullptr);
    });
    each("allocate and release 1 MiB on a stream", 1000, [&] {
      void* some = nullptr;
      if (tutti_status* status = api().allocate_on_stream(stream_, 1 << 20, &some)) return status;
      return api().release_on_stream(stream_, some);
    });
    each("record an event", 1000, [&] { return api().record_event(events_[0], stream_); });
  }
}

}  // namespace
}  // namespace tutti::gpu
