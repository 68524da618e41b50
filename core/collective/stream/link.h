// Link: a byte stream to one peer rank that never blocks. LinkTransport makes collectives of them;
// a link knows nothing of what it carries.
//
// A link is used by one thread at a time. To wait for several links, prepare each for sleep, poll,
// and tell each what came of it:
//
//   pollfd entry;
//   if (link->PrepareSleep(/*want_read=*/true, /*want_write=*/false, &entry)) {
//     poll(&entry, 1, timeout);
//     link->EndSleep(entry);
//   }

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_H_

#include <poll.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>

#include "core/base/clock.h"

namespace tutti {

class Link {
 public:
  static constexpr int64_t kClosed = -1;
  // More parts than that are left for the next call.
  static constexpr size_t kMaxParts = 64;

  virtual ~Link() = default;

  // How many bytes of the parts were taken, from the first on; 0 when there is no room, kClosed
  // when the peer reads no more.
  virtual int64_t TrySend(std::span<const iovec> parts) = 0;
  // How many bytes were put into the parts; 0 when nothing is there yet, kClosed when all that the
  // peer has sent was received and no more will come.
  virtual int64_t TryReceive(std::span<const iovec> parts) = 0;

  // Fills `entry` for poll. False when there is something to do already: do not sleep.
  virtual bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) = 0;
  // Who sleeps for longer prepares again then: what poll does not see is looked at in between.
  virtual int64_t SleepLimitNs() const { return kNeverNs; }
  // After every PrepareSleep, whatever it returned; `entry.revents` is 0 where nobody polled.
  virtual void EndSleep(const pollfd& entry) = 0;

  // Whether both ends are on this machine: what is on its way takes no time then, but room in the
  // caches.
  virtual bool is_near() const { return false; }

  // "its connection closed"; what TryReceive found when it gave kClosed.
  virtual std::string CloseReason() const = 0;
  // "tcp", "ring": static.
  virtual const char* kind() const = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_H_
