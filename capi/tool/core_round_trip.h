// How the machine has placed its cores: the time in which a cache line goes from one core to
// another and back tells hardware threads of one core from two cores. Virtual machines change it
// while one measures.

#ifndef TUTTI_CAPI_TOOL_CORE_ROUND_TRIP_H_
#define TUTTI_CAPI_TOOL_CORE_ROUND_TRIP_H_

#include <optional>

namespace tutti::tool {

// The core with number `place` among those that this process may use; nothing when there are not
// so many.
std::optional<int> UsableCore(int place);
// From now on the calling thread runs on that core only. False when it cannot.
bool BindThisThread(int core);

// Nanoseconds between two cores, the median of some batches.
double MeasureCoreRoundTrip(int first, int second);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_CORE_ROUND_TRIP_H_
