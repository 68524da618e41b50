// LocalGroup: how the ranks of one process meet.
//
// Each rank publishes a post for its call and then raises its progress word, a number that only
// grows:
//
//   progress = sequence << 5 | parted << 4 | operation
//
// A call has met when every rank's progress has reached its sequence; the rank that arrives last
// wakes those that sleep. Posts are doubled by the parity of the sequence: a rank that is one call
// ahead writes into the other one, and it cannot be two ahead, because the call between needs
// everyone.
//
// What a small call costs is the cache lines that it moves from core to core. So progress, the
// header's short form, and a small payload or the pointers to a large one lie side by side.
//
// A call whose ranks touch each other's memory must be entered by all of them or by none, whatever
// errors arrive meanwhile. One word decides it, the *verdict* = (last committed sequence << 1) |
// failed: the first rank that sees everyone arrived commits the sequence, unless the group has
// failed by then. Committed calls run to their end, which takes no longer than moving the bytes,
// and each rank waits at their end (Part) until nobody uses its memory any more. So a call either
// fails on all ranks without touching anything, or succeeds on all.
//
// A transfer, send or receive, concerns two ranks, and is no part of the sequence: see
// local_transfer.cc.
//
// Sleeping follows base/wait.h. Either the sleeper sees the last arrival, or that one sees the
// sleeper. That takes a fence between the store of who arrives and its look at the parked flags,
// which would cost spinning ranks a good part of the meeting: where ranks spin, the sleeper makes
// the fence, for all threads of the process, with membarrier. Ranks that share one thread, as in a
// simulation, can meet but not part: there kPeerMemory is UNIMPLEMENTED.

#ifndef TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_GROUP_H_
#define TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_GROUP_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/call/spin_wait.h"
#include "core/collective/call/transport.h"
#include "core/collective/select/selector.h"

namespace tutti {

class Environment;

class LocalGroup final : public RefCounted {
 public:
  // What a rank shows its peers during a call, beside its post.
  struct Entry {
    const Tensor* gather_input = nullptr;  // only between Meet and Part
    std::span<const int64_t> send_rows;    // only between Meet and Part
    std::span<const GpuMemoryOfCall> on_gpu;  // only between Meet and Part
  };

  // Whether a call's ranks touch memory that is another rank's, and so end it with Part.
  enum class Access { kOwnMemory, kPeerMemory };

  // Longer waits are logged once, saying where every rank is.
  static constexpr int64_t kLogWaitNs = 30 * kSecondNs;

  // `usable_cores`: ranks spin when each can have one. `table`: null is the built-in one.
  LocalGroup(Ref<Environment> environment, std::string name, int64_t size, int64_t epoch,
             size_t usable_cores, const SelectorTable* table = nullptr);

  int64_t size() const noexcept { return size_; }
  int64_t epoch() const noexcept { return epoch_; }
  const std::string& name() const noexcept { return name_; }
  const Selector& selector() const noexcept { return selector_; }
  // How much input a call may leave with each post instead of sharing its own memory.
  size_t copied_input_bytes() const noexcept { return copied_input_bytes_; }

  // Begins the rank's next call. Only while the group has not failed: peers may still read the
  // posts of the calls before the failure. Then what the call shows is to be filled in: either a
  // copied input, or the call's memory. Then Meet.
  void Begin(int64_t rank, const CollectiveCall& call);
  // The same of a call that is like an earlier one, of which this is the header.
  void BeginKnown(int64_t rank, const CollectiveCall& call, const SharedHeaderForm& header) {
    SetHeader(rank, call, header);
  }
  // Where `bytes` (the same for all ranks) of copied input lie, aligned for every dtype: this
  // rank's own, or a peer's after Meet has succeeded and until the rank's next call. Two ranks swap
  // rooms with every call of a parity: each writes where it has read last.
  std::byte* CopiedInput(int64_t rank, int64_t peer, int64_t sequence, size_t bytes) {
    if (bytes <= kBesideHeader) {
      return reinterpret_cast<std::byte*>(&PostOf(peer, sequence)) + ranks_[rank].payload_offset;
    }
    const int64_t owner = size_ == 2 ? (peer ^ (sequence >> 1)) & 1 : peer;
    return reinterpret_cast<std::byte*>(&PostOf(owner, sequence)) + sizeof(Post);
  }
  // For kPeerMemory: lets the peers use that memory, one for each tensor, until Part.
  void ShowMemory(int64_t rank, const CollectiveCall& call,
                  std::span<const CollectiveMemory> memory);
  void ShowMemory(int64_t rank, const CollectiveCall& call) {
    ShowMemory(rank, call, call.memory);
  }
  CollectiveMemory PeerMemory(int64_t rank, int64_t peer, const CollectiveCall& call,
                              size_t tensor);
  // Besides ShowMemory, until Part: whether this rank wants the fold to be checked (fold_check.h);
  // after Meet, whether any does.
  void ShowFoldCheck(int64_t rank, const CollectiveCall& call);
  bool FoldIsChecked(int64_t rank, const CollectiveCall& call);
  Entry& OwnEntry(int64_t rank, int64_t sequence) { return EntryOf(rank, sequence); }
  // A peer's entry, after Meet has succeeded and until the rank's next call.
  const Entry& PeerEntry(int64_t peer, int64_t sequence) { return EntryOf(peer, sequence); }

