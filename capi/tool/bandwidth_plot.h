// A picture of bandwidth over size, both axes logarithmic, as an SVG file that any browser shows.

#ifndef TUTTI_CAPI_TOOL_BANDWIDTH_PLOT_H_
#define TUTTI_CAPI_TOOL_BANDWIDTH_PLOT_H_

#include <string>
#include <utility>
#include <vector>

namespace tutti::tool {

struct PlotSeries {
  std::string name;
  // Bytes and GB/s, both above 0; the bytes grow.
  std::vector<std::pair<double, double>> points;
};

// `title` and `subtitle` stand above it. Nothing to draw gives the axes alone.
std::string DrawBandwidth(const std::string& title, const std::string& subtitle,
                          const std::vector<PlotSeries>& series);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BANDWIDTH_PLOT_H_
