// Elastic jobs under random misfortune, in virtual time: 2 to 6 workers that keep a group going as
// a program does. They form it (Regroup), work in it (rounds that need all of its members), look
// for newcomers now and then, and after an error revoke the group (a note to its members) and
// shrink to those that are left; some resign from it instead, and meet the others again later.
// Meanwhile processes die, stop, are cut off, leave, or abort the job, and others come for their
// seats. One seed decides one run, and 1,500 of them are tried:
//
//   TUTTI_TEST_SCALE=20          tries a fifth of them (percent)
//   TUTTI_SIMULATION_SEED=1234   repeats one, and prints its script
//
// What must hold, whatever happens:
//   - every Join and every regrouping ends;
//   - whoever completes a round of one name and epoch is told the same members and parts, is one of
//     them, and no epoch comes to a process twice or goes back;
//   - who is said to be lost did die, stop for longer than the limit, was cut off, or left;
//   - a job that nobody aborts, and whose worker 0 is well, goes on: in the end all who are well
//   are
//     together in one group, and know of nobody in it who is not there.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
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

constexpr int64_t kJoinTimeoutNs = 20 * kSecondNs;
constexpr int64_t kCallTimeoutNs = 8 * kSecondNs;
constexpr int64_t kIncidentsEndNs = 15 * kSecondNs;
constexpr int64_t kEndNs = 60 * kSecondNs;

class Trial {
 public:
  explicit Trial(uint64_t seed)
      : draws_(seed ^ 0xe1a571cu), timing_(DrawTiming()), job_(seed, Draw(2, 6), timing_) {
    script_ = Format("seed {}: {} workers, silence limit {}", seed, job_.size(),
                     HumanDuration(timing_.silence_limit_ns));
    for (std::unique_ptr<SimulatedWorker>& worker : job_.workers) {
      worker->elastic = true;
      Adopt(worker.get());
    }
  }

  void Play() {
    for (auto& process : processes_) Start(*process, Draw(0, kSecondNs));
    const int64_t count = Draw(0, 6);
    for (int64_t i = 0; i < count; ++i) PlanIncident();
    job_.RunFor(kEndNs);
  }

  void Check() {
    bool job_goes_on = processes_[0]->worker->joined && processes_[0]->befell_ns == kNeverNs &&
                       !processes_[0]->worker->leaving && !aborted_;
    std::set<std::string> well;
    std::set<std::string> there;  // those too that came back from what befell them in time
    for (auto& process : processes_) {
      CheckProcess(*process, job_goes_on);
      if (process->worker->joined && !process->dead && !IsOver(*process)) {
        there.insert(IdText(process->id));
      }
      if (IsWell(*process)) well.insert(IdText(process->id));
    }
    if (!job_goes_on) return;
    for (auto& process : processes_) {
      if (!IsWell(*process)) continue;
      SCOPED_TRACE(Name(*process));
      std::set<std::string> members;
      for (const MemberId& member : process->members) members.insert(IdText(member));
      EXPECT_TRUE(std::includes(members.begin(), members.end(), well.begin(), well.end()))
          << "not everybody is together again: " << Text(members) << " of "
          << Text(well);
      EXPECT_TRUE(std::includes(there.begin(), there.end(), members.begin(), members.end()))
          << "somebody in it is gone: " << Text(members) << " of " << Text(there);
      // The end may fall between the moments at which two members enter the next one.
      EXPECT_LE(std::abs(process->epoch - processes_[0]->epoch), 1);
      EXPECT_EQ(process->members, processes_[0]->members);
    }
  }

  const std::string& script() const { return script_; }
  int64_t shrinks() const { return shrinks_; }
  int64_t resignations() const { return resignations_; }
  int64_t newcomers() const { return newcomers_; }
  int64_t revokes() const { return revokes_; }
  bool aborted() const { return aborted_; }

