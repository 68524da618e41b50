// SharedGroup: how ranks meet that share a segment and nothing else. Each rank has an object of its
// own, on the mapping that all have; ranks are processes, and may be threads as well.
//
// All ranks count the same *steps*: each call takes a number of them that its header decides. A
// rank raises its progress to a step when it has done its part of it, and waits until the others
// have reached the step that it needs. The first step of a call is its arrival: header and small
// payload lie in the entry, then progress is raised. Once all have arrived everybody compares
// everybody's header with its own, so that all come to the same verdict.
//
// Nobody ever touches the private memory of another rank. So a rank may fail, or die, anywhere: the
// others stop waiting for it as soon as somebody has ended the epoch, which takes one word in the
// segment. Its error has been written to the slot of the rank that fails before that word names it.
//
// Waiting: ranks that can each have a core spin for some microseconds, all offer their core a few
// times, then they sleep on a futex in their slot, at most 50 ms at a time, because the ones who
// should wake them may be dead. Who raises its progress looks whether somebody sleeps. Between that
// store and that load belongs a fence, which costs spinning ranks as much as the whole meeting; so
// there the sleeper makes the fence, for all of them, with membarrier.
//
// Ranks whose tensors lie in windows (shared_window.h) need copy none into the segment. Whether all
// of them can go without, which takes all, is known when they have met: then MeetDirect says so, or
// that the call goes on through the segment after all. The ranks that have copied theirs see it in
// Meet, and wait until the others have, too.
//
// Threads: a rank's calls one at a time; Fail, Leave and failure at any time on any thread.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_GROUP_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
#include "core/collective/shm/shared_layout.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_store_choice.h"
#include "core/collective/shm/shared_window.h"

namespace tutti {

class Environment;

struct SharedGroupOptions {
  std::string name;   // of the communicator, for messages
  int64_t rank = 0;
  int64_t size = 1;   // at most kSharedMaxRanks
  int64_t epoch = 1;
  bool spin = false;  // the same on all ranks: whether each can have a core
  std::shared_ptr<const SelectorTable> table;  // the same on all ranks; null: the built-in one
  // "worker 1, pid 4711" of a rank, for messages; may be null.
  std::function<std::string(int64_t rank)> describe_peer;
  // What messages call the ranks; empty: as they are.
  std::vector<int64_t> names;
  SharedWindows windows;
};

class SharedGroup {
 public:
  // Longer waits are logged once, saying where every rank is.
  static constexpr int64_t kLogWaitNs = 30 * kSecondNs;
  static constexpr int64_t kAll = -1;  // for Await: every rank

  // Takes the rank's place in the segment: FAILED_PRECONDITION when it is taken, or belongs to a
  // group of another size or epoch.
  static Result<std::unique_ptr<SharedGroup>> Create(Ref<Environment> environment,
                                                     Ref<SharedSegment> segment,
                                                     SharedGroupOptions options);
  ~SharedGroup();

  int64_t rank() const noexcept { return options_.rank; }
  int64_t size() const noexcept { return options_.size; }

  // ---- One call of this rank ----

  // What a call writes: copies of its inputs; results of folds as well, that others take, and
  // outputs that may be written past the caches; or its outputs alone, straight out of windows. The
  // choice of the stores goes by it.
  enum class Writes { kCopies, kResults, kLargeResults, kOutputs };
  // `bytes`: how large the payload is.
  void Begin(const CollectiveCall& call, size_t bytes, Writes writes = Writes::kCopies);
  // The same of a call that is like an earlier one, of which this is the header.
  // `through_cache`: the choice of the stores has been made.
  void BeginKnown(const CollectiveCall& call, const SharedHeaderForm& header, size_t bytes,
                  bool through_cache) {
    call_ = &call;
    sequence_ = call.sequence;
    SetHeader(header);
    if (through_cache) {
      stores_ = SharedStores::kThroughCaches;
      timed_ = false;
    } else {
      ChooseStores({call.header.op, bytes});
    }
  }
  // After either, on all ranks or on none: a small payload begins at such a multiple of the entry.
  void AlignPayload(size_t alignment) noexcept {
    payload_offset_ = (payload_offset_ + alignment - 1) / alignment * alignment;
  }
  // Where a small payload lies: behind the header, in an entry. Of peers after Meet.
  size_t inline_room() const noexcept { return SharedEntry::kBytes - payload_offset_; }
  std::byte* inline_payload(int64_t rank) const noexcept {
    return reinterpret_cast<std::byte*>(&layout_.entry(rank, sequence_)) + payload_offset_;
  }
  // Where a large one lies: SharedLayout::kBlockBytes.
  std::byte* block(int64_t rank) const noexcept { return layout_.block(rank, sequence_); }
  // Whether two ranks swap the blocks of what both copy in for the other (SharedLayout::copies).
  // Not those of a call of many tensors: a peer whose tensors lie in its window may write where
  // they lie to its own block, if its entry has no room for that (shared_direct.h).
  bool SwapsCopies() const noexcept {
    return size() == 2 && call_->header.num_tensors <= kMostSwappedTensors;
  }
  static constexpr size_t kMostSwappedTensors = 256;
  // From so many bytes on; less travels with the entries, which are not swapped.
  static constexpr int64_t kSwappedFrom = 256;
  // Where one lies that all copy in for their peers, who only read it; `round`: how often the call
  // has gone round the block. The block, if they are not swapped.
  std::byte* copies(int64_t rank, int64_t round = 0) const noexcept {
    return SwapsCopies() ? layout_.copies(rank, sequence_, round) : block(rank);
  }
  // Of this rank in the next call, if that is like this one.
  const std::byte* NextInlined() const noexcept {
    return reinterpret_cast<const std::byte*>(&layout_.entry(rank(), sequence_ + 1)) +
           payload_offset_;
  }
  // Whether this call had better write what others read past the caches.
  bool stores_past_cache() const noexcept { return stores_ == SharedStores::kPastCaches; }
  bool writes_all_through_caches() const noexcept {
    return stores_ == SharedStores::kAllThroughCaches;
  }
  // Whether a rank writes what it folds where the others have copied its inputs, each into its own
  // block. Of peers after Meet.
  bool HasResultsInInputs(int64_t of) const noexcept {
    if (of == rank()) return stores_ >= SharedStores::kResultsInInputs;
    return (layout_.entry(of, sequence_).fold & SharedEntry::kResultsInInputs) != 0;
  }
  // After Meet: whether any rank wants the fold to be checked (fold_check.h).
  bool FoldIsChecked() const noexcept {
    bool checked = false;
    for (int64_t peer = 0; peer < size(); ++peer) {
      checked = checked || (layout_.entry(peer, sequence_).fold & SharedEntry::kChecksFold) != 0;
    }
    return checked;
  }
  // The call for messages.
  CallLabel Label() const {
    return CallLabel{NamedSequence(), options_.epoch, &options_.name, &options_.names};
  }
  // Copies into this rank's part of the segment.
  void CopyIn(std::byte* to, const void* from, size_t bytes) const noexcept;

