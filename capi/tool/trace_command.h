// tutti trace: one timeline of what the workers of a job did last, and where they parted.

#ifndef TUTTI_CAPI_TOOL_TRACE_COMMAND_H_
#define TUTTI_CAPI_TOOL_TRACE_COMMAND_H_

#include <string>
#include <vector>

namespace tutti::tool {

int TraceCommand(const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_TRACE_COMMAND_H_