 private:
  // One process, in a seat; another one may come after it.
  struct Process {
    SimulatedWorker* worker = nullptr;
    MemberId id;
    int64_t befell_ns = kNeverNs;
    bool dead = false;
    bool cut = false;
    bool has_met = false;     // or tried to
    bool recovering = false;  // between an error and the next group
    int64_t open = 0;         // regroupings under way
    uint64_t request = 0;     // the one under way
    int64_t epoch = 0;
    int64_t rounds = 0;       // in this epoch
    std::vector<MemberId> members;
    std::optional<int64_t> revoked;  // an epoch
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
  static std::string IdText(const MemberId& id) { return Format("{}.{}", id.worker, id.arrival); }
  static std::string Text(const std::set<std::string>& all) {
    std::string text;
    for (const std::string& one : all) text += (text.empty() ? "" : ", ") + one;
    return text;
  }
  static std::string Name(const Process& process) {
    return Format("worker {} (pid {}), epoch {}, failure: {}", process.id.worker,
                  process.worker->options.self.pid, process.epoch,
                  process.worker->failure.ToString());
  }
  bool IsWell(const Process& process) const {
    return process.worker->joined && process.befell_ns == kNeverNs && !process.worker->leaving;
  }
  bool IsOver(const Process& process) const {
    return process.worker->failures > 0 || process.worker->leaving;
  }

  // ---- What a program does

  void Adopt(SimulatedWorker* worker) {
    auto process = std::make_unique<Process>();
    Process* const raw = process.get();
    raw->worker = worker;
    raw->id.worker = worker->options.self.worker;
    worker->on_joined = [this, raw] {
      const auto& newcomers = raw->worker->welcome.newcomers;
      for (const MemberId& one : newcomers) {
        if (one.worker == raw->id.worker) raw->id = one;
      }
      Meet(*raw);
    };
    worker->on_note = [this, raw](const tutti::Note& note) {
      if (note.topic != Format("group {}", raw->epoch) || raw->recovering) return;
      ++revokes_;
      raw->revoked = raw->epoch;
      raw->worker->member->WithdrawRegroup(raw->request, Aborted("the group was revoked"));
    };
    processes_.push_back(std::move(process));
  }
  void Start(Process& process, int64_t delay_ns) {
    At(delay_ns, [&process] { process.worker->Start(kJoinTimeoutNs); });
  }

  void Bring(Process& process, RegroupPart part, Member::RegroupDone done) {
    ++process.open;
    const std::string name = part.name;
    const bool counts = !part.all;
    process.worker->Do([this, &process, part = std::move(part), name, counts,
                        done = std::move(done)](Member& member) {
      RegroupPart own = part;
      own.epoch = process.epoch;
      own.part = Format("{} of {}", name, process.worker->options.self.pid);
      const auto over = std::make_shared<bool>(false);
      const uint64_t id = member.Regroup(std::move(own), [this, &process, name, counts, over,
                                                          done](Result<Member::Regrouped> came) {
        --process.open;
        *over = true;
        if (came.ok()) CheckCame(process, name, counts, *came);
        done(std::move(came));
      });
      if (*over) return;
      process.request = id;
      process.worker->Do(
          [&process, id, over](Member& m) {
            if (!*over) m.WithdrawRegroup(id, DeadlineExceeded("not done in time"));
          },
          kCallTimeoutNs);
    });
  }

  void CheckCame(const Process& process, const std::string& name, bool counts,
                 const Member::Regrouped& came) {
    std::string text = Format("epoch {}:", came.epoch);
    bool has_self = false;
    for (size_t i = 0; i < came.members.size(); ++i) {
      text += Format(" {}.{} {}", came.members[i].worker, came.members[i].arrival, came.parts[i]);
      EXPECT_EQ(came.parts[i], Format("{} of {}", name, came.infos[i].pid));
      EXPECT_EQ(came.infos[i].worker, came.members[i].worker);
      has_self |= came.members[i] == process.id;
    }
    EXPECT_TRUE(has_self) << Name(process) << " is not among " << text;
    EXPECT_EQ(came.epoch > process.epoch, counts) << Name(process) << ": " << text;
    const std::string key = counts ? Format("{} {}", name, came.epoch) : name;
    const auto [known, is_new] = results_.emplace(key, text);
    EXPECT_EQ(known->second, text) << Name(process) << " was told otherwise";
  }

  void Enter(Process& process, const Member::Regrouped& came) {
    process.epoch = came.epoch;
    process.members = came.members;
    process.rounds = 0;
    process.recovering = false;
    process.revoked.reset();
    Work(process);
  }

  // Forms the first group, or meets the one that is there.
  void Meet(Process& process) {
    if (IsOver(process)) return;
    process.recovering = true;
    RegroupPart part;
    part.name = "group";
    // Once: not all seats may ever be taken again.
    if (!std::exchange(process.has_met, true) && Chance(50)) part.at_least = job_.size();
    Bring(process, std::move(part), [this, &process](auto came) {
      if (came.ok()) return Enter(process, *came);
      At(Draw(0, 500 * kMillisecondNs), [this, &process] { Meet(process); });
    });
  }

