#include "core/collective/stream/link_dialler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"

namespace tutti {
namespace {

// So long an unreachable peer is tried, with a pause before each new try.
constexpr int64_t kPatienceNs = 30 * kSecondNs;
constexpr int64_t kPauseNs = 20 * kMillisecondNs;

}  // namespace

LinkDialler::LinkDialler(Environment& environment, LinkConnector& connector,
                         std::function<void()> changed)
    : environment_(environment),
      connector_(connector),
      changed_(std::move(changed)),
      stop_(MakeRef<Cancellation>()) {}

Result<std::unique_ptr<LinkDialler>> LinkDialler::Start(Environment& environment,
                                                        LinkConnector& connector,
                                                        std::function<void()> changed) {
  std::unique_ptr<LinkDialler> dialler(
      new LinkDialler(environment, connector, std::move(changed)));
  TUTTI_ASSIGN_OR_RETURN(
      dialler->thread_,
      environment.StartThread("tutti-connect", [self = dialler.get()] { self->Work(); }));
  return dialler;
}

LinkDialler::~LinkDialler() { Stop(); }

void LinkDialler::Stop() {
  stop_->Cancel();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    changed_targets_.notify_all();
  }
  // A forked child has the object and not the thread.
  if (environment_.LeftBehindByFork()) {
    thread_.Abandon();
  } else {
    thread_.Join(CallOptions()).rep();
  }
}

void LinkDialler::Dial(int64_t rank, bool wish) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Target& target : targets_) {
    if (target.rank != rank || target.wish != wish) continue;
    target.only_once = false;
    return;
  }
  // A second connection would take the first one's place at the peer, and end it.
  for (const Outcome& outcome : outcomes_) {
    if (outcome.rank == rank && outcome.wish == wish) return;
  }
  const int64_t now = environment_.clock().NowNs();
  targets_.push_back(Target{rank, wish, false, now, now});
  changed_targets_.notify_all();
}

void LinkDialler::GiveUpRest() {
  std::lock_guard<std::mutex> lock(mutex_);
  targets_.resize(trying_ ? 1 : 0);
  if (trying_) targets_.front().only_once = true;
}

std::vector<LinkDialler::Outcome> LinkDialler::TakeOutcomes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(outcomes_, {});
}

bool LinkDialler::idle() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return targets_.empty() && outcomes_.empty();
}

bool LinkDialler::WaitForTarget(Target* target) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_->cancelled()) {
    if (targets_.empty()) {
      changed_targets_.wait(lock);
      continue;
    }
    // The one that is due first, to the front.
    std::stable_sort(targets_.begin(), targets_.end(),
                     [](const Target& a, const Target& b) { return a.due_ns < b.due_ns; });
    const int64_t pause_ns = targets_.front().due_ns - environment_.clock().NowNs();
    if (pause_ns > 0) {
      changed_targets_.wait_for(lock, std::chrono::nanoseconds(pause_ns));
      continue;
    }
    *target = targets_.front();
    trying_ = true;
    return true;
  }
  return false;
}

Result<std::unique_ptr<Link>> LinkDialler::Try(const Target& target) {
  CallOptions call{Deadline::At(target.begun_ns + kPatienceNs), stop_.get()};
  if (!target.wish) return connector_.Connect(target.rank, call);
  TUTTI_RETURN_IF_ERROR(connector_.Ask(target.rank, call));
  return std::unique_ptr<Link>();
}

void LinkDialler::Work() {
  Target target;
  while (WaitForTarget(&target)) {
    Result<std::unique_ptr<Link>> link = Try(target);
    if (stop_->cancelled() && !link.ok()) return;
    const int64_t now = environment_.clock().NowNs();
    const bool may_help = !link.ok() && link.status().code() == StatusCode::kUnavailable &&
                          now - target.begun_ns < kPatienceNs;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      trying_ = false;
      // Others may have come behind it; nobody else takes it away.
      if (may_help && !targets_.front().only_once) {
        targets_.front().due_ns = now + kPauseNs;
        continue;
      }
      targets_.pop_front();
      outcomes_.push_back(Outcome{target.rank, target.wish, std::move(link)});
    }
    changed_();
  }
}

}  // namespace tutti
