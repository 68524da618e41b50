// Which NCCL is used and with which settings, what it lacks, and bad input, each with its sentence.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "core/device/gpu_aborts.h"
#include "tests/gpu/nccl_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

GpuCollectivesSettings Settings(std::string network_interface, bool share_devices = false,
                                std::string key = "") {
  return {std::move(network_interface), share_devices, std::move(key)};
}

TEST_F(Nccl, BadArgumentsAreRefusedBeforeNcclSeesThem) {
  Make(2);
  Rank& rank = *ranks_[0];
  GpuCommunicator& comm = *rank.communicator;
  void* const memory = rank.Memory(64);
  const auto all_reduce = [&](const GpuStream& stream, int op, int dtype, const void* in) {
    return comm.AllReduce(stream, static_cast<ReduceOp>(op), static_cast<DType>(dtype), in, memory,
                          4)
        .ToString();
  };
  EXPECT_THAT(all_reduce(*ranks_[1]->stream, 1, 12, memory),
              HasSubstr("all_reduce: the stream is one of GPU:1; pass one of GPU:0"));
  EXPECT_THAT(all_reduce(*rank.stream, 9, 12, memory), HasSubstr("9 is no reduction"));
  EXPECT_THAT(all_reduce(*rank.stream, -1, 12, memory), HasSubstr("-1 is no reduction"));
  EXPECT_THAT(all_reduce(*rank.stream, 1, 99, memory), HasSubstr("dtype 99 cannot lie on a GPU"));
  EXPECT_THAT(all_reduce(*rank.stream, 1, 16, memory), HasSubstr("UNIMPLEMENTED"));
  EXPECT_THAT(all_reduce(*rank.stream, 6, 4, memory), HasSubstr("NCCL has no band of int32"));
  EXPECT_THAT(all_reduce(*rank.stream, 1, 12, nullptr), HasSubstr("address of the input is NULL"));
  EXPECT_THAT(comm.Reduce(*rank.stream, ReduceOp::kSum, DType::kInt8, memory, memory, 1, -1)
                  .ToString(),
              HasSubstr("reduce: root -1; ranks go from 0 to 1"));
  EXPECT_THAT(comm.Send(*rank.stream, DType::kInt8, memory, 1, 2).ToString(),
              HasSubstr("send: peer 2; ranks go from 0 to 1"));
  EXPECT_THAT(comm.Receive(*rank.stream, DType::kInt8, memory, 1, -7).ToString(),
              HasSubstr("receive: peer -7"));
  EXPECT_THAT(AsStatus(api().communicators->group_end(handle(), nullptr)).ToString(),
              HasSubstr("this thread has no group"));
  for (const auto& [r, n] : {std::pair(-1, 2), std::pair(2, 2), std::pair(0, 0),
                             std::pair(0, -3)}) {
    EXPECT_EQ(GpuCommunicator::Begin(Place(0), {{}, r, n}).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(GpuCommunicator::Begin(Place(0), {{}, 0, 1, -1, 0}).status().ToString(),
              HasSubstr("NCCL cannot take -1 to 0 blocks"));
  EXPECT_THAT(GpuCommunicator::Begin(Place(9), {{}, 0, 1}).status().ToString(),
              HasSubstr("there is no GPU:9"));
}

TEST_F(Nccl, RanksThatDisagreeAreNamed) {
  const auto facts = FactsOfGpuRank(Place(0), "here");
  GPU_OK(facts);
  EXPECT_EQ(facts.value().nccl_version, 23203);
  std::vector<GpuRankFacts> ranks = {facts.value(), FactsOfGpuRank(Place(1), "here").value()};
  GPU_OK(CheckGpuRanks(ranks));
  GPU_OK(CheckGpuRanks(std::vector{ranks[0], ranks[0]}));  // NCCL 2.30 and later can
  ranks[1].nccl_version = 22707;
  EXPECT_THAT(CheckGpuRanks(ranks).ToString(),
              HasSubstr("rank 1 has NCCL 2.27.7, rank 0 has NCCL 2.32.3: they cannot be one"));
  ranks[0].nccl_version = 22707;
  ranks[0].capabilities = 0;
  EXPECT_THAT(CheckGpuRanks(std::vector{ranks[0], ranks[1], ranks[0]}).ToString(),
              AllOf(HasSubstr("ranks 0 and 2 are both on device "), HasSubstr(" of here"),
                    HasSubstr("install NCCL 2.30")));
  ranks[0].host = "there";
  GPU_OK(CheckGpuRanks(ranks));
}

TEST_F(Nccl, NewerFunctionsAreThereWhereTheVersionHasThem) {
  struct Case {
    const char* library;
    int version;
    uint32_t capabilities;
  };
  for (const Case& one : {Case{TUTTI_GPU_NCCL_2_18, 21805, 0}, Case{TUTTI_GPU_NCCL_2_27, 22707, 15},
                          Case{TUTTI_GPU_NCCL, 23203, 255}}) {
    Use(one.library);
    const auto found = FindGpuCollectives(*plugin_);
    GPU_OK(found);
    EXPECT_EQ(found.value().version, one.version);
    EXPECT_EQ(found.value().capabilities, one.capabilities) << one.version;
    EXPECT_EQ(found.value().file, one.library);
    EXPECT_EQ(found.value().origin, "TUTTI_NCCL_LIBRARY");
    Make(2);
    ExpectOk(OnRanks([&](int, Rank& rank) -> Status {
      void* const memory = rank.Copied(std::vector<unsigned char>(8));
      return rank.communicator->AllReduce(*rank.stream, ReduceOp::kSum, DType::kFloat16, memory,
                                          memory, 4);
    }));
    GpuCommunicator& comm = *ranks_[0]->communicator;
    void* const memory = ranks_[0]->Memory(64);
    const int32_t gone[] = {1};
    const auto lacks = [&](const Status& status, uint32_t capability, const char* function) {
      if ((one.capabilities & capability) != 0) return;
      EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << function;
      EXPECT_THAT(status.ToString(), AllOf(HasSubstr("NCCL " + found.value().version_text() +
                                                     " has no " + function),
                                           HasSubstr(" or newer has")));
    };
    void* allocated = nullptr;
    lacks(AsStatus(api().communicators->allocate(handle(), 0, 64, &allocated)),
          TUTTI_PLUGIN_CAN_ALLOCATE, "ncclMemAlloc");
    if (allocated != nullptr) {
      EXPECT_GE(plugin_->account(0).used_bytes(), 64u);
      GPU_OK(api().communicators->release(handle(), 0, allocated));
    }
    lacks(comm.Register(memory, 64, false).status(), TUTTI_PLUGIN_CAN_REGISTER,
          "ncclCommRegister");
    lacks(comm.Register(memory, 64, true).status(), TUTTI_PLUGIN_CAN_REGISTER_WINDOW,
          "ncclCommWindowRegister");
    if (one.capabilities == 255) continue;
    lacks(one.capabilities == 0 ? comm.Shrink(gone, false).status() : OkStatus(),
          TUTTI_PLUGIN_CAN_SHRINK, "ncclCommShrink");
    lacks(comm.Revoke(), TUTTI_PLUGIN_CAN_REVOKE, "ncclCommRevoke");
    lacks(comm.GrowId().status(), TUTTI_PLUGIN_CAN_GROW, "ncclCommGrow");
    const Status plain = ConfigureGpuCollectives(*plugin_, Settings("", false, "short"));
    EXPECT_EQ(plain.code(), StatusCode::kFailedPrecondition) << plain.ToString();
  }
}

TEST_F(Nccl, SettingsAreTakenBeforeTheFirstCommunicator) {
  unsetenv("NCCL_SOCKET_IFNAME");
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const std::string key(32, 'k');
  EXPECT_THAT(ConfigureGpuCollectives(*plugin_, Settings("", false, "short")).ToString(),
              HasSubstr("has 5 characters; 32 or more are needed"));
  GPU_OK(ConfigureGpuCollectives(*plugin_, Settings("job0", true, key)));
  GPU_OK(NewGpuCommunicatorId(*plugin_));
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=job0");
  EXPECT_STREQ(std::getenv("NCCL_MULTI_RANK_GPU_ENABLE"), "1");
  EXPECT_EQ(FunctionOfNccl<fake::NcclKey>(fake::kNcclKey)(), key);
  GPU_OK(ConfigureGpuCollectives(*plugin_, Settings("job0", true, key)));
  EXPECT_THAT(ConfigureGpuCollectives(*plugin_, Settings("other", true, key)).ToString(),
              HasSubstr("NCCL is in use already"));
  // A user's own wins; and an NCCL that cannot encrypt says so.
  Use(TUTTI_GPU_NCCL_2_27);
  setenv("NCCL_SOCKET_IFNAME", "mine", 1);
  EXPECT_THAT(ConfigureGpuCollectives(*plugin_, Settings("", false, key)).ToString(),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("NCCL 2.27.7 cannot encrypt: 2.32")));
  GPU_OK(ConfigureGpuCollectives(*plugin_, Settings("job0")));
  GPU_OK(NewGpuCommunicatorId(*plugin_));
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "mine");
  unsetenv("NCCL_SOCKET_IFNAME");
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

// The sockets that a child process has, as it sees them itself.
std::string SocketsOfAChild() {
  std::string seen;
  FILE* const child = popen("for f in /proc/self/fd/*; do readlink $f; done", "r");
  for (int byte = child == nullptr ? EOF : std::fgetc(child); byte != EOF;) {
    seen += static_cast<char>(byte);
    byte = std::fgetc(child);
  }
  if (child != nullptr) pclose(child);
  return seen;
}
// Those of this process that listen on a port which stands in the id.
std::vector<std::string> ListenersOf(const GpuCommunicatorId& id) {
  std::vector<std::string> found;
  for (int file = 0; file < 1024; ++file) {
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
      continue;
    }
    sockaddr_in address = {};  // a port stands at the same place in one of IPv6
    length = sizeof(address);
    getsockname(file, reinterpret_cast<sockaddr*>(&address), &length);
    const auto* const port = reinterpret_cast<const unsigned char*>(&address.sin_port);
    if (std::search(id.begin(), id.end(), port, port + 2) == id.end()) continue;
    char name[64] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    if (readlink(link.c_str(), name, sizeof(name) - 1) > 0) found.emplace_back(name);
  }
  return found;
}