  void Work(Process& process) {
    if (IsOver(process)) return;
    if (process.revoked == process.epoch) return Recover(process);
    const int64_t think = Draw(0, Chance(5) ? kSecondNs : 200 * kMillisecondNs);
    RegroupPart part;
    // Now and then the group looks for newcomers.
    const bool grows = process.rounds % 8 == 7;
    if (grows) {
      part.name = "group";
    } else {
      part.name = Format("epoch {} round {}", process.epoch, process.rounds);
      part.all = true;
      part.among = process.members;
    }
    ++process.rounds;
    At(think, [this, &process, part = std::move(part), grows] {
      if (process.revoked == process.epoch) return Recover(process);
      Bring(process, part, [this, &process, grows](auto came) {
        if (!came.ok()) return Recover(process);
        grows ? Enter(process, *came) : Work(process);
      });
    });
  }

  void Recover(Process& process) {
    if (IsOver(process)) return;
    process.recovering = true;
    process.worker->Do([&process](Member& member) {
      member.Tell(process.members, Format("group {}", process.epoch), "revoked");
    });
    Chance(15) ? Resign(process) : Shrink(process);
  }
  void Resign(Process& process) {
    ++resignations_;
    process.worker->Do([&process](Member& member) {
      member.Resign({"group", process.members, process.epoch});
    });
    At(Draw(0, 2 * kSecondNs), [this, &process] { Meet(process); });
  }
  void Shrink(Process& process) {
    if (IsOver(process)) return;
    ++shrinks_;
    RegroupPart part;
    part.name = "group";
    part.among = process.members;
    At(Draw(0, 100 * kMillisecondNs), [this, &process, part = std::move(part)] {
      Bring(process, part, [this, &process](auto came) {
        if (came.ok()) return Enter(process, *came);
        At(Draw(0, 300 * kMillisecondNs), [this, &process] { Shrink(process); });
      });
    });
  }

  // ---- What befalls them

  void Befall(Process& process) {
    if (!process.worker->left) process.befell_ns = std::min(process.befell_ns, Now());
  }
  void MaybeReplace(Process& former) {
    if (former.id.worker == 0 || Chance(30)) return;
    At(Draw(50 * kMillisecondNs, 5 * kSecondNs), [this, &former] {
      Member::Options options = former.worker->options;
      options.self.pid += 1000;
      auto worker = std::make_unique<SimulatedWorker>(*job_.world, job_.wire, std::move(options));
      ++newcomers_;
      Adopt(worker.get());
      job_.workers.push_back(std::move(worker));
      Start(*processes_.back(), 0);
    });
  }

  void PlanIncident() {
    const int64_t when = Draw(0, kIncidentsEndNs);
    const int64_t kind = Draw(0, 9);
    const int64_t limit = timing_.silence_limit_ns;
    // Worker 0 is spared most of the time: its end is the job's.
    const int64_t seat = Chance(90) ? Draw(1, job_.size() - 1) : 0;
    const int64_t brief = Draw(1, limit / 2);
    const int64_t lasting = Draw(2 * limit, 4 * limit);
    const bool silent = Chance(40);
    const bool seen = Chance(50);
    Note(Format("at {} worker {}: incident {}", HumanDuration(when), seat, kind));
    At(when, [this, seat, kind, brief, lasting, silent, seen] {
      // Whoever has the seat by then.
      Process* found = nullptr;
      for (auto& process : processes_) {
        if (process->id.worker == seat) found = process.get();
      }
      Process& process = *found;
      if (process.dead || process.worker->leaving) return;
      SimulatedControlNetwork& node = *process.worker->network;
      switch (kind) {
        case 0:
        case 1:
        case 2:
        case 3:
          Befall(process);
          process.dead = true;
          node.Kill(silent ? SimulatedDeath::kSilent : SimulatedDeath::kBroken);
          if (seen && !silent && process.worker->joined) {
            const MemberId id = process.id;
            for (auto& other : processes_) {
              if (other.get() == found || other->dead || !other->worker->joined) continue;
              other->worker->Do(
                  [id](Member& member) { member.Suspect(id, "its process has ended"); },
                  Draw(0, 20 * kMillisecondNs));
            }
          }
          return MaybeReplace(process);
        case 4: node.Freeze(brief); return;
        case 5:
          Befall(process);
          node.Freeze(lasting);
          return MaybeReplace(process);
        case 6:
          if (seat == 0 || std::exchange(process.cut, true)) return;
          Befall(process);
          job_.wire.Cut(*processes_[0]->worker->network, node);
          At(lasting, [this, &node] {
            job_.wire.Heal(*processes_[0]->worker->network, node);
          });
          return;
        case 7:
          if (seat == 0) return;
          Befall(process);
          job_.wire.Break(*processes_[0]->worker->network, node);
          return MaybeReplace(process);
        case 8:
          process.worker->Leave();
          return MaybeReplace(process);
        default:
          if (!Chance(25)) return;
          aborted_ = true;
          process.worker->Do(
              [](Member& member) { member.Abort(Aborted("somebody has had enough")); });
          return;
      }
    });
  }

