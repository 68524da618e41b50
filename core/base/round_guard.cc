#include "core/base/round_guard.h"

#include <time.h>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace tutti {

RoundGuard::RoundGuard(std::string who, Environment& environment)
    : who_(std::move(who)), environment_(environment) {}

void RoundGuard::Pause(const Status& status) noexcept {
  const int64_t now_ns = environment_.clock().NowNs();
  if (now_ns >= next_line_ns_) {
    const Status logged = CatchExceptions(who_, [&] {
      environment_.log().Error(Format("{}: something was given up, and is tried again: {}", who_,
                                      status.ToString()));
      return OkStatus();
    });
    if (logged.ok()) next_line_ns_ = now_ns + kLogPeriodNs;
  }
  const timespec pause{0, kPauseNs};
  nanosleep(&pause, nullptr);
}

}  // namespace tutti
