// Transport: one rank's way to its peers. It executes calls that are checked and whose tensors are
// contiguous, and knows the group's membership: who has arrived, failed, left.
//
// The communicator above it checks arguments, counts calls, stages strided tensors and records;
// below it a transport decides how bytes move. Whatever the transport, results have the same bits.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_TRANSPORT_H_
#define TUTTI_CORE_COLLECTIVE_CALL_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/memory_account.h"
#include "core/base/recorder.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/device/gpu_communicator.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Memory of one tensor of a call, contiguous, row-major, of the header's signature:
//
//                   input                             output
//   all_reduce      the whole                         the whole; may be the input
//   broadcast       the whole, of the root            the whole, of the others
//   reduce          the whole                         the whole, of the root; may be its input
//   reduce_scatter  the whole                         its share; may be that part of its input
//   scatter         the whole, of the root            its share; may be that part of its input
//   all_gather      the rank's part                   n parts; its own may be the input
//   all_to_all      the whole                         the whole; apart from the input
//   ... uneven      the whole                         none: the result is a new tensor
//   send, receive   the whole of the sender           the whole of the receiver
//
// What is not named is null. Signatures are those of the input, also on ranks that have none: that
// of a scatter is the whole on all ranks. Rows are along axis 0; the share of rank r is the r-th of
// n equal parts of the rows, which n divides. An all_gather that is `uneven`, and every gather, has
// no memory here but a gather_input.
struct CollectiveMemory {
  const void* input = nullptr;
  void* output = nullptr;
};

// A tensor of a call that lies on a GPU, for transports that take those (TakesGpuTensors): whole
// where the table above has the whole, and either may be null.
struct GpuMemoryOfCall {
  const Tensor* input = nullptr;
  Tensor* output = nullptr;
};

// How many kinds of calls a communicator knows again at a time: CollectiveCall::known_as.
inline constexpr size_t kKnownCallPlaces = 16;

// One call of one rank. Everything it points to is used until Execute returns, and not longer, not
// even by peers.
struct CollectiveCall {
  CallHeader header;
  int64_t sequence = 0;  // send, receive: among those of the pair in that direction
  CallOptions options;
  std::span<const CollectiveMemory> memory;  // one per tensor, where the table above says so
  int64_t peer = -1;                         // send, receive: the other rank
  std::span<const int64_t> send_rows;        // all_to_all, uneven: rows of the input for each rank
  const Tensor* gather_input = nullptr;      // all_gather (uneven), gather; may be strided
  // In place of all those, where tensors lie on GPUs and the transport takes them: as the caller
  // gave them, strided, overlapping or in place.
  std::span<const GpuMemoryOfCall> on_gpu;
  // New tensors of the call are charged to it: how large they get, peers say. Null: to none.
  MemoryAccount* account = nullptr;
  // All_reduces of one tensor whose headers are equal may have a number in common, so that the
  // transport knows them again; each such number belongs to one place of kKnownCallPlaces: the
  // number modulo it. 0: none.
  uint64_t known_as = 0;
  // Of a known call that has not been recorded yet: what RecordKnownCall records, and where.
  Recorder* recorder = nullptr;
  const FlightArguments* begin_record = nullptr;
  // What ChecksFold speaks of is asked for.
  bool checks_fold = false;
  // The CollectiveAlgorithm that the transport has taken (select/selector.h), for the flight
  // recorder; -1: none, or it was never asked.
  int32_t algorithm = -1;
  // The call of the group that this one is a part of, by which peers compare it and messages name
  // it; null: itself.
  const CollectiveCall* whole = nullptr;
  // Of a transfer whose header has a gpu_op: this rank's tensor lies on a GPU, and can go from
  // there to the peer's. Then nothing is moved where the sender has said so: both see whether the
  // other one has (peer_on_gpu), and go on as that tells them. Where only the receiver has said so,
  // it is asked for memory when the bytes are about to come; `memory` is looked at after that.
  std::function<Status()> make_room;
  bool peer_on_gpu = false;  // what the peer of a transfer has said, when it has succeeded
  // The result of all_gather and all_to_all where uneven, and of gather at its root.
  Ref<Tensor> gathered;
  std::vector<int64_t> received_rows;  // all_to_all, uneven: rows that came from each rank

