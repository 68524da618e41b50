// Our side of the comparison: all_reduce of sums between processes of this machine, and the round
// trip of a cache line between two of them, which tells how the machine has placed its cores.
//
//   all_reduce_ranks TRANSPORT RANKS SIZES SECONDS [DTYPE] [in_place] [fresh] [unbound]
//                    [table=ROWS] [in_flight=CALLS [interruptible]]
//   all_reduce_ranks ping_pong
//
// TRANSPORT is shared, window (the same with tensors in the ranks' windows), tcp, or in_process,
// whose ranks are threads; DTYPE is float32 or bfloat16, SIZES are those of as many float32, ROWS
// those of a selector table. Rank 0 prints the lines of TimedCalls, and of tcp "cpu", the bytes,
// and the CPU seconds that all ranks together spend for a GiB of a rank's input; ping_pong gives
// ns. Ranks are bound to a core each where there are enough. Fresh: inputs are written before each
// call and outputs read behind it, and that counts. With in_flight a timed call is so many
// asynchronous ones on tensors of their own, and waiting for their futures in turn; interruptible
// waits are those of hosts that look for Ctrl-C meanwhile.

#include <sys/socket.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/real_environment.h"
#include "core/base/usable_cores.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/collective/group/window_passing.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/shm/shared_window.h"
#include "core/collective/stream/link_transport.h"
#include "core/collective/stream/tcp_link.h"
#include "core/tensor/cast.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"
#include "tests/benchmarks/rank_processes.h"
#include "tests/benchmarks/timed_calls.h"

namespace tutti {
namespace {

void Check(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}

struct Plan {
  std::string transport;
  int ranks = 0;
  std::vector<int64_t> sizes;
  double seconds = 0;
  DType dtype = DType::kFloat32;
  bool bound = true;
  bool in_place = false;
  bool fresh = false;
  int in_flight = 0;  // 0: calls without futures
  bool interruptible = false;
  std::shared_ptr<const SelectorTable> table;
};

// What the ranks share, made before they are forked.
struct Meeting {
  Ref<SharedSegment> segment;
  std::vector<std::vector<FileDescriptor>> sockets;  // by rank and peer
  // By which windows are passed: of rank 0 to each other, and of each other to it.
  std::vector<FileDescriptor> from_first;
  std::vector<FileDescriptor> to_first;
};

Meeting MakeMeeting(const std::string& transport, int ranks) {
  Meeting meeting;
  if (transport == "shared" || transport == "window") {
    meeting.segment = SharedSegment::Create(SharedTransport::SegmentBytes(ranks)).value();
    if (transport == "shared") return meeting;
    meeting.from_first.resize(static_cast<size_t>(ranks));
    meeting.to_first.resize(static_cast<size_t>(ranks));
    for (size_t rank = 1; rank < meeting.to_first.size(); ++rank) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        Die("no sockets");
      }
      meeting.from_first[rank] = FileDescriptor(pair[0]);
      meeting.to_first[rank] = FileDescriptor(pair[1]);
    }
    return meeting;
  }
  if (transport == "in_process") return meeting;
  if (transport != "tcp") Die("no such transport: " + transport);
  meeting.sockets = ConnectedRanks(ranks);
  return meeting;
}

// Windows have room for all inputs and outputs of the plan.
SharedWindows PassWindows(RealEnvironment& environment, const Meeting& meeting, int rank,
                          const Plan& plan) {
  constexpr size_t kRoundingBytes = size_t{64} << 10;  // of a tensor, at most
  size_t window_bytes = 0;
  for (const int64_t bytes : plan.sizes) {
    window_bytes += 2 * (static_cast<size_t>(bytes) + kRoundingBytes);
  }
  SharedWindows windows;
  windows.own = SharedWindow::Create(window_bytes, &environment.memory()).value();
  const CallOptions call = CallOptions::WithTimeout(environment.clock(), 60 * kSecondNs);
  Check(rank == 0 ? HandOutWindows(environment, meeting.from_first, call, &windows)
                  : TakeWindows(environment, meeting.to_first[static_cast<size_t>(rank)], rank,
                                plan.ranks, call, &windows));
  if (!windows.complete()) Die("no windows");
  return windows;
}

