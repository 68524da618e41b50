// `tutti bench --device GPU`: copies of tensors to, from, within and between this machine's GPUs,
// and what comes out of them.

#ifndef TUTTI_CAPI_TOOL_BENCH_DEVICES_H_
#define TUTTI_CAPI_TOOL_BENCH_DEVICES_H_

#include <string>
#include <vector>

namespace tutti::tool {

// Whether the words after `tutti bench` ask for devices.
bool AsksForDevices(const std::vector<std::string>& words);

// Runs it; the status to exit with: 1 where a copy held other elements than it should or failed, 2
// for wrong words and for GPUs that are not there.
int BenchDevicesCommand(const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_DEVICES_H_
