// Moves over several hosts: every byte goes to each host once.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/collective/hosts/hierarchical_transport.h"

namespace tutti {
namespace {

CallHeader HeaderOf(CollectiveOp op, int64_t bytes, int64_t root = 0) {
  CallHeader header;
  header.op = op;
  header.root = root;
  header.num_tensors = 1;
  header.first = TensorSignature{DType::kUint8, Dims{bytes}};
  return header;
}

void* At(void* memory, int64_t bytes) { return static_cast<std::byte*>(memory) + bytes; }
const void* At(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

int64_t BytesOf(const TensorSignature& tensor) {
  return tensor.num_elements() * static_cast<int64_t>(ItemSize(tensor.dtype));
}

}  // namespace

Status HierarchicalTransport::Broadcast(const CollectiveCall& call) {
  const auto [root_host, root_place] = options_.layout.PlaceOf(call.header.root);
  const bool is_root = options_.rank == call.header.root;
  const bool at_root_host = host_ == root_host;
  const Chunks chunks = ChunksOf(BytesOf(call.header.first), 1, 1);
  // What this rank has of a chunk, or gets of it.
  const auto memory_of = [&](int64_t chunk, bool gives) {
    const int64_t begin = chunks.Begin(chunk);
    if (is_root) return CollectiveMemory{At(call.memory[0].input, begin), nullptr};
    void* const own = At(call.memory[0].output, begin);
    return gives ? CollectiveMemory{own, nullptr} : CollectiveMemory{nullptr, own};
  };
  const auto header_of = [&](int64_t chunk, size_t root) {
    return HeaderOf(CollectiveOp::kBroadcast, chunks.Begin(chunk + 1) - chunks.Begin(chunk),
                    static_cast<int64_t>(root));
  };
  const auto inside = [&](int64_t chunk, size_t root, Waits waits) {
    if (!inside_) return OkStatus();
    const CollectiveMemory memory = memory_of(chunk, place_ == root);
    return Inside(call, header_of(chunk, root), std::span(&memory, 1), waits);
  };

  HostPipeline::Stages stages;
  if (at_root_host) {
    stages.first = [&, place = root_place](int64_t chunk) {
      return inside(chunk, place, Waits::kForRanks);
    };
  } else {
    stages.last = [&](int64_t chunk) { return inside(chunk, 0, Waits::kForRelay); };
  }
  if (is_leader()) {
    stages.between = [&, host = root_host](int64_t chunk, Cancellation* stop) {
      const CollectiveMemory memory = memory_of(chunk, at_root_host);
      return Between(call, header_of(chunk, host), std::span(&memory, 1), stop);
    };
  }
  TUTTI_RETURN_IF_ERROR(RunChunks(chunks.num, std::move(stages)));
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
      Between(call, HeaderOf(CollectiveOp::kAllGather, part), std::span(&column, 1), watch_.get()));

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
