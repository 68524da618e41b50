// The picture that `tutti bench --svg` writes: this measurement, and others beside it.

#ifndef TUTTI_CAPI_TOOL_BENCH_PICTURE_H_
#define TUTTI_CAPI_TOOL_BENCH_PICTURE_H_

#include <string>
#include <vector>

#include "capi/tool/bandwidth_plot.h"
#include "capi/tool/bench_options.h"
#include "capi/tool/bench_report.h"

namespace tutti::tool {

// The peers' curves, or what is wrong with their files: it must be the same collective between as
// many ranks.
std::string ReadPeers(const BenchOptions& options, std::vector<PlotSeries>* series);
std::string CheckPictureCanBeWritten(const std::string& path);
// What went wrong; "" when all is well.
std::string WritePicture(const BenchOptions& options, const BenchReport& report);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_PICTURE_H_
