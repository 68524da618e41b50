// The end of an epoch, and the next one: revoke, shrink, grow.

#include <utility>

#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/cancels_with.h"
#include "core/collective/communicator/communicator.h"

namespace tutti {

namespace {

// The caller's options, with a cancellation that is also thrown by the close of the communicator.
class UntilClosed {
 public:
  UntilClosed(Cancellation* closing, const CallOptions& call)
      : deadline_(call.deadline),
        both_(MakeCancellationOver(call.cancellation)),
        with_closing_(closing, both_.get()),
        with_caller_(call.cancellation, both_.get()) {}

  CallOptions options() const { return CallOptions{deadline_, both_.get()}; }

 private:
  const Deadline deadline_;
  const Ref<Cancellation> both_;
  const CancelsWith with_closing_;
  const CancelsWith with_caller_;
};

}  // namespace

Result<RenewedGroup> Transport::Renew(const RenewRequest&, const CallOptions&) {
  return Unimplemented("these ranks cannot form another epoch; make a new communicator");
}

void Communicator::Revoke(Status reason) {
  if (reason.ok()) reason = Aborted("the communicator was revoked");
  transport_->Revoke(
      std::move(reason).With("epoch", epoch_).With("communicator", group_name_));
}

Result<Ref<Communicator>> Communicator::Shrink(const CallOptions& options) {
  return Renew(false, 0, options);
}

Result<Ref<Communicator>> Communicator::Grow(int64_t at_least, const CallOptions& options) {
  if (at_least < 0) return InvalidArgument("grow: at least {} ranks are asked for", at_least);
  return Renew(true, at_least, options);
}

Result<Ref<Communicator>> Communicator::Renew(bool grow, int64_t at_least,
                                              const CallOptions& options) {
  const char* what = grow ? "grow" : "shrink";
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  TUTTI_RETURN_IF_ERROR(CheckNotClosing(what));
  // Ranks that have not noticed yet are to hear the same reason.
  Status reason = transport_->failure();
  if (reason.ok()) {
    reason = Aborted("rank {} leaves epoch {} of communicator {} ({})", rank_, epoch_,
                     group_name_, what);
  }
  Revoke(std::move(reason));
  const UntilClosed until(until_closing_.get(), options);
  Result<RenewedGroup> renewed = transport_->Renew({grow, at_least}, until.options());
  if (!renewed.ok()) {
    return renewed.status().WithPrefix(
        Format("rank {}: {} of communicator {}, epoch {}", rank_, what, group_name_, epoch_));
  }
  return CreatePart(&environment(), group_name_, renewed->rank, renewed->size, renewed->epoch,
                    part_, std::move(renewed->transport));
}

}  // namespace tutti
