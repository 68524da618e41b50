// Between CLI11, which reads a subcommand's options, and the exit statuses of this command.

#ifndef TUTTI_CAPI_TOOL_COMMAND_LINE_H_
#define TUTTI_CAPI_TOOL_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tool {

// Lets `app` read the words. Returns the status to exit with when help was asked for (it is then
// printed to stdout) or the words are wrong (stderr says how); nothing when all is well.
// `usage` is the first line of the help: "tutti run [OPTIONS] -- PROGRAM".
std::optional<int> ReadWords(CLI::App& app, const std::string& usage,
                             const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_COMMAND_LINE_H_
