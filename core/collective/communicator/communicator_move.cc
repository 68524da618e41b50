// Calls that move elements between all ranks as they are: broadcast, scatter, gathers, all_to_all.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/communicator/call_arguments.h"
#include "core/collective/communicator/call_scope.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

Status CheckBroadcastArguments(int64_t root, int64_t rank, int64_t size, const Tensor* tensor) {
  if (tensor == nullptr) return InvalidArgument("the tensor is null");
  TUTTI_RETURN_IF_ERROR(CheckRoot(root, size));
  if (tensor->dtype() == DType::kBytes) {
    return InvalidArgument(
        "a bytes tensor cannot be written in place; use all_gather, which makes a new one");
  }
  if (rank != root && tensor->read_only()) {
    return FailedPrecondition("the tensor {} is read-only; only the root's may be",
                              tensor->SpecString());
  }
  return OkStatus();
}

Status CheckGatherArguments(const Tensor& input, int64_t root, int64_t size, size_t axis) {
  TUTTI_RETURN_IF_ERROR(CheckRoot(root, size));
  return CheckAxis(input, axis);
}

Status CheckAllGatherIntoArguments(const Tensor& input, int64_t size, const Tensor* output) {
  TUTTI_RETURN_IF_ERROR(CheckGiven(output, "output"));
  TUTTI_RETURN_IF_ERROR(CheckWritable(*output, "output"));
  if (input.rank() == 0) {
    return InvalidArgument("the input {} has no rows to join; give a tensor with an axis",
                           input.SpecString());
  }
  return CheckShare(input, *output, size, /*share_is_output=*/false);
}

Status CheckAllToAllArguments(const Tensor& input, int64_t size, const Tensor* output) {
  TUTTI_RETURN_IF_ERROR(CheckEqualShares(input, "input", size, ", or use an uneven all_to_all"));
  TUTTI_RETURN_IF_ERROR(CheckGiven(output, "output"));
  TUTTI_RETURN_IF_ERROR(CheckSameSpec(input, *output));
  return CheckWritable(*output, "output");
}

Status CheckSendRows(const Tensor& input, int64_t size, std::span<const int64_t> send_rows) {
  if (input.dtype() == DType::kBytes) {
    return InvalidArgument("the input {} holds byte strings, which an uneven all_to_all cannot "
                           "send; use all_gather, or send their lengths and bytes",
                           input.SpecString());
  }
  if (input.rank() == 0) {
    return InvalidArgument("the input {} has no rows to send; give a tensor with an axis",
                           input.SpecString());
  }
  if (static_cast<int64_t>(send_rows.size()) != size) {
    return InvalidArgument("got {} row counts for {} ranks; pass one per rank", send_rows.size(),
                           size);
  }
  int64_t rows = 0;
  for (size_t peer = 0; peer < send_rows.size(); ++peer) {
    if (send_rows[peer] < 0 || send_rows[peer] > input.dim(0)) {
      return InvalidArgument("{} rows of the input {} go to rank {}; pass 0 to {}",
                             send_rows[peer], input.SpecString(), peer, input.dim(0))
          .With("index", peer);
    }
    if (__builtin_add_overflow(rows, send_rows[peer], &rows)) {
      return InvalidArgument("the row counts add up to more than there can be");
    }
  }
  if (rows == input.dim(0)) return OkStatus();
  return InvalidArgument(
      "the row counts add up to {}, the input {} has {} rows; they must be equal", rows,
      input.SpecString(), input.dim(0));
}

// What the root of a scatter has when a rank gets `output`, and whether it has it.
Result<TensorSignature> CheckScatterArguments(const Tensor* input, int64_t root, int64_t rank,
                                              int64_t size, const Tensor* output) {
  TUTTI_RETURN_IF_ERROR(CheckRoot(root, size));
  TUTTI_RETURN_IF_ERROR(CheckGiven(output, "output"));
  TUTTI_RETURN_IF_ERROR(CheckWritable(*output, "output"));
  if (rank == root) {
    TUTTI_RETURN_IF_ERROR(CheckGiven(input, "input"));
    TUTTI_RETURN_IF_ERROR(CheckEqualShares(*input, "input", size, ""));
    TUTTI_RETURN_IF_ERROR(CheckShare(*output, *input, size, /*share_is_output=*/true));
  } else if (output->rank() == 0) {
    return InvalidArgument("the output {} cannot hold rows; give a tensor with an axis",
                           output->SpecString());
  }
  TensorSignature whole = SignatureOf(*output);
  if (__builtin_mul_overflow(whole.dims[0], size, &whole.dims[0])) {
    return InvalidArgument("the output {} is more than a {}th of any tensor", output->SpecString(),
                           size);
  }
  TUTTI_RETURN_IF_ERROR(Shape::Create(whole.dims.data(), whole.dims.size()).status());
  return whole;
}

}  // namespace

