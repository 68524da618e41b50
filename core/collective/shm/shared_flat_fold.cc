// Flat fold, for small payloads: every rank leaves a copy of its input in the segment, meets the
// peers once, and folds all copies by itself. The copies of one call stay while the next begins, so
// that nobody waits at the end: the cost is one meeting. A tiny payload lies behind the header, in
// the cache line that says that the rank has arrived.
//
// Of two ranks each reads all that the other one writes. So they swap blocks between calls, and a
// line crosses from core to core once a call: the fold reads it, which moves it to that core, and
// the next copy is written there. Where each wrote its own block, lines would cross twice, and that
// is what sums of some KiB cost.

#include <array>
#include <cstring>
#include <vector>

#include "core/collective/call/call_record.h"
#include "core/collective/call/next_lines.h"
#include "core/collective/shm/shared_algorithms.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// From here on a payload has its cache lines to itself. The header's first line has room for less.
constexpr size_t kWholeLinesFrom = 256;
static_assert(!TakesNextLines(kWholeLinesFrom - 1));
static_assert(!TakesNextLines(SharedEntry::kBytes - 2 * kLineBytes));  // what is taken lies inline
static_assert(SharedGroup::kSwappedFrom == kWholeLinesFrom);

bool IsInlined(const SharedGroup& group, size_t bytes) {
  return bytes <= group.inline_room() &&
         !(group.SwapsCopies() && bytes >= SharedGroup::kSwappedFrom);
}

}  // namespace

Status SharedFlatFold(SharedGroup& group, const SharedPayload& payload,
                      const CollectiveCall& call) {
  const CallHeader& header = call.header;
  const auto bytes = static_cast<size_t>(payload.granules() * SharedPayload::kGranuleBytes);
  group.Begin(call, bytes);
  if (bytes >= kWholeLinesFrom) group.AlignPayload(kLineBytes);
  const bool inlined = IsInlined(group, bytes);
  const auto place = [&](int64_t rank) {
    return inlined ? group.inline_payload(rank) : group.copies(rank);
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
                          call.memory[tensor].output, static_cast<size_t>(group.rank()));
      }));
  group.Finish(0);
  return OkStatus();
}

Status SharedFlatFoldAgain(SharedGroup& group, const KnownFlatFold& known,
                           CollectiveCall* known_call) {
  const CollectiveCall& call = *known_call;
  group.BeginKnown(call, known.header, known.payload_bytes,
                   /*through_cache=*/TakesNextLines(known.input_bytes));
  if (known.payload_bytes >= kWholeLinesFrom) group.AlignPayload(kLineBytes);
  const bool inlined = IsInlined(group, known.payload_bytes);
  const auto place = [&](int64_t rank) {
    return inlined ? group.inline_payload(rank) : group.copies(rank);
  };
  const void* const input = call.memory[0].input;
  group.CopyIn(place(group.rank()), input, known.input_bytes);
  group.Arrive();
  RecordKnownCall(known_call);
  TUTTI_RETURN_IF_ERROR(group.Meet());

  std::array<const void*, kSharedMaxRanks> inputs;
  const auto ranks = static_cast<size_t>(group.size());
  for (size_t peer = 0; peer < ranks; ++peer) inputs[peer] = place(static_cast<int64_t>(peer));
  inputs[static_cast<size_t>(group.rank())] = input;
  TUTTI_RETURN_IF_ERROR(ReduceInto(call.header.reduction, call.header.first.dtype,
                                   std::span(inputs.data(), ranks), known.elements,
                                   call.memory[0].output, static_cast<size_t>(group.rank())));
  if (inlined && TakesNextLines(known.input_bytes)) {
    TakeNextLines(group.NextInlined(), known.input_bytes);
  }
  group.Finish(0);
  return OkStatus();
}

}  // namespace tutti
