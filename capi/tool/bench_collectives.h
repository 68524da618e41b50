// The collectives that `tutti bench` can measure: how much of the data each rank holds before and
// after, how the library is called, what must come out, and what nccl-tests would call its bus
// bandwidth (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
//
// The size of a call is that of its larger side, as nccl-tests has it: for all_gather the joined
// tensor, so that a rank brings size / n. The count beside it is what one rank brings or gets.
// Uneven ones count in units: of all_gather_uneven rank r brings r + 1, of all_to_all_uneven it
// sends rank p 1 + (r + p) % n of them.

#ifndef TUTTI_CAPI_TOOL_BENCH_COLLECTIVES_H_
#define TUTTI_CAPI_TOOL_BENCH_COLLECTIVES_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capi/tool/c_handles.h"

namespace tutti::tool {

// One call of one rank. Only what takes several tensors has more than one input and output.
struct BenchCall {
  tutti_communicator* communicator = nullptr;
  std::span<const tutti_tensor* const> inputs;
  std::span<tutti_tensor* const> outputs;
  CTensor* made = nullptr;  // where a call puts a tensor that it made
  tutti_reduce_op op = TUTTI_REDUCE_SUM;
  int64_t root = 0;
  std::span<const int64_t> rows;  // of uneven ones: how many elements go to each rank

  const tutti_tensor* input() const { return inputs.empty() ? nullptr : inputs[0]; }
  tutti_tensor* output() const { return outputs.empty() ? nullptr : outputs[0]; }
};

// Who is who in a call: `share` elements of each rank, where ranks have shares, or a unit where
// they are uneven.
struct BenchPlace {
  int64_t size = 1;
  int64_t rank = 0;
  int64_t root = 0;
  int64_t share = 0;
};

// Elements of the result that come from one rank, one after the other.
struct BenchRun {
  int64_t count = 0;
  int64_t rank = 0;   // -1: of all ranks, folded
  int64_t index = 0;  // of the first one in what the rank brought
};

// What a rank has of the data on one side of a call.
enum class BenchPart { kNone, kWhole, kShare, kOwnUnits };
// The whole consists of nothing in particular; of equal shares, one for each rank; of units.
enum class BenchShares { kNone, kEqual, kUneven };

struct BenchCollective {
  const char* name;
  BenchPart input;
  BenchPart output;
  BenchShares shares;
  bool reduces;          // takes --op
  bool only_at_root;     // the other ranks get nothing
  bool makes_output;     // a new tensor each time; else there is one to fill
  bool works_in_place;   // the smaller side may be a part of the larger one, or they are the same
  bool always_in_place;  // there is one tensor only
  double (*bus_factor)(double n);
  // What the result, of so many elements, consists of.
  std::vector<BenchRun> (*runs)(const BenchPlace& place, int64_t elements);
  tutti_status* (*call)(const BenchCall& call);
  // The same at once; null where the library cannot.
  tutti_status* (*start)(const BenchCall& call, tutti_future** out_future);
  // Several tensors at once; null where the library cannot.
  tutti_status* (*call_many)(const BenchCall& call);
  tutti_status* (*start_many)(const BenchCall& call, tutti_future** out_future);
};

// How many units a rank brings, and sends to another one, of a uneven call.
int64_t UnitsOfRank(int64_t rank);
int64_t UnitsBetween(const BenchPlace& place, int64_t from, int64_t to);
// Of all ranks together, or of one of them to all others: as many in both.
int64_t UnitsOfAll(int64_t size);

std::span<const BenchCollective> BenchCollectives();
// Null when there is none of that name.
const BenchCollective* FindBenchCollective(const std::string& name);
// "all_reduce, broadcast, ...".
std::string BenchCollectiveNames();

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_COLLECTIVES_H_
