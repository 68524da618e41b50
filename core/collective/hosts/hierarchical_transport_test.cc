#include "core/collective/hosts/hierarchical_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <set>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/collective/testing/hierarchical_ranks_testing.h"
#include "core/collective/testing/link_faults.h"
#include "core/tensor/cast.h"
#include "core/tensor/float_mode.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

const std::vector<std::vector<std::string>> kSpreads = {
    {"a", "a", "b", "b"},      {"b", "a", "a", "a"},           {"a", "b", "a", "b"},
    {"a", "b", "c", "a", "b"}, {"a", "a", "a", "b", "b", "b"},
};

std::string NameOf(const std::vector<std::string>& machines) {
  std::string name;
  for (const std::string& machine : machines) name += machine;
  return name;
}

// Small whole numbers, whose folds are exact in any order.
Ref<Tensor> Numbers(DType dtype, int64_t count, int64_t rank) {
  Ref<Tensor> numbers = Tensor::Create(DType::kInt32, Shape({count})).value();
  for (int64_t i = 0; i < count; ++i) {
    numbers->mutable_span<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>((i + rank * 2) % 3) + 1;
  }
  return Cast(*numbers, dtype).value();
}

Ref<Tensor> Zeros(DType dtype, int64_t count) {
  return Tensor::Create(dtype, Shape({count})).value();
}

Status ExpectSame(const Tensor& found, const Tensor& expected, const std::string& what) {
  if (found.byte_size() == 0 ||
      std::memcmp(found.data(), expected.data(), found.byte_size()) == 0) {
    return OkStatus();
  }
  return DataLoss("{}: found {}, expected {}", what, found.ToString(), expected.ToString());
}

// What a rank of the group computes; the ranks of `inputs` fold by their order.
Ref<Tensor> Fold(ReduceOp op, DType dtype, int64_t count, int64_t ranks) {
  std::vector<Ref<Tensor>> inputs;
  std::vector<const Tensor*> pointers;
  for (int64_t rank = 0; rank < ranks; ++rank) inputs.push_back(Numbers(dtype, count, rank));
  for (const Ref<Tensor>& input : inputs) pointers.push_back(input.get());
  return Reduce(op, pointers).value();
}

TEST(HierarchicalTransportTest, FloatsFoldOverHostsAsTheyDoFromRankToRankWhereSumsAreExact) {
  for (const std::vector<std::string>& machines : kSpreads) {
    HierarchicalRanks ranks(machines);
    const auto size = static_cast<int64_t>(ranks.size());
    const CallOptions hang = ranks.Hang();
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kComplex64}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd}) {
        if (op == ReduceOp::kProd && dtype != DType::kFloat32) continue;
        for (const int64_t rows : {0, 1, 6001}) {
          const int64_t count = rows * size;
          const Ref<Tensor> expected = Fold(op, dtype, count, size);
          const int64_t root = rows % size;
          for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
                 const Ref<Tensor> own = Numbers(dtype, count, rank);
                 const Ref<Tensor> folded = Zeros(dtype, count);
                 TUTTI_RETURN_IF_ERROR(group.Reduce(*own, op, root, hang, folded.get()));
                 if (rank == root) {
                   TUTTI_RETURN_IF_ERROR(ExpectSame(*folded, *expected, "reduce"));
                 }
                 const Ref<Tensor> share = Zeros(dtype, rows);
                 TUTTI_RETURN_IF_ERROR(group.ReduceScatter(*own, op, hang, share.get()));
                 const std::byte* mine = static_cast<const std::byte*>(expected->data()) +
                                         rank * static_cast<int64_t>(share->byte_size());
                 if (rows != 0 && std::memcmp(share->data(), mine, share->byte_size()) != 0) {
                   return DataLoss("reduce_scatter of {}", DTypeName(dtype));
                 }
                 TUTTI_RETURN_IF_ERROR(group.AllReduce(*own, op, hang, own.get()));
                 return ExpectSame(*own, *expected, "all_reduce");
               })) {
            EXPECT_TRUE(status.ok()) << NameOf(machines) << " " << DTypeName(dtype) << " "
                                     << ReduceOpName(op) << " " << rows << ": "
                                     << status.ToString();
          }
        }
      }
    }
  }
}

