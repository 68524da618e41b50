// SpareDescriptor: one file descriptor that is held so that a listening port stays alive while the
// process has no other one left: it is given up for a moment, in which the connection that waits is
// taken and closed. Without it the kernel would show the same connection again and again, and
// nobody would tell the peer.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_SPARE_DESCRIPTOR_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_SPARE_DESCRIPTOR_H_

#include <string_view>

#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/cluster/sockets/socket_address.h"

namespace tutti {

// By one thread.
class SpareDescriptor {
 public:
  Status Open();

  enum class Outcome {
    kTaken,
    kNone,     // nobody waits
    kRefused,  // no descriptor was left (errno): it was told `refusal`, and closed
    kFailed,   // errno says why; it is no use to try again at once
  };
  // The next connection that waits at a non-blocking socket: non-blocking, close-on-exec.
  Outcome Accept(const FileDescriptor& listening, std::string_view refusal, FileDescriptor* socket,
                 SocketAddress* from);

 private:
  FileDescriptor spare_;
};

// Says why to a peer that is about to be cut off, and takes in what it has sent so far: closing a
// socket with unread bytes would reset the connection, and the peer would not learn the reason.
void SayFarewell(const FileDescriptor& socket, std::string_view reason);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_SPARE_DESCRIPTOR_H_
