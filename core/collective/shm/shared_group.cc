#include "core/collective/shm/shared_group.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/call/streaming_copy.h"

namespace tutti {
namespace {

constexpr size_t kPayloadAlignment = 16;

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

void WriteText(const std::string& text, SharedStatus* room) noexcept {
  const size_t bytes = std::min(text.size(), sizeof(room->text));
  std::memcpy(room->text, text.data(), bytes);
  room->bytes = static_cast<uint32_t>(bytes);
}

// Made before memory is short.
const std::string& OutOfMemoryText() {
  static const std::string* const text = [] {
    auto* const made = new std::string;
    AppendStatus(Status::OutOfMemory(), made);
    return made;
  }();
  return *text;
}

// Where there is no memory to write it, the status becomes OutOfMemory, which is written instead:
// peers must hear of the end, whatever they can be told about it.
void WriteStatus(Status* status, SharedStatus* room) noexcept {
  try {
    std::string text;
    AppendStatus(*status, &text);
    WriteText(text, room);
  } catch (const std::bad_alloc&) {
    *status = Status::OutOfMemory();
    WriteText(OutOfMemoryText(), room);
  }
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
      store_choice_(control_, options_.rank == 0 && options_.size > 1),
      spin_(environment_->clock(), options_.spin) {
  light_raise_ = options_.spin && RegisterForFences();
  OutOfMemoryText();
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
  if (group->options_.windows.complete()) group->layout_.slot(rank).reads_windows.store(1);
  return group;
}

// ---- One call ----

void SharedGroup::Begin(const CollectiveCall& call, size_t bytes, Writes writes) {
  call_ = &call;
  if (!goes_on_) {
    sequence_ = call.sequence;
    encoded_.Encode(call.named().header);
    SetHeader(encoded_);
  }
  // Calls straight out of windows have a choice to themselves.
  ChooseStores({writes == Writes::kOutputs ? CollectiveOp::kNone : call.header.op, bytes,
                writes == Writes::kResults        ? SharedStores::kResultsInInputs
                : writes == Writes::kLargeResults ? SharedStores::kAllThroughCaches
                                                  : SharedStores::kPastCaches});
}

void SharedGroup::SetHeader(const SharedHeaderForm& header) noexcept {
  call_word_ = SharedCallWord::Make(NamedSequence(), NamedOp());
  header_ = &header;
  payload_offset_ = PayloadOffset(header.size());
  window_ = 0;
}

void SharedGroup::BeginTiming() {
  start_ns_ = environment_->clock().NowNs();
  waited_ns_ = 0;
}

void SharedGroup::CopyIn(std::byte* to, const void* from, size_t bytes) const noexcept {
  if (stores_past_cache()) {
    StreamingCopy(to, from, bytes);
  } else if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

void SharedGroup::ShowUnevenSize() noexcept {
  const CallHeader& header = call_->named().header;
  const auto axis = static_cast<size_t>(header.axis);
  if (!header.uneven || axis >= header.first.dims.size()) return;
  const int64_t size = header.first.dims[axis];
  std::memcpy(inline_payload(rank()), &size, sizeof(size));
}

void SharedGroup::Arrive() {
  SharedEntry& entry = OwnEntry();
  // Nobody looks at it before all have arrived for good.
  entry.fold = static_cast<uint16_t>(
      (HasResultsInInputs(rank()) ? SharedEntry::kResultsInInputs : 0) |
      (call_->checks_fold ? SharedEntry::kChecksFold : 0));
  // What else peers may be reading this moment stays as it is.
  if (goes_on_) return Raise(arrival_);
  const size_t shown = ShownHeaderBytes(header_->size());
  // A peer that has arrived keeps reading this cache line: the stores go out in one go.
  entry.call.store(call_word_, std::memory_order_relaxed);
  entry.header_bytes = static_cast<uint32_t>(header_->size());
  entry.window = window_;
  header_->WriteTo(entry.room, shown);
  if (header_->size() > shown) {
    const uint64_t hash = HashSharedHeader(std::span(header_->data(), header_->size()));
    std::memcpy(entry.room + shown, &hash, sizeof(hash));
  }
  Raise(arrival_);
}

Status SharedGroup::Meet() {
  TUTTI_RETURN_IF_ERROR(Await(0));
  if (goes_on_) return OkStatus();
  TUTTI_RETURN_IF_ERROR(CompareHeaders());
  bool some_show = window_ != 0;
  for (int64_t peer = 0; peer < size(); ++peer) some_show |= peer != rank() && ShowsWindow(peer);
  if (!some_show) return OkStatus();
  ++arrival_;
  Raise(arrival_);
  return Await(0);
}

Status SharedGroup::MeetDirect(int64_t giver, uint32_t* ways) {
  TUTTI_RETURN_IF_ERROR(Await(0));
  TUTTI_RETURN_IF_ERROR(CompareHeaders());
  *ways = UINT32_MAX;
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (giver == kAll || peer == giver) *ways &= layout_.entry(peer, sequence_).window;
  }
  goes_on_ = *ways == 0;
  // Of a giver that has shown nothing everything is in the segment already.
  if (goes_on_ && giver == kAll) ++arrival_;
  return OkStatus();
}

Status SharedGroup::CompareHeaders() {
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (peer != rank() && !HasOwnHeader(peer)) return Fail(DescribeMismatch());
  }
  return OkStatus();
}

bool SharedGroup::AllReadWindows() noexcept {
  if (all_read_windows_) return true;
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (layout_.slot(peer).reads_windows.load() == 0) return false;
  }
  all_read_windows_ = true;
  return true;
}

Status SharedGroup::ConfirmRead() const {
#if defined(__x86_64__)
  // Loads stay in their order where the compiler leaves them so.
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return failure();
}

void SharedGroup::Finish(uint64_t last_step) {
  arrival_ += last_step + 1;
  goes_on_ = false;
  if (!timed_) return;
  const int64_t took_ns = environment_->clock().NowNs() - start_ns_;
  store_choice_.Note(store_kind_, took_ns - waited_ns_);
}

// Without a look at the rank's own entry, which the peers' reading may have taken from its cache.
bool SharedGroup::HasOwnHeader(int64_t peer) const noexcept {
  if (header_->size() > SharedEntry::kHeaderRoomBytes) return SameHeader(peer, rank());
  const SharedEntry& entry = layout_.entry(peer, sequence_);
  return entry.call.load(std::memory_order_relaxed) == call_word_ &&
         entry.header_bytes == header_->size() && header_->IsAt(entry.room);
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
  const CollectiveOp op = SharedCallWord::Operation(call_word);
  if (SharedCallWord::Sequence(call_word) != NamedSequence() || op == CollectiveOp::kNone) {
    return Internal("it is in call #{} of operation {}, the others in call #{}",
                    SharedCallWord::Sequence(call_word), CollectiveOpName(op), NamedSequence());
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
                                 Format("rank {}: call #{}", Name(r), NamedSequence())),
                             Name(r), NamedOp(), Label());
    }
    headers.push_back(std::move(header).value());
    counts.push_back(count);
    all_complete = all_complete && complete;
  }
  if (!all_complete) {
    // Of long lists only the beginnings are here.
    for (size_t r = 1; r < headers.size(); ++r) {
      if (counts[r] == counts[0] || headers[r].op != headers[0].op) continue;
      const int64_t rank = Name(static_cast<int64_t>(r));
      return WithCallDetails(
                 InvalidArgument("rank {}: {} #{} got {} tensors, rank {} sent {}; pass as many on "
                                 "all ranks",
                                 rank, CollectiveOpName(headers[r].op), NamedSequence(), counts[r],
                                 Name(0), counts[0]),
                 rank, headers[r].op, Label())
          .With("peer", Name(0));
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
               InvalidArgument("rank {}: {} #{}: its {} tensors differ from those of rank {} after "
                               "the first {}; dtype and shape must be the same on all ranks",
                               Name(r), CollectiveOpName(headers[0].op), NamedSequence(),
                               counts[0], Name(0), headers[0].num_tensors),
               Name(r), headers[0].op, Label())
        .With("peer", Name(0));
  }
  return Internal("{} #{}: headers that differed are equal now", CollectiveOpName(headers[0].op),
                  NamedSequence());
}

