// How the ranks of a shared group wait for each other, and what they say when it was in vain.

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/collective/call/streaming_copy.h"
#include "core/collective/shm/shared_group.h"

namespace tutti {
namespace {

constexpr int kWhoBits = 9;
static_assert(kSharedMaxRanks < (1 << kWhoBits));

constexpr int64_t kLongestSleepNs = Cancellation::kPollIntervalNs;
// Where the fence is missing that makes sure of being woken.
constexpr int64_t kUnfencedSleepNs = kMillisecondNs;

bool Membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(timeout_ns / kSecondNs);
  timeout.tv_nsec = static_cast<long>(timeout_ns % kSecondNs);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

uint64_t ParkedWord(uint64_t progress, int64_t who) {
  return progress << kWhoBits | static_cast<uint64_t>(who + 1);
}

}  // namespace

// Waits for the progress of others in a call of all.
class SharedGroup::ProgressWait final : public SharedGroup::Wait {
 public:
  ProgressWait(SharedGroup& group, uint64_t progress, int64_t who)
      : group_(group), progress_(progress), who_(who) {}

  bool Reached() const noexcept override { return group_.HasReached(progress_, who_); }
  bool PeerLeft() const noexcept override { return group_.MissingPeerLeft(progress_, who_); }
  void Park() noexcept override { Parked().store(ParkedWord(progress_, who_)); }
  void Unpark() noexcept override { Parked().store(0, std::memory_order_relaxed); }
  Status Error(Status wait_status, int64_t waited_ns) override {
    return group_.WaitError(progress_, who_, std::move(wait_status), waited_ns);
  }
  std::string Describe() const override {
    return DescribePositions(group_.Positions(progress_, who_));
  }

 private:
  std::atomic<uint64_t>& Parked() const noexcept {
    return group_.control_.parked[static_cast<size_t>(group_.rank())];
  }

