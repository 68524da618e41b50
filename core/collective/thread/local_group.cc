#include "core/collective/thread/local_group.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/collective/call/shared_header.h"

namespace tutti {
namespace {

constexpr uint64_t kPartedBit = 1u << 4;
constexpr uint64_t kOperationMask = kPartedBit - 1;
constexpr int kSequenceShift = 5;

// The entries of all ranks together keep so many bytes of copied input per parity, at most, unless
// ranks are so many that they have but the least.
constexpr size_t kCopiedInputBudget = size_t{4} << 20;
constexpr size_t kLeastCopiedInput = 256;

// Behind what ShowMemory shows.
constexpr size_t kFoldCheckAt = sizeof(CollectiveMemory);

// Of payloads: enough for every dtype.
constexpr size_t kAlignment = 16;

uint64_t ArrivedAt(int64_t sequence) { return static_cast<uint64_t>(sequence) << kSequenceShift; }
uint64_t PartedFrom(int64_t sequence) { return ArrivedAt(sequence) | kPartedBit; }

// Room for what the selector may want to fold flat.
size_t CopiedInputBytes(int64_t size, const Selector& selector) {
  int64_t most = 0;
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduce, CollectiveOp::kReduceScatter}) {
    most = std::max(most, selector.MostBytes(op, CollectiveAlgorithm::kFlatFold));
  }
  const size_t share = kCopiedInputBudget / static_cast<size_t>(size);
  return std::max(std::min(static_cast<size_t>(most), share) / 128 * 128, kLeastCopiedInput);
}

}  // namespace

LocalGroup::LocalGroup(Ref<Environment> environment, std::string name, int64_t size, int64_t epoch,
                       size_t usable_cores, const SelectorTable* table)
    : environment_(std::move(environment)),
      name_(std::move(name)),
      size_(size),
      epoch_(epoch),
      spins_(static_cast<size_t>(size) <= usable_cores),
      light_raise_(spins_ && RegisterForFences()),
      selector_(table, Locality::kInProcess, size),
      copied_input_bytes_(CopiedInputBytes(size, selector_)),
      // Not zeroed: room that no call takes is not touched.
      post_room_(new std::byte[(sizeof(Post) + copied_input_bytes_) * 2 *
                                   static_cast<size_t>(size) +
                               alignof(Post)]),
      ranks_(std::make_unique<Rank[]>(static_cast<size_t>(size))) {
  const auto address = reinterpret_cast<uintptr_t>(post_room_.get());
  posts_ = post_room_.get() + (alignof(Post) - address % alignof(Post)) % alignof(Post);
  for (int64_t rank = 0; rank < size_; ++rank) {
    ranks_[rank].spin.emplace(environment_->clock(), spins_);
    for (int64_t parity = 0; parity < 2; ++parity) new (&PostOf(rank, parity)) Post;
  }
}

LocalGroup::~LocalGroup() = default;

// ---- Posts ----

void LocalGroup::Begin(int64_t rank, const CollectiveCall& call) {
  Rank& self = ranks_[rank];
  self.encoded.Encode(call.header);
  SetHeader(rank, call, self.encoded);
  if (call.header.uneven) self.uneven_headers[call.sequence & 1] = call.header;
}

void LocalGroup::SetHeader(int64_t rank, const CollectiveCall& call,
                           const SharedHeaderForm& header) {
  Rank& self = ranks_[rank];
  self.header = &header;
  if (header.size() <= kShownHeaderBytes) {
    self.payload_offset =
        (offsetof(Post, room) + header.size() + kAlignment - 1) / kAlignment * kAlignment;
  } else {
    const std::span<const std::byte> bytes(header.data(), header.size());
    self.header_hash = HashSharedHeader(bytes);
    self.payload_offset = offsetof(Post, room) + kAlignment;
    self.long_headers[call.sequence & 1].assign(bytes.begin(), bytes.end());
  }
}