TEST(HierarchicalTransportTest, TensorsOfSeveralTypesFoldInOneCall) {
  const DType dtypes[] = {DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kFloat32};
  for (const std::vector<std::string>& machines : kSpreads) {
    HierarchicalRanks ranks(machines);
    const auto size = static_cast<int64_t>(ranks.size());
    for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
           std::vector<Ref<Tensor>> held;
           std::vector<const Tensor*> inputs;
           std::vector<Tensor*> outputs;
           for (size_t i = 0; i < std::size(dtypes); ++i) {
             held.push_back(Numbers(dtypes[i], 5000 * static_cast<int64_t>(i), rank));
             inputs.push_back(held.back().get());
             outputs.push_back(held.back().get());
           }
           TUTTI_RETURN_IF_ERROR(group.AllReduce(inputs, ReduceOp::kSum, ranks.Hang(), outputs));
           for (size_t i = 0; i < std::size(dtypes); ++i) {
             const Ref<Tensor> expected =
                 Fold(ReduceOp::kSum, dtypes[i], 5000 * static_cast<int64_t>(i), size);
             TUTTI_RETURN_IF_ERROR(ExpectSame(*held[i], *expected, std::to_string(i)));
           }
           return OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << NameOf(machines) << ": " << status.ToString();
    }
  }
}

// Numbers whose sum depends on the order.
Ref<Tensor> Fractions(int64_t count, int64_t rank) {
  Ref<Tensor> tensor = Zeros(DType::kFloat32, count);
  for (int64_t i = 0; i < count; ++i) {
    tensor->mutable_span<float>()[static_cast<size_t>(i)] =
        1.0f / static_cast<float>(1 + (i * 7 + rank * 13) % 101);
  }
  return tensor;
}

TEST(HierarchicalTransportTest, BitsAreEqualOnAllRanksAndFromRunToRun) {
  for (const int64_t count : {100, 30000}) {
    std::set<std::string> results;
    for (int run = 0; run < 3; ++run) {
      HierarchicalRanks ranks({"a", "a", "b", "b"});
      std::vector<std::string> bits(ranks.size());
      for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) {
             const Ref<Tensor> own = Fractions(count, rank);
             Status result = group.AllReduce(*own, ReduceOp::kMean, ranks.Hang(), own.get());
             bits[static_cast<size_t>(rank)].assign(static_cast<const char*>(own->data()),
                                                    own->byte_size());
             return result;
           })) {
        EXPECT_TRUE(status.ok()) << status.ToString();
      }
      results.insert(bits.begin(), bits.end());
    }
    EXPECT_EQ(results.size(), 1u) << count;
  }
}

// The thread of one rank flushes subnormal numbers and rounds towards zero; the others do not.
TEST(HierarchicalTransportTest, BitsAreEqualWhateverTheFloatModeOfTheHostsThreads) {
  if (kFloatModeBits == 0) GTEST_SKIP() << "the modes of this processor are not known";
  for (const int64_t count : {100, 30000}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      HierarchicalRanks ranks({"a", "b", "b"});
      std::vector<std::string> bits(ranks.size());
      for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) {
             const Ref<Tensor> own = Cast(*Fractions(count, rank), dtype).value();
             const uint64_t before = GetFloatMode();
             if (rank == 0) SetFloatMode(before | kFloatModeBits);
             Status result = group.AllReduce(*own, ReduceOp::kMean, ranks.Hang(), own.get());
             SetFloatMode(before);
             bits[static_cast<size_t>(rank)].assign(static_cast<const char*>(own->data()),
                                                    own->byte_size());
             return result;
           })) {
        EXPECT_TRUE(status.ok()) << status.ToString();
      }
      EXPECT_TRUE(bits[0] == bits[1] && bits[1] == bits[2]) << count << " " << DTypeName(dtype);
    }
  }
}