TEST_F(Nccl, TheSocketOfAnIdGoesToNoChildProcess) {
  const auto id = NewGpuCommunicatorId(*plugin_);
  GPU_OK(id);
  const std::vector<std::string> listeners = ListenersOf(id.value());
  ASSERT_FALSE(listeners.empty());
  const std::string seen = SocketsOfAChild();
  EXPECT_THAT(seen, HasSubstr("pipe:"));
  for (const std::string& listener : listeners) {
    EXPECT_THAT(seen, Not(HasSubstr(listener)));
  }
  // What the program opens so is inherited as it wants.
  const int own = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(listen(own, 1), 0);
  GPU_OK(NewGpuCommunicatorId(*plugin_));
  EXPECT_EQ(fcntl(own, F_GETFD) & FD_CLOEXEC, 0);
  close(own);
}

TEST_F(Nccl, MemoryOfItsOwnIsRegisteredAndGivenBackInPairs) {
  Make(2);
  {
    const auto registered = FunctionOfNccl<fake::CountRegistered>(fake::kCountRegistered);
    GpuCommunicator& comm = *ranks_[0]->communicator;
    auto made = GpuRegisteredMemory::Create(comm, 4096);
    GPU_OK(made);
    EXPECT_EQ(registered(), 1);
    EXPECT_GE(plugin_->account(0).used_bytes(), 4096u);
    made.value().reset();
    EXPECT_EQ(registered(), 0);
    // With an aborted communicator the registration goes; the memory is given back all the same.
    made = GpuRegisteredMemory::Create(comm, 4096);
    GPU_OK(made);
    const std::vector<Ref<GpuCommunicator>> all = {ranks_[0]->communicator,
                                                   ranks_[1]->communicator};
    GPU_OK(GpuCommunicator::Abort(all));
    EXPECT_EQ(registered(), 0);
    made.value().reset();
    EXPECT_THAT(GpuRegisteredMemory::Create(comm, 4096).status().ToString(),
                HasSubstr("the communicator was aborted"));
  }
  Use(TUTTI_GPU_NCCL_2_18);
  Make(1);
  EXPECT_EQ(GpuRegisteredMemory::Create(*ranks_[0]->communicator, 64).status().code(),
            StatusCode::kUnimplemented);
}

