#include "core/cluster/sockets/unproved_connections.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "core/base/random.h"

namespace tutti {
namespace {

SocketAddress From(const std::string& address) { return ResolveAddress(address)->front(); }

// Every value in turn, so that all that can be chosen is.
class Counting final : public Random {
 public:
  void Fill(void* data, size_t bytes) override {
    std::memset(data, 0, bytes);
    std::memcpy(data, &next_, sizeof(next_));
    ++next_;
  }

 private:
  uint64_t next_ = 0;
};

std::set<uint64_t> Candidates(const UnprovedConnections& unproved) {
  Counting random;
  std::set<uint64_t> chosen;
  for (int i = 0; i < 100; ++i) chosen.insert(unproved.ChooseOneToDrop(random));
  return chosen;
}

TEST(UnprovedConnections, OneOfTheAddressThatHoldsMostMakesRoom) {
  UnprovedConnections unproved;
  unproved.Add(1, From("10.0.0.1:1000"));
  for (uint64_t id = 2; id <= 4; ++id) unproved.Add(id, From("10.0.0.2:2000"));
  unproved.Add(5, From("[fd00::1]:1000"));
  unproved.Add(6, From("[fd00::2]:1000"));
  EXPECT_EQ(unproved.size(), 6u);
  EXPECT_EQ(Candidates(unproved), (std::set<uint64_t>{2, 3, 4}));
  unproved.Remove(3);
  unproved.Remove(3);
  // Of one network of IPv6, whose hosts choose the rest of the address.
  EXPECT_EQ(Candidates(unproved), (std::set<uint64_t>{2, 4, 5, 6}));
  unproved.Remove(2);
  unproved.Remove(4);
  EXPECT_EQ(Candidates(unproved), (std::set<uint64_t>{5, 6}));
}

TEST(UnprovedConnections, WithinOneAddressAnyoneMakesRoom) {
  UnprovedConnections unproved;
  for (uint64_t id = 1; id <= 5; ++id) unproved.Add(id, From("127.0.0.1:1000"));
  EXPECT_EQ(Candidates(unproved), (std::set<uint64_t>{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace tutti
