// Which algorithm a call takes over links.

#include <algorithm>
#include <cstddef>

#include "core/collective/link_exchange.h"

namespace tutti {
namespace {

// All payloads of a rank together, to all peers.
constexpr size_t kEagerBudget = size_t{64} << 10;
constexpr size_t kLeastEagerBytes = size_t{4} << 10;

}  // namespace

size_t LinkEagerBytes(int64_t size) {
  const auto peers = static_cast<size_t>(std::max<int64_t>(size - 1, 1));
  return std::max(kEagerBudget / peers, kLeastEagerBytes);
}

Result<std::unique_ptr<LinkAlgorithm>> MakeLinkAlgorithm(const LinkCallContext& context) {
  const CallHeader& header = context.call->header;
  switch (header.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter: {
      const Selector::Choice choice = context.selector->Choose(
          header.op, static_cast<int64_t>(LinkFoldBytes(header, context.size)));
      if (context.size > 1 && choice.algorithm == CollectiveAlgorithm::kSliceAndShare) {
        return MakeLinkSliceAndShare(context, choice.chunk_bytes);
      }
      return MakeLinkFold(context);
    }
    case CollectiveOp::kAllGather:
      if (header.uneven) return MakeLinkGather(context);
      return MakeLinkMove(context);
    case CollectiveOp::kGather: return MakeLinkGather(context);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll: return MakeLinkMove(context);
    default: return std::unique_ptr<LinkAlgorithm>();
  }
}

}  // namespace tutti
