#include "core/collective/shm/shared_direct.h"

#include <algorithm>
#include <cstring>

#include "core/collective/call/streaming_copy.h"
#include "core/collective/shm/shared_direct_all_reduce.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

int64_t InputBytes(const CallHeader& header) {
  return header.first.num_elements() * static_cast<int64_t>(ItemSize(header.first.dtype));
}

// Past the caches or through them.
void Copy(void* to, const void* from, int64_t bytes, bool streamed) {
  if (bytes == 0) return;
  if (streamed) {
    StreamingCopy(to, from, static_cast<size_t>(bytes));
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

}  // namespace

SharedDirect::SharedDirect(SharedGroup& group, const SelectorTable* table)
    : group_(group), selector_(table, Locality::kSharedWindow, group.size()) {}

Status SharedDirect::Execute(const CollectiveCall& call, bool* done) {
  *done = false;
  if (!group_.windows().complete() || call.header.uneven) return OkStatus();
  switch (call.header.op) {
    case CollectiveOp::kAllReduce:
      return Concerns(call) ? AllReduce(*this, call).Run(done) : OkStatus();
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
      return Fold(call, InputBytes(call.header), done);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
      return MoveFromAll(call, InputBytes(call.header), done);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return MoveFromRoot(call, InputBytes(call.header), done);
    default:
      return OkStatus();
  }
}

// ---- Meeting ----

SharedDirect::Place* SharedDirect::PlacesOf(int64_t rank, size_t count) const noexcept {
  // Those that lie in a block are in nobody's way, whatever the header.
  static_assert(SharedGroup::kMostSwappedTensors * sizeof(Place) + SharedEntry::kHeaderRoomBytes +
                    64 <= SharedEntry::kBytes);
  std::byte* const at = count * sizeof(Place) <= group_.inline_room() ? group_.inline_payload(rank)
                                                                      : group_.block(rank);
  return reinterpret_cast<Place*>(at);
}

Status SharedDirect::Meet(const CollectiveCall& call, std::span<const Place> places, int64_t giver,
                          int64_t payload_bytes, uint32_t* ways) {
  group_.Begin(call, static_cast<size_t>(payload_bytes),
               SharedGroup::Writes::kOutputs);
  if (!places.empty()) {
    std::memcpy(PlacesOf(group_.rank(), places.size()), places.data(), places.size_bytes());
    group_.ShowWindow(*ways);
  }
  group_.Arrive();
  return group_.MeetDirect(giver, ways);
}

Status SharedDirect::Meet(const CollectiveCall& call, std::span<const Place> places, int64_t giver,
                          bool* direct) {
  uint32_t ways = kOutOfInputs;
  TUTTI_RETURN_IF_ERROR(Meet(call, places, giver, 0, &ways));
  *direct = ways != 0;
  return OkStatus();
}

Status SharedDirect::Look(int64_t peer, uint64_t offset, int64_t bytes, DType dtype,
                          const std::byte** data) {
  const SharedWindowView& view = *group_.windows().of_ranks[static_cast<size_t>(peer)];
  *data = view.At(offset, static_cast<size_t>(bytes));
  if (*data == nullptr || offset % std::min<uint64_t>(ItemSize(dtype), alignof(double)) != 0) {
    return group_.FailPeer(peer, "its tensor cannot lie in its window where it says");
  }
  return OkStatus();
}

Status SharedDirect::LookAtInputs(const CollectiveCall& call, int64_t bytes) {
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    const std::byte*& input = inputs_[static_cast<size_t>(peer)];
    if (peer == group_.rank()) {
      input = static_cast<const std::byte*>(call.memory[0].input);
      continue;
    }
    // Read once: nobody but the peer's good will keeps it as it is.
    const uint64_t offset = PlacesOf(peer, 1)->input;
    TUTTI_RETURN_IF_ERROR(Look(peer, offset, bytes, call.header.first.dtype, &input));
  }
  return OkStatus();
}

// ---- Folds but all_reduce ----

Status SharedDirect::FoldInto(const CollectiveCall& call, int64_t begin, int64_t bytes,
                              void* output) {
  const DType dtype = call.header.first.dtype;
  const auto item_bytes = static_cast<int64_t>(ItemSize(dtype));
  auto* const out = static_cast<std::byte*>(output);
  const bool in_place = out == inputs_[static_cast<size_t>(group_.rank())] + begin;
  const bool streamed = bytes >= kStreamedBytes && !in_place;
  std::array<const void*, kSharedMaxRanks> pieces;
  const int64_t most = streamed ? kPieceBytes : bytes;
  for (int64_t at = 0; at < bytes; at += most) {
    const int64_t count = std::min(most, bytes - at);
    for (int64_t peer = 0; peer < group_.size(); ++peer) {
      pieces[static_cast<size_t>(peer)] = inputs_[static_cast<size_t>(peer)] + begin + at;
    }
    TUTTI_RETURN_IF_ERROR(
        ReduceInto(call.header.reduction, dtype,
                   std::span(pieces.data(), static_cast<size_t>(group_.size())),
                   count / item_bytes, streamed ? piece_ : out + at));
    if (streamed) StreamingCopy(out + at, piece_, static_cast<size_t>(count));
  }
  if (streamed) StreamingFence();
  return OkStatus();
}

