// ReplicaEngine: runs one job on every replica at once. Replica 0 runs on the calling thread, the
// others on threads of the engine's, tutti-replica-1 and so on, which start with the first job and
// stay. Between jobs they spin for a few microseconds before they sleep (parking_spot.h), unless
// there are more replicas than cores that the process may use.

#ifndef TUTTI_CORE_STRATEGY_REPLICA_ENGINE_H_
#define TUTTI_CORE_STRATEGY_REPLICA_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/strategy/parking_spot.h"

namespace tutti {

class Environment;

class ReplicaEngine {
 public:
  class Job {
   public:
    virtual void RunReplica(size_t replica) = 0;
    // The caller's time is up or its call was cancelled while other replicas are running: tell them
    // to stop.
    virtual void Interrupt(Status reason) = 0;

   protected:
    ~Job() = default;
  };

  // `environment` outlives the engine. `replicas_on_machine` counts those of other workers, too:
  // when they outnumber the cores nobody spins.
  ReplicaEngine(Environment& environment, size_t num_replicas, size_t replicas_on_machine);
  // After Stop.
  ~ReplicaEngine();
  ReplicaEngine(const ReplicaEngine&) = delete;
  ReplicaEngine& operator=(const ReplicaEngine&) = delete;

  size_t num_replicas() const { return num_replicas_; }
  // Waiting threads may spin.
  bool spin() const { return spin_; }

  // Returns when RunReplica has returned for every replica. Fails only when a thread cannot be
  // started, and then nothing has run. One caller at a time.
  Status Run(Job& job, const CallOptions& options);

  // Joins the threads; no job is running and none will. May be called again when it failed.
  Status Stop(const CallOptions& options);

 private:
  // One thread's place.
  struct alignas(64) Worker {
    std::atomic<uint64_t> posted{0};  // jobs handed to it
    ParkingSpot spot;
    Thread thread;
    std::atomic<bool> ended{false};  // by the replica's function (pthread_exit)
  };

  Status StartThreads();
  Status Restart(size_t replica);
  // After `done` jobs.
  void Work(size_t replica, uint64_t done);
  void RunOnThread(size_t replica);

  Environment& environment_;
  const size_t num_replicas_;
  const bool spin_;
  const std::unique_ptr<Worker[]> workers_;  // of replicas 1 and up; [0] is replica 1's
  size_t num_started_ = 0;

  Job* job_ = nullptr;  // read by a worker after its `posted` has changed
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<size_t> running_{0};  // workers that have not finished the job
  ParkingSpot finished_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_REPLICA_ENGINE_H_