TEST(HierarchicalTransportTest, AReproducibleGroupFoldsInTheOrderOfTheRanks) {
  constexpr int64_t kCount = 30000;
  HierarchicalRanks ranks({"a", "b", "b", "a"},
                          SelectorTable::Reproducible(*SelectorTable::BuiltIn()));
  std::vector<Ref<Tensor>> inputs;
  std::vector<const Tensor*> pointers;
  for (int64_t rank = 0; rank < 4; ++rank) inputs.push_back(Fractions(kCount, rank));
  for (const Ref<Tensor>& input : inputs) pointers.push_back(input.get());
  const Ref<Tensor> expected = Reduce(ReduceOp::kSum, pointers).value();
  for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
         const Ref<Tensor> own = Fractions(kCount, rank);
         TUTTI_RETURN_IF_ERROR(group.AllReduce(*own, ReduceOp::kSum, ranks.Hang(), own.get()));
         return ExpectSame(*own, *expected, "all_reduce");
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(HierarchicalTransportTest, BytesGoFromHostToHostOnce) {
  const auto bytes_of = [](std::shared_ptr<const SelectorTable> table, DType dtype,
                           CollectiveOp op) {
    HierarchicalRanks ranks({"a", "a", "b", "b"}, std::move(table));
    for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
           const Ref<Tensor> own = Numbers(dtype, 1 << 16, rank);
           const Ref<Tensor> all = Zeros(dtype, 4 << 16);
           const Ref<Tensor> share = Zeros(dtype, 1 << 14);
           switch (op) {
             case CollectiveOp::kBroadcast: return group.Broadcast(1, ranks.Hang(), own.get());
             case CollectiveOp::kAllGather:
               return group.AllGatherInto(*own, ranks.Hang(), all.get());
             case CollectiveOp::kReduceScatter:
               return group.ReduceScatter(*own, ReduceOp::kSum, ranks.Hang(), share.get());
             default: return group.AllReduce(*own, ReduceOp::kSum, ranks.Hang(), own.get());
           }
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    return ranks.TakeBytesBetweenHosts();
  };
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast,
                                CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    const auto flat = SelectorTable::Parse(
        std::string(CollectiveOpName(op)) + " hosts any any flat", "test").value();
    const int64_t from_rank_to_rank = bytes_of(flat, DType::kFloat32, op);
    const int64_t from_host_to_host = bytes_of(nullptr, DType::kFloat32, op);
    EXPECT_GT(from_host_to_host, 1 << 17) << CollectiveOpName(op);
    EXPECT_LT(from_host_to_host, from_rank_to_rank * 52 / 100) << CollectiveOpName(op);
  }
}

// All ranks fail with the code, and with the same words.
void ExpectFailure(HierarchicalRanks& ranks, StatusCode code,
                   const std::vector<std::string>& words,
                   const std::function<Status(int64_t, Communicator&)>& body) {
  for (const Status& status : ranks.Run(body)) {
    EXPECT_EQ(status.code(), code) << status.ToString();
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    }
  }
}

TEST(HierarchicalTransportTest, RanksInDifferentCallsAreNamedWhereverTheyAre) {
  const auto call = [](int kind, Communicator& group, const CallOptions& options) -> Status {
    const Ref<Tensor> tensor = Zeros(DType::kFloat32, 8);
    const Ref<Tensor> all = Zeros(DType::kFloat32, 32);
    const Ref<Tensor> large = Zeros(DType::kFloat32, 20000);
    switch (kind) {
      case 0: return group.Barrier(options);
      case 1: return group.AllReduce(*tensor, ReduceOp::kSum, options, tensor.get());
      case 2: return group.AllReduce(*large, ReduceOp::kSum, options, large.get());
      case 3: return group.Broadcast(0, options, tensor.get());
      case 4: return group.Broadcast(3, options, tensor.get());
      case 5: return group.AllGatherInto(*tensor, options, all.get());
      case 6: return group.AllToAll(*tensor, options, Zeros(DType::kFloat32, 8).get());
      default: return group.ReduceScatter(*tensor, ReduceOp::kSum, options,
                                          Zeros(DType::kFloat32, 2).get());
    }
  };
  // By rank; hosts that disagree with each other, ranks of a host that do, and both at once.
  const std::vector<std::vector<int>> kinds = {
      {1, 1, 2, 2}, {3, 3, 4, 4}, {6, 6, 1, 1}, {0, 0, 5, 5}, {2, 2, 6, 6}, {1, 0, 1, 1},
      {5, 1, 5, 5}, {5, 2, 2, 5}, {3, 4, 3, 3}, {4, 4, 3, 4}, {6, 0, 0, 6}, {7, 7, 0, 0},
  };
  for (const std::vector<int>& by_rank : kinds) {
    HierarchicalRanks ranks({"a", "a", "b", "b"});
    std::string first;
    for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
           TUTTI_RETURN_IF_ERROR(group.Barrier(ranks.Hang()));
           return call(by_rank[static_cast<size_t>(rank)], group, ranks.Hang());
         })) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_THAT(std::string(status.message()), HasSubstr("#2"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank "));
      EXPECT_NE(status.FindDetail("peer"), nullptr);
    }
  }
}

TEST(HierarchicalTransportTest, BothSidesOfAMismatchBetweenHostsHaveTheirOwnNames) {
  HierarchicalRanks ranks({"a", "a", "b", "b"});
  ExpectFailure(ranks, StatusCode::kInvalidArgument,
                {"rank 2: all_reduce #1 got float32[9], rank 0 sent float32[8]"},
                [&](int64_t rank, Communicator& group) {
                  const Ref<Tensor> own = Zeros(DType::kFloat32, rank < 2 ? 8 : 9);
                  return group.AllReduce(*own, ReduceOp::kSum, ranks.Hang(), own.get());
                });
}

TEST(HierarchicalTransportTest, ATransferWhoseOtherRankIsInACollectiveIsTheSameErrorOnAll) {
  // Of a host and of two, at the leader and at another rank.
  for (const auto& [from, to] : {std::pair{1, 0}, std::pair{3, 0}, std::pair{2, 1}}) {
    for (const bool sends : {true, false}) {
      HierarchicalRanks ranks({"a", "a", "b", "b"});
      const std::vector<Status> statuses =
          ranks.Run([&, from = from, to = to](int64_t rank, Communicator& group) -> Status {
            const Ref<Tensor> tensor = Zeros(DType::kFloat32, 8);
            TUTTI_RETURN_IF_ERROR(group.Barrier(ranks.Hang()));
            if (rank != from) {
              return group.AllReduce(*tensor, ReduceOp::kSum, ranks.Hang(), tensor.get());
            }
            return sends ? group.Send(*tensor, to, ranks.Hang())
                         : group.Receive(to, ranks.Hang(), tensor.get());
          });
      for (const Status& status : statuses) {
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
        EXPECT_EQ(status.message(),
                  Format("rank {0}: {1} #1 {2} rank {3}, which waits for rank {0} in all_reduce "
                         "#2; make the calls in an order that both ranks can follow",
                         from, sends ? "send" : "receive", sends ? "to" : "from", to));
      }
    }
  }
}

TEST(HierarchicalTransportTest, ARankThatIsAheadInATransferIsNoContradiction) {
  for (const std::vector<std::string>& machines : kSpreads) {
    SCOPED_TRACE(NameOf(machines));
    HierarchicalRanks ranks(machines);
    const auto last = static_cast<int64_t>(machines.size()) - 1;
    for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
           const Ref<Tensor> tensor = Zeros(DType::kFloat32, 8);
           for (int i = 0; i < 30; ++i) {
             TUTTI_RETURN_IF_ERROR(group.Broadcast(i % 2, ranks.Hang(), tensor.get()));
             if (rank == 0) TUTTI_RETURN_IF_ERROR(group.Receive(last, ranks.Hang(), tensor.get()));
             if (rank == last) TUTTI_RETURN_IF_ERROR(group.Send(*tensor, 0, ranks.Hang()));
           }
           return OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST(HierarchicalTransportTest, ADeadlineNamesTheRankThatIsMissing) {
  HierarchicalRanks ranks({"a", "a", "b", "b"});
  for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
         TUTTI_RETURN_IF_ERROR(group.Barrier(ranks.Hang()));
         if (rank == 3) return DeadlineExceeded("rank 3 (worker 3, pid 4714), #2");
         // Rank 2 alone sees which rank of its host is missing.
         return group.Barrier(rank == 2 ? ranks.Timeout(300 * kMillisecondNs) : ranks.Hang());
       })) {
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("#2"));
  }
  EXPECT_THAT(std::string(ranks[0].epoch_status().message()),
              HasSubstr("for rank 3 (worker 3, pid 4714), which has not called"));
}

// With one deadline for all, the rank that sees who is missing is to be the first that gives up.
TEST(HierarchicalTransportTest, WhoWaitsForARankThatWaitsItselfGivesUpLater) {
  struct Place {
    std::vector<std::string> machines;
    int64_t rank;
    int64_t grace_ns;
  };
  // Rank 2 does not come: the one waits for its host, the other for what its own leader hears.
  for (const auto& [machines, gives_up, grace_ns] :
       {Place{{"a", "b", "b"}, 0, 50 * kMillisecondNs},
        Place{{"a", "a", "b"}, 1, 100 * kMillisecondNs}}) {
    HierarchicalRanks ranks(machines);
    // Whether the other one waits: then its host is asked.
    std::atomic<bool> waits = false;
    const auto ask = [](void* asked) {
      static_cast<std::atomic<bool>*>(asked)->store(true);
      return false;
    };
    const Ref<Cancellation> host =
        MakeRef<Cancellation>(ask, &waits, Ref<const RefCounted>());
    const std::vector<Status> statuses =
        ranks.Run([&, gives_up = gives_up, grace_ns = grace_ns](int64_t rank,
                                                               Communicator& group) -> Status {
          if (rank == 2) return OkStatus();
          if (rank != gives_up) {
            CallOptions options = ranks.Hang();
            options.cancellation = host.get();
            return group.Barrier(options);
          }
          while (!waits.load() && group.epoch_status().ok()) std::this_thread::yield();
          const int64_t deadline_ns = RealClock().NowNs() + 20 * kMillisecondNs;
          const Status status = group.Barrier(CallOptions{Deadline::At(deadline_ns), nullptr});
          EXPECT_GE(RealClock().NowNs(), deadline_ns + grace_ns);
          return status;
        });
    for (const size_t rank : {size_t{0}, size_t{1}}) {
      EXPECT_EQ(statuses[rank].code(), StatusCode::kDeadlineExceeded) << statuses[rank].ToString();
    }
  }
}

// Chunks so small that payloads of a test have many; or so large that all have one.
std::shared_ptr<const SelectorTable> InChunks(const char* bytes) {
  std::string rows;
  for (const char* op : {"all_reduce", "reduce", "reduce_scatter", "broadcast"}) {
    rows += std::string(op) + " hosts any any hierarchical " + bytes + "\n";
  }
  return SelectorTable::Parse(rows, "test").value();
}

TEST(HierarchicalTransportTest, PayloadsOfManyChunksHaveTheBitsOfWholeOnes) {
  for (const std::vector<std::string>& machines : kSpreads) {
    const auto size = static_cast<int64_t>(machines.size());
    const int64_t count = size * 30'001;
    std::vector<std::vector<std::string>> results;
    for (const char* chunk : {"64KiB", "64MiB"}) {
      HierarchicalRanks ranks(machines, InChunks(chunk));
      std::vector<std::string> bits(ranks.size());
      for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) -> Status {
             const CallOptions hang = ranks.Hang();
             std::string& own_bits = bits[static_cast<size_t>(rank)];
             const auto keep = [&](const Tensor& tensor) {
               own_bits.append(static_cast<const char*>(tensor.data()), tensor.byte_size());
             };
             const Ref<Tensor> input = Fractions(count, rank);
             const Ref<Tensor> result = Zeros(DType::kFloat32, count);
             TUTTI_RETURN_IF_ERROR(group.AllReduce(*input, ReduceOp::kMean, hang, result.get()));
             keep(*result);
             for (const int64_t root : {int64_t{0}, size - 1}) {
               TUTTI_RETURN_IF_ERROR(
                   group.Reduce(*input, ReduceOp::kSum, root, hang, result.get()));
               if (rank == root) keep(*result);
               TUTTI_RETURN_IF_ERROR(group.Broadcast(root, hang, result.get()));
               keep(*result);
             }
             const Ref<Tensor> share = Zeros(DType::kFloat32, count / size);
             TUTTI_RETURN_IF_ERROR(
                 group.ReduceScatter(*input, ReduceOp::kSum, hang, share.get()));
             keep(*share);
             // In place, of several types, of which one widens.
             const Ref<Tensor> half = Cast(*input, DType::kBfloat16).value();
             const Ref<Tensor> small = Cast(*share, DType::kBfloat16).value();
             const Tensor* inputs[] = {half.get(), input.get(), small.get()};
             Tensor* outputs[] = {half.get(), input.get(), small.get()};
             TUTTI_RETURN_IF_ERROR(group.AllReduce(inputs, ReduceOp::kSum, hang, outputs));
             for (const Tensor* tensor : inputs) keep(*tensor);
             return OkStatus();
           })) {
        EXPECT_TRUE(status.ok()) << NameOf(machines) << ": " << status.ToString();
      }
      results.push_back(std::move(bits));
    }
    EXPECT_TRUE(results[0] == results[1]) << NameOf(machines);
  }
}

constexpr size_t kBytesBeforeTheFault = 150'000;

// Links of `rank` between hosts fail when some chunks of a large call have passed.
template <typename FaultyLink>
HierarchicalRanks::WrapBetween FaultAt(int64_t rank) {
  return [rank](int64_t of, std::unique_ptr<Link> link) -> std::unique_ptr<Link> {
    if (of != rank) return link;
    return std::make_unique<FaultyLink>(std::move(link), kBytesBeforeTheFault);
  };
}

Status LargeSum(Communicator& group, const CallOptions& options) {
  const Ref<Tensor> own = Zeros(DType::kFloat32, 1 << 18);
  return group.AllReduce(*own, ReduceOp::kSum, options, own.get());
}

TEST(HierarchicalTransportTest, ALinkThatBreaksBetweenTwoChunksIsNamedToAll) {
  for (const int64_t rank : {0, 1, 2, 3}) {
    HierarchicalRanks ranks({"a", "a", "b", "b"}, InChunks("64KiB"), FaultAt<CutLink>(rank));
    ExpectFailure(ranks, StatusCode::kUnavailable, {"all_reduce #1", "is gone"},
                  [&](int64_t, Communicator& group) { return LargeSum(group, ranks.Hang()); });
  }
}

TEST(HierarchicalTransportTest, SilenceBetweenTwoChunksEndsAtTheDeadline) {
  for (const int64_t rank : {0, 3}) {
    HierarchicalRanks ranks({"a", "a", "b", "b"}, InChunks("64KiB"), FaultAt<MuteLink>(rank));
    ExpectFailure(ranks, StatusCode::kDeadlineExceeded, {"all_reduce #1", "rank "},
                  [&](int64_t, Communicator& group) {
                    return LargeSum(group, ranks.Timeout(300 * kMillisecondNs));
                  });
  }
}

TEST(HierarchicalTransportTest, AnAbortOrACancellationBetweenTwoChunksEndsTheCallForAll) {
  for (const bool cancels : {true, false}) {
    for (const int64_t by : {0, 1, 3}) {
      HierarchicalRanks ranks({"a", "a", "b", "b"}, InChunks("64KiB"), FaultAt<MuteLink>(1));
      const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
      std::thread ender([&] {
        while (ranks.bytes_between_hosts() < static_cast<int64_t>(kBytesBeforeTheFault)) {
          std::this_thread::yield();
        }
        if (cancels) {
          cancellation->Cancel();
        } else {
          ranks[static_cast<size_t>(by)].Abort(Aborted("enough"));
        }
      });
      ExpectFailure(ranks, cancels ? StatusCode::kCancelled : StatusCode::kAborted,
                    {cancels ? "all_reduce #1" : "enough"},
                    [&](int64_t rank, Communicator& group) {
                      CallOptions options = ranks.Hang();
                      if (cancels && rank == by) options.cancellation = cancellation.get();
                      return LargeSum(group, options);
                    });
      ender.join();
    }
  }
}

TEST(HierarchicalTransportTest, AnAbortReachesRanksThatWaitInEveryPart) {
  for (const int64_t aborts : {0, 1, 3}) {
    HierarchicalRanks ranks({"a", "a", "b", "b"});
    ExpectFailure(ranks, StatusCode::kAborted, {"enough"},
                  [&](int64_t rank, Communicator& group) {
                    if (rank == aborts) group.Abort(Aborted("enough"));
                    return group.Barrier(ranks.Hang());
                  });
  }
}

TEST(HierarchicalTransportTest, AForkedChildThatAbortsEndsNothingOfItsParents) {
  HierarchicalRanks ranks({"a", "a", "b", "b"});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    ranks[0].Abort(Aborted("of the child alone"));
    _exit(ranks[0].epoch_status().code() == StatusCode::kFailedPrecondition ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  for (const Status& status : ranks.Run(
           [&](int64_t, Communicator& group) { return group.Barrier(ranks.Hang()); })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(HierarchicalTransportTest, ACancelledCallEndsTheEpochForAll) {
  HierarchicalRanks ranks({"a", "a", "b", "b"});
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  ExpectFailure(ranks, StatusCode::kCancelled, {"barrier #1"},
                [&](int64_t rank, Communicator& group) {
                  CallOptions options = ranks.Hang();
                  if (rank == 2) {
                    cancellation->Cancel();
                    return Status(StatusCode::kCancelled, "does not come to barrier #1");
                  }
                  options.cancellation = rank == 1 ? cancellation.get() : nullptr;
                  return group.Barrier(options);
                });
}

TEST(HierarchicalTransportTest, ARankThatLeavesIsNamedToThoseWhoNeedIt) {
  HierarchicalRanks ranks({"a", "a", "b", "b"});
  ranks.Drop(3);
  for (const Status& status : ranks.Run([&](int64_t rank, Communicator& group) {
         return rank == 3 ? OkStatus() : group.Barrier(ranks.Hang());
       })) {
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("barrier #1 needs rank 3"));
  }
  EXPECT_EQ(ranks[0].epoch_status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tutti
