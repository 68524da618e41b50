// How both sides of a comparison are timed: rank 0 times batches of calls, all ranks make as many.
//
// A batch takes half a millisecond or more, so that reading the clock costs nothing, and not much
// more, so that some are left in peace by whatever else the machine does. How many calls a batch
// has rank 0 finds out, and tells the others by `agree`, a broadcast of the side that is timed.
// Before and after each batch the round trip of a cache line between ranks 0 and 1 is measured:
// virtual machines move their cores within seconds, from siblings of one core to two and back.

#ifndef TUTTI_TESTS_BENCHMARKS_TIMED_CALLS_H_
#define TUTTI_TESTS_BENCHMARKS_TIMED_CALLS_H_

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

// Binds this thread to the usable core number `rank`, where there is one for each rank.
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

inline bool HasCoreForEach(int ranks) {
  cpu_set_t usable;
  return sched_getaffinity(0, sizeof(usable), &usable) == 0 && CPU_COUNT(&usable) >= ranks;
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

// Writes `data`, words that are all alike, as whoever computes what is summed does before each
// call: whole lines by plain stores, each of which may have to take its line back from a peer.
inline void WriteAnew(void* data, size_t bytes) {
  auto* const words = static_cast<uint32_t*>(data);
  const size_t count = bytes / sizeof(uint32_t);
  constexpr size_t kWordsOfLine = 16;
  const uint32_t word = count == 0 ? 0 : words[0];
  size_t at = 0;
  for (; at + kWordsOfLine <= count; at += kWordsOfLine) {
    for (size_t i = 0; i < kWordsOfLine; ++i) words[at + i] = word;
    asm volatile("" ::: "memory");  // no library's routine for it
  }
  for (; at < count; ++at) words[at] = word;
}

// Reads a word of each line, as whoever needs the sums does after each call.
inline void ReadThrough(const void* data, size_t bytes) {
  const auto* const begin = static_cast<const volatile char*>(data);
  for (size_t at = 0; at < bytes; at += 64) (void)begin[at];
}

// Round trips of a cache line between ranks 0 and 1, each on a core of its own. `word`, in memory
// that both map, is zero at first and used for nothing else.
class RoundTrips {
 public:
  RoundTrips(std::atomic<uint64_t>* word, int rank)
      : word_(word), rank_(static_cast<uint64_t>(rank)) {}

  // Nanoseconds of one, on average. Ranks 0 and 1 call it as often.
  double Measure(uint64_t rounds) {
    const double begin = NowSeconds();
    for (uint64_t round = 0; round < rounds; ++round) {
      const uint64_t turn = next_ + 2 * round + rank_;
      while (word_->load(std::memory_order_acquire) != turn) {
      }
      word_->store(turn + 1, std::memory_order_release);
    }
    next_ += 2 * rounds;
    return (NowSeconds() - begin) / static_cast<double>(rounds) * 1e9;
  }

 private:
  std::atomic<uint64_t>* const word_;
  const uint64_t rank_;
  uint64_t next_ = 0;
};

struct TimedCalls {
  int rank;
  double seconds;                          // for the batches of one size, about
  std::function<void()> call;              // one collective call
  std::function<int64_t(int64_t)> agree;   // the number that rank 0 gives
  RoundTrips* round_trips;                 // null where ranks 0 and 1 may share a core

  // Rank 0 prints a line per batch: `bytes`, the microseconds of a call, and the nanoseconds of a
  // round trip before and after it, 0 where they are not measured.
  void Print(int64_t bytes) const {
    constexpr int kWarmUp = 24;
    constexpr double kBatchSeconds = 5e-4;
    constexpr int64_t kMostBatches = 400;
    for (int i = 0; i < kWarmUp; ++i) call();
    double probed = 1;
    constexpr int kProbes = 5;
    for (int i = 0; i < kProbes; ++i) {
      const double start = NowSeconds();
      call();
      probed = std::min(probed, NowSeconds() - start);
    }
    probed = std::max(probed, 1e-8);
    const auto calls =
        agree(std::clamp<int64_t>(static_cast<int64_t>(kBatchSeconds / probed), 2, 20'000));
    const double batch_seconds = probed * static_cast<double>(calls);
    const auto batches = agree(
        std::clamp<int64_t>(static_cast<int64_t>(seconds / batch_seconds), 5, kMostBatches));
    std::vector<std::string> lines;
    for (int64_t batch = 0; batch < batches; ++batch) {
      const double before = RoundTrip();
      // The first call after it finds the ranks apart.
      call();
      const double begin = NowSeconds();
      for (int64_t i = 0; i < calls; ++i) call();
      const double took = (NowSeconds() - begin) / static_cast<double>(calls) * 1e6;
      const double after = RoundTrip();
      char line[128];
      std::snprintf(line, sizeof(line), "%lld %.4f %.1f %.1f\n", static_cast<long long>(bytes),
                    took, before, after);
      lines.emplace_back(line);
    }
    if (rank != 0) return;
    for (const std::string& line : lines) std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  double RoundTrip() const {
    constexpr uint64_t kRounds = 100;
    return round_trips != nullptr && rank < 2 ? round_trips->Measure(kRounds) : 0;
  }
};

#endif  // TUTTI_TESTS_BENCHMARKS_TIMED_CALLS_H_
