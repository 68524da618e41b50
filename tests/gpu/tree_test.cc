// Links between GPUs, and all_reduces along a tree of them.
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_pack.h"
#include "core/device/gpu_peers.h"
#include "core/device/gpu_tree.h"
#include "core/tensor/cast.h"
#include "core/tensor/copy.h"
#include "core/tensor/reduce.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Links between `count` devices but for those of `apart`.
std::vector<GpuTreeStep> PlanWithout(size_t count,
                                     const std::set<std::pair<size_t, size_t>>& apart) {
  return PlanGpuTree(count, [&](size_t a, size_t b) {
    return apart.count(std::minmax(a, b)) == 0;
  });
}

TEST(GpuTreePlan, PairsNeighboursWhereAllAreLinked) {
  EXPECT_THAT(PlanWithout(1, {}), ElementsAre());
  EXPECT_THAT(PlanWithout(2, {}), ElementsAre(GpuTreeStep{0, 1}));
  EXPECT_THAT(PlanWithout(5, {}), ElementsAre(GpuTreeStep{0, 1}, GpuTreeStep{2, 3},
                                              GpuTreeStep{0, 2}, GpuTreeStep{0, 4}));
}

TEST(GpuTreePlan, FollowsTheLinksAndNeedsNone) {
  // 0 - 2 and 1 - 3 alone.
  EXPECT_THAT(PlanWithout(4, {{0, 1}, {0, 3}, {1, 2}, {2, 3}}),
              ElementsAre(GpuTreeStep{0, 2}, GpuTreeStep{1, 3}, GpuTreeStep{0, 1}));
  EXPECT_THAT(PlanGpuTree(3, [](size_t, size_t) { return false; }),
              ElementsAre(GpuTreeStep{0, 1}, GpuTreeStep{0, 2}));
}

TEST(GpuPacks, AreCutByCountDTypeAndBytes) {
  using Cuts = std::vector<std::pair<size_t, size_t>>;
  const GpuPackPart parts[] = {{DType::kFloat32, 40}, {DType::kFloat32, 40}, {DType::kFloat32, 8},
                               {DType::kInt32, 8},    {DType::kInt32, 100},  {DType::kInt32, 4}};
  EXPECT_EQ(CutGpuPacks(parts, 0, 0), (Cuts{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}}));
  EXPECT_EQ(CutGpuPacks(parts, 1, 0), (Cuts{{0, 3}, {3, 6}}));
  EXPECT_EQ(CutGpuPacks(parts, 2, 0), (Cuts{{0, 3}, {3, 6}}));
  EXPECT_EQ(CutGpuPacks(parts, 1, 50), (Cuts{{0, 1}, {1, 3}, {3, 4}, {4, 5}, {5, 6}}));
  EXPECT_EQ(CutGpuPacks(parts, 9, 0).size(), 6u);
  EXPECT_TRUE(CutGpuPacks({}, 1, 0).empty());
}

