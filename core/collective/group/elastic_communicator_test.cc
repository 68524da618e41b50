// Groups of an elastic job that lose, revoke, shrink and grow: workers as threads of this process,
// and as processes of their own, which are this test started again.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/real_environment.h"
#include "core/base/text.h"
#include "core/base/usable_cores.h"
#include "core/cluster/job/cluster.h"
#include "core/cluster/testing/reserved_port_testing.h"
#include "core/collective/communicator/communicator.h"
#include "core/tensor/tensor.h"

extern char** environ;

namespace tutti {
namespace {

using testing::HasSubstr;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr char kVariable[] = "ELASTIC_COMMUNICATOR_TEST_WORKER";
constexpr int64_t kHangNs = 60 * kSecondNs;

// How the workers of a test reach each other.
enum class Reach { kAuto, kTcp, kHosts };

const char* NameOf(Reach reach) {
  switch (reach) {
    case Reach::kTcp: return "Tcp";
    case Reach::kHosts: return "Hosts";
    default: return "Auto";
  }
}

CollectiveTransport TransportOf(Reach reach) {
  return reach == Reach::kTcp ? CollectiveTransport::kTcp : CollectiveTransport::kAuto;
}

ClusterOptions OptionsOf(int64_t workers, int64_t worker, int port, Reach reach) {
  ClusterOptions options;
  for (int64_t i = 0; i < workers; ++i) {
    options.tasks.push_back(Format("worker:{}", i));
    options.addresses.push_back(Format("127.0.0.1:{}", port + i));
  }
  options.worker = worker;
  options.usable_cores = static_cast<int64_t>(UsableCores());
  options.secret = *JobSecret::FromText(kSecret);
  options.elastic = true;
  // Two on the first machine, the others on the second.
  if (reach == Reach::kHosts) options.machine = worker < 2 ? "first" : "second";
  // A loaded machine is no dead worker.
  options.silence_limit_ns = kHangNs;
  return options;
}

// 1 + 2 + ... of as many elements, on this rank; DATA_LOSS for any other result.
Status CheckedSum(Communicator& communicator, int64_t count, const CallOptions& call) {
  const Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({count})).value();
  for (int64_t& element : tensor->mutable_span<int64_t>()) element = communicator.rank() + 1;
  TUTTI_RETURN_IF_ERROR(communicator.AllReduce(*tensor, ReduceOp::kSum, call, tensor.get()));
  for (int64_t element : tensor->span<int64_t>()) {
    if (element != communicator.size() * (communicator.size() + 1) / 2) {
      return DataLoss("a wrong sum: {}", element);
    }
  }
  return OkStatus();
}

// ---- Workers as threads ----

class ElasticCommunicatorTest : public testing::TestWithParam<Reach> {
 protected:
  using Body = std::function<Status(Ref<Cluster>, Communicator&, const CallOptions&)>;

