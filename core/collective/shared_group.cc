#include "core/collective/shared_group.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/collective/shared_header.h"
#include "core/collective/streaming_copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti {
namespace {

constexpr int kOperationBits = 5;
constexpr int kWhoBits = 9;
static_assert(kSharedMaxRanks < (1 << kWhoBits));
constexpr size_t kPayloadAlignment = 16;

// A peer that has not come may be late by anything; one that has come is busy copying.
constexpr int64_t kSpinForArrivalNs = 20'000;
constexpr int64_t kSpinForStepNs = 200'000;
constexpr int kRoundsPerClockRead = 64;
// Ranks that share a core meet faster when they offer it before they sleep. But a core that others
// compete for comes back a time slice later, while who sleeps is preferred when it is woken.
constexpr int kYieldRounds = 64;
constexpr int64_t kLongYieldNs = 200'000;
constexpr int kLeastWaitsWithoutYield = 64;
constexpr int kMostWaitsWithoutYield = 8192;

constexpr int64_t kLongestSleepNs = Cancellation::kPollIntervalNs;
// Where the fence is missing that makes sure of being woken.
constexpr int64_t kUnfencedSleepNs = kMillisecondNs;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

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

uint64_t CallWord(int64_t sequence, CollectiveOp op) {
  return static_cast<uint64_t>(sequence) << kOperationBits | static_cast<uint64_t>(op);
}
int64_t SequenceOf(uint64_t call_word) { return static_cast<int64_t>(call_word >> kOperationBits); }
CollectiveOp OperationOf(uint64_t call_word) {
  const uint64_t number = call_word & ((1u << kOperationBits) - 1);
  return number <= static_cast<uint64_t>(kLastCollectiveOp) ? static_cast<CollectiveOp>(number)
                                                            : CollectiveOp::kNone;
}

uint64_t ParkedWord(uint64_t progress, int64_t who) {
  return progress << kWhoBits | static_cast<uint64_t>(who + 1);
}

// As many bytes of a header as lie in the entry.
size_t ShownHeaderBytes(size_t header_bytes) {
  return std::min(header_bytes, SharedEntry::kHeaderRoomBytes);
}

// Where the payload begins: behind the header, or what is shown of it and its hash.
size_t PayloadOffset(size_t header_bytes) {
  size_t end = sizeof(SharedEntry) - SharedEntry::kRoomBytes + ShownHeaderBytes(header_bytes);
  if (header_bytes > ShownHeaderBytes(header_bytes)) end += sizeof(uint64_t);
  return (end + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

void WriteStatus(const Status& status, SharedStatus* room) {
  std::string text;
  AppendStatus(status, &text);
  const size_t bytes = std::min(text.size(), sizeof(room->text));
  std::memcpy(room->text, text.data(), bytes);
  room->bytes = static_cast<uint32_t>(bytes);
}

Status ReadStatus(const SharedStatus& room) {
  const size_t bytes = std::min<size_t>(room.bytes, sizeof(room.text));
  return ParseStatus(std::string(room.text, bytes));
}

}  // namespace

SharedGroup::SharedGroup(Ref<Environment> environment, Ref<SharedSegment> segment,
                         SharedGroupOptions options)
    : environment_(std::move(environment)),
      segment_(std::move(segment)),
      options_(std::move(options)),
      layout_(segment_->contents(), options_.size),
      control_(layout_.control()),
      store_choice_(control_, options_.rank == 0 && options_.size > 1) {
  next_waits_without_yield_ = kLeastWaitsWithoutYield;
  light_raise_ = options_.spin && Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

SharedGroup::~SharedGroup() = default;

Result<std::unique_ptr<SharedGroup>> SharedGroup::Create(Ref<Environment> environment,
                                                         Ref<SharedSegment> segment,
                                                         SharedGroupOptions options) {
  const int64_t size = options.size;
  const int64_t rank = options.rank;
  if (size < 1 || size > kSharedMaxRanks || rank < 0 || rank >= size) {
    return InvalidArgument("shared group {}: rank {} of {}; pass a rank in [0, size) and a size of "
                           "at most {}",
                           options.name, rank, size, kSharedMaxRanks);
  }
  if (environment->clock().is_virtual()) {
    return Unimplemented("shared group {}: ranks wait for each other in real time; a simulation "
                         "has another",
                         options.name);
  }
  if (segment->bytes() != SharedLayout::SegmentBytes(size)) {
    return FailedPrecondition(
        "shared group {}: the segment holds {} bytes, {} ranks take {}; make it of "
        "SharedTransport::SegmentBytes of the group's size",
        options.name, segment->bytes(), size, SharedLayout::SegmentBytes(size));
  }
  std::unique_ptr<SharedGroup> group(
      new SharedGroup(std::move(environment), std::move(segment), std::move(options)));
  const auto epoch = static_cast<uint64_t>(group->options_.epoch) + 1;
  uint64_t found = 0;
  if (!group->control_.epoch_plus_one.compare_exchange_strong(found, epoch) && found != epoch) {
    return FailedPrecondition("shared group {}: the segment belongs to epoch {}, rank {} is in "
                              "epoch {}; make a segment for each",
                              group->options_.name, found - 1, rank, epoch - 1);
  }
  if (group->layout_.slot(rank).taken.exchange(1) != 0) {
    return FailedPrecondition("shared group {}: rank {} has been taken already; a rank joins a "
                              "segment once",
                              group->options_.name, rank);
  }
  return group;
}

// ---- One call ----

void SharedGroup::Begin(const CollectiveCall& call, size_t bytes) {
  call_ = &call;
  sequence_ = call.sequence;
  call_word_ = CallWord(call.sequence, call.header.op);
  EncodeSharedHeader(call.header, &header_);
  payload_offset_ = PayloadOffset(header_.size());
  payload_bytes_ = bytes;
  past_cache_ = store_choice_.PastCache(call.header.op, bytes);
  timed_ = store_choice_.IsTimed(bytes);
  if (timed_) {
    start_ns_ = environment_->clock().NowNs();
    waited_ns_ = 0;
  }
}

void SharedGroup::CopyIn(std::byte* to, const void* from, size_t bytes) const noexcept {
  if (past_cache_) {
    StreamingCopy(to, from, bytes);
  } else if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

void SharedGroup::Arrive() {
  SharedEntry& entry = OwnEntry();
  const size_t shown = ShownHeaderBytes(header_.size());
  // A peer that has arrived keeps reading this cache line: the stores go out in one go.
  entry.call.store(call_word_, std::memory_order_relaxed);
  entry.header_bytes = static_cast<uint32_t>(header_.size());
  std::memcpy(entry.room, header_.data(), shown);
  if (header_.size() > shown) {
    const uint64_t hash = HashSharedHeader(header_);
    std::memcpy(entry.room + shown, &hash, sizeof(hash));
  }
  Raise(arrival_);
}

Status SharedGroup::Meet() {
  TUTTI_RETURN_IF_ERROR(Await(0));
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (peer != rank() && !SameHeader(peer, rank())) return Fail(DescribeMismatch());
  }
  return OkStatus();
}

void SharedGroup::Finish(uint64_t last_step) {
  arrival_ += last_step + 1;
  if (!timed_) return;
  const int64_t took_ns = environment_->clock().NowNs() - start_ns_;
  store_choice_.Note(call_->header.op, payload_bytes_, took_ns - waited_ns_);
}

bool SharedGroup::SameHeader(int64_t rank, int64_t other) const noexcept {
  const SharedEntry& a = layout_.entry(rank, sequence_);
  const SharedEntry& b = layout_.entry(other, sequence_);
  const size_t bytes = b.header_bytes;
  if (a.call.load(std::memory_order_relaxed) != b.call.load(std::memory_order_relaxed) ||
      a.header_bytes != bytes) {
    return false;
  }
  const size_t shown = ShownHeaderBytes(bytes);
  return std::memcmp(a.room, b.room, bytes == shown ? shown : shown + sizeof(uint64_t)) == 0;
}

Result<CallHeader> SharedGroup::HeaderOf(int64_t rank, bool* complete,
                                         size_t* whole_num_tensors) const {
  const SharedEntry& entry = layout_.entry(rank, sequence_);
  const uint64_t call_word = entry.call.load(std::memory_order_relaxed);
  const CollectiveOp op = OperationOf(call_word);
  if (SequenceOf(call_word) != sequence_ || op == CollectiveOp::kNone) {
    return Internal("it is in call #{} of operation {}, the others in call #{}",
                    SequenceOf(call_word), CollectiveOpName(op), sequence_);
  }
  const size_t bytes = entry.header_bytes;
  const size_t shown = ShownHeaderBytes(bytes);
  *complete = bytes == shown;
  TUTTI_ASSIGN_OR_RETURN(CallHeader header,
                         DecodeSharedHeader(op, std::span(entry.room, shown), *complete,
                                            whole_num_tensors));
  const auto axis = static_cast<size_t>(header.axis);
  if (header.uneven && axis < header.first.dims.size()) {
    // The payload begins with the size that the header leaves out.
    std::memcpy(&header.first.dims[axis],
                reinterpret_cast<const std::byte*>(&entry) + PayloadOffset(bytes), sizeof(int64_t));
  }
  return header;
}

Status SharedGroup::DescribeMismatch() const {
  // Every rank reads the same memory, so that all describe the same difference.
  std::vector<CallHeader> headers;
  std::vector<size_t> counts;
  bool all_complete = true;
  for (int64_t r = 0; r < size(); ++r) {
    bool complete = false;
    size_t count = 0;
    Result<CallHeader> header = HeaderOf(r, &complete, &count);
    if (!header.ok()) {
      return WithCallDetails(std::move(header).status().WithPrefix(
                                 Format("rank {}: call #{}", r, sequence_)),
                             r, call_->header.op, Label());
    }
    headers.push_back(std::move(header).value());
    counts.push_back(count);
    all_complete = all_complete && complete;
  }
  if (!all_complete) {
    // Of long lists only the beginnings are here.
    for (size_t r = 1; r < headers.size(); ++r) {
      if (counts[r] == counts[0] || headers[r].op != headers[0].op) continue;
      const auto rank = static_cast<int64_t>(r);
      return WithCallDetails(
                 InvalidArgument("rank {}: {} #{} got {} tensors, rank 0 sent {}; pass as many on "
                                 "all ranks",
                                 rank, CollectiveOpName(headers[r].op), sequence_, counts[r],
                                 counts[0]),
                 rank, headers[r].op, Label())
          .With("peer", 0);
    }
    size_t least = headers[0].num_tensors;
    for (const CallHeader& header : headers) least = std::min(least, header.num_tensors);
    for (CallHeader& header : headers) header.num_tensors = least;
  }
  std::vector<const CallHeader*> pointers;
  for (const CallHeader& header : headers) pointers.push_back(&header);
  Status status = CheckSameCall(pointers, Label());
  if (!status.ok()) return status;
  // What is shown of the lists is equal; some hash is another.
  for (int64_t r = 1; r < size(); ++r) {
    if (SameHeader(r, 0)) continue;
    return WithCallDetails(
               InvalidArgument("rank {}: {} #{}: its {} tensors differ from those of rank 0 after "
                               "the first {}; dtype and shape must be the same on all ranks",
                               r, CollectiveOpName(headers[0].op), sequence_, counts[0],
                               headers[0].num_tensors),
               r, headers[0].op, Label())
        .With("peer", 0);
  }
  return Internal("{} #{}: headers that differed are equal now", CollectiveOpName(headers[0].op),
                  sequence_);
}

Status SharedGroup::FailPeer(int64_t peer, std::string_view what) {
  Status error = Internal("{}: {} #{}: {}", NameOf(peer), CollectiveOpName(call_->header.op),
                          sequence_, what);
  error = WithCallDetails(std::move(error), rank(), call_->header.op, Label());
  return Fail(std::move(error).With("peer", peer));
}

// ---- Progress ----

bool SharedGroup::HasReached(uint64_t progress, int64_t who) const noexcept {
  if (who != kAll) return layout_.entry(who, sequence_).progress.load() >= progress;
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (layout_.entry(peer, sequence_).progress.load() < progress) return false;
  }
  return true;
}

bool SharedGroup::MissingPeerLeft(uint64_t progress, int64_t who) const noexcept {
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (who != kAll && peer != who) continue;
    // Who has left may have come as far before: the flag first, then the progress.
    if (layout_.slot(peer).left.load() != 0 && !HasReached(progress, peer)) return true;
  }
  return false;
}

void SharedGroup::Raise(uint64_t progress) noexcept {
  if (past_cache_) StreamingFence();
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

bool SharedGroup::SpinUntil(uint64_t progress, int64_t who) noexcept {
  const Clock& clock = environment_->clock();
  if (options_.spin) {
    const int64_t until_ns = clock.NowNs() + (progress == arrival_ ? kSpinForArrivalNs
                                                                   : kSpinForStepNs);
    for (int round = 1;; ++round) {
      if (HasReached(progress, who)) return true;
      Pause();
      if (round % kRoundsPerClockRead != 0) continue;
      if (HasFailed()) return false;
      if (clock.NowNs() >= until_ns) break;
    }
  }
  if (waits_without_yield_ > 0) {
    --waits_without_yield_;
    return HasReached(progress, who);
  }
  int64_t yielded_ns = clock.NowNs();
  for (int round = 0; round < kYieldRounds; ++round) {
    if (HasReached(progress, who)) {
      next_waits_without_yield_ = kLeastWaitsWithoutYield;
      return true;
    }
    if (HasFailed()) return false;
    sched_yield();
    const int64_t now_ns = clock.NowNs();
    if (now_ns - yielded_ns >= kLongYieldNs) {
      waits_without_yield_ = next_waits_without_yield_;
      next_waits_without_yield_ = std::min(2 * next_waits_without_yield_, kMostWaitsWithoutYield);
      return HasReached(progress, who);
    }
    yielded_ns = now_ns;
  }
  next_waits_without_yield_ = kLeastWaitsWithoutYield;
  return HasReached(progress, who);
}

Status SharedGroup::AwaitSlowly(uint64_t progress, int64_t who) {
  if (!timed_ && SpinUntil(progress, who)) return OkStatus();
  const int64_t start_ns = environment_->clock().NowNs();
  if (timed_ && SpinUntil(progress, who)) {
    waited_ns_ += environment_->clock().NowNs() - start_ns;
    return OkStatus();
  }
  Status status = Sleep(progress, who, start_ns);
  waited_ns_ += environment_->clock().NowNs() - start_ns;
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

Status SharedGroup::Sleep(uint64_t progress, int64_t who, int64_t start_ns) {
  const Clock& clock = environment_->clock();
  std::atomic<uint32_t>& wake_ups = layout_.slot(rank()).wake_ups;
  std::atomic<uint64_t>& parked = control_.parked[static_cast<size_t>(rank())];
  const std::string what = Format("{} #{}", CollectiveOpName(call_->header.op), sequence_);
  Cancellation* const cancellation = call_->options.cancellation;
  uint64_t listener = 0;
  if (cancellation != nullptr) listener = cancellation->AddListener([this] { Wake(rank()); });

  bool logged = false;
  int64_t next_poll_ns = start_ns;
  Status result;
  while (true) {
    const uint32_t seen_wake_ups = wake_ups.load();
    parked.store(ParkedWord(progress, who));
    const bool fenced = !options_.spin || Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    Status wait_status;
    if (!HasReached(progress, who) && !HasFailed() && !MissingPeerLeft(progress, who)) {
      wait_status = CheckWait(what, start_ns, &next_poll_ns);
      if (wait_status.ok()) {
        int64_t sleep_ns = fenced ? kLongestSleepNs : kUnfencedSleepNs;
        sleep_ns = std::min(sleep_ns, call_->options.deadline.RemainingNs(clock));
        FutexWait(&wake_ups, seen_wake_ups, sleep_ns);
      }
    }
    parked.store(0, std::memory_order_relaxed);

    if (HasReached(progress, who)) break;
    if (HasFailed()) {
      result = failure();
      break;
    }
    const int64_t waited_ns = clock.NowNs() - start_ns;
    if (!wait_status.ok() || MissingPeerLeft(progress, who)) {
      Status error = WaitError(progress, who, std::move(wait_status), waited_ns);
      if (error.ok()) continue;
      result = Fail(std::move(error));
      break;
    }
    if (!logged && waited_ns >= kLogWaitNs) {
      logged = true;
      environment_->log().Warning(Format(
          "communicator {}: rank {} has waited {} in {}: {}", options_.name, rank(),
          HumanDuration(kLogWaitNs), what, DescribePositions(Positions(progress, who))));
    }
  }
  if (cancellation != nullptr) cancellation->RemoveListener(listener);
  return result;
}

std::string SharedGroup::NameOf(int64_t rank) const {
  const std::string who = options_.describe_peer ? options_.describe_peer(rank) : "";
  return who.empty() ? Format("rank {}", rank) : Format("rank {} ({})", rank, who);
}

std::vector<RankPosition> SharedGroup::Positions(uint64_t progress, int64_t who) const {
  std::vector<RankPosition> positions;
  for (int64_t r = 0; r < size(); ++r) {
    const SharedEntry* entry = &layout_.entry(r, 0);
    const SharedEntry* other = &layout_.entry(r, 1);
    if (other->progress.load() > entry->progress.load()) entry = other;
    RankPosition position;
    position.rank = r;
    position.arrived = (who != kAll && r != who) || HasReached(progress, r);
    if (entry->progress.load() != 0) {
      const uint64_t call_word = entry->call.load(std::memory_order_relaxed);
      position.last_op = OperationOf(call_word);
      position.last_sequence = SequenceOf(call_word);
      position.in_call = HasReached(arrival_, r);
    }
    if (options_.describe_peer) position.who = options_.describe_peer(r);
    positions.push_back(std::move(position));
  }
  return positions;
}

Status SharedGroup::WaitError(uint64_t progress, int64_t who, Status wait_status,
                              int64_t waited_ns) const {
  const std::vector<RankPosition> positions = Positions(progress, who);
  const char* op = CollectiveOpName(call_->header.op);
  int64_t missing = -1;
  for (const RankPosition& position : positions) {
    if (!position.arrived && missing < 0) missing = position.rank;
  }
  if (missing < 0) return OkStatus();
  Status error;
  if (wait_status.ok()) {
    for (const RankPosition& position : positions) {
      const SharedSlot& slot = layout_.slot(position.rank);
      if (position.arrived || slot.left.load() == 0) continue;
      missing = position.rank;
      const Status reason = ReadStatus(slot.leave_reason);
      error = Status(reason.code(), Format("rank {}: {} #{} needs {}: {}", rank(), op, sequence_,
                                           NameOf(missing), reason.message()))
                  .WithCause(reason);
      break;
    }
    if (error.ok()) return OkStatus();
  } else if (wait_status.code() == StatusCode::kDeadlineExceeded) {
    error = DeadlineExceeded("rank {}: {} #{} waited {} for {}", rank(), op, sequence_,
                             HumanDuration(waited_ns), DescribeMissing(positions));
  } else {
    error = std::move(wait_status)
                .WithPrefix(
                    Format("rank {}: while it waited for {}", rank(), DescribeMissing(positions)));
  }
  error = WithCallDetails(std::move(error), rank(), call_->header.op, Label());
  return std::move(error).With("peer", missing);
}

// ---- The epoch ----

Status SharedGroup::LoadFailure() const {
  const uint32_t word = control_.failed_rank_plus_one.load(std::memory_order_acquire);
  if (word == 0) return OkStatus();
  if (!failure_.ok()) return failure_;
  const auto failed = static_cast<int64_t>(word) - 1;
  if (failed >= size()) {
    failure_ = Internal("communicator {}: the epoch was ended by rank {} of {}", options_.name,
                        failed, size());
  } else {
    failure_ = ReadStatus(layout_.slot(failed).failure);
  }
  return failure_;
}

Status SharedGroup::Fail(Status error) {
  Status first;
  {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (!failure_written_ && !HasFailed()) {
      failure_written_ = true;
      WriteStatus(error, &layout_.slot(rank()).failure);
      uint32_t none = 0;
      const auto mine = static_cast<uint32_t>(rank() + 1);
      // With a host object, which stays on this side.
      if (control_.failed_rank_plus_one.compare_exchange_strong(none, mine)) {
        failure_ = std::move(error);
      }
    }
    first = LoadFailure();
  }
  WakeAll();
  return first;
}

Status SharedGroup::failure() const {
  if (!HasFailed()) return OkStatus();
  std::lock_guard<std::mutex> lock(failure_mutex_);
  return LoadFailure();
}

void SharedGroup::Leave(Status reason) {
  {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (left_) return;
    left_ = true;
    SharedSlot& slot = layout_.slot(rank());
    WriteStatus(reason, &slot.leave_reason);
    slot.left.store(1);
  }
  WakeAll();
}

}  // namespace tutti
