// Clusters over gRPC: several workers of one process, each with a runtime environment of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/log.h"
#include "core/base/real_environment.h"
#include "core/cluster/job/cluster.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/cluster/testing/cluster_options_testing.h"
#include "core/cluster/testing/reserved_port_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kHangNs = 60 * kSecondNs;

bool CanConnect(const std::string& loopback_address) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(
      *ParseInt64(loopback_address.substr(loopback_address.find(':') + 1))));
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

class RealClusters {
 public:
  explicit RealClusters(int64_t num_workers) : secret(*JobSecret::Generate()) {
    for (int64_t i = 0; i < num_workers; ++i) {
      addresses.push_back(Format("127.0.0.1:{}", ReservePort()));
      environments.push_back(MakeRef<RealEnvironment>());
    }
    clusters.resize(static_cast<size_t>(num_workers));
    statuses.resize(static_cast<size_t>(num_workers));
  }
  ~RealClusters() {
    for (const Ref<RealEnvironment>& environment : environments) {
      EXPECT_TRUE(environment->Shutdown(Patience(*environment)).ok());
    }
  }
  static CallOptions Patience(Environment& environment) {
    return CallOptions::WithTimeout(environment.clock(), kHangNs);
  }

  Status Join(int64_t worker, int64_t num_replicas = 1) {
    ClusterOptions options = OptionsOf(static_cast<int64_t>(addresses.size()), worker);
    options.addresses = addresses;
    options.secret = secret;
    options.num_replicas = num_replicas;
    options.silence_limit_ns = kHangNs;  // a loaded machine is no dead worker
    Environment& environment = *environments[static_cast<size_t>(worker)];
    Result<Ref<Cluster>> joined = Cluster::Join(Ref<Environment>::Retain(&environment),
                                                std::move(options), Patience(environment));
    if (joined.ok()) clusters[static_cast<size_t>(worker)] = *joined;
    return joined.status();
  }
  // Each worker does `act` on a thread of its own.
  template <typename Act>
  void OnAll(Act act) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < clusters.size(); ++i) {
      threads.emplace_back([&, i] { act(static_cast<int64_t>(i)); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  bool JoinAll() {
    OnAll([&](int64_t worker) { statuses[static_cast<size_t>(worker)] = Join(worker); });
    for (const Status& status : statuses) {
      EXPECT_TRUE(status.ok()) << status.ToString();
      if (!status.ok()) return false;
    }
    return true;
  }
  Cluster& operator[](int64_t worker) { return *clusters[static_cast<size_t>(worker)]; }

  JobSecret secret;
  std::vector<std::string> addresses;
  std::vector<Ref<RealEnvironment>> environments;
  std::vector<Ref<Cluster>> clusters;
  std::vector<Status> statuses;
};

TEST(ClusterOverGrpc, JoinsExchangesAndLeaves) {
  RealClusters job(3);
  ASSERT_TRUE(job.JoinAll());
  std::vector<std::vector<std::string>> got(3);
  job.OnAll([&](int64_t worker) {
    for (int round = 0; round < 10; ++round) {
      got[static_cast<size_t>(worker)] =
          *job[worker].Exchange(Format("round {}", round), Format("{}/{}", worker, round),
                                RealClusters::Patience(job[worker].environment()));
    }
  });
  for (const std::vector<std::string>& one : got) {
    EXPECT_THAT(one, ElementsAre("0/9", "1/9", "2/9"));
  }
  EXPECT_THAT(job[0].info(1).tcp_address, StartsWith("127.0.0.1:"));
  EXPECT_THAT(job[0].info(1).local_address, StartsWith("@tutti-"));
  EXPECT_EQ(job[0].info(1).tcp_address, job[1].listener()->tcp_address());
  EXPECT_TRUE(job[2].Close(CallOptions::Default()).ok());
  const Status status =
      job[1].Exchange("after", "x", RealClusters::Patience(job[1].environment())).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("has left the job"));
  EXPECT_TRUE(job[0].failure().ok());
}

TEST(ClusterOverGrpc, RefusesUnequalReplicasOnAllWorkers) {
  RealClusters job(3);
  job.OnAll([&](int64_t worker) {
    job.statuses[static_cast<size_t>(worker)] = job.Join(worker, worker == 2 ? 3 : 2);
  });
  for (const Status& status : job.statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("worker 0 (pid"), HasSubstr("has 2 replicas and worker 2 (pid"),
                      HasSubstr("has 3; every worker of a job needs the same number")));
  }
}

TEST(ClusterOverGrpc, AnAbortReachesEveryWorker) {
  RealClusters job(3);
  ASSERT_TRUE(job.JoinAll());
  job[1].Abort(DataLoss("torn").With("offset", 3));
  job.OnAll([&](int64_t worker) {
    const Status status =
        job[worker].Exchange("k", "x", RealClusters::Patience(job[worker].environment())).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  });
}

// What is written to the log.
class Warnings final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.emplace_back(record.message);
    come_.notify_all();
  }
  // A line that matches has come, or does.
  void Await(const testing::Matcher<std::string>& matcher) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(come_.wait_for(lock, std::chrono::seconds(60), [&] {
      return std::any_of(lines_.begin(), lines_.end(),
                         [&](const std::string& line) { return matcher.Matches(line); });
    })) << testing::PrintToString(lines_);
  }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable come_;
  std::vector<std::string> lines_;
};

