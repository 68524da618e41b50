// Jobs of real processes: killed, stopped, killed after a fork, ended without a goodbye, and with
// strangers at their doors. The test program starts itself again as the workers of the job.
//
// A worker writes lines to its standard output: "joined", "failed <milliseconds since 1970>
// <status>".

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <cstdio>
#include <cstdlib>
#include <memory>
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
#include "core/cluster/sockets/socket_address.h"
#include "core/cluster/testing/reserved_port_testing.h"

extern char** environ;

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kHangNs = 60 * kSecondNs;
constexpr char kSecret[] = "a secret for the tests of this job";

int64_t WallMs() { return RealClock().WallNs() / kMillisecondNs; }

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

volatile std::sig_atomic_t told_to_hurry = 0;

// What workers are started with besides: how many files they may open, and whether the job is
// elastic.
constexpr char kFilesVariable[] = "CLUSTER_PROCESS_TEST_FILES";
constexpr char kElasticVariable[] = "CLUSTER_PROCESS_TEST_ELASTIC";

// What a worker process does: "<mode> <worker> <silence limit in ms> <address> <address> ...".
int RunWorker(const std::string& command) {
  if (const char* const files = std::getenv(kFilesVariable); files != nullptr) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(*ParseInt64(files));
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  const std::vector<std::string> words = Split(command, ' ');
  const std::string& mode = words[0];
  auto environment = MakeRef<RealEnvironment>();
  if (mode == "quiet") environment->log().set_level(LogLevel::kOff);
  ClusterOptions options;
  options.worker = *ParseInt64(words[1]);
  options.silence_limit_ns = *ParseInt64(words[2]) * kMillisecondNs;
  options.addresses.assign(words.begin() + 3, words.end());
  for (size_t i = 0; i < options.addresses.size(); ++i) {
    options.tasks.push_back(Format("worker:{}", i));
  }
  options.secret = *JobSecret::FromText(kSecret);
  options.elastic = std::getenv(kElasticVariable) != nullptr;
  const CallOptions patience = CallOptions::WithTimeout(environment->clock(), kHangNs);
  Result<Ref<Cluster>> joined = Cluster::Join(environment, std::move(options), patience);
  if (!joined.ok()) {
    Say("not joined " + joined.status().ToString());
    return 1;
  }
  Cluster& cluster = **joined;
  if (mode == "hurry" || mode == "late") {
    std::signal(SIGTERM, [](int) { told_to_hurry = 1; });
    Say("joined");
    while (told_to_hurry == 0) ::poll(nullptr, 0, 1);
    // Less than the time for which worker 0 would like to stay; or none at all.
    const int64_t patience_ns = mode == "hurry" ? 3 * kMillisecondNs : 0;
    (void)cluster.Close(CallOptions::WithTimeout(environment->clock(), patience_ns));
    // What has been said is sent soon; and nothing is said after that.
    ::poll(nullptr, 0, 50);
    ::kill(::getpid(), SIGKILL);
  }
  Say("joined");
  if (mode == "quiet") {
    for (;;) ::pause();
  }
  if (mode == "exit") ::_exit(0);
  if (mode == "fork") {
    // The child keeps every socket of this process open.
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      for (;;) ::pause();
    }
    Say(Format("child {}", child));
  }
  Status status;
  for (int round = 0; status.ok(); ++round) {
    status = cluster.Exchange(Format("round {}", round), "x", patience).status();
  }
  Say(Format("failed {} {}", WallMs(), status.ToString()));
  if (mode == "quit") ::_exit(0);
  // The environment closes the cluster.
  return environment->Shutdown(patience).ok() ? 0 : 2;
}

// Runs instead of the tests where this process was started as a worker.
class WorkerProcess final : public testing::Environment {
 public:
  void SetUp() override {
    const char* const command = std::getenv("CLUSTER_PROCESS_TEST_WORKER");
    if (command != nullptr) ::_exit(RunWorker(command));
  }
};
[[maybe_unused]] testing::Environment* const worker_process =
    testing::AddGlobalTestEnvironment(new WorkerProcess);

