// SendDescriptor and ReceiveDescriptor of peer_listener.h: SCM_RIGHTS over a Unix socket. On the
// wire: a byte with the length of the text, which carries the descriptor, then the text.

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/cluster/sockets/socket_wait.h"

namespace tutti {
namespace {

constexpr size_t kMaxBytes = 64;
// How long to let the receivers take descriptors before another look whether there is room.
constexpr int64_t kInFlightPauseNs = 10 * kMillisecondNs;

// Takes the first descriptor of a message; others, which nobody sends, are closed.
FileDescriptor TakeDescriptor(msghdr* message) {
  FileDescriptor first;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      FileDescriptor taken(number);
      if (!first) first = std::move(taken);
    }
  }
  return first;
}

}  // namespace

Status SendDescriptor(Environment& environment, const FileDescriptor& socket,
                      const FileDescriptor& sent, std::string_view bytes, const CallOptions& call) {
  if (bytes.empty() || bytes.size() > kMaxBytes) {
    return InvalidArgument("a file descriptor is sent with 1 to {} bytes, not {}", kMaxBytes,
                           bytes.size());
  }
  const std::string text = std::string(1, static_cast<char>(bytes.size())) + std::string(bytes);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  size_t done = 0;
  while (done < text.size()) {
    iovec part{const_cast<char*>(text.data()) + done, text.size() - done};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (done == 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      const int number = sent.get();
      std::memcpy(CMSG_DATA(header), &number, sizeof(number));
    }
    const ssize_t wrote = sendmsg(socket.get(), &message, MSG_NOSIGNAL);
    if (wrote >= 0) {
      done += static_cast<size_t>(wrote);
    } else if (errno == EAGAIN) {
      TUTTI_RETURN_IF_ERROR(
          WaitForSocket(environment, socket, POLLOUT, call, "sending a file descriptor"));
    } else if (errno == ETOOMANYREFS) {
      // The user has as many descriptors under way, in all sockets, as a process may have open:
      // there is room when receivers have taken some. No socket tells of that.
      TUTTI_RETURN_IF_ERROR(
          Pause(environment, kInFlightPauseNs, call,
                "sending a file descriptor while others that were sent wait for their receivers"));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return Unavailable("sending a file descriptor: the peer has closed the connection");
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "sending a file descriptor");
    }
  }
  return OkStatus();
}

Result<FileDescriptor> ReceiveDescriptor(Environment& environment, const FileDescriptor& socket,
                                         std::string* bytes, const CallOptions& call) {
  FileDescriptor received;
  std::string text;
  size_t wanted = 1;
  bool length_read = false;
  while (text.size() < wanted) {
    char buffer[kMaxBytes];
    iovec part{buffer, wanted - text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {
      TUTTI_RETURN_IF_ERROR(
          WaitForSocket(environment, socket, POLLIN, call, "receiving a file descriptor"));
      continue;
    }
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
      return Unavailable("receiving a file descriptor: the peer has closed the connection");
    }
    if (got < 0) return ErrnoStatus(errno, "receiving a file descriptor");
    FileDescriptor taken = TakeDescriptor(&message);
    if (taken) received = std::move(taken);
    text.append(buffer, static_cast<size_t>(got));
    if (!length_read) {
      wanted = static_cast<uint8_t>(text[0]);
      if (wanted == 0 || wanted > kMaxBytes) break;
      text.clear();
      length_read = true;
    }
  }
  if (!received || !length_read) {
    return DataLoss("the peer was to send a file descriptor and sent something else; both sides "
                    "must run the same version of Tutti");
  }
  *bytes = std::move(text);
  return received;
}

}  // namespace tutti
