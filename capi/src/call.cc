// Cancellations.
#include <tutti/call.h>

#include <new>
#include <utility>

#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "core/base/call_options.h"
#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/base/host_data.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

// The host's question as the core asks it: true or false, in the notification class.
class PolledHost final : public RefCounted {
 public:
  PolledHost(tutti_poll_fn poll, void *user_data) : poll_(poll), user_data_(user_data) {}

  static bool Poll(void *self) {
    const auto *host = static_cast<const PolledHost *>(self);
    const CallbackScope scope(CallbackClass::kNotification);
    return host->poll_(host->user_data_) != 0;
  }

 private:
  const tutti_poll_fn poll_;
  void *const user_data_;
};

}  // namespace

tutti_status *tutti_cancellation_create(tutti_cancellation **out_cancellation) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_cancellation);
    *out_cancellation = Give(MakeRef<Cancellation>());
    return OkStatus();
  });
}

tutti_status *tutti_cancellation_create_polled(tutti_poll_fn poll, void *user_data,
                                               tutti_cancellation **out_cancellation) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, poll, out_cancellation);
    auto host = MakeRef<PolledHost>(poll, user_data);
    PolledHost *self = host.get();
    *out_cancellation = Give(MakeRef<Cancellation>(&PolledHost::Poll, self, std::move(host)));
    return OkStatus();
  });
}

void tutti_cancellation_cancel(tutti_cancellation *cancellation, const char *message) {
  if (cancellation == nullptr) return;
  // A failure to make the reason must not lose the cancellation itself.
  Status reason;
  const Status made = GuardedStatus(__func__, From::kAny, [&](Call) -> Status {
    reason = Cancelled("{}", message != nullptr ? message : "cancelled by the caller");
    return OkStatus();
  });
  try {
    FromHandle(cancellation)->Cancel(made.ok() ? std::move(reason) : made);
  } catch (const std::bad_alloc &) {
    // It is cancelled; a listener had no memory for what it does about it.
  }
}

int32_t tutti_cancellation_is_cancelled(const tutti_cancellation *cancellation) {
  return cancellation != nullptr && FromHandle(cancellation)->cancelled();
}

void tutti_cancellation_retain(const tutti_cancellation *cancellation) {
  RetainHandle(cancellation);
}
void tutti_cancellation_release(const tutti_cancellation *cancellation) {
  ReleaseHandle(cancellation);
}