// One worker, as its parent sees it.
class Worker {
 public:
  Worker(const std::string& mode, int64_t worker, int64_t silence_limit_ms,
         const std::string& addresses) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = FileDescriptor(ends[0]);
    const FileDescriptor input(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const std::string variable = Format("CLUSTER_PROCESS_TEST_WORKER={} {} {} {}", mode, worker,
                                        silence_limit_ms, addresses);
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
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  // The next line that starts so; an empty one after a minute, or at the end.
  std::string AwaitLine(const std::string& start) {
    const int64_t end_ms = WallMs() + kHangNs / kMillisecondNs;
    for (;;) {
      for (size_t end; (end = text_.find('\n')) != std::string::npos;) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        if (line.rfind("child ", 0) == 0) child_ = static_cast<pid_t>(*ParseInt64(line.substr(6)));
        if (line.rfind(start, 0) == 0) return line;
        all_ += line + "\n";
      }
      pollfd polled = {output_.get(), POLLIN, 0};
      const int64_t left_ms = end_ms - WallMs();
      char buffer[4096];
      if (left_ms <= 0 || ::poll(&polled, 1, static_cast<int>(left_ms)) <= 0) return {};
      const ssize_t count = ::read(output_.get(), buffer, sizeof(buffer));
      if (count <= 0) return {};
      text_.append(buffer, static_cast<size_t>(count));
    }
  }
  void Signal(int signal) { ::kill(pid_, signal); }
  // The exit code, or minus the signal; it ends in a minute or is killed.
  int Wait() {
    for (int64_t waited_ms = 0; waited_ms < kHangNs / kMillisecondNs; waited_ms += 10) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      ::poll(nullptr, 0, 10);
    }
    return -1000;
  }
  pid_t pid() const { return pid_; }
  const std::string& other_lines() const { return all_; }

 private:
  pid_t pid_ = -1;
  pid_t child_ = -1;
  FileDescriptor output_;
  std::string text_;
  std::string all_;
};

class Job {
 public:
  // A loaded machine is no dead worker.
  Job(int64_t num_workers, const std::vector<std::string>& modes,
      int64_t silence_limit_ms = kHangNs / kMillisecondNs) {
    std::string addresses;
    for (int64_t i = 0; i < num_workers; ++i) {
      addresses += Format("{}127.0.0.1:{}", i > 0 ? " " : "", ReservePort());
    }
    for (int64_t i = 0; i < num_workers; ++i) {
      const auto index = static_cast<size_t>(i);
      workers_.push_back(std::make_unique<Worker>(index < modes.size() ? modes[index] : "go", i,
                                                  silence_limit_ms, addresses));
    }
  }
  bool AllHaveJoined() {
    bool all = true;
    for (const auto& worker : workers_) {
      const bool joined = worker->AwaitLine("joined") == "joined";
      EXPECT_TRUE(joined) << worker->other_lines();
      all = all && joined;
    }
    return all;
  }
  Worker& operator[](size_t worker) { return *workers_[worker]; }
  size_t size() const { return workers_.size(); }

 private:
  std::vector<std::unique_ptr<Worker>> workers_;
};

// "failed <ms> <status>" of every worker but one, which must name that one; says how long it took.
void ExpectAllBlame(Job& job, size_t lost, const std::string& how, int64_t since_ms) {
  int64_t slowest_ms = 0;
  for (size_t i = 0; i < job.size(); ++i) {
    if (i == lost) continue;
    const std::string line = job[i].AwaitLine("failed ");
    ASSERT_THAT(line, AllOf(HasSubstr("UNAVAILABLE: exchange"),
                            HasSubstr(Format("worker {} (pid ", lost)), HasSubstr(how),
                            HasSubstr(Format("rank={}", lost))));
    slowest_ms = std::max(slowest_ms, *ParseInt64(Split(line, ' ')[1]) - since_ms);
    EXPECT_EQ(job[i].Wait(), 0);
  }
  std::printf("the last survivor knew after %lld ms, all had ended after %lld ms\n",
              static_cast<long long>(slowest_ms), static_cast<long long>(WallMs() - since_ms));
}

TEST(ClusterProcess, AKilledWorkerIsNamedByEverySurvivor) {
  for (size_t lost = 0; lost < 3; ++lost) {
    Job job(3, {});
    ASSERT_TRUE(job.AllHaveJoined());
    const int64_t since_ms = WallMs();
    job[lost].Signal(SIGKILL);
    ExpectAllBlame(job, lost, "is gone: its ", since_ms);
  }
}

TEST(ClusterProcess, AKilledWorkerIsNamedAlsoWhenItsChildKeepsItsSockets) {
  for (size_t lost = 0; lost < 2; ++lost) {
    std::vector<std::string> modes(2, "go");
    modes[lost] = "fork";
    Job job(2, modes);
    ASSERT_TRUE(job.AllHaveJoined());
    ASSERT_THAT(job[lost].AwaitLine("child "), StartsWith("child "));
    const int64_t since_ms = WallMs();
    job[lost].Signal(SIGKILL);
    ExpectAllBlame(job, lost, "is gone: its ", since_ms);
  }
}