  SharedGroup& group_;
  const uint64_t progress_;
  const int64_t who_;
};

// A rank that sleeps, until it goes, by an exception as well: then nobody wakes it any more.
class SharedGroup::Sleeper {
 public:
  Sleeper(SharedGroup& group, Wait& wait, Cancellation* cancellation)
      : wait_(wait), cancellation_(cancellation) {
    if (cancellation_ == nullptr) return;
    listener_ = cancellation_->AddListener([&group] { group.Wake(group.rank()); });
  }
  ~Sleeper() {
    wait_.Unpark();
    if (cancellation_ != nullptr) cancellation_->RemoveListener(listener_);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  Wait& wait_;
  Cancellation* const cancellation_;
  uint64_t listener_ = 0;
};

bool SharedGroup::RegisterForFences() {
  return Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

// ---- Progress ----

bool SharedGroup::MissingPeerLeft(uint64_t progress, int64_t who) const noexcept {
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (who != kAll && peer != who) continue;
    // Who has left may have come as far before: the flag first, then the progress.
    if (layout_.slot(peer).left.load() != 0 && !HasReached(progress, peer)) return true;
  }
  return false;
}

void SharedGroup::Raise(uint64_t progress) noexcept {
  if (stores_past_cache()) StreamingFence();
  std::atomic<uint64_t>& own = OwnEntry().progress;
  bool somebody_sleeps = false;
  if (light_raise_) {
    own.store(progress, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (int64_t peer = 0; peer < size(); ++peer) {
      somebody_sleeps |= control_.parked[static_cast<size_t>(peer)].load(
                             std::memory_order_relaxed) != 0;
    }
    if (!somebody_sleeps) return;
    // Of two ranks that raise their progress now, one at least must see both.
    own.store(progress);
  } else {
    own.store(progress);
    for (int64_t peer = 0; peer < size(); ++peer) {
      somebody_sleeps |= control_.parked[static_cast<size_t>(peer)].load() != 0;
    }
    if (!somebody_sleeps) return;
  }
  WakeWhoWaits(progress);
}

void SharedGroup::WakeWhoWaits(uint64_t progress) noexcept {
  for (int64_t peer = 0; peer < size(); ++peer) {
    const uint64_t parked = control_.parked[static_cast<size_t>(peer)].load();
    if (parked == 0 || peer == rank()) continue;
    const uint64_t wanted = parked >> kWhoBits;
    const auto who = static_cast<int64_t>(parked & ((1u << kWhoBits) - 1)) - 1;
    // The last one whom the sleeper waits for wakes it.
    if (progress >= wanted && (who == rank() || (who == kAll && HasReached(wanted, kAll)))) {
      Wake(peer);
    }
  }
}

void SharedGroup::Wake(int64_t rank) noexcept {
  std::atomic<uint32_t>& word = layout_.slot(rank).wake_ups;
  word.fetch_add(1);
  FutexWake(&word);
}

void SharedGroup::WakeAll() noexcept {
  for (int64_t rank = 0; rank < size(); ++rank) Wake(rank);
}

// ---- Waiting ----

Status SharedGroup::AwaitSlowly(uint64_t progress, int64_t who) {
  const auto spin = [&] {
    return spin_.Until([&] { return HasReached(progress, who); }, [&] { return HasFailed(); },
                       progress == arrival_ ? SpinWait::kForArrivalNs : SpinWait::kForStepNs);
  };
  if (!timed_ && spin()) return OkStatus();
  const int64_t start_ns = environment_->clock().NowNs();
  Status status;
  if (!timed_ || !spin()) {
    ProgressWait wait(*this, progress, who);
    status = Sleep(wait, start_ns);
  }
  // Once all have come, what a rank waits for comes as late as the way of writing makes it.
  if (progress == arrival_) waited_ns_ += environment_->clock().NowNs() - start_ns;
  return status;
}

Status SharedGroup::CheckWait(std::string_view what, int64_t start_ns,
                              int64_t* next_poll_ns) const {
  const Clock& clock = environment_->clock();
  Cancellation* const cancellation = call_->options.cancellation;
  if (cancellation != nullptr) {
    if (cancellation->is_polled() && clock.NowNs() >= *next_poll_ns) {
      *next_poll_ns = clock.NowNs() + Cancellation::kPollIntervalNs;
      cancellation->PollNow();
    }
    if (cancellation->cancelled()) return cancellation->reason().WithPrefix(what);
  }
  if (call_->options.deadline.Expired(clock)) {
    const int64_t waited_ns = clock.NowNs() - start_ns;
    return DeadlineExceeded("{}: not done after {}", what, HumanDuration(waited_ns))
        .With("waited_ns", waited_ns);
  }
  return OkStatus();
}

Status SharedGroup::Sleep(Wait& wait, int64_t start_ns) {
  const Clock& clock = environment_->clock();
  std::atomic<uint32_t>& wake_ups = layout_.slot(rank()).wake_ups;
  const std::string what = Format("{} #{}", CollectiveOpName(NamedOp()), NamedSequence());
  const Sleeper sleeper(*this, wait, call_->options.cancellation);

  bool logged = false;
  int64_t next_poll_ns = start_ns;
  Status result;
  while (true) {
    const uint32_t seen_wake_ups = wake_ups.load();
    wait.Park();
    const bool fenced = !options_.spin || Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    Status wait_status;
    Status order;
    if (!wait.Reached() && !HasFailed() && !wait.PeerLeft()) {
      order = wait.CheckOrder();
      wait_status = CheckWait(what, start_ns, &next_poll_ns);
      if (wait_status.ok() && order.ok()) {
        int64_t sleep_ns = fenced ? kLongestSleepNs : kUnfencedSleepNs;
        sleep_ns = std::min(sleep_ns, call_->options.deadline.RemainingNs(clock));
        FutexWait(&wake_ups, seen_wake_ups, sleep_ns);
      }
    }
    wait.Unpark();

    if (wait.Reached()) break;
    if (HasFailed()) {
      result = failure();
      break;
    }
    if (!order.ok()) {
      result = Fail(std::move(order));
      break;
    }
    const int64_t waited_ns = clock.NowNs() - start_ns;
    if (!wait_status.ok() || wait.PeerLeft()) {
      Status error = wait.Error(std::move(wait_status), waited_ns);
      if (error.ok()) continue;
      result = Fail(std::move(error));
      break;
    }
    if (!logged && waited_ns >= kLogWaitNs) {
      logged = true;
      environment_->log().Warning(Format("communicator {}: rank {} has waited {} in {}: {}",
                                         options_.name, Name(rank()), HumanDuration(kLogWaitNs),
                                         what, wait.Describe()));
    }
  }
  return result;
}

std::string SharedGroup::NameOf(int64_t rank) const {
  const std::string who = options_.describe_peer ? options_.describe_peer(rank) : "";
  return who.empty() ? Format("rank {}", Name(rank)) : Format("rank {} ({})", Name(rank), who);
}

RankPosition SharedGroup::PositionOf(int64_t rank) const {
  const SharedEntry* entry = &layout_.entry(rank, 0);
  const SharedEntry* other = &layout_.entry(rank, 1);
  if (other->progress.load() > entry->progress.load()) entry = other;
  RankPosition position;
  position.rank = Name(rank);
  if (entry->progress.load() != 0) {
    const uint64_t call_word = entry->call.load(std::memory_order_relaxed);
    position.last_op = SharedCallWord::Operation(call_word);
    position.last_sequence = SharedCallWord::Sequence(call_word);
  }
  const uint64_t transfer = layout_.slot(rank).transfer.load();
  if (transfer != 0) {
    position.transfer = SharedTransferWord::IsSend(transfer) ? CollectiveOp::kSend
                                                             : CollectiveOp::kReceive;
    position.transfer_peer = SharedTransferWord::Peer(transfer);
  }
  if (options_.describe_peer) position.who = options_.describe_peer(rank);
  return position;
}

std::vector<RankPosition> SharedGroup::Positions(uint64_t progress, int64_t who) const {
  std::vector<RankPosition> positions;
  for (int64_t r = 0; r < size(); ++r) {
    RankPosition position = PositionOf(r);
    position.arrived = (who != kAll && r != who) || HasReached(progress, r);
    position.in_call = position.last_op != CollectiveOp::kNone && HasReached(arrival_, r);
    positions.push_back(std::move(position));
  }
  return positions;
}

Status SharedGroup::WaitError(uint64_t progress, int64_t who, Status wait_status,
                              int64_t waited_ns) const {
  const std::vector<RankPosition> positions = Positions(progress, who);
  const char* op = CollectiveOpName(NamedOp());
  int64_t missing = -1;
  for (const RankPosition& position : positions) {
    if (!position.arrived && missing < 0) missing = position.rank;
  }
  if (missing < 0) return OkStatus();
  Status error;
  if (wait_status.ok()) {
    for (int64_t peer = 0; peer < size(); ++peer) {
      const SharedSlot& slot = layout_.slot(peer);
      if (positions[static_cast<size_t>(peer)].arrived || slot.left.load() == 0) continue;
      missing = Name(peer);
      const Status reason = LeaveReason(peer);
      error = Status(reason.code(), Format("rank {}: {} #{} needs {}: {}", Name(rank()), op,
                                           NamedSequence(), NameOf(peer), reason.message()))
                  .WithCause(reason);
      break;
    }
    if (error.ok()) return OkStatus();
  } else if (wait_status.code() == StatusCode::kDeadlineExceeded) {
    error = DeadlineExceeded("rank {}: {} #{} waited {} for {}", Name(rank()), op,
                             NamedSequence(), HumanDuration(waited_ns),
                             DescribeMissing(positions));
  } else {
    error = std::move(wait_status)
                .WithPrefix(
                    Format("rank {}: while it waited for {}", Name(rank()),
                           DescribeMissing(positions)));
  }
  error = WithCallDetails(std::move(error), Name(rank()), NamedOp(), Label());
  return std::move(error).With("peer", missing);
}

}  // namespace tutti
