// CallScope: one call of a rank, from the checks that may refuse it to the records of its end. For
// the communicator's own files.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_SCOPE_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_SCOPE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/call_arguments.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/known_calls.h"
#include "core/device/gpu_stream.h"

namespace tutti {

class Communicator::CallScope {
 public:
  CallScope(Communicator* self, CollectiveOp op) : self_(self), op_(op) {}
  ~CallScope() {
    if (!begun_) return;
    // An exception leaves it; the peers must not wait for it.
    if (!ended_) self_->FailForException(op_).rep();
    if (peer_ >= 0) self_->in_transfer_.store(false, std::memory_order_relaxed);
    if (!queued_) self_->calls_->End();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  // Whether the call becomes part of the sequence. A refusal leaves the epoch alone.
  Status Begin(const CollectiveOptions& options);
  // The same for a transfer, which is counted with those to or from the same peer.
  Status BeginTransfer(int64_t peer, const CollectiveOptions& options);

  // After either: what the transport gets.
  CollectiveCall& call() {
    if (!call_) MakeCall();
    return *call_;
  }
  // As Stage of call_arguments.h, of one tensor of the call after the other, wherever they lie.
  // Those on GPUs, all on one, go to the peers as they are, or through pinned memory: then
  // this waits for the work that makes an input.
  Status Stage(const Tensor* input, Tensor* output, std::optional<ptrdiff_t> in_place,
               CollectiveMemory* memory, Staging* staging);
  // What a call folds, of each of its tensors; before they are staged.
  void WillReduce(ReduceOp op, DType dtype);
  // After the call: what was staged goes where it is wanted.
  Status Unstage(const Staging& staging, Tensor* output);
  // The same of the input of a call that joins inputs, which may be strided and of byte strings.
  Status StageGathered(const Tensor& input, Staging* staging);
  // The new tensor of the call, on the GPU of the tensors that it was staged with.
  Status TakeGathered(Ref<Tensor>* output);
  // Whether the tensors themselves go to whom executes the call, which needs nothing of what Stage
  // has filled in.
  bool is_direct() const { return !on_gpu_.empty(); }
  bool is_on_gpu() const { return gpu_ != nullptr; }

  // Runs the call, whose header is complete, with the peers.
  Status Run(int64_t bytes);
  // The same of one that is like an earlier one.
  Status RunKnown(KnownCalls::Entry* known, const void* input, void* output);

  // This rank cannot take part; its peers must not wait for it.
  Status Refuse(Status status);
  // The same of a call that was to be queued, as the next of its kind. Instead of Begin.
  Status RefuseToQueue(int64_t peer, Status status);

 private:
  Status Enter(const CollectiveOptions& options);
  Status EnterBehindQueued(const CollectiveOptions& options);
  void MakeCall();
  // What is observed of a call (tensor/tensor_observer.h): the tensors that this rank brings, and
  // those that a fold gives.
  // That a tensor lies where the others of the call do.
  Status Place(const Tensor& tensor);
  GpuWait WaitForGpu();
  // How tensors on GPUs reach the other ranks; the same on all of them.
  enum class GpuRoute { kUndecided, kStaged, kDirect, kNccl };
  Status ChooseRoute();
  std::string WhyNoNccl() const;
  Status RunByNccl();
  // Calls of the ranks in this one's place, as long as it has not run: see GpuRanks.
  Result<std::vector<std::string>> Exchange(std::string mine);
  Status Compare(const CallHeader& mine);
  Status ExecuteInItsPlace(CollectiveCall* call);
  // Behind an exchange: a number of its own for what goes to the peers next.
  void NextSequence();
  // gpu_transfer.cc: a transfer whose tensor lies on a GPU, or whose peer's does.
  Status RunTransfer();
  Status AnnounceOnGpu(bool* moved, Ref<Tensor>* pinned);
  Status MoveByNccl(bool* moved);
  Status MoveByHost(Ref<Tensor>* pinned);
  Result<std::vector<std::string>> ExchangeInPair(std::string mine);
  // What NCCL there is between this rank and the peer: all ranks' where they have it.
  GpuRanks& RanksOfPair();
  // The number of the next transfer of this kind between the two.
  int64_t NextTransfer(CollectiveOp op);
  // stream_order.cc: the caller's stream comes before and after the call.
  Status CheckStream() const;
  Status StartBehindStream(const Tensor& tensor);
  Status LetStreamFollow() const;
  void TellOfStaging() const;
  Result<Ref<Tensor>> CreatePinned(const Tensor& like);
  Status ObserveInputs(const CollectiveCall& call) const;
  Status ObserveResults(const CollectiveCall& call) const;
  void LogPlacementOf(const CollectiveCall& call) const;
  // Records the end; the status then says where the flight record of a failure is.
  Status End(const CollectiveCall& call, Status status);

  Communicator* const self_;
  const CollectiveOp op_;
  const CollectiveOptions* options_ = nullptr;
  int64_t sequence_ = 0;
  int64_t peer_ = -1;
  bool begun_ = false;
  bool ended_ = false;
  bool queued_ = false;  // it is a queued one, whose turn it is
  std::optional<CollectiveCall> call_;
  Ref<const Tensor> placed_;            // the first of its tensors
  const GpuStream* gpu_ = nullptr;      // that one's, where it lies on a GPU
  GpuRoute route_ = GpuRoute::kUndecided;
  bool nccl_reduces_ = true;
  bool in_rank_order_ = false;  // NCCL does not fold itself
  bool exchanged_ = false;
  std::vector<Ref<GpuStream>> used_streams_;  // of the tensors, where the caller has one, too
  std::vector<GpuMemoryOfCall> on_gpu_;  // of all routes but by the host
  std::function<Status()> failure_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_SCOPE_H_