  const CollectiveCall& named() const { return whole != nullptr ? *whole : *this; }
  // Of a transfer: whether both ranks only say where their tensors lie.
  static bool MovesNothing(const CallHeader& send) { return send.gpu_op != CollectiveOp::kNone; }
  // Of tensors that are written throughout.
  TensorOptions unzeroed() const {
    TensorOptions options;
    options.zeroed = false;
    options.account = account;
    return options;
  }
};

// How some ranks of a group form another.
struct SplitRequest {
  std::string parent_name;
  std::string key;               // like no other of the parent's
  std::string name;              // of the new group
  int64_t epoch = 1;
  std::vector<int64_t> members;  // their ranks in the parent; their order is that of the new ranks
  int64_t rank = 0;              // of this one in the new group
  // Every member brings something, and gets what all brought, in the order of members.
  std::function<Result<std::vector<std::string>>(std::string_view what, std::string bytes,
                                                 const CallOptions& call)>
      exchange;
};

// How the ranks of a group that are left, and perhaps newcomers, form the next one.
struct RenewRequest {
  bool grow = false;     // with whoever is there, else those of the group that are left
  int64_t at_least = 0;  // grow: waits for so many ranks
};

class Transport;
struct RenewedGroup {
  std::unique_ptr<Transport> transport;
  int64_t rank = 0;
  int64_t size = 0;
  int64_t epoch = 1;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // How ranks reach each other: "in_process", "shared_memory", "tcp", "mixed"; static.
  virtual const char* name() const = 0;

  // Makes tensors' memory that peers can read where it is, which saves a copy; null: the peers
  // cannot. Lives as long as the transport; what it has made may live longer.
  virtual BufferAllocator* allocator() const { return nullptr; }

  // Runs the call with the peers; the first error of any rank ends the epoch for all.
  virtual Status Execute(CollectiveCall* call) = 0;
  // Whether Execute looks at what it folds while it folds, where a rank asks for that, and ends the
  // epoch with what is not finite (fold_check.h). The call is complete but for `checks_fold`.
  virtual bool ChecksFold(const CollectiveCall& /*call*/) const { return false; }
  // Why no call of `op` goes from neighbour to neighbour here, whoever asks for it; null: it does
  // when its hints ask for RING. Static.
  virtual const char* WhyNoRing(CollectiveOp /*op*/) const {
    return "ranks that reach each other's memory pass nothing on";
  }
  // Whether a call of `op` whose tensors lie on GPUs, as `tensor` does, comes with them
  // (CollectiveCall::on_gpu) rather than with memory of the host. The same on all ranks.
  virtual bool TakesGpuTensors(CollectiveOp /*op*/, const Tensor& /*tensor*/) { return false; }
  // Whether all folds have to go in the order of the ranks, whatever the GPUs could do faster.
  virtual bool is_reproducible() const { return false; }
  // What communicators between GPUs are told of the job; the same on all ranks.
  virtual GpuCollectivesSettings gpu_settings() const { return {}; }
  // Whether Execute itself records that a known call begins (RecordKnownCall). It can do so when
  // this rank has said that it has arrived, and before it waits for the others, where it costs
  // nothing.
  virtual bool RecordsKnownCalls() const { return false; }

  // All members call it between two calls of the group. What it fails with, all of them return.
  // UNIMPLEMENTED where other transports stand between it and the ranks' communicators.
  virtual Result<std::unique_ptr<Transport>> Split(const SplitRequest& request,
                                                   const CallOptions& options);

  // All ranks that are left call it, with the same `grow`, when the epoch has ended. What it fails
  // with tells of another death, or of this call; it can be called again then.
  virtual Result<RenewedGroup> Renew(const RenewRequest& request, const CallOptions& options);

  // No more calls begin: they fail with `reason`, and so do those that wait for a rank that does
  // not come any more. Without anything better, it ends the epoch.
  virtual void Revoke(Status reason) { Fail(std::move(reason)).rep(); }

  // Ends the epoch with `error`, unless it has ended; gives the error that ended it. Wakes every
  // rank and never blocks.
  virtual Status Fail(Status error) = 0;
  // The error that ended the epoch, or OK.
  virtual Status failure() const = 0;

  // True for one caller in this process and epoch: the one that writes the flight record.
  virtual bool ClaimFlightRecord() = 0;

  // This rank makes no more calls: a peer that needs it fails the epoch with the code of `reason`,
  // whose message goes on after "needs rank 1: ". Wakes every rank and never blocks.
  virtual void Leave(Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_TRANSPORT_H_
