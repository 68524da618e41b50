// Calls that fold: all_reduce, reduce, reduce_scatter.

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/communicator/call_arguments.h"
#include "core/collective/communicator/call_scope.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/collective/communicator/packing.h"

namespace tutti {
namespace {

Status CheckAllReduceArgument(const Tensor* input, ReduceOp op, const Tensor* output) {
  TUTTI_RETURN_IF_ERROR(CheckGiven(input, "input"));
  TUTTI_RETURN_IF_ERROR(CheckGiven(output, "output"));
  TUTTI_RETURN_IF_ERROR(CheckReducible(op, input->dtype()));
  TUTTI_RETURN_IF_ERROR(CheckSameSpec(*input, *output));
  return CheckWritable(*output, "output");
}

Status CheckCount(size_t num_inputs, size_t num_outputs) {
  if (num_inputs == num_outputs) return OkStatus();
  return InvalidArgument("got {} inputs and {} outputs; pass one output per input", num_inputs,
                         num_outputs);
}

// What is said of one tensor of several.
Status OfTensor(size_t i, size_t count, Status status) {
  if (status.ok() || count == 1) return status;
  return std::move(status).WithPrefix(Format("tensor {}", i)).With("index", i);
}

Status CheckReduceArguments(const Tensor& input, ReduceOp op, int64_t root, int64_t rank,
                            int64_t size, const Tensor* output) {
  TUTTI_RETURN_IF_ERROR(CheckRoot(root, size));
  return rank == root ? CheckAllReduceArgument(&input, op, output)
                      : CheckReducible(op, input.dtype());
}

Status CheckReduceScatterArguments(const Tensor& input, ReduceOp op, int64_t size,
                                   const Tensor* output) {
  TUTTI_RETURN_IF_ERROR(CheckReducible(op, input.dtype()));
  TUTTI_RETURN_IF_ERROR(CheckEqualShares(input, "input", size, ", or use all_reduce"));
  TUTTI_RETURN_IF_ERROR(CheckGiven(output, "output"));
  TUTTI_RETURN_IF_ERROR(CheckShare(*output, input, size, /*share_is_output=*/true));
  return CheckWritable(*output, "output");
}

}  // namespace

Status Communicator::AllReduce(const Tensor& input, ReduceOp op, const CollectiveOptions& options,
                               Tensor* output) {
  CallScope scope(this, CollectiveOp::kAllReduce);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  const bool hinted = options.hints.any();
  KnownCalls::Entry* const known =
      output != nullptr && !hinted && input.device().is_cpu() && output->device().is_cpu()
          ? known_calls_->Find(input, op, *output)
          : nullptr;
  if (known != nullptr) return scope.RunKnown(known, input.data(), output->mutable_data());
  const Tensor* inputs[] = {&input};
  Tensor* outputs[] = {output};
  TUTTI_RETURN_IF_ERROR(AllReduceIn(&scope, inputs, op, outputs));
  if (!hinted && !scope.is_on_gpu()) {
    known_calls_->Learn(flight_subject_, input, scope.call().header);
  }
  return OkStatus();
}

Status Communicator::AllReduce(std::span<const Tensor* const> inputs, ReduceOp op,
                               const CollectiveOptions& options, std::span<Tensor* const> outputs) {
  if (options.hints.bytes_per_pack == 0) return AllReduceTogether(inputs, op, options, outputs);
  return AllReduceInPacks(*this, inputs, op, 0, options, outputs);
}

Status Communicator::AllReduceTogether(std::span<const Tensor* const> inputs, ReduceOp op,
                                       const CollectiveOptions& options,
                                       std::span<Tensor* const> outputs) {
  CallScope scope(this, CollectiveOp::kAllReduce);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  return AllReduceIn(&scope, inputs, op, outputs);
}

Status Communicator::AllReduceIn(CallScope* begun, std::span<const Tensor* const> inputs,
                                 ReduceOp op, std::span<Tensor* const> outputs) {
  CallScope& scope = *begun;
  const size_t count = inputs.size();
  Status counts = CheckCount(count, outputs.size());
  if (!counts.ok()) return scope.Refuse(std::move(counts));
  CallHeader& header = scope.call().header;
  header.reduction = op;
  header.num_tensors = count;
  if (count > 1) header.rest.resize(count - 1);
  CollectiveMemory one;
  std::vector<CollectiveMemory> many(count > 1 ? count : 0);
  const std::span<CollectiveMemory> memory =
      count > 1 ? std::span<CollectiveMemory>(many) : std::span<CollectiveMemory>(&one, count);
  // Of tensors that the transport could not use as they are: of most lists none.
  struct Staged {
    size_t tensor;
    Staging staging;
  };
  std::vector<Staged> staged;
  for (const Tensor* const input : inputs) {
    if (input != nullptr) scope.WillReduce(op, input->dtype());
  }

  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    Status status = CheckAllReduceArgument(inputs[i], op, outputs[i]);
    Staging staging;
    if (status.ok()) status = scope.Stage(inputs[i], outputs[i], 0, &memory[i], &staging);
    if (!status.ok()) return scope.Refuse(OfTensor(i, count, std::move(status)));
    if (staging.input || staging.output) staged.push_back({i, std::move(staging)});
    (i == 0 ? header.first : header.rest[i - 1]) = SignatureOf(*inputs[i]);
    bytes += inputs[i]->byte_size();
  }
  scope.call().memory = memory;
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(bytes)));
  for (const Staged& each : staged) {
    TUTTI_RETURN_IF_ERROR(scope.Unstage(each.staging, outputs[each.tensor]));
  }
  return OkStatus();
}

