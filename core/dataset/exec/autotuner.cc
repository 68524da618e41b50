#include "core/dataset/exec/autotuner.h"

#include <algorithm>

#include "core/base/environment.h"
#include "core/base/text.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/run_profile.h"

namespace tutti {
namespace {

// A window has so many elements per call, and takes so long; or it takes the longest.
constexpr int64_t kRowsPerCall = 4;
constexpr int64_t kWindowNs = 10'000'000;
constexpr int64_t kLongestWindowNs = 500'000'000;
// For so much of the time the consumer has to wait before there are more calls; below the other
// nobody waits.
constexpr double kWaits = 0.25;
constexpr double kNoWaits = 0.02;
// Above that nearly all of the time is waiting: there are by far too few.
constexpr double kOnlyWaits = 0.9;
// What twice the calls have to bring.
constexpr double kGain = 1.1;
constexpr int64_t kIdleWindows = 32;

}  // namespace

int64_t Autotuner::Take(int64_t wanted) {
  int64_t used = used_.load(std::memory_order_relaxed);
  int64_t taken;
  do {
    taken = cpu_budget_ == 0 ? wanted
                             : std::clamp<int64_t>(cpu_budget_ - used, 0, wanted);
  } while (!used_.compare_exchange_weak(used, used + taken, std::memory_order_relaxed));
  return taken;
}

TunedCalls::TunedCalls(const Node& node, const ExecContext& context, std::string_view attribute,
                       bool tunes, int64_t first, int64_t most)
    : node_(Ref<const Node>::Retain(&node)),
      profile_(context.profile),
      record_(context.record),
      autotuner_(tunes && !context.probe ? context.autotuner : nullptr),
      attribute_(attribute),
      clock_(context.environment->environment().clock()),
      hurries_(context.budget == nullptr),
      most_(most),
      now_(first) {
  if (autotuner_ != nullptr) {
    autotuner_->TakeFirst();
    now_ = 1 + autotuner_->Take(std::min(first, most) - 1);
    began_ = clock_.Now();
    if (profile_ != nullptr) {
      profile_->AddDecision(*node_, Format("{}: {}, to begin with", attribute_, now_));
    }
  }
  if (record_ != nullptr) record_->SetParallelism(now_);
}

TunedCalls::~TunedCalls() {
  if (autotuner_ != nullptr) autotuner_->GiveBack(now_);
}

void TunedCalls::Set(int64_t calls, std::string_view why) {
  if (profile_ != nullptr) {
    profile_->AddDecision(*node_, Format("{}: {} -> {}, {}", attribute_, now_, calls, why));
  }
  now_ = calls;
  if (record_ != nullptr) record_->SetParallelism(now_);
}

bool TunedCalls::Observe(int64_t rows, uint64_t waited, bool all_busy) {
  if (autotuner_ == nullptr) return false;
  rows_ += rows;
  waits_ += waited;
  if (all_busy) busy_waits_ += waited;
  const uint64_t now = clock_.Now();
  // The processor's counter runs at some GHz, and other clocks at one: about nanoseconds will do.
  const auto ticks = static_cast<double>(now - began_);
  const double ns = ticks * (clock_.counts() ? 0.4 : 1.0);
  if (!HasSeenEnough(ns, ticks)) return false;
  const bool grew =
      !skips_ && Decide(static_cast<double>(rows_) / std::max(ns, 1.0), std::max(ticks, 1.0));
  skips_ = !skips_ && grew;
  began_ = now;
  rows_ = 0;
  waits_ = busy_waits_ = 0;
  return grew;
}

bool TunedCalls::HasSeenEnough(double ns, double ticks) const {
  if (ns >= kLongestWindowNs) return true;
  if (ns < kWindowNs) return false;
  if (rows_ >= kRowsPerCall * now_) return true;
  // Nothing is compared with what this window gives, or all of it was waiting.
  const bool only_waits = static_cast<double>(busy_waits_) >= ticks * kOnlyWaits;
  return rows_ >= now_ && (skips_ || (before_ == 0 && pause_ == 0 && only_waits));
}

bool TunedCalls::Decide(double rate, double ticks) {
  const double waits = static_cast<double>(waits_) / ticks;
  // What stands below could be slower: then it is not more calls that would help.
  const bool limits = waits >= kWaits && busy_waits_ * 2 >= waits_;
  if (before_ > 0) {
    const int64_t before = std::exchange(before_, 0);
    if (limits && rate < rate_before_ * kGain) {
      autotuner_->GiveBack(now_ - before);
      Set(before, "more gave no more");
      pause_ = next_pause_;
      next_pause_ = std::min<int64_t>(next_pause_ * 2, 1024);
      return false;
    }
    if (limits && now_ > before * 2 && rate < rate_before_ * 2 * kGain) {
      autotuner_->GiveBack(now_ - before * 2);
      Set(before * 2, "half as many give as much");
      pause_ = next_pause_;
      return false;
    }
  }
  idle_ = waits < kNoWaits ? idle_ + 1 : 0;
  if (idle_ >= kIdleWindows && !halved_ && now_ > least_) {
    const int64_t half = std::max(least_, now_ / 2);
    autotuner_->GiveBack(now_ - half);
    Set(half, "nobody waits");
    halved_ = true;
    idle_ = 0;
    return false;
  }
  if (pause_ > 0) {
    --pause_;
    return false;
  }
  if (!limits || now_ >= most_) return false;
  const bool only_waits = static_cast<double>(busy_waits_) >= ticks * kOnlyWaits;
  const int64_t wanted = hurries_ && only_waits ? now_ * 3 : now_;
  const int64_t more = autotuner_->Take(std::min(wanted, most_ - now_));
  if (more == 0) return false;
  before_ = now_;
  rate_before_ = rate;
  Set(now_ + more, Format("the consumer waited {:.0f} % of the time", waits * 100));
  return true;
}

TunedBuffer::TunedBuffer(const Node& node, const ExecContext& context, bool tunes, int64_t first)
    : node_(Ref<const Node>::Retain(&node)),
      profile_(context.profile),
      tunes_(tunes && !context.probe && context.autotuner != nullptr),
      now_(first) {
  if (tunes_ && profile_ != nullptr) {
    profile_->AddDecision(*node_, Format("buffer_size: {}, to begin with", now_));
  }
}

bool TunedBuffer::WasEmpty(int64_t row_bytes) {
  if (!tunes_ || !was_full_ || now_ >= kMostTunedElements) return false;
  was_full_ = false;
  const int64_t size = std::min(now_ * 2, kMostTunedElements);
  if (row_bytes > kMostTunedBytes / size) return false;
  if (profile_ != nullptr) {
    profile_->AddDecision(
        *node_, Format("buffer_size: {} -> {}, it was full and then empty", now_, size));
  }
  now_ = size;
  return true;
}

}  // namespace tutti
