// Send and receive within a process: a rendezvous. Whoever of the two comes first leaves a post at
// the receiver and waits; the other one takes it and copies the bytes from the sender's memory into
// the receiver's. A post lies on its rank's stack and is in a list that a lock guards: who takes it
// out, the peer or the rank that gives up, decides whether the transfer happens. So it succeeds on
// both sides or on none, costs no memory for pairs that exchange nothing, and works where the ranks
// share one thread.

#include <cstring>
#include <new>
#include <utility>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/call_order.h"
#include "core/collective/thread/local_algorithms.h"
#include "core/collective/thread/local_group.h"

namespace tutti {
// A rank that came first.
struct LocalGroup::TransferPost {
  enum Outcome : int { kWaiting = 0, kMoved = 1, kFailed = 2 };

  const int64_t from;
  const bool is_send;
  const CollectiveCall& call;
  TransferPost* next = nullptr;        // guarded by the receiver's transfer_mutex
  std::atomic<int> outcome{kWaiting};  // set by who has taken the post; its last access to it
};

LocalGroup::TransferPost* LocalGroup::TakePost(Rank& receiver, int64_t from, bool is_send) {
  for (TransferPost** place = &receiver.posts; *place != nullptr; place = &(*place)->next) {
    TransferPost* post = *place;
    if (post->from != from || post->is_send != is_send) continue;
    *place = post->next;
    return post;
  }
  return nullptr;
}

Status LocalGroup::Transfer(int64_t rank, const CollectiveCall& call) {
  const bool is_send = call.header.op == CollectiveOp::kSend;
  const int64_t from = is_send ? rank : call.peer;
  Rank& self = ranks_[rank];
  Rank& receiver = ranks_[is_send ? call.peer : rank];
  self.transfer.store(static_cast<uint64_t>(call.peer) << 1 | (is_send ? 1 : 0) | kInTransferBit);
  TransferPost own{from, is_send, call};
  TransferPost* peer_post = nullptr;
  {
    std::lock_guard<std::mutex> lock(receiver.transfer_mutex);
    peer_post = TakePost(receiver, from, !is_send);
    if (peer_post == nullptr) {
      own.next = receiver.posts;
      receiver.posts = &own;
    }
  }
  Status status;
  try {
    status = peer_post != nullptr ? FinishTransfer(rank, call, peer_post)
                                  : AwaitTransfer(rank, call, receiver, &own);
  } catch (...) {
    if (peer_post == nullptr) TakeBack(rank, receiver, &own);
    self.transfer.store(0);
    throw;
  }
  self.transfer.store(0);
  return status;
}

Status LocalGroup::MoveTransfer(const CollectiveCall& send, const CollectiveCall& receive,
                                const GpuWait& wait) {
  if (!send.on_gpu.empty() || !receive.on_gpu.empty()) return GpuTransfer(send, receive, wait);
  const TensorSignature& signature = send.header.first;
  const size_t bytes = static_cast<size_t>(signature.num_elements()) * ItemSize(signature.dtype);
  // Ranks of one process can pass the same tensor.
  if (bytes != 0) std::memmove(receive.memory[0].output, send.memory[0].input, bytes);
  return OkStatus();
}

Status LocalGroup::FinishTransfer(int64_t rank, const CollectiveCall& call, TransferPost* post) {
  const CollectiveCall& send = post->is_send ? post->call : call;
  const CollectiveCall& receive = post->is_send ? call : post->call;
  const int64_t from = post->from;
  const int64_t to = post->is_send ? rank : call.peer;
  Status status;
  try {
    status = CheckSameTransfer(send.header, from, receive.header, to, Label(call));
  } catch (const std::bad_alloc&) {
    // The peer waits for an outcome, and will look for the reason.
    status = Status::OutOfMemory();
  }
  if (status.ok()) {
    try {
      status = MoveTransfer(send, receive, GpuWait{&call.options, &environment_->clock()});
    } catch (const std::bad_alloc&) {
      status = Status::OutOfMemory();
    }
    if (!status.ok()) {
      status = WithCallDetails(std::move(status), rank, call.header.op, Label(call));
    }
  }
  if (!status.ok()) status = Fail(std::move(status));
  post->outcome.store(status.ok() ? TransferPost::kMoved : TransferPost::kFailed);
  Wake(ranks_[call.peer]);
  return status;
}

Status LocalGroup::AwaitTransfer(int64_t rank, const CollectiveCall& call, Rank& receiver,
                                 TransferPost* own) {
  const Rank& peer = ranks_[call.peer];
  const auto taken = [own] { return own->outcome.load() != TransferPost::kWaiting; };
  const auto over = [&] { return taken() || HasFailed() || peer.left.load(); };
  Status status;
  int64_t waited_ns = 0;
  if (!ranks_[rank].spin->Until(over, [] { return false; }, SpinWait::kForArrivalNs)) {
    Status order = CheckTransferOrder(rank, call);
    if (!order.ok()) Fail(std::move(order)).rep();
    const int64_t start_ns = environment_->clock().NowNs();
    status = Sleep(rank, call, over, [&] { return DescribeAbsence(PeerPosition(call.peer)); });
    waited_ns = environment_->clock().NowNs() - start_ns;
  }
  if (!taken() && TakeBack(rank, receiver, own) && !HasFailed()) {
    return Fail(TransferError(rank, call, std::move(status), waited_ns));
  }
  return own->outcome.load() == TransferPost::kMoved ? OkStatus() : failure();
}

bool LocalGroup::TakeBack(int64_t rank, Rank& receiver, TransferPost* own) {
  const auto taken = [own] { return own->outcome.load() != TransferPost::kWaiting; };
  if (taken()) return false;
  {
    std::lock_guard<std::mutex> lock(receiver.transfer_mutex);
    if (TakePost(receiver, own->from, own->is_send) != nullptr) {
      own->outcome.store(TransferPost::kFailed);
      return true;
    }
  }
  // The peer has it in its hands, which takes no longer than moving the bytes.
  SleepUntil(rank, taken);
  return false;
}

int64_t LocalGroup::WaitingTransfer(int64_t from, int64_t to, bool is_send) const {
  const Rank& receiver = ranks_[to];
  std::lock_guard<std::mutex> lock(receiver.transfer_mutex);
  for (const TransferPost* post = receiver.posts; post != nullptr; post = post->next) {
    if (post->from == from && post->is_send == is_send) return post->call.sequence;
  }
  return 0;
}

Status LocalGroup::CheckTransferOrder(int64_t rank, const CollectiveCall& call) const {
  const bool is_send = call.header.op == CollectiveOp::kSend;
  const int64_t peer = call.peer;
  const WaitingCall own{rank, call.header.op, call.sequence};
  // First what the peer does, then whether this rank still waits for it.
  const int64_t number =
      is_send ? WaitingTransfer(peer, rank, true) : WaitingTransfer(rank, peer, false);
  const RankPosition position = PositionOf(peer);
  if (WaitingTransfer(is_send ? rank : peer, is_send ? peer : rank, is_send) == 0) {
    return OkStatus();
  }
  if (number != 0) {
    const WaitingCall theirs{peer, call.header.op, number};
    const WaitingCall& low = rank < peer ? own : theirs;
    return TransfersCollide(low, rank < peer ? theirs : own,
                            CallLabel{low.sequence, epoch_, &name_});
  }
  // Who has come to a call of all does not leave it without this rank.
  if (position.last_sequence > PositionOf(rank).last_sequence) {
    return TransferDuringCollective(own, {peer, position.last_op, position.last_sequence},
                                    Label(call));
  }
  return OkStatus();
}

Status LocalGroup::CheckCollectiveOrder(int64_t rank, uint64_t target,
                                        const CollectiveCall& call) const {
  const WaitingCall own{rank, call.header.op, call.sequence};
  for (int64_t peer = 0; peer < size_; ++peer) {
    if (HasReached(peer, target)) continue;
    for (const CollectiveOp op : {CollectiveOp::kSend, CollectiveOp::kReceive}) {
      const bool is_send = op == CollectiveOp::kSend;
      const int64_t number =
          is_send ? WaitingTransfer(peer, rank, true) : WaitingTransfer(rank, peer, false);
      if (number == 0) continue;
      return TransferDuringCollective({peer, op, number}, own,
                                      CallLabel{number, epoch_, &name_});
    }
  }
  return OkStatus();
}

Status LocalGroup::TransferError(int64_t rank, const CollectiveCall& call, Status wait_status,
                                 int64_t waited_ns) const {
  const char* op = CollectiveOpName(call.header.op);
  Status error;
  if (wait_status.ok()) {
    const Rank& peer = ranks_[call.peer];
    std::lock_guard<std::mutex> lock(failure_mutex_);
    error = Status(peer.leave_reason.code(),
                   Format("rank {}: {} #{} needs rank {}: {}", rank, op, call.sequence, call.peer,
                          peer.leave_reason.message()))
                .WithCause(peer.leave_reason);
  } else {
    const std::string absence = DescribeAbsence(PeerPosition(call.peer));
    if (wait_status.code() == StatusCode::kDeadlineExceeded) {
      error = DeadlineExceeded("rank {}: {} #{} waited {} for {}", rank, op, call.sequence,
                               HumanDuration(waited_ns), absence);
    } else {
      error = std::move(wait_status)
                  .WithPrefix(Format("rank {}: while it waited for {}", rank, absence));
    }
  }
  error = WithCallDetails(std::move(error), rank, call.header.op, Label(call));
  return std::move(error).With("peer", call.peer);
}

}  // namespace tutti
