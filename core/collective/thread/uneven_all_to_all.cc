// All-to-all of as many rows as each rank says: once everybody is here, each rank sees in its
// peers' row counts how many rows come and where they lie, makes the result and copies them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/collective/thread/local_algorithms.h"

namespace tutti {
namespace {

Status TakeRows(LocalGroup& group, int64_t rank, CollectiveCall* call) {
  const auto own = static_cast<size_t>(rank);
  int64_t rows = 0;
  call->received_rows.clear();
  for (int64_t peer = 0; peer < group.size(); ++peer) {
    const int64_t count = group.PeerEntry(peer, call->sequence).send_rows[own];
    call->received_rows.push_back(count);
    rows += count;
  }
  Dims dims = call->header.first.dims;
  dims[0] = rows;
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  TUTTI_ASSIGN_OR_RETURN(call->gathered,
                         Tensor::Create(call->header.first.dtype, shape, call->unzeroed()));
  if (call->gathered->byte_size() == 0) return OkStatus();

  const size_t row_bytes = call->gathered->byte_size() / static_cast<size_t>(rows);
  auto* place = static_cast<std::byte*>(call->gathered->mutable_data());
  for (int64_t peer = 0; peer < group.size(); ++peer) {
    const LocalGroup::Entry& entry = group.PeerEntry(peer, call->sequence);
    size_t first = 0;
    for (size_t r = 0; r < own; ++r) first += static_cast<size_t>(entry.send_rows[r]);
    const size_t bytes = static_cast<size_t>(entry.send_rows[own]) * row_bytes;
    if (bytes == 0) continue;
    const CollectiveMemory memory = group.PeerMemory(rank, peer, *call, 0);
    std::memcpy(place, static_cast<const std::byte*>(memory.input) + first * row_bytes, bytes);
    place += bytes;
  }
  return OkStatus();
}

}  // namespace

Status UnevenAllToAll(LocalGroup& group, int64_t rank, CollectiveCall* call) {
  group.ShowMemory(rank, *call);
  group.OwnEntry(rank, call->sequence).send_rows = call->send_rows;
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, *call, LocalGroup::Access::kPeerMemory));
  const LocalGroup::PartsAtEnd parts(group, rank, *call);
  Status status = TakeRows(group, rank, call);
  if (!status.ok()) status = group.Fail(std::move(status));
  return status;
}

}  // namespace tutti
