// Cancellations that follow others: while a CancelsWith lives, one is thrown as soon as the other
// is, with its reason.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CANCELS_WITH_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CANCELS_WITH_H_

#include <cstdint>

#include "core/base/call_options.h"
#include "core/base/ref.h"

namespace tutti {

class CancelsWith {
 public:
  // Without a `from` it does nothing.
  CancelsWith(Cancellation* from, Cancellation* to) : from_(from) {
    if (from == nullptr) return;
    listener_ = from->AddListener([from, to] { to->Cancel(from->reason()); });
  }
  ~CancelsWith() {
    if (from_ != nullptr) from_->RemoveListener(listener_);
  }
  CancelsWith(const CancelsWith&) = delete;
  CancelsWith& operator=(const CancelsWith&) = delete;

 private:
  Cancellation* const from_;
  uint64_t listener_ = 0;
};

// A cancellation to be thrown with `caller` (may be null) and for other reasons: it asks the host
// that `caller` asks. Good as long as that is.
inline Ref<Cancellation> MakeCancellationOver(Cancellation* caller) {
  if (caller == nullptr || !caller->is_polled()) return MakeRef<Cancellation>();
  return MakeRef<Cancellation>(
      [](void* polled) { return static_cast<Cancellation*>(polled)->PollNow(); }, caller,
      Ref<const RefCounted>());
}

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CANCELS_WITH_H_
