// Cluster: this process's seat in a job of several worker processes.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Cluster> cluster, Cluster::Join(environment, options, call));
//   TUTTI_ASSIGN_OR_RETURN(std::vector<std::string> all, cluster->Exchange("seed", mine, call));
//
// Worker 0 is the coordinator: it listens at its address of the cluster spec, all others connect to
// it (the control channel). Joining is a rendezvous: it returns when every worker is there and has
// been found compatible. From then on the workers watch each other: heartbeats over the control
// channel tell who is silent, a watch on the processes of the same machine tells at once who died.
//
// The first worker that dies or falls silent ends the job for all: failure() names it, everything
// that waits for others fails with it. A worker that leaves (Close) says so; only what needs it
// fails then.
//
// In an elastic job a worker other than 0 that dies or falls silent has left, too: departure() says
// how, and the others go on. Its seat is free: a process that joins as this worker takes it while
// the job runs. Who is there at some moment, all find out by meeting (Regroup). Threads: any.

#ifndef TUTTI_CORE_CLUSTER_JOB_CLUSTER_H_
#define TUTTI_CORE_CLUSTER_JOB_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/closable.h"
#include "core/base/control_channel.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/auth/job_secret.h"
#include "core/cluster/membership/worker_info.h"

namespace tutti {

class Environment;
class PeerListener;

struct ClusterOptions {
  std::string name = "cluster";          // for messages
  std::vector<std::string> tasks;        // of all workers, in order: "chief:0", "worker:0", ...
  std::vector<std::string> addresses;    // the same, "host:port"
  int64_t worker = 0;                    // which of them this process is
  int64_t num_replicas = 1;              // of this worker; must be the same on all
  int64_t usable_cores = 1;              // of this process
  JobSecret secret;
  bool elastic = false;  // worker 0's setting holds for all
  // Within what time all know of a worker that says nothing more; worker 0's setting holds for all.
  // It counts as silent a heartbeat or two before (silence.h). kNeverNs: it may be silent for ever.
  int64_t silence_limit_ns = 3 * kSecondNs;
  int64_t heartbeat_interval_ns = 250 * kMillisecondNs;  // at most an eighth of the limit
  // After how long Join warns of who is missing, and again after twice that; kNeverNs: never.
  int64_t join_warning_ns = 10 * kSecondNs;
  // For tests: null means gRPC, and a PeerListener of its own. With a network of the caller's there
  // is no PeerListener and no process watch.
  Ref<ControlNetwork> network;
  // For tests: workers with the same name share a machine, as it seems; empty: where they run.
  std::string machine;
};

// What a worker brings to a meeting of workers.
struct RegroupRequest {
  std::string name;
  // Who is to come, and does unless it has left; empty: whoever is there, newcomers too.
  std::vector<MemberId> among;
  bool all = false;      // fails (UNAVAILABLE) when one of `among` has left
  int64_t at_least = 0;  // where `among` is empty: waits until so many are there
  int64_t epoch = 0;     // the latest of this name that the worker knows of
  std::string bytes;     // at most Cluster::kMaxExchangeBytes
};

struct Regrouped {
  int64_t epoch = 0;  // later than any before of this name; 0 for `all`
  std::vector<MemberId> members;  // in the order of `among`, else of the workers
  std::vector<WorkerInfo> infos;  // of the members
  std::vector<std::string> parts;
};

struct ClusterEvent {
  int64_t worker = -1;   // that has left; -1: the job has failed
  uint64_t arrival = 0;  // the process in its seat
  Status status;
};

class Cluster final : public Closable {
 public:
  // Waits for all workers, as long as `call` allows, and warns of those that are long in coming.
  // Fails on every worker with the same message
  // where workers do not fit together (INVALID_ARGUMENT: versions, numbers of replicas, cluster
  // specs); UNAUTHENTICATED for another job secret; DEADLINE_EXCEEDED names who has not come, and
  // UNAVAILABLE says why worker 0 could not be reached; ALREADY_EXISTS for a second process that
  // says it is this worker.
  static Result<Ref<Cluster>> Join(Ref<Environment> environment, ClusterOptions options,
                                   const CallOptions& call);

