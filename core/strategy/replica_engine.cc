#include "core/strategy/replica_engine.h"

#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/usable_cores.h"

namespace tutti {

ReplicaEngine::ReplicaEngine(Environment& environment, size_t num_replicas,
                             size_t replicas_on_machine)
    : environment_(environment),
      num_replicas_(num_replicas),
      spin_(num_replicas > 1 && replicas_on_machine <= UsableCores()),
      workers_(num_replicas > 1 ? new Worker[num_replicas - 1] : nullptr) {}

ReplicaEngine::~ReplicaEngine() = default;

Status ReplicaEngine::StartThreads() {
  while (num_started_ + 1 < num_replicas_) {
    const size_t replica = num_started_ + 1;
    TUTTI_ASSIGN_OR_RETURN(workers_[num_started_].thread,
                           environment_.StartThread(Format("tutti-replica-{}", replica),
                                                    [this, replica] { Work(replica, 0); }));
    ++num_started_;
  }
  for (size_t i = 0; i < num_started_; ++i) {
    if (workers_[i].ended.load()) TUTTI_RETURN_IF_ERROR(Restart(i + 1));
  }
  return OkStatus();
}

// A thread for a replica whose function has ended the one before.
Status ReplicaEngine::Restart(size_t replica) {
  Worker& worker = workers_[replica - 1];
  TUTTI_RETURN_IF_ERROR(worker.thread.Join(CallOptions::Default()));
  const uint64_t done = worker.posted.load();
  TUTTI_ASSIGN_OR_RETURN(worker.thread, environment_.StartThread(
                                            Format("tutti-replica-{}", replica),
                                            [this, replica, done] { Work(replica, done); }));
  worker.ended.store(false);
  return OkStatus();
}

Status ReplicaEngine::Run(Job& job, const CallOptions& options) {
  if (num_replicas_ == 1) {
    job.RunReplica(0);
    return OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(StartThreads());
  job_ = &job;
  running_.store(num_replicas_ - 1);
  for (size_t i = 0; i < num_started_; ++i) {
    workers_[i].posted.fetch_add(1);
    workers_[i].spot.Wake();
  }
  const auto all_finished = [this] { return running_.load() == 0; };
  const auto stop_others = [&](Status reason) {
    job.Interrupt(std::move(reason));
    (void)finished_.Wait(environment_.clock(), CallOptions(), spin_, all_finished,
                         "run: waiting for replicas that were told to stop");
  };
  try {
    job.RunReplica(0);
    Status status = finished_.Wait(environment_.clock(), options, spin_, all_finished,
                                   "run: waiting for the other replicas");
    if (!status.ok()) stop_others(std::move(status));
  } catch (...) {
    // The job is the caller's, and the others are in it.
    stop_others(Status::OutOfMemory());
    throw;
  }
  return OkStatus();
}

// What leaves the job, for lack of memory, stops it: there is nobody here to throw to.
void ReplicaEngine::RunOnThread(size_t replica) {
  Status status = CatchExceptions("run", [&] {
    job_->RunReplica(replica);
    return OkStatus();
  });
  if (status.ok()) return;
  (void)CatchExceptions("run", [&] {
    job_->Interrupt(std::move(status));
    return OkStatus();
  });
}

void ReplicaEngine::Work(size_t replica, uint64_t done) {
  Worker& worker = workers_[replica - 1];
  IfThreadEnds ends("run: the function", [&](const Status& why) {
    (void)CatchExceptions("run", [&] {
      job_->Interrupt(why);
      return OkStatus();
    });
    worker.ended.store(true);
    if (running_.fetch_sub(1) == 1) finished_.Wake();
  });
  for (;; ++done) {
    (void)worker.spot.Wait(
        environment_.clock(), CallOptions(), spin_, [&] { return worker.posted.load() != done; },
        "replica thread: waiting for a run");
    if (stopping_.load()) return ends.Stays();
    RunOnThread(replica);
    if (running_.fetch_sub(1) == 1) finished_.Wake();
  }
}

Status ReplicaEngine::Stop(const CallOptions& options) {
  if (!stopping_.exchange(true)) {
    for (size_t i = 0; i < num_started_; ++i) {
      workers_[i].posted.fetch_add(1);
      workers_[i].spot.Wake();
    }
  }
  for (size_t i = 0; i < num_started_; ++i) {
    TUTTI_RETURN_IF_ERROR(workers_[i].thread.Join(options));
  }
  return OkStatus();
}

}  // namespace tutti
