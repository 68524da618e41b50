// For tests: one call of any operation with inputs that follow from a seed, and what every rank
// must have of it, computed by the definition from the inputs of all ranks.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_COLLECTIVE_REFERENCE_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_COLLECTIVE_REFERENCE_TESTING_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/error.h"
#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/collective/communicator/communicator.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/cast.h"
#include "core/tensor/concat.h"
#include "core/tensor/copy.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Where the tensors of a call lie: where the communicator makes them, elsewhere, or each on half of
// the ranks.
enum class ReferenceMemory { kOfCommunicator, kElsewhere, kMixed };

struct ReferenceCall {
  CollectiveOp op = CollectiveOp::kAllReduce;
  bool uneven = false;
  DType dtype = DType::kFloat32;
  ReduceOp reduction = ReduceOp::kSum;
  int64_t root = 0;
  int64_t rows = 1;  // of one share
  // How many rows all_reduce, reduce and broadcast have, which share nothing out; -1: a share for
  // every rank.
  int64_t whole_rows = -1;
  int64_t columns = 1;
  bool in_place = false;
  bool strided = false;
  bool shifted = false;  // tensors begin one element behind an aligned address
  ReferenceMemory memory = ReferenceMemory::kOfCommunicator;
  // Makes the tensors of a rank, in place of `memory`; on any device. Not with `shifted`.
  std::function<Ref<Tensor>(int64_t rank, DType dtype, const Shape& shape)> make = {};
  uint64_t seed = 1;

  std::string ToString() const {
    return std::string(CollectiveOpName(op)) + (uneven ? " uneven " : " ") +
           std::string(DTypeName(dtype)) + " " + std::string(ReduceOpName(reduction)) + " root " +
           std::to_string(root) + " rows " + std::to_string(rows) + " columns " +
           std::to_string(columns) + (in_place ? " in place" : "") +
           (whole_rows >= 0 ? " of " + std::to_string(whole_rows) + " in all" : "") +
           (strided ? " strided" : "") + (shifted ? " shifted" : "") +
           (memory == ReferenceMemory::kOfCommunicator ? ""
            : memory == ReferenceMemory::kMixed        ? " in mixed memory"
                                                       : " in other memory") +
           " seed " +
           std::to_string(seed);
  }
};

// [rows, columns] of a dtype, the same for the same seed; of a table with a column more when
// strided.
inline Ref<Tensor> RandomTensor(DType dtype, int64_t rows, int64_t columns, uint64_t seed,
                                bool strided = false) {
  uint64_t state = seed;
  const double least = IsUnsignedInteger(dtype) ? 0.0 : -2.0;
  Ref<Tensor> dense = Tensor::Create(DType::kFloat64, Shape({rows, columns})).value();
  for (double& number : dense->mutable_span<double>()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    number = least + static_cast<double>(state >> 40) * (4.0 / 0x1p24);
  }
  Ref<Tensor> cast = Cast(*dense, dtype).value();
  if (!strided) return Tensor::MakeMutable(std::move(cast)).value();
  Ref<Tensor> table = Tensor::Create(dtype, Shape({rows, columns + 1})).value();
  Ref<Tensor> part = table->SliceAxis(1, 0, columns).value();
  if (!CopyInto(*cast, part.get()).ok()) std::abort();
  return part;
}

// Inputs that many cases of a dtype share, with what reductions make of them: of large ones they
// cost more than the calls. A case takes rows of the same tensors, one per rank, from some row on.
class ReferenceInputs {
 public:
  ReferenceInputs(DType dtype, int64_t rows, int64_t ranks, uint64_t seed) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      tensors_.push_back(RandomTensor(dtype, rows, 1, seed * 31 + static_cast<uint64_t>(rank)));
    }
  }

  DType dtype() const { return tensors_[0]->dtype(); }
  Ref<Tensor> Input(int64_t rank, int64_t from, int64_t rows) const {
    return tensors_[static_cast<size_t>(rank)]->Slice(from, from + rows);
  }
  // Of the first `ranks` of them. What a reduction makes of all rows is kept until the next one.
  Ref<Tensor> Folded(ReduceOp reduction, int64_t ranks, int64_t from, int64_t rows) {
    if (!folded_ || reduction != reduction_ || ranks != ranks_) {
      std::vector<const Tensor*> inputs;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        inputs.push_back(tensors_[static_cast<size_t>(rank)].get());
      }
      folded_ = tutti::Reduce(reduction, inputs).value();
      reduction_ = reduction;
      ranks_ = ranks;
    }
    return folded_->Slice(from, from + rows);
  }

 private:
  std::vector<Ref<Tensor>> tensors_;
  Ref<Tensor> folded_;
  ReduceOp reduction_ = ReduceOp::kSum;  // what folded_ is of
  int64_t ranks_ = 0;
};

