// NCCL through the plugin on one GPU: one rank, and two ranks where NCCL allows that, with figures
// beside NCCL alone. On the fake driver the same runs, and the figures say nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "core/cuda/driver.h"
#include "core/cuda/nccl.h"
#include "core/device/gpu_communicator.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

using std::chrono::steady_clock;

class NcclOnGpu : public Gpu {
 protected:
  void SetUp() override {
    if (!IsReal()) setenv("TUTTI_NCCL_LIBRARY", TUTTI_GPU_NCCL, 1);
    fake::Machine machine;
    machine.memory_bytes = uint64_t{8} << 20;
    Open(machine);
    if (IsSkipped()) return;
    const auto found = FindGpuCollectives(*plugin_);
    if (!found.ok()) GTEST_SKIP() << found.status().ToString();
    GPU_OK(found);
    found_ = found.value();
    std::printf("  NCCL %s from %s\n", found_.version_text().c_str(), found_.origin.c_str());
    place_.plugin = plugin_;
    place_.id = DeviceId{DeviceType::kGpu, 0};
  }

  void TearDown() override {
    place_.plugin.reset();
    Gpu::TearDown();
  }

  struct Rank {
    Ref<GpuStream> stream;
    Ref<GpuCommunicator> communicator;
    void* in = nullptr;
    void* out = nullptr;
  };

  void Make(std::vector<Rank>* ranks, uint64_t bytes) {
    const auto id = NewGpuCommunicatorId(*plugin_);
    GPU_OK(id);
    const int n = static_cast<int>(ranks->size());
    for (int i = 0; i < n; ++i) {
      Rank& rank = (*ranks)[static_cast<size_t>(i)];
      auto stream = GpuStream::Create(place_);
      GPU_OK(stream);
      rank.stream = std::move(stream).value();
      auto made = GpuCommunicator::Begin(place_, {id.value(), i, n, 0, 0});
      GPU_OK(made);
      rank.communicator = std::move(made).value();
      GPU_OK(api().allocate_on_stream(rank.stream->raw(), bytes, &rank.in));
      GPU_OK(api().allocate_on_stream(rank.stream->raw(), bytes, &rank.out));
    }
    const CallOptions options = CallOptions::WithTimeout(RealClock(), 60 * kSecondNs);
    for (Rank& rank : *ranks) GPU_OK(rank.communicator->AwaitReady({&options, &RealClock()}));
  }
  void GiveBack(std::vector<Rank>* ranks) {
    const CallOptions options = CallOptions::WithTimeout(RealClock(), 30 * kSecondNs);
    for (Rank& rank : *ranks) {
      GPU_OK(rank.stream->Wait({&options, &RealClock()}));
      rank.communicator.reset();
      GPU_OK(api().release_on_stream(rank.stream->raw(), rank.in));
      GPU_OK(api().release_on_stream(rank.stream->raw(), rank.out));
      GPU_OK(rank.stream->Wait());
    }
  }
  void Write(const Rank& rank, const std::vector<float>& numbers) {
    GPU_OK(api().copy(rank.stream->raw(), TUTTI_PLUGIN_HOST_TO_DEVICE, rank.in, numbers.data(),
                      numbers.size() * sizeof(float)));
  }
  std::vector<float> Read(const Rank& rank, size_t count) {
    std::vector<float> numbers(count);
    const Status copied =
        AsStatus(api().copy(rank.stream->raw(), TUTTI_PLUGIN_DEVICE_TO_HOST, numbers.data(),
                            rank.out, count * sizeof(float)));
    EXPECT_TRUE(copied.ok()) << copied.ToString();
    EXPECT_TRUE(rank.stream->Wait().ok());
    return numbers;
  }

  GpuPlace place_;
  GpuCollectives found_;
};

// NCCL with no plugin before it, on the same device and stream.
class Alone {
 public:
  Status Start(const GpuStream& stream) {
    std::string reason;
    if (!driver_.Load(&reason) || library_.Load(&reason) != 0) {
      return Status(StatusCode::kNotFound, reason);
    }
    cuda::DeviceOrdinal device = 0;
    cuda::nccl::UniqueId id;
    cuda::nccl::Config config;
    config.blocking = IsReal() ? 1 : 0;  // the fake one knows no other way
    stream_ = reinterpret_cast<cuda::Stream>(stream.handle());
    const bool done = driver_.DeviceGet(&device, 0) == 0 &&
                      driver_.DevicePrimaryCtxRetain(&context_, device) == 0 &&
                      driver_.CtxPushCurrent(context_) == 0 && library_.GetUniqueId(&id) == 0 &&
                      library_.CommInitRankConfig(&comm_, 1, id, 0, &config) % 7 == 0;
    cuda::nccl::Outcome error = 0;
    while (done && library_.CommGetAsyncError(comm_, &error) == 0 && error == 7) {
    }
    device_ = device;
    return done ? OkStatus() : Status(StatusCode::kInternal, "NCCL alone does not start");
  }
  void End() {
    cuda::Context context = nullptr;
    library_.CommAbort(comm_);
    driver_.CtxPopCurrent(&context);
    driver_.DevicePrimaryCtxRelease(device_);
  }
  void AllReduce(const void* in, void* out, size_t count) {
    EXPECT_EQ(library_.AllReduce(in, out, count, cuda::nccl::kFloat32, cuda::nccl::kSum, comm_,
                                 stream_),
              0);
  }

