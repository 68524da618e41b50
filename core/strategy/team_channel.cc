// The labels are compared without a call of their own: each all_reduce gets one more tensor, with a
// place per worker, where every worker writes the hash of its label into its own place and the
// reduction's neutral element into the others. Only when hashes differ the texts are exchanged.

#include "core/strategy/team_channel.h"

#include <limits>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/wait.h"
#include "core/collective/communicator/packing.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/strategy/replica_order_fold.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

// How long a call that is refused waits for the others to come and hear of it.
constexpr int64_t kRefusedForNs = 5 * kSecondNs;

// FNV-1a, with an end mark behind each part.
uint64_t Absorb(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return (hash ^ 0xffu) * 0x100000001b3u;
}

int64_t NeutralElement(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
      return 1;
    case ReduceOp::kMin:
      return std::numeric_limits<int64_t>::max();
    case ReduceOp::kMax:
      return std::numeric_limits<int64_t>::min();
    case ReduceOp::kBitAnd:
      return -1;
    default:
      return 0;
  }
}

Ref<Tensor> PlacePerWorker(int64_t num_workers) {
  return Tensor::Create(DType::kInt64, Shape({num_workers})).value();
}

}  // namespace

uint64_t TeamLabel::Hash() const {
  return Absorb(Absorb(Absorb(0xcbf29ce484222325u, what), name), structure);
}

std::string TeamLabel::ToString() const {
  std::string text(what);
  if (!name.empty()) text += Format(" '{}'", name);
  if (!structure.empty()) text += Format(" of {}", structure);
  return text;
}

TeamChannel::TeamChannel(Environment& environment, Ref<WorkerTeam> team, std::string name,
                         const CommunicationOptions& communication)
    : environment_(environment),
      team_(std::move(team)),
      name_(std::move(name)),
      communication_(communication),
      my_label_(PlacePerWorker(team_->num_workers())),
      all_labels_(PlacePerWorker(team_->num_workers())) {}

TeamChannel::~TeamChannel() = default;

// One caller's time with the communicator.
class TeamChannel::Turn {
 public:
  explicit Turn(TeamChannel& channel) : channel_(channel) {}
  ~Turn() {
    if (!entered_) return;
    std::lock_guard<std::mutex> lock(channel_.mutex_);
    channel_.busy_ = false;
    channel_.changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Status Enter(const CallOptions& call, const std::string& what) {
    std::unique_lock<std::mutex> lock(channel_.mutex_);
    TUTTI_RETURN_IF_ERROR(WaitUntil(
        lock, channel_.changed_, channel_.environment_.clock(), call,
        [this] { return !channel_.busy_; }, what));
    if (channel_.closed_) {
      return FailedPrecondition("{}: strategy {} has been closed", what, channel_.name_);
    }
    channel_.busy_ = true;
    entered_ = true;
    communicator_ = channel_.communicator_;
    return OkStatus();
  }
  // The same, for a call; how it ended goes through End.
  Status Begin(const TeamLabel& label, const CallOptions& call) {
    label_ = label;
    TUTTI_RETURN_IF_ERROR(Enter(call, label.ToString()));
    if (communicator_) return OkStatus();
    return End(FailedPrecondition(
        "strategy {} has lost its connection with the other workers in this run; the next one "
        "makes it anew",
        channel_.name_));
  }
  Status End(Status status) {
    if (status.ok()) return status;
    if (communicator_ && !communicator_->epoch_status().ok()) {
      std::lock_guard<std::mutex> lock(channel_.mutex_);
      if (channel_.communicator_.get() == communicator_.get()) channel_.told_ = true;
    }
    // Who died says more than which call missed it.
    Status job = channel_.team_->failure();
    if (!job.ok()) status = std::move(job);
    return std::move(status).WithPrefix(label_.ToString());
  }

  Communicator& communicator() const { return *communicator_; }

 private:
  TeamChannel& channel_;
  TeamLabel label_;
  bool entered_ = false;
  Ref<Communicator> communicator_;
};

Status TeamChannel::Renew(const CallOptions& call) {
  const std::string what = Format("strategy {}: connecting the workers", name_);
  TUTTI_RETURN_IF_ERROR(team_->failure());
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, what));
  Ref<Communicator> old;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (communicator_) {
      Status ended = communicator_->epoch_status();
      if (ended.ok()) return OkStatus();
      if (!told_ || CurrentCallbackClass() != CallbackClass::kNone) {
        told_ = true;
        return ended;
      }
    }
    old = std::move(communicator_);
    communicator_ = nullptr;
  }
  if (old) TUTTI_RETURN_IF_ERROR(old->Close(call));
  // A number is used once, also when forming fails.
  ++epoch_;
  Result<Ref<Communicator>> formed =
      team_->CreateCommunicator(name_, epoch_, call, communication_.transport());
  if (!formed.ok()) {
    Status job = team_->failure();
    return (job.ok() ? std::move(formed).status() : std::move(job)).WithPrefix(what);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  communicator_ = std::move(formed).value();
  observed_.store(false, std::memory_order_relaxed);
  told_ = false;
  return OkStatus();
}