  // body on a thread per worker, each with a rank of a group of all.
  std::vector<Status> Run(int64_t workers, const Body& body) {
    const int port = ReservePort();
    std::vector<Status> statuses(static_cast<size_t>(workers));
    std::vector<std::thread> threads;
    for (int64_t worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        statuses[static_cast<size_t>(worker)] = RunOne(workers, worker, port, body);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

 private:
  static Status RunOne(int64_t workers, int64_t worker, int port, const Body& body) {
    const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
    // Of one call: all of them together may take longer where the machine is loaded.
    const auto call = [&] { return CallOptions::WithTimeout(environment->clock(), kHangNs); };
    const auto run = [&]() -> Status {
      TUTTI_ASSIGN_OR_RETURN(
          Ref<Cluster> cluster,
          Cluster::Join(environment, OptionsOf(workers, worker, port, GetParam()), call()));
      TUTTI_ASSIGN_OR_RETURN(
          Ref<Communicator> communicator,
          Communicator::CreateOfPresent(cluster, "group", workers, TransportOf(GetParam()), nullptr,
                                        call()));
      EXPECT_EQ(communicator->rank(), worker);
      EXPECT_EQ(communicator->size(), workers);
      TUTTI_RETURN_IF_ERROR(CheckedSum(*communicator, 1000, call()));
      // A revoke may fail the others' first call, too, unless it has ended everywhere.
      TUTTI_RETURN_IF_ERROR(cluster->Exchange("begin", "", call()).status());
      TUTTI_RETURN_IF_ERROR(body(cluster, *communicator, call()));
      TUTTI_RETURN_IF_ERROR(communicator->Close(call()));
      return cluster->Close(call());
    };
    const Status status = run();
    EXPECT_TRUE(environment->Shutdown(call()).ok());
    return status;
  }
};

TEST_P(ElasticCommunicatorTest, ARevokeEndsTheCallsOfAllAndTheyGoOnInTheNextEpoch) {
  const auto body = [](const Ref<Cluster>& cluster, Communicator& group,
                       const CallOptions& call) -> Status {
    Status status;
    for (int i = 0; status.ok(); ++i) {
      if (cluster->worker() == 1 && i == 20) group.Revoke(Aborted("worker 1 has seen enough"));
      status = CheckedSum(group, 1000, call);
    }
    EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1 has seen enough"));
    EXPECT_FALSE(group.epoch_status().ok());
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> next, group.Shrink(call));
    EXPECT_EQ(next->epoch(), group.epoch() + 1);
    EXPECT_EQ(next->size(), 3);
    TUTTI_RETURN_IF_ERROR(CheckedSum(*next, 1000, call));
    return next->Close(call);
  };
  for (const Status& status : Run(3, body)) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_P(ElasticCommunicatorTest, ARankThatWaitsForOneThatWasStoppedByTheRevokeDoesNotHang) {
  const auto body = [](const Ref<Cluster>& cluster, Communicator& group,
                       const CallOptions& call) -> Status {
    // Worker 2 makes no call at all.
    if (cluster->worker() == 2) {
      group.Revoke(Aborted("not with me"));
    } else {
      const Status status = CheckedSum(group, 1000, call);
      EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
      EXPECT_THAT(std::string(status.message()), HasSubstr("not with me"));
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> next, group.Shrink(call));
    TUTTI_RETURN_IF_ERROR(CheckedSum(*next, 10, call));
    return next->Close(call);
  };
  for (const Status& status : Run(3, body)) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_P(ElasticCommunicatorTest, AForkedChildThatRevokesEndsNothingOfItsParents) {
  // The others rest meanwhile: the child would find taken for ever what they hold at the fork.
  std::atomic<int> resting = 0;
  std::promise<void> fork_is_over;
  const std::shared_future<void> forked = fork_is_over.get_future().share();
  const auto body = [&](const Ref<Cluster>& cluster, Communicator& group,
                        const CallOptions& call) -> Status {
    if (cluster->worker() != 0) {
      ++resting;
      forked.wait_for(std::chrono::nanoseconds(kHangNs));
    } else {
      while (resting < 2 && !call.deadline.Expired(RealClock())) std::this_thread::yield();
      const pid_t child = fork();
      if (child == 0) {
        alarm(60);
        const StatusCode before = group.epoch_status().code();
        group.Revoke(Aborted("of the child alone"));
        group.Abort(Aborted("of the child alone"));
        _exit(group.epoch_status().code() == before ? 0 : 1);
      }
      fork_is_over.set_value();
      int how = 0;
      EXPECT_EQ(waitpid(child, &how, 0), child);
      EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
    }
    return CheckedSum(group, 1000, call);
  };
  for (const Status& status : Run(3, body)) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_P(ElasticCommunicatorTest, AWorkerThatLeftIsNotInTheNextEpoch) {
  const auto body = [](const Ref<Cluster>& cluster, Communicator& group,
                       const CallOptions& call) -> Status {
    if (cluster->worker() == 1) return OkStatus();  // closes both
    Status status;
    while (status.ok()) status = CheckedSum(group, 1000, call);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    // It closes the communicator first; that it leaves the job, too, may take a moment.
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> next, group.Shrink(call));
    EXPECT_EQ(next->size(), 2);
    EXPECT_EQ(next->rank(), cluster->worker() / 2);
    for (int i = 0; i < 10; ++i) TUTTI_RETURN_IF_ERROR(CheckedSum(*next, 100000, call));
    EXPECT_TRUE(cluster->failure().ok());
    return next->Close(call);
  };
  for (const Status& status : Run(3, body)) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_P(ElasticCommunicatorTest, APartShrinksToThoseThatAreLeftOfItAndDoesNotGrow) {
  const auto body = [](const Ref<Cluster>& cluster, Communicator& group,
                       const CallOptions& call) -> Status {
    const int64_t self = cluster->worker();
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> part, group.Split(self == 0 ? 0 : 1, 0, "", call));
    EXPECT_EQ(part->size(), self == 0 ? 1 : 3);
    TUTTI_RETURN_IF_ERROR(CheckedSum(*part, 1000, call));
    // All have the part before worker 2 goes.
    TUTTI_RETURN_IF_ERROR(CheckedSum(group, 10, call));
    if (self == 2) return part->Close(call);
    // Nobody can do without worker 0.
    const auto end = [&]() -> Status {
      TUTTI_RETURN_IF_ERROR(part->Close(call));
      RegroupRequest last;
      last.name = "end";
      for (const int64_t worker : {0, 1, 3}) last.among.push_back(cluster->member(worker));
      return cluster->Regroup(std::move(last), call).status();
    };
    if (self == 0) {
      TUTTI_RETURN_IF_ERROR(CheckedSum(*part, 1000, call));
      return end();
    }
    Status status;
    while (status.ok()) status = CheckedSum(*part, 1000, call);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    status = part->Grow(0, call).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("split the one that comes of it"));
    for (int round = 0; round < 2; ++round) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> next, part->Shrink(call));
      EXPECT_EQ(next->size(), 2);
      EXPECT_EQ(next->rank(), self / 2);
      EXPECT_GT(next->epoch(), part->epoch());
      TUTTI_RETURN_IF_ERROR(CheckedSum(*next, 100'000, call));
      TUTTI_RETURN_IF_ERROR(part->Close(call));
      part = std::move(next);
    }
    return end();
  };
  for (const Status& status : Run(4, body)) EXPECT_TRUE(status.ok()) << status.ToString();
}

// Worker 1 closes in a shrink, and leaves the job when the others have theirs; worker 2 in a grow
// of what is left, and leaves at once.
TEST_P(ElasticCommunicatorTest, CloseEndsAShrinkOrGrowOnAnotherThreadAndTheOthersGoOn) {
  const auto body = [](const Ref<Cluster>& cluster, Communicator& group,
                       const CallOptions& call) -> Status {
    const auto all_meet = [&](const char* name) -> Status {
      RegroupRequest meeting;
      meeting.name = name;
      for (const int64_t worker : {0, 1, 2}) meeting.among.push_back(cluster->member(worker));
      return cluster->Regroup(std::move(meeting), call).status();
    };
    TUTTI_RETURN_IF_ERROR(CheckedSum(group, 10, call));
    Ref<Communicator> here = Ref<Communicator>::Retain(&group);
    for (const int64_t closer : {1, 2}) {
      const auto renew = [&] { return closer == 2 ? here->Grow(1, call) : here->Shrink(call); };
      if (cluster->worker() == closer) {
        auto renewed = std::async(std::launch::async, [&] { return renew().status(); });
        // It says so before it waits.
        while (here->epoch_status().ok()) std::this_thread::yield();
        const int64_t began_ns = RealClock().NowNs();
        TUTTI_RETURN_IF_ERROR(here->Close(call));
        const Status status = renewed.get();
        EXPECT_LT(RealClock().NowNs() - began_ns, kHangNs / 3);
        EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
        EXPECT_THAT(std::string(status.message()), HasSubstr("close"));
        if (closer == 1) {
          TUTTI_RETURN_IF_ERROR(all_meet("closed"));
          TUTTI_RETURN_IF_ERROR(all_meet("shrunk"));
        }
        return cluster->Close(call);
      }
      if (closer == 1) TUTTI_RETURN_IF_ERROR(all_meet("closed"));
      while (closer == 2 && cluster->departure(2).ok()) std::this_thread::yield();
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> next, renew());
      if (closer == 1) TUTTI_RETURN_IF_ERROR(all_meet("shrunk"));
      while (cluster->departure(closer).ok()) std::this_thread::yield();
      EXPECT_EQ(next->size(), 3 - closer);
      TUTTI_RETURN_IF_ERROR(CheckedSum(*next, 1000, call));
      TUTTI_RETURN_IF_ERROR(here->Close(call));
      here = next;
    }
    return here->Close(call);
  };
  for (const Status& status : Run(3, body)) EXPECT_TRUE(status.ok()) << status.ToString();
}

// Worker 1 closes, and later worker 2 while worker 0 waits for it; both stay in the job.
TEST_P(ElasticCommunicatorTest, WhoClosesAndStaysInTheJobIsNotWaitedForAndMayComeBack) {
  const auto body = [transport = TransportOf(GetParam())](
                        const Ref<Cluster>& cluster, Communicator& group,
                        const CallOptions& call) -> Status {
    const auto together = [&](const Ref<Communicator>& all) -> Status {
      EXPECT_EQ(all->size(), 3);
      TUTTI_RETURN_IF_ERROR(CheckedSum(*all, 1000, call));
      return all->Close(call);
    };
    const auto come_back = [&]() -> Status {
      TUTTI_ASSIGN_OR_RETURN(
          const Ref<Communicator> all,
          Communicator::CreateOfPresent(cluster, "group", 1, transport, nullptr, call));
      return together(all);
    };
    if (cluster->worker() == 1) {
      TUTTI_RETURN_IF_ERROR(group.Close(call));
      return come_back();
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> first, group.Shrink(call));
    EXPECT_EQ(first->size(), 2);
    // Who closes a former epoch has not left the next one.
    const bool is_second = cluster->worker() == 2;
    if (is_second) TUTTI_RETURN_IF_ERROR(group.Close(call));
    TUTTI_RETURN_IF_ERROR(CheckedSum(*first, 1000, call));
    while (is_second && first->epoch_status().ok()) std::this_thread::yield();
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> two, first->Shrink(call));
    EXPECT_EQ(two->size(), 2);
    TUTTI_RETURN_IF_ERROR(CheckedSum(*two, 1000, call));
    if (is_second) {
      while (two->epoch_status().ok()) std::this_thread::yield();
      TUTTI_RETURN_IF_ERROR(two->Close(call));
      return come_back();
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> one, two->Shrink(call));
    EXPECT_EQ(one->size(), 1);
    TUTTI_RETURN_IF_ERROR(CheckedSum(*one, 1000, call));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> all, one->Grow(3, call));
    return together(all);
  };
  for (const Status& status : Run(3, body)) EXPECT_TRUE(status.ok()) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(Transports, ElasticCommunicatorTest,
                         testing::Values(Reach::kAuto, Reach::kTcp, Reach::kHosts),
                         [](const auto& instance) { return NameOf(instance.param); });

// ---- Workers as processes ----

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Works until something is lost, shrinks, works, grows to all seats again, works, ends.
Status Live(const Ref<RealEnvironment>& environment, int64_t worker, int port, bool newcomer,
            Reach reach) {
  constexpr int64_t kWorkers = 4;
  // Of one call: all of them together may take longer where the machine is loaded.
  const auto call = [&] { return CallOptions::WithTimeout(environment->clock(), kHangNs); };
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Cluster> cluster,
      Cluster::Join(environment, OptionsOf(kWorkers, worker, port, reach), call()));
  TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> group,
                         Communicator::CreateOfPresent(cluster, "group", kWorkers,
                                                       TransportOf(reach), nullptr, call()));
  if (!newcomer) {
    TUTTI_RETURN_IF_ERROR(CheckedSum(*group, 100000, call()));
    Say("ready");
    Status status;
    while (status.ok()) status = CheckedSum(*group, 100000, call());
    Say("error " + status.ToString());
    if (status.code() != StatusCode::kUnavailable) return status;
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> rest, group->Shrink(call()));
    for (int i = 0; i < 20; ++i) TUTTI_RETURN_IF_ERROR(CheckedSum(*rest, 100000, call()));
    Say(Format("shrunk to rank {} of {}", rest->rank(), rest->size()));
    TUTTI_RETURN_IF_ERROR(group->Close(call()));
    TUTTI_ASSIGN_OR_RETURN(group, rest->Grow(kWorkers, call()));
    TUTTI_RETURN_IF_ERROR(rest->Close(call()));
  }
  for (int i = 0; i < 20; ++i) TUTTI_RETURN_IF_ERROR(CheckedSum(*group, 100000, call()));
  Say(Format("grown to rank {} of {}, epoch {}", group->rank(), group->size(), group->epoch()));
  TUTTI_RETURN_IF_ERROR(cluster->failure());
  TUTTI_RETURN_IF_ERROR(group->Close(call()));
  return cluster->Close(call());
}

