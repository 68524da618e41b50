// Collectives over links of every kind against the in-process communicator: the same bits for every
// operation, dtype, reduction and size.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/base/seeded_runs_testing.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/collective/testing/link_ranks.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/half.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

constexpr DType kDTypes[] = {DType::kBool,    DType::kInt8,      DType::kInt16,     DType::kInt32,
                             DType::kInt64,   DType::kUint8,     DType::kUint16,    DType::kUint32,
                             DType::kUint64,  DType::kFloat16,   DType::kBfloat16,  DType::kFloat32,
                             DType::kFloat64, DType::kComplex64, DType::kComplex128};
// Of each kind and width one under sanitizers.
bool IsLeftOut(DType dtype) {
  if (TestScale() >= kOrdinaryScale) return false;
  constexpr DType kSome[] = {DType::kInt8, DType::kUint32, DType::kBfloat16, DType::kFloat64,
                             DType::kComplex64};
  return std::find(std::begin(kSome), std::end(kSome), dtype) == std::end(kSome);
}
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProd};

uint64_t Seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

Ref<Tensor> RandomTensor(DType dtype, const Shape& shape, std::mt19937_64& random) {
  Ref<Tensor> tensor = Tensor::Create(dtype, shape).value();
  auto* bytes = static_cast<unsigned char*>(tensor->mutable_data());
  // A bool is 0 or 1; of every other dtype any bits are a number.
  const uint64_t mask = dtype == DType::kBool ? 0x0101010101010101 : ~uint64_t{0};
  for (size_t i = 0; i < tensor->byte_size(); i += sizeof(uint64_t)) {
    const uint64_t bits = random() & mask;
    std::memcpy(bytes + i, &bits, std::min(sizeof(bits), tensor->byte_size() - i));
  }
  return tensor;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.byte_size()) == 0;
}

// The same bits, but that a NaN may carry any payload: which of several NaN operands gives its own
// to a sum depends on how the processor was asked.
bool IsNan(double value) { return std::isnan(value); }
bool IsNan(float value) { return std::isnan(value); }
bool IsNan(Float16 value) { return std::isnan(ToFloat(value)); }
bool IsNan(Bfloat16 value) { return std::isnan(ToFloat(value)); }

template <class T>
bool SameNumbers(const Tensor& a, const Tensor& b) {
  const auto* x = static_cast<const T*>(a.data());
  const auto* y = static_cast<const T*>(b.data());
  for (size_t i = 0; i < a.byte_size() / sizeof(T); ++i) {
    if (std::memcmp(&x[i], &y[i], sizeof(T)) != 0 && !(IsNan(x[i]) && IsNan(y[i]))) return false;
  }
  return true;
}

// `partial`: 16-bit floats have been folded as float32, one rank after the other.
bool SameResult(const Tensor& a, const Tensor& b, bool partial) {
  if (SameBits(a, b)) return true;
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  switch (a.dtype()) {
    case DType::kFloat32:
    case DType::kComplex64:
      return SameNumbers<float>(a, b);
    case DType::kFloat64:
    case DType::kComplex128:
      return SameNumbers<double>(a, b);
    case DType::kFloat16:
      return partial && SameNumbers<Float16>(a, b);
    case DType::kBfloat16:
      return partial && SameNumbers<Bfloat16>(a, b);
    default:
      return false;
  }
}

using Tensors = std::vector<Ref<Tensor>>;

struct Call {
  ReduceOp op = ReduceOp::kSum;
  bool in_place = false;
  std::vector<Tensors> inputs;  // by rank, and tensor
};

// Makes the call on every rank; outputs by rank and tensor.
template <typename Group>
std::vector<Tensors> AllReduceOn(Group& group, const Call& call) {
  std::vector<Tensors> outputs(group.size());
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    const Tensors& inputs = call.inputs[static_cast<size_t>(rank)];
    Tensors& results = outputs[static_cast<size_t>(rank)];
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (const Ref<Tensor>& input : inputs) {
      results.push_back(call.in_place ? input->Copy().value()
                                      : Tensor::Create(input->dtype(), input->shape()).value());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.push_back(call.in_place ? results[i].get() : inputs[i].get());
      out.push_back(results[i].get());
    }
    return communicator.AllReduce(in, call.op, group.Hang(), out);
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  return outputs;
}