Status TeamChannel::status() {
  TUTTI_RETURN_IF_ERROR(team_->failure());
  std::lock_guard<std::mutex> lock(mutex_);
  return communicator_ ? communicator_->epoch_status() : OkStatus();
}

Status TeamChannel::AllReduceOn(Communicator& communicator, const TeamLabel& label, ReduceOp op,
                                std::span<const Tensor* const> inputs,
                                const CollectiveOptions& call, std::span<Tensor* const> outputs) {
  // The lowest bit says whether this worker wants numerics to be checked.
  const auto hash = static_cast<int64_t>((label.Hash() & ~uint64_t{1}) |
                                         static_cast<uint64_t>(NumericsAreChecked()));
  auto* mine = static_cast<int64_t*>(my_label_->mutable_data());
  const auto w = static_cast<size_t>(worker());
  const auto n = static_cast<size_t>(num_workers());
  for (size_t i = 0; i < n; ++i) mine[i] = i == w ? hash : NeutralElement(op);
  std::vector<const Tensor*> in = {my_label_.get()};
  std::vector<Tensor*> out = {all_labels_.get()};
  in.insert(in.end(), inputs.begin(), inputs.end());
  out.insert(out.end(), outputs.begin(), outputs.end());
  {
    // Looked at by who made the call, and can say whose they are.
    const ObservedScope elsewhere(Observed::kNot);
    TUTTI_RETURN_IF_ERROR(AllReduceInPacks(communicator, in, op, 0, call, out));
  }
  const auto* all = static_cast<const int64_t*>(all_labels_->data());
  for (size_t i = 0; i < n; ++i) {
    if (((all[i] ^ all[0]) & ~int64_t{1}) != 0) return Mismatch(communicator, label, call);
  }
  bool observed = false;
  for (size_t i = 0; i < n; ++i) observed = observed || (all[i] & 1) != 0;
  observed_.store(observed, std::memory_order_relaxed);
  return OkStatus();
}

CollectiveOptions TeamChannel::Hinted(const CollectiveOptions& call) const {
  return CollectiveOptions(call, call.hints.Or(communication_.of_calls()));
}

Status TeamChannel::Compare(Communicator& communicator, const TeamLabel& label,
                            const CallOptions& call) {
  return AllReduceOn(communicator, label, ReduceOp::kSum, {}, call, {});
}

Status TeamChannel::Mismatch(Communicator& communicator, const TeamLabel& label,
                             const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                         ExchangeOn(communicator, label.ToString(), call));
  size_t other = 1;
  while (other + 1 < texts.size() && texts[other] == texts[0]) ++other;
  Status error =
      InvalidArgument(
          "the workers have gone different ways: worker 0 is in {}, worker {} in {}; all "
          "workers must make the same calls in the same order",
          texts[0], other, texts[other])
          .With("worker", other);
  communicator.Abort(error);
  return error;
}

Result<std::vector<std::string>> TeamChannel::ExchangeOn(Communicator& communicator,
                                                         const std::string& bytes,
                                                         const CallOptions& call) {
  const Ref<Tensor> size = Tensor::Vector<int64_t>({static_cast<int64_t>(bytes.size())});
  Ref<Tensor> sizes;
  TUTTI_RETURN_IF_ERROR(communicator.AllGather(*size, 0, call, &sizes));
  TUTTI_ASSIGN_OR_RETURN(
      const Ref<Tensor> mine,
      Tensor::FromData(DType::kUint8, Shape({static_cast<int64_t>(bytes.size())}), bytes.data(),
                       bytes.size()));
  Ref<Tensor> joined;
  TUTTI_RETURN_IF_ERROR(communicator.AllGather(*mine, 0, call, &joined));
  std::vector<std::string> all;
  const char* at = static_cast<const char*>(joined->data());
  for (int64_t i = 0; i < sizes->dim(0); ++i) {
    const auto part = static_cast<size_t>(static_cast<const int64_t*>(sizes->data())[i]);
    all.emplace_back(at, part);
    at += part;
  }
  return all;
}

Status TeamChannel::Agree(const TeamLabel& label, const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Begin(label, call));
  return turn.End(Compare(turn.communicator(), label, call));
}

Status TeamChannel::AllReduce(const TeamLabel& label, ReduceOp op,
                              std::span<const Tensor* const> inputs,
                              const CollectiveOptions& call, std::span<Tensor* const> outputs) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Begin(label, call));
  return turn.End(AllReduceOn(turn.communicator(), label, op, inputs, Hinted(call), outputs));
}

