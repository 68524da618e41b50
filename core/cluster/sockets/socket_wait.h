// WaitForSocket: base/wait.h for file descriptors.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_WAIT_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_WAIT_H_

#include <string_view>

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/status.h"

namespace tutti {

class Environment;

// Waits until one of `events` (POLLIN, POLLOUT), an error or the other side's end is there.
// DEADLINE_EXCEEDED and CANCELLED as WaitUntil, naming `what`.
Status WaitForSocket(Environment& environment, const FileDescriptor& socket, short events,
                     const CallOptions& call, std::string_view what);

// A pause, for what nothing tells the end of.
Status Pause(Environment& environment, int64_t duration_ns, const CallOptions& call,
             std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_WAIT_H_
