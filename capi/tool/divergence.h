// Where the ranks of a communicator parted: the first call that not all of them made alike, which
// not all of them came to, or which failed.

#ifndef TUTTI_CAPI_TOOL_DIVERGENCE_H_
#define TUTTI_CAPI_TOOL_DIVERGENCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "capi/tool/flight_group.h"
#include "capi/tool/flight_record.h"

namespace tutti::tool {

struct Divergence {
  int64_t time_ns = 0;  // when the first rank came to that call, on the first record's clock
  size_t record = 0;    // of that rank
  int64_t thread = 0;
  // `communicator "gradients", epoch 1: rank 2 stopped before all_reduce #41, which ranks 0, 1 and
  // 3 entered; its last call was #40 barrier`
  std::string text;
};

// In the order of time, at most one per group: the first is the one to look at. `offsets` are
// AlignClocks'. Only calls that no rank's recorder has forgotten are compared.
std::vector<Divergence> FindDivergences(const std::vector<FlightRecord>& records,
                                        const std::vector<FlightGroup>& groups,
                                        const std::vector<int64_t>& offsets);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DIVERGENCE_H_