class ReferenceCase {
 public:
  ReferenceCase(const ReferenceCall& call, int64_t size) : call_(call), size_(size) {
    for (int64_t rank = 0; rank < size; ++rank) {
      inputs_.push_back(RandomTensor(call.dtype, InputRows(rank), call.columns,
                                     call.seed * 31 + static_cast<uint64_t>(rank)));
    }
    if (Reduces()) folded_ = Folded();
  }
  // Takes `inputs` from row `from` on, which are of the call's dtype and one column.
  ReferenceCase(const ReferenceCall& call, int64_t size, ReferenceInputs* inputs, int64_t from)
      : call_(call), size_(size) {
    for (int64_t rank = 0; rank < size; ++rank) {
      inputs_.push_back(inputs->Input(rank, from, InputRows(rank)));
    }
    if (Reduces()) folded_ = inputs->Folded(call.reduction, size, from, InputRows(0));
  }

  // Makes the call on `rank`; DATA_LOSS when its result is not the reference's.
  Status Run(int64_t rank, Communicator& communicator, const CallOptions& options) const {
    const bool in_place = call_.in_place;
    const bool elsewhere = call_.memory == ReferenceMemory::kElsewhere ||
                           (call_.memory == ReferenceMemory::kMixed && rank % 2 == 1);
    const Maker maker = [&](const Shape& shape) {
      return call_.make  ? call_.make(rank, call_.dtype, shape)
             : elsewhere ? Tensor::Create(call_.dtype, shape).value()
                         : communicator.CreateTensor(call_.dtype, shape).value();
    };
    const auto Output = [&](int64_t rows) { return MakeOutput(rows, maker); };
    Ref<Tensor> input = CopyOf(*inputs_[static_cast<size_t>(rank)], maker);
    const bool at_root = rank == call_.root;
    Ref<Tensor> output;
    switch (call_.op) {
      case CollectiveOp::kAllReduce:
        output = in_place ? input : Output(input->dim(0));
        TUTTI_RETURN_IF_ERROR(
            communicator.AllReduce(*input, call_.reduction, options, output.get()));
        return Check(*output, *folded_);
      case CollectiveOp::kReduce:
        output = !at_root ? nullptr : in_place ? input : Output(input->dim(0));
        TUTTI_RETURN_IF_ERROR(
            communicator.Reduce(*input, call_.reduction, call_.root, options, output.get()));
        return at_root ? Check(*output, *folded_) : Check(*input, *inputs_[rank]);
      case CollectiveOp::kReduceScatter:
        output = in_place ? Share(*input, rank) : Output(call_.rows);
        TUTTI_RETURN_IF_ERROR(
            communicator.ReduceScatter(*input, call_.reduction, options, output.get()));
        return Check(*output, *Share(*folded_, rank));
      case CollectiveOp::kBroadcast:
        TUTTI_RETURN_IF_ERROR(communicator.Broadcast(call_.root, options, input.get()));
        return Check(*input, *inputs_[call_.root]);
      case CollectiveOp::kScatter:
        output = in_place && at_root ? Share(*input, rank) : Output(call_.rows);
        TUTTI_RETURN_IF_ERROR(communicator.Scatter(at_root ? input.get() : nullptr, call_.root,
                                                   options, output.get()));
        return Check(*output, *Share(*inputs_[call_.root], rank));
      case CollectiveOp::kAllGather: {
        if (call_.uneven) {
          TUTTI_RETURN_IF_ERROR(communicator.AllGather(*input, 0, options, &output));
          return Check(*output, *Joined(inputs_));
        }
        output = Output(size_ * call_.rows);
        if (in_place) {
          TUTTI_RETURN_IF_ERROR(CopyAnywhere(*input, Share(*output, rank).get()));
          input = Share(*output, rank);
        }
        TUTTI_RETURN_IF_ERROR(communicator.AllGatherInto(*input, options, output.get()));
        return Check(*output, *Joined(inputs_));
      }
      case CollectiveOp::kGather:
        TUTTI_RETURN_IF_ERROR(communicator.Gather(*input, call_.root, 0, options,
                                                  at_root ? &output : nullptr));
        return at_root ? Check(*output, *Joined(inputs_)) : OkStatus();
      case CollectiveOp::kAllToAll: {
        std::vector<Ref<Tensor>> parts;
        std::vector<int64_t> counts;
        for (int64_t peer = 0; peer < size_; ++peer) {
          int64_t first = 0;
          for (int64_t r = 0; r < rank; ++r) first += SendRows(peer)[r];
          counts.push_back(SendRows(peer)[rank]);
          parts.push_back(inputs_[peer]->Slice(first, first + counts.back()));
        }
        if (!call_.uneven) {
          output = Output(input->dim(0));
          TUTTI_RETURN_IF_ERROR(communicator.AllToAll(*input, options, output.get()));
        } else {
          std::vector<int64_t> received;
          TUTTI_RETURN_IF_ERROR(communicator.AllToAllUneven(*input, SendRows(rank), options,
                                                            &output, &received));
          if (received != counts) return DataLoss("rank {}: other row counts", rank);
        }
        return Check(*output, *Joined(parts));
      }
      case CollectiveOp::kSend:  // what rank 0 has, from each rank to the next
        if (rank > 0) TUTTI_RETURN_IF_ERROR(communicator.Receive(rank - 1, options, input.get()));
        if (rank + 1 < size_) {
          TUTTI_RETURN_IF_ERROR(communicator.Send(*input, rank + 1, options));
        }
        return Check(*input, *inputs_[0]);
      default: return communicator.Barrier(options);
    }
  }

