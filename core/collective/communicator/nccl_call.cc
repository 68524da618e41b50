// NCCL has all_reduce, reduce, broadcast, all_gather of equal parts and reduce_scatter. The others
// are sends and receives in one group: each rank's own part is a copy on its device. What it does
// not fold, or not in the order of the ranks, the kernels do (nccl_fold.h).

#include "core/collective/communicator/nccl_call.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/communicator/nccl_fold.h"
#include "core/device/gpu_memory.h"

namespace tutti {
namespace {

class NcclCall {
 public:
  NcclCall(const NcclRanks& ranks, CollectiveCall& call, const GpuRanks::Agreement& agreed,
           const GpuWait& wait)
      : nccl_(ranks.communicator),
        stream_(ranks.stream),
        rank_(ranks.rank),
        size_(ranks.size),
        peer_(ranks.peer),
        call_(call),
        agreed_(agreed),
        wait_(wait),
        memory_(MakeRef<GpuMemory>(ranks.communicator.place())) {}

  Status Run();

 private:
  struct Piece {
    Ref<Tensor> tensor;
    int64_t peer = 0;
  };

  // Of the stream of the tensors; NCCL may write it.
  Result<Ref<Tensor>> New(const Shape& shape, DType dtype) const {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> made, memory_->Create(dtype, shape, false, of_tensors_));
    TUTTI_RETURN_IF_ERROR(BeginUse(*stream_, *made));
    return made;
  }
  Result<Ref<Tensor>> New(const Shape& shape) const {
    return New(shape, call_.header.first.dtype);
  }
  // Something of another rank's that its header describes.
  Result<Ref<Tensor>> NewLike(int64_t peer) const {
    const Dims& dims = agreed_.headers[static_cast<size_t>(peer)].first.dims;
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    return New(shape);
  }
  static Ref<Tensor> ShareOf(const Tensor& whole, int64_t peer, int64_t ranks) {
    const int64_t rows = whole.dim(0) / ranks;
    return whole.Slice(peer * rows, (peer + 1) * rows);
  }
  Status Prepare();
  Status Issue();
  Status Fold(size_t i);
  Status FoldInRankOrder();
  // Sends and receives what was collected, the own part by a copy.
  Status Exchange();
  Status JoinReceived();
  Status UnevenRows();

