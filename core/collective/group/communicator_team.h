// CommunicatorTeam: the ranks of a communicator as the workers of a strategy. It is how a strategy
// comes to an elastic job: when that has lost a worker the communicator shrinks or grows, and the
// next strategy is one over what it has become.
//
// The communicators that it makes are split from that one, so that making them is a call of it: of
// which nothing else may be under way meanwhile. Whoever ends its epoch ends the team's.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_COMMUNICATOR_TEAM_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_COMMUNICATOR_TEAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/group/worker_team.h"

namespace tutti {

// What every rank brings, in their order. Each brings the key, too, for they must be in the same
// call: INVALID_ARGUMENT names two that are not.
Result<std::vector<std::string>> ExchangeTexts(Communicator& communicator, std::string_view key,
                                               std::string bytes, const CallOptions& call);

class CommunicatorTeam final : public WorkerTeam {
 public:
  // Every rank calls it, with as many replicas each: else INVALID_ARGUMENT on all.
  static Result<Ref<WorkerTeam>> Create(Ref<Communicator> communicator, int64_t num_replicas,
                                        bool reproducible, const CallOptions& call);

  int64_t worker() const override;
  int64_t num_workers() const override;
  std::string Describe(int64_t worker) const override;
  // All: where the ranks are is not known, and who waits without spinning waits well anywhere.
  int64_t replicas_on_this_machine() const override { return num_replicas_; }
  Result<std::vector<std::string>> Exchange(std::string_view key, std::string bytes,
                                            const CallOptions& call) override;
  Result<Ref<Communicator>> CreateCommunicator(
      std::string_view name, int64_t epoch, const CallOptions& call,
      std::optional<CollectiveTransport> transport = std::nullopt) override;
  bool reproducible() const override { return reproducible_; }
  Status failure() const override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  CommunicatorTeam(Ref<Communicator> communicator, bool reproducible, int64_t num_replicas);
  ~CommunicatorTeam() override;

  const Ref<Communicator> communicator_;
  const bool reproducible_;
  const int64_t num_replicas_;  // of all ranks
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_COMMUNICATOR_TEAM_H_
