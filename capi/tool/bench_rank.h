// What one rank of `tutti bench` does: makes the tensors of a size, times the calls with the other
// ranks, checks what came out.

#ifndef TUTTI_CAPI_TOOL_BENCH_RANK_H_
#define TUTTI_CAPI_TOOL_BENCH_RANK_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "capi/tool/bench_options.h"
#include "capi/tool/bench_pattern.h"
#include "capi/tool/bench_report.h"
#include "capi/tool/c_handles.h"

namespace tutti::tool {

class BenchRank {
 public:
  BenchRank(const BenchOptions& options, tutti_runtime* runtime, tutti_communicator* communicator);

  // Measures every size with the other ranks, and calls `on_row` at rank 0 for each.
  CStatus Run(const std::function<void(const BenchRow&)>& on_row);
  CStatus Barrier();

 private:
  // The tensors of one call.
  struct TensorSet {
    CTensor input, output;
    CTensor part;  // in place: the smaller side, a view of the larger one
    CTensor made;
  };
  struct Counts {
    int64_t whole = 0;
    int64_t share = 0;
  };

  Counts CountsOf(int64_t bytes) const;
  int64_t ElementsOf(BenchPart part, const Counts& counts) const;
  CStatus Measure(const Counts& counts, bool in_place, BenchTiming* timing);
  CStatus MakeSet(const Counts& counts, bool in_place, TensorSet* set);
  CStatus Create(int64_t elements, CTensor* tensor);
  // In place a set has one tensor, and maybe a view of it, for both sides.
  static tutti_tensor* InputOf(const TensorSet& set);
  static tutti_tensor* OutputOf(const TensorSet& set);
  // What the rank brings, and rubbish where the result goes.
  CStatus Fill(const Counts& counts, TensorSet* set);
  CStatus Call(TensorSet* set);
  CStatus Time(std::vector<TensorSet>* sets, BenchTiming* timing);
  // About `calls` calls of all ranks, so many at a time as `batch` is told.
  CStatus InBatches(int64_t calls, const std::function<CStatus(int64_t)>& batch);
  int64_t CountWrong(const Counts& counts, const TensorSet& set) const;

  // ---- What the ranks tell each other ----
  CStatus AgreeOnNumberOfRank0(int64_t* number);
  CStatus Fold(tutti_dtype dtype, tutti_reduce_op op, void* number);

  const BenchOptions& options_;
  const BenchCollective& collective_;
  tutti_runtime* const runtime_;
  tutti_communicator* const communicator_;
  const int64_t rank_;
  const int64_t size_;
  const size_t item_;
  BenchPattern pattern_;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_RANK_H_
