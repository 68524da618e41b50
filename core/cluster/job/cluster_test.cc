// A worker's seat in a job: its options, and blocking calls in virtual time over a simulated
// network.

#include "core/cluster/job/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/closable.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/real_environment.h"
#include "core/base/simulated_control_network.h"
#include "core/base/simulated_environment.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/cluster/testing/cluster_options_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Cluster, OfOneWorkerNeedsNoNetworkAndNoSecret) {
  auto environment = MakeRef<RealEnvironment>();
  Result<Ref<Cluster>> joined =
      Cluster::Join(environment, OptionsOf(1, 0), CallOptions::Default());
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  Cluster& cluster = **joined;
  EXPECT_EQ(cluster.num_workers(), 1);
  EXPECT_EQ(cluster.Describe(0), Format("worker 0 (pid {})", ::getpid()));
  EXPECT_EQ(cluster.info(0).build, TUTTI_BUILD);
  EXPECT_THAT(*cluster.Exchange("k", "mine", CallOptions::Default()), ElementsAre("mine"));
  EXPECT_EQ(cluster.listener(), nullptr);
  EXPECT_TRUE(cluster.failure().ok());
  cluster.Abort(DataLoss("torn"));
  EXPECT_EQ(cluster.failure().code(), StatusCode::kDataLoss);
  EXPECT_EQ(cluster.Exchange("k", "mine", CallOptions::Default()).status().code(),
            StatusCode::kDataLoss);
  EXPECT_TRUE(cluster.Close(CallOptions::Default()).ok());
  EXPECT_EQ(cluster.Exchange("k", "mine", CallOptions::Default()).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
}

// Something that says goodbye to peers when it is closed, and takes its time.
class Talker final : public Closable {
 public:
  Talker(Ref<Environment> environment, const Cluster* cluster, bool* came_late)
      : Closable(std::move(environment), "talker"), cluster_(cluster), came_late_(came_late) {}

 protected:
  Status OnClose(const CallOptions&) override {
    const Deadline enough = Deadline::After(environment().clock(), 100 * kMillisecondNs);
    while (!cluster_->closed() && !enough.Expired(environment().clock())) {
      std::this_thread::yield();
    }
    *came_late_ = cluster_->closed();
    return OkStatus();
  }

 private:
  const Cluster* const cluster_;
  bool* const came_late_;
};

TEST(Cluster, IsLeftOnlyWhenWhatWasReleasedBeforeIsClosed) {
  auto environment = MakeRef<RealEnvironment>();
  Ref<Cluster> cluster =
      Cluster::Join(environment, OptionsOf(1, 0), CallOptions::Default()).value();
  bool came_late = true;
  ASSERT_TRUE(MakeRef<Talker>(environment, cluster.get(), &came_late)->Register().ok());
  EXPECT_TRUE(cluster->Close(CallOptions::Default()).ok());
  EXPECT_FALSE(came_late);
  EXPECT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
}

