// Communicator: collectives between ranks, which are threads of this process or workers of a job.
//
//   TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Communicator>> ranks,
//                          Communicator::CreateLocal(&environment, 2));
//   // on the thread of rank r:
//   TUTTI_RETURN_IF_ERROR(ranks[r]->AllReduce(*gradient, ReduceOp::kSum, call, gradient.get()));
//   // when done:
//   TUTTI_RETURN_IF_ERROR(ranks[r]->Close(call));
//
// Every rank makes the same calls in the same order; they are counted (#1, #2, ...). (Send and
// Receive concern two ranks, and are counted for each pair and direction.) A call carries its
// operation, dtypes, dims, root or axis and reduction: when they differ, it fails on all ranks
// with the same INVALID_ARGUMENT that names both sides (details rank, peer, op, sequence, epoch).
// CollectiveOptions::hints are compared as well, but for transfers. RING takes the algorithm that
// goes from neighbour to neighbour, where the transport has one for the operation; what cannot be
// as it is asked is one warning, and no error.
// Results are bit-identical on all ranks and from run to run: operands fold in rank order, element
// by element, by the rules of tensor/reduce.h.
//
// Tensors may lie on GPUs: those of a call on one of the rank's, on all ranks or on none (transfers
// aside); which way they go then, gpu_call.cc says. Folds by NCCL are in its order. A caller's
// stream (CollectiveOptions::stream) has its place before and after the call.
//
// The first error ends the epoch, reaches every rank at once and is what every later call of every
// rank fails with: a mismatch or a bad argument, a deadline (naming who is missing and their last
// calls), a cancellation, an abort, a peer that left. It takes new communicators to go on
// (LocalOptions::epoch tells them apart). An error never leaves a peer reading or writing tensors
// of a rank whose call has returned. Refused calls that were never part of the sequence end
// nothing: those on a closed handle, after shutdown, from a callback that may not block, or while
// another call of the same rank runs.
//
// Calls that end in Async return at once with a future. They run on a thread of the communicator's
// own, or on that of who waits for one of them, one after the other in the order of issue, and
// count among the calls of the rank: a call without Async, if it comes while some are under way,
// takes its turn behind them. Arguments are checked at issue; tensors are retained until the call
// is done and must not be touched meanwhile; the deadline is one for waiting and running together.
// That a future is dropped, or that somebody gives up waiting for it, leaves the call alone.
// Futures may be waited for in any order. Abort, Close and every error of the epoch end all calls
// that are under way.
//
// Threads: calls of one rank one at a time, Async ones at any time on any thread; Abort and Close
// likewise. Waiting ranks spin for a few microseconds, where every rank can have a core, yield it a
// few times, and then sleep.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATOR_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/closable.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/collective/call/call_header.h"
#include "core/collective/call/communication_hints.h"
#include "core/collective/communicator/call_queue.h"
#include "core/collective/communicator/collective_transport.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Cluster;
class Environment;
class Future;
class GpuRanks;
class KnownCalls;
struct Pack;
class SelectorTable;
class Transport;
class Value;

class Communicator final : public Closable {
 public:
  struct LocalOptions {
    std::string name;         // for messages; empty = "communicator"
    int64_t epoch = 1;        // of a group that is formed anew after an error: one more each time
    size_t usable_cores = 0;  // 0 = ask the system (affinity and cgroup quota)
    std::shared_ptr<const SelectorTable> table;  // null: the built-in one
  };

  // `size` ranks within this process, in rank order, each to be used by a thread of its own.
  // INVALID_ARGUMENT for a size of 0 or above kMaxLocalSize.
  static constexpr size_t kMaxLocalSize = 4096;
  static Result<std::vector<Ref<Communicator>>> CreateLocal(Environment* environment, size_t size,
                                                            const LocalOptions& options);
  static Result<std::vector<Ref<Communicator>>> CreateLocal(Environment* environment, size_t size) {
    return CreateLocal(environment, size, LocalOptions());
  }
  // The rank of this process among the workers of its job: rank and worker are the same number.
  // Every worker calls it with the same name and epoch, each pair once; it waits for all of them.
  // It fails on every worker when it fails on one. While the communicator lives, a worker that dies
  // ends the epoch. `table`: rank 0's holds for all; null: the built-in one.
  static Result<Ref<Communicator>> Create(Ref<Cluster> cluster, std::string_view name,
                                          int64_t epoch, CollectiveTransport transport,
                                          std::shared_ptr<const SelectorTable> table,
                                          const CallOptions& options);
  // One rank over a transport that reaches its peers, wherever they are.
  static Result<Ref<Communicator>> CreateOver(Environment* environment, std::string_view name,
                                              int64_t rank, int64_t size, int64_t epoch,
                                              std::unique_ptr<Transport> transport);

