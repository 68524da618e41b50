// Our side of the comparison: all_reduce of float32 sums between processes of this machine, and the
// round trip of a cache line between two of them, which tells how the machine has placed its cores.
//
//   all_reduce_ranks TRANSPORT RANKS SIZES SECONDS [unbound]     TRANSPORT is shared or tcp
//   all_reduce_ranks ping_pong
//
// Rank 0 prints a line per size: bytes and the median in microseconds; ping_pong gives ns.
// Ranks are bound to a core each where there are enough.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/real_environment.h"
#include "core/collective/communicator.h"
#include "core/collective/link_transport.h"
#include "core/collective/shared_segment.h"
#include "core/collective/shared_transport.h"
#include "core/collective/tcp_link.h"
#include "core/collective/usable_cores.h"
#include "core/tensor/tensor.h"
#include "tests/benchmarks/timed_calls.h"

namespace tutti {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "all_reduce_ranks: %s\n", what.c_str());
  std::_Exit(1);
}

void Check(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}

// A pair of connected TCP sockets over loopback.
std::pair<FileDescriptor, FileDescriptor> ConnectedPair() {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), name, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), name, &length) != 0) {
    Die("no listening socket");
  }
  FileDescriptor one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(one.get(), name, length) != 0) Die("no connection");
  FileDescriptor other(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!other) Die("no accepted connection");
  return {std::move(one), std::move(other)};
}

// What the ranks share, made before they are forked.
struct Meeting {
  Ref<SharedSegment> segment;
  std::vector<std::vector<FileDescriptor>> sockets;  // by rank and peer
};

Meeting MakeMeeting(const std::string& transport, int ranks) {
  Meeting meeting;
  if (transport == "shared") {
    meeting.segment = SharedSegment::Create(SharedTransport::SegmentBytes(ranks)).value();
    return meeting;
  }
  if (transport != "tcp") Die("no such transport: " + transport);
  meeting.sockets.resize(static_cast<size_t>(ranks));
  for (auto& row : meeting.sockets) row.resize(static_cast<size_t>(ranks));
  for (size_t a = 0; a < meeting.sockets.size(); ++a) {
    for (size_t b = a + 1; b < meeting.sockets.size(); ++b) {
      std::pair<FileDescriptor, FileDescriptor> pair = ConnectedPair();
      meeting.sockets[a][b] = std::move(pair.first);
      meeting.sockets[b][a] = std::move(pair.second);
    }
  }
  return meeting;
}

std::unique_ptr<Transport> MakeTransport(const Ref<RealEnvironment>& environment,
                                         Meeting& meeting, int rank, int ranks) {
  const bool spin = static_cast<size_t>(ranks) <= UsableCores();
  if (meeting.segment) {
    SharedGroupOptions options;
    options.name = "benchmark";
    options.rank = rank;
    options.size = ranks;
    options.spin = spin;
    return SharedTransport::Create(environment, meeting.segment, options).value();
  }
  LinkTransport::Options options;
  options.name = "benchmark";
  options.rank = rank;
  options.size = ranks;
  options.spin = spin;
  std::vector<std::unique_ptr<Link>> links(static_cast<size_t>(ranks));
  for (size_t peer = 0; peer < links.size(); ++peer) {
    FileDescriptor& socket = meeting.sockets[static_cast<size_t>(rank)][peer];
    if (socket) links[peer] = std::make_unique<TcpLink>(std::move(socket));
  }
  meeting.sockets.clear();  // the other ranks' ends
  return LinkTransport::Create(environment, options, std::move(links)).value();
}