 private:
  using Maker = std::function<Ref<Tensor>(const Shape& shape)>;

  bool Reduces() const {
    return call_.op == CollectiveOp::kAllReduce || call_.op == CollectiveOp::kReduce ||
           call_.op == CollectiveOp::kReduceScatter;
  }
  // How many rows a rank sends to each.
  std::vector<int64_t> SendRows(int64_t rank) const {
    std::vector<int64_t> rows;
    for (int64_t peer = 0; peer < size_; ++peer) {
      rows.push_back(call_.uneven ? call_.rows * ((rank * 3 + peer * 5 + 1) % 4) / 2 : call_.rows);
    }
    return rows;
  }
  int64_t InputRows(int64_t rank) const {
    int64_t rows = 0;
    switch (call_.op) {
      case CollectiveOp::kAllGather:
      case CollectiveOp::kGather: return call_.uneven ? call_.rows * (rank % 3) : call_.rows;
      case CollectiveOp::kAllToAll:
        for (int64_t count : SendRows(rank)) rows += count;
        return rows;
      case CollectiveOp::kReduceScatter:
      case CollectiveOp::kScatter: return call_.rows * size_;
      default: return call_.whole_rows >= 0 ? call_.whole_rows : call_.rows * size_;
    }
  }
  // A tensor of its own, laid out as the call wants it.
  Ref<Tensor> MakeOutput(int64_t rows, const Maker& maker) const {
    const int64_t columns = call_.columns;
    if (call_.strided) {
      const Ref<Tensor> table = Filled(rows, columns + 1, maker);
      return table->SliceAxis(1, 0, columns).value();
    }
    if (!call_.shifted) return Filled(rows, columns, maker);
    const Ref<Tensor> row = Filled(1, rows * columns + 1, maker);
    return Tensor::View(static_cast<char*>(row->mutable_data()) + ItemSize(call_.dtype),
                        call_.dtype, Shape({rows, columns}), {}, false, row);
  }
  // With what no call leaves there.
  Ref<Tensor> Filled(int64_t rows, int64_t columns, const Maker& maker) const {
    Ref<Tensor> tensor = maker(Shape({rows, columns}));
    if (!tensor->device().is_cpu()) return tensor;
    const size_t bytes = static_cast<size_t>(rows * columns) * ItemSize(call_.dtype);
    if (bytes != 0) std::memset(tensor->mutable_data(), 1, bytes);
    return tensor;
  }
  Ref<Tensor> CopyOf(const Tensor& tensor, const Maker& maker) const {
    Ref<Tensor> copy = MakeOutput(tensor.dim(0), maker);
    if (!CopyAnywhere(tensor, copy.get()).ok()) std::abort();
    return copy;
  }
  Ref<Tensor> Share(const Tensor& whole, int64_t rank) const {
    return whole.Slice(rank * call_.rows, (rank + 1) * call_.rows);
  }
  Ref<Tensor> Folded() const {
    std::vector<const Tensor*> inputs;
    for (const Ref<Tensor>& input : inputs_) inputs.push_back(input.get());
    return tutti::Reduce(call_.reduction, inputs).value();
  }
  static Ref<Tensor> Joined(const std::vector<Ref<Tensor>>& parts) {
    std::vector<const Tensor*> pointers;
    for (const Ref<Tensor>& part : parts) pointers.push_back(part.get());
    return Concat(pointers, 0).value();
  }
  static Status Check(const Tensor& found, const Tensor& expected) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> here, OnHost(found));
    if (here->ContentsEqual(expected)) return OkStatus();
    return DataLoss("found {}, expected {}", here->ToString(), expected.ToString());
  }

  const ReferenceCall call_;
  const int64_t size_;
  std::vector<Ref<Tensor>> inputs_;
  Ref<Tensor> folded_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_COLLECTIVE_REFERENCE_TESTING_H_