void ExpectSame(const std::vector<Tensors>& expected, const std::vector<Tensors>& actual,
                const std::string& what, bool partial = false) {
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    for (size_t i = 0; i < expected[rank].size(); ++i) {
      ASSERT_TRUE(SameResult(*expected[rank][i], *actual[rank][i], partial))
          << what << ", rank " << rank << ", tensor " << i;
      // Among the ranks there is no doubt at all.
      ASSERT_TRUE(SameBits(*actual[0][i], *actual[rank][i])) << what << ", rank " << rank;
    }
  }
}

class LinkCollectivesTest : public testing::TestWithParam<std::tuple<LinkKind, int>> {
 protected:
  bool is_chain() const { return kind() == LinkKind::kChain; }
  LinkKind kind() const { return std::get<0>(GetParam()); }
  size_t ranks() const { return static_cast<size_t>(std::get<1>(GetParam())); }
};

TEST_P(LinkCollectivesTest, AllReduceHasTheBitsOfTheInProcessOne) {
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(Seed()));
  std::mt19937_64 random(Seed());
  LinkRanks links(ranks(), kind());
  RankGroup local(ranks());
  const Selector selector(nullptr, Locality::kTcp, static_cast<int64_t>(ranks()));
  const auto all_reduce = CollectiveOp::kAllReduce;
  // Along a chain nothing is eager: a segment, as LinkRanks has them.
  const int64_t eager = is_chain()
                            ? LinkSegmentBytes(16 << 10)
                            : selector.MostBytes(all_reduce, CollectiveAlgorithm::kFlatFold);
  const int64_t chunk = selector.Choose(all_reduce, SelectorRow::kAny).chunk_bytes;
  const auto slices = static_cast<int64_t>(128 << 10) * static_cast<int64_t>(ranks());
  // From there on a slice has two segments.
  const int64_t two_segments =
      LinkSegmentBytes(chunk) * 3 / 2 / 64 * 64 * static_cast<int64_t>(ranks());
  for (DType dtype : kDTypes) {
    if (IsLeftOut(dtype)) continue;
    const auto item = static_cast<int64_t>(ItemSize(dtype));
    for (ReduceOp op : kOps) {
      if (!CheckReducible(op, dtype).ok()) continue;
      // Borders of the eager algorithm for every dtype, those of segments for some.
      std::vector<int64_t> bytes = {eager + 5 * item};
      if (op == ReduceOp::kSum || op == ReduceOp::kMin) {
        bytes = {0, item, eager - item, eager, eager + item};
      }
      if ((op == ReduceOp::kMax && item == 1) || (op == ReduceOp::kSum && item == 8)) {
        bytes = {slices - item,       slices,       slices + item,
                 two_segments - item, two_segments, two_segments + item};
      }
      for (int64_t size : bytes) {
        Call call;
        call.op = op;
        call.in_place = random() % 2 == 0;
        for (size_t rank = 0; rank < ranks(); ++rank) {
          call.inputs.push_back({RandomTensor(dtype, Shape({size / item}), random)});
        }
        ExpectSame(AllReduceOn(local, call), AllReduceOn(links, call),
                   Format("{} {} of {} bytes", ReduceOpName(op), DTypeName(dtype), size),
                   is_chain());
      }
    }
  }
}

TEST_P(LinkCollectivesTest, AllReduceOfManyTensorsAndOfMegabytes) {
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(Seed()));
  std::mt19937_64 random(Seed());
  LinkRanks links(ranks(), kind());
  RankGroup local(ranks());
  for (int round = 0; round < 12; ++round) {
    Call call;
    call.in_place = random() % 2 == 0;
    call.inputs.resize(ranks());
    const size_t tensors = round % 3 == 0 ? 2000 : random() % 7;
    for (size_t i = 0; i < tensors; ++i) {
      const DType dtype = kDTypes[1 + random() % (std::size(kDTypes) - 1)];
      const int64_t most = round % 3 == 0 ? 80 : round % 3 == 1 ? 3000 : 300000;
      const Shape shape({static_cast<int64_t>(random() % static_cast<uint64_t>(most))});
      for (Tensors& inputs : call.inputs) inputs.push_back(RandomTensor(dtype, shape, random));
    }
    ExpectSame(AllReduceOn(local, call), AllReduceOn(links, call), Format("round {}", round),
               is_chain());
  }
  Call call;
  for (size_t rank = 0; rank < ranks(); ++rank) {
    call.inputs.push_back({RandomTensor(DType::kInt32, Shape({(3 << 20) / 4 + 1}), random)});
  }
  ExpectSame(AllReduceOn(local, call), AllReduceOn(links, call), "3 MiB");
}

