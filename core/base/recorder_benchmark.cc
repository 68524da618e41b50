#include "core/base/recorder.h"

#include <benchmark/benchmark.h>

namespace tutti {
namespace {

constexpr FlightEventType kBegin{"all_reduce", {"subject", "sequence", "bytes", "dtype", "root",
                                                "reduction", "call"}};
constexpr FlightEventType kEnd{"all_reduce", {"subject", "sequence", "code"}};

// What a collective call costs: its begin and its end.
void BM_RecordCall(benchmark::State& state) {
  static Recorder* const recorder = new Recorder(RealClock());
  int64_t sequence = 0;
  for (auto _ : state) {
    recorder->Record(kBegin, FlightPhase::kBegin, {0, ++sequence, 31400, 12, -1, 1, 4711});
    recorder->Record(kEnd, FlightPhase::kEnd, {0, sequence, 0});
  }
}
BENCHMARK(BM_RecordCall)->Threads(1)->Threads(2);

// For comparison: what two readings of the machine's clock would be of it.
void BM_ReadClockTwice(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(RealClock().NowNs());
    benchmark::DoNotOptimize(RealClock().NowNs());
  }
}
BENCHMARK(BM_ReadClockTwice);

}  // namespace
}  // namespace tutti