// A peer that waits keeps reading the post's cache line: the stores, of the payload before and of
// the progress behind, go out in one go.
void LocalGroup::Publish(int64_t rank, const CollectiveCall& call) {
  const Rank& self = ranks_[rank];
  Post& post = PostOf(rank, call.sequence);
  const size_t bytes = self.header->size();
  post.operation = static_cast<uint32_t>(call.header.op);
  post.header_bytes = static_cast<uint32_t>(bytes);
  if (bytes <= kShownHeaderBytes) {
    self.header->WriteTo(post.room, bytes);
  } else {
    std::memcpy(post.room, &self.header_hash, sizeof(self.header_hash));
  }
}

void LocalGroup::ShowMemory(int64_t rank, const CollectiveCall& call,
                            std::span<const CollectiveMemory> memory) {
  std::byte* const place = CopiedInput(rank, rank, call.sequence, 0);
  if (memory.size() == 1) {
    std::memcpy(place, memory.data(), sizeof(CollectiveMemory));
  } else {
    const CollectiveMemory* const all = memory.data();
    std::memcpy(place, &all, sizeof(all));
  }
}

void LocalGroup::ShowFoldCheck(int64_t rank, const CollectiveCall& call) {
  static_assert(kFoldCheckAt < kLeastCopiedInput);
  CopiedInput(rank, rank, call.sequence, 0)[kFoldCheckAt] = std::byte{call.checks_fold};
}

bool LocalGroup::FoldIsChecked(int64_t rank, const CollectiveCall& call) {
  bool checked = call.checks_fold;
  for (int64_t peer = 0; peer < size_; ++peer) {
    checked = checked ||
              CopiedInput(rank, peer, call.sequence, 0)[kFoldCheckAt] != std::byte{0};
  }
  return checked;
}

CollectiveMemory LocalGroup::PeerMemory(int64_t rank, int64_t peer, const CollectiveCall& call,
                                        size_t tensor) {
  const std::byte* const place = CopiedInput(rank, peer, call.sequence, 0);
  if (call.header.num_tensors > 1) {
    const CollectiveMemory* all = nullptr;
    std::memcpy(&all, place, sizeof(all));
    return all[tensor];
  }
  CollectiveMemory memory;
  std::memcpy(&memory, place, sizeof(memory));
  return memory;
}

bool LocalGroup::HasOwnHeader(int64_t rank, int64_t peer, const CollectiveCall& call) const {
  const Rank& self = ranks_[rank];
  const Post& post = PostOf(peer, call.sequence);
  const size_t bytes = self.header->size();
  if (post.operation != static_cast<uint32_t>(call.header.op) || post.header_bytes != bytes) {
    return false;
  }
  return bytes <= kShownHeaderBytes
             ? self.header->IsAt(post.room)
             : std::memcmp(post.room, &self.header_hash, sizeof(self.header_hash)) == 0;
}

Result<CallHeader> LocalGroup::HeaderOf(int64_t rank, int64_t sequence) const {
  const Post& post = PostOf(rank, sequence);
  const Rank& self = ranks_[rank];
  const std::span<const std::byte> bytes =
      post.header_bytes <= kShownHeaderBytes ? std::span(post.room, post.header_bytes)
                                             : std::span(self.long_headers[sequence & 1]);
  size_t num_tensors = 0;
  TUTTI_ASSIGN_OR_RETURN(CallHeader header,
                         DecodeSharedHeader(static_cast<CollectiveOp>(post.operation), bytes,
                                            /*complete=*/true, &num_tensors));
  if (header.uneven) return self.uneven_headers[sequence & 1];
  return header;
}

Status LocalGroup::DescribeMismatch(const CollectiveCall& call) const {
  std::vector<CallHeader> headers;
  std::vector<const CallHeader*> pointers;
  for (int64_t rank = 0; rank < size_; ++rank) {
    TUTTI_ASSIGN_OR_RETURN(CallHeader header, HeaderOf(rank, call.sequence));
    headers.push_back(std::move(header));
  }
  for (const CallHeader& header : headers) pointers.push_back(&header);
  return CheckSameCall(pointers, Label(call));
}

// ---- Progress ----

int64_t LocalGroup::SequenceOf(uint64_t progress) {
  return static_cast<int64_t>(progress >> kSequenceShift);
}