// Runs instead of the tests where this process was started as a worker.
class WorkerProcess final : public testing::Environment {
 public:
  void SetUp() override {
    const char* const command = std::getenv(kVariable);
    if (command == nullptr) return;
    int worker = 0;
    int port = 0;
    int newcomer = 0;
    int reach = 0;
    if (std::sscanf(command, "%d %d %d %d", &worker, &port, &newcomer, &reach) != 4) ::_exit(3);
    const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
    const Status status =
        Live(environment, worker, port, newcomer != 0, static_cast<Reach>(reach));
    if (!status.ok()) Say("failed " + status.ToString());
    const CallOptions call = CallOptions::WithTimeout(environment->clock(), kHangNs);
    const bool ended = environment->Shutdown(call).ok();
    ::_exit(status.ok() && ended ? 0 : 1);
  }
};
[[maybe_unused]] testing::Environment* const worker_process =
    testing::AddGlobalTestEnvironment(new WorkerProcess);

class Worker {
 public:
  Worker(int worker, int port, bool newcomer, Reach reach) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = FileDescriptor(ends[0]);
    const FileDescriptor input(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const std::string variable =
        Format("{}={} {} {} {}", kVariable, worker, port, newcomer ? 1 : 0,
               static_cast<int>(reach));
    std::vector<char*> variables;
    for (char** one = environ; *one != nullptr; ++one) variables.push_back(*one);
    variables.push_back(const_cast<char*>(variable.c_str()));
    variables.push_back(nullptr);
    std::string program = "/proc/self/exe";
    char* arguments[] = {program.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments,
                            variables.data()),
              0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~Worker() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // The next line that starts so; an empty one at the end, or after a minute without a word.
  std::string AwaitLine(const std::string& start) {
    for (;;) {
      for (size_t end; (end = text_.find('\n')) != std::string::npos;) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        if (line.rfind(start, 0) == 0) return line;
        all_ += line + "\n";
      }
      pollfd polled = {output_.get(), POLLIN, 0};
      char buffer[4096];
      if (::poll(&polled, 1, static_cast<int>(kHangNs / kMillisecondNs)) <= 0) return {};
      const ssize_t count = ::read(output_.get(), buffer, sizeof(buffer));
      if (count <= 0) return {};
      text_.append(buffer, static_cast<size_t>(count));
    }
  }
  void Kill() { ::kill(pid_, SIGKILL); }
  int Wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& all() const { return all_; }