  // Publishes the rank's post and waits until everybody is in the same call. Any failure ends the
  // epoch for all.
  Status Meet(int64_t rank, const CollectiveCall& call, Access access);
  // The same in two steps, where no rank's memory is another's.
  void Arrive(int64_t rank, const CollectiveCall& call);
  Status MeetArrived(int64_t rank, const CollectiveCall& call, Access access);
  // After a successful Meet with kPeerMemory: waits until no rank needs another's memory. Bounded
  // by the work of the slowest, so nothing ends it early. A failure, on all ranks alike, when an
  // exception took one of them away before its work.
  Status Part(int64_t rank, const CollectiveCall& call);
  // The same at the end of a scope, where an exception may end the rank's work: without it the
  // peers would wait for ever, and go on reading what is the caller's again.
  class PartsAtEnd {
   public:
    PartsAtEnd(LocalGroup& group, int64_t rank, const CollectiveCall& call)
        : group_(group), rank_(rank), call_(call) {}
    ~PartsAtEnd() { group_.Part(rank_, call_).rep(); }
    PartsAtEnd(const PartsAtEnd&) = delete;
    PartsAtEnd& operator=(const PartsAtEnd&) = delete;

   private:
    LocalGroup& group_;
    const int64_t rank_;
    const CollectiveCall& call_;
  };

  // A send or receive of the rank with call.peer.
  Status Transfer(int64_t rank, const CollectiveCall& call);

  Status Fail(Status error);
  Status failure() const;
  bool HasFailed() const noexcept { return (verdict_.load() & 1) != 0; }
  bool ClaimFlightRecord() { return !flight_record_claimed_.exchange(true); }
  void Leave(int64_t rank, Status reason);
  bool HasLeft(int64_t rank) const noexcept { return ranks_[rank].left.load(); }

 private:
  struct TransferPost;
  static constexpr uint64_t kInTransferBit = uint64_t{1} << 63;

  // Two cache lines apart: neither neighbours nor the prefetcher share what one rank writes. The
  // payload lies behind the header or, when it is larger, behind the post.
  struct alignas(128) Post {
    std::atomic<uint64_t> progress{0};
    uint32_t operation = 0;
    uint32_t header_bytes = 0;
    // The header's short form, or its hash when it is longer.
    std::byte room[112];
  };
  static_assert(sizeof(Post) == 128);
  // Payloads up to this size lie behind the header.
  static constexpr size_t kBesideHeader = 64;
  static constexpr size_t kShownHeaderBytes = 48;

  struct alignas(128) Rank {
    std::atomic<bool> parked{false};
    std::atomic<bool> left{false};
    std::optional<SpinWait> spin;
    std::mutex mutex;  // for sleeping only
    std::condition_variable wake;
    Status leave_reason;  // guarded by failure_mutex_
    // Its transfer, for messages: kInTransferBit | peer << 1 | is a send. 0: none.
    std::atomic<uint64_t> transfer{0};
    mutable std::mutex transfer_mutex;  // guards `posts`
    TransferPost* posts = nullptr;      // of transfers to this rank, its own receive included
    alignas(128) Entry entries[2];
    // Headers that a post cannot hold: their short forms, and those of calls that are uneven, of
    // which the short form leaves out a size. For messages.
    std::vector<std::byte> long_headers[2];
    CallHeader uneven_headers[2];
    // Of the call that runs, for this rank alone.
    alignas(128) SharedHeaderForm encoded;
    const SharedHeaderForm* header = &encoded;
    uint64_t header_hash = 0;  // when it is long
    size_t payload_offset = 0;
  };

  ~LocalGroup() override;

