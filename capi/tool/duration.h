// Durations as people write and read them: "500ms", "30s", "2h".

#ifndef TUTTI_CAPI_TOOL_DURATION_H_
#define TUTTI_CAPI_TOOL_DURATION_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::tool {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Milliseconds = std::chrono::milliseconds;

// ms, s, m or min, h; a number alone is seconds. Nothing for anything else, for negative ones and
// for those beyond ten years.
std::optional<Milliseconds> ParseDuration(std::string_view text);

// "12.3 s", "4 min 5 s", "2 h 10 min".
std::string FormatDuration(Clock::duration duration);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DURATION_H_
