#include "core/collective/shared_direct_all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/collective/streaming_copy.h"
#include "core/tensor/reduce.h"

namespace tutti {

SharedDirect::AllReduce::AllReduce(SharedDirect& direct, const CollectiveCall& call)
    : direct_(direct),
      group_(direct.group_),
      call_(call),
      payload_(call.header),
      streamed_(payload_.bytes() >= kStreamedBytes) {}

bool SharedDirect::AllReduce::FindPlaces() {
  const size_t count = call_.header.num_tensors;
  if (count * sizeof(Place) > SharedLayout::kBlockBytes) return false;
  places_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t bytes = TensorBytes(i);
    if (bytes == 0) {
      places_[i] = {0};
      continue;
    }
    places_[i] = {direct_.Offset(call_.memory[i].input, bytes)};
    const bool in_place = call_.memory[i].input == call_.memory[i].output;
    if (places_[i].input == SharedWindow::kNowhere || in_place) return false;
  }
  return true;
}

Status SharedDirect::AllReduce::LookAtPeers() {
  const size_t count = call_.header.num_tensors;
  inputs_.resize(static_cast<size_t>(group_.size()) * count);
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    for (size_t i = 0; i < count; ++i) {
      if (peer == group_.rank()) {
        input(peer, i) = static_cast<const std::byte*>(call_.memory[i].input);
        continue;
      }
      // Read once: nobody but the peer's good will keeps it as it is.
      const uint64_t offset = direct_.PlacesOf(peer, count)[i].input;
      TUTTI_RETURN_IF_ERROR(direct_.Look(peer, offset, TensorBytes(i), call_.header.tensor(i).dtype,
                                         &input(peer, i)));
    }
  }
  return OkStatus();
}

Status SharedDirect::AllReduce::Run(bool* done) {
  if (payload_.granules() == 0 || !direct_.Chooses(CollectiveOp::kAllReduce, payload_.bytes()) ||
      !group_.AllReadWindows() || !FindPlaces()) {
    return OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(direct_.Meet(call_, places_, SharedGroup::kAll, done));
  if (!*done) return OkStatus();
  TUTTI_RETURN_IF_ERROR(LookAtPeers());

  TUTTI_RETURN_IF_ERROR(Fold());
  if (streamed_) StreamingFence();
  group_.Advance(1);
  TUTTI_RETURN_IF_ERROR(group_.Await(1));
  group_.Finish(1);
  return OkStatus();
}

Status SharedDirect::AllReduce::FoldPiece(size_t tensor, int64_t first, int64_t elements,
                                          std::byte* to) {
  std::array<const void*, kSharedMaxRanks> inputs;
  for (int64_t peer = 0; peer < group_.size(); ++peer) {
    inputs[static_cast<size_t>(peer)] = input(peer, tensor) + first * ItemBytes(tensor);
  }
  return ReduceInto(call_.header.reduction, call_.header.tensor(tensor).dtype,
                    std::span(inputs.data(), static_cast<size_t>(group_.size())), elements, to);
}

Status SharedDirect::AllReduce::Fold() {
  return payload_.ForEach(0, payload_.granules(), [&](size_t tensor, int64_t first,
                                                      int64_t elements, int64_t) {
    const int64_t item_bytes = ItemBytes(tensor);
    std::byte* const output = static_cast<std::byte*>(call_.memory[tensor].output);
    if (!streamed_) return FoldPiece(tensor, first, elements, output + first * item_bytes);
    const int64_t most = kPieceBytes / item_bytes;
    for (int64_t at = first; at < first + elements; at += most) {
      const int64_t count = std::min(most, first + elements - at);
      TUTTI_RETURN_IF_ERROR(FoldPiece(tensor, at, count, direct_.piece_));
      StreamingCopy(output + at * item_bytes, direct_.piece_,
                    static_cast<size_t>(count * item_bytes));
    }
    return OkStatus();
  });
}

}  // namespace tutti