TEST_P(LinkCollectivesTest, BroadcastGivesEveryRankTheRootsBits) {
  std::mt19937_64 random(Seed());
  LinkRanks links(ranks(), kind());
  const auto eager = static_cast<int64_t>(LinkEagerBytes(static_cast<int64_t>(ranks())));
  const int64_t segment = LinkSegmentBytes(256 << 10);
  for (int64_t bytes : {int64_t{0}, int64_t{1}, eager, eager + 1, segment, segment + 1,
                        int64_t{256 << 10}, int64_t{(256 << 10) + 1}, int64_t{3 << 20}}) {
    for (int64_t root = 0; root < static_cast<int64_t>(ranks()); ++root) {
      Tensors tensors;
      for (size_t rank = 0; rank < ranks(); ++rank) {
        tensors.push_back(RandomTensor(DType::kUint8, Shape({bytes}), random));
      }
      const Ref<Tensor> expected = tensors[static_cast<size_t>(root)]->Copy().value();
      for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) {
             return communicator.Broadcast(root, links.Hang(),
                                           tensors[static_cast<size_t>(rank)].get());
           })) {
        ASSERT_TRUE(status.ok()) << status.ToString();
      }
      for (const Ref<Tensor>& tensor : tensors) ASSERT_TRUE(SameBits(*tensor, *expected)) << bytes;
    }
  }
}

TEST_P(LinkCollectivesTest, AllGatherJoinsUnequalPartsOfEveryDType) {
  std::mt19937_64 random(Seed());
  LinkRanks links(ranks(), kind());
  RankGroup local(ranks());
  for (DType dtype : kDTypes) {
    if (IsLeftOut(dtype)) continue;
    for (size_t axis = 0; axis < 3; ++axis) {
      for (int64_t most : {1, 4, 90}) {
        Tensors inputs;
        for (size_t rank = 0; rank < ranks(); ++rank) {
          Dims dims({3, 5, 17});
          dims[axis] = static_cast<int64_t>(random() % static_cast<uint64_t>(most));
          if (most == 90 && rank == 0) dims[axis] = 1500;
          inputs.push_back(RandomTensor(dtype, Shape(dims.span()), random));
        }
        Tensors expected(ranks());
        Tensors actual(ranks());
        const auto gather = [&](auto& group, Tensors& results) {
          for (const Status& status : group.Run([&](int64_t rank, Communicator&communicator) {
                 const auto r = static_cast<size_t>(rank);
                 return communicator.AllGather(*inputs[r], axis, group.Hang(), &results[r]);
               })) {
            ASSERT_TRUE(status.ok()) << status.ToString();
          }
        };
        gather(local, expected);
        gather(links, actual);
        for (size_t rank = 0; rank < ranks(); ++rank) {
          ASSERT_TRUE(SameBits(*expected[rank], *actual[rank]))
              << DTypeName(dtype) << " axis " << axis << " rank " << rank;
        }
      }
    }
  }
}

