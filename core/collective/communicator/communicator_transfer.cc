// Calls between two ranks: send and receive.

#include <cstdint>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/collective/communicator/call_arguments.h"
#include "core/collective/communicator/call_scope.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"

namespace tutti {
namespace {

Status CheckPeer(int64_t peer, int64_t rank, int64_t size) {
  if (peer < 0 || peer >= size) {
    return InvalidArgument("the peer is rank {}; pass a rank in [0, {})", peer, size);
  }
  if (peer == rank) {
    return InvalidArgument("the peer is this rank itself, which would wait for ever; copy the "
                           "tensor instead");
  }
  return OkStatus();
}

Status CheckSendArguments(const Tensor& tensor, int64_t to, int64_t rank, int64_t size) {
  TUTTI_RETURN_IF_ERROR(CheckPeer(to, rank, size));
  if (tensor.dtype() != DType::kBytes) return OkStatus();
  return InvalidArgument("a bytes tensor cannot be received in place; use gather or all_gather, "
                         "which make a new one");
}

Status CheckReceiveArguments(int64_t from, int64_t rank, int64_t size, const Tensor* tensor) {
  TUTTI_RETURN_IF_ERROR(CheckPeer(from, rank, size));
  if (tensor == nullptr) return InvalidArgument("the tensor is null");
  return CheckWritable(*tensor, "tensor");
}

}  // namespace

Status Communicator::Send(const Tensor& tensor, int64_t to, const CollectiveOptions& options) {
  CallScope scope(this, CollectiveOp::kSend);
  TUTTI_RETURN_IF_ERROR(scope.BeginTransfer(to, options));
  CollectiveMemory memory;
  Staging staging;
  Status status = CheckSendArguments(tensor, to, rank_, size_);
  if (status.ok()) status = scope.Stage(&tensor, nullptr, std::nullopt, &memory, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CallHeader& header = scope.call().header;
  header.num_tensors = 1;
  header.first = SignatureOf(tensor);
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  return scope.Run(static_cast<int64_t>(tensor.byte_size()));
}

Status Communicator::Receive(int64_t from, const CollectiveOptions& options, Tensor* tensor) {
  CallScope scope(this, CollectiveOp::kReceive);
  TUTTI_RETURN_IF_ERROR(scope.BeginTransfer(from, options));
  CollectiveMemory memory;
  Staging staging;
  Status status = CheckReceiveArguments(from, rank_, size_, tensor);
  if (status.ok()) status = scope.Stage(nullptr, tensor, std::nullopt, &memory, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CallHeader& header = scope.call().header;
  header.num_tensors = 1;
  header.first = SignatureOf(*tensor);
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(tensor->byte_size())));
  return scope.Unstage(staging, tensor);
}

Result<Ref<Future>> Communicator::SendAsync(const Tensor& tensor, int64_t to,
                                            const CollectiveOptions& options) {
  return Issue(CollectiveOp::kSend, to, options, CheckSendArguments(tensor, to, rank_, size_),
               [this, to, tensor = Ref<const Tensor>::Retain(&tensor)](
                   const CollectiveOptions& call, Ref<Value>*) { return Send(*tensor, to, call); });
}

Result<Ref<Future>> Communicator::ReceiveAsync(int64_t from, const CollectiveOptions& options,
                                               Tensor* tensor) {
  return Issue(CollectiveOp::kReceive, from, options,
               CheckReceiveArguments(from, rank_, size_, tensor),
               [this, from, tensor = Ref<Tensor>::Retain(tensor)](
                   const CollectiveOptions& call, Ref<Value>*) {
                 return Receive(from, call, tensor.get());
               });
}

}  // namespace tutti
