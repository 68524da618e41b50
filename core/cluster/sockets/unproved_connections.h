// UnprovedConnections: which connections of a listening port have not proved yet that they belong
// to the job, by the addresses that they come from, and which of them has to make room.
//
// A stranger can hold as many as there is room for, so one of the address that holds most goes: a
// flood from elsewhere costs an honest peer nothing. Behind one address, as within one machine or
// behind a router that translates addresses, honest peers and strangers cannot be told apart: there
// it is one at random, so that whoever goes on trying gets through.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_UNPROVED_CONNECTIONS_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_UNPROVED_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/cluster/sockets/socket_address.h"

namespace tutti {

class Random;

class UnprovedConnections {
 public:
  void Add(uint64_t id, const SocketAddress& from);
  // Nothing where it is not there.
  void Remove(uint64_t id);
  size_t size() const { return origins_.size(); }
  // There must be one.
  uint64_t ChooseOneToDrop(Random& random) const;

 private:
  // Of IPv6 the first 64 bits: the rest is up to the host.
  static std::string OriginOf(const SocketAddress& from);

  std::map<std::string, std::vector<uint64_t>> by_origin_;
  std::unordered_map<uint64_t, std::string> origins_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_UNPROVED_CONNECTIONS_H_
