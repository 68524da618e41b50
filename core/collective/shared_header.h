// A call header as it lies in shared memory: short, because it should share a cache line with the
// payload of a small call, and of bounded length, because it lies in a room of fixed size: of a
// header that is longer, peers see the beginning and a hash of the whole.

#ifndef TUTTI_CORE_COLLECTIVE_SHARED_HEADER_H_
#define TUTTI_CORE_COLLECTIVE_SHARED_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call_header.h"

namespace tutti {

// Replaces `bytes` by the header's short form. Two headers are of the same call when operations and
// forms are equal: where `uneven`, the size along the axis, which may differ, is left out.
void EncodeSharedHeader(const CallHeader& header, std::vector<std::byte>* bytes);

// The header of operation `op` from its short form (sizes that were left out are 0), or from the
// beginning of it when `complete` is false: then only the first tensors are there, and num_tensors
// of them. `whole_num_tensors` is how many there are in all. INTERNAL for what is no header: the
// memory may hold anything when a peer goes astray.
Result<CallHeader> DecodeSharedHeader(CollectiveOp op, std::span<const std::byte> bytes,
                                      bool complete, size_t* whole_num_tensors);

uint64_t HashSharedHeader(std::span<const std::byte> bytes);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHARED_HEADER_H_
