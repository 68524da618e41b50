// tutti explain: the plan of a saved dataset, and the report of a run.

#ifndef TUTTI_CAPI_TOOL_EXPLAIN_COMMAND_H_
#define TUTTI_CAPI_TOOL_EXPLAIN_COMMAND_H_

#include <string>
#include <vector>

namespace tutti::tool {

int ExplainCommand(const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_EXPLAIN_COMMAND_H_
