// Calls over a shared segment, from 8 bytes to 64 MiB, and barriers; peers are threads, which
// move the same cache lines as processes would. tests/benchmarks compares processes with other
// systems. Each rank is bound to a core where there are enough.

#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/base/usable_cores.h"
#include "core/collective/communicator/future.h"
#include "core/collective/testing/shared_rank_testing.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

void BindToCore(size_t index) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return;
  int core = 0;
  for (size_t skipped = 0; !CPU_ISSET(core, &usable) || skipped++ < index;) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

// Runs call(communicator) on all ranks, again and again, and times those of rank 0. The first call
// touches the memory. The peers stop when rank 0 aborts.
template <typename Call>
void TimeCalls(benchmark::State& state, size_t ranks, Call call) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  {
    const auto size = static_cast<int64_t>(ranks);
    const Ref<SharedSegment> segment =
        SharedSegment::Create(SharedTransport::SegmentBytes(size)).value();
    const size_t cores = UsableCores();
    std::vector<std::thread> threads;
    Status status;
    for (size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        if (ranks <= cores) BindToCore(rank);
        SharedRank self(environment, segment, static_cast<int64_t>(rank), size, ranks <= cores);
        if (rank != 0) {
          while (call(self.communicator(), rank).ok()) {
          }
          return;
        }
        status = call(self.communicator(), rank);
        for (auto _ : state) {
          if (status.ok()) status = call(self.communicator(), rank);
        }
        self.communicator().Abort(OkStatus());
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
  if (!environment->Shutdown(CallOptions()).ok()) std::abort();
}

void SharedAllReduce(benchmark::State& state, size_t ranks) {
  const int64_t bytes = state.range(0);
  std::vector<Ref<Tensor>> inputs;
  std::vector<Ref<Tensor>> outputs;
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (std::vector<Ref<Tensor>>* tensors : {&inputs, &outputs}) {
      tensors->push_back(Tensor::Create(DType::kFloat32, Shape({bytes / 4})).value());
      std::fill_n(static_cast<char*>(tensors->back()->mutable_data()), bytes, '\1');
    }
  }
  TimeCalls(state, ranks, [&](Communicator& communicator, size_t rank) {
    return communicator.AllReduce(*inputs[rank], ReduceOp::kSum, CallOptions(),
                                  outputs[rank].get());
  });
  state.SetBytesProcessed(state.iterations() * bytes);
}

void SharedFloat32Of2(benchmark::State& state) { SharedAllReduce(state, 2); }
BENCHMARK(SharedFloat32Of2)->UseRealTime()->RangeMultiplier(8)->Range(8, 64 << 20);

// What a call costs without its waiting.
void SharedFloat32Of1(benchmark::State& state) { SharedAllReduce(state, 1); }
BENCHMARK(SharedFloat32Of1)->UseRealTime()->Arg(8);

void SharedFloat32Of4(benchmark::State& state) { SharedAllReduce(state, 4); }
BENCHMARK(SharedFloat32Of4)->UseRealTime()->Arg(8)->Arg(64 << 10)->Arg(1 << 20);

// Asynchronous calls, so many at a time, and the waiting for all of them.
void SharedInFlight(benchmark::State& state) {
  const auto calls = static_cast<size_t>(state.range(1));
  std::vector<Ref<Tensor>> tensors[2];
  for (std::vector<Ref<Tensor>>& of_rank : tensors) {
    for (size_t i = 0; i < calls; ++i) {
      of_rank.push_back(Tensor::Create(DType::kFloat32, Shape({state.range(0) / 4})).value());
    }
  }
  TimeCalls(state, 2, [&](Communicator& communicator, size_t rank) {
    std::vector<Ref<Future>> futures;
    for (const Ref<Tensor>& tensor : tensors[rank]) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Future> future,
                             communicator.AllReduceAsync(*tensor, ReduceOp::kSum, CallOptions(),
                                                         tensor.get()));
      futures.push_back(std::move(future));
    }
    for (const Ref<Future>& future : futures) {
      Ref<Value> none;
      TUTTI_RETURN_IF_ERROR(future->Wait(CallOptions()));
      TUTTI_RETURN_IF_ERROR(future->GetResult(&none));
    }
    return OkStatus();
  });
  state.SetItemsProcessed(state.iterations() * state.range(1));
}
BENCHMARK(SharedInFlight)
    ->UseRealTime()
    ->ArgNames({"bytes", "calls"})
    ->Args({4096, 1})
    ->Args({4096, 16})
    ->Args({1 << 20, 16});