class GpuTrees : public Gpu {
 protected:
  void SetUp() override {
    if (IsReal()) GTEST_SKIP() << "a tree needs several devices";
    Machine(4, {});
  }
  void TearDown() override {
    if (IsReal()) return;
    GiveBack();
    Gpu::TearDown();
  }
  void GiveBack() {
    if (memories_.empty()) return;
    memories_.clear();
    Close();
    // Memory goes back in the order of streams that nobody holds any more.
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (FakeFunction<fake::CountThings>(fake::kCountThings)() != 0 &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
  }

  // `apart`: pairs of devices that have no link.
  void Machine(int devices, const std::set<std::pair<int, int>>& apart) {
    GiveBack();
    fake::Machine machine;
    machine.devices = devices;
    machine.memory_bytes = 4 << 20;
    for (const auto& [a, b] : apart) {
      machine.apart[a] |= static_cast<uint8_t>(1 << b);
      machine.apart[b] |= static_cast<uint8_t>(1 << a);
    }
    Open(machine);
    for (int d = 0; d < devices; ++d) {
      memories_.push_back(MakeRef<GpuMemory>(
          GpuPlace{plugin_, d, DeviceId{DeviceType::kGpu, d}, nullptr}));
    }
  }
  bool HasKernels() { return memories_[0]->has_kernels(); }
  fake::Done Done() {
    fake::Done done;
    FakeFunction<fake::CountDone>(fake::kCountDone)(&done);
    return done;
  }

  // Numbers whose sums show their order, different on each device.
  static Ref<Tensor> Numbers(DType dtype, int64_t count, size_t device) {
    const Ref<Tensor> numbers = Tensor::Create(DType::kFloat64, Shape({count})).value();
    const std::span<double> all = numbers->mutable_span<double>();
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = (IsInteger(dtype) ? 10 : 1.0 / 3) * static_cast<double>((i * 7 + device * 5) % 11) +
               (IsInteger(dtype) ? 0 : 1e-3 * static_cast<double>(device));
    }
    return Cast(*numbers, dtype).value();
  }
  // The fold of the tree of `steps` on the host.
  static Ref<Tensor> Expected(ReduceOp op, std::vector<Ref<Tensor>> now,
                              const std::vector<GpuTreeStep>& steps) {
    const DType dtype = now[0]->dtype();
    const bool widened = (dtype == DType::kFloat16 || dtype == DType::kBfloat16) &&
                         op != ReduceOp::kMin && op != ReduceOp::kMax;
    const size_t count = now.size();
    for (Ref<Tensor>& each : now) {
      if (widened) each = Cast(*each, DType::kFloat32).value();
    }
    for (const GpuTreeStep& step : steps) {
      const Tensor* const both[] = {now[step.to].get(), now[step.from].get()};
      now[step.to] = Reduce(op == ReduceOp::kMean ? ReduceOp::kSum : op, both).value();
    }
    Ref<Tensor> made = now[0];
    if (op == ReduceOp::kMean) {
      // Exact: their number is a power of two.
      std::vector<const Tensor*> zeros = {made.get()};
      const Ref<Tensor> zero = Tensor::Create(made->dtype(), made->shape()).value();
      while (zeros.size() < count) zeros.push_back(zero.get());
      made = Reduce(ReduceOp::kMean, zeros).value();
    }
    return Cast(*made, dtype).value();
  }
  void ExpectTree(ReduceOp op, DType dtype, const std::vector<GpuTreeStep>& steps,
                  int64_t num_packs = 1, int64_t bytes_per_pack = 0) {
    const std::string about = Format("{} of {}", ReduceOpName(op), DTypeName(dtype));
    std::vector<std::vector<Ref<Tensor>>> here(3), there(3);
    const int64_t sizes[] = {37, 0, 300};
    for (size_t i = 0; i < 3; ++i) {
      for (size_t d = 0; d < memories_.size(); ++d) {
        here[i].push_back(Numbers(dtype, sizes[i], d + i));
        there[i].push_back(CopyToGpu(*here[i][d], *memories_[d]).value());
      }
      GPU_OK(CheckGpuTree(op, there[i]));
    }
    const auto folds = GpuTreeAllReduce(op, there, num_packs, bytes_per_pack);
    GPU_OK(folds);
    for (size_t i = 0; i < 3; ++i) {
      const Ref<Tensor> expected = Expected(op, here[i], steps);
      for (size_t d = 0; d < memories_.size(); ++d) {
        const Tensor& fold = *folds.value()[i][d];
        EXPECT_EQ(fold.device(), there[i][d]->device());
        EXPECT_TRUE(CopyToCpu(fold).value()->ContentsEqual(*expected)) << about << " on " << d;
        // What was given is as it was.
        EXPECT_TRUE(CopyToCpu(*there[i][d]).value()->ContentsEqual(*here[i][d])) << about;
      }
    }
  }

  std::vector<Ref<GpuMemory>> memories_;
};

TEST_F(GpuTrees, HaveTheSameBitsOnAllDevicesForEveryDTypeAndReduction) {
  if (!HasKernels()) GTEST_SKIP() << "built without a CUDA toolkit";
  const std::vector<GpuTreeStep> steps = {{0, 1}, {2, 3}, {0, 2}};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16,
                            DType::kInt32, DType::kUint8}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax,
                              ReduceOp::kProd}) {
      if (op == ReduceOp::kMean && IsInteger(dtype)) continue;
      ExpectTree(op, dtype, steps, op == ReduceOp::kMax ? 0 : 1);
    }
  }
  ExpectTree(ReduceOp::kBitXor, DType::kInt32, steps);
  ExpectTree(ReduceOp::kSum, DType::kComplex64, steps);
  ExpectTree(ReduceOp::kMean, DType::kComplex128, steps);
}

TEST_F(GpuTrees, ReadTheirPeersWhereThereIsALinkAndCopyWhereThereIsNone) {
  if (!HasKernels()) GTEST_SKIP() << "built without a CUDA toolkit";
  // All linked: three folds of peers' memory for each of two packs, three copies back.
  fake::Done before = Done();
  ExpectTree(ReduceOp::kSum, DType::kFloat32, {{0, 1}, {2, 3}, {0, 2}}, 1);
  EXPECT_EQ(Done().peer_reads - before.peer_reads, 3);
  EXPECT_EQ(Done().between - before.between, 3);
  // 0 - 2 and 1 - 3 alone: the last pair has none, and what it folds is copied first.
  Machine(4, {{0, 1}, {0, 3}, {1, 2}, {2, 3}});
  before = Done();
  ExpectTree(ReduceOp::kSum, DType::kFloat32, {{0, 2}, {1, 3}, {0, 1}}, 1);
  EXPECT_EQ(Done().peer_reads - before.peer_reads, 2);
  EXPECT_EQ(Done().between - before.between, 4);
  // None at all.
  Machine(3, {{0, 1}, {0, 2}, {1, 2}});
  before = Done();
  ExpectTree(ReduceOp::kSum, DType::kFloat32, {{0, 1}, {0, 2}}, 1);
  EXPECT_EQ(Done().peer_reads - before.peer_reads, 0);
  EXPECT_EQ(Done().between - before.between, 4);
}

