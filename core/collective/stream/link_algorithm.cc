// Which algorithm a call takes over links, and between which ranks.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <vector>

#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/collective/stream/link_frame.h"
#include "core/collective/stream/link_transport.h"

namespace tutti {
namespace {

// All payloads of a rank together, to all peers.
constexpr size_t kEagerBudget = size_t{64} << 10;
constexpr size_t kLeastEagerBytes = size_t{4} << 10;
constexpr int64_t kChunkInsteadOfTree = 32 << 10;

// What a call that asks for RING takes; chunks as in the table's own rows of the chain.
std::optional<Selector::Choice> ChooseRing(const CallHeader& header, int64_t bytes) {
  if (LinkRingOf(header.op) == CollectiveAlgorithm::kRing) {
    return Selector::Choice{CollectiveAlgorithm::kRing, 0};
  }
  if (LinkRingOf(header.op) != CollectiveAlgorithm::kChain) return std::nullopt;
  const int64_t chunk = bytes <= (128 << 10) ? 16 << 10 : bytes <= (1 << 20) ? 32 << 10 : 64 << 10;
  return Selector::Choice{CollectiveAlgorithm::kChain, chunk};
}

}  // namespace

size_t LinkEagerBytes(int64_t size) {
  const auto peers = static_cast<size_t>(std::max<int64_t>(size - 1, 1));
  return std::max(kEagerBudget / peers, kLeastEagerBytes);
}

std::optional<CollectiveAlgorithm> LinkRingOf(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllGather:
      return CollectiveAlgorithm::kRing;
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
      return CollectiveAlgorithm::kChain;
    default:
      return std::nullopt;
  }
}

const char* LinkTransport::WhyNoRing(CollectiveOp op) const {
  return LinkRingOf(op) ? nullptr : "this operation has no algorithm that does";
}

Selector::Choice ChooseLinkAlgorithm(const LinkCallContext& context) {
  const CallHeader& header = context.call->header;
  const bool is_all_gather = header.op == CollectiveOp::kAllGather;
  const auto bytes = static_cast<int64_t>(LinkFoldBytes(header, context.size));
  if (header.hints.implementation == CommunicationImplementation::kRing && context.size > 1) {
    if (const auto ring = ChooseRing(header, bytes)) return *ring;
  }
  // Where ranks bring different numbers of rows, no choice depends on how many.
  const Selector::Choice choice = context.selector->Choose(
      header.op, is_all_gather && header.uneven ? SelectorRow::kAny : bytes);
  if (choice.algorithm != CollectiveAlgorithm::kTree || header.op == CollectiveOp::kBroadcast ||
      bytes <= static_cast<int64_t>(kMaxFrameDataBytes) / context.size) {
    return choice;
  }
  if (is_all_gather) return {CollectiveAlgorithm::kRing, 0};
  return {CollectiveAlgorithm::kChain, kChunkInsteadOfTree};
}

Result<std::unique_ptr<LinkAlgorithm>> MakeLinkAlgorithm(const LinkCallContext& context) {
  const CallHeader& header = context.call->header;
  if (header.op == CollectiveOp::kBarrier) return std::unique_ptr<LinkAlgorithm>();
  const Selector::Choice choice = ChooseLinkAlgorithm(context);
  switch (header.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
      if (context.size > 1 && choice.algorithm == CollectiveAlgorithm::kSliceAndShare) {
        return MakeLinkSliceAndShare(context, choice.chunk_bytes);
      }
      if (context.size > 1 && choice.algorithm == CollectiveAlgorithm::kChain) {
        return MakeLinkChain(context, choice.chunk_bytes);
      }
      return MakeLinkFold(context);
    case CollectiveOp::kAllGather:
      if (context.size > 1 && choice.algorithm == CollectiveAlgorithm::kRing) {
        return MakeLinkRing(context);
      }
      if (header.uneven) return MakeLinkGather(context);
      return MakeLinkMove(context);
    case CollectiveOp::kGather: return MakeLinkGather(context);
    default: return MakeLinkMove(context);
  }
}

std::vector<bool> LinkPartners(const LinkCallContext& context) {
  const CallHeader& header = context.call->header;
  const CollectiveAlgorithm algorithm = ChooseLinkAlgorithm(context).algorithm;
  const bool is_rooted =
      header.op == CollectiveOp::kBroadcast || header.op == CollectiveOp::kGather ||
      header.op == CollectiveOp::kScatter ||
      (header.op == CollectiveOp::kReduce && algorithm != CollectiveAlgorithm::kSliceAndShare);
  std::vector<bool> partners(static_cast<size_t>(context.size));
  for (int64_t rank = 0; rank < context.size; ++rank) {
    const int64_t apart = std::abs(rank - context.rank);
    bool pairs = true;
    if (algorithm == CollectiveAlgorithm::kChain) {
      pairs = apart == 1;
    } else if (algorithm == CollectiveAlgorithm::kRing) {
      pairs = apart == 1 || apart == context.size - 1;
    } else if (is_rooted) {
      pairs = rank == header.root || context.rank == header.root;
    }
    partners[static_cast<size_t>(rank)] = pairs && rank != context.rank;
  }
  return partners;
}

}  // namespace tutti
