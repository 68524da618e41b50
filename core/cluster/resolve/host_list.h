// Names of hosts: the order that people would put them in, and lists as Slurm writes them, of hosts
// and of the numbers of tasks on them.
//
//   n[1-3,07-09]-ib[0-1],login   n1-ib0, n1-ib1, n2-ib0, ...: the last bracket runs fastest;
//                                numbers keep the zeros in front of a range's first one
//   2(x3),1                      2, 2, 2, 1

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_HOST_LIST_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_HOST_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tutti {

// What either list may expand to: more is a mistake, or an attack.
inline constexpr size_t kMaxListedHosts = 65'536;

// The hosts, in the order of the list. INVALID_ARGUMENT with the place of what is wrong, and before
// anything is expanded for a list of more hosts than kMaxListedHosts; `what` names the text.
Result<std::vector<std::string>> ExpandHostList(std::string_view text, std::string_view what);

// A number, each at least 1, per host. Fails as ExpandHostList.
Result<std::vector<int64_t>> ExpandTaskCounts(std::string_view text, std::string_view what);

// Whether `left` comes before `right` where runs of digits are numbers: "n9" before "n10".
bool ComesBefore(std::string_view left, std::string_view right);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_HOST_LIST_H_
