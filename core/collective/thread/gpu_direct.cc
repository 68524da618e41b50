// Calls of tensors on GPUs: once everybody is here, each rank makes its result on its own GPU out
// of its peers' tensors, where they lie, by copies between devices and by the kernels, which fold
// in the order of the ranks and give the CPU's bits. Nobody writes where a peer may still read: a
// result goes to its place when all have said what they read, and the streams keep that order.
//
// When the call returns, the work has been given to the streams of the tensors, and may go on. A
// transfer is one copy, to or from the host where one of the two has its tensor there.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/thread/local_algorithms.h"
#include "core/device/gpu_memory.h"

namespace tutti {
namespace {

class GpuResults {
 public:
  GpuResults(LocalGroup& group, int64_t rank, CollectiveCall& call, const Tensor& own)
      : group_(group),
        rank_(rank),
        call_(call),
        stream_(Ref<GpuStream>::Retain(const_cast<GpuStream*>(StreamOf(own)))),
        memory_(MakeRef<GpuMemory>(stream_->place())) {}

  Status Make();
  // When no peer needs what was there.
  Status Deliver();

 private:
  const Tensor& InputOf(int64_t peer, size_t tensor) const {
    return *group_.PeerEntry(peer, call_.sequence).on_gpu[tensor].input;
  }
  Result<Ref<Tensor>> New(const Shape& shape) const {
    return memory_->Create(call_.header.first.dtype, shape, false, stream_);
  }
  // The tensor itself where it can be read by a kernel of this device, else a copy.
  Result<Ref<Tensor>> Bring(const Tensor& tensor) const;
  // `tensor` of the call of all ranks, folded; rows [begin, end) of it where those are given.
  Result<Ref<Tensor>> Fold(size_t tensor) const;
  Result<Ref<Tensor>> FoldShare() const;
  Result<Ref<Tensor>> FoldAll(const std::vector<Ref<Tensor>>& inputs) const;
  Result<Ref<Tensor>> Copied(const Tensor& source) const {
    return CopyToGpu(source, *memory_, stream_);
  }
  // `source` into a part of a result.
  Status Put(const Tensor& source, Tensor* part) const;
  Result<Ref<Tensor>> Join(size_t axis) const;
  Result<Ref<Tensor>> Exchange() const;
  Result<Ref<Tensor>> ExchangeUneven();

  LocalGroup& group_;
  const int64_t rank_;
  CollectiveCall& call_;
  const Ref<GpuStream> stream_;
  const Ref<GpuMemory> memory_;
  std::vector<Ref<Tensor>> results_;  // of the call's tensors; null where there is none
};

Result<Ref<Tensor>> GpuResults::Bring(const Tensor& tensor) const {
  const bool is_here = StreamOf(tensor)->place().ordinal == stream_->place().ordinal &&
                       tensor.is_contiguous() &&
                       reinterpret_cast<uintptr_t>(tensor.address()) % tensor.item_size() == 0;
  if (is_here) return Ref<Tensor>::Retain(const_cast<Tensor*>(&tensor));
  return CopyToGpu(tensor, *memory_, stream_);
}

Result<Ref<Tensor>> GpuResults::FoldAll(const std::vector<Ref<Tensor>>& inputs) const {
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, New(inputs[0]->shape()));
  if (result->num_elements() == 0) return result;
  std::vector<Ref<Tensor>> brought;
  std::vector<const void*> addresses;
  for (const Ref<Tensor>& input : inputs) {
    TUTTI_ASSIGN_OR_RETURN(brought.emplace_back(), Bring(*input));
    TUTTI_RETURN_IF_ERROR(BeginUse(*stream_, *brought.back()));
    addresses.push_back(brought.back()->address());
  }
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(stream_->place().api().reduce(
      stream_->raw(), static_cast<int32_t>(call_.header.reduction),
      static_cast<int32_t>(result->dtype()), addresses.data(), addresses.size(),
      static_cast<uint64_t>(result->num_elements()), result->address())));
  for (const Ref<Tensor>& input : brought) TUTTI_RETURN_IF_ERROR(EndUse(*stream_, *input));
  return result;
}

Result<Ref<Tensor>> GpuResults::Fold(size_t tensor) const {
  std::vector<Ref<Tensor>> inputs;
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    inputs.push_back(Ref<Tensor>::Retain(const_cast<Tensor*>(&InputOf(peer, tensor))));
  }
  return FoldAll(inputs);
}

Result<Ref<Tensor>> GpuResults::FoldShare() const {
  std::vector<Ref<Tensor>> inputs;
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    const Tensor& input = InputOf(peer, 0);
    const int64_t rows = input.dim(0) / group_.size();
    inputs.push_back(input.Slice(rank_ * rows, (rank_ + 1) * rows));
  }
  return FoldAll(inputs);
}

Status GpuResults::Put(const Tensor& source, Tensor* part) const {
  if (source.num_elements() == 0) return OkStatus();
  if (!source.is_contiguous() || !part->is_contiguous()) return CopyAnywhere(source, part);
  TUTTI_RETURN_IF_ERROR(BeginUse(*stream_, source));
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
      stream_->place().api().copy(stream_->raw(), TUTTI_PLUGIN_DEVICE_TO_DEVICE, part->address(),
                                  source.address(), source.byte_size())));
  return EndUse(*stream_, source);
}

Result<Ref<Tensor>> GpuResults::Join(size_t axis) const {
  Dims dims = call_.header.first.dims;
  dims[axis] = 0;
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    if (__builtin_add_overflow(dims[axis], InputOf(peer, 0).dim(axis), &dims[axis])) {
      return ResourceExhausted("the joined tensor has more rows than there can be");
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> joined, New(shape));
  int64_t begin = 0;
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    const Tensor& input = InputOf(peer, 0);
    const int64_t end = begin + input.dim(axis);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> part, joined->SliceAxis(axis, begin, end));
    TUTTI_RETURN_IF_ERROR(Put(input, part.get()));
    begin = end;
  }
  return joined;
}