 private:
  pid_t pid_ = -1;
  FileDescriptor output_;
  std::string text_;
  std::string all_;
};

class ElasticProcessTest : public testing::TestWithParam<Reach> {};

TEST_P(ElasticProcessTest, SurvivorsOfAKilledWorkerShrinkAndGrowAgainWithItsSuccessor) {
  const int port = ReservePort();
  std::vector<std::unique_ptr<Worker>> job;
  for (int i = 0; i < 4; ++i) job.push_back(std::make_unique<Worker>(i, port, false, GetParam()));
  for (auto& worker : job) ASSERT_EQ(worker->AwaitLine("ready"), "ready") << worker->all();
  job[2]->Kill();
  for (const int i : {0, 1, 3}) {
    EXPECT_THAT(job[i]->AwaitLine("error"), HasSubstr("UNAVAILABLE")) << job[i]->all();
    EXPECT_EQ(job[i]->AwaitLine("shrunk"), Format("shrunk to rank {} of 3", i == 3 ? 2 : i))
        << job[i]->all();
  }
  EXPECT_EQ(job[2]->Wait(), -SIGKILL);
  job[2] = std::make_unique<Worker>(2, port, true, GetParam());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(job[i]->AwaitLine("grown"), Format("grown to rank {} of 4, epoch 3", i))
        << job[i]->all();
  }
  for (auto& worker : job) EXPECT_EQ(worker->Wait(), 0) << worker->all();
}

INSTANTIATE_TEST_SUITE_P(Transports, ElasticProcessTest,
                         testing::Values(Reach::kAuto, Reach::kTcp, Reach::kHosts),
                         [](const auto& instance) { return NameOf(instance.param); });

}  // namespace
}  // namespace tutti
