#include "core/cluster/sockets/spare_descriptor.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

#include "core/base/error.h"

namespace tutti {
namespace {

constexpr size_t kDiscardBytes = 16 << 10;

}  // namespace

Status SpareDescriptor::Open() {
  spare_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  return spare_ ? OkStatus() : ErrnoStatus(errno, "a spare file descriptor");
}

SpareDescriptor::Outcome SpareDescriptor::Accept(const FileDescriptor& listening,
                                                 std::string_view refusal, FileDescriptor* socket,
                                                 SocketAddress* from) {
  // Another thread may have been faster than Open at the end of this function.
  if (!spare_) (void)Open();
  bool refuse = false;
  Outcome outcome = Outcome::kFailed;
  int error = 0;
  for (;;) {
    from->length = sizeof(from->storage);
    FileDescriptor accepted(accept4(listening.get(), reinterpret_cast<sockaddr*>(&from->storage),
                                    &from->length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted) error = errno;
    if (accepted && refuse) {
      SayFarewell(accepted, refusal);
      outcome = Outcome::kRefused;
    } else if (accepted) {
      *socket = std::move(accepted);
      outcome = Outcome::kTaken;
    } else if (error == EINTR || error == ECONNABORTED) {
      continue;
    } else if (error == EAGAIN) {
      outcome = Outcome::kNone;
    } else if ((error == EMFILE || error == ENFILE) && spare_) {
      spare_.Reset();
      refuse = true;
      continue;
    }
    break;
  }
  if (refuse) (void)Open();
  errno = error;
  return outcome;
}

void SayFarewell(const FileDescriptor& socket, std::string_view reason) {
  while (!reason.empty()) {
    const ssize_t sent =
        send(socket.get(), reason.data(), reason.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) break;
    reason.remove_prefix(static_cast<size_t>(sent));
  }
  shutdown(socket.get(), SHUT_WR);
  char discarded[1024];
  for (size_t total = 0; total < kDiscardBytes;) {
    const ssize_t got = recv(socket.get(), discarded, sizeof(discarded), MSG_DONTWAIT);
    if (got <= 0) break;
    total += static_cast<size_t>(got);
  }
}

}  // namespace tutti