// One call of two ranks, on float32 of that many bytes: of the longer of input and output.
template <typename Call>
void TimeMoves(benchmark::State& state, Call call) {
  const int64_t bytes = state.range(0);
  std::vector<Ref<Tensor>> wholes;
  std::vector<Ref<Tensor>> others;
  for (size_t rank = 0; rank < 2; ++rank) {
    for (std::vector<Ref<Tensor>>* tensors : {&wholes, &others}) {
      tensors->push_back(Tensor::Create(DType::kFloat32, Shape({bytes / 4})).value());
      std::fill_n(static_cast<char*>(tensors->back()->mutable_data()), bytes, '\1');
    }
  }
  TimeCalls(state, 2, [&](Communicator& communicator, size_t rank) {
    return call(communicator, *wholes[rank], *others[rank]);
  });
  state.SetBytesProcessed(state.iterations() * bytes);
}

void SharedReduce(benchmark::State& state) {
  TimeMoves(state, [](Communicator& communicator, Tensor& input, Tensor& output) {
    return communicator.Reduce(input, ReduceOp::kSum, 0, CallOptions(), &output);
  });
}
void SharedReduceScatter(benchmark::State& state) {
  TimeMoves(state, [](Communicator& communicator, Tensor& input, Tensor& output) {
    const Ref<Tensor> share = output.Slice(0, output.dim(0) / 2);
    return communicator.ReduceScatter(input, ReduceOp::kSum, CallOptions(), share.get());
  });
}
void SharedAllGatherInto(benchmark::State& state) {
  TimeMoves(state, [](Communicator& communicator, Tensor& input, Tensor& output) {
    const Ref<Tensor> part = input.Slice(0, input.dim(0) / 2);
    return communicator.AllGatherInto(*part, CallOptions(), &output);
  });
}
void SharedAllToAll(benchmark::State& state) {
  TimeMoves(state, [](Communicator& communicator, Tensor& input, Tensor& output) {
    return communicator.AllToAll(input, CallOptions(), &output);
  });
}
// There and back.
void SharedSendAndReceive(benchmark::State& state) {
  TimeMoves(state, [](Communicator& communicator, Tensor& input, Tensor& output) {
    const int64_t peer = 1 - communicator.rank();
    if (peer == 0) TUTTI_RETURN_IF_ERROR(communicator.Receive(0, CallOptions(), &output));
    TUTTI_RETURN_IF_ERROR(communicator.Send(input, peer, CallOptions()));
    return peer == 0 ? OkStatus() : communicator.Receive(1, CallOptions(), &output);
  });
}
BENCHMARK(SharedReduce)->UseRealTime()->Arg(8)->Arg(1 << 20)->Arg(64 << 20);
BENCHMARK(SharedReduceScatter)->UseRealTime()->Arg(8)->Arg(1 << 20)->Arg(64 << 20);
BENCHMARK(SharedAllGatherInto)->UseRealTime()->Arg(8)->Arg(1 << 20)->Arg(64 << 20);
BENCHMARK(SharedAllToAll)->UseRealTime()->Arg(8)->Arg(1 << 20)->Arg(64 << 20);
BENCHMARK(SharedSendAndReceive)->UseRealTime()->Arg(8)->Arg(1 << 20)->Arg(64 << 20);

void SharedBarrier(benchmark::State& state) {
  TimeCalls(state, static_cast<size_t>(state.range(0)), [](Communicator& communicator, size_t) {
    return communicator.Barrier(CallOptions());
  });
}
BENCHMARK(SharedBarrier)->UseRealTime()->Arg(1)->Arg(2)->Arg(4);

}  // namespace
}  // namespace tutti
