// Communicators between the workers of real jobs: several workers as threads of this process, each
// with an environment of its own, and as processes of their own, which are this test started again.

#include "core/collective/group/cluster_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/real_environment.h"
#include "core/base/usable_cores.h"
#include "core/cluster/job/cluster.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/cluster/testing/reserved_port_testing.h"
#include "core/collective/group/until_group_breaks.h"
#include "core/collective/select/selector.h"
#include "core/tensor/tensor.h"

extern char** environ;

namespace tutti {
namespace {

using testing::HasSubstr;

// How the workers of a test reach each other.
enum class Reach { kAuto, kTcp, kHosts };

CollectiveTransport TransportOf(Reach reach) {
  return reach == Reach::kTcp ? CollectiveTransport::kTcp : CollectiveTransport::kAuto;
}

ClusterOptions OptionsOf(int64_t workers, int64_t worker, int port, const JobSecret& secret) {
  ClusterOptions options;
  for (int64_t i = 0; i < workers; ++i) {
    options.tasks.push_back(Format("worker:{}", i));
    options.addresses.push_back(Format("127.0.0.1:{}", port + i));
  }
  options.worker = worker;
  options.usable_cores = static_cast<int64_t>(UsableCores());
  options.secret = secret;
  // A loaded machine is no dead worker.
  options.silence_limit_ns = 60 * kSecondNs;
  return options;
}

// 1 + 2 + ... of as many elements, on this rank; an error for any other result.
Status CheckedSum(Communicator& communicator, int64_t count, const CallOptions& call) {
  const Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({count})).value();
  for (int64_t& element : tensor->mutable_span<int64_t>()) element = communicator.rank() + 1;
  TUTTI_RETURN_IF_ERROR(communicator.AllReduce(*tensor, ReduceOp::kSum, call, tensor.get()));
  for (int64_t element : tensor->span<int64_t>()) {
    if (element != communicator.size() * (communicator.size() + 1) / 2) {
      return Internal("a wrong sum: {}", element);
    }
  }
  return OkStatus();
}

// ---- Workers as threads ----

class ClusterTeamTest : public testing::TestWithParam<Reach> {
 protected:
  // body(team, call) on a thread per worker, in a job of their own.
  std::vector<Status> Run(int64_t workers,
                          const std::function<Status(ClusterTeam&, const CallOptions&)>& body) {
    const JobSecret secret = JobSecret::Generate().value();
    const int port = ReservePort();
    std::vector<Status> statuses(static_cast<size_t>(workers));
    std::vector<std::thread> threads;
    for (int64_t worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
        const CallOptions call = CallOptions::WithTimeout(environment->clock(), 60 * kSecondNs);
        Status& status = statuses[static_cast<size_t>(worker)];
        ClusterOptions options = OptionsOf(workers, worker, port, secret);
        // Two on the first machine, the others on the second.
        if (GetParam() == Reach::kHosts) options.machine = worker < 2 ? "first" : "second";
        Result<Ref<Cluster>> cluster = Cluster::Join(environment, std::move(options), call);
        status = cluster.status();
        if (status.ok()) {
          status = body(*ClusterTeam::Create(*cluster, TransportOf(GetParam())), call);
        }
        if (cluster.ok()) {
          EXPECT_TRUE((*cluster)->Close(call).ok());
        }
        cluster = Aborted("done");
        EXPECT_TRUE(environment->Shutdown(call).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
};

TEST_P(ClusterTeamTest, WorkersReduceInOneEpochAfterAnother) {
  for (const Status& status : Run(3, [&](ClusterTeam&team, const CallOptions&call) -> Status {
         EXPECT_EQ(team.num_workers(), 3);
         const int64_t on_first = GetParam() == Reach::kHosts ? 2 : 3;
         EXPECT_EQ(team.replicas_on_this_machine(), team.worker() < on_first ? on_first : 1);
         EXPECT_THAT(team.Describe(team.worker()), HasSubstr(Format("pid {}", getpid())));
         TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                                team.Exchange("k", Format("of {}", team.worker()), call));
         EXPECT_THAT(all, testing::ElementsAre("of 0", "of 1", "of 2"));
         for (int64_t epoch : {1, 2}) {
           TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                                  team.CreateCommunicator("strategy", epoch, call));
           EXPECT_EQ(communicator->rank(), team.worker());
           EXPECT_EQ(communicator->size(), 3);
           for (int64_t count : {1, 1000, 400000}) {
             TUTTI_RETURN_IF_ERROR(CheckedSum(*communicator, count, call));
           }
           TUTTI_RETURN_IF_ERROR(communicator->Close(call));
         }
         return team.failure();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_P(ClusterTeamTest, WorkersWithOtherTablesAllTakeThatOfTheFirst) {
  // With its own table each would take another algorithm, and wait for what never comes.
  const char* const rows[] = {
      "all_reduce shared_memory any 8KiB flat_fold; all_reduce shared_memory any any "
      "slice_and_share 16KiB; all_reduce tcp any 0 flat_fold; all_reduce mixed any 0 flat_fold; "
      "all_reduce tcp any any slice_and_share 16KiB; all_reduce mixed any any slice_and_share "
      "16KiB",
      "", "all_reduce tcp any 16KiB flat_fold; all_reduce mixed any 16KiB flat_fold"};
  for (const Status& status : Run(3, [&](ClusterTeam& plain, const CallOptions& call) -> Status {
         TUTTI_ASSIGN_OR_RETURN(const auto table,
                                SelectorTable::Parse(rows[plain.worker()], "test"));
         const Ref<ClusterTeam> team =
             ClusterTeam::Create(Ref<Cluster>::Retain(&plain.cluster()), TransportOf(GetParam()),
                                 table);
         TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> communicator,
                                team->CreateCommunicator("strategy", 1, call));
         for (const int64_t count : {1, 1000, 3000, 10000, 400000}) {
           TUTTI_RETURN_IF_ERROR(CheckedSum(*communicator, count, call));
         }
         return communicator->Close(call);
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_P(ClusterTeamTest, TheFailureOfTheJobEndsTheEpochOfAll) {
  for (const Status& status : Run(3, [&](ClusterTeam&team, const CallOptions&call) -> Status {
         TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                                team.CreateCommunicator("strategy", 1, call));
         Status status = CheckedSum(*communicator, 10, call);
         if (status.ok() && team.worker() == 1) team.cluster().Abort(DataLoss("worker 1 gives up"));
         // The others wait for worker 1.
         if (status.ok() && team.worker() != 1) status = communicator->Barrier(call);
         while (status.ok()) status = communicator->epoch_status();
         TUTTI_RETURN_IF_ERROR(communicator->Close(call));
         return status;
       })) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1 gives up"));
  }
}

TEST_P(ClusterTeamTest, AWorkerThatLeavesWithItsCommunicatorOpenFailsThoseWhoNeedIt) {
  const std::vector<Status> statuses =
      Run(2, [&](ClusterTeam& team, const CallOptions& call) -> Status {
        TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                               team.CreateCommunicator("strategy", 1, call));
        Status status = CheckedSum(*communicator, 10, call);
        if (team.worker() == 1) {
          TUTTI_RETURN_IF_ERROR(team.cluster().Close(call));
        } else if (status.ok()) {
          status = communicator->Barrier(call);
        }
        EXPECT_TRUE(communicator->Close(call).ok());
        return status;
      });
  EXPECT_TRUE(statuses[1].ok()) << statuses[1].ToString();
  EXPECT_EQ(statuses[0].code(), StatusCode::kUnavailable) << statuses[0].ToString();
}

TEST_P(ClusterTeamTest, WhoIsDoneLeavesTheJobAndDisturbsNobody) {
  for (int round = 0; round < 5; ++round) {
    for (const Status& status : Run(3, [&](ClusterTeam&team, const CallOptions&call) -> Status {
           TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                                  team.CreateCommunicator("strategy", 1, call));
           TUTTI_RETURN_IF_ERROR(CheckedSum(*communicator, 100000, call));
           return communicator->Close(call);
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST_P(ClusterTeamTest, GroupsSplitIntoPartsThatWorkAndFailByThemselves) {
  for (const Status& status : Run(4, [&](ClusterTeam&team, const CallOptions&call) -> Status {
         TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> whole,
                                team.CreateCommunicator("strategy", 1, call));
         // 3 and 1; 2 and 0; then 0 alone, of which the others know nothing.
         const int64_t self = team.worker();
         TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> part,
                                whole->Split(self % 2, -self, "half", call));
         EXPECT_EQ(part->size(), 2);
         EXPECT_EQ(part->rank(), self / 2 == 0 ? 1 : 0);
         EXPECT_EQ(part->name(), "half");
         for (int round = 0; round < 5; ++round) {
           TUTTI_RETURN_IF_ERROR(CheckedSum(*part, 1 + round * 50'000, call));
           TUTTI_RETURN_IF_ERROR(CheckedSum(*whole, 1 + round * 50'000, call));
         }
         TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> alone,
                                whole->Split(self == 0 ? 0 : -1, 0, "", call));
         EXPECT_EQ(alone.get() != nullptr, self == 0);
         if (alone) {
           TUTTI_RETURN_IF_ERROR(CheckedSum(*alone, 7, call));
           TUTTI_RETURN_IF_ERROR(alone->Close(call));
         }
         // The odd ones' part ends; the others' and the whole go on.
         if (self == 1) part->Abort(Aborted("enough"));
         if (self == 3) {
           EXPECT_EQ(part->Barrier(call).message(), "enough");
         }
         if (self % 2 == 0) TUTTI_RETURN_IF_ERROR(CheckedSum(*part, 100'000, call));
         TUTTI_RETURN_IF_ERROR(CheckedSum(*whole, 100'000, call));
         TUTTI_RETURN_IF_ERROR(part->Close(call));
         return whole->Close(call);
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_P(ClusterTeamTest, WhoIsDoneWithASplitLeavesAndDisturbsNobody) {
  for (int round = 0; round < 3; ++round) {
    for (const Status& status : Run(3, [&](ClusterTeam&team, const CallOptions&call) -> Status {
           TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> whole,
                                  team.CreateCommunicator("strategy", 1, call));
           TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> part, whole->Split(0, 0, "", call));
           TUTTI_RETURN_IF_ERROR(part->Close(call));
           return whole->Close(call);
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST_P(ClusterTeamTest, AGroupOfAJobThatIsNotElasticSaysHowItWouldShrink) {
  for (const Status& status : Run(2, [&](ClusterTeam&team, const CallOptions&call) -> Status {
         TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                                team.CreateCommunicator("strategy", 1, call));
         Status status = communicator->Shrink(call).status();
         TUTTI_RETURN_IF_ERROR(communicator->Close(call));
         return status;
       })) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("TUTTI_ELASTIC=1"));
  }
}

// The stream of a worker that has left does not come any more.
TEST_P(ClusterTeamTest, AWaitForAMemberEndsWhenItLeaves) {
  const std::vector<Status> statuses =
      Run(2, [&](ClusterTeam& team, const CallOptions& call) -> Status {
        if (team.worker() == 1) return OkStatus();  // closes its cluster
        Cluster& cluster = team.cluster();
        const UntilGroupBreaks until(Ref<Cluster>::Retain(&cluster),
                                     {cluster.member(0), cluster.member(1)},
                                     UntilGroupBreaks::By::kDepartures, call);
        return cluster.listener()->Accept("a stream", 1, until.options()).status();
      });
  EXPECT_EQ(statuses[0].code(), StatusCode::kUnavailable) << statuses[0].ToString();
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("has left the job"));
}

// The pair that sends here is no pair of neighbours in a tree, and connects when it does so.
TEST_P(ClusterTeamTest, PartsOfGroupsThatHaveOneNameKeepTheirConnectionsApart) {
  for (const Status& status : Run(4, [&](ClusterTeam& plain, const CallOptions& call) -> Status {
         TUTTI_ASSIGN_OR_RETURN(
             const auto table,
             SelectorTable::Parse("broadcast tcp any any tree; broadcast mixed any any tree",
                                  "test"));
         const Ref<ClusterTeam> team =
             ClusterTeam::Create(Ref<Cluster>::Retain(&plain.cluster()), TransportOf(GetParam()),
                                 table);
         TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> whole,
                                team->CreateCommunicator("strategy", 1, call));
         std::vector<Ref<Communicator>> groups = {whole};
         std::vector<Ref<Communicator>> parts;
         for (int i = 0; i < 2; ++i) {
           TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> group, whole->Split(0, 0, "tp", call));
           TUTTI_ASSIGN_OR_RETURN(parts.emplace_back(), group->Split(0, 0, "part", call));
           groups.push_back(group);
         }
         for (size_t i = 0; i < parts.size(); ++i) {
           const auto sent = static_cast<int64_t>(i) + 1;
           const Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({1})).value();
           if (whole->rank() == 3) {
             tensor->mutable_span<int64_t>()[0] = sent;
             TUTTI_RETURN_IF_ERROR(parts[i]->Send(*tensor, 1, call));
           } else if (whole->rank() == 1) {
             TUTTI_RETURN_IF_ERROR(parts[i]->Receive(3, call, tensor.get()));
             EXPECT_EQ(tensor->span<int64_t>()[0], sent);
           }
         }
         groups.insert(groups.begin(), parts.begin(), parts.end());
         for (const Ref<Communicator>& group : groups) {
           TUTTI_RETURN_IF_ERROR(group->Barrier(call));
         }
         for (const Ref<Communicator>& group : groups) {
           TUTTI_RETURN_IF_ERROR(group->Close(call));
         }
         return OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

std::string NameOf(const testing::TestParamInfo<CollectiveTransport>& info) {
  return info.param == CollectiveTransport::kTcp ? "Tcp" : "Auto";
}

INSTANTIATE_TEST_SUITE_P(Transports, ClusterTeamTest,
                         testing::Values(Reach::kAuto, Reach::kTcp, Reach::kHosts),
                         [](const auto& instance) {
                           return instance.param == Reach::kHosts ? "Hosts"
                                  : instance.param == Reach::kTcp ? "Tcp"
                                                                  : "Auto";
                         });

// ---- Workers as processes ----

constexpr const char* kWorkerVariable = "TUTTI_TEST_CLUSTER_WORKER";
constexpr int64_t kVictim = 1;

// What a worker process does: reduces until one of them kills itself.
Status ReduceUntilOneDies(int64_t workers, int64_t worker, int port, const std::string& secret,
                          CollectiveTransport transport) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const CallOptions call = CallOptions::WithTimeout(environment->clock(), 60 * kSecondNs);
  TUTTI_ASSIGN_OR_RETURN(const JobSecret job_secret, JobSecret::FromText(secret));
  TUTTI_ASSIGN_OR_RETURN(
      const Ref<Cluster> cluster,
      Cluster::Join(environment, OptionsOf(workers, worker, port, job_secret), call));
  const auto work = [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Communicator> communicator,
        ClusterTeam::Create(cluster, transport)->CreateCommunicator("strategy", 1, call));
    Status status;
    for (int round = 0; status.ok(); ++round) {
      if (worker == kVictim && round == 50) kill(getpid(), SIGKILL);
      status = CheckedSum(*communicator, round % 5 == 0 ? 300000 : 10, call);
    }
    TUTTI_RETURN_IF_ERROR(communicator->Close(call));
    return status;
  };
  Status status = work();
  (void)cluster->Close(call);
  (void)environment->Shutdown(call);
  return status;
}

// Runs in a process of its own, which the test below starts; otherwise there is nothing to do.
TEST(ClusterTeamProcess, Worker) {
  const char* given = std::getenv(kWorkerVariable);
  if (given == nullptr) GTEST_SKIP() << "runs as a part of SurvivorsNameTheDeadWorker";
  int workers = 0;
  int worker = 0;
  int port = 0;
  int transport = 0;
  char secret[128] = {};
  ASSERT_EQ(std::sscanf(given, "%d %d %d %d %127s", &workers, &worker, &port, &transport, secret),
            5);
  const Status status = ReduceUntilOneDies(workers, worker, port, secret,
                                           static_cast<CollectiveTransport>(transport));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  for (const char* key : {"rank", "worker"}) {
    const StatusDetail* detail = status.FindDetail(key);
    ASSERT_NE(detail, nullptr) << status.ToString();
    EXPECT_EQ(std::get<int64_t>(detail->value), kVictim) << status.ToString();
  }
}

class ClusterTeamProcesses : public testing::TestWithParam<CollectiveTransport> {};

TEST_P(ClusterTeamProcesses, SurvivorsNameTheDeadWorker) {
  constexpr int kWorkers = 3;
  const std::string secret = JobSecret::Generate().value().text();
  const int port = ReservePort();
  std::vector<pid_t> pids;
  for (int worker = 0; worker < kWorkers; ++worker) {
    const std::string variable = Format("{}={} {} {} {} {}", kWorkerVariable, kWorkers, worker,
                                        port, static_cast<int>(GetParam()), secret);
    std::vector<char*> variables = {const_cast<char*>(variable.c_str())};
    for (char** entry = environ; *entry != nullptr; ++entry) variables.push_back(*entry);
    variables.push_back(nullptr);
    const char* arguments[] = {"worker", "--gtest_filter=ClusterTeamProcess.Worker", nullptr};
    pid_t pid = -1;
    ASSERT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments),
                          variables.data()),
              0);
    pids.push_back(pid);
  }
  for (int worker = 0; worker < kWorkers; ++worker) {
    int status = 0;
    ASSERT_EQ(waitpid(pids[static_cast<size_t>(worker)], &status, 0),
              pids[static_cast<size_t>(worker)]);
    if (worker == kVictim) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "worker " << worker;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ClusterTeamProcesses,
                         testing::Values(CollectiveTransport::kAuto, CollectiveTransport::kTcp),
                         NameOf);

}  // namespace
}  // namespace tutti
