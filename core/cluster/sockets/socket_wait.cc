#include "core/cluster/sockets/socket_wait.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

// A pause that lasts so long is looked at again even if nothing could end it early.
constexpr int64_t kLongestSliceNs = 10 * kSecondNs;

// True when `socket` (null: none) is ready; false when `until_ns` has come.
Result<bool> PollUntil(Environment& environment, const FileDescriptor* socket, short events,
                       int64_t until_ns, const CallOptions& call, std::string_view what) {
  Clock& clock = environment.clock();
  const int64_t start_ns = clock.NowNs();
  for (;;) {
    if (call.cancellation != nullptr && call.cancellation->PollNow()) {
      return call.cancellation->reason().WithPrefix(what);
    }
    const int64_t now_ns = clock.NowNs();
    int64_t wait_ns = std::min(kLongestSliceNs, std::max<int64_t>(0, until_ns - now_ns));
    if (!call.deadline.is_infinite()) {
      wait_ns = std::min(wait_ns, call.deadline.RemainingNs(clock));
    }
    if (call.cancellation != nullptr) wait_ns = std::min(wait_ns, Cancellation::kPollIntervalNs);
    const timespec slice{static_cast<time_t>(wait_ns / kSecondNs),
                         static_cast<long>(wait_ns % kSecondNs)};
    pollfd entry{socket != nullptr ? socket->get() : -1, events, 0};
    const int ready = ppoll(&entry, 1, &slice, nullptr);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, what);
    if (clock.NowNs() >= until_ns) return false;
    if (call.deadline.Expired(clock)) {
      const int64_t waited_ns = clock.NowNs() - start_ns;
      return DeadlineExceeded("{}: not done after {}; give a longer timeout", what,
                              HumanDuration(waited_ns))
          .With("waited_ns", waited_ns);
    }
  }
}

}  // namespace

Status WaitForSocket(Environment& environment, const FileDescriptor& socket, short events,
                     const CallOptions& call, std::string_view what) {
  return PollUntil(environment, &socket, events, kNeverNs, call, what).status();
}

Status Pause(Environment& environment, int64_t duration_ns, const CallOptions& call,
             std::string_view what) {
  const Deadline end = Deadline::After(environment.clock(), duration_ns);
  return PollUntil(environment, nullptr, 0, end.time_ns(), call, what).status();
}

}  // namespace tutti
