#include "core/base/closable.h"

#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/reaper.h"
#include "core/base/wait.h"

namespace tutti {

Closable::Closable(Ref<Environment> environment, std::string name)
    : environment_(std::move(environment)), name_(std::move(name)) {}

Closable::~Closable() {
  if (registered_.load(std::memory_order_acquire)) environment_->UnregisterClosable(this);
}

Status Closable::Register() { return environment_->RegisterClosable(this); }

Status Closable::Close(const CallOptions& options) {
  if (environment_->LeftBehindByFork()) return environment_->CheckUsable("close of " + name_);
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, idle_, environment_->clock(), options, [&] { return !exclusive_; },
      "close of " + name_));
  if (closed()) return OkStatus();
  exclusive_ = true;
  lock.unlock();
  {
    const Exclusive exclusive{this};
    TUTTI_RETURN_IF_ERROR(OnClose(options));
    closed_.store(true);
  }
  environment_->UnregisterClosable(this);
  TakeReferenceLeft();  // the caller has one of its own
  return OkStatus();
}

// In one order for all: of a close and of this one at least sees what the other has said.
void Closable::LeaveReferenceToClose() const noexcept {
  reference_left_.store(true);
  if (closed_.load()) TakeReferenceLeft();
}

void Closable::TakeReferenceLeft() const noexcept {
  if (reference_left_.exchange(false)) Release();
}

Status Closable::BeginStart() {
  TUTTI_RETURN_IF_ERROR(environment_->CheckUsable(name_));
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, idle_, environment_->clock(), CallOptions::Default(), [&] { return !exclusive_; },
      "start of " + name_));
  if (closed()) {
    return FailedPrecondition("{} has been closed and cannot be used any more; make a new one",
                              name_);
  }
  exclusive_ = true;
  return OkStatus();
}

void Closable::EndExclusive() {
  std::lock_guard<std::mutex> lock(mutex_);
  exclusive_ = false;
  idle_.notify_all();
}

void Closable::OnLastRelease() const noexcept {
  if (closed() || !registered_.load(std::memory_order_acquire)) {
    delete this;
    return;
  }
  // In a forked child there is nothing to join, and the destructor could not know.
  if (environment_->LeftBehindByFork()) return;
  // The reaper owns one reference from here on.
  Retain();
  environment_->reaper().Take(const_cast<Closable*>(this));
}

}  // namespace tutti
