#include "core/collective/communicator.h"

#include <initializer_list>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/recorder.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/collective/call_header.h"
#include "core/collective/local_group.h"
#include "core/collective/local_transport.h"
#include "core/collective/transport.h"
#include "core/collective/usable_cores.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

using FlightNames = std::array<const char*, kFlightArguments>;
constexpr FlightNames kFlightNames = {"rank", "sequence", "epoch", "bytes", "code"};
constexpr FlightEventType kFlightEvents[] = {
    {"none", kFlightNames},       {"all_reduce", kFlightNames}, {"broadcast", kFlightNames},
    {"all_gather", kFlightNames}, {"barrier", kFlightNames},
};

TensorSignature SignatureOf(const Tensor& tensor) {
  return TensorSignature{tensor.dtype(), Dims(tensor.shape().dims().data(), tensor.rank())};
}

bool Overlap(const Tensor& a, const Tensor& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.data());
  return a_begin < b_begin + b.byte_size() && b_begin < a_begin + a.byte_size();
}

// Contiguous memory that stands for the tensors of one all_reduce argument while it runs.
struct Staging {
  Ref<Tensor> input;   // a contiguous copy of a strided input
  Ref<Tensor> output;  // what is copied into a strided or half-overlapping output afterwards
};

Status CheckAllReduceArgument(const Tensor* input, ReduceOp op, const Tensor* output) {
  if (input == nullptr || output == nullptr) {
    return InvalidArgument("the {} tensor is null", input == nullptr ? "input" : "output");
  }
  TUTTI_RETURN_IF_ERROR(CheckReducible(op, input->dtype()));
  if (output->dtype() != input->dtype() || !(output->shape() == input->shape())) {
    return InvalidArgument(
        "the output is {}, the input {}; give an output of the input's dtype and shape",
        output->SpecString(), input->SpecString());
  }
  if (output->read_only()) {
    return FailedPrecondition("the output {} is read-only; give a tensor that may be written",
                              output->SpecString());
  }
  return OkStatus();
}

// Fills `memory`, with staging where the transport could not use the tensors' own.
Status Stage(const Tensor& input, Tensor* output, CollectiveMemory* memory, Staging* staging) {
  const Tensor* source = &input;
  if (!input.is_contiguous()) {
    TUTTI_ASSIGN_OR_RETURN(staging->input, input.Contiguous());
    source = staging->input.get();
  }
  const bool in_place = source->data() == output->data();
  if (!output->is_contiguous() || (!in_place && Overlap(*source, *output))) {
    TensorOptions options;
    options.zeroed = false;
    TUTTI_ASSIGN_OR_RETURN(staging->output,
                           Tensor::Create(output->dtype(), output->shape(), options));
    output = staging->output.get();
  }
  *memory = CollectiveMemory{source->data(), output->mutable_data()};
  return OkStatus();
}

}  // namespace

// One call of this rank, from the checks that may refuse it to the records of its end.
class Communicator::CallScope {
 public:
  CallScope(Communicator* self, CollectiveOp op) : self_(self), op_(op) { call_.header.op = op; }
  ~CallScope() {
    if (!begun_) return;
    Record(FlightPhase::kEnd);
    // Whoever cancels knows why; closing an iterator ends its exchange so.
    const bool failed = code_ != StatusCode::kOk && code_ != StatusCode::kCancelled;
    if (failed && self_->transport_->ClaimFlightRecord()) WriteFlightRecord();
    self_->EndCall();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  CollectiveCall& call() { return call_; }

  // Whether the call becomes part of the sequence. A refusal leaves the epoch alone.
  Status Begin(const CallOptions& options) {
    const char* what = CollectiveOpName(op_);
    TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(what));
    TUTTI_RETURN_IF_ERROR(self_->environment().CheckUsable(what));
    if (self_->in_call_.exchange(true)) {
      return FailedPrecondition(
          "rank {}: {} while another call of the same rank runs; use one thread per rank",
          self_->rank_, what);
    }
    if (self_->closing_.load()) {
      self_->EndCall();
      return FailedPrecondition("rank {}: {} after close of communicator {}", self_->rank_, what,
                                self_->group_name_);
    }
    begun_ = true;
    call_.sequence = self_->sequence_.load(std::memory_order_relaxed) + 1;
    call_.options = options;
    self_->sequence_.store(call_.sequence, std::memory_order_relaxed);
    return OkStatus();
  }

  // Runs the call, whose header is complete, with the peers.
  Status Run(int64_t bytes) {
    bytes_ = bytes;
    Record(FlightPhase::kBegin);
    Status status = self_->transport_->Execute(&call_);
    code_ = status.code();
    return status;
  }

