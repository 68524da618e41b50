// What one rank of `tutti bench` does: goes through the sizes, times the calls with the other
// ranks, has the results checked.

#ifndef TUTTI_CAPI_TOOL_BENCH_RANK_H_
#define TUTTI_CAPI_TOOL_BENCH_RANK_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "capi/tool/bench_calls.h"
#include "capi/tool/bench_options.h"
#include "capi/tool/bench_report.h"
#include "capi/tool/c_handles.h"

namespace tutti::tool {

class BenchRank {
 public:
  BenchRank(const BenchOptions& options, tutti_runtime* runtime, tutti_communicator* communicator);

  // Before all else, with the other ranks.
  CStatus Prepare();
  // Measures every size with the other ranks, and calls `on_row` at rank 0 for each.
  CStatus Run(const std::function<void(const BenchRow&)>& on_row);
  CStatus Barrier() const { return calls_.Barrier(); }
  // Why nothing, or nothing more, can be measured, on all ranks alike; else empty.
  const std::string& refusal() const { return refusal_; }

 private:
  using Counts = BenchCalls::Counts;
  using TensorSet = BenchCalls::TensorSet;

  CStatus Measure(const Counts& counts, bool in_place, BenchTiming* timing);
  CStatus MakeSets(const Counts& counts, bool in_place);
  // Whether the sets of all ranks lie in memory that others map.
  CStatus AreMapped(bool* mapped) const;
  CStatus Time(BenchTiming* timing);
  // About `calls` calls of all ranks, so many at a time as `batch` is told.
  CStatus InBatches(int64_t calls, const std::function<CStatus(int64_t)>& batch);
  // So many calls, of which as many are under way as there may be. Tells `on_call`, if there is
  // one, how long each took.
  CStatus CallMany(int64_t count, const std::function<void(double us)>& on_call);
  CStatus CallOneByOne(int64_t count, const std::function<void(double us)>& on_call);
  CStatus CallInFlight(int64_t count, const std::function<void(double us)>& on_call);
  TensorSet* NextSet();

  const BenchOptions& options_;
  BenchCalls calls_;
  const std::string transport_;
  std::vector<TensorSet> sets_;
  size_t next_set_ = 0;
  std::string refusal_;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_RANK_H_
