// `tutti run`: a program as several workers on this machine.

#ifndef TUTTI_CAPI_TOOL_RUN_COMMAND_H_
#define TUTTI_CAPI_TOOL_RUN_COMMAND_H_

#include <string>
#include <vector>

namespace tutti::tool {

// The words after `tutti run`; returns the exit status.
int RunCommand(const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_RUN_COMMAND_H_