Status SharedDirect::Fold(const CollectiveCall& call, int64_t bytes, bool* done) {
  const bool is_reduce = call.header.op == CollectiveOp::kReduce;
  if (bytes == 0 || !Chooses(call.header.op, bytes)) return OkStatus();
  const Place place = {Offset(call.memory[0].input, bytes), 0};
  if (place.input == SharedWindow::kNowhere || !group_.AllReadWindows()) return OkStatus();
  TUTTI_RETURN_IF_ERROR(Meet(call, std::span(&place, 1), SharedGroup::kAll, done));
  if (!*done) return OkStatus();

  const bool folds = !is_reduce || group_.rank() == call.header.root;
  if (folds) {
    TUTTI_RETURN_IF_ERROR(LookAtInputs(call, bytes));
    const int64_t share = is_reduce ? bytes : bytes / group_.size();
    TUTTI_RETURN_IF_ERROR(
        FoldInto(call, is_reduce ? 0 : group_.rank() * share, share, call.memory[0].output));
    TUTTI_RETURN_IF_ERROR(group_.ConfirmRead());
    group_.Advance(1);
  }
  TUTTI_RETURN_IF_ERROR(group_.Await(1, is_reduce ? call.header.root : SharedGroup::kAll));
  group_.Finish(1);
  return OkStatus();
}

// ---- Moves ----

Status SharedDirect::MoveFromAll(const CollectiveCall& call, int64_t bytes, bool* done) {
  if (bytes == 0 || !Chooses(call.header.op, bytes)) return OkStatus();
  const Place place = {Offset(call.memory[0].input, bytes), 0};
  if (place.input == SharedWindow::kNowhere || !group_.AllReadWindows()) return OkStatus();
  TUTTI_RETURN_IF_ERROR(Meet(call, std::span(&place, 1), SharedGroup::kAll, done));
  if (!*done) return OkStatus();
  TUTTI_RETURN_IF_ERROR(LookAtInputs(call, bytes));

  // Of a gather every rank takes all that a peer has, of an exchange the part that is for it.
  const bool is_gather = call.header.op == CollectiveOp::kAllGather;
  const int64_t share = is_gather ? bytes : bytes / group_.size();
  const int64_t begin = is_gather ? 0 : group_.rank() * share;
  auto* const output = static_cast<std::byte*>(call.memory[0].output);
  const bool streamed = share * group_.size() >= kStreamedBytes;
  for (int64_t i = 1; i <= group_.size(); ++i) {
    // This rank's own comes last: all ranks begin with another peer.
    const int64_t peer = (group_.rank() + i) % group_.size();
    const std::byte* const from = inputs_[static_cast<size_t>(peer)] + begin;
    std::byte* const to = output + peer * share;
    if (to != from) Copy(to, from, share, streamed);
  }
  if (streamed) StreamingFence();
  TUTTI_RETURN_IF_ERROR(group_.ConfirmRead());
  group_.Advance(1);
  TUTTI_RETURN_IF_ERROR(group_.Await(1));
  group_.Finish(1);
  return OkStatus();
}

Status SharedDirect::MoveFromRoot(const CollectiveCall& call, int64_t bytes, bool* done) {
  if (bytes == 0 || !Chooses(call.header.op, bytes)) return OkStatus();
  const int64_t root = call.header.root;
  const bool is_root = group_.rank() == root;
  const bool is_scatter = call.header.op == CollectiveOp::kScatter;
  const int64_t share = is_scatter ? bytes / group_.size() : bytes;
  std::byte* const output = static_cast<std::byte*>(call.memory[0].output);
  if (is_root) {
    const Place place = {Offset(call.memory[0].input, bytes), 0};
    if (place.input == SharedWindow::kNowhere || !group_.AllReadWindows()) return OkStatus();
    TUTTI_RETURN_IF_ERROR(Meet(call, std::span(&place, 1), root, done));
    const std::byte* const own = static_cast<const std::byte*>(call.memory[0].input) + root * share;
    if (is_scatter && output != own) Copy(output, own, share, share >= kStreamedBytes);
    if (is_scatter && share >= kStreamedBytes) StreamingFence();
    group_.Advance(1);
    TUTTI_RETURN_IF_ERROR(group_.Await(1));
    group_.Finish(1);
    return OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(Meet(call, {}, root, done));
  if (!*done) return OkStatus();
  const std::byte* input = nullptr;
  TUTTI_RETURN_IF_ERROR(Look(root, PlacesOf(root, 1)->input, bytes, call.header.first.dtype,
                             &input));
  const bool streamed = share >= kStreamedBytes;
  Copy(output, input + (is_scatter ? group_.rank() * share : 0), share, streamed);
  if (streamed) StreamingFence();
  TUTTI_RETURN_IF_ERROR(group_.ConfirmRead());
  // The root alone waits for the others.
  group_.Advance(1);
  group_.Finish(1);
  return OkStatus();
}

}  // namespace tutti