TEST(ClusterProcess, AProcessThatEndsWithoutAGoodbyeIsGone) {
  Job job(3, {"go", "go", "exit"});
  const int64_t since_ms = WallMs();
  ASSERT_TRUE(job.AllHaveJoined());
  ExpectAllBlame(job, 2, "is gone: its ", since_ms);
}

TEST(ClusterProcess, WorkerZeroHasPassedADeathOnWhenItEndsOfItWithoutAGoodbye) {
  for (int round = 0; round < 5; ++round) {
    Job job(5, {"quit"});
    ASSERT_TRUE(job.AllHaveJoined());
    const int64_t since_ms = WallMs();
    job[1].Signal(SIGKILL);
    ExpectAllBlame(job, 1, "is gone: its ", since_ms);
  }
}

TEST(ClusterProcess, WorkerZeroThatLeavesInAHurrySaysFirstWhoHasEnded) {
  for (int round = 0; round < 10; ++round) {
    Job job(3, {round % 4 < 2 ? "hurry" : "late", "go", "fork"});
    ASSERT_TRUE(job.AllHaveJoined());
    ASSERT_THAT(job[2].AwaitLine("child "), StartsWith("child "));
    job[2].Signal(SIGKILL);
    siginfo_t end = {};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(job[2].pid()), &end, WEXITED | WNOWAIT), 0);
    // Of every other one worker 1 tells worker 0 before it leaves, else it has to look itself.
    if (round % 2 == 0) ::poll(nullptr, 0, 20);
    job[0].Signal(SIGTERM);
    EXPECT_THAT(job[1].AwaitLine("failed "),
                AllOf(HasSubstr("worker 2 (pid "), HasSubstr("is gone: its "),
                      HasSubstr("rank=2")));
    EXPECT_EQ(job[0].Wait(), -SIGKILL);
    EXPECT_EQ(job[1].Wait(), 0);
  }
}

TEST(ClusterProcess, AStoppedWorkerIsSilentAndIsToldWhenItGoesOn) {
  for (size_t lost = 0; lost < 2; ++lost) {
    Job job(2, {}, /*silence_limit_ms=*/2000);
    ASSERT_TRUE(job.AllHaveJoined());
    const int64_t since_ms = WallMs();
    job[lost].Signal(SIGSTOP);
    ExpectAllBlame(job, lost, "has been silent for ", since_ms);
    job[lost].Signal(SIGCONT);
    EXPECT_THAT(job[lost].AwaitLine("failed "), HasSubstr("UNAVAILABLE: exchange"));
    EXPECT_EQ(job[lost].Wait(), 0);
  }
}

TEST(ClusterProcess, AStopShorterThanTheLimitIsNoFailure) {
  Job job(2, {});
  ASSERT_TRUE(job.AllHaveJoined());
  for (size_t stopped = 0; stopped < 2; ++stopped) {
    job[stopped].Signal(SIGSTOP);
    ::poll(nullptr, 0, 500);
    job[stopped].Signal(SIGCONT);
  }
  ::poll(nullptr, 0, 200);
  const int64_t since_ms = WallMs();
  job[1].Signal(SIGKILL);
  // The first failure is this one.
  ExpectAllBlame(job, 1, "is gone: its ", since_ms);
}

// ---- Strangers

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* const name_;
};

// Two workers, of which the second comes when it is told to.
class JobWithStrangers {
 public:
  JobWithStrangers()
      : port_(ReservePort()),
        addresses_(Format("127.0.0.1:{} 127.0.0.1:{}", port_, ReservePort())),
        worker_0_(Start(0)) {}

  std::unique_ptr<Worker> Start(int64_t worker) const {
    return std::make_unique<Worker>("quiet", worker, kHangNs / kMillisecondNs, addresses_);
  }
  static bool HasJoined(Worker& worker) {
    const bool joined = worker.AwaitLine("joined") == "joined";
    EXPECT_TRUE(joined) << worker.other_lines();
    return joined;
  }
  Worker& worker_0() { return *worker_0_; }

