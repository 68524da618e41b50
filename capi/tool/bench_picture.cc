#include "capi/tool/bench_picture.h"

#include <fmt/format.h>

#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

// Out of place where that was measured: the more usual way, and every system has it.
PlotSeries SeriesOf(const std::string& name, const BenchReport& report) {
  PlotSeries series;
  series.name = name;
  for (const BenchRow& row : report.rows) {
    const std::optional<BenchTiming>& timing = row.out_of_place ? row.out_of_place : row.in_place;
    if (!timing || row.bytes <= 0 || !(timing->busbw_gbps > 0)) continue;
    series.points.emplace_back(static_cast<double>(row.bytes), timing->busbw_gbps);
  }
  return series;
}

}  // namespace

std::string ReadPeers(const BenchOptions& options, std::vector<PlotSeries>* series) {
  for (const BenchOptions::Peer& peer : options.peers) {
    std::string text;
    std::string error = ReadTextFile(peer.file, &text);
    if (!error.empty()) return fmt::format("--peer {}: {}", peer.name, error);
    BenchReport report;
    error = BenchReport::Parse(text, &report);
    if (!error.empty()) {
      return fmt::format("--peer {}: cannot use {}: {}", peer.name, peer.file, error);
    }
    if (report.collective != options.collective->name || report.workers != options.workers) {
      return fmt::format("--peer {}: {} is of {} between {} ranks; expected {} between {}",
                         peer.name, peer.file, report.collective, report.workers,
                         options.collective->name, options.workers);
    }
    series->push_back(SeriesOf(peer.name, report));
  }
  return "";
}

std::string CheckPictureCanBeWritten(const std::string& path) {
  return CheckCanWriteTextFile(path);
}

std::string WritePicture(const BenchOptions& options, const BenchReport& report) {
  std::vector<PlotSeries> series = {
      SeriesOf(fmt::format("Tutti, {}{}", report.transport,
                           report.mapped ? ", shared buffers" : ""),
               report)};
  const std::string error = ReadPeers(options, &series);
  if (!error.empty()) return error;
  std::string about = report.op == "none" ? report.dtype
                                          : fmt::format("{}, {}", report.dtype, report.op);
  if (report.round_trip_before) {
    about += "; round trip of a cache line: " + DescribeRoundTrip(*report.round_trip_before);
  }
  return WriteTextFile(options.svg, DrawBandwidth(fmt::format("{} between {} ranks",
                                                              report.collective, report.workers),
                                                  about, series));
}

}  // namespace tutti::tool
