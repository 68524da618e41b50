#include "capi/tool/port_reservation.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace tutti::tool {
namespace {

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif

enum class Family { kIpv4, kMappedIpv4 };  // gRPC listens at ::ffff:127.0.0.1 where it can

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address Loopback(Family family, int port) {
  Address address;
  if (family == Family::kIpv4) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.size = sizeof(*v4);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6->sin6_addr);
    address.size = sizeof(*v6);
  }
  return address;
}

OwnedFd Socket(Family family, bool reuse_address) {
  OwnedFd fd(socket(family == Family::kIpv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  if (reuse_address) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (family == Family::kMappedIpv4) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  return fd;
}

// 0, or errno.
int BindAndListen(const OwnedFd& fd, Family family, int port) {
  Address address = Loopback(family, port);
  if (bind(fd.get(), address.generic(), address.size) != 0) return errno;
  return listen(fd.get(), 16) == 0 ? 0 : errno;
}

class PortReservationTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_TRUE(PortReservation::Make(3, &reservation_, &error)) << error;
    port_ = reservation_.ports()[0];
  }

  PortReservation reservation_;
  int port_ = 0;
};

TEST_F(PortReservationTest, GivesDifferentPorts) {
  const std::vector<int>& ports = reservation_.ports();
  EXPECT_EQ(std::set<int>(ports.begin(), ports.end()).size(), 3u);
}

TEST_F(PortReservationTest, LetsAServerWithReuseAddrListenAndBeReached) {
  for (Family family : {Family::kIpv4, Family::kMappedIpv4}) {
    const OwnedFd server = Socket(family, true);
    if (!server.valid()) continue;  // no IPv6 here
    EXPECT_EQ(BindAndListen(server, family, port_), 0);
    const OwnedFd client = Socket(Family::kIpv4, false);
    Address address = Loopback(Family::kIpv4, port_);
    EXPECT_EQ(connect(client.get(), address.generic(), address.size), 0) << std::strerror(errno);
  }
}

TEST_F(PortReservationTest, LetsTheServerComeBack) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(BindAndListen(Socket(Family::kIpv4, true), Family::kIpv4, port_), 0);
  }
}

TEST_F(PortReservationTest, ASecondServerIsRefused) {
  const OwnedFd server = Socket(Family::kIpv4, true);
  ASSERT_EQ(BindAndListen(server, Family::kIpv4, port_), 0);
  EXPECT_EQ(BindAndListen(Socket(Family::kIpv4, true), Family::kIpv4, port_), EADDRINUSE);
}

TEST_F(PortReservationTest, AServerWithoutReuseAddrIsRefused) {
  EXPECT_EQ(BindAndListen(Socket(Family::kIpv4, false), Family::kIpv4, port_), EADDRINUSE);
}

TEST_F(PortReservationTest, NobodyGetsAReservedPortWithoutNamingIt) {
  const uint32_t only_this = static_cast<uint32_t>(port_) | static_cast<uint32_t>(port_) << 16;
  const OwnedFd server = Socket(Family::kIpv4, true);
  ASSERT_EQ(BindAndListen(server, Family::kIpv4, 0), 0);
  Address server_address;
  server_address.size = sizeof(server_address.storage);
  getsockname(server.get(), server_address.generic(), &server_address.size);
  for (bool reuse_address : {false, true}) {
    const OwnedFd other = Socket(Family::kIpv4, reuse_address);
    if (setsockopt(other.get(), IPPROTO_IP, IP_LOCAL_PORT_RANGE, &only_this, sizeof(only_this))) {
      GTEST_SKIP() << "this kernel cannot narrow the ephemeral range of one socket";
    }
    EXPECT_EQ(BindAndListen(other, Family::kIpv4, 0), EADDRINUSE);
    EXPECT_NE(connect(other.get(), server_address.generic(), server_address.size), 0);
    EXPECT_EQ(errno, EADDRNOTAVAIL);
  }
}

TEST_F(PortReservationTest, ItsSocketsAreNotInherited) {
  const OwnedFd next = Socket(Family::kIpv4, false);  // the reservation's stand before it
  int found = 0;
  for (int fd = 0; fd < next.get(); ++fd) {
    Address address;
    address.size = sizeof(address.storage);
    if (getsockname(fd, address.generic(), &address.size) != 0) continue;
    const auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    if (v4->sin_family != AF_INET || ntohs(v4->sin_port) != port_) continue;
    ++found;
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace tutti::tool
