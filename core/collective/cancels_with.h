// While it lives, a cancellation is thrown as soon as another one is, with its reason.

#ifndef TUTTI_CORE_COLLECTIVE_CANCELS_WITH_H_
#define TUTTI_CORE_COLLECTIVE_CANCELS_WITH_H_

#include <cstdint>

#include "core/base/call_options.h"

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

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CANCELS_WITH_H_
