// Groups that are formed in stages while calls are given up, in virtual time. 2 to 6 workers form
// one group after another: each meets the others (in an elastic job), then tells them something in
// every stage, and fails as soon as a stage does. Calls have no deadline, but are cancelled at any
// moment; messages are late because a worker stops for a while or is cut off, and now and then one
// is for so long that it is lost. Nobody leaves after an error: a worker that another one waits for
// is there, and does something else. One seed decides one run, and 300 of each kind are tried:
//
//   TUTTI_TEST_SCALE=20          tries a fifth of them (percent)
//   TUTTI_SIMULATION_SEED=1234   repeats one, and prints its script
//
// What must hold, whatever happens:
//   - every call ends, of those too that nobody cancels;
//   - a group that one member has formed, all have.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/executor.h"
#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/cluster/testing/simulated_job.h"

namespace tutti {
namespace {

constexpr int64_t kGroups = 12;  // that each worker forms
constexpr int64_t kStages = 4;
constexpr int64_t kTroubleEndsNs = 6 * kSecondNs;
constexpr int64_t kEndNs = 30 * kSecondNs;

class Trial {
 public:
  Trial(uint64_t seed, bool elastic)
      : draws_(seed ^ 0xf02717u),
        elastic_(elastic),
        timing_(DrawTiming()),
        job_(seed, Draw(2, 6), timing_),
        workers_(static_cast<size_t>(job_.size())) {
    job_[0].elastic = elastic;
    script_ = Format("seed {}: {} workers, silence limit {}", seed, job_.size(),
                     HumanDuration(timing_.silence_limit_ns));
  }

  void Play() {
    for (int64_t i = 0; i < job_.size(); ++i) {
      job_[i].on_joined = [this, i] { Call(i); };
      job_[i].Start();
    }
    const int64_t count = Draw(0, 4);
    for (int64_t i = 0; i < count; ++i) PlanIncident();
    job_.RunFor(kEndNs);
  }

  void Check() {
    for (int64_t i = 0; i < job_.size(); ++i) {
      const Worker& worker = workers_[static_cast<size_t>(i)];
      EXPECT_TRUE(worker.done || job_[i].failures > 0)
          << "worker " << i << " waits for ever, in " << worker.waits_in;
      lost_ |= job_[i].failures > 0;
      EXPECT_TRUE(MayLoseOne() || !lost_) << job_[i].failure.ToString();
    }
    if (MayLoseOne()) return;
    for (const auto& [group, outcomes] : groups_) {
      EXPECT_EQ(outcomes.size(), 1u) << "not all members have formed group " << group;
    }
  }

  const std::string& script() const { return script_; }
  // What was given up when it had completed, and when it had not.
  int64_t crossed() const { return crossed_; }
  int64_t withdrawn() const { return withdrawn_; }
  bool lost() const { return lost_; }

 private:
  struct Worker {
    int64_t groups = 0;      // tried, in an elastic job formed
    int64_t call = 0;        // the number of the one under way
    bool given_up = false;   // it
    int64_t group = 0;       // that it forms; in an elastic job 0: not known yet
    std::vector<MemberId> members;
    std::string waits_in;    // a stage; empty: none
    uint64_t request = 0;    // the regrouping's
    int64_t last_epoch = 0;
    bool done = false;
  };

  int64_t Draw(int64_t least, int64_t most) {
    return least +
           static_cast<int64_t>(draws_.Next() % static_cast<uint64_t>(most - least + 1));
  }
  bool Chance(int64_t percent) { return Draw(1, 100) <= percent; }
  MembershipTiming DrawTiming() {
    if (Chance(50)) return {};
    return {1 * kSecondNs, 100 * kMillisecondNs};
  }
  void Note(const std::string& line) { script_ += "\n  " + line; }
  void At(int64_t delay_ns, Task act) {
    job_.world->executor().PostAfter(delay_ns, std::move(act));
  }
  int64_t Now() const { return job_.world->clock().NowNs(); }

  // ---- What a program does

  void Call(int64_t index) {
    Worker& worker = workers_[static_cast<size_t>(index)];
    if (worker.groups == kGroups) {
      worker.done = true;
      return;
    }
    const int64_t call = ++worker.call;
    worker.given_up = false;
    worker.group = elastic_ ? 0 : call;
    if (Now() < kTroubleEndsNs && Chance(40)) {
      At(Draw(0, 60 * kMillisecondNs), [this, index, call] {
        Worker& one = workers_[static_cast<size_t>(index)];
        if (one.call != call || one.done) return;
        one.given_up = true;
        job_[index].Do([this, index, call](Member& member) {
          if (workers_[static_cast<size_t>(index)].call == call) Withdraw(index, member);
        });
      });
    }
    Stage(index, elastic_ ? 0 : 1);
  }
  void End(int64_t index, bool formed) {
    Worker& worker = workers_[static_cast<size_t>(index)];
    if (worker.group != 0) groups_[worker.group].insert(formed);
    if (formed || !elastic_) ++worker.groups;
    At(Draw(0, 30 * kMillisecondNs), [this, index] { Call(index); });
  }

