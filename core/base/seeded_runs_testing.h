// SeededRuns: how often a seeded test runs what it does. One setting scales all of them:
//
//   TUTTI_TEST_SCALE=1000   ten times the runs of an ordinary test (percent; 100 unless given)
//
//   SeededRuns runs("jobs", 500);
//   while (runs.Next()) Play(runs.number());   // number(): 0, 1, 2 ...
//
// A scale of up to 100 is an ordinary run: a test then begins nothing new after 12 seconds, however
// slow the machine or the sanitizer. In the end it prints how many runs it has done. Time decides
// only how much is tried, never whether that is right.

#ifndef TUTTI_CORE_BASE_SEEDED_RUNS_TESTING_H_
#define TUTTI_CORE_BASE_SEEDED_RUNS_TESTING_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace tutti {

// Of the text of an environment variable; nothing for one that is not set.
inline std::optional<uint64_t> NumberOf(const char* text) {
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

// What one setting makes of the number of runs, or of seconds, of an ordinary test: at least one.
inline constexpr uint64_t kOrdinaryScale = 100;
inline uint64_t TestScale() {
  return NumberOf(std::getenv("TUTTI_TEST_SCALE")).value_or(kOrdinaryScale);
}
inline uint64_t Scaled(uint64_t ordinary, uint64_t scale = TestScale()) {
  return std::max<uint64_t>(1, ordinary * scale / kOrdinaryScale);
}

class SeededRuns {
 public:
  static constexpr auto kMostTime = std::chrono::seconds(12);
  using Now = std::chrono::steady_clock::time_point (*)();

  // `what` names the runs in what is printed. Tests give a scale and a clock of their own.
  SeededRuns(std::string what, uint64_t ordinary_runs, uint64_t scale = TestScale(),
             Now now = &std::chrono::steady_clock::now)
      : what_(std::move(what)),
        wanted_(Scaled(ordinary_runs, scale)),
        is_bounded_(scale <= kOrdinaryScale),
        now_(now),
        begin_(now()) {}
  ~SeededRuns() {
    const std::chrono::duration<double> took = now_() - begin_;
    std::printf("%s: %llu of %llu in %.1f s\n", what_.c_str(),
                static_cast<unsigned long long>(done_), static_cast<unsigned long long>(wanted_),
                took.count());
  }
  SeededRuns(const SeededRuns&) = delete;
  SeededRuns& operator=(const SeededRuns&) = delete;

  // Whether there is one more, which has then begun. The first one always is.
  bool Next() {
    if (done_ == wanted_) return false;
    if (is_bounded_ && done_ > 0 && now_() - begin_ >= kMostTime) return false;
    ++done_;
    return true;
  }
  // Of the run that has begun last, from 0.
  uint64_t number() const { return done_ - 1; }
  uint64_t done() const { return done_; }

 private:
  const std::string what_;
  const uint64_t wanted_;
  const bool is_bounded_;
  const Now now_;
  const std::chrono::steady_clock::time_point begin_;
  uint64_t done_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_SEEDED_RUNS_TESTING_H_