TEST_F(Nccl, ThoseThatHaveLostTheirEpochAreAbortedInOneGroup) {
  Make(4);
  const auto most = FunctionOfNccl<fake::MostAborted>(fake::kMostAborted);
  most();
  GpuAborts& aborts = plugin_->aborts();
  bool lost = false;
  std::vector<std::unique_ptr<GpuAborts::Membership>> members;
  for (size_t i = 0; i < 4; ++i) {
    // The last one's epoch goes on.
    members.push_back(
        aborts.Join(ranks_[i]->communicator, [&lost, i] { return lost && i != 3; }));
  }
  const auto state = [&](size_t i) { return ranks_[i]->communicator->Info().value().state; };
  const Ref<GpuCommunicator> first[] = {ranks_[0]->communicator};
  const Ref<GpuCommunicator> second[] = {ranks_[1]->communicator};
  members[0].reset();
  GPU_OK(aborts.Abort(first, {}));
  EXPECT_EQ(most(), 1);
  EXPECT_EQ(state(1), TUTTI_PLUGIN_COMMUNICATOR_READY);
  lost = true;
  GPU_OK(aborts.Abort(second, {}));
  EXPECT_EQ(most(), 2);
  EXPECT_EQ(state(1), TUTTI_PLUGIN_COMMUNICATOR_ABORTED);
  EXPECT_EQ(state(2), TUTTI_PLUGIN_COMMUNICATOR_ABORTED);
  EXPECT_EQ(state(3), TUTTI_PLUGIN_COMMUNICATOR_READY);
}

