#include "core/cluster/sockets/unproved_connections.h"

#include <netinet/in.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/base/random.h"

namespace tutti {

std::string UnprovedConnections::OriginOf(const SocketAddress& from) {
  if (from.family() != AF_INET6) return from.Host();
  const auto& address = reinterpret_cast<const sockaddr_in6*>(from.get())->sin6_addr;
  return std::string(reinterpret_cast<const char*>(address.s6_addr), 8);
}

void UnprovedConnections::Add(uint64_t id, const SocketAddress& from) {
  std::string origin = OriginOf(from);
  std::vector<uint64_t>& group = by_origin_[origin];
  group.reserve(group.size() + 1);  // without memory for both it is in neither
  origins_.emplace(id, std::move(origin));
  group.push_back(id);
}

void UnprovedConnections::Remove(uint64_t id) {
  const auto origin = origins_.find(id);
  if (origin == origins_.end()) return;
  const auto group = by_origin_.find(origin->second);
  std::erase(group->second, id);
  if (group->second.empty()) by_origin_.erase(group);
  origins_.erase(origin);
}

uint64_t UnprovedConnections::ChooseOneToDrop(Random& random) const {
  assert(!by_origin_.empty());
  size_t most = 0;
  std::vector<uint64_t> candidates;
  for (const auto& [origin, ids] : by_origin_) {
    if (ids.size() < most) continue;
    if (ids.size() > most) candidates.clear();
    most = ids.size();
    candidates.insert(candidates.end(), ids.begin(), ids.end());
  }
  return candidates[random.Next() % candidates.size()];
}

}  // namespace tutti
