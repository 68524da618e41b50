// DistributedIterator: one walk over the steps of a DistributedDataset.
//
// A thread makes so many steps ahead as the dataset says, from the first Next on; what it has made
// and nobody has taken does not count for Save. Threads: Next, Save and Restore one at a time (a
// second caller waits); Close from any thread.
//
// An exception while a step is made, for lack of memory, leaves an unknown position: its status is
// that of the step and of all later calls, until Restore has gone to a position that was saved.
// Under several workers it ends the iterator for the others, too.
//
// Under several workers making the iterator is collective, and every worker takes the same steps:
// in each they exchange how many replicas have data, the rows, and whether an element failed, over
// a channel of the iterator's own, so that it never mixes with the program's collectives. That is
// done by the thread also where no step is made ahead: a caller's deadline loses nothing. A failed
// element is a failed step of all workers; a worker that dies or closes its iterator ends it for
// the others. Every worker saves and restores its own position.
//
// A joint position is that of all workers, saved by all of them together: any number of workers
// goes on from it (distributed_iterator_joint.cc), with every element that is left once. The parts
// of the data that the workers had are dealt to those that go on: worker j of n takes parts j,
// j + n ..., and has an element of each in turn; where there are fewer parts than workers, those
// that share one keep every k-th element of it each. With the option share_files it begins so where
// there are fewer files than workers (DistributedDataset::shared_part). What is left of a batch
// that was cut is a batch of its own. Workers may then run out at different steps, whatever the
// dataset promises.

#ifndef TUTTI_CORE_STRATEGY_DISTRIBUTED_ITERATOR_H_
#define TUTTI_CORE_STRATEGY_DISTRIBUTED_ITERATOR_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/closable.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/run_report.h"
#include "core/device/gpu_staging.h"
#include "core/strategy/distributed_dataset.h"
#include "core/strategy/step_maker.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/value.h"

namespace tutti {

class StateReader;
class StateWriter;

class DistributedIterator final : public Closable {
 public:
  // Starts at the first step.
  static Result<Ref<DistributedIterator>> Create(Ref<const DistributedDataset> dataset,
                                                 const CallOptions& call);

  // The next step, its leaves distributed, or, where this process has one replica, plain; null at
  // the end, then and ever after. A failure belongs to one element; DEADLINE_EXCEEDED and CANCELLED
  // lose nothing.
  Result<Ref<Value>> Next(const CallOptions& call);
  // The same as an optional leaf, empty at the end.
  Result<Ref<Value>> NextOptional(const CallOptions& call);

  // Of a step.
  const ElementSpec& step_spec() const { return dataset_->step_spec(); }
  const DistributedDataset& dataset() const { return *dataset_; }
  // What this worker's pipelines have done so far, and what limited the steps (run_report.h): of
  // the time since the last Restore. A row of the run is a step. Threads: any, also when it is
  // closed.
  RunReport Explain() const;

  // The position behind the last step that Next gave.
  Result<std::string> Save(const CallOptions& call);
  // Goes to a saved position, also one of another number of replicas. INVALID_ARGUMENT for other
  // bytes; on any failure the iterator is where it was. Of another number of workers only where all
  // of them read the same data (policy DATA, or OFF between two batches): then every worker
  // restores the position of any of those that saved. Otherwise INVALID_ARGUMENT says so.
  // A joint position may be one of any numbers; that of other numbers is restored by all workers
  // together.
  Status Restore(std::string_view state, const CallOptions& call);

  // The joint position behind the last step that Next gave: the same bytes on all workers, all of
  // which call it behind the same step. FAILED_PRECONDITION where they have not, and for what
  // DistributedDataset::CheckElastic refuses.
  Result<std::string> SaveJoint(const CallOptions& call);
  // What a checkpoint keeps for this worker: the joint position at worker 0, who else goes on being
  // given that, and its own one at others. Where no joint position can be had it logs why, once,
  // and gives this worker's.
  Result<std::string> SaveForCheckpoint(const CallOptions& call);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);

  struct Step {
    Ref<Value> value;  // null: the end, or a failure
    Status failure;
    LocalStep local;  // what it was made of, for Save
    std::vector<StagedValue> staged;  // parts of the value that are on their way to GPUs
  };

  // By local replica; null for one on a CPU, and for all without prefetch_to_device.
  using Stagings = std::vector<std::unique_ptr<GpuStaging>>;
  DistributedIterator(Ref<const DistributedDataset> dataset, std::vector<StepSource> sources,
                      std::unique_ptr<TeamChannel> team, Stagings stagings);
  ~DistributedIterator() override;
  Status OnClose(const CallOptions& options) override;

  // From Enter on, as long as it lives, its owner is the caller that is inside.
  class Turn {
   public:
    explicit Turn(DistributedIterator& iterator) : iterator_(iterator) {}
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    Status Enter(const CallOptions& call, const char* what);

   private:
    DistributedIterator& iterator_;
    bool entered_ = false;
  };

