// Send and receive through the channel of the pair: the sender writes chunk after chunk, the
// receiver copies them out, and a few of them lie there in between. The first chunk is there when
// the sender says that it has come; the receiver compares its header with its own, so that one of
// the two decides, and the other one learns of a difference as of every error.
//
// Both succeed or none: in the end the receiver settles the transfer, unless the sender has
// withdrawn it because it gave up.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/call_order.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/call/streaming_copy.h"
#include "core/collective/shm/shared_group.h"

namespace tutti {
namespace {

constexpr int64_t kWantedTransfers = 4;
constexpr int64_t kLeastTransferBytes = 16 << 10;
constexpr int64_t kTransferGranule = 64;

int64_t TransferredBytes(const TensorSignature& signature) {
  return signature.num_elements() * static_cast<int64_t>(ItemSize(signature.dtype));
}

// The same on both sides.
int64_t ChunkBytes(int64_t bytes, int64_t most) {
  const int64_t least = std::min(kLeastTransferBytes, most);
  return std::clamp(bytes / kWantedTransfers, least, most) / kTransferGranule * kTransferGranule;
}

}  // namespace

// Waits until a word of the peer, in the channel, is large enough.
class SharedGroup::TransferWait final : public SharedGroup::Wait {
 public:
  TransferWait(SharedGroup& group, const CollectiveCall& call, SharedChannel& channel,
               const std::atomic<uint64_t>& word, uint64_t value)
      : group_(group), call_(call), channel_(channel), word_(word), value_(value) {}

  bool Reached() const noexcept override { return word_.load() >= value_; }
  bool PeerLeft() const noexcept override {
    return group_.HasLeft(call_.peer) && !Reached();
  }
  void Park() noexcept override { Sleeps().store(1); }
  void Unpark() noexcept override { Sleeps().store(0, std::memory_order_relaxed); }
  Status Error(Status wait_status, int64_t waited_ns) override {
    if (IsSend() && !group_.Withdraw(call_, channel_)) return OkStatus();
    return group_.TransferError(call_, std::move(wait_status), waited_ns);
  }
  Status CheckOrder() const override {
    Status order = group_.CheckTransferOrder(call_);
    // What the peer does was seen before this: it may have done its part just before that.
    return Reached() ? OkStatus() : order;
  }
  std::string Describe() const override {
    return Format("it waits for {}", DescribeAbsence(group_.PeerPosition(call_.peer)));
  }

 private:
  bool IsSend() const { return call_.header.op == CollectiveOp::kSend; }
  std::atomic<uint32_t>& Sleeps() const noexcept {
    return IsSend() ? channel_.sender_sleeps : channel_.receiver_sleeps;
  }

  SharedGroup& group_;
  const CollectiveCall& call_;
  SharedChannel& channel_;
  const std::atomic<uint64_t>& word_;
  const uint64_t value_;
};

void SharedGroup::RaiseInChannel(std::atomic<uint64_t>& word, uint64_t value,
                                 const std::atomic<uint32_t>& sleeps, int64_t peer) noexcept {
  if (stores_past_cache()) StreamingFence();
  if (light_raise_) {
    word.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (sleeps.load(std::memory_order_relaxed) == 0) return;
  } else {
    word.store(value);
    if (sleeps.load() == 0) return;
  }
  Wake(peer);
}

Status SharedGroup::AwaitInChannel(const CollectiveCall& call, SharedChannel& channel,
                                   const std::atomic<uint64_t>& word, uint64_t value,
                                   int64_t spin_ns) {
  TransferWait wait(*this, call, channel, word, value);
  if (wait.Reached()) return OkStatus();
  const int64_t start_ns = environment_->clock().NowNs();
  Status status;
  if (!spin_.Until([&] { return wait.Reached(); }, [&] { return HasFailed(); }, spin_ns)) {
    status = Sleep(wait, start_ns);
  }
  waited_ns_ += environment_->clock().NowNs() - start_ns;
  return status;
}

Status SharedGroup::Transfer(CollectiveCall* transfer_call) {
  CollectiveCall& call = *transfer_call;
  const bool is_send = call.header.op == CollectiveOp::kSend;
  const int64_t from = is_send ? rank() : call.peer;
  const int64_t to = is_send ? call.peer : rank();
  SharedChannel& channel = layout_.channel(from, to);
  const auto bytes = static_cast<size_t>(TransferredBytes(call.header.first));
  call_ = &call;
  const SharedStoreChoice::Kind kind{CollectiveOp::kSend, bytes};
  stores_ = is_send ? store_choice_.Choose(kind) : SharedStores::kThroughCaches;
  timed_ = is_send && store_choice_.IsTimed(kind);
  waited_ns_ = 0;
  if (timed_) start_ns_ = environment_->clock().NowNs();
  std::atomic<uint64_t>& transfer = layout_.slot(rank()).transfer;
  transfer.store(SharedTransferWord::Make(call.peer, is_send), std::memory_order_relaxed);
  Status status;
  try {
    if (is_send) {
      status = Send(call, channel);
      // It may have happened before the epoch ended.
      if (!status.ok() && !Withdraw(call, channel)) status = OkStatus();
      call.peer_on_gpu = channel.receiver_on_gpu.load(std::memory_order_relaxed) != 0;
    } else {
      status = Receive(&call, channel);
    }
  } catch (...) {
    // The peer must not succeed in what has failed here.
    if (is_send) Withdraw(call, channel);
    transfer.store(0, std::memory_order_relaxed);
    throw;
  }
  transfer.store(0, std::memory_order_relaxed);
  if (timed_ && status.ok()) {
    const int64_t took_ns = environment_->clock().NowNs() - start_ns_;
    store_choice_.Note(kind, took_ns - waited_ns_);
  }
  return status;
}

Status SharedGroup::Send(const CollectiveCall& call, SharedChannel& channel) {
  const auto number = static_cast<uint64_t>(call.sequence);
  const int64_t bytes = CollectiveCall::MovesNothing(call.header)
                            ? 0
                            : TransferredBytes(call.header.first);
  const int64_t chunk_bytes = ChunkBytes(bytes, static_cast<int64_t>(layout_.chunk_bytes()));
  const auto* input = static_cast<const std::byte*>(call.memory[0].input);
  encoded_.Encode(call.header);
  if (encoded_.size() > SharedChannel::kHeaderRoomBytes) {
    return Fail(Internal("send #{}: a header of {} bytes", call.sequence, encoded_.size()));
  }
  std::memcpy(channel.header, encoded_.data(), encoded_.size());
  channel.header_bytes = static_cast<uint32_t>(encoded_.size());

  // Everything before has been taken.
  uint64_t written = channel.written.load(std::memory_order_relaxed);
  for (int64_t begin = 0; begin < bytes || begin == 0; begin += chunk_bytes) {
    if (written >= SharedChannel::kChunks) {
      TUTTI_RETURN_IF_ERROR(AwaitInChannel(call, channel, channel.taken,
                                           written - SharedChannel::kChunks + 1,
                                           SpinWait::kForStepNs));
    }
    const int64_t count = std::min(chunk_bytes, bytes - begin);
    CopyIn(layout_.chunk(channel, written), input + begin, static_cast<size_t>(count));
    if (begin == 0) {
      // Nobody looks at the count before the sender has come.
      channel.written.store(++written, std::memory_order_relaxed);
      RaiseInChannel(channel.sent, number, channel.receiver_sleeps, call.peer);
    } else {
      RaiseInChannel(channel.written, ++written, channel.receiver_sleeps, call.peer);
    }
  }
  return AwaitInChannel(call, channel, channel.settled, number, SpinWait::kForArrivalNs);
}

Status SharedGroup::Receive(CollectiveCall* receive, SharedChannel& channel) {
  CollectiveCall& call = *receive;
  const auto number = static_cast<uint64_t>(call.sequence);
  channel.wanted.store(number, std::memory_order_release);
  TUTTI_RETURN_IF_ERROR(
      AwaitInChannel(call, channel, channel.sent, number, SpinWait::kForArrivalNs));
  const size_t header_bytes =
      std::min<size_t>(channel.header_bytes, SharedChannel::kHeaderRoomBytes);
  size_t num_tensors = 0;
  Result<CallHeader> sent = DecodeSharedHeader(
      CollectiveOp::kSend, std::span(channel.header, header_bytes), true, &num_tensors);
  if (!sent.ok() || num_tensors != 1) return FailPeer(call.peer, "it has sent no header");
  Status same = CheckSameTransfer(*sent, call.peer, call.header, rank(), Label());
  if (!same.ok()) return Fail(std::move(same));

  // The sender looks at it when this transfer is settled, and has when it sends the next one.
  channel.receiver_on_gpu.store(call.header.gpu_op != CollectiveOp::kNone,
                                std::memory_order_relaxed);
  call.peer_on_gpu = sent->gpu_op != CollectiveOp::kNone;
  const bool moves = !CollectiveCall::MovesNothing(*sent);
  if (moves && call.make_room) {
    Status room = call.make_room();
    if (!room.ok()) {
      return Fail(WithCallDetails(std::move(room), rank(), call.header.op, Label()));
    }
  }
  const int64_t bytes = moves ? TransferredBytes(call.header.first) : 0;
  const int64_t chunk_bytes = ChunkBytes(bytes, static_cast<int64_t>(layout_.chunk_bytes()));
  auto* output = static_cast<std::byte*>(call.memory[0].output);
  uint64_t taken = channel.taken.load(std::memory_order_relaxed);
  for (int64_t begin = 0; begin < bytes || begin == 0; begin += chunk_bytes) {
    TUTTI_RETURN_IF_ERROR(
        AwaitInChannel(call, channel, channel.written, taken + 1, SpinWait::kForStepNs));
    const int64_t count = std::min(chunk_bytes, bytes - begin);
    if (count > 0) {
      std::memcpy(output + begin, layout_.chunk(channel, taken), static_cast<size_t>(count));
    }
    if (begin + chunk_bytes < bytes) {
      RaiseInChannel(channel.taken, ++taken, channel.sender_sleeps, call.peer);
    }
  }
  // Of the last chunk the sender learns when the transfer is settled.
  channel.taken.store(++taken, std::memory_order_relaxed);
  uint64_t before = number - 1;
  if (channel.settled.compare_exchange_strong(before, number)) {
    if (channel.sender_sleeps.load() != 0) Wake(call.peer);
    return OkStatus();
  }
  if ((before & SharedChannel::kWithdrawn) == 0) {
    return FailPeer(call.peer, "the count of its transfers cannot be");
  }
  // The sender is about to end the epoch, and whoever sees it die would.
  return AwaitInChannel(call, channel, channel.settled, UINT64_MAX, SpinWait::kForArrivalNs);
}

bool SharedGroup::Withdraw(const CollectiveCall& call, SharedChannel& channel) noexcept {
  const auto number = static_cast<uint64_t>(call.sequence);
  uint64_t before = number - 1;
  return channel.settled.compare_exchange_strong(before,
                                                 before | SharedChannel::kWithdrawn) ||
         before != number;
}

Status SharedGroup::CheckTransferOrder(const CollectiveCall& call) const {
  const bool is_send = call.header.op == CollectiveOp::kSend;
  const int64_t peer = call.peer;
  const WaitingCall own{Name(rank()), call.header.op, call.sequence};
  // A sender waits until the receiver has settled the transfer, a receiver until it is sent: which
  // the rank that stands here has not done.
  const SharedChannel& theirs =
      is_send ? layout_.channel(peer, rank()) : layout_.channel(rank(), peer);
  const uint64_t done =
      is_send ? theirs.settled.load() & ~SharedChannel::kWithdrawn : theirs.sent.load();
  const uint64_t come = is_send ? theirs.sent.load() : theirs.wanted.load();
  if (come > done) {
    const WaitingCall other{Name(peer), call.header.op, static_cast<int64_t>(come)};
    const WaitingCall& low = own.rank < other.rank ? own : other;
    return TransfersCollide(
        low, own.rank < other.rank ? other : own,
        CallLabel{low.sequence, options_.epoch, &options_.name, &options_.names});
  }
  // Who has come to a call of all does not leave it without this rank.
  const RankPosition position = PositionOf(peer);
  if (position.last_sequence <= sequence_) return OkStatus();
  return TransferDuringCollective(own, {Name(peer), position.last_op, position.last_sequence},
                                  Label());
}

RankPosition SharedGroup::PeerPosition(int64_t peer) const {
  RankPosition position = PositionOf(peer);
  // This rank is in no call of all; so the peer cannot have done what this rank has not come to.
  position.in_call = position.last_sequence > sequence_;
  return position;
}

Status SharedGroup::TransferError(const CollectiveCall& call, Status wait_status,
                                  int64_t waited_ns) const {
  const char* op = CollectiveOpName(call.header.op);
  Status error;
  if (wait_status.ok()) {
    const Status reason = LeaveReason(call.peer);
    error = Status(reason.code(), Format("rank {}: {} #{} needs {}: {}", rank(), op, call.sequence,
                                         NameOf(call.peer), reason.message()))
                .WithCause(reason);
  } else {
    const std::string absence = DescribeAbsence(PeerPosition(call.peer));
    if (wait_status.code() == StatusCode::kDeadlineExceeded) {
      error = DeadlineExceeded("rank {}: {} #{} waited {} for {}", rank(), op, call.sequence,
                               HumanDuration(waited_ns), absence);
    } else {
      error = std::move(wait_status)
                  .WithPrefix(Format("rank {}: while it waited for {}", rank(), absence));
    }
  }
  error = WithCallDetails(std::move(error), rank(), call.header.op, Label());
  return std::move(error).With("peer", call.peer);
}

}  // namespace tutti
