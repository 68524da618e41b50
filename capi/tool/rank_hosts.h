// On which hosts the ranks of a measurement are, as all of them see it. A host is a machine as far
// as its processes reach each other without a network: containers with networks of their own are
// several.

#ifndef TUTTI_CAPI_TOOL_RANK_HOSTS_H_
#define TUTTI_CAPI_TOOL_RANK_HOSTS_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <span>

#include "capi/tool/c_handles.h"

namespace tutti::tool {

struct RankHosts {
  int64_t count = 1;
  int64_t most_ranks = 1;  // of a host
  int64_t place = 0;       // of this rank, among those of its host

  // Whether a call may go through memory inside hosts and between them only once.
  bool MayBeJoined() const { return count > 1 && most_ranks > 1; }

  // `hosts` by rank: equal numbers are one host.
  static RankHosts Of(std::span<const int64_t> hosts, int64_t rank);
  // With all other ranks.
  static CStatus Find(tutti_runtime* runtime, tutti_communicator* communicator, RankHosts* hosts);
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_RANK_HOSTS_H_
