// What `tutti bench` was asked for. Its workers read the same words.

#ifndef TUTTI_CAPI_TOOL_BENCH_OPTIONS_H_
#define TUTTI_CAPI_TOOL_BENCH_OPTIONS_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capi/tool/bench_collectives.h"

namespace tutti::tool {

struct BenchOptions {
  static constexpr int kMaxWorkers = 64;

  struct Peer {
    std::string name;
    std::string file;
  };

  const BenchCollective* collective = nullptr;
  int workers = 2;
  int64_t min_bytes = 8;
  int64_t max_bytes = int64_t{64} << 20;
  int64_t factor = 2;
  std::string transport = "auto";
  bool in_process = false;
  bool join = false;  // this process is a worker of a cluster that there is; `workers` is its size
  tutti_dtype dtype = TUTTI_DTYPE_FLOAT32;
  tutti_reduce_op op = TUTTI_REDUCE_SUM;
  std::string op_name = "sum";
  std::optional<int64_t> iterations;
  double seconds = 0.2;
  bool bind = true;
  bool as_json = false;
  std::string progress;  // "off", "line" or "lines"; empty: as standard error is
  std::string svg;
  std::vector<Peer> peers;
  int64_t in_flight = 0;  // calls under way at once; 0: each is waited for
  int64_t tensors = 1;    // that one call takes
  bool mapped = false;    // tensors lie in memory that the ranks map
  std::string tune;       // where the rows go; "-": stdout. Empty: nothing is tuned
  std::vector<const BenchCollective*> tuned;

  // The sizes to measure, growing; one of 0 for a collective without data.
  std::vector<int64_t> Sizes() const;
};

// "8", "64K", "16M", "1G", with B or iB behind if one likes: powers of 1024. Nothing for anything
// else and for what is no int64.
std::optional<int64_t> ParseByteSize(const std::string& text);

// Reads the words after `tutti bench`. Returns the status to exit with when there is nothing to
// measure: help was asked for and is printed, or something is wrong and stderr says what.
std::optional<int> ReadBenchOptions(const std::vector<std::string>& words, BenchOptions* options);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_OPTIONS_H_