Result<Ref<Tensor>> GpuResults::Exchange() const {
  const Tensor& own = InputOf(rank_, 0);
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, New(own.shape()));
  const int64_t rows = own.dim(0) / group_.size();
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    TUTTI_RETURN_IF_ERROR(Put(*InputOf(peer, 0).Slice(rank_ * rows, (rank_ + 1) * rows),
                              result->Slice(peer * rows, (peer + 1) * rows).get()));
  }
  return result;
}

Result<Ref<Tensor>> GpuResults::ExchangeUneven() {
  const auto own = static_cast<size_t>(rank_);
  Dims dims = call_.header.first.dims;
  dims[0] = 0;
  call_.received_rows.clear();
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    call_.received_rows.push_back(group_.PeerEntry(peer, call_.sequence).send_rows[own]);
    dims[0] += call_.received_rows.back();
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, New(shape));
  int64_t place = 0;
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    const std::span<const int64_t> rows = group_.PeerEntry(peer, call_.sequence).send_rows;
    int64_t first = 0;
    for (size_t r = 0; r < own; ++r) first += rows[r];
    TUTTI_RETURN_IF_ERROR(Put(*InputOf(peer, 0).Slice(first, first + rows[own]),
                              result->Slice(place, place + rows[own]).get()));
    place += rows[own];
  }
  return result;
}

Status GpuResults::Make() {
  const CallHeader& header = call_.header;
  const bool is_root = header.root == rank_;
  const auto axis = static_cast<size_t>(header.axis);
  results_.resize(header.num_tensors);
  const auto keep = [](Result<Ref<Tensor>> made, Ref<Tensor>* at) {
    if (made.ok()) *at = std::move(made).value();
    return made.status();
  };
  switch (header.op) {
    case CollectiveOp::kAllReduce:
      for (size_t i = 0; i < header.num_tensors; ++i) {
        TUTTI_RETURN_IF_ERROR(keep(Fold(i), &results_[i]));
      }
      return OkStatus();
    case CollectiveOp::kReduce: return is_root ? keep(Fold(0), &results_[0]) : OkStatus();
    case CollectiveOp::kReduceScatter: return keep(FoldShare(), &results_[0]);
    case CollectiveOp::kBroadcast:
      return is_root ? OkStatus() : keep(Copied(InputOf(header.root, 0)), &results_[0]);
    case CollectiveOp::kScatter: {
      const Tensor& whole = InputOf(header.root, 0);
      const int64_t rows = whole.dim(0) / group_.size();
      return keep(Copied(*whole.Slice(rank_ * rows, (rank_ + 1) * rows)), &results_[0]);
    }
    case CollectiveOp::kAllGather:
      return keep(Join(axis), header.uneven ? &call_.gathered : &results_[0]);
    case CollectiveOp::kGather: return is_root ? keep(Join(axis), &call_.gathered) : OkStatus();
    case CollectiveOp::kAllToAll:
      return header.uneven ? keep(ExchangeUneven(), &call_.gathered)
                           : keep(Exchange(), &results_[0]);
    default: return Internal("{} has no form on GPUs", CollectiveOpName(header.op));
  }
}

Status GpuResults::Deliver() {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i] || call_.on_gpu[i].output == nullptr) continue;
    TUTTI_RETURN_IF_ERROR(CopyAnywhere(*results_[i], call_.on_gpu[i].output));
  }
  return OkStatus();
}

// That of a rank of a transfer, wherever it lies.
Result<Ref<Tensor>> TransferredTensor(const CollectiveCall& call) {
  const bool sends = call.header.op == CollectiveOp::kSend;
  if (!call.on_gpu.empty()) {
    const GpuMemoryOfCall& own = call.on_gpu[0];
    return Ref<Tensor>::Retain(sends ? const_cast<Tensor*>(own.input) : own.output);
  }
  const TensorSignature& signature = call.header.first;
  TUTTI_ASSIGN_OR_RETURN(const Shape shape,
                         Shape::Create(signature.dims.data(), signature.dims.size()));
  void* const memory = sends ? const_cast<void*>(call.memory[0].input) : call.memory[0].output;
  return Tensor::View(memory, signature.dtype, shape, {}, sends, nullptr);
}

}  // namespace

Status GpuTransfer(const CollectiveCall& send, const CollectiveCall& receive,
                   const GpuWait& wait) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> from, TransferredTensor(send));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> to, TransferredTensor(receive));
  // Ranks of one process can pass the same tensor.
  if (from == to || from->num_elements() == 0) return OkStatus();
  return CopyAnywhere(*from, to.get(), wait);
}

Status GpuDirect(LocalGroup& group, int64_t rank, CollectiveCall* call) {
  LocalGroup::Entry& own = group.OwnEntry(rank, call->sequence);
  own.on_gpu = call->on_gpu;
  own.send_rows = call->send_rows;
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, *call, LocalGroup::Access::kPeerMemory));
  const GpuMemoryOfCall& first = call->on_gpu[0];
  GpuResults results(group, rank, *call, first.input != nullptr ? *first.input : *first.output);
  {
    const LocalGroup::PartsAtEnd parts(group, rank, *call);
    Status status = results.Make();
    if (!status.ok()) return group.Fail(std::move(status));
  }
  Status status = results.Deliver();
  return status.ok() ? status : group.Fail(std::move(status));
}

}  // namespace tutti