TEST(Cluster, RefusesOptionsThatMakeNoSense) {
  auto environment = MakeRef<SimulatedEnvironment>(1);
  const auto message = [&](ClusterOptions options) {
    const Status status =
        Cluster::Join(environment, std::move(options), CallOptions::Default()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_THAT(message(OptionsOf(0, 0)), HasSubstr("1 to 1024 workers, got 0"));
  EXPECT_THAT(message(OptionsOf(2, 2)), HasSubstr("this is worker 2 of 2; workers count from 0"));
  ClusterOptions lacking = OptionsOf(2, 0);
  lacking.addresses.pop_back();
  EXPECT_THAT(message(lacking), HasSubstr("2 tasks and 1 addresses"));
  ClusterOptions none = OptionsOf(2, 0);
  none.num_replicas = 0;
  EXPECT_THAT(message(none), HasSubstr("1 or more replicas, got 0"));
}

TEST(Cluster, RefusesALoopbackAddressAmongOthersSayingWhatToSet) {
  auto environment = MakeRef<SimulatedEnvironment>(1);
  ClusterOptions options = OptionsOf(3, 2);
  options.addresses[0] = "localhost:2222";
  EXPECT_EQ(Message(Cluster::Join(environment, options, CallOptions::Default()).status()),
            "cluster of worker 2: worker 0 (worker:0) has the loopback address localhost:2222, "
            "which only processes of its own machine reach, but worker 1 (worker:1) is at "
            "10.0.0.2:2222; give worker:0 an address that the others can reach, or all of them "
            "loopback addresses when they share one machine");
  options = OptionsOf(3, 0);
  options.addresses[2] = "127.0.0.1:2222";
  EXPECT_THAT(Message(Cluster::Join(environment, options, CallOptions::Default()).status()),
              HasSubstr("worker 2 (worker:2) has the loopback address 127.0.0.1:2222"));
}

// ---- In virtual time. A task may wait too: it runs the events of others meanwhile.

class SimulatedClusters {
 public:
  explicit SimulatedClusters(int64_t num_workers)
      : world(MakeRef<SimulatedEnvironment>(7)), wire(*world), num_workers_(num_workers) {
    for (int64_t i = 0; i < num_workers; ++i) {
      networks.push_back(wire.AddNode(Format("worker {}", i)));
    }
  }
  ~SimulatedClusters() {
    for (Ref<Cluster>& cluster : clusters) {
      EXPECT_TRUE(cluster->Close(CallOptions::Default()).ok());
    }
  }

  // Nests the joins: worker i's wait runs the events in which the next one starts.
  Status JoinAll() {
    clusters.resize(static_cast<size_t>(num_workers_));
    return Join(0);
  }
  Status Join(int64_t worker) {
    Status rest;
    if (worker + 1 < num_workers_) {
      world->executor().PostAfter(kMillisecondNs,
                                  [this, worker, &rest] { rest = Join(worker + 1); });
    }
    ClusterOptions options = OptionsOf(num_workers_, worker);
    options.network = networks[static_cast<size_t>(worker)];
    options.silence_limit_ns = silence_limit_ns;
    Result<Ref<Cluster>> joined = Cluster::Join(
        world, std::move(options), CallOptions::WithTimeout(world->clock(), 10 * kSecondNs));
    if (joined.ok()) clusters[static_cast<size_t>(worker)] = *joined;
    return joined.ok() ? rest : joined.status();
  }
  Cluster& operator[](int64_t worker) { return *clusters[static_cast<size_t>(worker)]; }

  const Ref<SimulatedEnvironment> world;
  SimulatedWire wire;
  const int64_t num_workers_;
  int64_t silence_limit_ns = ClusterOptions().silence_limit_ns;
  std::vector<Ref<SimulatedControlNetwork>> networks;
  std::vector<Ref<Cluster>> clusters;
};

TEST(Cluster, JoinsAndExchangesOverASimulatedNetwork) {
  SimulatedClusters job(3);
  ASSERT_TRUE(job.JoinAll().ok());
  EXPECT_EQ(job[0].job_id(), job[2].job_id());
  EXPECT_EQ(job[1].info(2).task, "worker:2");
  std::vector<std::string> second;
  std::vector<std::string> third;
  job.world->executor().PostAfter(kSecondNs, [&] {
    second = *job[1].Exchange("k", "b", CallOptions::Default());
  });
  job.world->executor().PostAfter(2 * kSecondNs, [&] {
    third = *job[2].Exchange("k", "c", CallOptions::Default());
  });
  EXPECT_THAT(*job[0].Exchange("k", "a", CallOptions::Default()), ElementsAre("a", "b", "c"));
  job.world->RunFor(kSecondNs);
  EXPECT_THAT(second, ElementsAre("a", "b", "c"));
  EXPECT_THAT(third, ElementsAre("a", "b", "c"));
}

TEST(Cluster, AnExchangesDeadlineIsToldToTheOthers) {
  SimulatedClusters job(2);
  ASSERT_TRUE(job.JoinAll().ok());
  Status other;
  const Status status =
      job[0].Exchange("k", "a", CallOptions::WithTimeout(job.world->clock(), kSecondNs)).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), StartsWith("exchange \"k\": not done after 1 s"));
  other = job[1].Exchange("k", "b", CallOptions::Default()).status();
  EXPECT_EQ(other.code(), StatusCode::kCancelled);
  EXPECT_THAT(Message(other), HasSubstr("has given it up"));
}

// A worker of two waits for the other one, in an exchange or a regrouping.
Status Meet(Cluster& cluster, bool regroups, const std::string& name, const CallOptions& call) {
  if (!regroups) return cluster.Exchange(name, "mine", call).status();
  RegroupRequest request;
  request.name = name;
  request.among = {cluster.member(0), cluster.member(1)};
  request.all = true;
  return cluster.Regroup(std::move(request), call).status();
}

