#include "core/collective/shm/shared_direct_all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "core/collective/call/streaming_copy.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// Of a slice of one round: large enough that meeting costs little, small enough to overlap several
// rounds.
constexpr int64_t kLeastDirectBytes = 16 << 10;
constexpr int64_t kMostDirectBytes = 128 << 10;
constexpr int64_t kWantedRounds = 4;

}  // namespace

SharedDirect::AllReduce::AllReduce(SharedDirect& direct, const CollectiveCall& call)
    : direct_(direct),
      group_(direct.group_),
      call_(call),
      payload_(call.header),
      algorithm_(
          direct.selector_.Choose(CollectiveOp::kAllReduce, payload_.bytes()).algorithm),
      streamed_(payload_.bytes() >= kStreamedBytes) {}

Status SharedDirect::AllReduce::Run(bool* done) {
  if (payload_.granules() == 0 || algorithm_ == CollectiveAlgorithm::kStaged ||
      !group_.AllReadWindows() || !FindPlaces()) {
    return OkStatus();
  }
  uint32_t ways = ways_;
  TUTTI_RETURN_IF_ERROR(
      direct_.Meet(call_, places_, SharedGroup::kAll, payload_.bytes(), &ways));
  *done = ways != 0;
  if (!*done) return OkStatus();
  in_slices_ = (ways & kInSlices) != 0;
  TUTTI_RETURN_IF_ERROR(LookAtPeers());
  FindStretches();
  return in_slices_ ? RunInSlices() : RunOutOfInputs();
}

// ---- Where the tensors lie ----

bool SharedDirect::AllReduce::FindPlaces() {
  const size_t count = call_.header.num_tensors;
  if (count * sizeof(Place) > SharedLayout::kBlockBytes) return false;
  places_.resize(count);
  ways_ = kOutOfInputs;
  if (algorithm_ == CollectiveAlgorithm::kSliceAndShare) ways_ |= kInSlices;
  for (size_t i = 0; i < count && ways_ != 0; ++i) {
    const int64_t bytes = TensorBytes(i);
    if (bytes == 0) {
      places_[i] = {0, 0};
      continue;
    }
    places_[i].input = direct_.Offset(call_.memory[i].input, bytes);
    if (places_[i].input == SharedWindow::kNowhere) return false;
    if (call_.memory[i].input == call_.memory[i].output) ways_ &= ~kOutOfInputs;
    places_[i].output = direct_.Offset(call_.memory[i].output, bytes);
    if (places_[i].output == SharedWindow::kNowhere) ways_ &= ~kInSlices;
  }
  return ways_ != 0;
}

Status SharedDirect::AllReduce::LookAtPeers() {
  const size_t count = call_.header.num_tensors;
  inputs_.resize(static_cast<size_t>(group_.size()) * count);
  if (in_slices_) outputs_.resize(inputs_.size());
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    for (size_t i = 0; i < count; ++i) {
      const size_t index = Index(peer, i);
      if (peer == group_.rank()) {
        inputs_[index] = static_cast<const std::byte*>(call_.memory[i].input);
        if (in_slices_) outputs_[index] = Output(i, 0);
        continue;
      }
      // Read once: nobody but the peer's good will keeps it as it is.
      const Place place = direct_.PlacesOf(peer, count)[i];
      const int64_t bytes = TensorBytes(i);
      const DType dtype = call_.header.tensor(i).dtype;
      TUTTI_RETURN_IF_ERROR(direct_.Look(peer, place.input, bytes, dtype, &inputs_[index]));
      if (!in_slices_) continue;
      TUTTI_RETURN_IF_ERROR(direct_.Look(peer, place.output, bytes, dtype, &outputs_[index]));
    }
  }
  return OkStatus();
}

// ---- Tensors one behind the other ----

bool SharedDirect::AllReduce::FollowsOnAllRanks(size_t tensor, size_t bytes_before) const {
  if (Output(tensor, 0) != Output(tensor - 1, 0) + bytes_before) return false;
  for (int64_t rank = 0; rank < group_.size(); ++rank) {
    const size_t index = Index(rank, tensor);
    if (inputs_[index] != inputs_[index - 1] + bytes_before) return false;
    if (in_slices_ && outputs_[index] != outputs_[index - 1] + bytes_before) return false;
  }
  return true;
}

void SharedDirect::AllReduce::FindStretches() {
  int64_t end = 0;
  // Of the tensor before, where another one may go on behind it: it ends with a granule.
  size_t bytes_before = 0;
  for (size_t i = 0; i < call_.header.num_tensors; ++i) {
    const int64_t bytes = TensorBytes(i);
    if (bytes == 0) {
      bytes_before = 0;
      continue;
    }
    end += (bytes + kGranuleBytes - 1) / kGranuleBytes;
    const int64_t elements = bytes / ItemBytes(i);
    const DType dtype = call_.header.tensor(i).dtype;
    if (bytes_before != 0 && call_.header.tensor(i - 1).dtype == dtype &&
        FollowsOnAllRanks(i, bytes_before)) {
      stretches_.back().elements += elements;
      stretches_.back().end = end;
    } else {
      stretches_.push_back(Stretch{i, elements, end});
    }
    bytes_before = bytes % kGranuleBytes == 0 ? static_cast<size_t>(bytes) : 0;
  }
}

