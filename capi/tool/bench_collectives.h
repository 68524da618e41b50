// The collectives that `tutti bench` can measure: how much of the data each rank holds before and
// after, how the library is called, what must come out, and what nccl-tests would call its bus
// bandwidth (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
//
// The size of a call is that of its larger side, as nccl-tests has it: for all_gather the joined
// tensor, so that a rank brings size / n. The count beside it is what one rank brings or gets.

#ifndef TUTTI_CAPI_TOOL_BENCH_COLLECTIVES_H_
#define TUTTI_CAPI_TOOL_BENCH_COLLECTIVES_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <span>
#include <string>

#include "capi/tool/c_handles.h"

namespace tutti::tool {

// One call of one rank.
struct BenchCall {
  tutti_communicator* communicator = nullptr;
  const tutti_tensor* input = nullptr;
  tutti_tensor* output = nullptr;
  CTensor* made = nullptr;  // where a call puts a tensor that it made
  tutti_reduce_op op = TUTTI_REDUCE_SUM;
  int64_t root = 0;
};

// Who is who in a call: `share` elements of each rank, where ranks have shares.
struct BenchPlace {
  int64_t size = 1;
  int64_t rank = 0;
  int64_t root = 0;
  int64_t share = 0;
};

// Which elements an element of the result comes from.
struct BenchOrigin {
  int64_t rank = 0;  // -1: of all ranks, folded
  int64_t index = 0;
};

// What a rank has of the data on one side of a call.
enum class BenchPart { kNone, kWhole, kShare };

struct BenchCollective {
  const char* name;
  BenchPart input;
  BenchPart output;
  bool has_shares;       // the whole consists of equal shares, one for each rank
  bool reduces;          // takes --op
  bool only_at_root;     // the other ranks get nothing
  bool makes_output;     // a new tensor each time; else there is one to fill
  bool works_in_place;   // the smaller side may be a part of the larger one, or they are the same
  bool always_in_place;  // there is one tensor only
  double (*bus_factor)(double n);
  BenchOrigin (*origin)(const BenchPlace& place, int64_t index);
  tutti_status* (*call)(const BenchCall& call);
};

std::span<const BenchCollective> BenchCollectives();
// Null when there is none of that name.
const BenchCollective* FindBenchCollective(const std::string& name);
// "all_reduce, broadcast, ...".
std::string BenchCollectiveNames();

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_COLLECTIVES_H_
