#include "core/cluster/sockets/local_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cctype>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/text.h"
#include "core/cluster/sockets/socket_address.h"

namespace tutti {
namespace {

constexpr std::string_view kExpectedAddress = "expected \"host:port\", \"10.0.0.1:2222\" or "
                                       "\"[fd00::1]:2222\" for example";

std::string_view WithoutBrackets(std::string_view host) {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    return host.substr(1, host.size() - 2);
  }
  return host;
}

// Whether a UDP socket that is connected to `to` gets an address of this machine's; UDP's connect
// sends nothing, it only looks for a route.
Result<std::string> RouteTowards(const SocketAddress& to) {
  FileDescriptor socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return ErrnoStatus(errno, "socket");
  SocketAddress target = to;
  if (target.port() == 0) target.set_port(9);  // connect wants one; none is reached
  if (::connect(socket.get(), target.get(), target.length) != 0) {
    return ErrnoStatus(errno, "no route to " + to.Host());
  }
  TUTTI_ASSIGN_OR_RETURN(const SocketAddress local, LocalSocketAddress(socket));
  return local.Host();
}

}  // namespace

Result<HostPort> SplitHostPort(std::string_view address) {
  std::string_view host;
  std::string_view port;
  if (!address.empty() && address.front() == '[') {
    const size_t end = address.find(']');
    if (end == std::string_view::npos) {
      return InvalidArgument("address {} has no closing bracket; {}", Quote(address),
                             kExpectedAddress);
    }
    host = address.substr(1, end - 1);
    const std::string_view rest = address.substr(end + 1);
    if (rest.empty() || rest.front() != ':') {
      return InvalidArgument("address {} has no port; {}", Quote(address), kExpectedAddress);
    }
    port = rest.substr(1);
  } else {
    const size_t colon = address.rfind(':');
    if (colon == std::string_view::npos) {
      return InvalidArgument("address {} has no port; {}", Quote(address), kExpectedAddress);
    }
    host = address.substr(0, colon);
    port = address.substr(colon + 1);
    if (host.find(':') != std::string_view::npos) {
      return InvalidArgument("address {} is ambiguous: an IPv6 address stands in brackets; {}",
                             Quote(address), kExpectedAddress);
    }
  }
  if (host.empty()) {
    return InvalidArgument("address {} has no host; {}", Quote(address), kExpectedAddress);
  }
  for (const char c : host) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '\0') {
      return InvalidArgument("address {} has a host with {} in it; {}", Quote(address),
                             Quote(std::string_view(&c, 1)), kExpectedAddress);
    }
  }
  const std::optional<int64_t> number = ParseInt64(port);
  if (!number || *number < 0 || *number > 65535 || port.front() == '+' || port.front() == '-') {
    return InvalidArgument("address {} has the port {}, which is no number from 0 to 65535; {}",
                           Quote(address), Quote(port), kExpectedAddress);
  }
  return HostPort{std::string(host), static_cast<int32_t>(*number)};
}

std::string JoinHostPort(std::string_view host, int32_t port) {
  if (host.find(':') != std::string_view::npos && host.front() != '[') {
    return Format("[{}]:{}", host, port);
  }
  return Format("{}:{}", host, port);
}

bool IsLoopback(std::string_view host) {
  const std::string text(WithoutBrackets(host));
  if (text == "localhost" || text == "ip6-localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return false;
}

bool IsLoopbackAddress(std::string_view address) {
  const Result<HostPort> parts = SplitHostPort(address);
  return parts.ok() && IsLoopback(parts->host);
}

Result<std::string> LocalAddressTowards(const std::string& address) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<SocketAddress> targets, ResolveAddress(address));
  Status first;
  for (const SocketAddress& target : targets) {
    Result<std::string> local = RouteTowards(target);
    if (local.ok()) return local;
    if (first.ok()) first = std::move(local).status();
  }
  return Unavailable("this machine cannot reach {}: {}; check its network and the address", address,
                     first.message());
}

}  // namespace tutti