TEST_F(Nccl, RanksOnOneDeviceNeedAnNcclThatCan) {
  const auto two = [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(const GpuCommunicatorId id, NewGpuCommunicatorId(*plugin_));
    TUTTI_ASSIGN_OR_RETURN(const auto a, GpuCommunicator::Begin(Place(0), {id, 0, 2}));
    TUTTI_ASSIGN_OR_RETURN(const auto b, GpuCommunicator::Begin(Place(0), {id, 1, 2}));
    TUTTI_RETURN_IF_ERROR(a->AwaitReady());
    return b->AwaitReady();
  };
  EXPECT_THAT(two().ToString(), HasSubstr("Duplicate GPU detected"));
  Use(TUTTI_GPU_NCCL);
  GPU_OK(ConfigureGpuCollectives(*plugin_, Settings("", true)));
  GPU_OK(two());
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST_F(Nccl, WithoutADriverTheSentenceSaysThatAndNotWhatNcclWould) {
  Close();
  setenv("TUTTI_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  plugin_ = DevicePlugin::Open(PluginPath()).value();
  GPU_OK(FindGpuCollectives(*plugin_));  // it is there
  const Status status = NewGpuCommunicatorId(*plugin_).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("NCCL needs a GPU, and none can be used"),
                                       HasSubstr("there is no NVIDIA driver")));
  EXPECT_EQ(GpuCommunicator::Begin(Place(0), {{}, 0, 1}).status().ToString(), status.ToString());
}