  // Of a call without payload that stands for one that is uneven: the size that its header leaves
  // out, for messages.
  void ShowUnevenSize() noexcept;
  // This rank has arrived: step 0. What it has written so far can be read by all.
  void Arrive();
  // Waits until all have arrived, and compares their headers. Whoever has shown a window has copied
  // its payload by then.
  Status Meet();
  // This rank has done its part of `step`.
  void Advance(uint64_t step) { Raise(arrival_ + step); }
  // Waits until `who` has done its part of `step`.
  Status Await(uint64_t step, int64_t who = kAll) {
    return HasReached(arrival_ + step, who) ? OkStatus() : AwaitSlowly(arrival_ + step, who);
  }
  // The call has succeeded; no rank goes beyond `last_step` in it.
  void Finish(uint64_t last_step);

  // ---- Calls straight out of windows: shared_direct.h ----

  const SharedWindows& windows() const noexcept { return options_.windows; }
  // Whether all ranks are there and can read each other's windows.
  bool AllReadWindows() noexcept;
  // Before Arrive: this rank's tensors lie in its window, and the payload says where. `ways`: bits
  // of the ways in which they let the call be done, not 0.
  void ShowWindow(uint32_t ways) noexcept { window_ = static_cast<uint16_t>(ways); }
  // Meet for a rank that has shown a window, or waits for what `giver` shows: the ways that all
  // have shown, or the giver. If 0, the call begins anew through the segment: Begin, payload,
  // Arrive, Meet.
  Status MeetDirect(int64_t giver, uint32_t* ways);
  // After reading windows of others, before the step that says so: the failure of the epoch, if
  // there is one. A rank that gives the call up ends the epoch first; then its caller may write and
  // free its tensors, and what was read may be anything.
  Status ConfirmRead() const;

  // ---- A call between two ranks: shared_transfer.cc ----

  Status Transfer(CollectiveCall* call);

  // A peer has written what it cannot have meant: ends the epoch.
  Status FailPeer(int64_t peer, std::string_view what);

  // ---- The epoch, for Transport ----

  Status Fail(Status error);
  Status failure() const;
  bool HasFailed() const noexcept {
    return control_.failed_rank_plus_one.load(std::memory_order_acquire) != 0;
  }
  void Leave(Status reason);
  bool HasLeft(int64_t rank) const noexcept { return layout_.slot(rank).left.load() != 0; }

 private:
  // What a rank sleeps for.
  class Wait {
   public:
    virtual ~Wait() = default;
    virtual bool Reached() const noexcept = 0;
    // It will not be reached, because who is missing makes no more calls.
    virtual bool PeerLeft() const noexcept = 0;
    // Who brings it about shall wake this rank from now on, until Unpark.
    virtual void Park() noexcept = 0;
    virtual void Unpark() noexcept = 0;
    // The error to end the epoch with, because the wait ended with `wait_status` (OK: a peer left).
    // OK when it has been reached after all.
    virtual Status Error(Status wait_status, int64_t waited_ns) = 0;
    // Whether who is waited for waits for this rank in another call, so that neither ever comes to
    // the other's. Looked at before every sleep.
    virtual Status CheckOrder() const { return OkStatus(); }
    virtual std::string Describe() const = 0;
  };
  class Sleeper;
  class ProgressWait;
  class TransferWait;

