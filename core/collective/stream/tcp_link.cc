#include "core/collective/stream/tcp_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/text.h"

namespace tutti {
namespace {

msghdr MessageOf(std::span<const iovec> parts) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = std::min(parts.size(), Link::kMaxParts);
  return message;
}

// Between other addresses of one machine, as containers have them, it is not noticed.
bool HasOwnAddressAsPeer(int socket) {
  sockaddr_storage own = {};
  sockaddr_storage peer = {};
  socklen_t own_bytes = sizeof(own);
  socklen_t peer_bytes = sizeof(peer);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0 ||
      own.ss_family != peer.ss_family) {
    return false;
  }
  const auto same = [&]<typename Address>(auto Address::*member) {
    return std::memcmp(&(reinterpret_cast<Address*>(&own)->*member),
                       &(reinterpret_cast<Address*>(&peer)->*member),
                       sizeof(std::declval<Address>().*member)) == 0;
  };
  switch (own.ss_family) {
    case AF_INET: return same(&sockaddr_in::sin_addr);
    case AF_INET6: return same(&sockaddr_in6::sin6_addr);
    default: return false;
  }
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

TcpLink::TcpLink(FileDescriptor socket, int64_t limit_ns)
    : socket_(std::move(socket)),
      is_near_(HasOwnAddressAsPeer(socket_.get())),
      look_interval_ns_(std::min(FlowWatch::kIntervalNs, limit_ns / 4)),
      watch_(limit_ns) {
  const int flags = fcntl(socket_.get(), F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK) == 0) {
    fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
  }
  // Fails on a Unix socket, which has no such delay. Buffers stay the kernel's affair: it grows
  // those of TCP as far as the stream can use them, and stops once somebody sets a size.
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // A firewall that forgets the connection drops its packets without a word, while both peers live.
  // Who waits for data then learns of it after half a minute; it is the kernel that answers probes,
  // so a peer that is slow, or stopped, is not suspected. (What waits to be acknowledged puts the
  // probes off: Look.)
  const int idle_s = 10, interval_s = 5, probes = 4;
  setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

void TcpLink::Look() {
  const int64_t now = RealClock().NowNs();
  if (is_dead_ || now < next_look_ns_) return;
  next_look_ns_ = now + look_interval_ns_;
  FlowWatch::Facts facts;
  is_dead_ = ReadFlowFacts(socket_.get(), now, &facts) && watch_.IsDead(facts, now);
}

int64_t TcpLink::TrySend(std::span<const iovec> parts) {
  if (is_dead_) return kClosed;
  const msghdr message = MessageOf(parts);
  const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return sent;
  // ENOBUFS and ENOMEM pass, like a full buffer.
  return WouldBlock(errno) || errno == ENOBUFS || errno == ENOMEM ? 0 : kClosed;
}

int64_t TcpLink::TryReceive(std::span<const iovec> parts) {
  msghdr message = MessageOf(parts);
  const ssize_t received = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (received > 0) return received;
  if (received < 0 && (WouldBlock(errno) || errno == ENOMEM)) {
    if (!is_dead_) return 0;
    errno = ETIMEDOUT;
  }
  receive_error_ = received < 0 ? errno : 0;
  return kClosed;
}

bool TcpLink::PrepareSleep(bool want_read, bool want_write, pollfd* entry) {
  Look();
  if (want_read) hung_up_unread_ = false;
  entry->fd = socket_.get();
  entry->events = static_cast<short>((want_read ? POLLIN : 0) | (want_write ? POLLOUT : 0));
  entry->revents = 0;
  // A hang-up is reported whether asked for or not: poll would return at once for ever.
  if (entry->events == 0 && (hung_up_unread_ || is_dead_)) entry->fd = -1;
  return !is_dead_ || entry->events == 0;
}

void TcpLink::EndSleep(const pollfd& entry) {
  if ((entry.events & POLLIN) == 0 && (entry.revents & (POLLHUP | POLLERR)) != 0) {
    hung_up_unread_ = true;
  }
}

std::string TcpLink::CloseReason() const {
  if (receive_error_ == 0) return "its connection closed";
  return Format("its connection broke ({})", std::strerror(receive_error_));
}

}  // namespace tutti
