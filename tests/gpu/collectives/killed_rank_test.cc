// A worker that is killed in the middle of a call of NCCL's: ranks are processes, each with a GPU
// of its own, on a fake NCCL that like the real one waits for the dead rank for ever. Nobody but
// the job's membership knows of the death; the survivors' call ends with an error that names the
// dead rank, and what is left goes on by NCCL. The workers are this test started again.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file_descriptor.h"
#include "core/base/real_environment.h"
#include "core/base/usable_cores.h"
#include "core/cluster/job/cluster.h"
#include "core/cluster/testing/reserved_port_testing.h"
#include "tests/gpu/collectives/collectives_testing.h"

extern char** environ;

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGpuWorkerVariable[] = "GPU_KILLED_RANK_TEST_WORKER";
constexpr int kGpuWorkers = 3;
constexpr int kGpuVictim = 1;
constexpr int64_t kGpuHangNs = 60 * kSecondNs;

void Tell(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

ClusterOptions GpuJobOf(int worker, int port) {
  ClusterOptions options;
  for (int i = 0; i < kGpuWorkers; ++i) {
    options.tasks.push_back(Format("worker:{}", i));
    options.addresses.push_back(Format("127.0.0.1:{}", port + i));
  }
  options.worker = worker;
  options.usable_cores = static_cast<int64_t>(UsableCores());
  options.secret = *JobSecret::FromText(std::string(64, 'a'));
  options.elastic = true;
  // A loaded machine is no dead worker; a dead one is seen by its sockets.
  options.silence_limit_ns = kGpuHangNs;
  return options;
}

// 1 + 2 + ... on the rank's GPU, in place; DATA_LOSS for any other result.
Status SumOnGpu(GpuMemory& memory, Communicator& group, const CallOptions& call) {
  const Ref<Tensor> here = Tensor::Create(DType::kInt64, Shape({1000})).value();
  for (int64_t& element : here->mutable_span<int64_t>()) element = group.rank() + 1;
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> there, CopyToGpu(*here, memory));
  TUTTI_RETURN_IF_ERROR(group.AllReduce(*there, ReduceOp::kSum, call, there.get()));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> sum, CopyToCpu(*there));
  for (const int64_t element : sum->span<int64_t>()) {
    if (element != group.size() * (group.size() + 1) / 2) return DataLoss("a sum: {}", element);
  }
  return OkStatus();
}

Status LiveOnGpu(const Ref<RealEnvironment>& environment, int worker, int port) {
  const auto call = [&] { return CallOptions::WithTimeout(environment->clock(), kGpuHangNs); };
  DeviceSetOptions options;
  options.cuda_plugin = PluginPath();
  TUTTI_ASSIGN_OR_RETURN(const Ref<DeviceSet> devices, DeviceSet::Create(2, nullptr, options));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Device> gpu, devices->Find(Format("GPU:{}", worker)));
  GpuMemory& memory = *GpuMemoryOf(*gpu);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Cluster> cluster,
                         Cluster::Join(environment, GpuJobOf(worker, port), call()));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> group,
                         Communicator::CreateOfPresent(cluster, "group", kGpuWorkers,
                                                       CollectiveTransport::kTcp, nullptr,
                                                       call()));
  Status status;
  for (int i = 0; i < 3 && status.ok(); ++i) status = SumOnGpu(memory, *group, call());
  Tell("error " + status.ToString());
  if (status.code() != StatusCode::kUnavailable) return status;
  TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> rest, group->Shrink(call()));
  for (int i = 0; i < 3; ++i) TUTTI_RETURN_IF_ERROR(SumOnGpu(memory, *rest, call()));
  Tell(Format("shrunk to rank {} of {}", rest->rank(), rest->size()));
  TUTTI_RETURN_IF_ERROR(group->Close(call()));
  TUTTI_RETURN_IF_ERROR(rest->Close(call()));
  return cluster->Close(call());
}

