// LocalTeam: several workers within one process, for tests and simulations. Each has an environment
// of its own; they exchange facts through memory, and their communicators are those of one process.
//
//   std::vector<Ref<WorkerTeam>> teams = LocalTeam::Create({environment0, environment1}, {2, 2});
//   // on the thread of worker w:
//   teams[w]->CreateCommunicator("strategy", 1, call);
//
// A worker whose team object goes away has left: exchanges that lack its part fail. Fail ends the
// job of all, as the death of a worker does between processes.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_LOCAL_TEAM_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_LOCAL_TEAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/group/worker_team.h"

namespace tutti {

class Environment;

class LocalTeam final : public WorkerTeam {
 public:
  // One worker per environment, with so many replicas each; the two are equally long. An
  // environment may serve several workers. Worker `reproducible`, if there is one of that number,
  // wants folds to be so.
  static std::vector<Ref<WorkerTeam>> Create(std::vector<Ref<Environment>> environments,
                                             std::vector<int64_t> replicas,
                                             int64_t reproducible = -1);

  int64_t worker() const override { return worker_; }
  int64_t num_workers() const override;
  std::string Describe(int64_t worker) const override;
  int64_t replicas_on_this_machine() const override;
  Result<std::vector<std::string>> Exchange(std::string_view key, std::string bytes,
                                            const CallOptions& call) override;
  Result<Ref<Communicator>> CreateCommunicator(
      std::string_view name, int64_t epoch, const CallOptions& call,
      std::optional<CollectiveTransport> transport = std::nullopt) override;
  bool reproducible() const override;
  Status failure() const override;

  // Ends the job of all workers with `error`; the first stays.
  void Fail(Status error);

 private:
  struct Job;
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  LocalTeam(Ref<Environment> environment, std::shared_ptr<Job> job, int64_t worker);
  ~LocalTeam() override;

  const Ref<Environment> environment_;
  const std::shared_ptr<Job> job_;
  const int64_t worker_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_LOCAL_TEAM_H_