Status TeamChannel::FoldReplicas(const TeamLabel& label, ReduceOp op,
                                 std::span<const ReplicaOrderOperand> operands,
                                 const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Begin(label, call));
  TUTTI_RETURN_IF_ERROR(turn.End(Compare(turn.communicator(), label, call)));
  const ObservedScope elsewhere(Observed::kNot);
  return turn.End(FoldInReplicaOrder(turn.communicator(), op, operands, kReplicaOrderSliceBytes,
                                     call));
}

Result<std::vector<Ref<Tensor>>> TeamChannel::AllGather(const TeamLabel& label,
                                                        std::span<const Tensor* const> inputs,
                                                        size_t axis,
                                                        const CollectiveOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Begin(label, call));
  TUTTI_RETURN_IF_ERROR(turn.End(Compare(turn.communicator(), label, call)));
  std::vector<Ref<Tensor>> outputs(inputs.size());
  const ObservedScope elsewhere(Observed::kNot);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(
        turn.End(turn.communicator().AllGather(*inputs[i], axis, Hinted(call), &outputs[i])));
  }
  return outputs;
}

Status TeamChannel::Broadcast(const TeamLabel& label, const CallOptions& call, Tensor* tensor) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Begin(label, call));
  TUTTI_RETURN_IF_ERROR(turn.End(Compare(turn.communicator(), label, call)));
  const ObservedScope elsewhere(Observed::kNot);
  return turn.End(turn.communicator().Broadcast(0, call, tensor));
}

Result<std::vector<std::string>> TeamChannel::Exchange(const TeamLabel& label, const Status& status,
                                                       std::string bytes, const CallOptions& call) {
  StateWriter mine;
  mine.Int(static_cast<int64_t>(status.code()));
  mine.Bytes(status.message());
  mine.Bytes(bytes);
  std::vector<std::string> parts;
  {
    Turn turn(*this);
    TUTTI_RETURN_IF_ERROR(turn.Begin(label, call));
    TUTTI_RETURN_IF_ERROR(turn.End(Compare(turn.communicator(), label, call)));
    Result<std::vector<std::string>> all = ExchangeOn(turn.communicator(), mine.bytes(), call);
    TUTTI_RETURN_IF_ERROR(turn.End(all.status()));
    parts = std::move(all).value();
  }
  for (size_t w = 0; w < parts.size(); ++w) {
    StateReader reader(parts[w]);
    const auto code = static_cast<StatusCode>(
        reader.IntIn(0, static_cast<int64_t>(StatusCode::kUnauthenticated)));
    const std::string message(reader.Bytes());
    std::string brought(reader.Bytes());
    TUTTI_RETURN_IF_ERROR(reader.status());
    if (code != StatusCode::kOk) {
      const bool own = static_cast<int64_t>(w) == worker();
      Status failed = own ? status : Status(code, message);
      return std::move(failed).WithPrefix(Format("worker {}", w)).With("worker", w);
    }
    parts[w] = std::move(brought);
  }
  return parts;
}

Status TeamChannel::Abort(Status reason) {
  Ref<Communicator> communicator;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    communicator = communicator_;
    told_ = true;
  }
  if (communicator) {
    const StatusDetail* detail = reason.FindDetail("replica");
    const int64_t* replica = detail == nullptr ? nullptr : std::get_if<int64_t>(&detail->value);
    // What an assertion found out is the error of all; of anything else it is this worker's.
    const StatusDetail* assertion = reason.FindDetail("assertion");
    Status told =
        Status(assertion == nullptr ? StatusCode::kAborted : reason.code(),
               Format("{}{} has failed: {}", team_->Describe(worker()),
                      replica == nullptr ? "" : Format(", replica {},", *replica),
                      reason.message()))
            .With("worker", worker());
    const auto* name = assertion == nullptr ? nullptr : std::get_if<std::string>(&assertion->value);
    if (name != nullptr) told = std::move(told).With("assertion", *name);
    if (replica != nullptr) told = std::move(told).With("replica", *replica);
    communicator->Abort(std::move(told).WithCause(reason));
  }
  return reason;
}

Status TeamChannel::Refuse(Status reason, const CallOptions& call) {
  // Nobody may come: who does later hears of it all the same, as this worker has withdrawn.
  CallOptions soon = call;
  soon.deadline = Deadline::Earlier(
      call.deadline, Deadline::After(environment_.clock(), kRefusedForNs));
  (void)Renew(soon);
  return Abort(std::move(reason));
}

Status TeamChannel::Close(const CallOptions& call) {
  Ref<Communicator> communicator;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    communicator = communicator_;
  }
  return communicator ? communicator->Close(call) : OkStatus();
}

}  // namespace tutti
