// Copies whose destination the copying core will not read again.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_STREAMING_COPY_H_
#define TUTTI_CORE_COLLECTIVE_CALL_STREAMING_COPY_H_

#include <cstddef>

namespace tutti {

// Like memcpy, but past the cache where the processor can: the destination's old lines are not
// fetched, and the new ones go straight to memory. Other threads see them after StreamingFence and
// a release.
void StreamingCopy(void* destination, const void* source, size_t bytes) noexcept;
// The same, and asks meanwhile for the `bytes` from `next` on, which are read next, so that memory
// is read and written at once. They need not be there.
void StreamingCopyAhead(void* destination, const void* source, size_t bytes,
                        const void* next) noexcept;
void StreamingFence() noexcept;

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_STREAMING_COPY_H_
