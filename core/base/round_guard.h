// RoundGuard: keeps a thread that works in rounds, and has nobody to throw to, at work when a round
// throws, as for lack of memory: it says so in the log, once in a while, and pauses, so that there
// may be memory again.
//
//   RoundGuard guard("worker 2, the port for tensors", environment);
//   while (!stopped) (void)guard.Run([&] { Serve(); });
//
// A round leaves things, when it throws, so that the next one can go on from there.
#ifndef TUTTI_CORE_BASE_ROUND_GUARD_H_
#define TUTTI_CORE_BASE_ROUND_GUARD_H_

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/exception.h"
#include "core/base/status.h"

namespace tutti {

class Environment;

class RoundGuard {
 public:
  static constexpr int64_t kPauseNs = 20 * kMillisecondNs;
  static constexpr int64_t kLogPeriodNs = 10 * kSecondNs;

  // `environment` outlives it.
  RoundGuard(std::string who, Environment& environment);

  // Whether `body`, which returns nothing, has not thrown.
  template <typename Body>
  bool Run(Body&& body) {
    const Status status = CatchExceptions(who_, [&] {
      std::forward<Body>(body)();
      return OkStatus();
    });
    if (!status.ok()) Pause(status);
    return status.ok();
  }

 private:
  void Pause(const Status& status) noexcept;

  const std::string who_;
  Environment& environment_;
  int64_t next_line_ns_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_ROUND_GUARD_H_
