#include "capi/tool/network_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "capi/tool/owned_fd.h"

namespace tutti::tool {
namespace {

socklen_t SizeOf(const sockaddr* address) {
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::string NumericHost(const sockaddr* address) {
  char host[NI_MAXHOST] = "";
  getnameinfo(address, SizeOf(address), host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return host;
}

}  // namespace

std::vector<InterfaceAddress> InterfaceAddresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6) continue;
    found.push_back({one->ifa_name, NumericHost(one->ifa_addr),
                     (one->ifa_flags & IFF_LOOPBACK) != 0, (one->ifa_flags & IFF_UP) != 0});
  }
  freeifaddrs(list);
  return found;
}

std::string SocketAddress::Host() const { return NumericHost(generic()); }

bool SocketAddress::IsLoopback() const {
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

std::vector<SocketAddress> Resolve(const std::string& host_and_port, std::string* error) {
  std::vector<SocketAddress> found;
  const size_t colon = host_and_port.rfind(':');
  std::string host = host_and_port.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : host_and_port.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool number = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos &&
                      std::stoi(port) <= 65535;
  if (host.empty() || !number || (!bracketed && host.find(':') != std::string::npos)) {
    *error = fmt::format("{} is no address; expected host:port, 10.0.0.1:2222 or [fd00::1]:2222 "
                         "for example", host_and_port);
    return found;
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (failure != 0) {
    *error = fmt::format("the host {} is not known: {}", host, gai_strerror(failure));
    return found;
  }
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    SocketAddress address;
    address.size = one->ai_addrlen;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    found.push_back(address);
  }
  freeaddrinfo(list);
  return found;
}

std::optional<SocketAddress> LocalAddressTowards(const SocketAddress& there, std::string* error) {
  // Connecting a datagram socket only looks for the route.
  const OwnedFd fd(socket(there.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress target = there;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&target.storage);
  if (v4->sin_port == 0) v4->sin_port = htons(9);  // IPv6's port stands at the same place
  SocketAddress here;
  here.size = sizeof(here.storage);
  if (!fd.valid() || connect(fd.get(), target.generic(), target.size) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here.storage), &here.size) != 0) {
    *error = std::strerror(errno);
    return std::nullopt;
  }
  return here;
}

}  // namespace tutti::tool
