// All-reduce of small payloads over links: everybody has sent its input to everybody, along with
// the header of the call, and folds all of them by itself, in rank order. One message each way.

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "core/base/error.h"
#include "core/collective/link_exchange.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// Inputs lie one after the other, aligned for every dtype.
constexpr size_t kAlignment = 16;
constexpr std::array<std::byte, kAlignment> kPadding = {};

// All payloads of a rank together, to all peers.
constexpr size_t kEagerBudget = size_t{64} << 10;
constexpr size_t kLeastEagerBytes = size_t{4} << 10;

size_t InputBytes(const TensorSignature& signature) {
  return static_cast<size_t>(signature.num_elements()) * ItemSize(signature.dtype);
}

size_t Padding(size_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

}  // namespace

size_t LinkEagerBytes(int64_t size) {
  const auto peers = static_cast<size_t>(std::max<int64_t>(size - 1, 1));
  return std::max(kEagerBudget / peers, kLeastEagerBytes);
}

uint64_t LinkFoldBytes(const CallHeader& header) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const size_t input = InputBytes(header.tensor(i));
    bytes += input + Padding(input);
  }
  return bytes;
}

void AddLinkFoldInput(const CollectiveCall& call, MemoryParts* memory) {
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const size_t bytes = InputBytes(call.header.tensor(i));
    memory->Add(call.memory[i].input, bytes);
    memory->Add(kPadding.data(), Padding(bytes));
  }
}

Status LinkFold(const LinkCallContext& context, std::span<const LinkPeerPayload> payloads) {
  const CollectiveCall& call = *context.call;
  const uint64_t expected = LinkFoldBytes(call.header);
  for (int64_t peer = 0; peer < context.size; ++peer) {
    const size_t bytes = payloads[static_cast<size_t>(peer)].bytes;
    if (peer != context.rank && bytes != expected) {
      return DataLoss("rank {} sent {} bytes of input, expected {}", peer, bytes, expected);
    }
  }
  std::vector<const void*> inputs(static_cast<size_t>(context.size));
  size_t offset = 0;
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const TensorSignature& signature = call.header.tensor(i);
    for (int64_t rank = 0; rank < context.size; ++rank) {
      const auto r = static_cast<size_t>(rank);
      inputs[r] = rank == context.rank ? call.memory[i].input
                                       : static_cast<const void*>(payloads[r].data + offset);
    }
    TUTTI_RETURN_IF_ERROR(ReduceInto(call.header.reduction, signature.dtype, inputs,
                                     signature.num_elements(), call.memory[i].output));
    const size_t bytes = InputBytes(signature);
    offset += bytes + Padding(bytes);
  }
  return OkStatus();
}

}  // namespace tutti