Status SharedGroup::FailPeer(int64_t peer, std::string_view what) {
  Status error = Internal("{}: {} #{}: {}", NameOf(peer), CollectiveOpName(NamedOp()),
                          NamedSequence(), what);
  error = WithCallDetails(std::move(error), Name(rank()), NamedOp(), Label());
  return Fail(std::move(error).With("peer", Name(peer)));
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
      WriteStatus(&error, &layout_.slot(rank()).failure);
      uint32_t none = 0;
      const auto mine = static_cast<uint32_t>(rank() + 1);
      // With a host object, which stays on this side.
      if (control_.failed_rank_plus_one.compare_exchange_strong(none, mine)) {
        failure_ = std::move(error);
      }
    }
    first = LoadFailure();
  }
#if !defined(__x86_64__)
  // What the caller writes to its tensors from now on follows: see ConfirmRead.
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  WakeAll();
  return first;
}

Status SharedGroup::failure() const {
  if (!HasFailed()) return OkStatus();
  std::lock_guard<std::mutex> lock(failure_mutex_);
  return LoadFailure();
}

Status SharedGroup::LeaveReason(int64_t rank) const {
  return ReadStatus(layout_.slot(rank).leave_reason);
}

void SharedGroup::Leave(Status reason) {
  {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (left_) return;
    left_ = true;
    SharedSlot& slot = layout_.slot(rank());
    WriteStatus(&reason, &slot.leave_reason);
    slot.left.store(1);
  }
  WakeAll();
}

}  // namespace tutti
