// HostLayout: which ranks of a group are on which host, as all of them see it.

#ifndef TUTTI_CORE_COLLECTIVE_HOSTS_HOST_LAYOUT_H_
#define TUTTI_CORE_COLLECTIVE_HOSTS_HOST_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

struct HostLayout {
  // The ranks of each host, ascending; hosts in the order of their lowest ranks.
  std::vector<std::vector<int64_t>> hosts;

  // `machines` by rank: ranks of equal ones are on one host; who has none is alone.
  static HostLayout Of(const std::vector<std::string>& machines) {
    HostLayout layout;
    std::vector<std::string> names;
    for (size_t rank = 0; rank < machines.size(); ++rank) {
      const std::string& name = machines[rank];
      size_t host = names.size();
      if (!name.empty()) {
        host = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      }
      if (host == names.size()) {
        names.push_back(name);
        layout.hosts.emplace_back();
      }
      layout.hosts[host].push_back(static_cast<int64_t>(rank));
    }
    return layout;
  }

  // From who shares memory with whom: [a][b] is '1' where ranks a and b do; may be empty. A host is
  // ranks that all share memory with each other.
  static HostLayout OfRings(const std::vector<std::string>& rings, int64_t size) {
    std::vector<std::string> machines;
    for (size_t rank = 0; rank < static_cast<size_t>(size); ++rank) {
      std::string machine = std::to_string(rank);
      for (size_t peer = 0; peer < rank && !rings.empty(); ++peer) {
        bool all = true;
        for (size_t other = 0; other < rank; ++other) {
          all = all && (machines[other] != machines[peer] || rings[rank][other] == '1');
        }
        if (all) {
          machine = machines[peer];
          break;
        }
      }
      machines.push_back(std::move(machine));
    }
    return Of(machines);
  }

  size_t num_hosts() const { return hosts.size(); }
  // The host of a rank and its place among the ranks there.
  std::pair<size_t, size_t> PlaceOf(int64_t rank) const {
    for (size_t host = 0; host < hosts.size(); ++host) {
      const auto it = std::find(hosts[host].begin(), hosts[host].end(), rank);
      if (it != hosts[host].end()) {
        return {host, static_cast<size_t>(it - hosts[host].begin())};
      }
    }
    return {hosts.size(), 0};
  }
  bool equal() const {
    return std::all_of(hosts.begin(), hosts.end(),
                       [&](const auto& host) { return host.size() == hosts[0].size(); });
  }
  // At least two hosts, of which some has several ranks: where going from host to host once saves.
  bool worthwhile() const {
    return hosts.size() >= 2 &&
           std::any_of(hosts.begin(), hosts.end(),
                       [](const auto& host) { return host.size() > 1; });
  }
  // The ranks at that place of their hosts: those of place 0 speak for their hosts. Of other places
  // there are columns where all hosts have as many ranks.
  std::vector<int64_t> Column(size_t place) const {
    std::vector<int64_t> ranks;
    for (const std::vector<int64_t>& host : hosts) ranks.push_back(host[place]);
    return ranks;
  }
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_HOSTS_HOST_LAYOUT_H_
