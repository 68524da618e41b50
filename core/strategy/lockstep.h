// Lockstep: what the replicas of one run do together, and the proof that none of them waits for
// something that cannot come.
//
// Every step that replicas take together, a collective or a merge, is counted per replica (#1, #2,
// ...). A replica that takes step #k publishes {k, kind}, one that returns publishes {steps taken,
// returned}; then it looks at what the others have published:
//
//   mine        another one's          means
//   {k, kind}   {k, the other kind}    they have gone different ways: both can only wait for ever
//   {k, kind}   {j < k, returned}      it will never come
//
// Since both sides publish before they look, at least one of them sees it, stops the run, and the
// error names both. (Collectives of one kind that differ in operation, dtype or shape are the
// communicator's to compare; merges that differ are compared by replica 0.)
//
// A merge runs once, on the thread of replica 0, while all others wait; work of our own that is
// worth it is then shared out. The parts live on the replicas' stacks: nobody leaves while a merge
// runs, also when the run has been stopped or time is up.
//
// The first error stops the run: waiting replicas return ABORTED with that error as the cause, the
// communicators' epoch ends.
//
// Under several workers there are no collectives among the replicas of one of them: everything is a
// merge, whose leader talks to the other workers, and a run that stops ends their calls, too.

#ifndef TUTTI_CORE_STRATEGY_LOCKSTEP_H_
#define TUTTI_CORE_STRATEGY_LOCKSTEP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/strategy/parking_spot.h"

namespace tutti {

class Communicator;
class TeamChannel;

// One replica's part of a merge.
class MergePart {
 public:
  // What the replicas must agree on: equal identities make equal merges.
  virtual const void* identity() const = 0;
  // For messages: "merge_call of function 0x1234", "assign_add of variable 'w'".
  virtual std::string Describe() const = 0;
  // Called on replica 0's part: does the merge for all, leaving in each part what its replica
  // needs. A failure is that of every replica's step.
  virtual Status Execute(std::span<MergePart* const> parts) = 0;
  // Asked of replica 0's part after Execute has succeeded: is there work left that the replicas can
  // do together? Then ...
  virtual bool HasShares() const { return false; }
  // ... is called on every part at once, on its replica's thread. It cannot fail.
  virtual void DoShare(size_t /*replica*/, size_t /*num_replicas*/) {}

 protected:
  ~MergePart() = default;
};

class Lockstep {
 public:
  // The first replica has the number `first_replica` among those of all workers; `team` (null: one
  // worker) outlives the lockstep.
  Lockstep(size_t num_replicas, Clock& clock, int64_t first_replica, TeamChannel* team);
  ~Lockstep();

  // ---- By the thread that runs, while no replica is ----

  // What the following rounds communicate over, one per replica (none at the end); the last ones
  // are closed.
  void SetCommunicators(std::vector<Ref<Communicator>> communicators);
  // False when there are none, or they have seen an error.
  bool communicators_usable() const;
  // A new round.
  void Begin(bool spin);
  // How the round went: OK, or the first error with the detail "replica", the replica's number
  // among those of all workers. An ABORTED that only passes on another replica's failure gives way
  // to that failure.
  Status End();
  // Replicas went different ways in this round. Those that gave up because their time was up look
  // so, too.
  bool contradicted() const { return contradicted_.load(); }

  // ---- By replica `replica`, on its own thread ----

  // Before and after a collective; `what` is static. The second turns the communicator's ABORTED
  // into the reason when the round was stopped.
  Status EnterCollective(size_t replica, const char* what, const CallOptions& options);
  Status LeaveCollective(size_t replica, Status status);
  Status Merge(size_t replica, MergePart* part, const CallOptions& options);
  // The replica's function has returned.
  void Return(size_t replica, Status status);

  Communicator& communicator(size_t replica) const { return *communicators_[replica]; }

  // ---- By anybody ----

  // Ends the round with an error that concerns the whole run; later reasons change nothing.
  void Stop(Status reason);
  bool stopped() const { return stopped_.load(); }

 private:
  enum Kind : uint64_t { kRunning, kCollective, kMerge, kReturned };
  struct alignas(64) Slot {
    std::atomic<uint64_t> progress{0};  // steps taken << 2 | Kind
    uint64_t steps = 0;  // the rest is the replica's own, but for a merge in progress
    const char* what = "";
    MergePart* part = nullptr;
    Status merge_status;
  };
  struct Failure {
    size_t replica;  // of this worker
    Status status;
  };

  int64_t Number(size_t replica) const { return first_replica_ + static_cast<int64_t>(replica); }
  // Says whose failure it is, unless it is one of another worker's that says so already.
  Status WithReplica(Status status, size_t replica) const;

  static constexpr uint64_t Pack(uint64_t steps, Kind kind) { return steps << 2 | kind; }

  // Publishes a step and looks at the others; stops the round on a contradiction.
  void Publish(size_t replica, Kind kind);
  void StopWithContradiction(size_t replica, uint64_t mine, size_t other, uint64_t others);
  std::string DescribeProgress(size_t replica, uint64_t progress) const;
  // `shared`: every replica gets the reason itself instead of ABORTED.
  void StopRound(Status reason, bool shared);
  Status StopStatus(size_t replica, const char* what) const;

  // Stops the round of a call that begins when its time is up, whether or not it would have to
  // wait.
  Status CheckTime(const CallOptions& options, const char* what);
  Status LeadMerge(const CallOptions& options);
  void ShareOut(MergePart* part, uint64_t step);
  Status FollowMerge(size_t replica, const CallOptions& options);
  Status CompareParts(std::span<MergePart* const> parts);

  Clock& clock_;
  const size_t num_replicas_;
  const int64_t first_replica_;
  TeamChannel* const team_;
  const std::unique_ptr<Slot[]> slots_;
  std::vector<Ref<Communicator>> communicators_;  // replaced under the mutex, between rounds
  bool spin_ = false;

  std::atomic<bool> stopped_{false};
  std::atomic<bool> merging_{false};        // a merge runs
  std::atomic<uint64_t> sharing_steps_{0};  // the step of the last merge whose work was shared out
  std::atomic<size_t> open_shares_{0};      // of replicas 1 and up
  std::atomic<uint64_t> merged_steps_{0};   // the step of the last merge that has run
  std::atomic<bool> contradicted_{false};
  ParkingSpot leader_;
  ParkingSpot followers_;

  mutable std::mutex mutex_;  // guards all below
  bool reason_is_shared_ = false;
  Status reason_;
  std::vector<Failure> failures_;  // in the order in which replicas returned
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_LOCKSTEP_H_
