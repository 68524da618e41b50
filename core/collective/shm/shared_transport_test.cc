// What ranks over a shared segment compute: the bits of ranks that are threads of one process, for
// every dtype and reduction, for sizes around the borders of the algorithms, between processes and
// between threads.

#include "core/collective/shm/shared_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/seeded_runs_testing.h"
#include "core/collective/testing/rank_threads.h"
#include "core/collective/testing/shared_rank_testing.h"
#include "core/tensor/half.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::Each;
using testing::IsEmpty;

constexpr DType kReducibleDTypes[] = {
    DType::kBool,   DType::kInt8,    DType::kInt16,   DType::kInt32,     DType::kInt64,
    DType::kUint8,  DType::kUint16,  DType::kUint32,  DType::kUint64,    DType::kFloat16,
    DType::kBfloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProd};

// Elements drawn from the seed alone, none of them NaN.
void FillRandom(uint64_t seed, Tensor* tensor) {
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  const auto draw = [&state] {
    state = state * 0xd1342543de82ef95 + 1;
    return state >> 32;
  };
  VisitDType(tensor->dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, BytesView>) {
      for (T& element : tensor->mutable_span<T>()) {
        if constexpr (std::is_same_v<T, bool>) {
          element = draw() % 2 == 0;
        } else if constexpr (std::is_integral_v<T>) {
          element = static_cast<T>(draw());
        } else {
          const double number = static_cast<double>(draw()) / 0x40000000 - 2.0;
          const auto narrow = static_cast<float>(number);
          if constexpr (std::is_same_v<T, Complex64>) {
            element = T{narrow, narrow * 0.7f - 0.3f};
          } else if constexpr (std::is_same_v<T, Complex128>) {
            element = T{number, number * 0.7 - 0.3};
          } else if constexpr (std::is_same_v<T, Float16>) {
            element = ToFloat16(narrow);
          } else if constexpr (std::is_same_v<T, Bfloat16>) {
            element = ToBfloat16(narrow);
          } else {
            element = static_cast<T>(number);
          }
        }
      }
    }
  });
}

Ref<Tensor> RandomTensor(DType dtype, const Shape& shape, uint64_t seed) {
  Ref<Tensor> tensor = Tensor::Create(dtype, shape).value();
  FillRandom(seed, tensor.get());
  return tensor;
}

uint32_t Checksum(const Tensor& tensor) {
  if (tensor.dtype() != DType::kBytes) return Crc32c(tensor.data(), tensor.byte_size());
  std::string all;
  for (const BytesView& view : tensor.span<BytesView>()) {
    all += std::to_string(view.size) + ":";
    all += view.text();
  }
  return Crc32c(all.data(), all.size());
}

// What a rank computes with its communicator: one line per call, equal on all ranks or not.
using Work = std::function<Status(int64_t rank, Communicator& communicator,
                                  const CallOptions& options, std::string* lines)>;

struct Ranks {
  int64_t size;
  bool processes;
  bool spin;
};

std::string RanksName(const testing::TestParamInfo<Ranks>& info) {
  return Format("{}{}{}", info.param.size, info.param.processes ? "Processes" : "Threads",
                info.param.spin ? "Spinning" : "");
}

