// Values on their way from the host to a GPU, while the GPU computes: pinned memory between, a
// stream of its own, and an event for each value. The memory of two values is there: one may be on
// its way while the next one is written.
//
//   TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<GpuStaging> staging, GpuStaging::Create(*gpu));
//   TUTTI_ASSIGN_OR_RETURN(StagedValue next, staging->Send(*batch, wait));      // begins
//   ...
//   TUTTI_RETURN_IF_ERROR(next.Arrive());   // the device's own stream has it from here on
//   Use(next.value());
#ifndef TUTTI_CORE_DEVICE_GPU_STAGING_H_
#define TUTTI_CORE_DEVICE_GPU_STAGING_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/value.h"

namespace tutti {

// A value of which tensors are on their way. Their memory is the device's own stream's; until
// Arrive nobody may use it. Threads: one at a time.
class StagedValue final {
 public:
  // Nothing is on its way.
  explicit StagedValue(Ref<Value> value = nullptr) : value_(std::move(value)) {}
  StagedValue(Ref<Value> value, Ref<GpuStream> own, Ref<GpuEvent> sent)
      : value_(std::move(value)), own_(std::move(own)), sent_(std::move(sent)) {}
  StagedValue(StagedValue&&) noexcept = default;
  StagedValue& operator=(StagedValue&& other) noexcept;
  ~StagedValue() { Drop(); }

  const Ref<Value>& value() const { return value_; }
  // What is given to the device's own stream from now on runs after the copies; nobody waits here.
  Status Arrive();

 private:
  // The memory goes back in the order of the own stream.
  void Drop();

  Ref<Value> value_;
  Ref<GpuStream> own_;
  Ref<GpuEvent> sent_;  // null: arrived
};

// Threads: one at a time.
class GpuStaging final {
 public:
  // INVALID_ARGUMENT for a CPU.
  static Result<std::unique_ptr<GpuStaging>> Create(const Device& gpu);
  // Waits for copies that have begun, up to half a minute.
  ~GpuStaging();
  GpuStaging(const GpuStaging&) = delete;
  GpuStaging& operator=(const GpuStaging&) = delete;

  // The same structure with copies on the GPU in the place of tensors of the host's; byte strings,
  // leaves that are no tensors and tensors that lie there already stay. Has read the value when it
  // returns. `wait` ends the wait for the value before the last one, which loses nothing.
  // RESOURCE_EXHAUSTED for lack of pinned memory, or the device's.
  Result<StagedValue> Send(const Value& value, const GpuWait& wait = {});

 private:
  // Pinned memory, which is free when the event is reached.
  struct Block {
    Ref<Buffer> memory;
    Ref<GpuEvent> sent;
  };
  GpuStaging(const Device& gpu, GpuMemory& memory, Ref<GpuStream> own, Ref<GpuStream> copies);
  bool IsSent(const Leaf& leaf) const;
  Status SendLeaves(const Value& value, Block* block, std::vector<Leaf>* leaves);

  const DeviceId device_;
  const Ref<GpuMemory> memory_;
  const Ref<GpuStream> own_;
  const Ref<GpuStream> copies_;
  std::array<Block, 2> blocks_;
  size_t turn_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_STAGING_H_
