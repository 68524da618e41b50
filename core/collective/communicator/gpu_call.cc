// Calls of tensors on GPUs: what a CallScope does with them before and after the transport.
//
// A transport that reaches the GPUs itself gets the tensors (CollectiveCall::on_gpu), unless NCCL
// was asked for and all ranks have it. Elsewhere they go by NCCL where all ranks have it (GpuRanks)
// and nobody asked for RING; what it does not fold, or not in the order of the ranks, the kernels
// fold between its transfers. For all others they are copied to pinned memory of the host, which is
// what the transport then gets, and the results are copied back: the same bits as of tensors of the
// host. All ranks of a call have theirs on GPUs, or all on the host; the header says which, so that
// ranks that differ are told so. A transfer is one of two ranks, which may (gpu_transfer.cc).

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/collective/call/call_header.h"
#include "core/collective/communicator/call_scope.h"
#include "core/collective/communicator/gpu_ranks.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/device_buffer.h"

namespace tutti {

Status Communicator::CallScope::Place(const Tensor& tensor) {
  if (!placed_) {
    placed_ = Ref<const Tensor>::Retain(&tensor);
    if (tensor.device().is_cpu()) return CheckStream();
    gpu_ = StreamOf(tensor);
    // It lies on a device that is neither a CPU nor a GPU of the plugin.
    if (gpu_ == nullptr) return CheckOnHost(CollectiveOpName(op_), tensor);
    if (peer_ < 0) call().header.gpu_op = op_;
    TUTTI_RETURN_IF_ERROR(CheckStream());
    return StartBehindStream(tensor);
  }
  if (tensor.device() == placed_->device()) return StartBehindStream(tensor);
  // Logical CPUs are one host, and logical GPUs of one device have its memory.
  if (tensor.device().is_cpu() && placed_->device().is_cpu()) return OkStatus();
  const GpuStream* const stream = StreamOf(tensor);
  if (gpu_ != nullptr && stream != nullptr && stream->place().ordinal == gpu_->place().ordinal) {
    return StartBehindStream(tensor);
  }
  return InvalidArgument(
             "the tensor {} lies on {}, and the tensor {} of the same call on {}; the tensors of a "
             "rank's call lie on one device (copy_to)",
             tensor.SpecString(), tensor.device().ToString(), placed_->SpecString(),
             placed_->device().ToString())
      .With("device", tensor.device().ToString());
}

GpuWait Communicator::CallScope::WaitForGpu() {
  if (!failure_) failure_ = [self = self_] { return self->transport_->failure(); };
  return GpuWait{options_, &self_->environment().clock(), &failure_};
}

Result<Ref<Tensor>> Communicator::CallScope::CreatePinned(const Tensor& like) {
  const Ref<PinnedAllocator> pinned = MakeRef<PinnedAllocator>(gpu_->place());
  TensorOptions options;
  options.zeroed = false;
  options.allocator = pinned.get();
  return Tensor::Create(like.dtype(), like.shape(), options);
}

Status Communicator::CallScope::Stage(const Tensor* input, Tensor* output,
                                      std::optional<ptrdiff_t> in_place, CollectiveMemory* memory,
                                      Staging* staging) {
  if (input != nullptr) TUTTI_RETURN_IF_ERROR(Place(*input));
  if (output != nullptr) TUTTI_RETURN_IF_ERROR(Place(*output));
  if (gpu_ == nullptr) return tutti::Stage(input, output, in_place, memory, staging);
  if (route_ == GpuRoute::kUndecided) TUTTI_RETURN_IF_ERROR(ChooseRoute());
  if (route_ != GpuRoute::kStaged) {
    on_gpu_.push_back({input, output});
    return OkStatus();
  }
  TellOfStaging();
  if (input != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> pinned, CreatePinned(*input));
    TUTTI_RETURN_IF_ERROR(CopyAnywhere(*input, pinned.get(), WaitForGpu()));
    staging->input = pinned;
    memory->input = pinned->data();
  }
  if (output != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(staging->output, CreatePinned(*output));
    memory->output = staging->output->mutable_data();
  }
  return OkStatus();
}

Status Communicator::CallScope::StageGathered(const Tensor& input, Staging* staging) {
  if (input.device().is_cpu()) return Place(input);
  CollectiveMemory unused;
  return Stage(&input, nullptr, std::nullopt, &unused, staging);
}

