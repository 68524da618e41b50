// ConnectSocket: a stream socket to an address, or why there is none.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_CONNECT_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_CONNECT_H_

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/cluster/sockets/socket_address.h"

namespace tutti {

class Environment;

// Non-blocking, close-on-exec; TCP has TCP_NODELAY. UNAVAILABLE when nothing listens there or no
// answer comes, saying which.
Result<FileDescriptor> ConnectSocket(Environment& environment, const SocketAddress& address,
                                     const CallOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_CONNECT_H_
