// Waiting for links: until one can be read or written, somebody calls for attention, or it is time
// to look at the deadline, at the cancellation, or to write a line to the log.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_WAIT_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_WAIT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/collective/stream/link_peer.h"

namespace tutti {

class Environment;

// Ends the sleep of one thread, from any thread.
class LinkWaker {
 public:
  static Result<std::unique_ptr<LinkWaker>> Create();
  // Wakes the sleeper, or the next one that goes to sleep. Never blocks.
  void Wake();
  int fd() const { return event_.get(); }
  void Clear();

 private:
  explicit LinkWaker(FileDescriptor event) : event_(std::move(event)) {}
  const FileDescriptor event_;
};

// One call's wait. Sleeps are real time: links know no other.
class LinkWait {
 public:
  // Longer waits are logged once.
  static constexpr int64_t kLogWaitNs = 30 * kSecondNs;

  LinkWait(Environment& environment, const CallOptions& options, LinkWaker& waker);
  ~LinkWait();
  LinkWait(const LinkWait&) = delete;
  LinkWait& operator=(const LinkWait&) = delete;

  // OK, or why the wait is over: DEADLINE_EXCEEDED without a message, or the cancellation's reason.
  // May ask the host.
  Status Check();
  // Whether Check would ask the host now.
  bool AsksHost() const;
  // Sleeps until something can go on. `peers` whose data has no room are not read.
  void Sleep(std::span<const std::unique_ptr<LinkPeer>> peers);
  // The next sleep ends then, if not before.
  void WakeAt(int64_t time_ns) { wake_at_ns_ = std::min(wake_at_ns_, time_ns); }
  int64_t start_ns() const { return start_ns_; }
  int64_t waited_ns() const;
  // True once, when the wait has become a long one.
  bool TimeToLog();

 private:
  int64_t SleepLimitNs() const;

  Environment& environment_;
  const CallOptions options_;
  LinkWaker& waker_;
  const int64_t start_ns_;
  int64_t next_poll_ns_;
  int64_t wake_at_ns_ = kNeverNs;
  bool logged_ = false;
  uint64_t listener_ = 0;
  std::vector<pollfd> entries_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_WAIT_H_
