// How the ranks of a group on one machine come to each other's windows (shared_window.h): all give
// theirs to rank 0, over the Unix sockets that carry the segment, and rank 0 hands all of them out.
//
// Where one rank has no window, or cannot map the others', nobody's calls go straight out of
// windows, and nothing else is different: so that is no error. What is one, is a peer that does not
// keep to the order of messages, or is gone.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_WINDOW_PASSING_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_WINDOW_PASSING_H_

#include <cstdint>
#include <span>

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/collective/shm/shared_window.h"

namespace tutti {

class Environment;

// Larger groups pass none: every rank gets one descriptor of every other.
inline constexpr int64_t kMostWindowRanks = 64;

// On rank 0. sockets[rank] leads there; one that is closed, to a rank that has failed, is left out,
// and all others are served. windows->own may be null; windows->of_ranks is what comes of it.
Status HandOutWindows(Environment& environment, std::span<const FileDescriptor> sockets,
                      const CallOptions& call, SharedWindows* windows);
// On all others, of `size` ranks.
Status TakeWindows(Environment& environment, const FileDescriptor& socket, int64_t rank,
                   int64_t size, const CallOptions& call, SharedWindows* windows);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_WINDOW_PASSING_H_
