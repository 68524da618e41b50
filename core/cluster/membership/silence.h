// When is a peer silent? Not by the clock alone: whoever was not scheduled itself (stopped by a
// signal, or on an overloaded machine) has heard nobody for a while, and must not blame the others.
//
// So silence is counted in ticks, one per heartbeat interval, and a tick that comes late is not
// counted: time in which this process did not attend is nobody's silence.
//
// The limit is the time within which everybody is to know of a worker that says nothing more. A
// peer therefore counts as silent one heartbeat before the limit, when so many ticks have passed
// without a word: with the defaults of 3 s and 250 ms after 11 ticks, that is 2.5 to 2.75 s after
// its last word; the rest is for the news to spread.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_SILENCE_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_SILENCE_H_

#include <algorithm>
#include <cstdint>

#include "core/base/clock.h"

namespace tutti {

struct MembershipTiming {
  int64_t silence_limit_ns = 3 * kSecondNs;  // kNeverNs: silence is no failure
  int64_t heartbeat_interval_ns = 250 * kMillisecondNs;

  // 73 years: what is added to a point in time, twice over, is still one.
  static constexpr int64_t kLongestNs = kNeverNs / 4;
  // Whether both are positive, and the limit, unless there is none, is no longer than that.
  bool IsPossible() const {
    return silence_limit_ns > 0 && heartbeat_interval_ns > 0 &&
           heartbeat_interval_ns <= kLongestNs &&
           (silence_limit_ns <= kLongestNs || silence_limit_ns == kNeverNs);
  }

  // At least eight heartbeats fit into the limit.
  MembershipTiming Checked() const {
    MembershipTiming checked = *this;
    checked.silence_limit_ns = std::max<int64_t>(checked.silence_limit_ns, 8 * kMillisecondNs);
    checked.heartbeat_interval_ns = std::clamp<int64_t>(
        checked.heartbeat_interval_ns, kMillisecondNs, checked.silence_limit_ns / 8);
    return checked;
  }
};

// This process's own attention. Where one late tick follows another, that is how fast this process
// goes, and it reads what there is between any two of them. They count, or nobody would be found
// silent on a machine that is overloaded for long, and who waits for such a peer would wait for
// ever.
class Attention {
 public:
  // False for a tick that is late while the one before was not: it does not count.
  bool OnTick(int64_t now_ns, int64_t interval_ns) {
    const bool was_late = late_;
    late_ = last_ns_ >= 0 && now_ns - last_ns_ > 2 * interval_ns;
    was_away_ = late_ && !was_late;
    last_ns_ = now_ns;
    return !was_away_;
  }
  // False between a stop and the first tick that counts: much of what has happened is still unread.
  bool IsUpToDate(int64_t now_ns, int64_t interval_ns) const {
    return !was_away_ && (last_ns_ < 0 || now_ns - last_ns_ <= 2 * interval_ns);
  }

 private:
  int64_t last_ns_ = -1;
  bool late_ = false;
  bool was_away_ = false;
};

// What one peer was last heard of.
class Silence {
 public:
  void Heard(int64_t now_ns) {
    last_heard_ns_ = now_ns;
    ticks_ = 0;
  }
  // One tick that counts has passed without a word.
  void OnTick() { ++ticks_; }
  bool Exceeds(const MembershipTiming& timing) const {
    if (timing.silence_limit_ns == kNeverNs) return false;
    return ticks_ >= timing.silence_limit_ns / timing.heartbeat_interval_ns - 1;
  }
  // Not yet silent, but no answer is to be waited for.
  bool IsQuiet() const { return ticks_ >= 3; }
  int64_t DurationNs(int64_t now_ns) const { return now_ns - last_heard_ns_; }

 private:
  int64_t last_heard_ns_ = 0;
  int64_t ticks_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_SILENCE_H_