// Runs instead of the tests where this process was started as a worker.
class GpuWorkerProcess final : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const command = std::getenv(kGpuWorkerVariable);
    if (command == nullptr) return;
    int worker = 0, port = 0;
    if (std::sscanf(command, "%d %d", &worker, &port) != 2) ::_exit(3);
    const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
    environment->log().set_level(LogLevel::kWarning);
    const Ref<Lines> lines = MakeRef<Lines>();
    (void)environment->log().SetSink(lines);
    const Status status = LiveOnGpu(environment, worker, port);
    if (!status.ok()) Tell("failed " + status.ToString());
    for (const std::string& line : lines->Take()) Tell("warning " + line);
    (void)environment->log().SetSink(nullptr);
    const CallOptions call = CallOptions::WithTimeout(environment->clock(), kGpuHangNs);
    const bool ended = environment->Shutdown(call).ok();
    Tell("end");
    ::_exit(status.ok() && ended ? 0 : 1);
  }
};
[[maybe_unused]] ::testing::Environment* const gpu_worker_process =
    ::testing::AddGlobalTestEnvironment(new GpuWorkerProcess);

class GpuWorker {
 public:
  GpuWorker(int worker, int port, const std::vector<std::string>& more) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = FileDescriptor(ends[0]);
    const FileDescriptor input(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<std::string> own = more;
    own.push_back(Format("{}={} {}", kGpuWorkerVariable, worker, port));
    std::vector<char*> variables;
    for (std::string& variable : own) variables.push_back(variable.data());
    for (char** one = environ; *one != nullptr; ++one) variables.push_back(*one);
    variables.push_back(nullptr);
    std::string program = "/proc/self/exe";
    char* arguments[] = {program.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments,
                            variables.data()),
              0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~GpuWorker() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // All that it says until it ends, or says nothing for a minute.
  std::string ReadAll() {
    std::string all;
    for (;;) {
      pollfd polled = {output_.get(), POLLIN, 0};
      char buffer[4096];
      if (::poll(&polled, 1, static_cast<int>(kGpuHangNs / kMillisecondNs)) <= 0) return all;
      const ssize_t count = ::read(output_.get(), buffer, sizeof(buffer));
      if (count <= 0) return all;
      all.append(buffer, static_cast<size_t>(count));
    }
  }
  int Wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor output_;
};

TEST(GpuKilledRank, IsNamedToItsPeersInNcclWhichShrinkAndGoOn) {
  if (IsReal()) GTEST_SKIP() << "several ranks need several devices";
  std::string folder = ::testing::TempDir() + "tutti-killed-rank-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::vector<std::string> variables = {
      std::string("TUTTI_CUDA_DRIVER=") + TUTTI_GPU_DRIVER,
      std::string("TUTTI_NCCL_LIBRARY=") + TUTTI_GPU_NCCL,
      Format("TUTTI_FAKE_GPUS={}", kGpuWorkers),
      Format("{}={}", fake::kFolderVariable, folder),
      // In its second call: the first one made the communicators.
      Format("{}={} 1", fake::kKilledVariable, kGpuVictim)};
  const int port = ReservePort();
  std::vector<std::unique_ptr<GpuWorker>> job;
  for (int i = 0; i < kGpuWorkers; ++i) {
    job.push_back(std::make_unique<GpuWorker>(i, port, variables));
  }
  for (int i = 0; i < kGpuWorkers; ++i) {
    const std::string said = job[static_cast<size_t>(i)]->ReadAll();
    if (i == kGpuVictim) {
      EXPECT_EQ(job[static_cast<size_t>(i)]->Wait(), -SIGKILL) << said;
      continue;
    }
    EXPECT_THAT(said, AllOf(HasSubstr("error UNAVAILABLE"),
                            ::testing::ContainsRegex("(rank|worker) 1 ")));
    EXPECT_THAT(said, HasSubstr(Format("shrunk to rank {} of 2", i == 0 ? 0 : 1)));
    // NCCL was used before and after: whoever goes another way says so.
    EXPECT_THAT(said, Not(HasSubstr("NCCL is not used")));
    EXPECT_EQ(job[static_cast<size_t>(i)]->Wait(), 0) << said;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tutti::gpu
