// What a process says of itself so that others can recognise it: on which machine it is, and which
// of all processes that ever had its number.

#ifndef TUTTI_CORE_CLUSTER_WATCH_PROCESS_FACTS_H_
#define TUTTI_CORE_CLUSTER_WATCH_PROCESS_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

struct ProcessFacts {
  int64_t pid = 0;
  int64_t start_time = 0;     // 0: unknown
  std::string host;
  std::string boot_id;        // empty: unknown
  std::string pid_namespace;  // empty: unknown
};

// Of this process, now. What cannot be read stays empty.
ProcessFacts ReadProcessFacts();

// When the process started, in clock ticks since the boot. Nothing when there is no such process,
// or /proc does not show it.
std::optional<int64_t> ProcessStartTime(int64_t pid);
// The same of the text of /proc/<pid>/stat: the name in it may contain anything.
std::optional<int64_t> StartTimeOfStat(std::string_view stat);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_WATCH_PROCESS_FACTS_H_
