// A transfer between two ranks where tensors lie on GPUs. Each rank says in its header whether its
// tensor can go from GPU to GPU (CollectiveCall::make_room), and hears whether the peer's can:
//
//   the sender said  the receiver said
//   no               either             the bytes come with this call, to pinned memory of a GPU's
//   yes              yes                nothing has come; by NCCL, once the two have decided
//   yes              no                 nothing has come; the same call again, by the host
//
// So the header that both compare anyway is all that NCCL takes from the host; and a rank on the
// host learns of a peer on a GPU by one more call, and never waits for what does not come.
//
// NCCL is that of all ranks where a collective has decided on it: it came before the transfer for
// both, as calls of a rank come one after the other. Else the two decide between them, once.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/communicator/call_scope.h"
#include "core/collective/communicator/gpu_ranks.h"
#include "core/device/gpu_memory.h"

namespace tutti {
namespace {

// What two ranks tell each other goes in blocks of this size: its length, and its bytes.
constexpr int64_t kTalkBytes = 4096;

}  // namespace

int64_t Communicator::CallScope::NextTransfer(CollectiveOp op) {
  return ++(op == CollectiveOp::kSend ? self_->num_sent_ : self_->num_received_)[peer_];
}

GpuRanks& Communicator::CallScope::RanksOfPair() {
  if (self_->gpu_ranks_ && self_->gpu_ranks_->is_decided() && self_->gpu_ranks_->is_chosen()) {
    return *self_->gpu_ranks_;
  }
  std::unique_ptr<GpuRanks>& pair = self_->gpu_pairs_[peer_];
  if (!pair) pair = std::make_unique<GpuRanks>(self_->rank_ < peer_ ? 0 : 1, 2);
  return *pair;
}

Result<std::vector<std::string>> Communicator::CallScope::ExchangeInPair(std::string mine) {
  if (mine.size() > kTalkBytes - sizeof(uint32_t)) {
    return Internal("{} bytes for the peer; {} fit", mine.size(), kTalkBytes - sizeof(uint32_t));
  }
  Ref<Tensor> blocks[2];  // of the lower and the higher rank
  const size_t own = self_->rank_ < peer_ ? 0 : 1;
  for (Ref<Tensor>& block : blocks) {
    TUTTI_ASSIGN_OR_RETURN(block, Tensor::Create(DType::kUint8, Shape({kTalkBytes})));
  }
  auto length = static_cast<uint32_t>(mine.size());
  auto* const written = static_cast<char*>(blocks[own]->mutable_data());
  std::memcpy(written, &length, sizeof(length));
  std::memcpy(written + sizeof(length), mine.data(), mine.size());
  for (size_t from = 0; from < 2; ++from) {
    CollectiveMemory memory;
    CollectiveCall talk;
    talk.header.op = from == own ? CollectiveOp::kSend : CollectiveOp::kReceive;
    talk.header.num_tensors = 1;
    talk.header.first = SignatureOf(*blocks[from]);
    if (from == own) {
      memory.input = blocks[from]->data();
    } else {
      memory.output = blocks[from]->mutable_data();
    }
    talk.memory = std::span<const CollectiveMemory>(&memory, 1);
    talk.peer = peer_;
    talk.sequence = NextTransfer(talk.header.op);
    talk.options = *options_;
    talk.account = &self_->environment().memory();
    TUTTI_RETURN_IF_ERROR(self_->transport_->Execute(&talk));
  }
  std::vector<std::string> told;
  for (const Ref<Tensor>& block : blocks) {
    const auto* const bytes = static_cast<const char*>(block->data());
    std::memcpy(&length, bytes, sizeof(length));
    if (length > kTalkBytes - sizeof(length)) {
      return DataLoss("rank {} has sent a block that says it holds {} bytes", peer_, length);
    }
    told.emplace_back(bytes + sizeof(length), length);
  }
  return told;
}

// Says where the tensor lies. `moved`: the bytes have come with it, into `pinned`.
Status Communicator::CallScope::AnnounceOnGpu(bool* moved, Ref<Tensor>* pinned) {
  CollectiveCall& call = this->call();
  CollectiveMemory memory;
  call.header.gpu_op = op_;
  call.on_gpu = {};
  call.memory = std::span<const CollectiveMemory>(&memory, 1);
  if (op_ == CollectiveOp::kReceive) {
    call.make_room = [&]() -> Status {
      TUTTI_ASSIGN_OR_RETURN(*pinned, CreatePinned(*on_gpu_[0].output));
      memory.output = (*pinned)->mutable_data();
      return OkStatus();
    };
  }
  Status status = self_->transport_->Execute(&call);
  *moved = *pinned != nullptr;
  call.memory = {};
  call.make_room = nullptr;
  call.header.gpu_op = CollectiveOp::kNone;
  return status;
}

// Both have said that theirs lie on GPUs.
Status Communicator::CallScope::MoveByNccl(bool* moved) {
  GpuRanks& ranks = RanksOfPair();
  if (!ranks.is_decided()) {
    TUTTI_RETURN_IF_ERROR(ranks.Decide(
        gpu_->place(), self_->transport_->gpu_settings(),
        [this](std::string mine) { return ExchangeInPair(std::move(mine)); }, WaitForGpu()));
  }
  *moved = ranks.is_chosen();
  if (!*moved) return OkStatus();
  CollectiveCall& call = this->call();
  call.on_gpu = on_gpu_;
  const bool is_pair = &ranks != self_->gpu_ranks_.get();
  const int64_t peer = !is_pair ? peer_ : self_->rank_ < peer_ ? 1 : 0;
  return ranks.Run(&call, GpuRanks::Agreement(), WaitForGpu(), peer);
}

// The same call again, of memory of the host.
Status Communicator::CallScope::MoveByHost(Ref<Tensor>* pinned) {
  CollectiveCall& call = this->call();
  CollectiveMemory memory;
  const bool sends = op_ == CollectiveOp::kSend;
  const Tensor& tensor = sends ? *on_gpu_[0].input : *on_gpu_[0].output;
  TellOfStaging();
  TUTTI_ASSIGN_OR_RETURN(*pinned, CreatePinned(tensor));
  if (sends) {
    TUTTI_RETURN_IF_ERROR(CopyAnywhere(tensor, pinned->get(), WaitForGpu()));
    memory.input = (*pinned)->data();
  } else {
    memory.output = (*pinned)->mutable_data();
  }
  call.sequence = NextTransfer(op_);
  call.memory = std::span<const CollectiveMemory>(&memory, 1);
  Status status = self_->transport_->Execute(&call);
  call.memory = {};
  return status;
}

Status Communicator::CallScope::RunTransfer() {
  CollectiveCall& call = this->call();
  if (route_ != GpuRoute::kNccl) {
    const std::span<const CollectiveMemory> memory = call.memory;
    TUTTI_RETURN_IF_ERROR(self_->transport_->Execute(&call));
    if (op_ == CollectiveOp::kSend || !call.peer_on_gpu) return OkStatus();
    call.sequence = NextTransfer(op_);
    call.memory = memory;
    Status status = self_->transport_->Execute(&call);
    call.sequence = sequence_;
    return status;
  }
  bool moved = false;
  Ref<Tensor> pinned;
  Status status = AnnounceOnGpu(&moved, &pinned);
  if (status.ok() && !moved && call.peer_on_gpu) status = MoveByNccl(&moved);
  if (status.ok() && !moved) status = MoveByHost(&pinned);
  if (status.ok() && pinned && op_ == CollectiveOp::kReceive) {
    status = CopyAnywhere(*pinned, on_gpu_[0].output, WaitForGpu());
  }
  call.sequence = sequence_;  // as it was recorded
  call.on_gpu = on_gpu_;
  if (status.ok()) return status;
  if (status.FindDetail("op") == nullptr) {
    status = std::move(status).WithPrefix(Format("rank {}: {} #{}, {} rank {}", self_->rank_,
                                                 CollectiveOpName(op_), sequence_,
                                                 op_ == CollectiveOp::kSend ? "to" : "from",
                                                 peer_));
  }
  const CallLabel label{sequence_, self_->epoch_, &self_->group_name_};
  status = self_->transport_->Fail(
      WithCallDetails(std::move(status), self_->rank_, op_, label).With("peer", peer_));
  // After the epoch: those of this process that have lost it, too, are aborted in one group.
  RanksOfPair().Abort();
  return status;
}

}  // namespace tutti