TEST_F(Nccl, AnNcclThatWillNotDoSaysWhatWasFoundAndExpected) {
  const auto why = [&](const char* library, int32_t version) {
    Use(TUTTI_GPU_NCCL);
    setenv("TUTTI_NCCL_LIBRARY", library, 1);
    fake::NcclFaults faults;
    faults.version = version;
    Break(faults);
    return FindGpuCollectives(*plugin_).status();
  };
  EXPECT_THAT(why(TUTTI_GPU_NCCL, 21703).ToString(),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("NCCL 2.17.3 ("),
                    HasSubstr(TUTTI_GPU_NCCL), HasSubstr("is too old; 2.18 or newer is needed")));
  EXPECT_THAT(why(TUTTI_GPU_NCCL, 2804).ToString(), HasSubstr("NCCL 2.8.4 ("));
  EXPECT_THAT(why(TUTTI_GPU_NCCL_BARE, 0).ToString(), HasSubstr(") has no ncclCommSplit;"));
  EXPECT_THAT(why(TUTTI_GPU_BARE_DRIVER, 0).ToString(), HasSubstr("it has no ncclGetVersion"));
  const Status missing = why("/nowhere/libnccl.so.2", 0);
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.ToString(),
              AllOf(HasSubstr("there is no NCCL: /nowhere/"),
                    HasSubstr("TUTTI_NCCL_LIBRARY names that path")));
}

// It stays loaded, so a process of its own sees it.
TEST_F(Nccl, ACopyThatIsInTheProcessIsTakenFirst) {
  GTEST_FLAG_SET(death_test_style, "fast");
#if !defined(__SANITIZE_THREAD__)
  EXPECT_EXIT(
      {
        if (dlopen(TUTTI_GPU_NCCL_LOADED, RTLD_NOW | RTLD_LOCAL) == nullptr) std::exit(2);
        const auto found = FindGpuCollectives(*plugin_);
        const std::string text =
            found.ok() ? found.value().origin + " " + found.value().version_text()
                       : found.status().ToString();
        std::fprintf(stderr, "%s\n", text.c_str());
        std::_Exit(found.ok() && found.value().file == TUTTI_GPU_NCCL_LOADED ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "the process 2.30.7");
#endif
}

// The real one of a wheel (tests/gpu/real_nccl.py names it), which has no driver here.
TEST(RealNccl, HasAVersionAndAnIdAndFailsClearlyWithoutADriver) {
  const char* const file = std::getenv("TUTTI_TEST_NCCL");
  if (file == nullptr) GTEST_SKIP() << "TUTTI_TEST_NCCL names no file; real_nccl.py fetches one";
  setenv("TUTTI_NCCL_LIBRARY", file, 1);
  setenv("TUTTI_CUDA_DRIVER", TUTTI_GPU_DRIVER, 1);
  const Ref<DevicePlugin> plugin = DevicePlugin::Open(PluginPath()).value();
  const auto found = FindGpuCollectives(*plugin);
  GPU_OK(found);
  EXPECT_GE(found.value().version, 21800);
  EXPECT_EQ(found.value().file, file);
  std::printf("NCCL %s\n", found.value().version_text().c_str());
  // The fake driver has devices, so NCCL is asked: an id needs none, a communicator does.
  GPU_OK(ConfigureGpuCollectives(*plugin, Settings("lo")));
  const auto id = NewGpuCommunicatorId(*plugin);
  GPU_OK(id);
  // Its listening socket is found by the address in the id, and no child process gets it.
  const std::vector<std::string> listeners = ListenersOf(id.value());
  ASSERT_FALSE(listeners.empty());
  const std::string seen = SocketsOfAChild();
  for (const std::string& listener : listeners) EXPECT_THAT(seen, Not(HasSubstr(listener)));
  auto made = GpuCommunicator::Begin(PlaceOf(plugin, 0), {id.value(), 0, 1});
  const CallOptions options = InTime();
  const Status status =
      made.ok() ? made.value()->AwaitReady({&options, &RealClock()}) : made.status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("GPU:0, rank 0 of 1"), HasSubstr("error (")));
  std::printf("%s\n", status.ToString().c_str());
  // With what the plugin finds of its own accord there is no driver, and the sentence says that.
  setenv("TUTTI_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  const Ref<DevicePlugin> bare = DevicePlugin::Open(PluginPath()).value();
  EXPECT_THAT(NewGpuCommunicatorId(*bare).status().ToString(),
              HasSubstr("there is no NVIDIA driver"));
}

}  // namespace
}  // namespace tutti::gpu
