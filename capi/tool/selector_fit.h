// From measured times to steps of the table of algorithms: where one should take over from
// another, and with which chunk.
//
// What holds now stays unless the times say clearly otherwise. Another choice counts at a size when
// it takes at least kLeastGain less there, in the middle of the rounds, and is the faster one in
// kConsistent of them: rounds compare what ran one right after the other. Among all ways to give
// each size a choice the one with the largest sum of gains over that margin is taken, where a
// border more than now costs the margin once more: a border that moves is cheap, an island in the
// middle of another choice must be well worth it.

#ifndef TUTTI_CAPI_TOOL_SELECTOR_FIT_H_
#define TUTTI_CAPI_TOOL_SELECTOR_FIT_H_

#include <cstdint>
#include <vector>

#include "capi/tool/selector_rows.h"

namespace tutti::tool {

constexpr double kLeastGain = 0.05;
constexpr double kConsistent = 0.85;  // by chance: one of 300 of twelve rounds

struct FitCandidate {
  SelectorChoice choice;
  int64_t most_bytes = SelectorStep::kAny;  // that it may be chosen for
};

struct FitMeasurements {
  std::vector<FitCandidate> candidates;
  std::vector<int64_t> sizes;  // payloads, growing
  // Times of a call: [size][candidate][round]. None where a candidate was not measured; otherwise a
  // size has as many rounds of each.
  std::vector<std::vector<std::vector<double>>> us;
};

// The middle one.
double MedianTime(std::vector<double> times);

// `steps` are what holds now, of choices that are candidates; what is returned is equal to them
// where nothing is to be changed.
std::vector<SelectorStep> FitSteps(const FitMeasurements& measured,
                                   const std::vector<SelectorStep>& steps);

// Which step holds for a payload.
const SelectorStep& StepAt(const std::vector<SelectorStep>& steps, int64_t bytes);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_SELECTOR_FIT_H_
