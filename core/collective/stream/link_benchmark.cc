// all_reduce over links between threads, from 8 bytes to 64 MiB: TCP over the loopback interface,
// and rings in shared memory. Spinning is as it would be: on where every rank can have a core.

#include <benchmark/benchmark.h>

#include <thread>
#include <vector>

#include "core/base/usable_cores.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

void AllReduce(benchmark::State& state, LinkKind kind) {
  const auto ranks = static_cast<size_t>(state.range(0));
  const int64_t bytes = state.range(1);
  LinkRanks links(ranks, kind, /*spin=*/ranks <= UsableCores());
  std::vector<Ref<Tensor>> inputs;
  std::vector<Ref<Tensor>> outputs;
  for (size_t rank = 0; rank < ranks; ++rank) {
    inputs.push_back(Tensor::Create(DType::kFloat32, Shape({bytes / 4})).value());
    outputs.push_back(Tensor::Create(DType::kFloat32, Shape({bytes / 4})).value());
  }
  const auto call = [&](size_t rank) {
    return links[rank].AllReduce(*inputs[rank], ReduceOp::kSum, CallOptions(), outputs[rank].get());
  };
  std::vector<std::thread> peers;
  for (size_t rank = 1; rank < ranks; ++rank) {
    peers.emplace_back([&, rank] {
      while (call(rank).ok()) {
      }
    });
  }
  Status status = call(0);
  for (auto _ : state) {
    if (status.ok()) status = call(0);
  }
  links[0].Abort(OkStatus());
  for (std::thread& peer : peers) peer.join();
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Tcp(benchmark::State& state) { AllReduce(state, LinkKind::kTcp); }
void Ring(benchmark::State& state) { AllReduce(state, LinkKind::kRing); }

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (int64_t ranks : {2, 4}) {
    for (int64_t bytes : {8, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20}) {
      benchmark->Args({ranks, bytes});
    }
  }
  benchmark->ArgNames({"ranks", "bytes"})->UseRealTime();
}

BENCHMARK(Tcp)->Apply(Sizes);
BENCHMARK(Ring)->Apply(Sizes);

}  // namespace
}  // namespace tutti
