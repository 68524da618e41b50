#include "core/strategy/replica_order_fold.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/tensor/cast.h"

namespace tutti {

namespace {

// Consecutive operands that are folded in one dtype, as if they were one tensor.
class Run {
 public:
  explicit Run(std::span<const ReplicaOrderOperand> operands) : operands_(operands) {
    ends_.reserve(operands.size());
    for (const ReplicaOrderOperand& operand : operands) {
      num_elements_ += operand.folded->num_elements();
      ends_.push_back(num_elements_);
    }
  }

  int64_t num_elements() const { return num_elements_; }
  DType dtype() const { return operands_[0].folded->dtype(); }
  size_t num_replicas() const { return operands_[0].replicas.size(); }

  // visit(operand, its first element, the elements of the range before it, how many) for what of
  // the operands lies in [begin, end).
  template <class Visitor>
  void Visit(int64_t begin, int64_t end, const Visitor& visit) const {
    auto i = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) -
                                 ends_.begin());
    for (int64_t at = begin; at < std::min(end, num_elements_); ++i) {
      const int64_t first = ends_[i] - operands_[i].folded->num_elements();
      const int64_t n = std::min(end, ends_[i]) - at;
      if (n > 0) visit(operands_[i], at - first, at - begin, n);
      at += n;
    }
  }

 private:
  const std::span<const ReplicaOrderOperand> operands_;
  std::vector<int64_t> ends_;  // of each operand, in elements of the run
  int64_t num_elements_ = 0;
};

size_t BytesOf(int64_t elements, DType dtype) {
  return static_cast<size_t>(elements) * ItemSize(dtype);
}

class RunFold {
 public:
  RunFold(Communicator& communicator, ReduceOp op, const Run& run, size_t slice_bytes)
      : communicator_(communicator), op_(op), run_(run), dtype_(run.dtype()) {
    const size_t row = ItemSize(dtype_) * run.num_replicas() * Workers();
    const auto most = static_cast<int64_t>(std::max<size_t>(1, slice_bytes / row));
    const auto workers = static_cast<int64_t>(Workers());
    const int64_t elements = (run.num_elements() + workers - 1) / workers;
    const int64_t slices = (elements + most - 1) / most;
    part_ = slices == 0 ? 0 : (elements + slices - 1) / slices;
  }

  Status Fold(const CallOptions& call) {
    if (part_ == 0) return OkStatus();
    TUTTI_RETURN_IF_ERROR(MakeBuffers());
    const int64_t slice = part_ * communicator_.size();
    for (int64_t at = 0; at < run_.num_elements(); at += slice) {
      Collect(at);
      TUTTI_RETURN_IF_ERROR(communicator_.AllToAll(*sent_, call, received_.get()));
      TUTTI_RETURN_IF_ERROR(FoldPart());
      TUTTI_RETURN_IF_ERROR(communicator_.AllGatherInto(*own_, call, folded_.get()));
      run_.Visit(at, at + slice,
                 [this](const ReplicaOrderOperand& operand, int64_t first, int64_t before,
                        int64_t n) {
                   std::memcpy(At(operand.folded, first), At(folded_.get(), before),
                               BytesOf(n, dtype_));
                 });
    }
    return OkStatus();
  }

 private:
  size_t Workers() const { return static_cast<size_t>(communicator_.size()); }
  char* At(Tensor* tensor, int64_t element) const {
    return static_cast<char*>(tensor->mutable_data()) + BytesOf(element, dtype_);
  }

  Status MakeBuffers() {
    const Shape parts({communicator_.size(), static_cast<int64_t>(run_.num_replicas()), part_});
    TUTTI_ASSIGN_OR_RETURN(sent_, communicator_.CreateTensor(dtype_, parts));
    TUTTI_ASSIGN_OR_RETURN(received_, Tensor::Create(dtype_, parts));
    TUTTI_ASSIGN_OR_RETURN(
        folded_, communicator_.CreateTensor(dtype_, Shape({communicator_.size() * part_})));
    own_ = folded_->Slice(communicator_.rank() * part_, (communicator_.rank() + 1) * part_);
    return OkStatus();
  }

  // sent[worker][replica]: the elements of this replica that the worker folds. What is behind the
  // last element stays as it is: it is folded and thrown away.
  void Collect(int64_t at) {
    const auto replicas = static_cast<int64_t>(run_.num_replicas());
    for (int64_t worker = 0; worker < communicator_.size(); ++worker) {
      const int64_t begin = at + worker * part_;
      run_.Visit(begin, begin + part_,
                 [&](const ReplicaOrderOperand& operand, int64_t first, int64_t before,
                     int64_t n) {
                   for (int64_t r = 0; r < replicas; ++r) {
                     const Tensor& tensor = *operand.replicas[static_cast<size_t>(r)];
                     const char* from = static_cast<const char*>(tensor.data()) +
                                        BytesOf(first, tensor.dtype());
                     char* to = At(sent_.get(), (worker * replicas + r) * part_ + before);
                     if (tensor.dtype() == dtype_) {
                       std::memcpy(to, from, BytesOf(n, dtype_));
                     } else {
                       CastElements(tensor.dtype(), from, dtype_, to, n);
                     }
                   }
                 });
    }
  }

  // received[worker][replica] lie in the order of all replicas.
  Status FoldPart() {
    std::vector<const void*> inputs;
    const auto all = static_cast<int64_t>(Workers() * run_.num_replicas());
    inputs.reserve(static_cast<size_t>(all));
    for (int64_t replica = 0; replica < all; ++replica) {
      inputs.push_back(At(received_.get(), replica * part_));
    }
    return ReduceInto(op_, dtype_, inputs, part_, own_->mutable_data());
  }

  Communicator& communicator_;
  const ReduceOp op_;
  const Run& run_;
  const DType dtype_;
  int64_t part_ = 0;  // elements of a slice that one worker folds
  Ref<Tensor> sent_;
  Ref<Tensor> received_;
  Ref<Tensor> folded_;
  Ref<Tensor> own_;  // this worker's part of folded_
};

}  // namespace

Status FoldInReplicaOrder(Communicator& communicator, ReduceOp op,
                          std::span<const ReplicaOrderOperand> operands, size_t slice_bytes,
                          const CallOptions& call) {
  for (size_t first = 0; first < operands.size();) {
    size_t last = first + 1;
    while (last < operands.size() &&
           operands[last].folded->dtype() == operands[first].folded->dtype()) {
      ++last;
    }
    const Run run(operands.subspan(first, last - first));
    Status status = RunFold(communicator, op, run, slice_bytes).Fold(call);
    if (!status.ok()) {
      // The others must not wait for calls that do not come.
      communicator.Abort(status);
      return status;
    }
    first = last;
  }
  return OkStatus();
}

}  // namespace tutti
