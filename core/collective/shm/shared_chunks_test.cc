// Collectives over a shared segment in chunks of other sizes than the built-in ones: what comes out
// is the same.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/real_environment.h"
#include "core/base/text.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_transport.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

constexpr int64_t kSize = 3;

Ref<Tensor> Ints(int64_t elements) {
  return Tensor::Create(DType::kInt32, Shape({elements})).value();
}

// Each element differs from those around it, on every rank.
Ref<Tensor> InputOf(int64_t rank, int64_t elements) {
  Ref<Tensor> tensor = Ints(elements);
  int32_t next = static_cast<int32_t>(rank) * 1000;
  for (int32_t& element : tensor->mutable_span<int32_t>()) element = (next++ * 7) % 100003;
  return tensor;
}

int32_t At(const Tensor& tensor, int64_t i) {
  return tensor.span<int32_t>()[static_cast<size_t>(i)];
}

// What a rank finds wrong, or "".
std::string Check(Communicator& communicator, int64_t share, const CallOptions& call) {
  const int64_t rank = communicator.rank();
  std::vector<Ref<Tensor>> inputs;
  for (int64_t r = 0; r < kSize; ++r) inputs.push_back(InputOf(r, share * kSize));
  const Tensor& mine = *inputs[static_cast<size_t>(rank)];
  const auto from = [&](int64_t r, int64_t i) { return At(*inputs[static_cast<size_t>(r)], i); };
  const auto sum = [&](int64_t i) { return from(0, i) + from(1, i) + from(2, i); };
  const auto differs = [&](const char* what, const Status& status, const Tensor& found,
                           const auto& expected) -> std::string {
    if (!status.ok()) return Format("{}: {}", what, status.ToString());
    for (int64_t i = 0; i < found.num_elements(); ++i) {
      if (At(found, i) != expected(i)) return Format("{} at {}", what, i);
    }
    return "";
  };
  std::string wrong;
  const auto note = [&](std::string text) { wrong += text.empty() ? "" : text + "; "; };

  Ref<Tensor> whole = InputOf(rank, share * kSize);
  Status status = communicator.Broadcast(1, call, whole.get());
  note(differs("broadcast", status, *whole, [&](int64_t i) { return from(1, i); }));
  status = communicator.AllToAll(mine, call, whole.get());
  note(differs("all_to_all", status, *whole,
               [&](int64_t i) { return from(i / share, rank * share + i % share); }));
  Ref<Tensor> part = Ints(share);
  status = communicator.Scatter(&mine, 2, call, part.get());
  note(differs("scatter", status, *part, [&](int64_t i) { return from(2, rank * share + i); }));
  status = communicator.AllGatherInto(*part, call, whole.get());
  note(differs("all_gather", status, *whole, [&](int64_t i) { return from(2, i); }));
  status = communicator.ReduceScatter(mine, ReduceOp::kSum, call, part.get());
  note(differs("reduce_scatter", status, *part, [&](int64_t i) { return sum(rank * share + i); }));
  status = communicator.Reduce(mine, ReduceOp::kSum, 0, call, whole.get());
  if (rank == 0) note(differs("reduce", status, *whole, sum));
  const std::vector<int64_t> rows = {share, 2 * share - 1, 1};
  Ref<Tensor> joined;
  status = communicator.AllToAllUneven(mine, rows, call, &joined, nullptr);
  if (!status.ok()) return wrong + "uneven: " + status.ToString();
  const int64_t count = rows[static_cast<size_t>(rank)];
  const int64_t first = rank == 0 ? 0 : rank == 1 ? share : 3 * share - 1;
  note(differs("uneven all_to_all", status, *joined,
               [&](int64_t i) { return from(i / count, first + i % count); }));
  return wrong;
}

class SharedChunks : public testing::TestWithParam<const char*> {};

TEST_P(SharedChunks, GiveTheSameResults) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<SharedSegment> segment =
      SharedSegment::Create(SharedTransport::SegmentBytes(kSize)).value();
  SharedGroupOptions options;
  options.name = "chunks";
  options.size = kSize;
  options.table = SelectorTable::Parse(GetParam(), "test").value();
  std::vector<std::string> wrong(kSize);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      SharedGroupOptions own = options;
      own.rank = rank;
      const Ref<Communicator> communicator =
          Communicator::CreateOver(environment.get(), "chunks", rank, kSize, own.epoch,
                                   SharedTransport::Create(environment, segment, own).value())
              .value();
      const CallOptions hang = CallOptions::WithTimeout(environment->clock(), 60 * kSecondNs);
      // In no chunk, one and a part, and as many as go round a block several times.
      for (const int64_t share : {1, 5000, 100'001}) {
        wrong[static_cast<size_t>(rank)] += Check(*communicator, share, hang);
      }
      if (!communicator->Close(CallOptions()).ok()) std::abort();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<std::string>(kSize));
  EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
}

constexpr const char* kRows[] = {
    "",
    "broadcast shared_memory any any segments 16KiB;"
    "all_to_all shared_memory any any segments 16KiB;"
    "scatter shared_memory any any segments 17KiB;"
    "all_gather shared_memory any any segments 19KiB;"
    "reduce_scatter shared_memory any any slice_fold 16KiB;"
    "reduce shared_memory any any slice_fold 21KiB",
    "broadcast shared_memory any any segments 256KiB;"
    "all_to_all shared_memory any any segments 100KiB;"
    "scatter shared_memory any any segments 127KiB;"
    "reduce_scatter shared_memory any any slice_fold 99KiB"};

INSTANTIATE_TEST_SUITE_P(Table, SharedChunks, testing::ValuesIn(kRows));

}  // namespace
}  // namespace tutti