Status Communicator::CallScope::Unstage(const Staging& staging, Tensor* output) {
  if (gpu_ == nullptr) return tutti::Unstage(staging, output);
  return staging.output ? CopyAnywhere(*staging.output, output, WaitForGpu()) : OkStatus();
}

Status Communicator::CallScope::TakeGathered(Ref<Tensor>* output) {
  *output = std::move(call().gathered);
  if (gpu_ == nullptr || !(*output)->device().is_cpu()) return OkStatus();
  const Ref<GpuMemory> memory = MakeRef<GpuMemory>(gpu_->place());
  TUTTI_ASSIGN_OR_RETURN(*output,
                         CopyToGpu(**output, *memory,
                                   Ref<GpuStream>::Retain(const_cast<GpuStream*>(gpu_)),
                                   WaitForGpu()));
  return OkStatus();
}

void Communicator::CallScope::WillReduce(ReduceOp op, DType dtype) {
  call().header.reduction = op;
  nccl_reduces_ = nccl_reduces_ && NcclReduces(op, dtype);
}

Status Communicator::CallScope::ChooseRoute() {
  const bool takes = self_->transport_->TakesGpuTensors(op_, *placed_);
  route_ = takes ? GpuRoute::kDirect : GpuRoute::kStaged;
  const CommunicationImplementation asked = options_->hints.implementation;
  const bool wanted = asked == CommunicationImplementation::kNccl ||
                      (asked != CommunicationImplementation::kRing && !takes);
  if (!wanted) return OkStatus();
  // From GPU to GPU of a process it is one copy, whatever was asked for.
  if (peer_ >= 0 && takes) return OkStatus();
  if (peer_ >= 0) {
    // The others are not asked. Two ranks that have decided against it both stage.
    const GpuRanks& pair = RanksOfPair();
    if (pair.is_decided() && !pair.is_chosen()) return OkStatus();
    if (pair.is_decided()) TUTTI_RETURN_IF_ERROR(pair.CheckPlace(gpu_->place()));
    route_ = GpuRoute::kNccl;
    return OkStatus();
  }
  if (!self_->gpu_ranks_) {
    self_->gpu_ranks_ = std::make_unique<GpuRanks>(self_->rank_, self_->size_);
  }
  GpuRanks& ranks = *self_->gpu_ranks_;
  if (!ranks.is_decided()) {
    TUTTI_RETURN_IF_ERROR(ranks.Decide(
        gpu_->place(), self_->transport_->gpu_settings(),
        [this](std::string mine) { return Exchange(std::move(mine)); }, WaitForGpu()));
  }
  const bool folds = op_ == CollectiveOp::kAllReduce || op_ == CollectiveOp::kReduce ||
                     op_ == CollectiveOp::kReduceScatter;
  in_rank_order_ = folds && (!nccl_reduces_ || self_->transport_->is_reproducible());
  if (!ranks.is_chosen() || (in_rank_order_ && !ranks.folds_in_rank_order())) return OkStatus();
  TUTTI_RETURN_IF_ERROR(ranks.CheckPlace(gpu_->place()));
  route_ = GpuRoute::kNccl;
  return OkStatus();
}

std::string Communicator::CallScope::WhyNoNccl() const {
  if (gpu_ == nullptr) return "it reduces between GPUs, and these tensors lie on the host";
  if (options_->hints.implementation == CommunicationImplementation::kRing) {
    return "RING was asked for";
  }
  if (peer_ >= 0 && route_ == GpuRoute::kDirect) {
    return "between ranks of one process it is a copy";
  }
  const GpuRanks* ranks = self_->gpu_ranks_.get();
  if (peer_ >= 0) {
    const auto pair = self_->gpu_pairs_.find(peer_);
    ranks = pair == self_->gpu_pairs_.end() ? nullptr : pair->second.get();
    if (ranks == nullptr || !ranks->is_decided() || ranks->is_chosen()) {
      return Format("rank {} has its tensor on the host", peer_);
    }
  }
  if (ranks == nullptr || !ranks->is_decided()) return "it was not asked for";
  if (!ranks->is_chosen()) return ranks->why_not();
  if (!nccl_reduces_) {
    return Format("it has no {} of {}, and not all GPUs have kernels for it",
                  ReduceOpName(call_->header.reduction), DTypeName(placed_->dtype()));
  }
  return "the job is reproducible, NCCL folds in an order of its own, and not all GPUs have "
         "kernels that fold in the order of the ranks";
}

