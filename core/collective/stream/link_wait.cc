#include "core/collective/stream/link_wait.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"

namespace tutti {

Result<std::unique_ptr<LinkWaker>> LinkWaker::Create() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return ErrnoStatus(errno, "eventfd");
  return std::unique_ptr<LinkWaker>(new LinkWaker(std::move(event)));
}

void LinkWaker::Wake() {
  const uint64_t one = 1;
  // A full counter has woken the sleeper already.
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

void LinkWaker::Clear() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof(count));
}

LinkWait::LinkWait(Environment& environment, const CallOptions& options, LinkWaker& waker)
    : environment_(environment),
      options_(options),
      waker_(waker),
      start_ns_(environment.clock().NowNs()),
      next_poll_ns_(start_ns_) {
  if (options_.cancellation != nullptr) {
    listener_ = options_.cancellation->AddListener([this] { waker_.Wake(); });
  }
}

LinkWait::~LinkWait() {
  if (options_.cancellation != nullptr) options_.cancellation->RemoveListener(listener_);
}

int64_t LinkWait::waited_ns() const { return environment_.clock().NowNs() - start_ns_; }

bool LinkWait::TimeToLog() {
  if (logged_ || waited_ns() < kLogWaitNs) return false;
  logged_ = true;
  return true;
}

bool LinkWait::AsksHost() const {
  const Cancellation* const cancellation = options_.cancellation;
  return cancellation != nullptr && cancellation->is_polled() && !cancellation->cancelled() &&
         environment_.clock().NowNs() >= next_poll_ns_;
}

Status LinkWait::Check() {
  Cancellation* const cancellation = options_.cancellation;
  if (cancellation != nullptr) {
    if (AsksHost()) {
      next_poll_ns_ = environment_.clock().NowNs() + Cancellation::kPollIntervalNs;
      cancellation->PollNow();
    }
    if (cancellation->cancelled()) return cancellation->reason();
  }
  if (options_.deadline.Expired(environment_.clock())) {
    return Status(StatusCode::kDeadlineExceeded, "");
  }
  return OkStatus();
}

int64_t LinkWait::SleepLimitNs() const {
  const int64_t now = environment_.clock().NowNs();
  int64_t limit = options_.deadline.RemainingNs(environment_.clock());
  if (options_.cancellation != nullptr) limit = std::min(limit, Cancellation::kPollIntervalNs);
  if (!logged_) limit = std::min(limit, std::max<int64_t>(start_ns_ + kLogWaitNs - now, 0));
  if (wake_at_ns_ != kNeverNs) limit = std::min(limit, std::max<int64_t>(wake_at_ns_ - now, 0));
  return limit;
}

void LinkWait::Sleep(std::span<const std::unique_ptr<LinkPeer>> peers) {
  entries_.clear();
  entries_.push_back(pollfd{waker_.fd(), POLLIN, 0});
  bool may_sleep = true;
  int64_t limit = kNeverNs;
  for (const std::unique_ptr<LinkPeer>& peer : peers) {
    entries_.push_back(pollfd{-1, 0, 0});
    if (!peer || peer->closed()) continue;
    const bool want_write = peer->sending() && !peer->send_closed();
    if (!peer->link().PrepareSleep(!peer->paused(), want_write, &entries_.back())) {
      may_sleep = false;
    }
    limit = std::min(limit, peer->link().SleepLimitNs());
  }
  if (may_sleep) {
    limit = std::min(limit, SleepLimitNs());
    timespec time{static_cast<time_t>(limit / kSecondNs), static_cast<long>(limit % kSecondNs)};
    // An interrupted or failed poll is a short one.
    if (ppoll(entries_.data(), entries_.size(), limit == kNeverNs ? nullptr : &time, nullptr) < 0) {
      for (pollfd& entry : entries_) entry.revents = 0;
    }
  }
  wake_at_ns_ = kNeverNs;
  if (entries_[0].revents != 0) waker_.Clear();
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i] && !peers[i]->closed()) peers[i]->link().EndSleep(entries_[i + 1]);
  }
}

}  // namespace tutti