Status Communicator::Reduce(const Tensor& input, ReduceOp op, int64_t root,
                            const CollectiveOptions& options, Tensor* output) {
  CallScope scope(this, CollectiveOp::kReduce);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  if (rank_ != root) output = nullptr;
  CollectiveMemory memory;
  Staging staging;
  scope.WillReduce(op, input.dtype());
  Status status = CheckReduceArguments(input, op, root, rank_, size_, output);
  if (status.ok()) status = scope.Stage(&input, output, 0, &memory, &staging);
  if (!status.ok()) return scope.Refuse(std::move(status));
  CallHeader& header = scope.call().header;
  header.reduction = op;
  header.root = root;
  header.num_tensors = 1;
  header.first = SignatureOf(input);
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  return scope.Unstage(staging, output);
}

Status Communicator::ReduceScatter(const Tensor& input, ReduceOp op,
                                   const CollectiveOptions& options, Tensor* output) {
  CallScope scope(this, CollectiveOp::kReduceScatter);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  CollectiveMemory memory;
  Staging staging;
  scope.WillReduce(op, input.dtype());
  Status status = CheckReduceScatterArguments(input, op, size_, output);
  if (status.ok()) {
    const auto own_part = static_cast<ptrdiff_t>(output->byte_size()) * rank_;
    status = scope.Stage(&input, output, own_part, &memory, &staging);
  }
  if (!status.ok()) return scope.Refuse(std::move(status));
  CallHeader& header = scope.call().header;
  header.reduction = op;
  header.num_tensors = 1;
  header.first = SignatureOf(input);
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  return scope.Unstage(staging, output);
}

Result<Ref<Future>> Communicator::AllReduceAsync(const Tensor& input, ReduceOp op,
                                                 const CollectiveOptions& options, Tensor* output) {
  return Issue(CollectiveOp::kAllReduce, -1, options, CheckAllReduceArgument(&input, op, output),
               [this, op, input = Ref<const Tensor>::Retain(&input),
                output = Ref<Tensor>::Retain(output)](const CollectiveOptions& call, Ref<Value>*) {
                 return AllReduce(*input, op, call, output.get());
               });
}

Result<Ref<Future>> Communicator::AllReduceAsync(std::span<const Tensor* const> inputs,
                                                 ReduceOp op, const CollectiveOptions& options,
                                                 std::span<Tensor* const> outputs) {
  const size_t count = inputs.size();
  Status arguments = CheckCount(count, outputs.size());
  std::vector<Ref<const Tensor>> held;
  for (size_t i = 0; i < count && arguments.ok(); ++i) {
    arguments = OfTensor(i, count, CheckAllReduceArgument(inputs[i], op, outputs[i]));
    held.push_back(Ref<const Tensor>::Retain(inputs[i]));
    held.push_back(Ref<const Tensor>::Retain(outputs[i]));
  }
  if (arguments.ok() && options.hints.bytes_per_pack > 0) {
    const std::vector<Pack> packs = PackTensors(inputs, options.hints.bytes_per_pack);
    if (packs.size() > 1) return IssuePacks(packs, inputs, op, options, outputs);
  }
  return Issue(CollectiveOp::kAllReduce, -1, options, std::move(arguments),
               [this, op, held = std::move(held), given = std::vector(inputs.begin(), inputs.end()),
                wanted = std::vector(outputs.begin(), outputs.end())](
                   const CollectiveOptions& call, Ref<Value>*) {
                 return AllReduceTogether(given, op, call, wanted);
               });
}

// Every pack is a list of its own, which is one pack.
Result<Ref<Future>> Communicator::IssuePacks(std::span<const Pack> packs,
                                             std::span<const Tensor* const> inputs, ReduceOp op,
                                             const CollectiveOptions& options,
                                             std::span<Tensor* const> outputs) {
  Ref<Future> last;
  for (const Pack& pack : packs) {
    const size_t count = pack.last - pack.first;
    TUTTI_ASSIGN_OR_RETURN(last, AllReduceAsync(inputs.subspan(pack.first, count), op, options,
                                                outputs.subspan(pack.first, count)));
  }
  return last;
}

Result<Ref<Future>> Communicator::ReduceAsync(const Tensor& input, ReduceOp op, int64_t root,
                                              const CollectiveOptions& options, Tensor* output) {
  if (rank_ != root) output = nullptr;
  return Issue(CollectiveOp::kReduce, -1, options,
               CheckReduceArguments(input, op, root, rank_, size_, output),
               [this, op, root, input = Ref<const Tensor>::Retain(&input),
                output = Ref<Tensor>::Retain(output)](const CollectiveOptions& call, Ref<Value>*) {
                 return Reduce(*input, op, root, call, output.get());
               });
}

Result<Ref<Future>> Communicator::ReduceScatterAsync(const Tensor& input, ReduceOp op,
                                                     const CollectiveOptions& options,
                                                     Tensor* output) {
  return Issue(CollectiveOp::kReduceScatter, -1, options,
               CheckReduceScatterArguments(input, op, size_, output),
               [this, op, input = Ref<const Tensor>::Retain(&input),
                output = Ref<Tensor>::Retain(output)](const CollectiveOptions& call, Ref<Value>*) {
                 return ReduceScatter(*input, op, call, output.get());
               });
}

}  // namespace tutti