  // ---- What must hold

  void CheckProcess(const Process& process, bool job_goes_on) {
    SCOPED_TRACE(Name(process));
    const SimulatedWorker& worker = *process.worker;
    EXPECT_LE(worker.failures, 1);
    if (!process.dead) {
      EXPECT_TRUE(worker.joined || !worker.not_joined.ok()) << "Join never ended";
      // The last one of a group is in a round, or between two.
      EXPECT_LE(process.open, 1);
      if (IsOver(process)) {
        EXPECT_EQ(process.open, 0) << "a regrouping never ended";
      }
    }
    if (job_goes_on && IsWell(process)) {
      EXPECT_EQ(worker.failures, 0) << worker.failure.ToString();
      EXPECT_FALSE(process.recovering) << "it has not come to a new group";
    }
    for (const auto& [who, reason] : worker.departures) {
      bool accounted = false;
      for (const auto& other : processes_) {
        accounted |= other->id.worker == who &&
                     (other->befell_ns != kNeverNs || other->worker->leaving ||
                      !other->worker->not_joined.ok() || other->worker->failures > 0);
      }
      EXPECT_TRUE(accounted) << "worker " << who << " was well: " << reason.ToString();
    }
  }

  SplitMix64 draws_;
  const MembershipTiming timing_;
  SimulatedJob job_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<std::string, std::string> results_;
  bool aborted_ = false;
  int64_t shrinks_ = 0;
  int64_t resignations_ = 0;
  int64_t newcomers_ = 0;
  int64_t revokes_ = 0;
  std::string script_;
};

// The jobs take turns between parts that run side by side: under a sanitizer all of them together
// take a core for minutes.
constexpr uint64_t kParts = 3;

class ElasticSimulation : public testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Parts, ElasticSimulation, testing::Range(uint64_t{0}, kParts));

TEST_P(ElasticSimulation, KeepsItsPromisesInEverySimulatedJob) {
  const std::optional<uint64_t> one = NumberOf(std::getenv("TUTTI_SIMULATION_SEED"));
  if (one.has_value() && GetParam() != 0) GTEST_SKIP() << "the first part runs that job";
  std::map<std::string, int64_t> tally;
  SeededRuns jobs("simulated jobs", 1500 / kParts);
  while (jobs.Next()) {
    const uint64_t seed = one.value_or(1 + GetParam() + kParts * jobs.number());
    Trial trial(seed);
    trial.Play();
    if (one.has_value()) std::printf("%s\n", trial.script().c_str());
    SCOPED_TRACE(Format("TUTTI_SIMULATION_SEED={} tutti_cluster_test "
                        "--gtest_filter='*ElasticSimulation.Keeps*/0' repeats this run\n{}",
                        seed, trial.script()));
    trial.Check();
    if (one.has_value() || testing::Test::HasFailure()) return;
    tally["shrinks"] += trial.shrinks() > 0;
    tally["resignations"] += trial.resignations() > 0;
    tally["newcomers"] += trial.newcomers() > 0;
    tally["revokes"] += trial.revokes() > 0;
    tally["aborts"] += trial.aborted();
  }
  for (const auto& [what, trials] : tally) {
    std::printf("%s: in %d runs\n", what.c_str(), static_cast<int>(trials));
  }
  // All of it does happen.
  if (jobs.done() >= 166) {
    for (const char* what : {"shrinks", "resignations", "newcomers", "revokes", "aborts"}) {
      EXPECT_GE(tally[what], jobs.done() >= 500 ? 20 : 7) << what;
    }
  }
}

}  // namespace
}  // namespace tutti
