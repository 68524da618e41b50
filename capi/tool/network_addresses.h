// Addresses of this machine and of others, as the system resolves and routes them.

#ifndef TUTTI_CAPI_TOOL_NETWORK_ADDRESSES_H_
#define TUTTI_CAPI_TOOL_NETWORK_ADDRESSES_H_

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::tool {

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool loopback = false;
  bool up = false;
};

std::vector<InterfaceAddress> InterfaceAddresses();

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string Host() const;  // numeric, without a port
  bool IsLoopback() const;
};

// "host:port" or "[v6]:port". Empty on failure, and `error` says why.
std::vector<SocketAddress> Resolve(const std::string& host_and_port, std::string* error);

// The address of this machine that packets to `there` carry; nothing is sent.
std::optional<SocketAddress> LocalAddressTowards(const SocketAddress& there, std::string* error);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_NETWORK_ADDRESSES_H_
