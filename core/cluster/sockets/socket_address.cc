#include "core/cluster/sockets/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/sockets/local_address.h"

namespace tutti {
namespace {

constexpr size_t kUnixPathOffset = offsetof(sockaddr_un, sun_path);

Result<SocketAddress> AbstractAddress(const std::string& address) {
  SocketAddress result;
  auto* local = reinterpret_cast<sockaddr_un*>(&result.storage);
  // The abstract namespace: a zero byte stands where the "@" is written.
  if (address.size() < 2 || address.size() > sizeof(local->sun_path)) {
    return InvalidArgument("local address {} must have 1 to {} bytes after the \"@\"",
                           Quote(address), sizeof(local->sun_path) - 1);
  }
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path + 1, address.data() + 1, address.size() - 1);
  result.length = static_cast<socklen_t>(kUnixPathOffset + address.size());
  return result;
}

SocketAddress FromKernel(const sockaddr* address, socklen_t length) {
  SocketAddress result;
  result.length = std::min<socklen_t>(length, sizeof(result.storage));
  std::memcpy(&result.storage, address, result.length);
  return result;
}

bool SameAddress(const SocketAddress& a, const SocketAddress& b) {
  return a.length == b.length && std::memcmp(&a.storage, &b.storage, a.length) == 0;
}

// What getaddrinfo says, as a sentence a user can act on.
Status LookupFailure(const std::string& address, const std::string& host, int error) {
  if (error == EAI_SYSTEM) {
    return Unavailable("{}: the host {} cannot be looked up: {}", address, Quote(host),
                       ErrnoStatus(errno, "getaddrinfo").message());
  }
  return Unavailable("{}: the host {} cannot be found ({}); check the name, or give its numeric "
                     "address",
                     address, Quote(host), gai_strerror(error));
}

}  // namespace

int32_t SocketAddress::port() const noexcept {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return 0;
}

void SocketAddress::set_port(int32_t port) noexcept {
  const uint16_t network_order = htons(static_cast<uint16_t>(port));
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = network_order;
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = network_order;
}

std::string SocketAddress::Host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text,
              sizeof(text));
    return text;
  }
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    // A link-local address means nothing without its interface.
    if (v6->sin6_scope_id != 0) return Format("{}%{}", text, v6->sin6_scope_id);
    return text;
  }
  if (family() == AF_UNIX && length > kUnixPathOffset) {
    const char* path = reinterpret_cast<const sockaddr_un*>(&storage)->sun_path;
    return "@" + std::string(path + 1, length - kUnixPathOffset - 1);
  }
  return "(unnamed)";
}

std::string SocketAddress::ToString() const {
  if (family() == AF_INET || family() == AF_INET6) return JoinHostPort(Host(), port());
  return Host();
}

Result<std::vector<SocketAddress>> ResolveAddress(const std::string& address) {
  std::vector<SocketAddress> found;
  if (!address.empty() && address.front() == '@') {
    TUTTI_ASSIGN_OR_RETURN(const SocketAddress local, AbstractAddress(address));
    found.push_back(local);
    return found;
  }
  TUTTI_ASSIGN_OR_RETURN(const HostPort parts, SplitHostPort(address));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(parts.port);
  int error = getaddrinfo(parts.host.c_str(), port.c_str(), &hints, &list);
  if (error != 0 && parts.host == "localhost") {
    // A machine (a small container) without a hosts file: the name means loopback all the same, see
    // RFC 6761, section 6.3.
    error = getaddrinfo("127.0.0.1", port.c_str(), &hints, &list);
  }
  if (error != 0) return LookupFailure(address, parts.host, error);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    const SocketAddress candidate = FromKernel(entry->ai_addr, entry->ai_addrlen);
    const bool known = std::any_of(found.begin(), found.end(), [&](const SocketAddress& other) {
      return SameAddress(candidate, other);
    });
    if (!known) found.push_back(candidate);
  }
  freeaddrinfo(list);
  if (found.empty()) return LookupFailure(address, parts.host, EAI_NONAME);
  // The same order everywhere, whatever the resolver prefers.
  std::stable_sort(found.begin(), found.end(), [](const SocketAddress& a, const SocketAddress& b) {
    return a.family() == AF_INET && b.family() != AF_INET;
  });
  return found;
}

Result<SocketAddress> LocalSocketAddress(const FileDescriptor& socket) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) !=
      0) {
    return ErrnoStatus(errno, "getsockname");
  }
  return address;
}

Result<SocketAddress> PeerSocketAddress(const FileDescriptor& socket) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) !=
      0) {
    return ErrnoStatus(errno, "getpeername");
  }
  return address;
}

Result<FileDescriptor> MakeStreamSocket(const SocketAddress& address) {
  FileDescriptor socket(
      ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return ErrnoStatus(errno, "a socket for " + address.ToString());
  if (address.family() != AF_UNIX) {
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return socket;
}

Result<FileDescriptor> MakeListeningSocket(const SocketAddress& address) {
  TUTTI_ASSIGN_OR_RETURN(FileDescriptor socket, MakeStreamSocket(address));
  if (address.family() != AF_UNIX) {
    // A port whose last user has just ended is free; one that is listened at never is.
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address.family() == AF_INET6) {
      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
  }
  if (bind(socket.get(), address.get(), address.length) == 0 &&
      listen(socket.get(), SOMAXCONN) == 0) {
    return socket;
  }
  const int error = errno;
  if (error == EADDRINUSE && address.family() != AF_UNIX) {
    return Unavailable("port {} at {} is in use by another process; stop that one (`ss -ltnp` "
                       "shows it), or give this worker another port",
                       address.port(), address.Host())
        .With("errno", error);
  }
  if (error == EADDRNOTAVAIL) {
    return Unavailable("{} is not an address of this machine, so nothing can listen there; give "
                       "this worker the address of the machine that it runs on",
                       address.Host())
        .With("errno", error);
  }
  return ErrnoStatus(error, "listening at " + address.ToString());
}

}  // namespace tutti