  // As a call does it that looks at its result, then at its cancellation. Stage 0: the meeting.
  void Stage(int64_t index, int64_t stage) {
    if (stage > kStages) return End(index, true);
    job_[index].Do(
        [this, index, stage](Member& member) {
          Worker& worker = workers_[static_cast<size_t>(index)];
          worker.waits_in = Format("group {} stage {}", worker.group, stage);
          const auto done = [this, index, stage](const Status& status) {
            Worker& one = workers_[static_cast<size_t>(index)];
            one.waits_in.clear();
            if (one.given_up && status.ok()) ++crossed_;
            status.ok() ? Stage(index, stage + 1) : End(index, false);
          };
          if (!elastic_) {
            worker.request = member.Exchange(worker.waits_in, "x",
                                             [done](const auto& all) { done(all.status()); });
          } else {
            Regroup(worker, member, stage, done);
          }
          if (worker.given_up) Withdraw(index, member);
        },
        Draw(0, 3 * kMillisecondNs));
  }
  template <typename Done>
  void Regroup(Worker& worker, Member& member, int64_t stage, const Done& done) {
    RegroupPart part;
    part.name = stage == 0 ? "group" : worker.waits_in;
    part.all = stage != 0;
    if (part.all) part.among = worker.members;
    part.epoch = worker.last_epoch;
    worker.request = member.Regroup(std::move(part), [&worker, stage, done](auto came) {
      if (came.ok() && stage == 0) {
        worker.group = worker.last_epoch = came->epoch;
        worker.members = came->members;
      }
      done(came.status());
    });
  }
  void Withdraw(int64_t index, Member& member) {
    const Worker& worker = workers_[static_cast<size_t>(index)];
    if (worker.waits_in.empty()) return;
    ++withdrawn_;
    const Status why = Cancelled("this worker has waited long enough");
    if (elastic_) {
      member.WithdrawRegroup(worker.request, why);
    } else {
      member.WithdrawExchange(worker.request, why);
    }
  }

  // ---- What befalls them

  // Several short ones may add up to a silence.
  bool MayLoseOne() const { return trouble_ns_ > timing_.silence_limit_ns / 2; }
  void PlanIncident() {
    const int64_t when = Draw(0, kTroubleEndsNs);
    const int64_t index = Draw(0, job_.size() - 1);
    const bool lasting = Chance(5);
    const int64_t limit = timing_.silence_limit_ns;
    const int64_t duration = lasting ? Draw(2 * limit, 4 * limit) : Draw(1, limit / 2);
    const bool cut = index != 0 && !std::exchange(cut_, true);
    Note(Format("at {} worker {} {} for {}", HumanDuration(when), index,
                cut ? "is cut off" : "stops", HumanDuration(duration)));
    trouble_ns_ += duration;
    SimulatedControlNetwork& node = *job_[index].network;
    At(when, [this, &node, cut, duration] {
      if (!cut) return node.Freeze(duration);
      job_.wire.Cut(*job_[0].network, node);
      At(duration, [this, &node] { job_.wire.Heal(*job_[0].network, node); });
    });
  }

  SplitMix64 draws_;
  const bool elastic_;
  const MembershipTiming timing_;
  SimulatedJob job_;
  std::vector<Worker> workers_;
  std::map<int64_t, std::set<bool>> groups_;  // who was told what came of them
  bool cut_ = false;  // once: the end of one cut would be the end of another
  int64_t trouble_ns_ = 0;
  bool lost_ = false;
  int64_t crossed_ = 0;
  int64_t withdrawn_ = 0;
  std::string script_;
};

void KeepsItsPromises(bool elastic, const char* test) {
  const std::optional<uint64_t> one = NumberOf(std::getenv("TUTTI_SIMULATION_SEED"));
  std::map<std::string, int64_t> tally;
  SeededRuns jobs("simulated jobs", 300);
  while (jobs.Next()) {
    const uint64_t seed = one.value_or(1 + jobs.number());
    Trial trial(seed, elastic);
    trial.Play();
    if (one.has_value()) std::printf("%s\n", trial.script().c_str());
    SCOPED_TRACE(Format("TUTTI_SIMULATION_SEED={} tutti_cluster_test "
                        "--gtest_filter='FormingSimulation.{}' repeats this run\n{}",
                        seed, test, trial.script()));
    trial.Check();
    if (one.has_value() || testing::Test::HasFailure()) return;
    tally["what had completed was given up"] += trial.crossed() > 0;
    tally["what had not completed was given up"] += trial.withdrawn() > trial.crossed();
    tally["somebody was lost"] += trial.lost();
  }
  for (const auto& [what, trials] : tally) {
    std::printf("%s: in %d runs\n", what.c_str(), static_cast<int>(trials));
  }
  // All of it does happen.
  if (jobs.done() < 300) return;
  for (const auto& [what, trials] : tally) EXPECT_GE(trials, 15) << what;
}

TEST(FormingSimulation, NobodyWaitsForEverForWhoHasGivenUp) {
  KeepsItsPromises(false, "NobodyWaitsForEverForWhoHasGivenUp");
}

TEST(FormingSimulation, NobodyOfAnElasticJobWaitsForEverForWhoHasGivenUp) {
  KeepsItsPromises(true, "NobodyOfAnElasticJobWaitsForEverForWhoHasGivenUp");
}

}  // namespace
}  // namespace tutti