  // Until the thread has made all steps that are wanted. Workers that save and restore between the
  // same steps have made equally many exchanges then.
  Status WaitForThread(std::unique_lock<std::mutex>& lock, const CallOptions& call,
                       const char* what);
  Result<Ref<Value>> NextInside(const CallOptions& call);
  Status TakeStep(const CallOptions& call, Step* step);
  void RunAhead();
  void MakeStepsAhead();
  Status JoinThreadThatEnded();

  // Makes the next step. An interruption (deadline, cancellation) is the returned status and loses
  // nothing; everything else is in the step.
  Status MakeStep(const CallOptions& call, Step* step);
  Status MakeStepOrThrow(const CallOptions& call, Step* step);
  // Whether the position of what makes steps is known.
  Status CheckWhole() const;
  // Whether the thread is to make a step.
  bool WantsStep() const {
    return (wanted_ && ready_.empty()) || (begun_ && ready_.size() < steps_ahead_);
  }
  // The step of this worker alone; of all workers.
  Status CompleteAlone(Step* step);
  Status CompleteWithTeam(const CallOptions& call, Step* step);
  // The failure of an element on some worker, `step->local`'s or another's, as that of the step.
  Status FailWithTeam(const CallOptions& call, Step* step);
  // What a replica without data gets, by the spec, and by another's part.
  Result<Ref<Value>> NothingOfSpec() const;
  Result<Ref<Value>> NothingLike(const Value& part) const;
  // One value of the replicas' parts, filled up where a replica has none; those of GPUs are on
  // their way there.
  Result<Ref<Value>> Assemble(std::vector<Ref<Value>> parts, int64_t global_rows,
                              std::vector<StagedValue>* staged);

  // A position that is to be gone to: sources that stand there, and what had been taken.
  struct Prepared {
    std::vector<StepSource> sources;
    std::deque<LocalStep::Item> items;
    LocalStep::Position position;
  };
  // What one worker saved.
  struct SavedPosition {
    int64_t policy = 0;
    int64_t num_workers = 1;
    int64_t worker = 0;
    int64_t num_replicas = 1;
    MakerState maker;
  };

  Status SaveInto(StateWriter* writer, const CallOptions& call);
  Result<std::string> SaveOwn(const CallOptions& call);
  // Sealed states of all workers, behind the same step.
  Result<std::string> JoinStates(const Result<std::string>& own, const CallOptions& call);
  Result<SavedPosition> ReadPosition(std::string_view state) const;
  Status RestoreFrom(std::string_view state, const CallOptions& call);
  Status RestoreOwn(SavedPosition position, const CallOptions& call);
  Status RestoreJoint(std::string_view state, const CallOptions& call);
  // Iterators over these parts, at their states.
  Result<StepSource> OpenParts(std::vector<SourcePart> parts,
                               const std::vector<std::string_view>& states, size_t turn,
                               const CallOptions& call);
  Result<Ref<Iterator>> OpenPart(const Ref<const Dataset>& dataset, std::string_view state,
                                 const CallOptions& call);
  // This worker's of what all of those had.
  Result<Prepared> Deal(std::vector<SavedPosition> saved, const CallOptions& call);
  // Takes the place of where this iterator is; not once it is being closed.
  Status GoTo(Prepared prepared, const CallOptions& call);
  void ForgetSteps();
  // Whether the position that this worker of so many saved can be gone to.
  Status CheckWorkers(int64_t policy, int64_t num_workers, int64_t worker) const;

  const Ref<const DistributedDataset> dataset_;
  const std::unique_ptr<TeamChannel> team_;  // null: one worker
  const Ref<Cancellation> closing_;
  const size_t steps_ahead_;
  const bool measures_;  // what callers wait
  const Stagings stagings_;  // used by whoever makes steps

  // Of whoever makes steps: the thread while one is wanted, else the caller that is inside.
  StepMaker maker_;
  bool ended_ = false;   // of all workers
  int64_t steps_given_ = 0;     // since it was made, or restored
  bool told_not_joint_ = false;  // why checkpoints hold no joint position
  bool making_ = false;  // between two steps: an exception has left one half made
  Status exception_;     // that; OK when the thread was cancelled

  mutable std::mutex mutex_;  // guards all below, and which iterators the maker's sources have
  std::condition_variable changed_;
  RunProfile::Totals consumer_;
  int64_t first_next_ns_ = 0;
  bool inside_ = false;
  bool stopping_ = false;
  bool thread_ended_ = false;  // in a function of the dataset's
  bool wanted_ = false;        // by a caller, who may have gone
  bool begun_ = false;    // a step has been asked for since the iterator was made, or restored
  bool running_ = false;  // the thread makes a step
  std::vector<Ref<Iterator>> opening_;  // that are being restored, for OnClose
  // In order; has room for all that there can be, so that the thread allocates nothing here.
  std::vector<Step> ready_;
  Thread thread_;  // written by the caller that is inside, and by OnClose
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_DISTRIBUTED_ITERATOR_H_