uint64_t LocalGroup::ProgressOf(int64_t rank) const {
  return std::max(PostOf(rank, 0).progress.load(), PostOf(rank, 1).progress.load());
}

bool LocalGroup::Commit(int64_t sequence) {
  const auto wanted = static_cast<uint64_t>(sequence);
  uint64_t verdict = verdict_.load();
  while (true) {
    if (verdict >> 1 >= wanted) return true;
    if ((verdict & 1) != 0) return false;
    if (verdict_.compare_exchange_weak(verdict, wanted << 1)) return true;
  }
}

bool LocalGroup::IsCommitted(int64_t sequence) const {
  return verdict_.load() >> 1 >= static_cast<uint64_t>(sequence);
}

bool LocalGroup::AllReached(uint64_t target) const {
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (!HasReached(rank, target)) return false;
  }
  return true;
}

bool LocalGroup::MissingPeerLeft(uint64_t target) const {
  for (int64_t rank = 0; rank < size_; ++rank) {
    // Who has left may have arrived before: the flag first, then the progress.
    if (ranks_[rank].left.load() && !HasReached(rank, target)) return true;
  }
  return false;
}

void LocalGroup::Advance(int64_t rank, uint64_t progress, uint64_t target) {
  std::atomic<uint64_t>& own = PostOf(rank, SequenceOf(progress)).progress;
  if (light_raise_) {
    own.store(progress, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    bool somebody_sleeps = false;
    for (int64_t peer = 0; peer < size_; ++peer) {
      somebody_sleeps |= ranks_[peer].parked.load(std::memory_order_relaxed);
    }
    if (!somebody_sleeps) return;
  }
  // Of two ranks that raise their progress now, one at least must see both.
  own.store(progress);
  if (!AllReached(target)) return;
  for (int64_t peer = 0; peer < size_; ++peer) {
    if (peer != rank) Wake(ranks_[peer]);
  }
}

void LocalGroup::Wake(Rank& rank) {
  if (!rank.parked.load()) return;
  // Once the lock has been free, the sleeper is inside its wait or will look again.
  { std::lock_guard<std::mutex> lock(rank.mutex); }
  rank.wake.notify_all();
}

bool LocalGroup::RegisterForFences() {
  static const bool registered =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered;
}

void LocalGroup::FenceRaisers() const {
  if (!light_raise_) return;
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) return;
  // No store stays on its way to memory that long.
  timespec millisecond = {0, kMillisecondNs};
  nanosleep(&millisecond, nullptr);
}

bool LocalGroup::SpinUntil(int64_t rank, uint64_t target, int64_t spin_ns, bool stop_on_failure) {
  int64_t peer = 0;
  const auto reached = [&] {
    while (peer < size_ && HasReached(peer, target)) ++peer;
    return peer == size_;
  };
  const auto failed = [&] { return stop_on_failure && HasFailed(); };
  return ranks_[rank].spin->Until(reached, failed, spin_ns);
}

Status LocalGroup::Sleep(int64_t rank, const CollectiveCall& call,
                         const std::function<bool()>& over,
                         const std::function<std::string()>& where) {
  Rank& self = ranks_[rank];
  const Clock& clock = environment_->clock();
  const std::string what = Format("{} #{}", CollectiveOpName(call.header.op), call.sequence);
  CallOptions options = call.options;
  options.deadline =
      Deadline::Earlier(options.deadline, Deadline::After(clock, kLogWaitNs));

  std::unique_lock<std::mutex> lock(self.mutex);
  self.parked.store(true);
  FenceRaisers();
  Status status = WaitUntil(lock, self.wake, environment_->clock(), options, over, what);
  // A cancellation may have that code, too.
  if (status.code() == StatusCode::kDeadlineExceeded && options.deadline.Expired(clock) &&
      !call.options.deadline.Expired(clock)) {
    lock.unlock();
    environment_->log().Warning(Format(
        "communicator {}: rank {} has waited {} in {}: {}", name_, rank, HumanDuration(kLogWaitNs),
        what, where()));
    lock.lock();
    status = WaitUntil(lock, self.wake, environment_->clock(), call.options, over, what);
  }
  self.parked.store(false);
  return status;
}