  Entry& EntryOf(int64_t rank, int64_t sequence) { return ranks_[rank].entries[sequence & 1]; }
  Post& PostOf(int64_t rank, int64_t sequence) const {
    return *reinterpret_cast<Post*>(posts_ + static_cast<size_t>(2 * rank + (sequence & 1)) *
                                                 (sizeof(Post) + copied_input_bytes_));
  }
  // Whether the rank has come as far as `target`, which is a progress word of call `sequence`.
  bool HasReached(int64_t rank, uint64_t target) const {
    return PostOf(rank, SequenceOf(target)).progress.load() >= target;
  }
  static int64_t SequenceOf(uint64_t progress);
  // Of the call that the rank is in, or was in last.
  uint64_t ProgressOf(int64_t rank) const;
  void SetHeader(int64_t rank, const CollectiveCall& call, const SharedHeaderForm& header);
  // Writes the header into the rank's post.
  void Publish(int64_t rank, const CollectiveCall& call);
  bool HasOwnHeader(int64_t rank, int64_t peer, const CollectiveCall& call) const;
  // The error of a call whose headers differ.
  Status DescribeMismatch(const CollectiveCall& call) const;
  Result<CallHeader> HeaderOf(int64_t rank, int64_t sequence) const;
  // True when the call is committed, by this rank or another; false when the group failed first.
  bool Commit(int64_t sequence);
  bool IsCommitted(int64_t sequence) const;
  bool AllReached(uint64_t target) const;
  bool MissingPeerLeft(uint64_t target) const;
  // Raises the rank's progress and wakes the sleepers when it is the last.
  void Advance(int64_t rank, uint64_t progress, uint64_t target);
  void Wake(Rank& rank);
  // Whether sleepers can make the fence for this process.
  static bool RegisterForFences();
  // Of a rank that has said that it sleeps: makes sure that whoever has not seen it has raised its
  // progress before, so that this one sees that.
  void FenceRaisers() const;
  // Spins, without sleeping, until all have reached `target` (true) or it is time to sleep.
  bool SpinUntil(int64_t rank, uint64_t target, int64_t spin_ns, bool stop_on_failure);
  // Sleeps until `over`, which must become true before this rank is woken. A failed status is that
  // of the waiting. `where` says what it waits for, should it take long.
  Status Sleep(int64_t rank, const CollectiveCall& call, const std::function<bool()>& over,
               const std::function<std::string()>& where);
  // The same whatever happens.
  void SleepUntil(int64_t rank, const std::function<bool()>& condition);
  Status WaitForArrivals(int64_t rank, uint64_t target, const CollectiveCall& call);
  void FailForException(int64_t rank, const CollectiveCall& call);
  // The error that ends the epoch because the wait of `rank` ended with `wait_status`, which is OK
  // when a missing peer has left. OK when whoever was missing has arrived by now.
  Status WaitError(int64_t rank, uint64_t target, const CollectiveCall& call, Status wait_status,
                   int64_t waited_ns) const;
  std::vector<RankPosition> Positions(uint64_t target) const;
  RankPosition PositionOf(int64_t rank) const;

  // Takes the post of that side of the transfer from rank `from` to `receiver` out of the list, if
  // it is there. With the receiver's transfer_mutex.
  static TransferPost* TakePost(Rank& receiver, int64_t from, bool is_send);
  // The number of that transfer, while the one who came first waits for the other; else 0.
  int64_t WaitingTransfer(int64_t from, int64_t to, bool is_send) const;
  // Whether a rank that this one waits for waits for it in another call, so that neither ever comes
  // to the other's. Whoever of the two begins to wait later finds it: both show that they wait, and
  // look then.
  Status CheckTransferOrder(int64_t rank, const CollectiveCall& call) const;
  Status CheckCollectiveOrder(int64_t rank, uint64_t target, const CollectiveCall& call) const;
  // Of the rank that comes second, and of the one that came first.
  static Status MoveTransfer(const CollectiveCall& send, const CollectiveCall& receive,
                             const GpuWait& wait);
  Status FinishTransfer(int64_t rank, const CollectiveCall& call, TransferPost* post);
  Status AwaitTransfer(int64_t rank, const CollectiveCall& call, Rank& receiver,
                       TransferPost* own);
  // Gives up the own post. False when the peer has taken it, and is done with it.
  bool TakeBack(int64_t rank, Rank& receiver, TransferPost* own);
  // With in_call: the peer waits for others in its last call.
  RankPosition PeerPosition(int64_t peer) const;
  // Why a transfer ends whose wait ended with `wait_status`, which is OK when the peer has left.
  Status TransferError(int64_t rank, const CollectiveCall& call, Status wait_status,
                       int64_t waited_ns) const;
  CallLabel Label(const CollectiveCall& call) const {
    return CallLabel{call.sequence, epoch_, &name_};
  }

  const Ref<Environment> environment_;
  const std::string name_;
  const int64_t size_;
  const int64_t epoch_;
  const bool spins_;
  const bool light_raise_;  // sleepers make the fence
  const Selector selector_;
  const size_t copied_input_bytes_;
  const std::unique_ptr<std::byte[]> post_room_;
  std::byte* posts_;
  std::unique_ptr<Rank[]> ranks_;

  alignas(128) std::atomic<uint64_t> verdict_{0};
  // The last committed call that an exception took a rank away from; 0: none.
  std::atomic<int64_t> abandoned_{0};
  mutable std::mutex failure_mutex_;  // guards failure_ and every leave_reason
  Status failure_;
  std::atomic<bool> flight_record_claimed_{false};
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_GROUP_H_
