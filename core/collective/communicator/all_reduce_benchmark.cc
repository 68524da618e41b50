// all_reduce between ranks of one process, from 8 bytes to 64 MiB, and barriers. The benchmark's
// own thread is rank 0; the time is that of one call of all ranks. Each rank is bound to a core of
// its own where there are enough: a scheduler that keeps two ranks on one core measures itself.
//
// PingPong shows how the machine has placed two threads: a round trip of about 100 ns between
// siblings of one core, several hundred between cores. Figures of different placements cannot be
// compared.

#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/collective/communicator/packing.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {
namespace {

// Binds the calling thread to the usable core number `index`, and lets go at the end.
class BoundToCore {
 public:
  BoundToCore(size_t index, size_t threads) {
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0) CPU_ZERO(&before_);
    if (threads > static_cast<size_t>(CPU_COUNT(&before_))) return;
    int core = 0;
    for (size_t skipped = 0; !CPU_ISSET(core, &before_) || skipped++ < index;) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~BoundToCore() { sched_setaffinity(0, sizeof(before_), &before_); }
  BoundToCore(const BoundToCore&) = delete;
  BoundToCore& operator=(const BoundToCore&) = delete;

 private:
  cpu_set_t before_;
};

// Runs call(communicator, rank) on all ranks, again and again, and counts those of rank 0. The
// first call is not timed: it touches the memory. The peers stop when rank 0 aborts.
template <typename Call>
void TimeCalls(benchmark::State& state, size_t ranks, Call call) {
  RankGroup group(ranks);
  std::vector<std::thread> peers;
  for (size_t rank = 1; rank < ranks; ++rank) {
    peers.emplace_back([&, rank] {
      const BoundToCore bound(rank, ranks);
      while (call(group[rank], rank).ok()) {
      }
    });
  }
  const BoundToCore bound(0, ranks);
  Status status = call(group[0], 0);
  for (auto _ : state) {
    if (status.ok()) status = call(group[0], 0);
  }
  group[0].Abort(OkStatus());
  for (std::thread& peer : peers) peer.join();
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

// One tensor per rank, full of ones, so that no page is shared or missing.
std::vector<Ref<Tensor>> OnesPerRank(size_t ranks, DType dtype, int64_t bytes, char one = '\1') {
  std::vector<Ref<Tensor>> tensors;
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  for (size_t rank = 0; rank < ranks; ++rank) {
    tensors.push_back(Tensor::Create(dtype, Shape({bytes / item})).value());
    std::fill_n(static_cast<char*>(tensors.back()->mutable_data()), bytes, one);
  }
  return tensors;
}

void AllReduce(benchmark::State& state, DType dtype, size_t ranks, bool in_place) {
  const int64_t bytes = state.range(0);
  std::vector<Ref<Tensor>> inputs = OnesPerRank(ranks, dtype, bytes);
  std::vector<Ref<Tensor>> outputs = in_place ? inputs : OnesPerRank(ranks, dtype, bytes);
  // MAX leaves in-place inputs as they are; it moves as many bytes as a sum.
  const ReduceOp op = in_place ? ReduceOp::kMax : ReduceOp::kSum;
  TimeCalls(state, ranks, [&](Communicator& communicator, size_t rank) {
    return communicator.AllReduce(*inputs[rank], op, CallOptions(), outputs[rank].get());
  });
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Float32Of2(benchmark::State& state) { AllReduce(state, DType::kFloat32, 2, false); }
BENCHMARK(Float32Of2)->UseRealTime()->RangeMultiplier(4)->Range(8, 64 << 20);

void Float32Of2InPlace(benchmark::State& state) { AllReduce(state, DType::kFloat32, 2, true); }
BENCHMARK(Float32Of2InPlace)->UseRealTime()->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);

// Of zeros, as numerics are checked and not.
void ZerosInPlace(benchmark::State& state, Observed observed) {
  std::vector<Ref<Tensor>> tensors = OnesPerRank(2, DType::kFloat32, state.range(0), '\0');
  TimeCalls(state, 2, [&](Communicator& communicator, size_t rank) {
    const ObservedScope scope(observed);
    return communicator.AllReduce(*tensors[rank], ReduceOp::kSum, CallOptions(),
                                  tensors[rank].get());
  });
}
void Float32Of2SumInPlace(benchmark::State& state) { ZerosInPlace(state, Observed::kAsBefore); }
BENCHMARK(Float32Of2SumInPlace)->UseRealTime()->Arg(1 << 20);
void Float32Of2SumChecked(benchmark::State& state) { ZerosInPlace(state, Observed::kChecked); }
BENCHMARK(Float32Of2SumChecked)->UseRealTime()->Arg(1 << 20);

void Bfloat16Of2(benchmark::State& state) { AllReduce(state, DType::kBfloat16, 2, false); }
BENCHMARK(Bfloat16Of2)->UseRealTime()->Arg(8 << 10)->Arg(16 << 10)->Arg(1 << 20);

// As many elements of twice the size.
BENCHMARK(Float32Of2)->UseRealTime()->Arg(16 << 10)->Arg(32 << 10)->Arg(2 << 20);

void Float32Of4(benchmark::State& state) { AllReduce(state, DType::kFloat32, 4, false); }
BENCHMARK(Float32Of4)->UseRealTime()->Arg(8)->Arg(64 << 10)->Arg(1 << 20);

// Many small tensors in packs of so many bytes: all in one call, or a call each.
void List(benchmark::State& state, int64_t bytes) {
  const int64_t bytes_per_pack = state.range(1);
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<Ref<Tensor>> tensors[2];
  std::vector<const Tensor*> inputs[2];
  std::vector<Tensor*> outputs[2];
  for (size_t rank = 0; rank < 2; ++rank) {
    // Zeros stay zeros, however often they are summed in place.
    tensors[rank] = OnesPerRank(count, DType::kFloat32, bytes, '\0');
    for (const Ref<Tensor>& tensor : tensors[rank]) {
      inputs[rank].push_back(tensor.get());
      outputs[rank].push_back(tensor.get());
    }
  }
  TimeCalls(state, 2, [&](Communicator& communicator, size_t rank) {
    return AllReduceInPacks(communicator, inputs[rank], ReduceOp::kSum, bytes_per_pack,
                            CallOptions(), outputs[rank]);
  });
  state.SetBytesProcessed(state.iterations() * state.range(0) * bytes);
}
void ListOf4KiB(benchmark::State& state) { List(state, 4096); }
BENCHMARK(ListOf4KiB)
    ->UseRealTime()
    ->ArgNames({"tensors", "bytes_per_pack"})
    ->Args({1000, 0})
    ->Args({1000, 256 << 10})
    ->Args({1000, 1});
// What a tensor of a list costs beside its bytes.
void ListOf8(benchmark::State& state) { List(state, 8); }
BENCHMARK(ListOf8)->UseRealTime()->ArgNames({"tensors", "bytes_per_pack"})->Args({1000, 0});

void Barrier(benchmark::State& state) {
  TimeCalls(state, static_cast<size_t>(state.range(0)), [](Communicator& communicator, size_t) {
    return communicator.Barrier(CallOptions());
  });
}
BENCHMARK(Barrier)->UseRealTime()->Arg(1)->Arg(2)->Arg(4);

// A round trip of one cache line between two threads.
void PingPong(benchmark::State& state) {
  constexpr uint64_t kStop = ~uint64_t{0};
  alignas(128) std::atomic<uint64_t> word{0};  // even: this thread's turn
  std::thread peer([&] {
    const BoundToCore bound(1, 2);
    uint64_t seen = 0;
    while (seen != kStop) {
      seen = word.load(std::memory_order_acquire);
      if (seen != kStop && seen % 2 == 1) word.store(seen + 1, std::memory_order_release);
    }
  });
  const BoundToCore bound(0, 2);
  uint64_t turn = 0;
  for (auto _ : state) {
    word.store(turn + 1, std::memory_order_release);
    turn += 2;
    while (word.load(std::memory_order_acquire) != turn) {
    }
  }
  word.store(kStop, std::memory_order_release);
  peer.join();
}
BENCHMARK(PingPong)->UseRealTime();

}  // namespace
}  // namespace tutti