std::unique_ptr<Transport> MakeTransport(const Ref<RealEnvironment>& environment,
                                         Meeting& meeting, const Plan& plan, int rank) {
  const int ranks = plan.ranks;
  const bool spin = static_cast<size_t>(ranks) <= UsableCores();
  if (meeting.segment) {
    SharedGroupOptions options;
    options.name = "benchmark";
    options.rank = rank;
    options.size = ranks;
    options.spin = spin;
    options.table = plan.table;
    if (!meeting.to_first.empty()) {
      options.windows = PassWindows(*environment, meeting, rank, plan);
    }
    return SharedTransport::Create(environment, meeting.segment, options).value();
  }
  LinkTransport::Options options;
  options.name = "benchmark";
  options.rank = rank;
  options.size = ranks;
  options.spin = spin;
  options.table = plan.table;
  std::vector<std::unique_ptr<Link>> links(static_cast<size_t>(ranks));
  for (size_t peer = 0; peer < links.size(); ++peer) {
    FileDescriptor& socket = meeting.sockets[static_cast<size_t>(rank)][peer];
    if (socket) links[peer] = std::make_unique<TcpLink>(std::move(socket));
  }
  meeting.sockets.clear();  // the other ranks' ends
  return LinkTransport::Create(environment, options, std::move(links)).value();
}

void Fill(float value, Tensor* tensor) {
  Ref<Tensor> scalar = Cast(*Tensor::Scalar<float>(value), tensor->dtype()).value();
  auto* const bytes = static_cast<std::byte*>(tensor->mutable_data());
  const size_t item_bytes = scalar->byte_size();
  for (size_t at = 0; at < tensor->byte_size(); at += item_bytes) {
    std::memcpy(bytes + at, scalar->data(), item_bytes);
  }
}

double ProcessCpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void PrintCpu(const TimedCalls& timed, Communicator* communicator, int64_t bytes) {
  const double start = NowSeconds();
  timed.call();
  const double seconds = std::max(NowSeconds() - start, 1e-6);
  const int64_t calls =
      timed.agree(std::clamp<int64_t>(static_cast<int64_t>(timed.seconds / seconds), 5, 20'000));
  const double before = ProcessCpuSeconds();
  for (int64_t i = 0; i < calls; ++i) timed.call();
  Ref<Tensor> used = Tensor::Scalar<double>(ProcessCpuSeconds() - before);
  Check(communicator->AllReduce(*used, ReduceOp::kSum, CallOptions(), used.get()));
  if (communicator->rank() != 0) return;
  std::printf("cpu %lld %.4f\n", static_cast<long long>(bytes),
              used->item<double>() / static_cast<double>(calls * bytes) * (1 << 30));
  std::fflush(stdout);
}

// Asynchronous calls, each with an output of its own, and the waiting for them.
class CallsInFlight {
 public:
  CallsInFlight(const Plan& plan, Communicator* communicator, Tensor* input)
      : communicator_(communicator), input_(input) {
    for (int i = 0; i < plan.in_flight; ++i) {
      outputs_.push_back(Tensor::Create(input->dtype(), input->shape()).value());
    }
    if (plan.interruptible) {
      interrupt_ = MakeRef<Cancellation>([](void*) { return false; }, nullptr, nullptr);
    }
  }

  void Call() {
    const CallOptions patience{Deadline(), interrupt_.get()};
    for (const Ref<Tensor>& output : outputs_) {
      futures_.push_back(
          communicator_->AllReduceAsync(*input_, ReduceOp::kSum, CallOptions(), output.get())
              .value());
    }
    for (const Ref<Future>& future : futures_) {
      Ref<Value> none;
      Check(future->Wait(patience));
      Check(future->GetResult(&none));
    }
    futures_.clear();
  }

 private:
  Communicator* const communicator_;
  Tensor* const input_;
  Ref<Cancellation> interrupt_;
  std::vector<Ref<Tensor>> outputs_;
  std::vector<Ref<Future>> futures_;
};

void TimeRank(const Plan& plan, Communicator* communicator, std::atomic<uint64_t>* word) {
  const int rank = static_cast<int>(communicator->rank());
  const bool own_core = plan.bound && BindToCore(rank, plan.ranks);
  RoundTrips round_trips(word, rank);
  for (const int64_t bytes : plan.sizes) {
    const int64_t count = bytes / 4;
    const auto create = [&] {
      return plan.transport == "window" ? communicator->CreateTensor(plan.dtype, Shape({count}))
                                        : Tensor::Create(plan.dtype, Shape({count}));
    };
    Ref<Tensor> input = create().value();
    Ref<Tensor> output = plan.in_place ? input : create().value();
    Ref<Tensor> expected = Tensor::Create(plan.dtype, Shape({count})).value();
    Fill(-1, output.get());
    Fill(1, input.get());
    Fill(static_cast<float>(plan.ranks), expected.get());
    TimedCalls timed;
    timed.rank = rank;
    timed.seconds = plan.seconds;
    timed.call = [&] {
      if (plan.fresh) WriteAnew(input->mutable_data(), input->byte_size());
      Check(communicator->AllReduce(*input, ReduceOp::kSum, CallOptions(), output.get()));
      if (plan.fresh) ReadThrough(output->data(), output->byte_size());
    };
    const auto check = [&] {
      if (count != 0 &&
          std::memcmp(output->data(), expected->data(), expected->byte_size()) != 0) {
        Die("a wrong sum");
      }
    };
    timed.call();
    check();
    if (plan.in_place) {  // the sum of zeros stays zero
      Fill(0, input.get());
      Fill(0, expected.get());
    }
    CallsInFlight calls_in_flight(plan, communicator, input.get());
    if (plan.in_flight != 0) timed.call = [&] { calls_in_flight.Call(); };
    timed.agree = [&](int64_t number) {
      Ref<Tensor> agreed = Tensor::Scalar<int64_t>(number);
      Check(communicator->Broadcast(0, CallOptions(), agreed.get()));
      return agreed->item<int64_t>();
    };
    timed.round_trips = own_core && plan.ranks > 1 ? &round_trips : nullptr;
    timed.Print(bytes);
    check();
    if (plan.transport == "tcp") PrintCpu(timed, communicator, bytes);
  }
  Check(communicator->Close(CallOptions()));
}

void RunRank(Meeting& meeting, const Plan& plan, int rank, std::atomic<uint64_t>* word) {
  // The environment's threads stay free: only this one is bound.
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  std::unique_ptr<Transport> transport = MakeTransport(environment, meeting, plan, rank);
  Ref<Communicator> communicator =
      Communicator::CreateOver(environment.get(), "benchmark", rank, plan.ranks, 1,
                               std::move(transport))
          .value();
  TimeRank(plan, communicator.get(), word);
  communicator.reset();
  Check(environment->Shutdown(CallOptions()));
}

void RunThreads(const Plan& plan, std::atomic<uint64_t>* word) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  Communicator::LocalOptions options;
  options.table = plan.table;
  std::vector<Ref<Communicator>> ranks =
      Communicator::CreateLocal(environment.get(), static_cast<size_t>(plan.ranks), options)
          .value();
  std::vector<std::thread> threads;
  for (const Ref<Communicator>& rank : ranks) {
    threads.emplace_back([&plan, &rank, word] { TimeRank(plan, rank.get(), word); });
  }
  for (std::thread& thread : threads) thread.join();
  ranks.clear();
  Check(environment->Shutdown(CallOptions()));
}

// A word that processes forked off later share.
std::atomic<uint64_t>* SharedWord() {
  return static_cast<std::atomic<uint64_t>*>(SharedZeros(sizeof(std::atomic<uint64_t>)));
}

bool PingPong() {
  std::atomic<uint64_t>* const word = SharedWord();
  return RunProcesses(2, [&](int rank) {
    BindToCore(rank, 2);
    constexpr uint64_t kRounds = 2000;
    constexpr int kBatches = 15;
    RoundTrips round_trips(word, rank);
    std::vector<double> times;
    for (int batch = 0; batch < kBatches; ++batch) times.push_back(round_trips.Measure(kRounds));
    std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
    if (rank == 0) std::printf("%.1f\n", times[kBatches / 2]);
  });
}

int Main(int argc, char** argv) {
  Plan plan;
  plan.transport = argc > 1 ? argv[1] : "";
  if (plan.transport == "ping_pong" && argc == 2) return PingPong() ? 0 : 1;
  bool good = argc >= 5;
  for (int i = 5; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "unbound") {
      plan.bound = false;
    } else if (word == "in_place") {
      plan.in_place = true;
    } else if (word == "fresh") {
      plan.fresh = true;
    } else if (word == "bfloat16") {
      plan.dtype = DType::kBfloat16;
    } else if (word == "interruptible") {
      plan.interruptible = true;
    } else if (word.starts_with("in_flight=")) {
      plan.in_flight = std::atoi(word.c_str() + std::strlen("in_flight="));
    } else if (word.starts_with("table=")) {
      plan.table = SelectorTable::Parse(word.substr(6), "the command line").value();
    } else {
      good = good && word == "float32";
    }
  }
  // Outputs of calls in flight are not in windows, and nobody may write inputs meanwhile.
  good = good && (plan.in_flight == 0 || (plan.transport != "window" && !plan.fresh));
  if (!good) {
    std::fprintf(stderr, "usage: all_reduce_ranks (shared|window|tcp|in_process) RANKS SIZES "
                         "SECONDS "
                         "[float32|bfloat16] [in_place] [fresh] [unbound] [table=ROWS] "
                         "[in_flight=CALLS [interruptible]] | ping_pong\n");
    return 2;
  }
  plan.ranks = std::atoi(argv[2]);
  plan.sizes = ParseSizes(argv[3]);
  plan.seconds = std::atof(argv[4]);
  std::atomic<uint64_t>* const word = SharedWord();
  if (plan.transport == "in_process") {
    RunThreads(plan, word);
    return 0;
  }
  Meeting meeting = MakeMeeting(plan.transport, plan.ranks);
  return RunProcesses(plan.ranks, [&](int rank) { RunRank(meeting, plan, rank, word); }) ? 0 : 1;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }
