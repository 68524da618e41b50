// Folds that NCCL does not have, or not in the order of the ranks: every rank gets a part of what
// all bring, folds it by the kernels of its GPU, and hands it to those who want it. The same bits
// as on the host. For NcclCall.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_FOLD_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_FOLD_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/device/gpu_communicator.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/tensor.h"

namespace tutti {

class NcclFold {
 public:
  struct Ranks {
    GpuCommunicator& nccl;
    const GpuStream& stream;
    int64_t rank;
    int64_t size;
  };
  // Memory for the work of the stream.
  using NewTensor = std::function<Result<Ref<Tensor>>(const Shape& shape, DType dtype)>;

  // Of an all_reduce, reduce or reduce_scatter: contiguous ones; outputs[i] is null where this rank
  // gets nothing.
  NcclFold(Ranks ranks, const CallHeader& header, std::span<const Ref<Tensor>> inputs,
           std::span<const Ref<Tensor>> outputs, NewTensor make, const GpuWait& wait)
      : ranks_(ranks),
        header_(header),
        inputs_(inputs),
        outputs_(outputs),
        make_(std::move(make)),
        wait_(wait) {}

  // Gives the work to the stream. Keep this until it is done.
  Status Issue();

 private:
  // Elements [begin, end) of a tensor.
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
    uint64_t count() const { return static_cast<uint64_t>(end - begin); }
  };
  // What a rank folds of the i-th tensor.
  Part PartOf(size_t i, int64_t rank) const;
  // Whether everybody folds all of it, which spares a small one the second journey.
  bool IsWhole(size_t i) const;
  static std::byte* At(const Tensor& tensor, int64_t element) {
    return static_cast<std::byte*>(tensor.address()) +
           static_cast<size_t>(element) * tensor.item_size();
  }
  // All that `each` sends and receives of every tensor, in one group.
  Status InGroup(const std::function<Status(size_t i)>& each) const;
  Status Send(const Tensor& tensor, Part part, int64_t to) const;
  Status Receive(const Tensor& tensor, int64_t element, uint64_t count, int64_t from) const;
  Status HandOutInputs(size_t i);
  Status FoldOwnPart(size_t i);
  Status HandOutFolds(size_t i);

  const Ranks ranks_;
  const CallHeader& header_;
  const std::span<const Ref<Tensor>> inputs_;
  const std::span<const Ref<Tensor>> outputs_;
  const NewTensor make_;
  const GpuWait& wait_;
  std::vector<Ref<Tensor>> brought_;  // of each tensor: this rank's part of all ranks' inputs
  std::vector<Ref<Tensor>> folded_;   // and what becomes of it; null: it is a part of the output
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_FOLD_H_