void LocalGroup::SleepUntil(int64_t rank, const std::function<bool()>& condition) {
  Rank& self = ranks_[rank];
  std::unique_lock<std::mutex> lock(self.mutex);
  self.parked.store(true);
  FenceRaisers();
  while (!condition()) self.wake.wait(lock);
  self.parked.store(false);
}

RankPosition LocalGroup::PositionOf(int64_t rank) const {
  const uint64_t progress = ProgressOf(rank);
  RankPosition position;
  position.rank = rank;
  position.last_op = static_cast<CollectiveOp>(progress & kOperationMask);
  position.last_sequence = static_cast<int64_t>(progress >> kSequenceShift);
  const uint64_t transfer = ranks_[rank].transfer.load();
  if (transfer != 0) {
    position.transfer = (transfer & 1) != 0 ? CollectiveOp::kSend : CollectiveOp::kReceive;
    position.transfer_peer = static_cast<int64_t>((transfer & ~kInTransferBit) >> 1);
  }
  return position;
}

RankPosition LocalGroup::PeerPosition(int64_t peer) const {
  RankPosition position = PositionOf(peer);
  position.in_call = !AllReached(ArrivedAt(position.last_sequence));
  return position;
}

std::vector<RankPosition> LocalGroup::Positions(uint64_t target) const {
  std::vector<RankPosition> positions;
  for (int64_t rank = 0; rank < size_; ++rank) {
    RankPosition position = PositionOf(rank);
    position.arrived = ArrivedAt(position.last_sequence) >= target;
    positions.push_back(position);
  }
  return positions;
}

Status LocalGroup::WaitError(int64_t rank, uint64_t target, const CollectiveCall& call,
                             Status wait_status, int64_t waited_ns) const {
  const std::vector<RankPosition> positions = Positions(target);
  const char* op = CollectiveOpName(call.header.op);
  int64_t missing = -1;
  for (const RankPosition& position : positions) {
    if (!position.arrived && missing < 0) missing = position.rank;
  }
  if (missing < 0) return OkStatus();
  Status error;
  if (wait_status.ok()) {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    for (const RankPosition& position : positions) {
      const Rank& peer = ranks_[position.rank];
      if (position.arrived || !peer.left.load()) continue;
      missing = position.rank;
      error = Status(peer.leave_reason.code(),
                     Format("rank {}: {} #{} needs rank {}: {}", rank, op, call.sequence, missing,
                            peer.leave_reason.message()))
                  .WithCause(peer.leave_reason);
      break;
    }
  } else if (wait_status.code() == StatusCode::kDeadlineExceeded) {
    error = DeadlineExceeded("rank {}: {} #{} waited {} for {}", rank, op, call.sequence,
                             HumanDuration(waited_ns), DescribeMissing(positions));
  } else {
    error = std::move(wait_status)
                .WithPrefix(
                    Format("rank {}: while it waited for {}", rank, DescribeMissing(positions)));
  }
  error = WithCallDetails(std::move(error), rank, call.header.op, Label(call));
  return std::move(error).With("peer", missing);
}

Status LocalGroup::WaitForArrivals(int64_t rank, uint64_t target, const CollectiveCall& call) {
  if (SpinUntil(rank, target, SpinWait::kForArrivalNs, /*stop_on_failure=*/true)) return OkStatus();
  // Whoever waits for this rank in a transfer either sees that it has arrived, or is seen now.
  PostOf(rank, call.sequence).progress.fetch_or(0);
  if (Status order = CheckCollectiveOrder(rank, target, call); !order.ok()) {
    return Fail(std::move(order));
  }
  const int64_t start_ns = environment_->clock().NowNs();
  while (true) {
    Status status = Sleep(
        rank, call, [&] { return AllReached(target) || HasFailed() || MissingPeerLeft(target); },
        [&] { return DescribePositions(Positions(target)); });
    if (AllReached(target)) return OkStatus();
    if (HasFailed()) return failure();
    const int64_t waited_ns = environment_->clock().NowNs() - start_ns;
    Status error = WaitError(rank, target, call, std::move(status), waited_ns);
    if (!error.ok()) return Fail(std::move(error));
  }
}

