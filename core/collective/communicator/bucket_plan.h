// BucketPlan: gradients that are reduced while the backward pass goes on.
//
//   // Once; the gradients in the order in which the backward pass makes them, last layer first:
//   TUTTI_ASSIGN_OR_RETURN(Ref<BucketPlan> plan,
//                          BucketPlan::Create(communicator, gradients, ReduceOp::kMean, 0));
//   // Each step; gradient i is there, on any thread:
//   TUTTI_RETURN_IF_ERROR(plan->Ready(i));
//   // At its end: all are reduced, in place, and the next step may begin.
//   TUTTI_RETURN_IF_ERROR(plan->Wait(call));
//
// CreateLike makes the gradients, too: side by side, in memory that the ranks of a machine map, so
// that a large bucket needs no copy into shared memory, and tensors of one dtype whose bytes are a
// multiple of 64 go as one.
//
// Consecutive gradients share a bucket. A bucket whose gradients are all ready is launched as one
// asynchronous all_reduce, when all buckets before it have been: so all ranks launch the same calls
// in the same order, whatever the order in which they report gradients.
//
// Whoever completes the bucket that is next launches it, and what has become complete behind it;
// one thread at a time does so, others only leave their mark.
//
// Until Wait has returned, gradients that are ready must not be touched, and the rank makes no
// other collective call. When Wait fails, for whatever reason, the epoch of the communicator has
// ended, for the peers cannot go on without this rank; the plan then says that error for ever. A
// plan that is dropped before leaves the calls that it has launched alone.
//
// A wait for tensors that nobody reports does not stay silent: after a while (SetWaitWarning) it
// warns of those that are not ready, by their names where they have some, and again after twice
// that.
//
// Threads: Ready any; Wait one at a time.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_BUCKET_PLAN_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_BUCKET_PLAN_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/packing.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Future;

class BucketPlan final : public RefCounted {
 public:
  // Of a bucket that nobody gave a size: large enough that the call costs little, small enough that
  // the first ones are on their way early.
  static constexpr int64_t kAutoBucketBytes = int64_t{4} << 20;

  // All ranks pass tensors of the same dtypes and shapes in the same order, and the same
  // `bytes_per_pack` (0: kAutoBucketBytes). INVALID_ARGUMENT for a tensor that `op` cannot reduce
  // in place, and for one that is there twice. `names`, for messages: as many as tensors, or none.
  static Result<Ref<BucketPlan>> Create(Ref<Communicator> communicator,
                                        std::span<Tensor* const> tensors, ReduceOp op,
                                        int64_t bytes_per_pack,
                                        std::vector<std::string> names = {});

  // A plan with tensors of its own: zeros of the dtypes and shapes of `like`, of which nothing else
  // is used, each at a multiple of kBufferAlignment of one Communicator::CreateTensor. The plan may
  // go before them.
  static Result<Ref<BucketPlan>> CreateLike(Ref<Communicator> communicator,
                                            std::span<const Tensor* const> like, ReduceOp op,
                                            int64_t bytes_per_pack,
                                            std::vector<std::string> names = {});

  Communicator& communicator() const { return *communicator_; }
  // kNeverNs: no warning.
  static constexpr int64_t kWaitWarningNs = 30 * kSecondNs;
  void SetWaitWarning(int64_t warning_ns) { wait_warning_ns_.store(warning_ns); }
  size_t num_tensors() const { return tensors_.size(); }
  // "bucket plan of 148 tensors (MEAN) in 7 buckets, 3 steps": for people.
  std::string ToString() const;
  // What is reduced as gradient `index`. INVALID_ARGUMENT for an index that is none.
  Result<Ref<Tensor>> GetTensor(size_t index) const;
  // Which tensors go together, in the order of launching.
  std::span<const Pack> buckets() const { return buckets_; }

  // Tensor `index` is complete in this step. INVALID_ARGUMENT for an index that is none,
  // FAILED_PRECONDITION for one that is ready already; both leave the step as it is. Otherwise the
  // error that ended the step, for whoever likes to stop early: Wait says the same.
  Status Ready(size_t index);

  // Waits until all tensors are ready and reduced, and begins the next step.
  Status Wait(const CallOptions& options);

  // How many steps have been waited for.
  int64_t num_steps() const;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  BucketPlan(Ref<Communicator> communicator, std::vector<Ref<Tensor>> tensors, ReduceOp op,
             std::vector<Pack> buckets, std::vector<std::string> names);
  ~BucketPlan() override;
  // In a forked child it stays: see Future.
  void OnLastRelease() const noexcept override;

  struct Launched {
    Ref<Future> future;
    Ref<Cancellation> cancellation;
  };

  // Launches what is complete, unless another thread is at it.
  void LaunchComplete(std::unique_lock<std::mutex>& lock);
  Result<Launched> Launch(const Pack& bucket) const;
  // The same; what it throws becomes a status.
  Result<Launched> TryLaunch(const Pack& bucket) const noexcept;
  Status WaitForStep(const CallOptions& options);
  // An exception has left the wait: ends the epoch, and waits for what uses the tensors.
  void EndLeftWait();
  // Waits for what was launched, until all of it has ended.
  static Status AwaitLaunched(std::span<const Launched> launched, const CallOptions& options);
  void BeginStep();
  // "3", or "3 (layer2.bias)".
  std::string NameOf(size_t index) const;
  std::string DescribeUnready() const;
  // Waits until all is launched, or something has failed; warns of what it waits for.
  Status AwaitReady(std::unique_lock<std::mutex>& lock, const CallOptions& options);

  const Ref<Communicator> communicator_;
  const std::vector<Ref<Tensor>> tensors_;
  const ReduceOp op_;
  const std::vector<Pack> buckets_;
  const std::shared_ptr<const std::vector<std::string>> names_;  // none, or of each tensor
  std::vector<size_t> bucket_of_;  // of each tensor
  std::atomic<int64_t> wait_warning_ns_{kWaitWarningNs};

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<bool> is_ready_;
  std::vector<size_t> num_unready_;  // of each bucket
  std::vector<Launched> launched_;
  bool launching_ = false;
  bool waiting_ = false;
  Status failure_;
  bool ended_ = false;  // a wait has failed
  int64_t num_steps_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_BUCKET_PLAN_H_
