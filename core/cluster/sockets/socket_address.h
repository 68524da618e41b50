// SocketAddress: an address as the kernel takes it: IPv4, IPv6 or a Unix socket in the abstract
// namespace ("@name").

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_ADDRESS_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_descriptor.h"
#include "core/base/status.h"

namespace tutti {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
  // 0 for a Unix socket.
  int32_t port() const noexcept;
  void set_port(int32_t port) noexcept;
  // "10.0.0.1:2222", "[fd00::1]:2222", "@name".
  std::string ToString() const;
  // "10.0.0.1", "fd00::1", "@name".
  std::string Host() const;
};

// All addresses of "host:port", each once, IPv4 first; "@name" is one in the abstract namespace.
// Names are looked up with the system's resolver, which may take its time. INVALID_ARGUMENT for
// what is no address, UNAVAILABLE for a host that cannot be found.
Result<std::vector<SocketAddress>> ResolveAddress(const std::string& address);

// Of a socket's own end, and of the other one.
Result<SocketAddress> LocalSocketAddress(const FileDescriptor& socket);
Result<SocketAddress> PeerSocketAddress(const FileDescriptor& socket);

// A stream socket of that address's kind: non-blocking, close-on-exec; TCP has TCP_NODELAY.
Result<FileDescriptor> MakeStreamSocket(const SocketAddress& address);

// One that listens there, for this process alone (no SO_REUSEPORT). UNAVAILABLE when the port is in
// use, or the address is not this machine's.
Result<FileDescriptor> MakeListeningSocket(const SocketAddress& address);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_SOCKET_ADDRESS_H_
