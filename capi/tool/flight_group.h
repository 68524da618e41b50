// The calls of a communicator, brought together from the records of its ranks.

#ifndef TUTTI_CAPI_TOOL_FLIGHT_GROUP_H_
#define TUTTI_CAPI_TOOL_FLIGHT_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "capi/tool/flight_record.h"

namespace tutti::tool {

// One collective call of one rank, as far as it is recorded: the oldest may lack their begin, and
// so do calls that the rank itself refused.
struct FlightCall {
  const FlightEvent* begin = nullptr;
  const FlightEvent* end = nullptr;

  const std::string& name() const { return begin != nullptr ? begin->name : end->name; }
  bool failed() const { return end != nullptr && end->Argument("code") != 0; }
};

struct FlightGroup {
  struct Rank {
    size_t record = 0;                   // its place among the records
    std::map<int64_t, FlightCall> calls;  // by sequence
  };

  std::string name;
  int64_t epoch = 1;
  int64_t color = -1;  // of a part of another communicator
  int64_t size = 1;
  bool is_local = false;  // all ranks are of one process
  std::map<int64_t, Rank> ranks;
};

// A record lists what it has been a member of in the order of making. A process that lists several
// ranks of one name and epoch holds a group of its own, or has made it anew when the same rank
// comes again. Parts of one name are told apart by what their members say of the split.
std::vector<FlightGroup> FindGroups(const std::vector<FlightRecord>& records);

// What to add to the times of each record to have them on the clock of the first one.
//
// Processes of one kernel have one clock. Between others the wall clocks give a first guess, which
// collectives correct: none that succeeded ends on any rank before it has begun on every other, so
// each gives a lower and an upper bound; where the guess is outside of them, the middle is taken.
std::vector<int64_t> AlignClocks(const std::vector<FlightRecord>& records,
                                 const std::vector<FlightGroup>& groups);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_FLIGHT_GROUP_H_