  int64_t worker() const { return worker_; }
  int64_t num_workers() const;
  bool elastic() const { return elastic_; }
  // Of the process that has, or last had, this seat. The reference stays good.
  const WorkerInfo& info(int64_t worker) const;
  // Who has the seat, or had it last.
  MemberId member(int64_t worker) const;
  // Those that have not left, in order.
  std::vector<MemberId> present() const;
  // A random number that all workers share.
  uint64_t job_id() const { return job_id_; }
  // How long what is on its way from a worker that has left so may stand still before it counts as
  // lost: as long as a worker may be silent; 10 s where silence has no limit; a tenth of a second
  // where its process was seen to end on this host.
  int64_t PatienceAfterNs(const Status& departure) const;
  const JobSecret& secret() const { return secret_; }
  // "worker 1 (pid 4711)" or with its host, when that is another one.
  std::string Describe(int64_t worker) const;
  // Accepts authenticated streams from peers; null under a network of the caller's.
  PeerListener* listener() const { return listener_.get(); }

  // Every worker calls it with the same key, each key once: gives what every worker brought, in the
  // order of the workers. At most kMaxExchangeBytes each. A deadline or a cancellation leaves the
  // others waiting for this worker: they are told (CANCELLED naming it). When all had come before,
  // it completes here as it did for them; worker 0 says so, which a call waits for a moment longer.
  // Fails with failure(), and with UNAVAILABLE when a worker that has left did not bring its part.
  static constexpr size_t kMaxExchangeBytes = size_t{64} << 10;
  Result<std::vector<std::string>> Exchange(std::string_view key, std::string bytes,
                                            const CallOptions& call);

  // Workers that give the same name and the same `among` come together: completes for all of them
  // at once, when everyone has come who has not left meanwhile. The same errors as Exchange. After
  // an error the workers may try again.
  Result<Regrouped> Regroup(RegroupRequest request, const CallOptions& call);
  // This worker, one of `among`, has left their group for good: regroupings of this name among a
  // list complete without it, until it takes part in another one. Nothing where the name has had a
  // later epoch than `epoch`. In the background.
  void Resign(std::string name, std::vector<MemberId> among, int64_t epoch);

  // Tells members something about a topic: in the background, in order for each sender and
  // receiver; not to those that have left. What is longer than the limit is not sent.
  static constexpr size_t kMaxNoteBytes = size_t{16} << 10;
  void Tell(std::vector<MemberId> to, std::string topic, std::string content);
  // Called for each note about the topic, on a thread of the cluster's, also for those that have
  // come before; one listener for a topic. It must not block, nor call back into the cluster but
  // for the getters and Tell. Removing waits for a call that is running.
  using NoteListener = std::function<void(const MemberId& from, const std::string& content)>;
  void SetNoteListener(const std::string& topic, NoteListener listener);
  void RemoveNoteListener(const std::string& topic);

  // What ended the job: UNAVAILABLE with details "rank" and "worker" for a worker that died or fell
  // silent, else what Abort was given; OK while nothing did. Cheap.
  Status failure() const;
  // The goodbye of a worker (UNAVAILABLE saying that it has left), how an elastic job lost it (with
  // the detail "lost"), or OK.
  Status departure(int64_t worker) const;
  // Ends the job on all workers. The coordinator decides which reason was the first: failure()
  // tells it a moment later, also here.
  void Abort(Status reason);
  // Of a worker that goes because of an error of its own: the same, but in an elastic job, which
  // goes on without it. Waits until the communicators of this process have heard of it and passed
  // it on, so that who closes them then does not only say that it has left; 5 s at most.
  void Fail(Status reason);

  // Called once per event, on a thread of the cluster's: a worker has left, or the job has failed.
  // At once for what has happened already. It must not block, and must not call back into
  // the cluster but for the getters. Removing waits for a call that is running.
  using Listener = std::function<void(const ClusterEvent& event)>;
  uint64_t AddListener(Listener listener);
  void RemoveListener(uint64_t id);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  Cluster(Ref<Environment> environment, ClusterOptions options);
  ~Cluster() override;
  // Says goodbye and joins what it started.
  Status OnClose(const CallOptions& options) override;
  void SayGoodbye(const CallOptions& options);

  struct State;
  Status Start();
  Status AwaitJoin(const CallOptions& call);
  // As WaitUntil: with a warning, by `warn`, when it takes long.
  Status WaitWarning(std::unique_lock<std::mutex>& lock, const CallOptions& call,
                     const std::function<bool()>& done, const std::function<void()>& warn);
  Status FindOwnAddress(const CallOptions& call);
  Status WatchProcesses();

  const int64_t worker_;
  const JobSecret secret_;
  // Constant once Join has returned.
  uint64_t job_id_ = 0;
  bool elastic_ = false;
  int64_t patience_ns_ = 0;
  Ref<PeerListener> listener_;
  const std::unique_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_JOB_CLUSTER_H_
