#include "core/collective/hosts/hierarchical_transport.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"

namespace tutti {
namespace {

// How much later those give up who wait for a rank that waits itself.
constexpr int64_t kHostsGraceNs = 50 * kMillisecondNs;
constexpr int64_t kRelayGraceNs = 100 * kMillisecondNs;

bool IsTransfer(CollectiveOp op) {
  return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
}
bool Folds(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}
bool IsArithmetic(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kMean || op == ReduceOp::kProd;
}

}  // namespace

class HierarchicalTransport::Watch {
 public:
  Watch(HierarchicalTransport& transport, const CollectiveCall& call)
      : transport_(transport), caller_(call.options.cancellation) {
    transport_.call_ = &call;
    // A caller who cancels when the call is as good as done has cancelled this call alone.
    if (!transport_.watch_ || transport_.watch_->cancelled()) {
      transport_.watch_ =
          MakeRef<Cancellation>(&HierarchicalTransport::Poll, &transport_, Ref<const RefCounted>());
    }
    if (caller_ == nullptr) return;
    listener_ = caller_->AddListener([watch = transport_.watch_, caller = caller_] {
      watch->Cancel(caller->reason());
    });
  }
  ~Watch() {
    if (caller_ != nullptr) caller_->RemoveListener(listener_);
    transport_.call_ = nullptr;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  HierarchicalTransport& transport_;
  Cancellation* const caller_;
  uint64_t listener_ = 0;
};

HierarchicalTransport::HierarchicalTransport(Ref<Environment> environment, Options options,
                                             Parts parts)
    : environment_(std::move(environment)),
      options_(std::move(options)),
      selector_(options_.table.get(), Locality::kHosts, options_.size),
      host_(options_.layout.PlaceOf(options_.rank).first),
      place_(options_.layout.PlaceOf(options_.rank).second),
      here_(options_.layout.hosts[host_]),
      inside_(std::move(parts.inside)),
      between_(std::move(parts.between)),
      flat_(std::move(parts.flat)),
      pipeline_(std::make_unique<HostPipeline>(*environment_)) {}

HierarchicalTransport::~HierarchicalTransport() {
  // Its thread and its lock are the parent's.
  if (environment_->LeftBehindByFork()) (void)pipeline_.release();
}

Status HierarchicalTransport::Execute(CollectiveCall* call) {
  TUTTI_RETURN_IF_ERROR(FailureSoFar());
  // Over the flat links a rank hears of all others by itself.
  if (IsTransfer(call->header.op)) {
    call->header.root = last_collective_;
    Status status = flat_->Execute(call);
    return status.ok() ? status : EndAll(std::move(status));
  }
  last_collective_ = call->sequence;
  const Watch watch(*this, *call);
  Status status = Run(call);
  return status.ok() ? status : EndAll(std::move(status));
}

Selector::Choice HierarchicalTransport::Choose(const CallHeader& header) const {
  constexpr Selector::Choice kOverFlatLinks{CollectiveAlgorithm::kFlat, 0};
  const CollectiveOp op = header.op;
  const bool equal = options_.layout.equal();
  if (header.hints.implementation == CommunicationImplementation::kRing && !flat_->WhyNoRing(op)) {
    return kOverFlatLinks;
  }
  if (header.uneven || (!equal && (op == CollectiveOp::kReduceScatter ||
                                   op == CollectiveOp::kAllGather))) {
    return kOverFlatLinks;
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const TensorSignature& tensor = header.tensor(i);
    if (Folds(op) && IsArithmetic(header.reduction)) {
      if (header.reduction == ReduceOp::kMean && IsInteger(tensor.dtype)) return kOverFlatLinks;
      const bool order_shows = !IsInteger(tensor.dtype);
      if (order_shows && options_.table != nullptr && options_.table->reproducible()) {
        return kOverFlatLinks;
      }
    }
    bytes += tensor.num_elements() * static_cast<int64_t>(ItemSize(tensor.dtype));
  }
  return selector_.Choose(op, bytes);
}

HierarchicalTransport::Chunks HierarchicalTransport::ChunksOf(int64_t count, int64_t item_bytes,
                                                              int64_t grain) const {
  const int64_t bytes = count * item_bytes;
  if (chunk_bytes_ == 0 || bytes <= chunk_bytes_) return Chunks{count, count, 1};
  const int64_t num = (bytes + chunk_bytes_ - 1) / chunk_bytes_;
  grain *= static_cast<int64_t>(AlignedRoom::kAlignment);
  const int64_t each = count / num / grain * grain;
  return each == 0 ? Chunks{count, count, 1} : Chunks{count, each, num};
}

Status HierarchicalTransport::RunChunks(int64_t chunks, HostPipeline::Stages stages) {
  stages.fail = [this](Status error) { return EndAll(std::move(error)); };
  return pipeline_->Run(chunks, stages, watch_.get());
}

Status HierarchicalTransport::Run(CollectiveCall* call) {
  if (call->header.op == CollectiveOp::kBarrier) return Barrier(*call);
  const Selector::Choice choice = Choose(call->header);
  if (choice.algorithm != CollectiveAlgorithm::kHierarchical) return RunFlat(call);
  call->algorithm = static_cast<int32_t>(choice.algorithm);
  chunk_bytes_ = choice.chunk_bytes;
  switch (call->header.op) {
    case CollectiveOp::kAllReduce: return AllReduce(*call);
    case CollectiveOp::kReduce: return Reduce(*call);
    case CollectiveOp::kReduceScatter: return ReduceScatter(*call);
    case CollectiveOp::kBroadcast: return Broadcast(*call);
    case CollectiveOp::kAllGather: return AllGather(*call);
    default: break;
  }
  return Internal("hierarchical transport: {} has no such form",
                  CollectiveOpName(call->header.op));
}

Status HierarchicalTransport::RunFlat(CollectiveCall* call) {
  TUTTI_RETURN_IF_ERROR(Meet(*call));
  CollectiveCall part = *call;
  part.whole = call;
  part.sequence = ++flat_calls_;
  // The leaders come when they have met.
  part.options =
      CallOptions{DeadlineFor(*call, Waits::kForRelay), call->options.cancellation};
  const Status status = flat_->Execute(&part);
  call->algorithm = part.algorithm;
  TUTTI_RETURN_IF_ERROR(status);
  call->gathered = std::move(part.gathered);
  call->received_rows = std::move(part.received_rows);
  return OkStatus();
}

Status HierarchicalTransport::Meet(const CollectiveCall& call) {
  CallHeader barrier;
  barrier.op = CollectiveOp::kBarrier;
  if (inside_) TUTTI_RETURN_IF_ERROR(Inside(call, barrier, {}, Waits::kForRanks));
  return is_leader() ? Between(call, barrier, {}, watch_.get()) : OkStatus();
}

Status HierarchicalTransport::Barrier(const CollectiveCall& call) {
  TUTTI_RETURN_IF_ERROR(Meet(call));
  return AwaitLeader(call);
}

Status HierarchicalTransport::AwaitLeader(const CollectiveCall& call) {
  CallHeader barrier;
  barrier.op = CollectiveOp::kBarrier;
  return inside_ ? Inside(call, barrier, {}, Waits::kForRelay) : OkStatus();
}

// ---- Parts ----

Deadline HierarchicalTransport::DeadlineFor(const CollectiveCall& whole, Waits waits) const {
  const int64_t grace_ns = waits == Waits::kForRanks   ? 0
                           : waits == Waits::kForHosts ? kHostsGraceNs
                                                       : kRelayGraceNs;
  Deadline deadline = whole.options.deadline;
  if (!deadline.is_infinite() && grace_ns != 0) {
    deadline = Deadline::At(std::min(deadline.time_ns(), kNeverNs - grace_ns - 1) + grace_ns);
  }
  return deadline;
}

Status HierarchicalTransport::Inside(const CollectiveCall& whole, const CallHeader& header,
                                     std::span<const CollectiveMemory> memory, Waits waits) {
  CollectiveCall part;
  part.header = header;
  part.sequence = ++inside_calls_;
  part.options = CallOptions{DeadlineFor(whole, waits), watch_.get()};
  part.memory = memory;
  part.whole = &whole;
  return inside_->Execute(&part);
}

Status HierarchicalTransport::Between(const CollectiveCall& whole, const CallHeader& header,
                                      std::span<const CollectiveMemory> memory,
                                      Cancellation* stop) {
  CollectiveCall part;
  part.header = header;
  part.sequence = ++between_calls_;
  part.options = CallOptions{DeadlineFor(whole, Waits::kForHosts), stop};
  part.memory = memory;
  part.whole = &whole;
  return between_->Execute(&part);
}

// ---- The epoch ----

Status HierarchicalTransport::FailureSoFar() const {
  if (failed_.load()) {
    std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }
  // The rest takes looking at sockets, and is found by who waits.
  Status inside = inside_ ? inside_->failure() : OkStatus();
  return inside.ok() ? inside : EndAll(std::move(inside));
}

Status HierarchicalTransport::LookAround(const CollectiveCall* call) const {
  TUTTI_RETURN_IF_ERROR(FailureSoFar());
  const auto failure_of = [&](const LinkTransport& links) {
    return call != nullptr ? links.FailureIn(*call) : links.failure();
  };
  Status status = failure_of(*flat_);
  if (status.ok() && between_) status = failure_of(*between_);
  return status.ok() ? status : EndAll(std::move(status));
}

bool HierarchicalTransport::Poll(void* self) {
  const auto& transport = *static_cast<HierarchicalTransport*>(self);
  // What is found ends the part that waits as well, by its own way.
  transport.LookAround(transport.call_).rep();
  Cancellation* const caller = transport.call_->options.cancellation;
  return caller != nullptr && caller->PollNow();
}

Status HierarchicalTransport::EndAll(Status error) const {
  // In a forked child the parts are its parent's, and so may be the lock.
  if (environment_->LeftBehindByFork()) return error;
  Status first;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = std::move(error);
    first = failure_;
    failed_.store(true);
  }
  // A part that cannot be ended, for lack of memory, must not keep the others from it.
  std::exception_ptr left_by;
  const auto end = [&](Transport* part) {
    try {
      if (part != nullptr) part->Fail(first).rep();
    } catch (...) {
      left_by = std::current_exception();
    }
  };
  end(inside_.get());
  end(between_.get());
  end(flat_.get());
  if (left_by) std::rethrow_exception(left_by);
  return first;
}

Status HierarchicalTransport::Fail(Status error) { return EndAll(std::move(error)); }

Status HierarchicalTransport::failure() const { return LookAround(nullptr); }

void HierarchicalTransport::Leave(Status reason) {
  if (!environment_->LeftBehindByFork()) pipeline_->Stop();
  if (inside_) inside_->Leave(reason);
  if (between_) between_->Leave(reason);
  flat_->Leave(std::move(reason));
}

void HierarchicalTransport::PeerHasLeft(int64_t rank, const Status& reason, int64_t patience_ns) {
  const auto [host, place] = options_.layout.PlaceOf(rank);
  if (host == options_.layout.num_hosts()) return;
  // In memory a goodbye is there before the one who says it has gone.
  if (host == host_ && !inside_->HasLeft(static_cast<int64_t>(place))) {
    EndAll(reason.With("rank", rank)).rep();
    return;
  }
  if (between_ && host != host_ && place == place_) {
    between_->PeerHasLeft(static_cast<int64_t>(host), reason, patience_ns);
  }
  flat_->PeerHasLeft(rank, reason, patience_ns);
}

}  // namespace tutti