void RunRank(Meeting& meeting, int rank, int ranks, const std::vector<int64_t>& sizes,
             double seconds, bool bound) {
  // The environment's threads stay free: only this one is bound.
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  std::unique_ptr<Transport> transport = MakeTransport(environment, meeting, rank, ranks);
  if (bound) BindToCore(rank, ranks);
  Ref<Communicator> communicator =
      Communicator::CreateOver(environment.get(), "benchmark", rank, ranks, 1,
                               std::move(transport))
          .value();
  for (const int64_t bytes : sizes) {
    const int64_t count = bytes / 4;
    Ref<Tensor> input = Tensor::Create(DType::kFloat32, Shape({count})).value();
    Ref<Tensor> output = Tensor::Create(DType::kFloat32, Shape({count})).value();
    for (float& element : input->mutable_span<float>()) element = 1.0f;
    for (float& element : output->mutable_span<float>()) element = -1.0f;
    TimedCalls timed;
    timed.is_rank_0 = rank == 0;
    timed.seconds = seconds;
    timed.call = [&] {
      Check(communicator->AllReduce(*input, ReduceOp::kSum, CallOptions(), output.get()));
    };
    timed.agree = [&](int64_t number) {
      Ref<Tensor> agreed = Tensor::Scalar<int64_t>(number);
      Check(communicator->Broadcast(0, CallOptions(), agreed.get()));
      return agreed->item<int64_t>();
    };
    const double median = timed.Median();
    for (float element : output->span<float>()) {
      if (element != static_cast<float>(ranks)) Die("a wrong sum");
    }
    if (rank == 0) {
      std::printf("%lld %.4f\n", static_cast<long long>(bytes), median);
      std::fflush(stdout);
    }
  }
  Check(communicator->Close(CallOptions()));
  communicator.reset();
  Check(environment->Shutdown(CallOptions()));
}

// Forks `count` processes; true when all of them end well. They die with this one.
template <typename Body>
bool RunProcesses(int count, Body body) {
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid < 0) Die("no process");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(i);
      std::fflush(stdout);
      std::_Exit(0);
    }
    pids.push_back(pid);
  }
  bool good = true;
  for (size_t ended = 0; ended < pids.size(); ++ended) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) {
      // The others would wait for it.
      if (good) {
        for (const pid_t pid : pids) kill(pid, SIGKILL);
      }
      good = false;
    }
  }
  return good;
}

bool PingPong() {
  void* const memory =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Die("no memory");
  std::atomic<uint64_t>& word = *static_cast<std::atomic<uint64_t>*>(memory);
  constexpr uint64_t kRounds = 2000;
  constexpr int kBatches = 15;
  return RunProcesses(2, [&](int rank) {
    BindToCore(rank, 2);
    std::vector<double> times;
    for (uint64_t batch = 0; batch < kBatches; ++batch) {
      const double begin = NowSeconds();
      for (uint64_t round = 0; round < kRounds; ++round) {
        const uint64_t turn = 2 * (batch * kRounds + round) + static_cast<uint64_t>(rank);
        while (word.load(std::memory_order_acquire) != turn) {
        }
        word.store(turn + 1, std::memory_order_release);
      }
      times.push_back((NowSeconds() - begin) / static_cast<double>(kRounds) * 1e9);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    if (rank == 0) std::printf("%.1f\n", times[times.size() / 2]);
  });
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const std::string transport = argc > 1 ? argv[1] : "";
  if (transport == "ping_pong" && argc == 2) return tutti::PingPong() ? 0 : 1;
  const bool unbound = argc == 6 && std::string(argv[5]) == "unbound";
  if (argc != 5 && !unbound) {
    std::fprintf(stderr, "usage: all_reduce_ranks (shared|tcp) RANKS SIZES SECONDS [unbound] | "
                         "ping_pong\n");
    return 2;
  }
  const int ranks = std::atoi(argv[2]);
  const std::vector<int64_t> sizes = ParseSizes(argv[3]);
  const double seconds = std::atof(argv[4]);
  tutti::Meeting meeting = tutti::MakeMeeting(transport, ranks);
  return tutti::RunProcesses(ranks, [&](int rank) {
    tutti::RunRank(meeting, rank, ranks, sizes, seconds, !unbound);
  }) ? 0 : 1;
}