TEST_P(LinkCollectivesTest, AllGatherJoinsByteStrings) {
  LinkRanks links(ranks(), kind());
  for (size_t length : {size_t{0}, size_t{3}, size_t{40000}, size_t{700000}}) {
    std::vector<std::string> texts;
    Tensors inputs;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      texts.push_back(std::string(length, static_cast<char>('a' + rank)));
      const BytesView views[] = {{texts[rank].data(), texts[rank].size()}, {"x", 1}, {"", 0}};
      inputs.push_back(
          Tensor::FromStrings(Shape({3}), std::span<const BytesView>(views, 3)).value());
    }
    Tensors results(ranks());
    for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) {
           const auto r = static_cast<size_t>(rank);
           return communicator.AllGather(*inputs[r], 0, links.Hang(), &results[r]);
         })) {
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    for (const Ref<Tensor>& result : results) {
      ASSERT_EQ(result->dim(0), 3 * static_cast<int64_t>(ranks()));
      for (size_t rank = 0; rank < ranks(); ++rank) {
        EXPECT_EQ(result->span<BytesView>()[3 * rank].text(), std::string(length, 'a' + rank));
        EXPECT_EQ(result->span<BytesView>()[3 * rank + 1].text(), "x");
      }
    }
  }
}

TEST_P(LinkCollectivesTest, CallsFollowEachOtherHoweverTheRanksAreTimed) {
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(Seed()));
  LinkRanks links(ranks(), kind(), /*spin=*/true);
  for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) -> Status {
         std::mt19937_64 same(Seed());
         std::mt19937_64 own(Seed() + static_cast<uint64_t>(rank));
         for (int round = 0; round < 300; ++round) {
           for (uint64_t i = own() % 4; i > 0; --i) std::this_thread::yield();
           const uint64_t kind = same() % 4;
           const auto count = static_cast<int64_t>(same() % 8 == 0 ? same() % 200000 : same() % 50);
           const auto root = static_cast<int64_t>(same() % ranks());
           Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({count})).value();
           for (int64_t& element : tensor->mutable_span<int64_t>()) element = round + rank;
           int64_t expected = round + root;
           if (kind == 0) {
             TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
             continue;
           } else if (kind == 1) {
             TUTTI_RETURN_IF_ERROR(communicator.Broadcast(root, links.Hang(), tensor.get()));
           } else if (kind == 2) {
             TUTTI_RETURN_IF_ERROR(
                 communicator.AllReduce(*tensor, ReduceOp::kMax, links.Hang(), tensor.get()));
             expected = round + static_cast<int64_t>(ranks()) - 1;
           } else {
             Ref<Tensor> joined;
             TUTTI_RETURN_IF_ERROR(communicator.AllGather(*tensor, 0, links.Hang(), &joined));
             tensor = joined->Slice(root * count, (root + 1) * count);
           }
           for (int64_t element : tensor->span<int64_t>()) {
             if (element != expected) return Status(StatusCode::kInternal, "a wrong element");
           }
         }
         return OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<LinkKind, int>>& info) {
  constexpr const char* kNames[] = {"SocketPair", "Tcp", "Ring", "Mixed", "Later", "Chain"};
  return Format("{}Of{}", kNames[static_cast<int>(std::get<0>(info.param))],
                std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, LinkCollectivesTest,
    testing::Values(std::tuple(LinkKind::kSocketPair, 2), std::tuple(LinkKind::kSocketPair, 3),
                    std::tuple(LinkKind::kTcp, 2), std::tuple(LinkKind::kTcp, 4),
                    std::tuple(LinkKind::kRing, 2), std::tuple(LinkKind::kRing, 3),
                    std::tuple(LinkKind::kMixed, 1), std::tuple(LinkKind::kMixed, 5),
                    std::tuple(LinkKind::kLater, 4), std::tuple(LinkKind::kChain, 2),
                    std::tuple(LinkKind::kChain, 9)),
    NameOf);

TEST(LinkRingsTest, ARingSmallerThanAFrameCarriesItAllTheSame) {
  std::mt19937_64 random(Seed());
  LinkRanks links(3, MakeAllLinks(3, LinkKind::kRing, 4096));
  RankGroup local(3);
  for (int64_t bytes : {int64_t{100}, int64_t{20000}, int64_t{1 << 20}}) {
    Call call;
    for (size_t rank = 0; rank < 3; ++rank) {
      call.inputs.push_back({RandomTensor(DType::kUint32, Shape({bytes / 4}), random)});
    }
    ExpectSame(AllReduceOn(local, call), AllReduceOn(links, call), Format("{} bytes", bytes));
  }
}

}  // namespace
}  // namespace tutti
