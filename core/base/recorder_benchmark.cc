#include "core/base/recorder.h"

#include <benchmark/benchmark.h>

namespace tutti {
namespace {

constexpr FlightEventType kEvent{"all_reduce", {"sequence", "bytes"}};

void BM_Record(benchmark::State& state) {
  static Recorder* const recorder = new Recorder(RealClock());
  int64_t sequence = 0;
  for (auto _ : state) recorder->Record(kEvent, FlightPhase::kBegin, {++sequence, 31400});
}
BENCHMARK(BM_Record)->Threads(1)->Threads(2);

}  // namespace
}  // namespace tutti
