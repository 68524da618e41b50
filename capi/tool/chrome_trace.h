// Flight records as one timeline in the trace event format, which ui.perfetto.dev and
// chrome://tracing show: a process for each worker, a row for each of its threads
// ("Trace Event Format", google/trace-viewer's documents).

#ifndef TUTTI_CAPI_TOOL_CHROME_TRACE_H_
#define TUTTI_CAPI_TOOL_CHROME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "capi/tool/divergence.h"
#include "capi/tool/flight_record.h"

namespace tutti::tool {

// Times are microseconds since the first event. Ends whose begin has been overwritten are left out.
std::string MakeChromeTrace(const std::vector<FlightRecord>& records,
                            const std::vector<int64_t>& offsets,
                            const std::vector<Divergence>& divergences);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_CHROME_TRACE_H_
