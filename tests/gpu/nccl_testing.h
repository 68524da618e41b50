// What tests of communicators share: a machine of eight fake GPUs with the fake NCCL, and ranks on
// threads.
#ifndef TUTTI_TESTS_GPU_NCCL_TESTING_H_
#define TUTTI_TESTS_GPU_NCCL_TESTING_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/device/gpu_communicator.h"
#include "core/tensor/device_id.h"
#include "tests/gpu/fakes/fake_nccl.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {

// A limit that no test reaches, and one that tests wait for.
inline CallOptions InTime(int64_t ms = 30'000) {
  return CallOptions::WithTimeout(RealClock(), ms * kMillisecondNs);
}

inline GpuPlace PlaceOf(const Ref<DevicePlugin>& plugin, int device) {
  GpuPlace place;
  place.plugin = plugin;
  place.ordinal = device;
  place.id = DeviceId{DeviceType::kGpu, device};
  return place;
}

class Nccl : public Gpu {
 protected:
  void SetUp() override {
    if (IsReal()) GTEST_SKIP() << "several ranks need several devices";
    Use(TUTTI_GPU_NCCL);
  }
  void TearDown() override {
    if (IsReal()) return;
    ranks_.clear();
    Gpu::TearDown();
    Break({});
    EXPECT_EQ(FunctionOfNccl<fake::CountNcclThings>(fake::kCountNcclThings)(), 0);
  }

  // The machine anew, with this NCCL.
  void Use(const char* library) {
    ranks_.clear();
    library_ = library;
    setenv("TUTTI_NCCL_LIBRARY", library, 1);
    fake::Machine machine;
    machine.devices = 8;
    machine.memory_bytes = 4 << 20;
    Open(machine);
    Break({});
  }
  void Break(const fake::NcclFaults& faults) {
    FunctionOfNccl<fake::SetNcclFaults>(fake::kSetNcclFaults)(&faults);
  }
  template <class FunctionType>
  FunctionType FunctionOfNccl(const char* name) {
    return reinterpret_cast<FunctionType>(
        dlsym(dlopen(library_, RTLD_NOW | RTLD_LOCAL), name));
  }

  GpuPlace Place(int device) const { return PlaceOf(plugin_, device); }

  struct Rank {
    GpuPlace place;
    Ref<GpuStream> stream;
    Ref<GpuCommunicator> communicator;
    std::vector<void*> memories;

    ~Rank() {
      communicator.reset();
      if (!stream) return;
      for (void* memory : memories) {
        (void)AsStatus(place.api().release_on_stream(stream->raw(), memory));
      }
      (void)stream->Wait();
    }
    void* Memory(uint64_t bytes) {
      void* memory = nullptr;
      EXPECT_TRUE(AsStatus(place.api().allocate_on_stream(stream->raw(), bytes, &memory)).ok());
      memories.push_back(memory);
      return memory;
    }
    void* Copied(const std::vector<unsigned char>& bytes) {
      void* const memory = Memory(bytes.size());
      EXPECT_TRUE(AsStatus(place.api().copy(stream->raw(), TUTTI_PLUGIN_HOST_TO_DEVICE, memory,
                                            bytes.data(), bytes.size())).ok());
      return memory;
    }
    std::vector<unsigned char> Read(const void* memory, uint64_t bytes) {
      std::vector<unsigned char> read(bytes);
      EXPECT_TRUE(AsStatus(place.api().copy(stream->raw(), TUTTI_PLUGIN_DEVICE_TO_HOST,
                                            read.data(), memory, bytes)).ok());
      EXPECT_TRUE(stream->Wait().ok());
      return read;
    }
  };

  // Ranks of one communicator, each on a device of its own, begun but not awaited.
  void Begin(int num_ranks) {
    ranks_.clear();
    const auto id = NewGpuCommunicatorId(*plugin_);
    GPU_OK(id);
    for (int i = 0; i < num_ranks; ++i) {
      auto rank = std::make_unique<Rank>();
      rank->place = Place(i);
      auto stream = GpuStream::Create(rank->place);
      GPU_OK(stream);
      rank->stream = std::move(stream).value();
      auto made = GpuCommunicator::Begin(rank->place, {id.value(), i, num_ranks});
      GPU_OK(made);
      rank->communicator = std::move(made).value();
      ranks_.push_back(std::move(rank));
    }
  }
  void Make(int num_ranks) {
    Begin(num_ranks);
    for (const auto& rank : ranks_) {
      const CallOptions options = InTime();
      GPU_OK(rank->communicator->AwaitReady({&options, &RealClock()}));
    }
  }
  // Each rank on a thread of its own; what they return.
  std::vector<Status> OnRanks(const std::function<Status(int, Rank&)>& body) {
    std::vector<Status> statuses(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back(
          [&, i] { statuses[i] = body(static_cast<int>(i), *ranks_[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  void ExpectOk(const std::vector<Status>& statuses) {
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  }

  const char* library_ = TUTTI_GPU_NCCL;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tutti::gpu

#endif  // TUTTI_TESTS_GPU_NCCL_TESTING_H_
