// Flat fold, for small payloads: every rank leaves a copy of its input in the segment, meets the
// peers once, and folds all copies by itself. The copies of one call stay while the next begins, so
// that nobody waits at the end: the cost is one meeting. A tiny payload lies behind the header, in
// the cache line that says that the rank has arrived.

#include <array>
#include <cstring>
#include <vector>

#include "core/collective/shared_algorithms.h"
#include "core/tensor/reduce.h"

namespace tutti {

Status SharedFlatFold(SharedGroup& group, const SharedPayload& payload,
                      const CollectiveCall& call) {
  const CallHeader& header = call.header;
  const auto bytes = static_cast<size_t>(payload.granules() * SharedPayload::kGranuleBytes);
  group.Begin(call, bytes);
  const bool inlined = bytes <= group.inline_room();
  const auto place = [&](int64_t rank) {
    return inlined ? group.inline_payload(rank) : group.block(rank);
  };

  // One call of `piece` per tensor that has elements.
  const auto for_each = [&](const auto& piece) {
    if (header.num_tensors != 1) return payload.ForEach(0, payload.granules(), piece);
    const int64_t elements = header.first.num_elements();
    return elements == 0 ? OkStatus() : piece(size_t{0}, int64_t{0}, elements, int64_t{0});
  };
  TUTTI_RETURN_IF_ERROR(
      for_each([&](size_t tensor, int64_t, int64_t elements, int64_t offset) {
        const size_t item_bytes = ItemSize(header.tensor(tensor).dtype);
        group.CopyIn(place(group.rank()) + offset, call.memory[tensor].input,
                     static_cast<size_t>(elements) * item_bytes);
        return OkStatus();
      }));
  group.Arrive();
  TUTTI_RETURN_IF_ERROR(group.Meet());

  std::array<const void*, kSharedMaxRanks> inputs;
  TUTTI_RETURN_IF_ERROR(
      for_each([&](size_t tensor, int64_t, int64_t elements, int64_t offset) {
        for (int64_t peer = 0; peer < group.size(); ++peer) {
          // The rank's own copy would come back through the segment.
          inputs[static_cast<size_t>(peer)] =
              peer == group.rank() ? call.memory[tensor].input : place(peer) + offset;
        }
        return ReduceInto(header.reduction, header.tensor(tensor).dtype,
                          std::span(inputs.data(), static_cast<size_t>(group.size())), elements,
                          call.memory[tensor].output);
      }));
  group.Finish(0);
  return OkStatus();
}

}  // namespace tutti