 private:
  cuda::Driver driver_;
  cuda::nccl::Library library_;
  cuda::Context context_ = nullptr;
  cuda::DeviceOrdinal device_ = 0;
  cuda::nccl::Comm comm_ = nullptr;
  cuda::Stream stream_ = nullptr;
};

// Microseconds of a call, of `calls` in a row with a wait behind them.
template <class Work>
double Microseconds(const GpuStream& stream, int calls, Work work) {
  EXPECT_TRUE(stream.Wait().ok());
  const auto began = steady_clock::now();
  for (int i = 0; i < calls; ++i) work();
  EXPECT_TRUE(stream.Wait().ok());
  return std::chrono::duration<double, std::micro>(steady_clock::now() - began).count() / calls;
}

TEST_F(NcclOnGpu, OneRankGivesItsInputAndTakesAsLongAsNcclAlone) {
  const uint64_t large = IsReal() ? uint64_t{256} << 20 : uint64_t{1} << 20;
  std::vector<Rank> ranks(1);
  Make(&ranks, large);
  if (HasFatalFailure()) return;
  Rank& rank = ranks[0];
  const std::vector<float> numbers = {1.5f, -2, 3e20f, 0};
  Write(rank, numbers);
  GpuCommunicator& comm = *rank.communicator;
  GPU_OK(comm.AllReduce(*rank.stream, ReduceOp::kSum, DType::kFloat32, rank.in, rank.out, 4));
  EXPECT_EQ(Read(rank, 4), numbers);
  for (const ReduceOp op : {ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kProd}) {
    GPU_OK(comm.ReduceScatter(*rank.stream, op, DType::kFloat32, rank.in, rank.out, 4));
    EXPECT_EQ(Read(rank, 4), numbers);
  }
  GPU_OK(comm.AllGather(*rank.stream, DType::kComplex64, rank.in, rank.out, 2));
  EXPECT_EQ(Read(rank, 4), numbers);
  GPU_OK(comm.Broadcast(*rank.stream, DType::kInt16, rank.in, rank.out, 8, 0));
  EXPECT_EQ(Read(rank, 4), numbers);
  Alone alone;
  GPU_OK(alone.Start(*rank.stream));
  for (const uint64_t bytes : {uint64_t{1024}, large}) {
    const size_t count = bytes / sizeof(float);
    const int calls = !IsReal() ? 3 : bytes == 1024 ? 2000 : 50;
    std::vector<double> ours, theirs;
    for (int run = 0; run < 9; ++run) {
      ours.push_back(Microseconds(*rank.stream, calls, [&] {
        EXPECT_TRUE(comm.AllReduce(*rank.stream, ReduceOp::kSum, DType::kFloat32, rank.in,
                                   rank.out, count).ok());
      }));
      theirs.push_back(Microseconds(*rank.stream, calls,
                                    [&] { alone.AllReduce(rank.in, rank.out, count); }));
    }
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    std::printf("  one rank, %llu KiB: %.2f us, NCCL alone %.2f us: %+.2f us, %+.2f %%\n",
                static_cast<unsigned long long>(bytes / 1024), ours[4], theirs[4],
                ours[4] - theirs[4], 100 * (ours[4] / theirs[4] - 1));
  }
  alone.End();
  GPU_OK(comm.Finalize());
  GiveBack(&ranks);
}

TEST_F(NcclOnGpu, TwoRanksOnOneGpuSum) {
  if (!found_.can(TUTTI_PLUGIN_CAN_SHARE_DEVICES)) {
    GTEST_SKIP() << "NCCL " << found_.version_text() << " takes one rank for each device";
  }
  GPU_OK(ConfigureGpuCollectives(*plugin_, {"", true, ""}));
  const uint64_t large = IsReal() ? uint64_t{256} << 20 : uint64_t{1} << 20;
  std::vector<Rank> ranks(2);
  Make(&ranks, large);
  if (HasFatalFailure()) return;
  Write(ranks[0], {1, 2, 3, 4});
  Write(ranks[1], {10, 20, 30, 40});
  const auto all = [&](uint64_t count) {
    auto group = GpuGroup::Start(plugin_);
    EXPECT_TRUE(group.ok());
    for (Rank& rank : ranks) {
      const Status status = rank.communicator->AllReduce(*rank.stream, ReduceOp::kSum,
                                                         DType::kFloat32, rank.in, rank.out,
                                                         count);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    const CallOptions options = CallOptions::WithTimeout(RealClock(), 30 * kSecondNs);
    const Status ended = group.value().End({&options, &RealClock()});
    EXPECT_TRUE(ended.ok()) << ended.ToString();
  };
  all(4);
  for (const Rank& rank : ranks) {
    EXPECT_EQ(Read(rank, 4), (std::vector<float>{11, 22, 33, 44}));
  }
  for (const uint64_t bytes : {uint64_t{1024}, large}) {
    const int calls = !IsReal() ? 3 : bytes == 1024 ? 500 : 20;
    const double us = Microseconds(*ranks[0].stream, calls, [&] { all(bytes / sizeof(float)); });
    std::printf("  two ranks on one GPU, %llu KiB: %.2f us\n",
                static_cast<unsigned long long>(bytes / 1024), us);
  }
  GiveBack(&ranks);
  if (!IsReal()) unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

}  // namespace
}  // namespace tutti::gpu
