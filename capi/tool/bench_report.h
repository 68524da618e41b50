// What `tutti bench` has measured, as nccl-tests' table and as JSON, and as a file of such JSON is
// read back: of another system, or of an earlier time.

#ifndef TUTTI_CAPI_TOOL_BENCH_REPORT_H_
#define TUTTI_CAPI_TOOL_BENCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tool {

struct BenchTiming {
  double time_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double algbw_gbps = 0;  // 1e9 bytes a second
  double busbw_gbps = 0;
  int64_t wrong = 0;
};

struct BenchRow {
  int64_t bytes = 0;
  int64_t count = 0;
  std::optional<BenchTiming> out_of_place;
  std::optional<BenchTiming> in_place;
};

struct BenchReport {
  std::string system;
  std::string collective;
  int64_t workers = 0;
  int64_t hosts = 1;
  std::string transport;
  std::string dtype;
  std::string op;  // "none" for a collective without
  int64_t in_flight = 0;  // 0: each call is waited for
  int64_t tensors = 1;    // of one call
  bool mapped = false;    // the tensors lie in memory that the ranks map
  int usable_cores = 1;
  bool bound = false;
  // Nanoseconds; nothing where there is one core only.
  std::optional<double> round_trip_before, round_trip_after;
  std::vector<BenchRow> rows;

  int64_t wrong() const;
  // What stands above the rows, a row, and what stands below them.
  std::string TextHeader() const;
  std::string TextRow(const BenchRow& row) const;
  std::string TextFooter() const;
  std::string ToJson() const;

  // What a file of this JSON holds, or the error in it. Of the facts about the cores nothing is
  // needed, and rows may lack the percentiles and a placement.
  static std::string Parse(const std::string& json, BenchReport* report);
};

// "97 ns, two cores".
std::string DescribeRoundTrip(double nanoseconds);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_REPORT_H_
