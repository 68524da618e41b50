// Moves over several hosts: every byte goes to each host once.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/base/error.h"
#include "core/collective/hierarchical_transport.h"

namespace tutti {
namespace {

// A large broadcast goes in pieces, so that the hosts, and the ranks of each, are at work at once.
constexpr int64_t kPieceBytes = 4 << 20;

CallHeader HeaderOf(CollectiveOp op, int64_t bytes, int64_t root = 0) {
  CallHeader header;
  header.op = op;
  header.root = root;
  header.num_tensors = 1;
  header.first = TensorSignature{DType::kUint8, Dims{bytes}};
  return header;
}

int64_t BytesOf(const TensorSignature& tensor) {
  return tensor.num_elements() * static_cast<int64_t>(ItemSize(tensor.dtype));
}

}  // namespace

Status HierarchicalTransport::Broadcast(const CollectiveCall& call) {
  const int64_t bytes = BytesOf(call.header.first);
  const auto [root_host, root_place] = options_.layout.PlaceOf(call.header.root);
  const bool is_root = options_.rank == call.header.root;
  const bool at_root_host = host_ == root_host;
  for (int64_t begin = 0; begin == 0 || begin < bytes; begin += kPieceBytes) {
    const int64_t count = std::min(kPieceBytes, bytes - begin);
    const std::byte* const input =
        is_root ? static_cast<const std::byte*>(call.memory[0].input) + begin : nullptr;
    std::byte* const output =
        is_root ? nullptr : static_cast<std::byte*>(call.memory[0].output) + begin;
    const auto inside = [&](size_t from, Waits waits) {
      if (!inside_) return OkStatus();
      const CollectiveMemory memory = place_ != from ? CollectiveMemory{nullptr, output}
                                      : is_root      ? CollectiveMemory{input, nullptr}
                                                     : CollectiveMemory{output, nullptr};
      return Inside(call,
                    HeaderOf(CollectiveOp::kBroadcast, count, static_cast<int64_t>(from)),
                    std::span(&memory, 1), waits);
    };
    if (at_root_host) TUTTI_RETURN_IF_ERROR(inside(root_place, Waits::kForRanks));
    if (is_leader()) {
      const CollectiveMemory memory = !at_root_host ? CollectiveMemory{nullptr, output}
                                      : is_root     ? CollectiveMemory{input, nullptr}
                                                    : CollectiveMemory{output, nullptr};
      TUTTI_RETURN_IF_ERROR(Between(
          call, HeaderOf(CollectiveOp::kBroadcast, count, static_cast<int64_t>(root_host)),
          std::span(&memory, 1)));
    }
    if (!at_root_host) TUTTI_RETURN_IF_ERROR(inside(0, Waits::kForRelay));
  }
  // Who has had all since long waits to hear that the other hosts are in the same call.
  return at_root_host ? AwaitLeader(call) : OkStatus();
}

Status HierarchicalTransport::AllGather(const CollectiveCall& call) {
  const int64_t part = BytesOf(call.header.first);
  const int64_t hosts = num_hosts();
  const int64_t ranks = ranks_here();
  CallHeader barrier;
  barrier.op = CollectiveOp::kBarrier;
  TUTTI_RETURN_IF_ERROR(Inside(call, barrier, {}, Waits::kForRanks));

  // The parts of the ranks at this place of their hosts, which then are what this rank brings.
  const int64_t bytes = std::max<int64_t>(hosts * part, 1);
  const int64_t host_bytes = std::max<int64_t>(ranks * part, 1);
  if (!scratch_.Reserve(static_cast<size_t>(bytes)) ||
      !more_scratch_.Reserve(static_cast<size_t>(host_bytes))) {
    return ResourceExhausted("no memory for {} bytes of the other hosts", bytes + host_bytes);
  }
  const CollectiveMemory column{call.memory[0].input, scratch_.data()};
  TUTTI_RETURN_IF_ERROR(
      Between(call, HeaderOf(CollectiveOp::kAllGather, part), std::span(&column, 1)));

  auto* const output = static_cast<std::byte*>(call.memory[0].output);
  for (size_t host = 0; host < options_.layout.hosts.size(); ++host) {
    const std::vector<int64_t>& there = options_.layout.hosts[host];
    const bool together = there.back() - there.front() + 1 == ranks;
    const CollectiveMemory memory{scratch_.data() + static_cast<int64_t>(host) * part,
                                  together ? output + there.front() * part : more_scratch_.data()};
    TUTTI_RETURN_IF_ERROR(Inside(call, HeaderOf(CollectiveOp::kAllGather, part),
                                 std::span(&memory, 1), Waits::kForRelay));
    if (together || part == 0) continue;
    for (size_t place = 0; place < there.size(); ++place) {
      std::memcpy(output + there[place] * part,
                  more_scratch_.data() + static_cast<int64_t>(place) * part,
                  static_cast<size_t>(part));
    }
  }
  return OkStatus();
}

}  // namespace tutti
