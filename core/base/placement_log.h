// Placement lines: where variables, values, runs, datasets and collectives are, and why there.
//
//   if (PlacementsAreLogged()) LogPlacement(log, "variable 'w'", "CPU:0, CPU:1", "one copy ...");
//
// They are written while somebody has said so, for the whole process; else it costs one relaxed
// load. Whoever asked for them gets them: under a log level that leaves out INFO they come with the
// lowest that it does not. Threads: any.
#ifndef TUTTI_CORE_BASE_PLACEMENT_LOG_H_
#define TUTTI_CORE_BASE_PLACEMENT_LOG_H_

#include <atomic>
#include <string_view>

namespace tutti {

class Log;

namespace base_internal {
inline std::atomic<bool> placements_are_logged{false};
}  // namespace base_internal

inline bool PlacementsAreLogged() {
  return base_internal::placements_are_logged.load(std::memory_order_relaxed);
}
inline void SetPlacementsLogged(bool logged) {
  base_internal::placements_are_logged.store(logged, std::memory_order_relaxed);
}

// One line, "placement: WHAT: DEVICES (REASON)".
void LogPlacement(Log& log, std::string_view what, std::string_view devices,
                  std::string_view reason);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_PLACEMENT_LOG_H_
