// GpuPack: tensors of one dtype on one GPU that travel as one, side by side in memory of their own.
//
//   GpuPack pack(tensors);
//   TUTTI_RETURN_IF_ERROR(pack.Gather());   // what is in from() may go to to(), in place
//   ... work of pack.stream() ...
//   TUTTI_RETURN_IF_ERROR(pack.Scatter());
//   pack.results()                          // new tensors, like those that were given
//
// A single tensor is taken as it is, and to() is its result. All is done on the stream of the first
// tensor; nothing here waits for it.
//
// Threads: one at a time.
#ifndef TUTTI_CORE_DEVICE_GPU_PACK_H_
#define TUTTI_CORE_DEVICE_GPU_PACK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace tutti {

class GpuPack {
 public:
  // At least one, all on one GPU.
  explicit GpuPack(std::vector<Ref<Tensor>> tensors);

  const Ref<GpuStream>& stream() const { return stream_; }
  const GpuPlace& place() const { return stream_->place(); }
  GpuMemory& memory() const { return *memory_; }
  DType dtype() const { return inputs_[0]->dtype(); }
  uint64_t elements() const { return elements_; }
  // Whether there are several, which lie in memory of the pack's.
  bool is_packed() const { return inputs_.size() > 1; }

  // `packed` (null: new memory) is where several of them go, of the same GPU and large enough, and
  // nobody else's until Scatter is done on the stream.
  Status Gather(void* packed = nullptr);
  // Null where the memory is the caller's.
  const Ref<Tensor>& from() const { return from_; }
  const Ref<Tensor>& to() const { return to_; }
  const void* from_address() const { return packed_ != nullptr ? packed_ : from_->address(); }
  void* to_address() const { return packed_ != nullptr ? packed_ : to_->address(); }
  Status Scatter();
  std::vector<Ref<Tensor>>& results() { return results_; }

 private:
  Result<Ref<Tensor>> New(const Shape& shape) const;

  Ref<GpuStream> stream_;
  Ref<GpuMemory> memory_;
  std::vector<Ref<Tensor>> inputs_;
  std::vector<Ref<Tensor>> results_;
  uint64_t elements_ = 0;
  Ref<Tensor> from_;
  Ref<Tensor> to_;
  void* packed_ = nullptr;
};

// What stands for one tensor of each device when packs are cut.
struct GpuPackPart {
  DType dtype;
  size_t bytes;
};

// [first, last) of the tensors that go together: `num_packs` packs of nearly equal counts (0: each
// tensor alone), more where dtypes change or a pack would have more than `bytes_per_pack` bytes (0:
// no limit; a larger tensor goes alone).
std::vector<std::pair<size_t, size_t>> CutGpuPacks(std::span<const GpuPackPart> parts,
                                                   int64_t num_packs, int64_t bytes_per_pack);

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_PACK_H_
