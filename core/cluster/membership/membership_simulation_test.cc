// The membership protocol under random misfortune, in virtual time: 2 to 8 workers that start when
// they like, exchange, leave; and processes that die or stop, connections that break or are cut,
// jobs that are aborted, at any moment. One seed decides one run, and 500 of them are tried:
//
//   TUTTI_TEST_SCALE=20          tries a fifth of them (percent)
//   TUTTI_SIMULATION_SEED=1234   repeats one, and prints its script
//
// What must hold, whatever happens:
//   - every Join and every exchange ends;
//   - whom a failure names did die, stop for longer than the limit, or was cut off; nobody else is
//     ever declared dead, least of all who has left;
//   - workers that nothing befell name the same first failure word for word, and hear of it in
//   time;
//   - an exchange gives the same bytes, in the order of the workers, to all to whom it gives any.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/executor.h"
#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/cluster/testing/simulated_job.h"

namespace tutti {
namespace {

constexpr int64_t kJoinTimeoutNs = 20 * kSecondNs;
constexpr int64_t kEndNs = 120 * kSecondNs;

class Trial {
 public:
  explicit Trial(uint64_t seed)
      : draws_(seed ^ 0x5eedu), timing_(DrawTiming()), job_(seed, Draw(2, 8), timing_) {
    for (int64_t i = 0; i < job_.size(); ++i) lives_.push_back(Life{});
    script_ = Format("seed {}: {} workers, silence limit {}", seed, job_.size(),
                     HumanDuration(timing_.silence_limit_ns));
  }

  void Play() {
    for (int64_t i = 0; i < job_.size(); ++i) StartWorker(i);
    const int64_t count = Draw(0, 3);
    for (int64_t i = 0; i < count; ++i) PlanIncident();
    job_.RunFor(kEndNs);
  }

  void Check() {
    for (int64_t i = 0; i < job_.size(); ++i) CheckWorker(i);
    CheckSameFailure();
    CheckExchanges();
  }

  const std::string& script() const { return script_; }

  // How the job went, for the tally.
  std::string Outcome() {
    std::string outcome = "no job";
    for (int64_t i = 0; i < job_.size(); ++i) {
      if (job_[i].joined && job_[i].failures == 0 && outcome == "no job") outcome = "good end";
      if (job_[i].failures == 0) continue;
      const std::optional<int64_t> blamed = Blamed(job_[i].failure);
      if (!blamed.has_value()) return "aborted";
      return *blamed == 0 ? "coordinator lost" : "worker lost";
    }
    return outcome;
  }

 private:
  struct Life {
    std::vector<int64_t> befell_ns;  // when something did
    bool dead = false;
    bool cut = false;
    int64_t rounds = 0;  // exchanges that it means to do
    int64_t exchanges_open = 0;
    std::vector<std::pair<std::string, std::vector<std::string>>> got;
  };

  uint64_t DrawWord() { return draws_.Next(); }
  int64_t Draw(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(DrawWord() % static_cast<uint64_t>(most - least + 1));
  }
  bool Chance(int64_t percent) { return Draw(1, 100) <= percent; }
  MembershipTiming DrawTiming() {
    if (Chance(50)) return {};
    return {1 * kSecondNs, 100 * kMillisecondNs};
  }
  void Note(const std::string& line) { script_ += "\n  " + line; }
  Life& life(int64_t worker) { return lives_[static_cast<size_t>(worker)]; }

  // ---- What workers do

  void StartWorker(int64_t worker) {
    life(worker).rounds = Chance(90) ? rounds_ : Draw(0, rounds_);
    SimulatedWorker& one = job_[worker];
    one.on_joined = [this, worker] { NextExchange(worker, 0); };
    if (Chance(1)) {
      Note(Format("worker {} never starts", worker));
      life(worker).befell_ns.push_back(0);
      life(worker).dead = true;
      return;
    }
    const int64_t start = Draw(0, 2 * kSecondNs);
    At(start, [&one] { one.Start(kJoinTimeoutNs); });
  }

  // All workers go through the same exchanges, one after the other, each as far as it means to;
  // then it leaves.
  void NextExchange(int64_t worker, int64_t round) {
    SimulatedWorker& one = job_[worker];
    const int64_t think = Draw(0, Chance(5) ? 3 * kSecondNs : 300 * kMillisecondNs);
    if (round == life(worker).rounds) {
      At(think, [&one] { one.Leave(); });
      return;
    }
    const std::string key = Format("round {}", round);
    const auto id = std::make_shared<uint64_t>(0);
    one.Do(
        [this, worker, round, key, id](Member& member) {
          ++life(worker).exchanges_open;
          const auto done = [this, worker, round, key](auto result) {
            --life(worker).exchanges_open;
            if (!result.ok()) {
              SimulatedWorker& failed = job_[worker];
              At(Draw(0, kSecondNs), [&failed] { failed.Leave(); });
              return;
            }
            life(worker).got.emplace_back(key, *result);
            NextExchange(worker, round + 1);
          };
          *id = member.Exchange(key, Part(worker, key), done);
        },
        think);
    if (Chance(1)) {
      one.Do(
          [id](Member& member) {
            member.WithdrawExchange(*id, DeadlineExceeded("this worker has waited long enough"));
          },
          think + Draw(0, 500 * kMillisecondNs));
    }
  }
  static std::string Part(int64_t worker, const std::string& key) {
    return Format("{} of {}", key, worker);
  }

