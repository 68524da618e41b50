#include "capi/tool/core_round_trip.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace tutti::tool {
namespace {

constexpr uint64_t kRounds = 1000;
constexpr uint64_t kRoundTripBatches = 15;

// One side of the game: waits for its turn, then makes it the other's.
std::vector<double> Play(std::atomic<uint64_t>* turn, uint64_t side) {
  std::vector<double> times;
  for (uint64_t batch = 0; batch < kRoundTripBatches; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mine = 2 * (batch * kRounds + round) + side;
      while (turn->load(std::memory_order_acquire) != mine) {
      }
      turn->store(mine + 1, std::memory_order_release);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count() / static_cast<double>(kRounds));
  }
  return times;
}

}  // namespace

std::optional<int> UsableCore(int place) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return std::nullopt;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable) && place-- == 0) return core;
  }
  return std::nullopt;
}

bool BindThisThread(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

double MeasureCoreRoundTrip(int first, int second) {
  alignas(128) std::atomic<uint64_t> turn{0};
  std::vector<double> times;
  // Threads of its own: the caller's stays where it is.
  std::thread one([&, first] {
    BindThisThread(first);
    times = Play(&turn, 0);
  });
  std::thread other([&, second] {
    BindThisThread(second);
    Play(&turn, 1);
  });
  one.join();
  other.join();
  std::nth_element(times.begin(), times.begin() + kRoundTripBatches / 2, times.end());
  return times[kRoundTripBatches / 2];
}

}  // namespace tutti::tool