  // This rank cannot take part; its peers must not wait for it.
  Status Refuse(Status status) {
    code_ = status.code();
    const CallLabel label{call_.sequence, self_->epoch_, &self_->group_name_};
    status = std::move(status).WithPrefix(
        Format("rank {}: {} #{}", self_->rank_, CollectiveOpName(op_), call_.sequence));
    return self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label));
  }

 private:
  void Record(FlightPhase phase) {
    self_->environment().recorder().Record(
        kFlightEvents[static_cast<int>(op_)], phase,
        {self_->rank_, call_.sequence, self_->epoch_, bytes_, static_cast<int64_t>(code_)});
  }

  // What the ranks of this process did last, for whoever asks why the epoch ended. A record that
  // cannot be written is logged; the call's own error is what counts.
  void WriteFlightRecord() {
    Environment& environment = self_->environment();
    const Result<std::string> path = environment.WriteFlightRecord();
    if (!path.ok()) {
      environment.log().Warning(
          Format("the flight record of communicator {} was not written: {}", self_->group_name_,
                 path.status().message()));
    } else if (!path->empty()) {
      environment.log().Warning(
          Format("the flight record of communicator {}: {}", self_->group_name_, *path));
    }
  }

  Communicator* const self_;
  const CollectiveOp op_;
  CollectiveCall call_;
  bool begun_ = false;
  int64_t bytes_ = 0;
  StatusCode code_ = StatusCode::kOk;
};

Result<std::vector<Ref<Communicator>>> Communicator::CreateLocal(Environment* environment,
                                                                 size_t size,
                                                                 const LocalOptions& options) {
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable("create communicator"));
  if (size == 0 || size > kMaxLocalSize) {
    return InvalidArgument("create communicator: size is {}; pass 1 to {} ranks", size,
                           kMaxLocalSize);
  }
  const std::string name = options.name.empty() ? "communicator" : options.name;
  const auto ranks = static_cast<int64_t>(size);
  const size_t cores = options.usable_cores != 0 ? options.usable_cores : UsableCores();
  Ref<LocalGroup> group = MakeRef<LocalGroup>(Ref<Environment>::Retain(environment), name, ranks,
                                              options.epoch, cores);
  std::vector<Ref<Communicator>> communicators;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                           CreateOver(environment, name, rank, ranks, options.epoch,
                                      std::make_unique<LocalTransport>(group, rank)));
    communicators.push_back(std::move(communicator));
  }
  return communicators;
}

Result<Ref<Communicator>> Communicator::CreateOver(Environment* environment, std::string_view name,
                                                   int64_t rank, int64_t size, int64_t epoch,
                                                   std::unique_ptr<Transport> transport) {
  Ref<Communicator> communicator = Ref<Communicator>::Adopt(new Communicator(
      Ref<Environment>::Retain(environment), Format("communicator {} rank {}", name, rank),
      std::string(name), rank, size, epoch, std::move(transport)));
  TUTTI_RETURN_IF_ERROR(communicator->Register());
  return communicator;
}

Communicator::Communicator(Ref<Environment> environment, std::string closable_name,
                           std::string group_name, int64_t rank, int64_t size, int64_t epoch,
                           std::unique_ptr<Transport> transport)
    : Closable(std::move(environment), std::move(closable_name)),
      group_name_(std::move(group_name)),
      rank_(rank),
      size_(size),
      epoch_(epoch),
      transport_(std::move(transport)) {}

Communicator::~Communicator() = default;

void Communicator::EndCall() {
  in_call_.store(false);
  if (!closing_.load()) return;
  std::lock_guard<std::mutex> lock(close_mutex_);
  idle_.notify_all();
}

Status Communicator::AllReduce(const Tensor& input, ReduceOp op, const CallOptions& options,
                               Tensor* output) {
  const Tensor* inputs[] = {&input};
  Tensor* outputs[] = {output};
  return AllReduce(inputs, op, options, outputs);
}