  int64_t rank() const noexcept { return rank_; }
  int64_t size() const noexcept { return size_; }
  int64_t epoch() const noexcept { return epoch_; }
  const std::string& name() const noexcept { return group_name_; }
  // "in_process", "shared_memory", "tcp" or "mixed"; static.
  const char* transport_name() const;

  // A zeroed tensor of this rank's. Where the ranks share memory it lies where the others can read
  // it, which saves large calls the copy of it; elsewhere, and when there is no more such memory,
  // it is like any other. It may be used in every call of every communicator, and outlive this one.
  Result<Ref<Tensor>> CreateTensor(DType dtype, const Shape& shape);

  // Folds `input` of all ranks into `output` of every rank. `output` has the same dtype and shape
  // and may be `input`; both may be strided. What CheckReducible allows.
  Status AllReduce(const Tensor& input, ReduceOp op, const CollectiveOptions& options,
                   Tensor* output);
  // Several tensors, of any dtypes and shapes, in one call: outputs[i], which may be inputs[i],
  // from inputs[i]. Otherwise no output overlaps another tensor of the call. With
  // options.hints.bytes_per_pack in a call per pack (packing.h).
  Status AllReduce(std::span<const Tensor* const> inputs, ReduceOp op,
                   const CollectiveOptions& options, std::span<Tensor* const> outputs);
  // The same in one call, whatever the hints say.
  Status AllReduceTogether(std::span<const Tensor* const> inputs, ReduceOp op,
                           const CollectiveOptions& options, std::span<Tensor* const> outputs);

  // Copies `tensor` of rank `root` into `tensor` of every other rank. Every dtype but bytes.
  Status Broadcast(int64_t root, const CollectiveOptions& options, Tensor* tensor);

  // Joins `input` of all ranks along `axis`, in rank order, into a new tensor of this rank. The
  // sizes along `axis` may differ between ranks, the others may not. Every dtype.
  Status AllGather(const Tensor& input, size_t axis, const CollectiveOptions& options,
                   Ref<Tensor>* output);

  // The same into a tensor that the caller has: every rank brings the same shape [m, ...], `output`
  // is [size * m, ...]. `input` may be this rank's own part of it (in place). Every dtype but
  // bytes.
  Status AllGatherInto(const Tensor& input, const CollectiveOptions& options, Tensor* output);
  // Joins them as AllGather does, at rank `root` only; `output` of the others is untouched and may
  // be null. Every dtype.
  Status Gather(const Tensor& input, int64_t root, size_t axis, const CollectiveOptions& options,
                Ref<Tensor>* output);

  // Folds `input` of all ranks into `output` of rank `root`, which may be its `input`; the others'
  // `output` is not looked at.
  Status Reduce(const Tensor& input, ReduceOp op, int64_t root, const CollectiveOptions& options,
                Tensor* output);
  // Folds `input` [size * m, ...] of all ranks; rank r gets rows [r * m, (r + 1) * m) of the result
  // in `output` [m, ...], which may be that part of its own input.
  Status ReduceScatter(const Tensor& input, ReduceOp op, const CollectiveOptions& options,
                       Tensor* output);
  // Rank r gets rows [r * m, (r + 1) * m) of the root's `input` [size * m, ...]; only the root's is
  // looked at, and may be null elsewhere. `output` [m, ...] may be the root's own part of it. Every
  // dtype but bytes.
  Status Scatter(const Tensor* input, int64_t root, const CollectiveOptions& options,
                 Tensor* output);
  // Rows [p * m, (p + 1) * m) of `input` [size * m, ...] go to rank p; `output` of the same shape
  // gets rank p's rows for this rank at [p * m, (p + 1) * m). Every dtype but bytes.
  Status AllToAll(const Tensor& input, const CollectiveOptions& options, Tensor* output);
  // The first send_rows[0] rows of `input` go to rank 0, the next send_rows[1] to rank 1 and so on;
  // together they are all of its rows. A new tensor holds what came, in rank order, and
  // `received_rows` (may be null) how many rows came from each. Every dtype but bytes.
  Status AllToAllUneven(const Tensor& input, std::span<const int64_t> send_rows,
                        const CollectiveOptions& options, Ref<Tensor>* output,
                        std::vector<int64_t>* received_rows);

