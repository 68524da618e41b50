#include "core/cluster/sockets/socket_connect.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/sockets/socket_wait.h"

namespace tutti {
namespace {

constexpr int64_t kBacklogPauseNs = 10 * kMillisecondNs;

Status ConnectFailure(int error, const SocketAddress& address, const std::string& peer) {
  switch (error) {
    case ECONNREFUSED:
      if (address.family() == AF_UNIX) {
        // Local sockets of another network namespace are not there, however alive their owner is.
        return Unavailable("no local socket {} is to be seen from here (connection refused): the "
                           "worker there runs in a container with a network of its own, or has "
                           "ended; containers that share their network share memory",
                           peer)
            .With("errno", error);
      }
      return Unavailable("nothing listens at {} (connection refused): the worker there has ended, "
                         "or has not started",
                         peer)
          .With("errno", error);
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Unavailable("no answer from {}: {}; check that the machine runs and that no firewall "
                         "stands in between",
                         peer, ErrnoStatus(error, "connect").message())
          .With("errno", error);
    default:
      return Unavailable("{} cannot be reached: {}", peer, ErrnoStatus(error, "connect").message())
          .With("errno", error);
  }
}

}  // namespace

Result<FileDescriptor> ConnectSocket(Environment& environment, const SocketAddress& address,
                                     const CallOptions& call) {
  const std::string peer = address.ToString();
  TUTTI_ASSIGN_OR_RETURN(FileDescriptor socket, MakeStreamSocket(address));
  for (;;) {
    if (connect(socket.get(), address.get(), address.length) == 0) return socket;
    if (errno == EINTR) continue;
    if (errno == EINPROGRESS) break;
    if (errno != EAGAIN) return ConnectFailure(errno, address, peer);
    // A Unix socket whose listener has too many to accept.
    TUTTI_RETURN_IF_ERROR(Pause(environment, kBacklogPauseNs, call, "connecting to " + peer));
  }
  TUTTI_RETURN_IF_ERROR(
      WaitForSocket(environment, socket, POLLOUT, call, "connecting to " + peer));
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return ConnectFailure(error, address, peer);
  return socket;
}

}  // namespace tutti