Status Communicator::Broadcast(int64_t root, const CollectiveOptions& options, Tensor* tensor) {
  CallScope scope(this, CollectiveOp::kBroadcast);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  Status status = CheckBroadcastArguments(root, rank_, size_, tensor);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CollectiveMemory memory;
  Staging staging;
  status = rank_ == root ? scope.Stage(tensor, nullptr, std::nullopt, &memory, &staging)
                         : scope.Stage(nullptr, tensor, std::nullopt, &memory, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  if (memory.input == nullptr) memory.input = memory.output;
  CallHeader& header = scope.call().header;
  header.root = root;
  header.num_tensors = 1;
  header.first = SignatureOf(*tensor);
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(tensor->byte_size())));
  return scope.Unstage(staging, tensor);
}

Status Communicator::Scatter(const Tensor* input, int64_t root, const CollectiveOptions& options,
                             Tensor* output) {
  CallScope scope(this, CollectiveOp::kScatter);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  if (rank_ != root) input = nullptr;
  Result<TensorSignature> whole = CheckScatterArguments(input, root, rank_, size_, output);
  if (!whole.ok()) return scope.Refuse(std::move(whole).status());
  CollectiveMemory memory;
  Staging staging;
  const auto own_part = static_cast<ptrdiff_t>(output->byte_size()) * rank_;
  Status status = scope.Stage(input, output, own_part, &memory, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CallHeader& header = scope.call().header;
  header.root = root;
  header.num_tensors = 1;
  header.first = std::move(whole).value();
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(output->byte_size()) * size_));
  return scope.Unstage(staging, output);
}