Status LocalGroup::Meet(int64_t rank, const CollectiveCall& call, Access access) {
  if (access == Access::kPeerMemory && size_ > 1 && environment_->clock().is_virtual()) {
    return Fail(WithCallDetails(
        Unimplemented("rank {}: {} #{} shares the ranks' own memory, which takes a thread per "
                      "rank, and a simulation has one thread; use payloads of at most {} bytes",
                      rank, CollectiveOpName(call.header.op), call.sequence, copied_input_bytes_),
        rank, call.header.op, Label(call)));
  }
  Arrive(rank, call);
  return MeetArrived(rank, call, access);
}

void LocalGroup::Arrive(int64_t rank, const CollectiveCall& call) {
  const uint64_t target = ArrivedAt(call.sequence);
  Publish(rank, call);
  Advance(rank, target | static_cast<uint64_t>(call.header.op), target);
}

Status LocalGroup::MeetArrived(int64_t rank, const CollectiveCall& call, Access access) {
  const uint64_t target = ArrivedAt(call.sequence);
  Status status;
  try {
    status = WaitForArrivals(rank, target, call);
  } catch (const std::bad_alloc&) {
    status = Fail(Status::OutOfMemory());
  } catch (...) {
    // The host's own, which must reach it: but not before the others are done with its memory.
    FailForException(rank, call);
    if (access == Access::kPeerMemory && IsCommitted(call.sequence)) {
      abandoned_.store(call.sequence);
      Part(rank, call).rep();
    }
    throw;
  }
  if (!status.ok()) {
    // This rank gave up just when the last one arrived, and that one has committed: go with it.
    if (access == Access::kPeerMemory && IsCommitted(call.sequence)) return OkStatus();
    return status;
  }

  for (int64_t peer = 0; peer < size_; ++peer) {
    if (peer != rank && !HasOwnHeader(rank, peer, call)) return Fail(DescribeMismatch(call));
  }
  if (access == Access::kPeerMemory && !Commit(call.sequence)) return failure();
  return OkStatus();
}

void LocalGroup::FailForException(int64_t rank, const CollectiveCall& call) {
  try {
    Fail(Aborted("rank {}: left in the middle of {}", rank, CollectiveOpName(call.header.op)))
        .rep();
  } catch (const std::bad_alloc&) {
    Fail(Status::OutOfMemory()).rep();
  }
}

Status LocalGroup::Part(int64_t rank, const CollectiveCall& call) {
  const uint64_t target = PartedFrom(call.sequence);
  Advance(rank, target | static_cast<uint64_t>(call.header.op), target);
  if (!SpinUntil(rank, target, SpinWait::kForStepNs, /*stop_on_failure=*/false)) {
    SleepUntil(rank, [&] { return AllReached(target); });
  }
  return abandoned_.load() == call.sequence ? failure() : OkStatus();
}

// In a forked child the group's threads are gone, and may hold its mutexes: it fails for nobody.
Status LocalGroup::Fail(Status error) {
  if (environment_->LeftBehindByFork()) return error;
  Status first;
  {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (failure_.ok()) {
      failure_ = std::move(error);
      verdict_.fetch_or(1);
    }
    first = failure_;
  }
  for (int64_t rank = 0; rank < size_; ++rank) Wake(ranks_[rank]);
  return first;
}

Status LocalGroup::failure() const {
  if (!HasFailed()) return OkStatus();
  if (environment_->LeftBehindByFork()) return environment_->CheckUsable("look at the epoch");
  std::lock_guard<std::mutex> lock(failure_mutex_);
  return failure_;
}

void LocalGroup::Leave(int64_t rank, Status reason) {
  if (environment_->LeftBehindByFork()) return;
  {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    ranks_[rank].leave_reason = std::move(reason);
    ranks_[rank].left.store(true);
  }
  for (int64_t peer = 0; peer < size_; ++peer) Wake(ranks_[peer]);
}

}  // namespace tutti
