// How both sides of a comparison are timed: rank 0 times batches of calls, all ranks make as many.
//
// A batch takes a millisecond or more, so that reading the clock costs nothing; the figure is the
// median of the batches. How many calls a batch has rank 0 finds out, and tells the others by
// `agree`, a broadcast of the side that is timed.

#ifndef TUTTI_TESTS_BENCHMARKS_TIMED_CALLS_H_
#define TUTTI_TESTS_BENCHMARKS_TIMED_CALLS_H_

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

// Binds this process to the usable core number `rank`, where there is one for each rank.
inline bool BindToCore(int rank, int ranks) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return false;
  if (CPU_COUNT(&usable) < ranks) return false;
  int core = 0;
  for (int skipped = 0; !CPU_ISSET(core, &usable) || skipped++ < rank;) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

inline double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::vector<int64_t> ParseSizes(const std::string& text) {
  std::vector<int64_t> sizes;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(',', at);
    if (end == std::string::npos) end = text.size();
    sizes.push_back(std::strtoll(text.c_str() + at, nullptr, 10));
    at = end + 1;
  }
  return sizes;
}

struct TimedCalls {
  bool is_rank_0;
  double seconds;                          // for the batches of one size, about
  std::function<void()> call;              // one collective call
  std::function<int64_t(int64_t)> agree;   // the number that rank 0 gives

  // Microseconds per call on rank 0.
  double Median() const {
    constexpr int kWarmUp = 24;
    constexpr int64_t kMaxBatches = 41;
    for (int i = 0; i < kWarmUp; ++i) call();
    const double start = NowSeconds();
    constexpr int kProbes = 3;
    for (int i = 0; i < kProbes; ++i) call();
    const double probed = std::max((NowSeconds() - start) / kProbes, 1e-8);
    const auto calls = agree(std::clamp<int64_t>(static_cast<int64_t>(1e-3 / probed), 1, 20'000));
    const double batch_seconds = probed * static_cast<double>(calls);
    const auto batches = agree(
        std::clamp<int64_t>(static_cast<int64_t>(seconds / batch_seconds), 5, kMaxBatches));
    std::vector<double> times;
    for (int64_t batch = 0; batch < batches; ++batch) {
      const double begin = NowSeconds();
      for (int64_t i = 0; i < calls; ++i) call();
      times.push_back((NowSeconds() - begin) / static_cast<double>(calls) * 1e6);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }
};

#endif  // TUTTI_TESTS_BENCHMARKS_TIMED_CALLS_H_