Status Communicator::AllGather(const Tensor& input, size_t axis, const CollectiveOptions& options,
                               Ref<Tensor>* output) {
  CallScope scope(this, CollectiveOp::kAllGather);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  Status status = CheckAxis(input, axis);
  Staging staging;
  if (status.ok()) status = scope.StageGathered(input, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CollectiveCall& call = scope.call();
  call.header.axis = static_cast<int64_t>(axis);
  call.header.uneven = true;
  call.header.num_tensors = 1;
  call.header.first = SignatureOf(input);
  call.gather_input = staging.input ? staging.input.get() : &input;
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  return scope.TakeGathered(output);
}

Status Communicator::AllGatherInto(const Tensor& input, const CollectiveOptions& options,
                                   Tensor* output) {
  CallScope scope(this, CollectiveOp::kAllGather);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  CollectiveMemory memory;
  Staging staging;
  Status status = CheckAllGatherIntoArguments(input, size_, output);
  if (status.ok()) {
    const auto own_part = static_cast<ptrdiff_t>(input.byte_size()) * rank_;
    status = scope.Stage(&input, output, -own_part, &memory, &staging);
  }
  if (!status.ok()) return scope.Refuse(std::move(status));
  CallHeader& header = scope.call().header;
  header.num_tensors = 1;
  header.first = SignatureOf(input);
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  return scope.Unstage(staging, output);
}

Status Communicator::Gather(const Tensor& input, int64_t root, size_t axis,
                            const CollectiveOptions& options, Ref<Tensor>* output) {
  CallScope scope(this, CollectiveOp::kGather);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  Status status = CheckGatherArguments(input, root, size_, axis);
  if (status.ok() && rank_ == root && output == nullptr) {
    status = InvalidArgument("the root has no place for the result; only the others may pass null");
  }
  Staging staging;
  if (status.ok()) status = scope.StageGathered(input, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CollectiveCall& call = scope.call();
  call.header.root = root;
  call.header.axis = static_cast<int64_t>(axis);
  call.header.uneven = true;
  call.header.num_tensors = 1;
  call.header.first = SignatureOf(input);
  call.gather_input = staging.input ? staging.input.get() : &input;
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  return rank_ == root ? scope.TakeGathered(output) : OkStatus();
}

Status Communicator::AllToAll(const Tensor& input, const CollectiveOptions& options,
                              Tensor* output) {
  CallScope scope(this, CollectiveOp::kAllToAll);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  CollectiveMemory memory;
  Staging staging;
  Status status = CheckAllToAllArguments(input, size_, output);
  if (status.ok()) status = scope.Stage(&input, output, std::nullopt, &memory, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CallHeader& header = scope.call().header;
  header.num_tensors = 1;
  header.first = SignatureOf(input);
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  return scope.Unstage(staging, output);
}

Status Communicator::AllToAllUneven(const Tensor& input, std::span<const int64_t> send_rows,
                                    const CollectiveOptions& options, Ref<Tensor>* output,
                                    std::vector<int64_t>* received_rows) {
  CallScope scope(this, CollectiveOp::kAllToAll);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  CollectiveMemory memory;
  Staging staging;
  Status status = CheckSendRows(input, size_, send_rows);
  if (status.ok()) status = scope.Stage(&input, nullptr, std::nullopt, &memory, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CollectiveCall& call = scope.call();
  call.header.uneven = true;
  call.header.num_tensors = 1;
  call.header.first = SignatureOf(input);
  call.memory = std::span<const CollectiveMemory>(&memory, 1);
  call.send_rows = send_rows;
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  if (received_rows != nullptr) *received_rows = std::move(call.received_rows);
  return scope.TakeGathered(output);
}

Result<Ref<Future>> Communicator::BroadcastAsync(int64_t root, const CollectiveOptions& options,
                                                 Tensor* tensor) {
  return Issue(CollectiveOp::kBroadcast, -1, options,
               CheckBroadcastArguments(root, rank_, size_, tensor),
               [this, root, tensor = Ref<Tensor>::Retain(tensor)](
                   const CollectiveOptions& call, Ref<Value>*) {
                 return Broadcast(root, call, tensor.get());
               });
}

Result<Ref<Future>> Communicator::ScatterAsync(const Tensor* input, int64_t root,
                                               const CollectiveOptions& options, Tensor* output) {
  if (rank_ != root) input = nullptr;
  return Issue(CollectiveOp::kScatter, -1, options,
               CheckScatterArguments(input, root, rank_, size_, output).status(),
               [this, root, input = Ref<const Tensor>::Retain(input),
                output = Ref<Tensor>::Retain(output)](const CollectiveOptions& call, Ref<Value>*) {
                 return Scatter(input.get(), root, call, output.get());
               });
}

Result<Ref<Future>> Communicator::AllGatherAsync(const Tensor& input, size_t axis,
                                                 const CollectiveOptions& options) {
  return Issue(CollectiveOp::kAllGather, -1, options, CheckAxis(input, axis),
               [this, axis, input = Ref<const Tensor>::Retain(&input)](
                   const CollectiveOptions& call, Ref<Value>* value) -> Status {
                 Ref<Tensor> joined;
                 TUTTI_RETURN_IF_ERROR(AllGather(*input, axis, call, &joined));
                 *value = Value::OfTensor(std::move(joined));
                 return OkStatus();
               });
}

Result<Ref<Future>> Communicator::AllGatherIntoAsync(const Tensor& input,
                                                     const CollectiveOptions& options,
                                                     Tensor* output) {
  return Issue(CollectiveOp::kAllGather, -1, options,
               CheckAllGatherIntoArguments(input, size_, output),
               [this, input = Ref<const Tensor>::Retain(&input),
                output = Ref<Tensor>::Retain(output)](const CollectiveOptions& call, Ref<Value>*) {
                 return AllGatherInto(*input, call, output.get());
               });
}

Result<Ref<Future>> Communicator::GatherAsync(const Tensor& input, int64_t root, size_t axis,
                                              const CollectiveOptions& options) {
  return Issue(CollectiveOp::kGather, -1, options, CheckGatherArguments(input, root, size_, axis),
               [this, root, axis, input = Ref<const Tensor>::Retain(&input)](
                   const CollectiveOptions& call, Ref<Value>* value) -> Status {
                 Ref<Tensor> joined;
                 TUTTI_RETURN_IF_ERROR(Gather(*input, root, axis, call, &joined));
                 if (joined) *value = Value::OfTensor(std::move(joined));
                 return OkStatus();
               });
}

Result<Ref<Future>> Communicator::AllToAllAsync(const Tensor& input,
                                                const CollectiveOptions& options, Tensor* output) {
  return Issue(CollectiveOp::kAllToAll, -1, options, CheckAllToAllArguments(input, size_, output),
               [this, input = Ref<const Tensor>::Retain(&input),
                output = Ref<Tensor>::Retain(output)](const CollectiveOptions& call, Ref<Value>*) {
                 return AllToAll(*input, call, output.get());
               });
}

}  // namespace tutti