  // ---- What befalls them

  void At(int64_t delay_ns, Task act) {
    job_.world->executor().PostAfter(delay_ns, std::move(act));
  }
  void Befall(int64_t worker) {
    // Whoever has left can lose nothing more.
    if (!job_[worker].left) life(worker).befell_ns.push_back(job_.world->clock().NowNs());
  }

  void PlanIncident() {
    const int64_t when = Draw(0, 15 * kSecondNs);
    const int64_t worker = Draw(0, job_.size() - 1);
    const int64_t limit = timing_.silence_limit_ns;
    SimulatedWorker& one = job_[worker];
    SimulatedControlNetwork& node = *one.network;
    const std::string at = Format("at {}", HumanDuration(when));
    switch (Draw(0, 7)) {
      case 0:
      case 1: {
        const bool silent = Chance(40);
        Note(Format("{} worker {} dies{}", at, worker, silent ? " silently" : ""));
        At(when, [this, worker, &node, silent] {
          Befall(worker);
          life(worker).dead = true;
          node.Kill(silent ? SimulatedDeath::kSilent : SimulatedDeath::kBroken);
        });
        // Neighbours on the same machine see the process end.
        for (int64_t other = 0; other < job_.size(); ++other) {
          if (other == worker || silent || !Chance(50)) continue;
          At(when + Draw(0, 20 * kMillisecondNs), [this, other, worker] {
            job_[other].Do(
                [worker](Member& member) { member.Suspect(worker, "its process has ended"); });
          });
        }
        return;
      }
      case 2: {
        const int64_t duration = Draw(1, limit / 2);
        Note(Format("{} worker {} stops for {}", at, worker, HumanDuration(duration)));
        At(when, [&node, duration] { node.Freeze(duration); });
        return;
      }
      case 3: {
        const int64_t duration = Draw(2 * limit, 5 * limit);
        Note(Format("{} worker {} stops for {}", at, worker, HumanDuration(duration)));
        At(when, [this, worker, &node, duration] {
          Befall(worker);
          node.Freeze(duration);
        });
        return;
      }
      case 4: {
        // Once: the end of one cut would be the end of another.
        if (worker == 0 || std::exchange(life(worker).cut, true)) return;
        const bool brief = Chance(50);
        const int64_t duration = brief ? Draw(1, limit / 2) : Draw(2 * limit, 5 * limit);
        Note(Format("{} worker {} is cut off for {}", at, worker, HumanDuration(duration)));
        At(when, [this, worker, &node, brief, duration] {
          if (!brief) Befall(worker);
          job_.wire.Cut(*job_[0].network, node);
          At(duration, [this, &node] { job_.wire.Heal(*job_[0].network, node); });
        });
        return;
      }
      case 5: {
        if (worker == 0) return;
        Note(Format("{} the connection of worker {} breaks", at, worker));
        At(when, [this, worker, &node] {
          Befall(worker);
          job_.wire.Break(*job_[0].network, node);
        });
        return;
      }
      case 6: {
        Note(Format("{} worker {} aborts the job", at, worker));
        At(when, [this, &one, worker] {
          one.Do([this, worker](Member& member) {
            aborted_ = true;
            member.Abort(Aborted("worker {} has had enough", worker));
          });
        });
        return;
      }
      case 7: {
        Note(Format("{} worker {} leaves", at, worker));
        At(when, [&one] { one.Leave(); });
        return;
      }
    }
  }

  // ---- What must hold

  static std::optional<int64_t> Blamed(const Status& status) {
    if (status.code() != StatusCode::kUnavailable) return std::nullopt;
    const StatusDetail* const detail = status.FindDetail("worker");
    if (detail == nullptr) return std::nullopt;
    return std::get<int64_t>(detail->value);
  }

  void CheckWorker(int64_t worker) {
    SimulatedWorker& one = job_[worker];
    SCOPED_TRACE(Format("worker {}: joined {}, not joined: {}, failure: {}", worker, one.joined,
                        one.not_joined.ToString(), one.failure.ToString()));
    EXPECT_LE(one.failures, 1);
    EXPECT_FALSE(one.joined && !one.not_joined.ok());
    if (!life(worker).dead) {
      EXPECT_TRUE(one.joined || !one.not_joined.ok()) << "Join never ended";
      EXPECT_EQ(life(worker).exchanges_open, 0) << "an exchange never ended";
    }
    if (one.failures > 0) CheckBlame(worker, one.failure);
    for (const auto& [who, reason] : one.departures) {
      // The seat of a worker whose Join gave up after the job had begun counts as left, too.
      EXPECT_TRUE(job_[who].leaving || !job_[who].not_joined.ok() || life(who).dead)
          << "worker " << who << " has not left: " << reason.ToString();
    }
  }

