// GpuRanks: NCCL between the GPUs of a communicator's ranks, where all of them can have it.
//
// Which way the GPUs of an epoch go is decided once, by the first call that could go by NCCL: all
// ranks say which NCCL and which device they have, or why they have none, and come to the same
// verdict. Then rank 0's unique id goes to all over the way that the ranks have anyway, each makes
// its part, and all hear whether all have. So ranks never differ in what they use.
//
// Two ranks that send to each other before such a call has come decide in the same way between the
// two of them, and have a communicator of their own.
//
// NCCL itself compares nothing: ranks that call different things hang, or read what is not theirs.
// So all compare their headers before each call (Agree), by the same way: a barrier that carries
// the header, or an exchange of headers where those of the ranks may differ.
//
// A call returns when the work is done: so a deadline, an asynchronous error of NCCL and the end of
// the epoch end it. Whatever ends it ends the epoch, and aborts the rank's NCCL communicator, in
// one group with those of other ranks in this process that have lost theirs (device/gpu_aborts.h);
// a new epoch has a new one. Folds are NCCL's: the same bits on all ranks, but not the host's. What
// it does not fold, and what has to be reproducible, is folded in the order of the ranks by the
// kernels, with the host's bits (nccl_fold.h).
//
// Threads: of the call that has the rank's turn.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_GPU_RANKS_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_GPU_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/collective/call/transport.h"
#include "core/device/gpu_aborts.h"
#include "core/device/gpu_communicator.h"
#include "core/device/gpu_stream.h"

namespace tutti {

// Whether NCCL folds so, and no rank has to ask.
bool NcclReduces(ReduceOp op, DType dtype);

class GpuRanks {
 public:
  // Every rank brings something and gets what all brought, in their order. One call of the ranks.
  using Exchange = std::function<Result<std::vector<std::string>>(std::string mine)>;
  // Ends with an error, the same on all ranks, unless all bring the same header. One call of the
  // ranks.
  using Compare = std::function<Status(const CallHeader& mine)>;
  // What all ranks say of a call.
  struct Agreement {
    std::vector<CallHeader> headers;              // of an uneven one
    std::vector<std::vector<int64_t>> send_rows;  // of an uneven all_to_all
    bool in_rank_order = false;                   // folds by kernels
  };

  GpuRanks(int64_t rank, int64_t size) : rank_(rank), size_(size) {}

  bool is_decided() const { return decided_; }
  bool is_chosen() const { return communicator_.get() != nullptr; }
  // "there is no GPU"; of an epoch whose NCCL is not chosen.
  const std::string& why_not() const { return why_not_; }
  // Whether kernels can fold what all ranks bring.
  bool folds_in_rank_order() const { return folds_in_rank_order_; }

  // All ranks make it, with their tensors on `place`. An error is one of `exchange`, after which
  // nothing is decided.
  Status Decide(const GpuPlace& place, const GpuCollectivesSettings& settings,
                const Exchange& exchange, const GpuWait& wait);
  // INVALID_ARGUMENT for a tensor on another GPU than the one that was decided with.
  Status CheckPlace(const GpuPlace& place) const;
  // All ranks make it before each call; INVALID_ARGUMENT, the same on all, where they differ.
  Result<Agreement> Agree(const CollectiveCall& call, const CallLabel& label,
                          const Compare& compare, const Exchange& exchange) const;
  // The call, which has on_gpu. After an error whoever called ends the epoch, and then aborts.
  // `peer`: of a transfer, the other rank.
  Status Run(CollectiveCall* call, const Agreement& agreed, const GpuWait& wait,
             int64_t peer = -1);
  // Ends what NCCL does, with all others of the process that have lost their epoch.
  void Abort();

 private:
  Status Choose(const GpuPlace& place, const GpuCollectivesSettings& settings,
                const Exchange& exchange, const GpuWait& wait);

  const int64_t rank_;
  const int64_t size_;
  bool decided_ = false;
  bool folds_in_rank_order_ = false;
  std::string why_not_;
  Ref<GpuCommunicator> communicator_;
  std::unique_ptr<GpuAborts::Membership> membership_;  // of it
  // A rank's own: in that of the tensors, which ranks on one GPU may share, one rank's operation
  // would wait for another's behind it.
  Ref<GpuStream> stream_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_GPU_RANKS_H_
