#include "core/collective/communicator/communicator.h"

#include <memory>
#include <new>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/recorder.h"
#include "core/base/text.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/call_scope.h"
#include "core/collective/communicator/future.h"
#include "core/collective/communicator/gpu_ranks.h"
#include "core/collective/communicator/known_calls.h"

namespace tutti {
namespace {

FlightSubject SubjectOf(const std::string& name, int64_t rank, int64_t size, int64_t epoch,
                        int64_t group, int64_t color) {
  FlightSubject subject{"communicator", name, {{"rank", rank}, {"size", size}, {"epoch", epoch}}};
  if (group != 0) {
    subject.facts.emplace_back("group", group);
    subject.facts.emplace_back("color", color);
  }
  return subject;
}

}  // namespace

Result<Ref<Communicator>> Communicator::CreateOver(Environment* environment, std::string_view name,
                                                   int64_t rank, int64_t size, int64_t epoch,
                                                   std::unique_ptr<Transport> transport) {
  return CreatePart(environment, name, rank, size, epoch, Part(), std::move(transport));
}

Result<Ref<Communicator>> Communicator::CreatePart(Environment* environment, std::string_view name,
                                                   int64_t rank, int64_t size, int64_t epoch,
                                                   Part part,
                                                   std::unique_ptr<Transport> transport) {
  Ref<Communicator> communicator;
  Status made;
  try {
    communicator = Ref<Communicator>::Adopt(new Communicator(
        Ref<Environment>::Retain(environment), Format("communicator {} rank {}", name, rank),
        std::string(name), rank, size, epoch, part, std::move(transport)));
    made = communicator->Register();
  } catch (const std::bad_alloc&) {
    made = Status::OutOfMemory();
  }
  if (!made.ok()) {
    // The other ranks may have theirs.
    Transport& without = communicator ? *communicator->transport_ : *transport;
    without.Leave(made.code() == StatusCode::kResourceExhausted
                      ? made
                      : Unavailable("it could not make the communicator: {}", made.message()));
    return made;
  }
  return communicator;
}

Communicator::Communicator(Ref<Environment> environment, std::string closable_name,
                           std::string group_name, int64_t rank, int64_t size, int64_t epoch,
                           Part part, std::unique_ptr<Transport>&& transport)
    : Closable(std::move(environment), std::move(closable_name)),
      group_name_(std::move(group_name)),
      rank_(rank),
      size_(size),
      epoch_(epoch),
      part_(part),
      flight_subject_(this->environment().recorder().AddSubject(
          SubjectOf(group_name_, rank, size, epoch, part.group, part.color))),
      calls_(MakeRef<CallQueue>(this->environment().clock())),
      known_calls_(std::make_unique<KnownCalls>()),
      until_closing_(MakeRef<Cancellation>()) {
  transport_ = std::move(transport);  // stays with the caller if anything before has thrown
}

Communicator::~Communicator() = default;

Result<Ref<Tensor>> Communicator::CreateTensor(DType dtype, const Shape& shape) {
  TensorOptions options;
  options.allocator = dtype == DType::kBytes ? nullptr : transport_->allocator();
  if (options.allocator != nullptr) {
    Result<Ref<Tensor>> shared = Tensor::Create(dtype, shape, options);
    if (shared.ok() || shared.status().code() != StatusCode::kResourceExhausted) return shared;
    options.allocator = nullptr;
  }
  options.account = &environment().memory();
  return Tensor::Create(dtype, shape, options);
}

Status Communicator::Barrier(const CollectiveOptions& options) {
  CallScope scope(this, CollectiveOp::kBarrier);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  return scope.Run(0);
}

Result<Ref<Future>> Communicator::BarrierAsync(const CollectiveOptions& options) {
  return Issue(CollectiveOp::kBarrier, -1, options, OkStatus(),
               [this](const CollectiveOptions& call, Ref<Value>*) { return Barrier(call); });
}

void Communicator::Abort(Status reason) {
  if (reason.ok()) reason = Aborted("the communicator was aborted");
  const Status error = std::move(reason)
                           .With("epoch", epoch_)
                           .With("communicator", group_name_);
  transport_->Fail(error).rep();
}

Status Communicator::epoch_status() const { return transport_->failure(); }

const char* Communicator::transport_name() const { return transport_->name(); }

Status Communicator::CheckNotClosing(const char* what) const {
  if (!closing_.load()) return OkStatus();
  return FailedPrecondition("rank {}: {} after close of communicator {}", rank_, what, group_name_);
}

Status Communicator::OnClose(const CallOptions& options) {
  closing_.store(true);
  until_closing_->Cancel(
      FailedPrecondition("another thread has closed communicator {} meanwhile", group_name_));
  const bool in_call = !calls_->IsIdle();
  // Said before it leaves: a peer that comes now hears what happened, too, and not only that.
  if (in_call) {
    const int64_t call = sequence();
    const std::string what = in_transfer_.load(std::memory_order_relaxed)
                                 ? std::string("a send or receive")
                                 : Format("call #{}", call);
    Status error = Unavailable("rank {} has left (closed) in the middle of {}", rank_, what)
                       .With("rank", rank_)
                       .With("sequence", call)
                       .With("epoch", epoch_)
                       .With("communicator", group_name_);
    transport_->Fail(std::move(error)).rep();
  }
  transport_->Leave(Unavailable("it has left (closed)"));
  if (in_call) TUTTI_RETURN_IF_ERROR(calls_->AwaitIdle(options, closable_name()));
  gpu_ranks_.reset();
  gpu_pairs_.clear();
  calls_->Stop();
  return worker_.Join(options);
}

}  // namespace tutti
