#include "capi/tool/rank_hosts.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <string>

#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

// The same for all processes that reach each other by Unix sockets, which is how memory is shared:
// of one boot of a machine, and one network namespace.
int64_t ThisHost() {
  std::string name;
  if (!ReadTextFile("/proc/sys/kernel/random/boot_id", &name).empty()) name.clear();
  struct stat network = {};
  if (stat("/proc/self/ns/net", &network) == 0) name += " " + std::to_string(network.st_ino);
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<int64_t>(hash);
}

}  // namespace

RankHosts RankHosts::Of(std::span<const int64_t> hosts, int64_t rank) {
  RankHosts found;
  std::map<int64_t, int64_t> ranks_of;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (static_cast<int64_t>(i) == rank) found.place = ranks_of[hosts[i]];
    found.most_ranks = std::max(found.most_ranks, ++ranks_of[hosts[i]]);
  }
  found.count = std::max<int64_t>(1, std::ssize(ranks_of));
  return found;
}

CStatus RankHosts::Find(tutti_runtime* runtime, tutti_communicator* communicator,
                        RankHosts* hosts) {
  const int64_t here = ThisHost();
  const int64_t one = 1;
  CTensor own, all;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_create_from_data(
      runtime, TUTTI_DTYPE_INT64, 1, &one, &here, sizeof(here), Out(&own)));
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_communicator_all_gather(communicator, own.get(), nullptr, Out(&all)));
  const auto* const numbers = static_cast<const int64_t*>(tutti_tensor_get_data(all.get()));
  *hosts = Of({numbers, static_cast<size_t>(tutti_tensor_get_element_count(all.get()))},
              tutti_communicator_get_rank(communicator));
  return nullptr;
}

}  // namespace tutti::tool