TEST(ClusterOverGrpc, AJoinThatTakesLongWarnsOfWhoIsMissingAndWhere) {
  RealClusters job(3);
  std::vector<Ref<Warnings>> warnings;
  const auto cancellation = MakeRef<Cancellation>();
  std::vector<std::thread> threads;
  for (int64_t worker = 0; worker < 2; ++worker) {
    warnings.push_back(MakeRef<Warnings>());
    ASSERT_TRUE(job.environments[worker]->log().SetSink(warnings.back()).ok());
    threads.emplace_back([&, worker] {
      ClusterOptions options = OptionsOf(3, worker);
      options.addresses = job.addresses;
      options.secret = job.secret;
      options.join_warning_ns = 50 * kMillisecondNs;
      CallOptions call = RealClusters::Patience(*job.environments[worker]);
      call.cancellation = cancellation.get();
      job.statuses[worker] =
          Cluster::Join(job.environments[worker], std::move(options), call).status();
    });
  }
  const auto missing =
      AllOf(HasSubstr("to join and goes on waiting: 1 of 3 workers have not come: worker 2 "),
            HasSubstr(job.addresses[2]));
  warnings[0]->Await(missing);
  warnings[1]->Await(missing);
  cancellation->Cancel();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(job.statuses[0].code(), StatusCode::kCancelled) << job.statuses[0].ToString();
}

TEST(ClusterOverGrpc, AnotherSecretIsRefusedAndNotTriedAgain) {
  RealClusters job(2);
  const JobSecret right = job.secret;
  const Ref<Warnings> warnings = MakeRef<Warnings>();
  ASSERT_TRUE(job.environments[0]->log().SetSink(warnings).ok());
  const auto cancellation = MakeRef<Cancellation>();
  std::thread coordinator([&] {
    ClusterOptions options = OptionsOf(2, 0);
    options.addresses = job.addresses;
    options.secret = right;
    CallOptions call = RealClusters::Patience(*job.environments[0]);
    call.cancellation = cancellation.get();
    job.statuses[0] = Cluster::Join(job.environments[0], std::move(options), call).status();
  });
  job.secret = *JobSecret::Generate();
  const Status status = job.Join(1);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
  // Worker 0 hears of it, too.
  warnings->Await(AllOf(HasSubstr("worker 0, the control port: 1 attempts to join"),
                        HasSubstr(job.secret.Fingerprint()), HasSubstr(right.Fingerprint())));
  cancellation->Cancel();
  coordinator.join();
  EXPECT_EQ(job.statuses[0].code(), StatusCode::kCancelled) << job.statuses[0].ToString();
  EXPECT_THAT(Message(job.statuses[0]), HasSubstr("worker 0 has given up waiting"));
}

TEST(ClusterOverGrpc, SaysThatThePortIsInUse) {
  RealClusters job(2);
  const FileDescriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  job.addresses[0] = Format("127.0.0.1:{}", ntohs(address.sin_port));
  const Status status = job.Join(0);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_THAT(Message(status), HasSubstr(job.addresses[0]));
}

TEST(ClusterOverGrpc, SaysThatNobodyListensAtTheCoordinatorsAddress) {
  RealClusters job(2);
  ClusterOptions options = OptionsOf(2, 1);
  options.addresses = job.addresses;
  options.secret = job.secret;
  const Status status =
      Cluster::Join(job.environments[1], std::move(options),
                    // Time enough for one attempt on a loaded machine.
                    CallOptions::WithTimeout(job.environments[1]->clock(), 5 * kSecondNs))
          .status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr(Format("worker 1 has not reached worker 0 (worker:0 at {}) in ",
                                     job.addresses[0])),
                    HasSubstr("the last attempt: ")));
}

TEST(ClusterOverGrpc, ShutdownEndsAJoinThatWaits) {
  RealClusters job(2);
  std::thread joining([&] { job.statuses[0] = job.Join(0); });
  // Worker 0 waits once it listens.
  while (!CanConnect(job.addresses[0])) std::this_thread::yield();
  EXPECT_TRUE(job.environments[0]->Shutdown(RealClusters::Patience(*job.environments[0])).ok());
  joining.join();
  EXPECT_FALSE(job.statuses[0].ok());
}

TEST(ClusterOverGrpc, InAForkedChildOnlyReleasingWorks) {
  RealClusters job(2);
  ASSERT_TRUE(job.JoinAll());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    const StatusCode wrong = StatusCode::kFailedPrecondition;
    bool right = job[0].Exchange("k", "x", CallOptions::Default()).status().code() == wrong;
    right = right && job[0].failure().code() == wrong && job[0].departure(1).code() == wrong;
    right = right && job[0].Close(CallOptions::Default()).code() == wrong;
    job[0].Abort(DataLoss("of the child alone"));
    job[0].RemoveListener(job[0].AddListener([](const ClusterEvent&) {}));
    for (Ref<Cluster>& cluster : job.clusters) cluster.reset();
    ::_exit(right ? 0 : 1);
  }
  int exit_status = 0;
  ASSERT_EQ(::waitpid(child, &exit_status, 0), child);
  EXPECT_TRUE(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
  // The parent's job goes on.
  job.OnAll([&](int64_t worker) {
    EXPECT_TRUE(
        job[worker].Exchange("k", "x", RealClusters::Patience(job[worker].environment())).ok());
  });
}

TEST(ClusterOverGrpc, IsClosedByTheEnvironmentsShutdown) {
  RealClusters job(2);
  ASSERT_TRUE(job.JoinAll());
  EXPECT_TRUE(job.environments[0]->Shutdown(CallOptions::Default()).ok());
  EXPECT_TRUE(job[0].closed());
  const Status status =
      job[1].Exchange("k", "x", RealClusters::Patience(job[1].environment())).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("worker 0"));
  EXPECT_THAT(Message(status), HasSubstr("has left the job"));
}

}  // namespace
}  // namespace tutti