template <typename Piece>
Status SharedDirect::AllReduce::ForEach(Range range, Piece piece) const {
  auto stretch = std::upper_bound(
      stretches_.begin(), stretches_.end(), range.begin,
      [](int64_t granule, const Stretch& other) { return granule < other.end; });
  for (int64_t at = range.begin; at < range.end; ++stretch) {
    const int64_t begin = stretch == stretches_.begin() ? 0 : std::prev(stretch)->end;
    const int64_t end = std::min(range.end, stretch->end);
    const int64_t per_granule = kGranuleBytes / ItemBytes(stretch->tensor);
    const int64_t first = (at - begin) * per_granule;
    const int64_t last = std::min((end - begin) * per_granule, stretch->elements);
    TUTTI_RETURN_IF_ERROR(piece(stretch->tensor, first, last - first));
    at = end;
  }
  return OkStatus();
}

// ---- Folding ----

Status SharedDirect::AllReduce::FoldPiece(size_t tensor, int64_t first, int64_t elements,
                                          std::byte* to) {
  std::array<const void*, kSharedMaxRanks> inputs;
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    inputs[static_cast<size_t>(peer)] = inputs_[Index(peer, tensor)] + first * ItemBytes(tensor);
  }
  return ReduceInto(call_.header.reduction, call_.header.tensor(tensor).dtype,
                    std::span(inputs.data(), static_cast<size_t>(group_.size())), elements, to);
}

Status SharedDirect::AllReduce::FoldInto(size_t tensor, int64_t first, int64_t elements,
                                         bool streamed) {
  const int64_t item_bytes = ItemBytes(tensor);
  if (!streamed) return FoldPiece(tensor, first, elements, Output(tensor, first * item_bytes));
  const int64_t most = kPieceBytes / item_bytes;
  for (int64_t at = first; at < first + elements; at += most) {
    const int64_t count = std::min(most, first + elements - at);
    TUTTI_RETURN_IF_ERROR(FoldPiece(tensor, at, count, direct_.piece_));
    StreamingCopy(Output(tensor, at * item_bytes), direct_.piece_,
                  static_cast<size_t>(count * item_bytes));
  }
  return OkStatus();
}

// ---- Out of the inputs ----

Status SharedDirect::AllReduce::RunOutOfInputs() {
  TUTTI_RETURN_IF_ERROR(ForEach(Range{0, payload_.granules()},
                                [&](size_t tensor, int64_t first, int64_t elements) {
                                  return FoldInto(tensor, first, elements, streamed_);
                                }));
  if (streamed_) StreamingFence();
  TUTTI_RETURN_IF_ERROR(group_.ConfirmRead());
  group_.Advance(1);
  TUTTI_RETURN_IF_ERROR(group_.Await(1));
  group_.Finish(1);
  return OkStatus();
}

// ---- In slices ----

SharedDirect::AllReduce::Range SharedDirect::AllReduce::Slice(int64_t round, int64_t rank) const {
  const int64_t first = (round * group_.size() + rank) * slice_;
  return Range{std::min(first, payload_.granules()), std::min(first + slice_, payload_.granules())};
}

Status SharedDirect::AllReduce::RunInSlices() {
  const int64_t ranks = group_.size();
  const int64_t wanted = payload_.bytes() / (kWantedRounds * ranks);
  const int64_t most = std::clamp(wanted, kLeastDirectBytes, kMostDirectBytes) / kGranuleBytes;
  rounds_ = (payload_.granules() + most * ranks - 1) / (most * ranks);
  // Rounds of equal size.
  slice_ = (payload_.granules() + rounds_ * ranks - 1) / (rounds_ * ranks);
  for (int64_t round = 0; round <= rounds_; ++round) {
    if (round < rounds_) {
      TUTTI_RETURN_IF_ERROR(FoldSlice(round));
      group_.Advance(static_cast<uint64_t>(1 + round));
    }
    // What is waited for has usually been there for a while.
    if (round > 0) {
      TUTTI_RETURN_IF_ERROR(group_.Await(static_cast<uint64_t>(round)));
      TUTTI_RETURN_IF_ERROR(CopySlices(round - 1));
    }
  }
  if (streamed_) StreamingFence();
  // Whoever has folded what it should not have read has seen the failure before; so does this rank
  // then.
  TUTTI_RETURN_IF_ERROR(group_.ConfirmRead());
  const auto last = static_cast<uint64_t>(1 + rounds_);
  group_.Advance(last);
  TUTTI_RETURN_IF_ERROR(group_.Await(last));
  group_.Finish(last);
  return OkStatus();
}

Status SharedDirect::AllReduce::FoldSlice(int64_t round) {
  return ForEach(Slice(round, group_.rank()),
                 [&](size_t tensor, int64_t first, int64_t elements) {
                   return FoldInto(tensor, first, elements, group_.stores_past_cache());
                 });
}

Status SharedDirect::AllReduce::CopySlices(int64_t round) {
  for (int64_t i = 1; i < group_.size(); ++i) {
    const int64_t owner = (group_.rank() + i) % group_.size();
    TUTTI_RETURN_IF_ERROR(ForEach(
        Slice(round, owner), [&](size_t tensor, int64_t first, int64_t elements) {
          const int64_t byte = first * ItemBytes(tensor);
          const auto bytes = static_cast<size_t>(elements * ItemBytes(tensor));
          const std::byte* const from = outputs_[Index(owner, tensor)] + byte;
          if (streamed_) {
            StreamingCopy(Output(tensor, byte), from, bytes);
          } else {
            std::memcpy(Output(tensor, byte), from, bytes);
          }
          return OkStatus();
        }));
  }
  return OkStatus();
}

}  // namespace tutti
