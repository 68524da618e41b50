// Time and waiting as a service, so that tests and simulations can bring their own.

#ifndef TUTTI_CORE_BASE_CLOCK_H_
#define TUTTI_CORE_BASE_CLOCK_H_

#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

#include "core/base/status.h"

namespace tutti {

inline constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kMillisecondNs = 1'000'000;
inline constexpr int64_t kSecondNs = 1'000'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; comparable within one process only.
  virtual int64_t NowNs() const = 0;
  // Since 1970, UTC.
  virtual int64_t WallNs() const = 0;
  // True under simulation: time passes by running events, so nothing happens while a thread sleeps.
  virtual bool is_virtual() const { return false; }
  // One wait on `condition`: returns when it was notified, when NowNs() reaches `until_ns`
  // (kNeverNs: no limit), or spuriously. The virtual clock runs the next event instead, and fails
  // when none is left that could end the wait. Callers use WaitUntil.
  virtual Status Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                      int64_t until_ns) = 0;
};

// The machine's clock; one for the whole process, without state.
Clock& RealClock();

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_CLOCK_H_