  // A connection to worker 0 from that address of this machine, which leaves no trace when it is
  // closed; none where nobody listens.
  FileDescriptor Stranger(const std::string& from) const {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const linger reset{1, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    const SocketAddress own = ResolveAddress(from + ":0")->front();
    const SocketAddress to = ResolveAddress(Format("127.0.0.1:{}", port_))->front();
    if (::bind(socket.get(), own.get(), own.length) != 0 ||
        ::connect(socket.get(), to.get(), to.length) != 0) {
      return FileDescriptor();
    }
    return socket;
  }
  void AwaitListening() const {
    const int64_t end_ms = WallMs() + kHangNs / kMillisecondNs;
    while (!Stranger("127.0.0.1") && WallMs() < end_ms) ::poll(nullptr, 0, 1);
  }
  // So many connections at a time, which are kept until worker 0 has cut most of them off.
  void Burst(size_t count) const {
    std::vector<FileDescriptor> strangers;
    while (strangers.size() < count) {
      strangers.push_back(Stranger("127.0.0.1"));
      ASSERT_TRUE(strangers.back()) << strangers.size();
    }
    const int64_t end_ms = WallMs() + kHangNs / kMillisecondNs;
    size_t open = count;
    while (open > count / 4) {
      ASSERT_LT(WallMs(), end_ms) << open << " connections are left alone";
      open = 0;
      for (const FileDescriptor& stranger : strangers) {
        char byte = 0;
        const ssize_t got = ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) ++open;
      }
      ::poll(nullptr, 0, 1);
    }
  }

 private:
  const int port_;
  const std::string addresses_;
  std::unique_ptr<Worker> worker_0_;
};

// This process holds the other ends of the connections.
bool AllowManyFiles() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= 4096;
}

TEST(ClusterProcess, AJobFormsAfterMoreConnectionsThanWorkerZeroMayHaveFiles) {
  if (!AllowManyFiles()) GTEST_SKIP() << "the test itself needs 4096 files";
  const Variable files(kFilesVariable, "1024");
  JobWithStrangers job;
  job.AwaitListening();
  ASSERT_NO_FATAL_FAILURE(job.Burst(2000));
  const std::unique_ptr<Worker> second = job.Start(1);
  EXPECT_TRUE(JobWithStrangers::HasJoined(*second));
  EXPECT_TRUE(JobWithStrangers::HasJoined(job.worker_0()));
}

TEST(ClusterProcess, AnElasticJobTakesANewcomerInAfterABurstOfConnections) {
  if (!AllowManyFiles()) GTEST_SKIP() << "the test itself needs 4096 files";
  const Variable files(kFilesVariable, "1024");
  const Variable elastic(kElasticVariable, "1");
  JobWithStrangers job;
  std::unique_ptr<Worker> second = job.Start(1);
  ASSERT_TRUE(JobWithStrangers::HasJoined(*second));
  ASSERT_TRUE(JobWithStrangers::HasJoined(job.worker_0()));
  second.reset();
  ASSERT_NO_FATAL_FAILURE(job.Burst(2000));
  second = job.Start(1);
  EXPECT_TRUE(JobWithStrangers::HasJoined(*second));
}

TEST(ClusterProcess, AWorkerJoinsInTheMiddleOfAFlood) {
  if (!AllowManyFiles()) GTEST_SKIP() << "the test itself needs 4096 files";
  const Variable files(kFilesVariable, "1024");
  for (const std::string from : {"127.0.0.2", "127.0.0.1"}) {
    JobWithStrangers job;
    job.AwaitListening();
    std::atomic<bool> stop{false};
    std::atomic<int64_t> made{0};
    // It has an end: on a busy machine it would leave nothing for the workers to run on.
    std::thread flood([&] {
      std::deque<FileDescriptor> strangers;
      while (!stop && made < 20'000) {
        strangers.push_back(job.Stranger(from));
        if (strangers.size() > 1500) strangers.pop_front();
        ++made;
      }
    });
    while (made < 3000) std::this_thread::yield();
    const int64_t since_ms = WallMs();
    const int64_t made_before = made;
    const std::unique_ptr<Worker> second = job.Start(1);
    EXPECT_TRUE(JobWithStrangers::HasJoined(*second));
    EXPECT_TRUE(JobWithStrangers::HasJoined(job.worker_0()));
    std::printf("joined after %lld ms, beside %lld connections from %s\n",
                static_cast<long long>(WallMs() - since_ms),
                static_cast<long long>(made - made_before), from.c_str());
    stop = true;
    flood.join();
  }
}

TEST(ClusterProcess, WithoutDescriptorsAWorkerSaysSoAndDoesNotAbort) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors itself, for a pipe";
#endif
  // From too few for gRPC to enough for all but it.
  for (int files = 8; files <= 18; files += 2) {
    const Variable limit(kFilesVariable, std::to_string(files).c_str());
    const int port = ReservePort();
    Worker worker("quiet", 0, 1000, Format("127.0.0.1:{} 127.0.0.1:{}", port, ReservePort()));
    const std::string line = worker.AwaitLine("not joined ");
    EXPECT_THAT(line, AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("Too many open files")))
        << files;
    EXPECT_EQ(worker.Wait(), 1) << files;
  }
}

}  // namespace
}  // namespace tutti
