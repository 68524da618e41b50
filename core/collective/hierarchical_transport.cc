#include "core/collective/hierarchical_transport.h"

#include <algorithm>
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
      flat_(std::move(parts.flat)) {}

HierarchicalTransport::~HierarchicalTransport() = default;

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

bool HierarchicalTransport::IsHierarchical(const CallHeader& header) const {
  const CollectiveOp op = header.op;
  const bool equal = options_.layout.equal();
  if (header.uneven || (!equal && (op == CollectiveOp::kReduceScatter ||
                                   op == CollectiveOp::kAllGather))) {
    return false;
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const TensorSignature& tensor = header.tensor(i);
    if (Folds(op) && IsArithmetic(header.reduction)) {
      if (header.reduction == ReduceOp::kMean && IsInteger(tensor.dtype)) return false;
      const bool order_shows = !IsInteger(tensor.dtype);
      if (order_shows && options_.table != nullptr && options_.table->reproducible()) return false;
    }
    bytes += tensor.num_elements() * static_cast<int64_t>(ItemSize(tensor.dtype));
  }
  return selector_.Chooses(CollectiveAlgorithm::kHierarchical, op, bytes);
}

Status HierarchicalTransport::Run(CollectiveCall* call) {
  if (call->header.op == CollectiveOp::kBarrier) return Barrier(*call);
  if (!IsHierarchical(call->header)) return RunFlat(call);
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
  part.options = CallOptions{OptionsFor(*call, Waits::kForRelay).deadline,
                             call->options.cancellation};
  TUTTI_RETURN_IF_ERROR(flat_->Execute(&part));
  call->gathered = std::move(part.gathered);
  call->received_rows = std::move(part.received_rows);
  return OkStatus();
}

Status HierarchicalTransport::Meet(const CollectiveCall& call) {
  CallHeader barrier;
  barrier.op = CollectiveOp::kBarrier;
  if (inside_) TUTTI_RETURN_IF_ERROR(Inside(call, barrier, {}, Waits::kForRanks));
  return is_leader() ? Between(call, barrier, {}) : OkStatus();
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

CallOptions HierarchicalTransport::OptionsFor(const CollectiveCall& whole, Waits waits) const {
  const int64_t grace_ns = waits == Waits::kForRanks   ? 0
                           : waits == Waits::kForHosts ? kHostsGraceNs
                                                       : kRelayGraceNs;
  Deadline deadline = whole.options.deadline;
  if (!deadline.is_infinite() && grace_ns != 0) {
    deadline = Deadline::At(std::min(deadline.time_ns(), kNeverNs - grace_ns - 1) + grace_ns);
  }
  return CallOptions{deadline, watch_.get()};
}

Status HierarchicalTransport::Inside(const CollectiveCall& whole, const CallHeader& header,
                                     std::span<const CollectiveMemory> memory, Waits waits) {
  CollectiveCall part;
  part.header = header;
  part.sequence = ++inside_calls_;
  part.options = OptionsFor(whole, waits);
  part.memory = memory;
  part.whole = &whole;
  return inside_->Execute(&part);
}

Status HierarchicalTransport::Between(const CollectiveCall& whole, const CallHeader& header,
                                      std::span<const CollectiveMemory> memory) {
  CollectiveCall part;
  part.header = header;
  part.sequence = ++between_calls_;
  part.options = OptionsFor(whole, Waits::kForHosts);
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
  Status status = call != nullptr ? flat_->FailureIn(*call) : flat_->failure();
  if (status.ok() && between_) status = between_->failure();
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
  Status first;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = std::move(error);
    first = failure_;
    failed_.store(true);
  }
  if (inside_) inside_->Fail(first).rep();
  if (between_) between_->Fail(first).rep();
  flat_->Fail(first).rep();
  return first;
}

Status HierarchicalTransport::Fail(Status error) { return EndAll(std::move(error)); }

Status HierarchicalTransport::failure() const { return LookAround(nullptr); }

void HierarchicalTransport::Leave(Status reason) {
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