  // One tensor from this rank to rank `to`, which calls Receive with the same dtype and shape (else
  // both fail with the same INVALID_ARGUMENT); neither returns before both have come and the bytes
  // have moved. Transfers of a pair match in order, and no other rank takes part in them. Two ranks
  // that send to each other at once wait for each other: let one of them receive first. Every
  // dtype but bytes.
  Status Send(const Tensor& tensor, int64_t to, const CollectiveOptions& options);
  Status Receive(int64_t from, const CollectiveOptions& options, Tensor* tensor);

  // Returns when every rank has called it.
  Status Barrier(const CollectiveOptions& options);

  // ---- The same at once, with a future ----

  // Failures are those of arguments and refusals; all others are the future's, whose value is the
  // new tensor where there is one.
  Result<Ref<Future>> AllReduceAsync(const Tensor& input, ReduceOp op,
                                     const CollectiveOptions& options, Tensor* output);
  // Packs are calls of their own, and the future is the last one's: an error of one ends all.
  Result<Ref<Future>> AllReduceAsync(std::span<const Tensor* const> inputs, ReduceOp op,
                                     const CollectiveOptions& options,
                                     std::span<Tensor* const> outputs);
  Result<Ref<Future>> BroadcastAsync(int64_t root, const CollectiveOptions& options,
                                     Tensor* tensor);
  Result<Ref<Future>> AllGatherAsync(const Tensor& input, size_t axis,
                                     const CollectiveOptions& options);
  Result<Ref<Future>> AllGatherIntoAsync(const Tensor& input, const CollectiveOptions& options,
                                         Tensor* output);
  // No value but at the root.
  Result<Ref<Future>> GatherAsync(const Tensor& input, int64_t root, size_t axis,
                                  const CollectiveOptions& options);
  Result<Ref<Future>> ReduceAsync(const Tensor& input, ReduceOp op, int64_t root,
                                  const CollectiveOptions& options, Tensor* output);
  Result<Ref<Future>> ReduceScatterAsync(const Tensor& input, ReduceOp op,
                                         const CollectiveOptions& options, Tensor* output);
  Result<Ref<Future>> ScatterAsync(const Tensor* input, int64_t root,
                                   const CollectiveOptions& options, Tensor* output);
  Result<Ref<Future>> AllToAllAsync(const Tensor& input, const CollectiveOptions& options,
                                    Tensor* output);
  Result<Ref<Future>> SendAsync(const Tensor& tensor, int64_t to, const CollectiveOptions& options);
  Result<Ref<Future>> ReceiveAsync(int64_t from, const CollectiveOptions& options, Tensor* tensor);
  Result<Ref<Future>> BarrierAsync(const CollectiveOptions& options);

  // ---- Groups ----

  // Every rank calls it. Ranks of one color form a group of their own, ordered by key and then by
  // rank; a negative color is in none and gets null. `name` is for messages; empty: one that says
  // where the group comes from. A group that cannot be formed fails on all its ranks and leaves
  // the other colors alone, as its later errors leave this communicator; but it is also a call of
  // this communicator, whose deadline and cancellation end the epoch here. It has begun all calls
  // of the rank that it consists of when it returns, so nothing may be issued meanwhile.
  Result<Ref<Communicator>> Split(int64_t color, int64_t key, std::string_view name,
                                  const CallOptions& options);

  // ---- The epoch ----

  // Of an elastic job: the rank of this process among the workers that are there, in their order;
  // who has come when the job ran already meets in it the others that call it, or Grow, with this
  // name. Waits until so many are there, and all of them have come.
  static Result<Ref<Communicator>> CreateOfPresent(Ref<Cluster> cluster, std::string_view name,
                                                   int64_t at_least,
                                                   CollectiveTransport transport,
                                                   std::shared_ptr<const SelectorTable> table,
                                                   const CallOptions& options);

  // Ends the epoch gently: no rank begins another call, those that are under way may end, and those
  // that wait for a rank that will not come fail with `reason` (an OK one becomes ABORTED). The
  // others hear of it in the background. Never blocks.
  void Revoke(Status reason);

  // The next epoch, of the ranks that are left, in their old order: all of them call it but those
  // that close theirs, which nobody waits for. This epoch is revoked. An error tells of another
  // death meanwhile, or that this call was given up: then all who are left call it again. The old
  // communicator is still to be closed. FAILED_PRECONDITION in a job that is not elastic.
  Result<Ref<Communicator>> Shrink(const CallOptions& options);
  // The same with all workers that are there, in their order: newcomers call CreateOfPresent. Waits
  // until there are `at_least`. FAILED_PRECONDITION within a process, and for a part of another
  // group.
  Result<Ref<Communicator>> Grow(int64_t at_least, const CallOptions& options);

