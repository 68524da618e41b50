// Addresses: "host:port" text, which hosts are this machine itself, which address of this machine a
// peer can reach it at.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_LOCAL_ADDRESS_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_LOCAL_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

struct HostPort {
  std::string host;  // without brackets
  int32_t port = 0;  // 0 to 65535

  bool operator==(const HostPort&) const = default;
};

// "10.0.0.1:2222", "worker-0.train:2222", "[fd00::1]:2222". INVALID_ARGUMENT says what is missing.
Result<HostPort> SplitHostPort(std::string_view address);
// The reverse; an IPv6 address gets its brackets.
std::string JoinHostPort(std::string_view host, int32_t port);

// "localhost", "127.0.0.0/8", "::1", without asking a name server. `host` may have brackets.
bool IsLoopback(std::string_view host);
// The same for "host:port"; false for what is no address.
bool IsLoopbackAddress(std::string_view address);

// The numeric address of this machine, without a port, that packets to `address` ("host:port") are
// sent from: what this machine can be reached at from there, unless something translates addresses
// in between. "127.0.0.1" for a loopback address. Sends nothing, but may ask a name server, for as
// long as the system's resolver takes. UNAVAILABLE when the host has no address or no route leads
// there.
Result<std::string> LocalAddressTowards(const std::string& address);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_LOCAL_ADDRESS_H_
