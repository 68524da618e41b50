#include "capi/tool/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::tool {
namespace {

using nlohmann::json;

// A round trip below it is one between two hardware threads of one core.
constexpr double kSiblingsNs = 200;
// The cores have been moved when two round trips differ by more than this factor.
constexpr double kSamePlacement = 1.6;

std::string TextOf(const std::optional<BenchTiming>& timing) {
  if (!timing)
    return fmt::format("{:>9} {:>9} {:>9} {:>8} {:>8} {:>7}", "-", "-", "-", "-", "-", "-");
  return fmt::format("{:>9.2f} {:>9.2f} {:>9.2f} {:>8.3f} {:>8.3f} {:>7}", timing->time_us,
                     timing->p50_us, timing->p99_us, timing->algbw_gbps, timing->busbw_gbps,
                     timing->wrong);
}

json JsonOf(const std::optional<BenchTiming>& timing) {
  if (!timing) return nullptr;
  return {{"time_us", timing->time_us},       {"p50_us", timing->p50_us},
          {"p99_us", timing->p99_us},         {"algbw_gbps", timing->algbw_gbps},
          {"busbw_gbps", timing->busbw_gbps}, {"wrong", timing->wrong}};
}

std::optional<BenchTiming> TimingOf(const json& object) {
  if (object.is_null()) return std::nullopt;
  BenchTiming timing;
  timing.time_us = object.at("time_us");
  timing.p50_us = object.value("p50_us", 0.0);
  timing.p99_us = object.value("p99_us", 0.0);
  timing.algbw_gbps = object.at("algbw_gbps");
  timing.busbw_gbps = object.at("busbw_gbps");
  timing.wrong = object.value("wrong", int64_t{0});
  return timing;
}

}  // namespace

std::string DescribeRoundTrip(double nanoseconds) {
  return fmt::format("{:.0f} ns, {}", nanoseconds,
                     nanoseconds < kSiblingsNs ? "siblings of one core" : "two cores");
}

int64_t BenchReport::wrong() const {
  int64_t sum = 0;
  for (const BenchRow& row : rows) {
    if (row.out_of_place) sum += row.out_of_place->wrong;
    if (row.in_place) sum += row.in_place->wrong;
  }
  return sum;
}

std::string BenchReport::TextHeader() const {
  std::string text = fmt::format(
      "# tutti bench {}: {}, {} {}{} over {}, {} usable core{}, {}\n", collective, system, workers,
      workers == 1 ? "rank" : "ranks", hosts > 1 ? fmt::format(" on {} hosts", hosts) : "",
      transport, usable_cores, usable_cores == 1 ? "" : "s",
      bound ? "one for each rank" : "not bound");
  if (in_flight > 0) {
    text += fmt::format("# {} call{} under way at once; p50 and p99 are from issue to end\n",
                        in_flight, in_flight == 1 ? "" : "s");
  }
  if (tensors > 1) {
    text += fmt::format("# {} tensors in each call, the size of all together\n", tensors);
  }
  if (mapped) text += "# tensors lie in memory that the ranks map (create_tensor)\n";
  if (round_trip_before) {
    text += fmt::format("# round trip of a cache line between two cores: {}\n",
                        DescribeRoundTrip(*round_trip_before));
  }
  const std::string columns = fmt::format("{:>9} {:>9} {:>9} {:>8} {:>8} {:>7}", "time", "p50",
                                          "p99", "algbw", "busbw", "#wrong");
  const std::string units = fmt::format("{:>9} {:>9} {:>9} {:>8} {:>8} {:>7}", "(us)", "(us)",
                                        "(us)", "(GB/s)", "(GB/s)", "");
  text += fmt::format("#\n#{:>41} {:^55}  {:^55}\n", "", "out-of-place", "in-place");
  text += fmt::format("#{:>11} {:>12} {:>9} {:>6} {}  {}\n", "size", "count", "type", "redop",
                      columns, columns);
  text += fmt::format("#{:>11} {:>12} {:>9} {:>6} {}  {}\n", "(B)", "(elements)", "", "", units,
                      units);
  return text;
}

std::string BenchReport::TextRow(const BenchRow& row) const {
  return fmt::format("{:>12} {:>12} {:>9} {:>6} {}  {}\n", row.bytes, row.count, dtype, op,
                     TextOf(row.out_of_place), TextOf(row.in_place));
}

std::string BenchReport::TextFooter() const {
  std::string text;
  if (round_trip_before && round_trip_after) {
    text = fmt::format("# round trip afterwards: {}\n", DescribeRoundTrip(*round_trip_after));
    const auto [least, most] = std::minmax(*round_trip_before, *round_trip_after);
    if (most > kSamePlacement * least) {
      text += "# the cores were moved meanwhile: do not compare these figures with others\n";
    }
  }
  return text + fmt::format("# wrong elements: {}\n", wrong());
}

std::string BenchReport::ToJson() const {
  json trips = json::array();
  if (round_trip_before) trips.push_back(*round_trip_before);
  if (round_trip_after) trips.push_back(*round_trip_after);
  json object = {{"system", system},       {"collective", collective},
                 {"workers", workers},     {"transport", transport},
                 {"hosts", hosts},
                 {"dtype", dtype},         {"op", op},
                 {"in_flight", in_flight}, {"tensors", tensors},
                 {"buffers", mapped ? "shared" : "private"},
                 {"bound", bound},         {"usable_cores", usable_cores},
                 {"round_trip_ns", trips}, {"rows", json::array()}};
  for (const BenchRow& row : rows) {
    object["rows"].push_back({{"bytes", row.bytes},
                              {"count", row.count},
                              {"out_of_place", JsonOf(row.out_of_place)},
                              {"in_place", JsonOf(row.in_place)}});
  }
  return object.dump(2) + "\n";
}

// nlohmann throws; nothing leaves this function.
std::string BenchReport::Parse(const std::string& text, BenchReport* report) {
  try {
    const json object = json::parse(text);
    report->system = object.at("system");
    report->collective = object.at("collective");
    report->workers = object.at("workers");
    report->transport = object.value("transport", "");
    report->dtype = object.value("dtype", "");
    report->op = object.value("op", "none");
    for (const json& row : object.at("rows")) {
      report->rows.push_back({row.at("bytes"), row.value("count", int64_t{0}),
                              TimingOf(row.value("out_of_place", json())),
                              TimingOf(row.value("in_place", json()))});
    }
  } catch (const json::exception& error) {
    return fmt::format("it is not what tutti bench --json writes: {}", error.what());
  }
  if (report->rows.empty()) return "it has no rows";
  return "";
}

}  // namespace tutti::tool