TEST_F(GpuTrees, GoInAsManyPacksAsAreAskedFor) {
  if (!HasKernels()) GTEST_SKIP() << "built without a CUDA toolkit";
  Machine(2, {});
  const auto folds_of = [&](int64_t num_packs, int64_t bytes_per_pack) {
    const fake::Done before = Done();
    ExpectTree(ReduceOp::kSum, DType::kFloat32, {{0, 1}}, num_packs, bytes_per_pack);
    return Done().peer_reads - before.peer_reads;
  };
  EXPECT_EQ(folds_of(1, 0), 1);
  // Of the three tensors one has no elements.
  EXPECT_EQ(folds_of(0, 0), 2);
  EXPECT_EQ(folds_of(2, 0), 2);
  EXPECT_EQ(folds_of(1, 200), 2);  // 148 and 1200 bytes
}

TEST_F(GpuTrees, AreForGpusWithKernelsAndMeansThatDivideExactly) {
  if (!HasKernels()) GTEST_SKIP() << "built without a CUDA toolkit";
  const auto on = [&](std::vector<size_t> devices, DType dtype) {
    std::vector<Ref<Tensor>> tensors;
    for (const size_t d : devices) {
      tensors.push_back(CopyToGpu(*Numbers(dtype, 3, d), *memories_[d]).value());
    }
    return tensors;
  };
  EXPECT_THAT(CheckGpuTree(ReduceOp::kMean, on({0, 1, 2}, DType::kFloat32)).ToString(),
              HasSubstr("the mean of 3 tensors of float32 is no sum that a tree divides"));
  EXPECT_THAT(CheckGpuTree(ReduceOp::kMean, on({0, 1}, DType::kInt32)).ToString(),
              HasSubstr("the mean of 2 tensors of int32"));
  std::vector<Ref<Tensor>> mixed = on({0}, DType::kFloat32);
  mixed.push_back(Numbers(DType::kFloat32, 3, 1));
  EXPECT_THAT(CheckGpuTree(ReduceOp::kSum, mixed).ToString(),
              HasSubstr("float32[3] lies on CPU:0, and the tree is one of GPUs"));
}

// Tensors that are strided, or another library's, whose memory may be out of reach.
TEST_F(GpuTrees, TakeTensorsAsTheyAre) {
  if (!HasKernels()) GTEST_SKIP() << "built without a CUDA toolkit";
  Machine(2, {});
  std::vector<std::vector<Ref<Tensor>>> tensors(2);
  std::vector<Ref<Tensor>> kept;
  for (size_t d = 0; d < 2; ++d) {
    const Ref<Tensor> base = CopyToGpu(*Numbers(DType::kFloat32, 8, d), *memories_[d]).value();
    kept.push_back(base);
    const int64_t shape[] = {4, 2};
    tensors[0].push_back(base->Reshape(shape).value()->SliceAxis(1, 0, 1).value());
    tensors[1].push_back(memories_[d]
                             ->Wrap(base->address(), 16, DType::kFloat32, Shape({4}), {}, false,
                                    base)
                             .value());
  }
  const fake::Done before = Done();
  const auto folds = GpuTreeAllReduce(ReduceOp::kSum, tensors, 0, 0);
  GPU_OK(folds);
  for (size_t i = 0; i < 2; ++i) {
    std::vector<Ref<Tensor>> here;
    for (const Ref<Tensor>& tensor : tensors[i]) here.push_back(CopyToCpu(*tensor).value());
    const Tensor* const both[] = {here[0].get(), here[1].get()};
    const Ref<Tensor> expected = Reduce(ReduceOp::kSum, both).value();
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_TRUE(CopyToCpu(*folds.value()[i][d]).value()->ContentsEqual(*expected)) << i;
    }
  }
  EXPECT_EQ(Done().peer_reads - before.peer_reads, 1);  // the other library's was copied
}

TEST_F(GpuTrees, LinksAreAskedForOnceAndNamed) {
  Machine(3, {{0, 2}});
  const auto reaches = [&](size_t a, size_t b) {
    return ReachesPeer(memories_[a]->place(), memories_[b]->place());
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(reaches(0, 1).value());
    EXPECT_TRUE(reaches(1, 1).value());
    EXPECT_FALSE(reaches(0, 2).value());
    EXPECT_FALSE(reaches(2, 0).value());
    EXPECT_TRUE(reaches(2, 1).value());
  }
  GpuPlace nowhere = memories_[0]->place();
  nowhere.ordinal = 9;
  EXPECT_THAT(ReachesPeer(memories_[0]->place(), nowhere).status().ToString(),
              HasSubstr("there is no GPU:9"));
}

}  // namespace
}  // namespace tutti::gpu