Status Communicator::CallScope::ExecuteInItsPlace(CollectiveCall* call) {
  if (exchanged_) NextSequence();
  exchanged_ = true;
  call->header.gpu_op = op_;
  call->header.hints = options_->hints;
  call->sequence = sequence_;
  call->options = *options_;
  call->account = &self_->environment().memory();
  return self_->transport_->Execute(call);
}

// A barrier: transports compare the headers of all calls, and this one has nothing else.
Status Communicator::CallScope::Compare(const CallHeader& mine) {
  CollectiveCall compared;
  compared.header = mine;
  compared.header.op = CollectiveOp::kBarrier;
  return ExecuteInItsPlace(&compared);
}

Result<std::vector<std::string>> Communicator::CallScope::Exchange(std::string mine) {
  if (self_->size_ == 1) return std::vector<std::string>{std::move(mine)};
  const BytesView view{mine.data(), mine.size()};
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> own, Tensor::FromStrings(Shape({1}), {&view, 1}));
  CollectiveCall exchange;
  exchange.header.op = CollectiveOp::kAllGather;
  exchange.header.uneven = true;
  exchange.header.num_tensors = 1;
  exchange.header.first = SignatureOf(*own);
  exchange.gather_input = own.get();
  TUTTI_RETURN_IF_ERROR(ExecuteInItsPlace(&exchange));
  std::vector<std::string> all;
  for (const BytesView& each : exchange.gathered->span<BytesView>()) {
    all.emplace_back(each.data, each.size);
  }
  if (all.size() == static_cast<size_t>(self_->size_)) return all;
  return Internal("{} of {} ranks told what they have", all.size(), self_->size_);
}

void Communicator::CallScope::NextSequence() {
  sequence_ = self_->sequence_.load(std::memory_order_relaxed) + 1;
  if (!queued_) {
    self_->sequence_.store(sequence_, std::memory_order_relaxed);
  } else {
    const std::lock_guard<std::mutex> lock(self_->issue_mutex_);
    self_->sequence_.store(sequence_, std::memory_order_relaxed);
  }
  call().sequence = sequence_;
}

Status Communicator::CallScope::RunByNccl() {
  CollectiveCall& call = this->call();
  if (std::exchange(exchanged_, false)) NextSequence();
  const CallLabel label{sequence_, self_->epoch_, &self_->group_name_};
  const auto exchange = [this](std::string mine) { return Exchange(std::move(mine)); };
  const auto compare = [this](const CallHeader& mine) { return Compare(mine); };
  Result<GpuRanks::Agreement> agreed = self_->gpu_ranks_->Agree(call, label, compare, exchange);
  Status status = agreed.status();
  if (status.ok()) {
    agreed->in_rank_order = in_rank_order_;
    status = self_->gpu_ranks_->Run(&call, *agreed, WaitForGpu());
  }
  if (status.ok()) return status;
  if (status.FindDetail("op") == nullptr) {
    status = std::move(status).WithPrefix(
        Format("rank {}: {} #{}", self_->rank_, CollectiveOpName(op_), sequence_));
  }
  status = self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label));
  // After the epoch: those of this process that have lost it, too, are aborted in one group.
  self_->gpu_ranks_->Abort();
  return status;
}

// Once for each communicator.
void Communicator::CallScope::TellOfStaging() const {
  constexpr uint32_t kBit = uint32_t{1} << 31;
  // Ranks of one process share its log.
  const bool in_process = self_->transport_->name() == std::string_view("in_process");
  if (in_process && self_->rank_ != 0 && peer_ < 0) return;
  if ((self_->told_of_.fetch_or(kBit, std::memory_order_relaxed) & kBit) != 0) return;
  self_->environment().log().Warning(Format(
      "communicator {}, rank {}: {} of tensors on {} goes through pinned memory of the host, to "
      "the same results: NCCL is not used: {}",
      self_->group_name_, self_->rank_, CollectiveOpName(op_), placed_->device().ToString(),
      WhyNoNccl()));
}

}  // namespace tutti
