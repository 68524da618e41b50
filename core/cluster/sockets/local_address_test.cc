#include "core/cluster/sockets/local_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/cluster/sockets/socket_address.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(SplitHostPort, ReadsNamesAndBothKindsOfAddresses) {
  EXPECT_EQ(*SplitHostPort("10.0.0.1:2222"), (HostPort{"10.0.0.1", 2222}));
  EXPECT_EQ(*SplitHostPort("worker-0.train:0"), (HostPort{"worker-0.train", 0}));
  EXPECT_EQ(*SplitHostPort("[fd00::1]:65535"), (HostPort{"fd00::1", 65535}));
}

TEST(SplitHostPort, SaysWhatIsMissing) {
  const struct {
    const char* address;
    const char* message;
  } cases[] = {
      {"", "has no port"},
      {"10.0.0.1", "\"10.0.0.1\" has no port; expected \"host:port\""},
      {":2222", "has no host"},
      {"[]:1", "has no host"},
      {"[fd00::1]", "has no port"},
      {"[fd00::1", "no closing bracket"},
      {"fd00::1:2222", "an IPv6 address stands in brackets"},
      {"host:", "the port \"\""},
      {"host:http", "the port \"http\", which is no number from 0 to 65535"},
      {"host:65536", "the port \"65536\""},
      {"host:-1", "the port \"-1\""},
      {"grpc//host:1", "a host with \"/\" in it"},
      {"my host:1", "a host with \" \" in it"},
  };
  for (const auto& c : cases) {
    const Result<HostPort> result = SplitHostPort(c.address);
    ASSERT_FALSE(result.ok()) << c.address;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << c.address;
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(c.message));
  }
}

TEST(JoinHostPort, IsTheReverse) {
  EXPECT_EQ(JoinHostPort("10.0.0.1", 1), "10.0.0.1:1");
  EXPECT_EQ(JoinHostPort("fd00::1", 1), "[fd00::1]:1");
  EXPECT_EQ(JoinHostPort("[fd00::1]", 1), "[fd00::1]:1");
}

TEST(IsLoopback, KnowsThisMachineAlone) {
  for (const char* host :
       {"localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"10.0.0.1", "localhost.example.com", "0.0.0.0", "::", "", "128.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
  EXPECT_TRUE(IsLoopbackAddress("[::1]:5"));
  EXPECT_FALSE(IsLoopbackAddress("10.0.0.1:5"));
  EXPECT_FALSE(IsLoopbackAddress("127.0.0.1"));
}

TEST(LocalAddressTowards, IsLoopbackTowardsLoopback) {
  const Result<std::string> local = LocalAddressTowards("127.0.0.1:2222");
  ASSERT_TRUE(local.ok()) << local.status().ToString();
  EXPECT_EQ(*local, "127.0.0.1");
  EXPECT_TRUE(LocalAddressTowards("127.0.0.1:0").ok());
}

TEST(LocalAddressTowards, SaysWhenAHostIsUnknown) {
  const Result<std::string> local = LocalAddressTowards("no-such-host.invalid:2222");
  ASSERT_FALSE(local.ok());
  EXPECT_EQ(local.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(local.status().message()),
              HasSubstr("the host \"no-such-host.invalid\" cannot be found"));
}

TEST(ResolveAddress, PutsIPv4FirstAndNamesNothingTwice) {
  const Result<std::vector<SocketAddress>> found = ResolveAddress("localhost:7");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->front().ToString(), "127.0.0.1:7");
  for (size_t i = 1; i < found->size(); ++i) {
    EXPECT_NE((*found)[i].ToString(), (*found)[i - 1].ToString());
  }
}

TEST(ResolveAddress, ReadsWhatItWrites) {
  for (const char* text : {"127.0.0.1:7", "[::1]:7", "@tutti-abc"}) {
    const Result<std::vector<SocketAddress>> found = ResolveAddress(text);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    ASSERT_EQ(found->size(), 1u);
    EXPECT_EQ(found->front().ToString(), text);
  }
  EXPECT_FALSE(ResolveAddress("@").ok());
  EXPECT_FALSE(ResolveAddress("@" + std::string(200, 'x')).ok());
}

}  // namespace
}  // namespace tutti
