// What one rank does for `tutti bench --tune` of one collective: times each choice that the table
// of algorithms could make, over a communicator that makes it, at one size after the other.
//
// At each size the choices take turns, round by round, forwards and then backwards, so that what
// else the machine does hits all alike. The best of many is in part the luckiest: what FitSteps
// would change is measured a second time, beside what holds now only, and those figures decide.

#ifndef TUTTI_CAPI_TOOL_BENCH_TUNER_H_
#define TUTTI_CAPI_TOOL_BENCH_TUNER_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <vector>

#include "capi/tool/bench_calls.h"
#include "capi/tool/c_handles.h"
#include "capi/tool/selector_fit.h"

namespace tutti::tool {

struct TuneTask {
  BenchCalls::Subject subject;
  SelectorPlace place;
  std::vector<SelectorStep> steps;       // that hold now
  std::vector<FitCandidate> candidates;  // theirs among them
  std::vector<int64_t> sizes;            // payloads, growing
  double seconds = 1;
};

struct TuneOutcome {
  std::vector<SelectorStep> steps;
  FitMeasurements confirmed;  // present and new choice where they differed at first
  FitMeasurements all;
  int64_t wrong = 0;  // elements that did not come out right
};

// How many bytes `tutti bench` would call a payload of the table.
int64_t BytesOfPayload(const SelectorPlace& place, int64_t payload);

class BenchTuner {
 public:
  // communicators[i] makes choice i of the task.
  BenchTuner(const TuneTask& task, tutti_runtime* runtime,
             const std::vector<tutti_communicator*>& communicators);

  // With the other ranks. At rank 0 `outcome` is filled.
  CStatus Run(TuneOutcome* outcome);

 private:
  using TensorSet = BenchCalls::TensorSet;

  // Times at one size, by candidate; of those in `wanted` only.
  CStatus Measure(int64_t payload, const std::vector<size_t>& wanted, double budget_us,
                  std::vector<std::vector<double>>* us);
  CStatus MakeSets(const BenchCalls::Counts& counts, const std::vector<size_t>& wanted);
  // Each of `wanted` once in every set of tensors; its results are looked at.
  CStatus WarmUp(const BenchCalls::Counts& counts, const std::vector<size_t>& wanted);
  CStatus TimeCalls(size_t candidate, int64_t count, double* us);
  BenchCalls& Base() { return calls_.front(); }
  bool IsRank0() const { return calls_.front().rank() == 0; }

  const TuneTask& task_;
  std::vector<BenchCalls> calls_;  // by candidate
  // All candidates use the same ones; tensors in mapped memory are those of one communicator, and
  // so each candidate has its own.
  std::vector<TensorSet>& SetsOf(size_t candidate) {
    return sets_[task_.subject.mapped ? candidate : 0];
  }

  std::vector<std::vector<TensorSet>> sets_;
  int64_t wrong_ = 0;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_TUNER_H_