class SharedRanks : public testing::TestWithParam<Ranks> {
 protected:
  // The work over shared memory gives on every rank what it gives in one process.
  void ExpectTheSameAsLocally(const Work& work) {
    const auto [size, processes, spin] = GetParam();
    const std::vector<std::string> shared =
        RunSharedRanks(size, processes, spin, [&](SharedRank& self) {
          std::string lines;
          const Status status = work(self.rank(), self.communicator(), self.Hang(), &lines);
          return status.ok() ? lines : status.ToString();
        });
    RankGroup local(static_cast<size_t>(size));
    std::vector<std::string> expected(static_cast<size_t>(size));
    const std::vector<Status> statuses =
        local.Run([&](int64_t rank, Communicator& communicator) {
          return work(rank, communicator, local.Hang(), &expected[static_cast<size_t>(rank)]);
        });
    for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
    for (size_t rank = 0; rank < shared.size(); ++rank) {
      EXPECT_EQ(shared[rank], expected[rank]) << "on rank " << rank;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, SharedRanks,
                         testing::Values(Ranks{1, true, false}, Ranks{2, true, true},
                                         Ranks{3, true, false}, Ranks{4, true, false},
                                         Ranks{2, false, true}, Ranks{3, false, false}),
                         RanksName);

std::vector<int64_t> BytesAroundTheBorders(int64_t ranks) {
  const int64_t folded = ranks <= 2 ? 4 << 10 : (64 << 10) / ranks;  // the largest flat fold
  const int64_t round = (128 << 10) * ranks;          // the largest round of slices
  std::vector<int64_t> sizes = {0, 1, 8, 64, 65, 4096, 8192 - 64, 8192};
  sizes.insert(sizes.end(), {(3 << 20) + 1, (8 << 20) + 1});
  // Slices change their size at the last two.
  for (const int64_t border : {folded, round, 3 * round, int64_t{512} << 10, int64_t{5} << 18}) {
    sizes.insert(sizes.end(), {border - 64, border - 1, border, border + 1, border + 64});
  }
  return sizes;
}

TEST_P(SharedRanks, ReduceEveryDTypeToTheLocalBits) {
  ExpectTheSameAsLocally([](int64_t rank, Communicator& communicator, const CallOptions& options,
                            std::string* lines) -> Status {
    uint64_t seed = 0;
    for (const DType dtype : kReducibleDTypes) {
      for (const ReduceOp op : kOps) {
        if (!CheckReducible(op, dtype).ok()) continue;
        for (const int64_t bytes : {0, 1, 100, 30'000, 300'001}) {
          if (bytes > 100'000 && TestScale() < kOrdinaryScale) break;
          const auto item_bytes = static_cast<int64_t>(ItemSize(dtype));
          const Shape shape({(bytes + item_bytes - 1) / item_bytes});
          Ref<Tensor> tensor =
              RandomTensor(dtype, shape, ++seed * 100 + static_cast<uint64_t>(rank));
          TUTTI_RETURN_IF_ERROR(communicator.AllReduce(*tensor, op, options, tensor.get()));
          *lines += Format("{} {} {}: {:x}\n", DTypeName(dtype), ReduceOpName(op), bytes,
                           Checksum(*tensor));
        }
      }
    }
    return OkStatus();
  });
}

TEST_P(SharedRanks, ReduceSizesAroundTheBordersInPlaceAndApart) {
  const int64_t ranks = GetParam().size;
  ExpectTheSameAsLocally([ranks](int64_t rank, Communicator& communicator,
                                 const CallOptions& options, std::string* lines) -> Status {
    uint64_t seed = 0;
    for (const int64_t bytes : BytesAroundTheBorders(ranks)) {
      for (const DType dtype : {DType::kInt8, DType::kFloat32}) {
        // Each byte by itself takes long under sanitizers.
        if (dtype == DType::kInt8 && bytes > 1 << 18 && TestScale() < kOrdinaryScale) continue;
        const Shape shape({bytes / static_cast<int64_t>(ItemSize(dtype))});
        Ref<Tensor> input =
            RandomTensor(dtype, shape, ++seed * 100 + static_cast<uint64_t>(rank));
        Ref<Tensor> apart = Tensor::Create(dtype, shape).value();
        const uint32_t before = Checksum(*input);
        TUTTI_RETURN_IF_ERROR(
            communicator.AllReduce(*input, ReduceOp::kSum, options, apart.get()));
        if (Checksum(*input) != before) *lines += "the input has changed\n";
        TUTTI_RETURN_IF_ERROR(
            communicator.AllReduce(*input, ReduceOp::kSum, options, input.get()));
        *lines += Format("{} of {}: {:x} {:x}\n", bytes, DTypeName(dtype), Checksum(*apart),
                         Checksum(*input));
      }
    }
    return OkStatus();
  });
}

TEST_P(SharedRanks, ReduceListsOfTensors) {
  ExpectTheSameAsLocally([](int64_t rank, Communicator& communicator, const CallOptions& options,
                            std::string* lines) -> Status {
    // Empty ones, odd sizes, so many that their header does not fit, large ones among small ones.
    for (const size_t count : {0, 1, 3, 40, 2000}) {
      std::vector<Ref<Tensor>> tensors;
      std::vector<const Tensor*> inputs;
      std::vector<Tensor*> outputs;
      for (size_t i = 0; i < count; ++i) {
        const DType dtype = kReducibleDTypes[1 + i % (std::size(kReducibleDTypes) - 1)];
        const auto size = static_cast<int64_t>(i % 7 == 3 ? 0 : (i * 37) % 101);
        const int64_t rows = i == 2 ? 5000 : 1;
        tensors.push_back(RandomTensor(dtype, Shape({rows, size}),
                                       i * 100 + static_cast<uint64_t>(rank)));
        inputs.push_back(tensors.back().get());
        outputs.push_back(tensors.back().get());
      }
      TUTTI_RETURN_IF_ERROR(
          communicator.AllReduce(inputs, ReduceOp::kMean, options, outputs));
      for (const Ref<Tensor>& tensor : tensors) *lines += Format("{:x} ", Checksum(*tensor));
      *lines += "\n";
    }
    return OkStatus();
  });
}

TEST_P(SharedRanks, BroadcastFromEveryRoot) {
  const int64_t ranks = GetParam().size;
  ExpectTheSameAsLocally([ranks](int64_t rank, Communicator& communicator,
                                 const CallOptions& options, std::string* lines) -> Status {
    uint64_t seed = 0;
    constexpr int64_t kBlock = SharedLayout::kBlockBytes;
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{8192 - 48}, int64_t{8192},
                                int64_t{65536}, int64_t{65537}, kBlock, kBlock + 1,
                                int64_t{3} << 20}) {
      for (int64_t root = 0; root < ranks; ++root) {
        Ref<Tensor> tensor = RandomTensor(DType::kUint8, Shape({bytes}),
                                          ++seed * 100 + static_cast<uint64_t>(rank));
        TUTTI_RETURN_IF_ERROR(communicator.Broadcast(root, options, tensor.get()));
        *lines += Format("{} from {}: {:x}\n", bytes, root, Checksum(*tensor));
      }
    }
    return OkStatus();
  });
}

TEST_P(SharedRanks, GatherPartsOfDifferentSizesAlongEveryAxis) {
  ExpectTheSameAsLocally([](int64_t rank, Communicator& communicator, const CallOptions& options,
                            std::string* lines) -> Status {
    uint64_t seed = 0;
    for (const int64_t scale : {0, 1, 17, 4000}) {
      for (size_t axis = 0; axis < 3; ++axis) {
        int64_t dims[] = {3, 5, 7};
        // One rank brings nothing, the others ever more.
        dims[axis] = scale * ((rank + 1) % 3) * 2;
        Ref<Tensor> tensor = RandomTensor(DType::kInt16, Shape(dims, 3),
                                          ++seed * 100 + static_cast<uint64_t>(rank));
        Ref<Tensor> gathered;
        TUTTI_RETURN_IF_ERROR(communicator.AllGather(*tensor, axis, options, &gathered));
        *lines += Format("{}: {:x}\n", gathered->SpecString(), Checksum(*gathered));
      }
    }
    return OkStatus();
  });
}

TEST_P(SharedRanks, GatherByteStrings) {
  ExpectTheSameAsLocally([](int64_t rank, Communicator& communicator, const CallOptions& options,
                            std::string* lines) -> Status {
    for (const size_t length : {0, 3, 100'000}) {
      for (size_t axis = 0; axis < 2; ++axis) {
        std::vector<std::string> texts;
        int64_t dims[] = {2, 2};
        dims[axis] = 1 + rank * 3;
        for (int64_t i = 0; i < dims[0] * dims[1]; ++i) {
          texts.push_back(std::string(length * static_cast<size_t>(i % 3), 'a') +
                          std::to_string(rank * 1000 + i));
        }
        std::vector<BytesView> views;
        for (const std::string& text : texts) views.push_back(BytesView{text.data(), text.size()});
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, Tensor::FromStrings(Shape(dims, 2), views));
        Ref<Tensor> gathered;
        TUTTI_RETURN_IF_ERROR(communicator.AllGather(*tensor, axis, options, &gathered));
        *lines += Format("{}: {:x}\n", gathered->SpecString(), Checksum(*gathered));
      }
    }
    return OkStatus();
  });
}

// Calls of all kinds and sizes one after the other, so that each meets what the one before has left
// in the segment.
TEST_P(SharedRanks, KeepUpWithManyCallsOfAllKinds) {
  const char* variable = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      variable != nullptr ? std::strtoull(variable, nullptr, 10) : std::random_device()();
  SCOPED_TRACE(Format("TUTTI_TEST_SEED={}", seed));
  const int64_t ranks = GetParam().size;
  ExpectTheSameAsLocally([seed, ranks](int64_t rank, Communicator& communicator,
                                       const CallOptions& options, std::string* lines) -> Status {
    std::mt19937_64 random(seed);  // the same on all ranks
    for (int call = 0; call < 300; ++call) {
      const uint64_t kind = random() % 8;
      // Small, medium and large ones as often.
      const auto elements =
          static_cast<int64_t>(random() % (uint64_t{1} << (4 + random() % 15)));
      const auto root = static_cast<int64_t>(random() % static_cast<uint64_t>(ranks));
      Ref<Tensor> tensor =
          RandomTensor(DType::kFloat32, Shape({elements}),
                       random() + static_cast<uint64_t>(rank) * 1'000'003);
      if (kind == 0) {
        TUTTI_RETURN_IF_ERROR(communicator.Barrier(options));
      } else if (kind == 1) {
        TUTTI_RETURN_IF_ERROR(communicator.Broadcast(root, options, tensor.get()));
      } else if (kind == 2) {
        TUTTI_RETURN_IF_ERROR(communicator.AllGather(*tensor, 0, options, &tensor));
      } else {
        TUTTI_RETURN_IF_ERROR(
            communicator.AllReduce(*tensor, ReduceOp::kSum, options, tensor.get()));
      }
      *lines += Format("{} {} {}: {:x}\n", call, kind, elements, Checksum(*tensor));
    }
    return OkStatus();
  });
}

TEST(SharedLayout, TwoRanksSwapTheirBlocksWithEveryCallOfAParity) {
  for (const int64_t size : {2, 3}) {
    const Ref<SharedSegment> segment =
        SharedSegment::Create(SharedTransport::SegmentBytes(size)).value();
    const SharedLayout layout(segment->contents(), size);
    for (int64_t call = 3; call < 20; ++call) {
      std::set<const std::byte*> places;
      for (int64_t rank = 0; rank < size; ++rank) {
        for (const int64_t sequence : {call, call - 1}) {
          places.insert(layout.copies(rank, sequence));
        }
        // Where it has read.
        const int64_t writer = size == 2 ? 1 - rank : rank;
        EXPECT_EQ(layout.copies(rank, call), layout.copies(writer, call - 2));
      }
      // A rank may still read those of the call before.
      EXPECT_EQ(places.size(), static_cast<size_t>(2 * size));
    }
  }
}

TEST(SharedTransport, RefusesASegmentOfAnotherGroup) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<SharedSegment> segment =
      SharedSegment::Create(SharedTransport::SegmentBytes(2)).value();
  const auto create = [&](int64_t rank, int64_t size, int64_t epoch) {
    SharedGroupOptions options;
    options.name = "group";
    options.rank = rank;
    options.size = size;
    options.epoch = epoch;
    return SharedTransport::Create(environment, segment, options).status();
  };
  EXPECT_EQ(create(0, 3, 1).code(), StatusCode::kFailedPrecondition) << "another size";
  EXPECT_EQ(create(2, 2, 1).code(), StatusCode::kInvalidArgument) << "no such rank";
  EXPECT_EQ(create(0, 100'000, 1).code(), StatusCode::kInvalidArgument) << "too many ranks";
  EXPECT_TRUE(create(0, 2, 1).ok());
  EXPECT_EQ(create(0, 2, 1).code(), StatusCode::kFailedPrecondition) << "taken";
  EXPECT_EQ(create(1, 2, 2).code(), StatusCode::kFailedPrecondition) << "another epoch";
  EXPECT_TRUE(create(1, 2, 1).ok());
  EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
}

}  // namespace
}  // namespace tutti