  SharedGroup(Ref<Environment> environment, Ref<SharedSegment> segment,
              SharedGroupOptions options);

  void SetHeader(const SharedHeaderForm& header) noexcept;
  // How the call writes what others read, and whether it is timed.
  void ChooseStores(const SharedStoreChoice::Kind& kind) {
    store_kind_ = kind;
    stores_ = store_choice_.Choose(kind);
    timed_ = store_choice_.IsTimed(kind);
    if (timed_) BeginTiming();
  }
  void BeginTiming();

  SharedEntry& OwnEntry() const noexcept { return layout_.entry(rank(), sequence_); }
  bool HasReached(uint64_t progress, int64_t who) const noexcept {
    if (who != kAll) return layout_.entry(who, sequence_).progress.load() >= progress;
    for (int64_t peer = 0; peer < size(); ++peer) {
      if (layout_.entry(peer, sequence_).progress.load() < progress) return false;
    }
    return true;
  }
  bool MissingPeerLeft(uint64_t progress, int64_t who) const noexcept;

  // Whether sleepers can make the fence for this process.
  static bool RegisterForFences();
  // Raises the rank's progress and wakes who sleeps until it is raised.
  void Raise(uint64_t progress) noexcept;
  void WakeWhoWaits(uint64_t progress) noexcept;
  void Wake(int64_t rank) noexcept;
  void WakeAll() noexcept;

  Status AwaitSlowly(uint64_t progress, int64_t who);
  Status Sleep(Wait& wait, int64_t start_ns);
  // OK, or why the call may not wait on.
  Status CheckWait(std::string_view what, int64_t start_ns, int64_t* next_poll_ns) const;
  Status WaitError(uint64_t progress, int64_t who, Status wait_status, int64_t waited_ns) const;
  RankPosition PositionOf(int64_t rank) const;
  std::vector<RankPosition> Positions(uint64_t progress, int64_t who) const;
  std::string NameOf(int64_t rank) const;

  Status Send(const CollectiveCall& call, SharedChannel& channel);
  Status Receive(CollectiveCall* receive, SharedChannel& channel);
  Status AwaitInChannel(const CollectiveCall& call, SharedChannel& channel,
                        const std::atomic<uint64_t>& word, uint64_t value, int64_t spin_ns);
  // Wakes `peer` when it `sleeps` until `word` has the value.
  void RaiseInChannel(std::atomic<uint64_t>& word, uint64_t value,
                      const std::atomic<uint32_t>& sleeps, int64_t peer) noexcept;
  // The sender gives up. False when the transfer has happened.
  bool Withdraw(const CollectiveCall& call, SharedChannel& channel) noexcept;
  RankPosition PeerPosition(int64_t peer) const;
  Status CheckTransferOrder(const CollectiveCall& call) const;
  Status TransferError(const CollectiveCall& call, Status wait_status, int64_t waited_ns) const;
  Status LeaveReason(int64_t rank) const;

  Status CompareHeaders();
  bool HasOwnHeader(int64_t peer) const noexcept;
  bool ShowsWindow(int64_t rank) const noexcept {
    return layout_.entry(rank, sequence_).window != 0;
  }
  bool SameHeader(int64_t rank, int64_t other) const noexcept;
  Status DescribeMismatch() const;
  Result<CallHeader> HeaderOf(int64_t rank, bool* complete, size_t* whole_num_tensors) const;

  Status LoadFailure() const;  // failure_mutex_ is held
  int64_t Name(int64_t rank) const {
    return options_.names.empty() ? rank : options_.names[static_cast<size_t>(rank)];
  }
  // The call as messages name it.
  CollectiveOp NamedOp() const { return call_->named().header.op; }
  int64_t NamedSequence() const { return call_->named().sequence; }

  const Ref<Environment> environment_;
  const Ref<SharedSegment> segment_;
  const SharedGroupOptions options_;
  const SharedLayout layout_;
  SharedControl& control_;
  bool light_raise_ = false;  // sleepers make the fence
  bool all_read_windows_ = false;
  SharedStoreChoice store_choice_;
  SpinWait spin_;

  // Of the call that runs.
  const CollectiveCall* call_ = nullptr;
  int64_t sequence_ = 0;
  uint64_t arrival_ = 1;  // the progress of step 0; a rank that has made no call has 0
  uint64_t call_word_ = 0;
  SharedHeaderForm encoded_;
  const SharedHeaderForm* header_ = &encoded_;
  size_t payload_offset_ = 0;
  SharedStoreChoice::Kind store_kind_;
  uint16_t window_ = 0;
  bool goes_on_ = false;  // through the segment, after it has met once
  SharedStores stores_ = SharedStores::kThroughCaches;
  bool timed_ = false;
  int64_t start_ns_ = 0;
  int64_t waited_ns_ = 0;

  mutable std::mutex failure_mutex_;  // guards all below, and writing the slot's statuses
  mutable Status failure_;
  bool failure_written_ = false;
  bool left_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_GROUP_H_