// Those who have their results go on, and count on the one whose time was up in that moment.
TEST(Cluster, WhatHasCompletedCompletesForWhoGivesItUpAndWhatComesNextFailsForAll) {
  for (const bool regroups : {false, true}) {
    for (const bool by_deadline : {false, true}) {
      SCOPED_TRACE(Format("regroups: {}, by deadline: {}", regroups, by_deadline));
      SimulatedClusters job(2);
      ASSERT_TRUE(job.JoinAll().ok());
      const CallOptions patient;
      auto cancellation = MakeRef<Cancellation>();
      CallOptions call;
      if (by_deadline) {
        call = CallOptions::WithTimeout(job.world->clock(), 300 * kMillisecondNs);
      } else {
        call.cancellation = cancellation.get();
      }
      // Worker 1 has brought its part, and hears late what came of it.
      const auto at = [&](int64_t delay_ms, Task act) {
        job.world->executor().PostAfter(delay_ms * kMillisecondNs, std::move(act));
      };
      at(100, [&] { job.wire.Cut(*job.networks[0], *job.networks[1]); });
      Status first = Internal("not done");
      at(200, [&] { first = Meet(job[0], regroups, "first", patient); });
      at(300, [&] { cancellation->Cancel(); });
      at(1500, [&] { job.wire.Heal(*job.networks[0], *job.networks[1]); });
      const Status late = Meet(job[1], regroups, "first", call);
      EXPECT_TRUE(late.ok()) << late.ToString();
      EXPECT_TRUE(first.ok()) << first.ToString();

      const Status next = Meet(job[1], regroups, "next", call);
      const Status told = Meet(job[0], regroups, "next", patient);
      EXPECT_EQ(next.code(),
                by_deadline ? StatusCode::kDeadlineExceeded : StatusCode::kCancelled);
      EXPECT_EQ(told.code(), StatusCode::kCancelled);
      EXPECT_THAT(Message(told), AllOf(HasSubstr("worker 1"), HasSubstr("has given it up")));
    }
  }
}

TEST(Cluster, ACallEndsSoonAfterItsTimeAlsoWhenWorker0MayBeSilentForEver) {
  SimulatedClusters job(2);
  job.silence_limit_ns = kNeverNs;
  ASSERT_TRUE(job.JoinAll().ok());
  job.wire.Cut(*job.networks[0], *job.networks[1]);
  for (const bool regroups : {false, true}) {
    for (const bool by_deadline : {false, true}) {
      SCOPED_TRACE(Format("regroups: {}, by deadline: {}", regroups, by_deadline));
      const int64_t began_ns = job.world->clock().NowNs();
      auto cancellation = MakeRef<Cancellation>();
      CallOptions call;
      if (by_deadline) {
        call = CallOptions::WithTimeout(job.world->clock(), kSecondNs);
      } else {
        call.cancellation = cancellation.get();
        job.world->executor().PostAfter(kSecondNs, [&] { cancellation->Cancel(); });
      }
      const Status status = Meet(job[1], regroups, Format("by deadline: {}", by_deadline), call);
      EXPECT_EQ(status.code(),
                by_deadline ? StatusCode::kDeadlineExceeded : StatusCode::kCancelled)
          << status.ToString();
      EXPECT_LT(job.world->clock().NowNs() - began_ns, 7 * kSecondNs);
    }
  }
  job.wire.Heal(*job.networks[0], *job.networks[1]);
}

TEST(Cluster, WhatAnExceptionLeavesIsGivenUp) {
  for (const bool regroups : {false, true}) {
    SCOPED_TRACE(regroups);
    SimulatedClusters job(2);
    ASSERT_TRUE(job.JoinAll().ok());
    const auto host = MakeRef<Cancellation>(
        [](void*) -> bool { throw std::runtime_error("the host's own"); }, nullptr, nullptr);
    CallOptions call;
    call.cancellation = host.get();
    EXPECT_THROW(Meet(job[1], regroups, "met", call).rep(), std::runtime_error);
    // The others have not been told yet.
    const Status at_once = Meet(job[1], regroups, "met", CallOptions());
    EXPECT_EQ(at_once.code(), StatusCode::kFailedPrecondition) << at_once.ToString();
    job.world->RunFor(kSecondNs);
    const Status told = Meet(job[0], regroups, "met",
                             CallOptions::WithTimeout(job.world->clock(), 5 * kSecondNs));
    EXPECT_EQ(told.code(), StatusCode::kCancelled) << told.ToString();
    EXPECT_THAT(Message(told), AllOf(HasSubstr("worker 1"), HasSubstr("has given it up")));
    // And can meet again.
    Status again = Internal("not done");
    job.world->executor().PostAfter(kSecondNs, [&] {
      again = Meet(job[0], regroups, "again", CallOptions());
    });
    EXPECT_TRUE(Meet(job[1], regroups, "again", CallOptions()).ok());
    EXPECT_TRUE(again.ok()) << again.ToString();
  }
}

