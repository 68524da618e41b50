// tutti bench: measures a collective between workers of this machine.

#ifndef TUTTI_CAPI_TOOL_BENCH_COMMAND_H_
#define TUTTI_CAPI_TOOL_BENCH_COMMAND_H_

#include <string>
#include <vector>

namespace tutti::tool {

// Starts the ranks as processes of one job, each "tutti bench-worker" with the same words; ranks
// that are threads share one.
int BenchCommand(const std::vector<std::string>& words);
// One of those processes, or of a cluster that there is. Rank 0 prints the table.
int BenchWorkerCommand(const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_COMMAND_H_
