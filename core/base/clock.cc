#include "core/base/clock.h"

#include <chrono>

namespace tutti {
namespace {

class SystemClock final : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  int64_t WallNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  Status Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
              int64_t until_ns) override {
    if (until_ns == kNeverNs) {
      condition.wait(lock);
    } else {
      condition.wait_until(
          lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until_ns)));
    }
    return OkStatus();
  }
};

}  // namespace

Clock& RealClock() {
  static SystemClock* const clock = new SystemClock();  // never destroyed: threads may outlive exit
  return *clock;
}

}  // namespace tutti