Status Communicator::AllReduce(std::span<const Tensor* const> inputs, ReduceOp op,
                               const CallOptions& options, std::span<Tensor* const> outputs) {
  CallScope scope(this, CollectiveOp::kAllReduce);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  const size_t count = inputs.size();
  if (outputs.size() != count) {
    return scope.Refuse(InvalidArgument("got {} inputs and {} outputs; pass one output per input",
                                        count, outputs.size()));
  }
  CallHeader& header = scope.call().header;
  header.reduction = op;
  header.num_tensors = count;
  if (count > 1) header.rest.resize(count - 1);
  CollectiveMemory one;
  std::vector<CollectiveMemory> many(count > 1 ? count : 0);
  const std::span<CollectiveMemory> memory =
      count > 1 ? std::span<CollectiveMemory>(many) : std::span<CollectiveMemory>(&one, count);
  Staging first;
  std::vector<Staging> others(count > 1 ? count - 1 : 0);
  const auto staging = [&](size_t i) -> Staging& { return i == 0 ? first : others[i - 1]; };

  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    Status status = CheckAllReduceArgument(inputs[i], op, outputs[i]);
    if (status.ok()) status = Stage(*inputs[i], outputs[i], &memory[i], &staging(i));
    if (!status.ok()) {
      if (count > 1) status = std::move(status).WithPrefix(Format("tensor {}", i)).With("index", i);
      return scope.Refuse(std::move(status));
    }
    (i == 0 ? header.first : header.rest[i - 1]) = SignatureOf(*inputs[i]);
    bytes += inputs[i]->byte_size();
  }
  scope.call().memory = memory;
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(bytes)));
  for (size_t i = 0; i < count; ++i) {
    if (staging(i).output) TUTTI_RETURN_IF_ERROR(CopyInto(*staging(i).output, outputs[i]));
  }
  return OkStatus();
}

Status Communicator::Broadcast(int64_t root, const CallOptions& options, Tensor* tensor) {
  CallScope scope(this, CollectiveOp::kBroadcast);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  if (tensor == nullptr) return scope.Refuse(InvalidArgument("the tensor is null"));
  if (root < 0 || root >= size_) {
    return scope.Refuse(InvalidArgument("root is {}; pass a rank in [0, {})", root, size_));
  }
  if (tensor->dtype() == DType::kBytes) {
    return scope.Refuse(InvalidArgument(
        "a bytes tensor cannot be written in place; use all_gather, which makes a new one"));
  }
  if (rank_ != root && tensor->read_only()) {
    return scope.Refuse(FailedPrecondition("the tensor {} is read-only; only the root's may be",
                                           tensor->SpecString()));
  }
  Ref<Tensor> staged;
  if (!tensor->is_contiguous()) {
    Result<Ref<Tensor>> copy = tensor->Contiguous();
    if (!copy.ok()) return scope.Refuse(std::move(copy).status());
    staged = std::move(copy).value();
  }
  Tensor* used = staged ? staged.get() : tensor;
  CallHeader& header = scope.call().header;
  header.root = root;
  header.num_tensors = 1;
  header.first = SignatureOf(*tensor);
  const CollectiveMemory memory{used->data(), rank_ == root ? nullptr : used->mutable_data()};
  scope.call().memory = std::span<const CollectiveMemory>(&memory, 1);
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(tensor->byte_size())));
  if (staged && rank_ != root) return CopyInto(*staged, tensor);
  return OkStatus();
}

Status Communicator::AllGather(const Tensor& input, size_t axis, const CallOptions& options,
                               Ref<Tensor>* output) {
  CallScope scope(this, CollectiveOp::kAllGather);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  if (axis >= input.rank()) {
    return scope.Refuse(InvalidArgument("axis {} of a tensor {}; pass an axis in [0, {})", axis,
                                        input.SpecString(), input.rank()));
  }
  CollectiveCall& call = scope.call();
  call.header.axis = static_cast<int64_t>(axis);
  call.header.num_tensors = 1;
  call.header.first = SignatureOf(input);
  call.gather_input = &input;
  TUTTI_RETURN_IF_ERROR(scope.Run(static_cast<int64_t>(input.byte_size())));
  *output = std::move(call.gathered);
  return OkStatus();
}

Status Communicator::Barrier(const CallOptions& options) {
  CallScope scope(this, CollectiveOp::kBarrier);
  TUTTI_RETURN_IF_ERROR(scope.Begin(options));
  return scope.Run(0);
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

Status Communicator::OnClose(const CallOptions& options) {
  closing_.store(true);
  transport_->Leave(Unavailable("it has left (closed)"));
  if (!in_call_.load()) return OkStatus();
  const int64_t call = sequence();
  Status error = Unavailable("rank {} has left (closed) in the middle of call #{}", rank_, call)
                     .With("rank", rank_)
                     .With("sequence", call)
                     .With("epoch", epoch_)
                     .With("communicator", group_name_);
  transport_->Fail(std::move(error)).rep();
  std::unique_lock<std::mutex> lock(close_mutex_);
  return WaitUntil(lock, idle_, environment().clock(), options, [this] { return !in_call_.load(); },
                   closable_name());
}

}  // namespace tutti