  void CheckBlame(int64_t worker, const Status& failure) {
    const std::optional<int64_t> blamed = Blamed(failure);
    if (!blamed.has_value()) {
      EXPECT_TRUE(aborted_) << "a failure that names nobody, and nobody has aborted";
      return;
    }
    const bool befell = !life(*blamed).befell_ns.empty();
    // Whoever was cut off sees the coordinator on the other side of the cut.
    if (!life(worker).befell_ns.empty() && *blamed == 0) return;
    ASSERT_TRUE(befell) << "worker " << *blamed << " was well";
    const int64_t first = life(*blamed).befell_ns.front();
    EXPECT_LE(first, job_[worker].failed_ns) << "named before it happened";
    EXPECT_GE(job_[*blamed].left_ns, first) << "it had left";
  }

  void CheckSameFailure() {
    if (!life(0).befell_ns.empty()) return;  // each judges for itself
    const SimulatedWorker* first = nullptr;
    int64_t began_ns = kNeverNs;
    for (int64_t i = 0; i < job_.size(); ++i) {
      const SimulatedWorker& one = job_[i];
      began_ns = std::min(began_ns, one.joined_ns);
      if (!life(i).befell_ns.empty() || one.failures == 0) continue;
      if (first == nullptr) first = &one;
      EXPECT_EQ(one.failure.ToString(), first->failure.ToString());
    }
    for (int64_t lost = 0; lost < job_.size(); ++lost) {
      for (const int64_t when : life(lost).befell_ns) {
        if (when > began_ns) CheckIsHeardOf(lost, when + 2 * timing_.silence_limit_ns);
      }
    }
  }

  // Whoever is there so long after a loss has heard of it, or of what ended the job before.
  void CheckIsHeardOf(int64_t lost, int64_t by_ns) {
    if (job_[lost].left_ns <= by_ns || job_[0].left_ns <= by_ns) return;
    for (int64_t i = 0; i < job_.size(); ++i) {
      const SimulatedWorker& one = job_[i];
      if (!life(i).befell_ns.empty() || !one.joined || one.left_ns <= by_ns) continue;
      EXPECT_LE(one.failed_ns, by_ns)
          << "worker " << i << " has not heard that worker " << lost << " was lost";
    }
  }

  void CheckExchanges() {
    for (int64_t i = 0; i < job_.size(); ++i) {
      for (const auto& [key, parts] : life(i).got) {
        ASSERT_EQ(parts.size(), static_cast<size_t>(job_.size()));
        for (int64_t from = 0; from < job_.size(); ++from) {
          EXPECT_EQ(parts[static_cast<size_t>(from)], Part(from, key));
        }
      }
    }
  }

  SplitMix64 draws_;
  const MembershipTiming timing_;
  SimulatedJob job_;
  const int64_t rounds_ = Draw(0, 60);  // exchanges that most workers mean to do
  std::vector<Life> lives_;
  bool aborted_ = false;
  std::string script_;
};

TEST(MembershipSimulation, KeepsItsPromisesInEverySimulatedJob) {
  const std::optional<uint64_t> one = NumberOf(std::getenv("TUTTI_SIMULATION_SEED"));
  std::map<std::string, int> tally;
  SeededRuns jobs("simulated jobs", 500);
  while (jobs.Next()) {
    const uint64_t seed = one.value_or(1 + jobs.number());
    Trial trial(seed);
    trial.Play();
    if (one.has_value()) std::printf("%s\n", trial.script().c_str());
    SCOPED_TRACE(Format("TUTTI_SIMULATION_SEED={} tutti_cluster_test "
                        "--gtest_filter='MembershipSimulation.Keeps*' repeats this run\n{}",
                        seed, trial.script()));
    trial.Check();
    if (one.has_value() || testing::Test::HasFailure()) return;
    ++tally[trial.Outcome()];
  }
  for (const auto& [outcome, trials] : tally) std::printf("%s: %d\n", outcome.c_str(), trials);
  // The misfortunes do happen.
  if (jobs.done() >= 500) {
    for (const char* outcome : {"good end", "aborted", "coordinator lost", "worker lost"}) {
      EXPECT_GE(tally[outcome], 20) << outcome;
    }
  }
}

TEST(MembershipSimulation, ASeedDecidesTheWholeRun) {
  const auto trace = [](uint64_t seed) {
    SimulatedJob job(seed, 3);
    job.StartAll();
    job.RunFor(3 * kSecondNs);
    job[1].network->Kill(SimulatedDeath::kSilent);
    job.RunFor(10 * kSecondNs);
    return job.world->trace() + job[0].failure.ToString();
  };
  EXPECT_EQ(trace(7), trace(7));
  EXPECT_NE(trace(7), trace(8));
}

}  // namespace
}  // namespace tutti