TEST(Cluster, WhoIsRefusedAnExchangeGivesUpNobodyElses) {
  for (const bool regroups : {false, true}) {
    SCOPED_TRACE(regroups);
    SimulatedClusters job(2);
    ASSERT_TRUE(job.JoinAll().ok());
    const auto cancelled = MakeRef<Cancellation>();
    cancelled->Cancel();
    CallOptions impatient;
    impatient.cancellation = cancelled.get();
    Status second;
    Status other = Internal("not done");
    job.world->executor().PostAfter(1 * kSecondNs, [&] {
      second = Meet(job[1], regroups, "met", impatient);
    });
    job.world->executor().PostAfter(2 * kSecondNs, [&] {
      other = Meet(job[0], regroups, "met", CallOptions());
    });
    const Status first = Meet(job[1], regroups, "met", CallOptions());
    EXPECT_TRUE(first.ok()) << first.ToString();
    job.world->RunFor(kSecondNs);
    EXPECT_TRUE(other.ok()) << other.ToString();
    EXPECT_EQ(second.code(), StatusCode::kCancelled) << second.ToString();
  }
}

TEST(Cluster, RefusesWhatIsTooLongForAnExchange) {
  SimulatedClusters job(2);
  ASSERT_TRUE(job.JoinAll().ok());
  const Status status =
      job[0]
          .Exchange("k", std::string(Cluster::kMaxExchangeBytes + 1, 'x'), CallOptions::Default())
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST(Cluster, JoinNamesWhoHasNotCome) {
  SimulatedClusters job(2);
  ClusterOptions options = OptionsOf(2, 0);
  options.network = job.networks[0];
  const Status status = Cluster::Join(job.world, std::move(options),
                                      CallOptions::WithTimeout(job.world->clock(), kSecondNs))
                            .status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(status),
            "cluster of worker 0: worker 0 has given up waiting (not done after 1.0 s); 1 of 2 "
            "workers have not come: worker 1 (worker:1 at 10.0.0.2:2222)");
}

TEST(Cluster, ACancelledJoinSaysSo) {
  SimulatedClusters job(2);
  ClusterOptions options = OptionsOf(2, 1);
  options.network = job.networks[1];
  auto cancellation = MakeRef<Cancellation>();
  job.world->executor().PostAfter(kSecondNs, [&] { cancellation->Cancel(); });
  const Status status =
      Cluster::Join(job.world, std::move(options), {Deadline::Infinite(), cancellation.get()})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_THAT(Message(status), HasSubstr("worker 1 has not reached worker 0"));
}

TEST(Cluster, ListenersHearEachEventOnceAndOfWhatHasHappenedAtOnce) {
  SimulatedClusters job(4);
  ASSERT_TRUE(job.JoinAll().ok());
  std::vector<std::string> heard;
  const auto listener = [&heard](const ClusterEvent& event) {
    heard.push_back(Format("{} {}", event.worker, StatusCodeName(event.status.code())));
  };
  const uint64_t early = job[0].AddListener(listener);
  EXPECT_THAT(heard, ElementsAre());
  ASSERT_TRUE(job[3].Close(CallOptions::Default()).ok());
  job.world->RunFor(kSecondNs);
  EXPECT_THAT(heard, ElementsAre("3 UNAVAILABLE"));
  EXPECT_THAT(Message(job[0].departure(3)), HasSubstr("has left the job"));
  EXPECT_TRUE(job[0].departure(1).ok());
  EXPECT_TRUE(job[0].failure().ok());
  job[2].Abort(DataLoss("torn"));
  job.world->RunFor(kSecondNs);
  EXPECT_THAT(heard, ElementsAre("3 UNAVAILABLE", "-1 DATA_LOSS"));
  heard.clear();
  const uint64_t late = job[0].AddListener(listener);
  EXPECT_THAT(heard, ElementsAre("3 UNAVAILABLE", "-1 DATA_LOSS"));
  job[0].RemoveListener(early);
  job[0].RemoveListener(late);
  EXPECT_EQ(job[1].failure().ToString(), "DATA_LOSS: torn");
}

TEST(Cluster, ADeadWorkerFailsWhatWaitsForItNamingIt) {
  SimulatedClusters job(3);
  ASSERT_TRUE(job.JoinAll().ok());
  job.world->executor().PostAfter(
      kSecondNs, [&] { job.networks[2]->Kill(SimulatedDeath::kBroken); });
  const Status status = job[0].Exchange("k", "a", CallOptions::Default()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("exchange \"k\""), HasSubstr("worker 2 (pid"),
                                     HasSubstr("its connection closed without a goodbye")));
  ASSERT_NE(status.FindDetail("rank"), nullptr);
  EXPECT_EQ(std::get<int64_t>(status.FindDetail("rank")->value), 2);
  EXPECT_FALSE(job[1].failure().ok() && job[0].failure().ok());
}

}  // namespace
}  // namespace tutti
