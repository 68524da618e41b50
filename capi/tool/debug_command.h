// `tutti debug`: what dumps of tensors say, of all workers.
#ifndef TUTTI_CAPI_TOOL_DEBUG_COMMAND_H_
#define TUTTI_CAPI_TOOL_DEBUG_COMMAND_H_

#include <string>
#include <vector>

namespace tutti::tool {

// The words behind "debug"; gives the exit status.
int DebugCommand(const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DEBUG_COMMAND_H_
