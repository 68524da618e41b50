// A job of 256 workers in virtual time: it comes up, works, loses some of them, revokes, shrinks,
// takes others in and grows; one seed decides one run, and three are tried:
//
//   TUTTI_TEST_SCALE=1000        tries ten times as many (percent)
//   TUTTI_SIMULATION_SEED=1234   repeats one

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
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

class LargeJob {
 public:
  LargeJob(uint64_t seed, int64_t size) : draws_(seed ^ 0x1a49eu), job_(seed, size) {
    for (int64_t i = 0; i < size; ++i) {
      job_[i].elastic = true;
      processes_.emplace_back(&job_[i]);
    }
  }

  void ComeUp() {
    for (Process& process : processes_) {
      SimulatedWorker* const worker = process.worker;
      job_.world->executor().PostAfter(Draw(kSecondNs), Task([worker] { worker->Start(); }));
    }
    job_.RunFor(10 * kSecondNs);
    for (const Process& process : processes_) {
      ASSERT_TRUE(process.worker->joined) << process.seat;
      ASSERT_EQ(process.worker->welcome.job_id, processes_[0].worker->welcome.job_id);
    }
  }

  // All who are there bring their number, and are told everybody's: so each knows the sum. `among`:
  // those of a group, else whoever is there.
  void Meet(const std::string& name, bool all, bool shrinks) {
    for (Process& process : processes_) {
      if (process.gone) continue;
      process.answered = false;
      RegroupPart part;
      part.name = name;
      part.all = all;
      if (all || shrinks) part.among = process.members;
      part.epoch = process.epoch;
      part.part = std::to_string(process.worker->options.self.pid);
      process.worker->Do(
          [&process, part](Member& member) {
            member.Regroup(part, [&process](Result<Member::Regrouped> came) {
              process.answered = true;
              process.came = std::move(came);
            });
          },
          Draw(100 * kMillisecondNs));
    }
    job_.RunFor(2 * kSecondNs);
    const Process* first = nullptr;
    int64_t expected = 0;
    for (const Process& process : processes_) {
      if (!process.gone) expected += process.worker->options.self.pid;
    }
    for (Process& process : processes_) {
      if (process.gone) continue;
      ASSERT_TRUE(process.answered) << process.seat;
      ASSERT_TRUE(process.came.ok()) << process.came.status().ToString();
      int64_t sum = 0;
      for (const std::string& part : process.came->parts) sum += std::stoll(part);
      ASSERT_EQ(sum, expected);
      if (!all) {
        ASSERT_GT(process.came->epoch, process.epoch);
        process.epoch = process.came->epoch;
        process.members = process.came->members;
      }
      if (first == nullptr) first = &process;
      ASSERT_EQ(process.members, first->members);
      ASSERT_EQ(process.epoch, first->epoch);
    }
  }

  // Some die, each in its own way, at the same time; the others know within the limit, also those
  // that wait for them.
  void Lose(int64_t count) {
    const int64_t when_ns = job_.world->clock().NowNs();
    std::vector<int64_t> lost;
    while (static_cast<int64_t>(lost.size()) < count) {
      Process& process = processes_[1 + draws_.Next() % (processes_.size() - 1)];
      if (process.gone) continue;
      process.gone = true;
      process.worker->network->Kill(draws_.Next() % 2 == 0 ? SimulatedDeath::kSilent
                                                           : SimulatedDeath::kBroken);
      lost.push_back(process.seat);
    }
    job_.RunFor(MembershipTiming().silence_limit_ns);
    for (const Process& process : processes_) {
      if (process.gone) continue;
      ASSERT_EQ(process.worker->failures, 0) << process.worker->failure.ToString();
      for (const int64_t worker : lost) {
        ASSERT_EQ(process.worker->departures.count(worker), 1u)
            << "worker " << process.seat << " does not know that worker " << worker
            << " was lost at " << when_ns;
      }
      ASSERT_LE(process.worker->departures.size(), lost_.size() + lost.size())
          << "somebody was well";
    }
    lost_.insert(lost_.end(), lost.begin(), lost.end());
  }

  void TakeOthersIn() {
    for (const int64_t seat : lost_) {
      Member::Options options = processes_[static_cast<size_t>(seat)].worker->options;
      options.self.pid += 1000;
      job_.workers.push_back(
          std::make_unique<SimulatedWorker>(*job_.world, job_.wire, std::move(options)));
      processes_.emplace_back(job_.workers.back().get()).worker->Start();
    }
    job_.RunFor(5 * kSecondNs);
    for (const Process& process : processes_) {
      if (!process.gone) {
        ASSERT_TRUE(process.worker->joined) << process.seat;
      }
    }
  }

 private:
  struct Process {
    explicit Process(SimulatedWorker* its) : worker(its), seat(its->options.self.worker) {}
    SimulatedWorker* worker;
    int64_t seat;
    std::vector<MemberId> members;
    int64_t epoch = 0;
    bool gone = false;
    Result<Member::Regrouped> came = OkStatus();
    bool answered = false;
  };
  int64_t Draw(int64_t most) {
    return static_cast<int64_t>(draws_.Next() % static_cast<uint64_t>(most));
  }

  SplitMix64 draws_;
  SimulatedJob job_;
  std::deque<Process> processes_;
  std::vector<int64_t> lost_;
};

TEST(LargeJobSimulation, KeepsItsPromisesWith256Workers) {
  const std::optional<uint64_t> one = NumberOf(std::getenv("TUTTI_SIMULATION_SEED"));
  SeededRuns jobs("simulated jobs", 3);
  while (jobs.Next()) {
    const uint64_t seed = one.value_or(1 + jobs.number());
    SCOPED_TRACE(Format("TUTTI_SIMULATION_SEED={} tutti_cluster_test "
                        "--gtest_filter='LargeJobSimulation.*' repeats this run",
                        seed));
    LargeJob job(seed, 256);
    ASSERT_NO_FATAL_FAILURE(job.ComeUp());
    ASSERT_NO_FATAL_FAILURE(job.Meet("group", /*all=*/false, /*shrinks=*/false));
    ASSERT_NO_FATAL_FAILURE(job.Meet("a sum", /*all=*/true, /*shrinks=*/false));
    ASSERT_NO_FATAL_FAILURE(job.Lose(1 + static_cast<int64_t>(seed) * 5));
    ASSERT_NO_FATAL_FAILURE(job.Meet("group", /*all=*/false, /*shrinks=*/true));
    ASSERT_NO_FATAL_FAILURE(job.Meet("another sum", /*all=*/true, /*shrinks=*/false));
    ASSERT_NO_FATAL_FAILURE(job.TakeOthersIn());
    ASSERT_NO_FATAL_FAILURE(job.Meet("group", /*all=*/false, /*shrinks=*/false));
    ASSERT_NO_FATAL_FAILURE(job.Meet("a last sum", /*all=*/true, /*shrinks=*/false));
    if (one.has_value()) return;
  }
}

}  // namespace
}  // namespace tutti