  // Ends the epoch: calls that wait and later ones fail on every rank with `reason` (an OK one
  // becomes ABORTED). The first error stays. Never blocks.
  void Abort(Status reason);

  // The error that ended the epoch; OK while it lasts. Cheap.
  Status epoch_status() const;
  // How many calls of this rank have begun, sends and receives not counted.
  int64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }

 private:
  class AsyncCall;
  class CallScope;
  // What an asynchronous call does in its turn; it holds what it needs. `value` is the future's.
  using AsyncBody = std::function<Status(const CollectiveOptions& options, Ref<Value>* value)>;

  // Which part of another communicator it is, for the flight recorder: parts may have one name.
  struct Part {
    int64_t group = 0;  // the same on all ranks of the part, another one elsewhere; 0: it is none
    int64_t color = -1;
  };

  Communicator(Ref<Environment> environment, std::string closable_name, std::string group_name,
               int64_t rank, int64_t size, int64_t epoch, Part part,
               std::unique_ptr<Transport>&& transport);
  ~Communicator() override;

  static Result<Ref<Communicator>> CreatePart(Environment* environment, std::string_view name,
                                              int64_t rank, int64_t size, int64_t epoch, Part part,
                                              std::unique_ptr<Transport> transport);

  // Leaves for good. Waits until a call of this rank that another thread is in has failed; a shrink
  // or grow that another thread is in ends with FAILED_PRECONDITION.
  Status OnClose(const CallOptions& options) override;

  // Queues a call, unless its arguments were found wrong. `peer` of a transfer, else -1.
  Result<Ref<Future>> Issue(CollectiveOp op, int64_t peer, const CollectiveOptions& options,
                            Status arguments, AsyncBody body);
  Status StartWorker();
  // Ends the epoch, so that no peer waits for a call that an exception has left; gives its error.
  Status FailForException(CollectiveOp op) noexcept;
  Result<Ref<Future>> IssuePacks(std::span<const Pack> packs,
                                 std::span<const Tensor* const> inputs, ReduceOp op,
                                 const CollectiveOptions& options,
                                 std::span<Tensor* const> outputs);
  // One warning for each implementation that the calls are not made by.
  void TellOfImplementation(const CallHeader& header, std::string_view why_no_nccl);
  // An all_reduce that has begun.
  Status AllReduceIn(CallScope* begun, std::span<const Tensor* const> inputs, ReduceOp op,
                     std::span<Tensor* const> outputs);
  Result<Ref<Communicator>> Renew(bool grow, int64_t at_least, const CallOptions& options);
  Status CheckNotClosing(const char* what) const;
  // The number of the call that is to be issued now, if it is no transfer.
  int64_t NextNumber();

  const std::string group_name_;
  const int64_t rank_;
  const int64_t size_;
  const int64_t epoch_;
  const Part part_;
  std::unique_ptr<Transport> transport_;  // the same as long as it lives
  const int64_t flight_subject_;  // of the flight recorder: this rank of this group
  std::atomic<int64_t> sequence_{0};
  std::atomic<int64_t> num_splits_{0};
  std::atomic<uint32_t> told_of_{0};  // a bit per CommunicationImplementation
  const Ref<CallQueue> calls_;
  std::atomic<bool> in_transfer_{false};  // while a call runs: it is a send or receive
  // Both of the call that has its turn. Sends to and receives from each peer that there was one
  // with.
  const std::unique_ptr<KnownCalls> known_calls_;
  std::map<int64_t, int64_t> num_sent_;
  std::map<int64_t, int64_t> num_received_;
  // Of the call that has its turn, too. Null until tensors lie on GPUs; and of the pairs that there
  // was a transfer of such with, before.
  std::unique_ptr<GpuRanks> gpu_ranks_;
  std::map<int64_t, std::unique_ptr<GpuRanks>> gpu_pairs_;
  std::atomic<bool> closing_{false};
  const Ref<Cancellation> until_closing_;  // thrown with it; no call's own

  // "tutti-collective", from the first asynchronous call to Close.
  Thread worker_;
  std::atomic<bool> worker_runs_{false};
  Deadline latest_deadline_;  // of the asynchronous calls under way; for who has announced one
  std::mutex issue_mutex_;    // guards all below
  int64_t num_unbegun_ = 0;   // asynchronous calls, but for transfers, that have no number yet
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATOR_H_