  GpuCommunicator& nccl_;
  const Ref<GpuStream> stream_;
  const int64_t rank_;
  const int64_t size_;
  const int64_t peer_;
  CollectiveCall& call_;
  const GpuRanks::Agreement& agreed_;
  const GpuWait& wait_;
  const Ref<GpuMemory> memory_;
  Ref<GpuStream> of_tensors_;
  // Of the tensors of the call: contiguous ones, which may stand for those that were given.
  std::vector<Ref<Tensor>> inputs_;
  std::vector<Ref<Tensor>> outputs_;
  std::vector<Piece> sent_;
  std::vector<Piece> received_;
  std::unique_ptr<NcclFold> fold_;
};

Status NcclCall::Prepare() {
  const Tensor* const first =
      call_.on_gpu[0].input != nullptr ? call_.on_gpu[0].input : call_.on_gpu[0].output;
  of_tensors_ = Ref<GpuStream>::Retain(const_cast<GpuStream*>(StreamOf(*first)));
  const bool folds = call_.header.op == CollectiveOp::kAllReduce ||
                     call_.header.op == CollectiveOp::kReduce;
  for (const GpuMemoryOfCall& each : call_.on_gpu) {
    Ref<Tensor>& input = inputs_.emplace_back();
    Ref<Tensor>& output = outputs_.emplace_back();
    if (each.input != nullptr) {
      input = Ref<Tensor>::Retain(const_cast<Tensor*>(each.input));
      if (!input->is_contiguous()) {
        TUTTI_ASSIGN_OR_RETURN(input, CopyToGpu(*each.input, *memory_, of_tensors_));
      }
      TUTTI_RETURN_IF_ERROR(BeginUse(*stream_, *input));
    }
    if (each.output == nullptr) continue;
    output = Ref<Tensor>::Retain(each.output);
    bool usable = output->is_contiguous();
    if (usable && input) {
      // In place where it is the same memory; what overlaps otherwise gets a copy.
      const auto from = reinterpret_cast<uintptr_t>(input->address());
      const auto to = reinterpret_cast<uintptr_t>(output->address());
      const bool apart = from + input->byte_size() <= to || to + output->byte_size() <= from;
      usable = apart || (folds && from == to);
    }
    if (!usable) {
      // Its own dtype: tensors of one call may differ.
      TUTTI_ASSIGN_OR_RETURN(output, New(each.output->shape(), each.output->dtype()));
    } else {
      TUTTI_RETURN_IF_ERROR(BeginUse(*stream_, *output));
    }
  }
  return OkStatus();
}

Status NcclCall::Fold(size_t i) {
  const CallHeader& header = call_.header;
  const Tensor& in = *inputs_[i];
  const auto count = static_cast<uint64_t>(in.num_elements());
  if (count == 0) return OkStatus();
  void* const out = outputs_[i] ? outputs_[i]->address() : in.address();
  if (header.op == CollectiveOp::kAllReduce) {
    return nccl_.AllReduce(*stream_, header.reduction, in.dtype(), in.address(), out, count, wait_);
  }
  if (header.op == CollectiveOp::kReduce) {
    return nccl_.Reduce(*stream_, header.reduction, in.dtype(), in.address(), out, count,
                        static_cast<int>(header.root), wait_);
  }
  return nccl_.ReduceScatter(*stream_, header.reduction, in.dtype(), in.address(), out,
                             static_cast<uint64_t>(outputs_[i]->num_elements()), wait_);
}

Status NcclCall::FoldInRankOrder() {
  fold_ = std::make_unique<NcclFold>(
      NcclFold::Ranks{nccl_, *stream_, rank_, size_}, call_.header, inputs_, outputs_,
      [this](const Shape& shape, DType dtype) { return New(shape, dtype); }, wait_);
  return fold_->Issue();
}

Status NcclCall::Exchange() {
  TUTTI_ASSIGN_OR_RETURN(GpuGroup group, GpuGroup::Start(nccl_.place().plugin));
  Status status;
  const auto goes = [this](const Piece& piece) {
    return piece.peer != rank_ && piece.tensor->num_elements() > 0;
  };
  for (const Piece& piece : sent_) {
    if (!status.ok() || !goes(piece)) continue;
    status = nccl_.Send(*stream_, piece.tensor->dtype(), piece.tensor->address(),
                        static_cast<uint64_t>(piece.tensor->num_elements()),
                        static_cast<int>(piece.peer), wait_);
  }
  for (const Piece& piece : received_) {
    if (!status.ok() || !goes(piece)) continue;
    status = nccl_.Receive(*stream_, piece.tensor->dtype(), piece.tensor->address(),
                           static_cast<uint64_t>(piece.tensor->num_elements()),
                           static_cast<int>(piece.peer), wait_);
  }
  Status ended = group.End(wait_);
  TUTTI_RETURN_IF_ERROR(status);
  TUTTI_RETURN_IF_ERROR(ended);
  for (const Piece& to : received_) {
    if (to.peer != rank_ || to.tensor->num_elements() == 0) continue;
    for (const Piece& from : sent_) {
      if (from.peer != rank_ || from.tensor == to.tensor) continue;
      TUTTI_RETURN_IF_ERROR(CopyAnywhere(*from.tensor, to.tensor.get()));
    }
  }
  return OkStatus();
}

// What came, along the axis of a gather.
Status NcclCall::JoinReceived() {
  const auto axis = static_cast<size_t>(call_.header.axis);
  Dims dims = call_.header.first.dims;
  dims[axis] = 0;
  for (const Piece& piece : received_) {
    if (__builtin_add_overflow(dims[axis], piece.tensor->dim(axis), &dims[axis])) {
      return ResourceExhausted("the joined tensor has more rows than there can be");
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  TUTTI_ASSIGN_OR_RETURN(call_.gathered, New(shape));
  int64_t begin = 0;
  for (const Piece& piece : received_) {
    const int64_t end = begin + piece.tensor->dim(axis);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> part, call_.gathered->SliceAxis(axis, begin, end));
    if (part->num_elements() > 0) TUTTI_RETURN_IF_ERROR(CopyAnywhere(*piece.tensor, part.get()));
    begin = end;
  }
  return OkStatus();
}

Status NcclCall::UnevenRows() {
  const auto own = static_cast<size_t>(rank_);
  Dims dims = call_.header.first.dims;
  dims[0] = 0;
  call_.received_rows.clear();
  for (const std::vector<int64_t>& rows : agreed_.send_rows) {
    if (rows.size() != static_cast<size_t>(size_) || rows[own] < 0) {
      return Internal("a rank says of {} of {} ranks how many rows go there", rows.size(), size_);
    }
    call_.received_rows.push_back(rows[own]);
    dims[0] += rows[own];
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  TUTTI_ASSIGN_OR_RETURN(call_.gathered, New(shape));
  int64_t sent = 0;
  int64_t received = 0;
  for (int64_t peer = 0; peer < size_; ++peer) {
    const int64_t out = call_.send_rows[static_cast<size_t>(peer)];
    const int64_t in = call_.received_rows[static_cast<size_t>(peer)];
    sent_.push_back({inputs_[0]->Slice(sent, sent + out), peer});
    received_.push_back({call_.gathered->Slice(received, received + in), peer});
    sent += out;
    received += in;
  }
  return Exchange();
}

Status NcclCall::Issue() {
  const CallHeader& header = call_.header;
  const bool is_root = header.root == rank_;
  const auto root = static_cast<int>(header.root);
  if (agreed_.in_rank_order) return FoldInRankOrder();
  switch (header.op) {
    case CollectiveOp::kAllReduce: {
      if (inputs_.size() == 1) return Fold(0);
      TUTTI_ASSIGN_OR_RETURN(GpuGroup group, GpuGroup::Start(nccl_.place().plugin));
      Status status;
      for (size_t i = 0; i < inputs_.size() && status.ok(); ++i) status = Fold(i);
      Status ended = group.End(wait_);
      return status.ok() ? ended : status;
    }
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter: return Fold(0);
    case CollectiveOp::kBroadcast: {
      const Tensor& used = is_root ? *inputs_[0] : *outputs_[0];
      if (used.num_elements() == 0) return OkStatus();
      return nccl_.Broadcast(*stream_, used.dtype(), used.address(), used.address(),
                             static_cast<uint64_t>(used.num_elements()), root, wait_);
    }
    case CollectiveOp::kScatter:
      if (is_root) {
        for (int64_t peer = 0; peer < size_; ++peer) {
          sent_.push_back({ShareOf(*inputs_[0], peer, size_), peer});
        }
      }
      received_.push_back({outputs_[0], header.root});
      return Exchange();
    case CollectiveOp::kAllGather:
      if (!header.uneven) {
        if (inputs_[0]->num_elements() == 0) return OkStatus();
        return nccl_.AllGather(*stream_, inputs_[0]->dtype(), inputs_[0]->address(),
                               outputs_[0]->address(),
                               static_cast<uint64_t>(inputs_[0]->num_elements()), wait_);
      }
      [[fallthrough]];
    case CollectiveOp::kGather:
      for (int64_t peer = 0; peer < size_; ++peer) {
        const bool gets = header.op == CollectiveOp::kAllGather || peer == header.root;
        if (gets) sent_.push_back({inputs_[0], peer});
        if (header.op == CollectiveOp::kGather && !is_root) continue;
        if (peer == rank_) {
          received_.push_back({inputs_[0], peer});
        } else {
          TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> piece, NewLike(peer));
          received_.push_back({std::move(piece), peer});
        }
      }
      return Exchange();
    case CollectiveOp::kAllToAll:
      if (header.uneven) return UnevenRows();
      for (int64_t peer = 0; peer < size_; ++peer) {
        sent_.push_back({ShareOf(*inputs_[0], peer, size_), peer});
        received_.push_back({ShareOf(*outputs_[0], peer, size_), peer});
      }
      return Exchange();
    case CollectiveOp::kSend:
      sent_.push_back({inputs_[0], peer_});
      return Exchange();
    case CollectiveOp::kReceive:
      received_.push_back({outputs_[0], peer_});
      return Exchange();
    default: return Internal("NCCL: {} has no form", CollectiveOpName(header.op));
  }
}

Status NcclCall::Run() {
  TUTTI_RETURN_IF_ERROR(Prepare());
  TUTTI_RETURN_IF_ERROR(Issue());
  TUTTI_ASSIGN_OR_RETURN(const Ref<GpuEvent> done, GpuEvent::Create(nccl_.place(), false));
  TUTTI_RETURN_IF_ERROR(done->Record(*stream_));
  // The streams of the tensors need not wait for this one, and must not: another rank's part of
  // the call may have to wait for them.
  TUTTI_RETURN_IF_ERROR(done->Wait(wait_));
  const bool joins = call_.header.uneven && call_.header.op != CollectiveOp::kAllToAll;
  if (joins && !received_.empty()) TUTTI_RETURN_IF_ERROR(JoinReceived());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (outputs_[i] && outputs_[i].get() != call_.on_gpu[i].output) {
      TUTTI_RETURN_IF_ERROR(CopyAnywhere(*outputs_[i], call_.on_gpu[i].output));
    }
  }
  return OkStatus();
}

}  // namespace

Status RunByNccl(const NcclRanks& ranks, CollectiveCall* call, const GpuRanks::Agreement& agreed,
                 const GpuWait& wait) {
  return NcclCall(ranks, *call, agreed, wait).Run().WithPrefix("NCCL");
}

}  // namespace tutti
