// What the calls of every transport give, and how they fail: the cases that a transport joins by
// collective_cases_testing.h, and the ranks of one process as the first that does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/collective/collective_cases_testing.h"
#include "core/collective/collective_reference_testing.h"
#include "core/collective/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CollectiveCases);

namespace {

using testing::HasSubstr;

constexpr DType kNumericDTypes[] = {
    DType::kBool,    DType::kInt8,     DType::kInt16,   DType::kInt32,     DType::kInt64,
    DType::kUint8,   DType::kUint16,   DType::kUint32,  DType::kUint64,    DType::kFloat16,
    DType::kBfloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
constexpr ReduceOp kReductions[] = {ReduceOp::kSum,    ReduceOp::kMean,  ReduceOp::kMin,
                                    ReduceOp::kMax,    ReduceOp::kProd,  ReduceOp::kBitAnd,
                                    ReduceOp::kBitOr, ReduceOp::kBitXor};
constexpr CollectiveOp kFolds[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduce,
                                   CollectiveOp::kReduceScatter};

struct Move {
  CollectiveOp op;
  bool uneven;
};
constexpr Move kMoves[] = {{CollectiveOp::kBroadcast, false}, {CollectiveOp::kScatter, false},
                           {CollectiveOp::kAllGather, false}, {CollectiveOp::kAllGather, true},
                           {CollectiveOp::kGather, true},     {CollectiveOp::kAllToAll, false},
                           {CollectiveOp::kAllToAll, true}};
constexpr size_t kSizes[] = {1, 2, 3, 4, 5, 8};

Status RunCalls(const std::vector<ReferenceCall>& calls, CollectiveRanks& ranks) {
  std::vector<ReferenceCase> cases;
  for (const ReferenceCall& call : calls) {
    cases.emplace_back(call, static_cast<int64_t>(ranks.size()));
  }
  const CallOptions options = ranks.Hang();
  const std::vector<Status> statuses = ranks.Run([&](int64_t rank, Communicator& communicator) {
    for (size_t i = 0; i < cases.size(); ++i) {
      Status status = cases[i].Run(rank, communicator, options);
      if (!status.ok()) {
        return std::move(status).WithPrefix(calls[i].ToString() + ", rank " +
                                            std::to_string(rank));
      }
    }
    return OkStatus();
  });
  for (const Status& status : statuses) TUTTI_RETURN_IF_ERROR(status);
  return OkStatus();
}

void ExpectRuns(const std::vector<ReferenceCall>& calls, CollectiveRanks& ranks) {
  const Status status = RunCalls(calls, ranks);
  EXPECT_TRUE(status.ok()) << ranks.size() << " ranks: " << status.ToString();
}

// Every operation of that many rows, from the last rank where there is a root.
std::vector<ReferenceCall> AllOperations(size_t size, int64_t rows, bool in_place, bool strided) {
  std::vector<ReferenceCall> calls;
  for (CollectiveOp op : kFolds) {
    calls.push_back({.op = op, .dtype = DType::kFloat32});
  }
  for (const Move& move : kMoves) {
    calls.push_back({.op = move.op, .uneven = move.uneven, .dtype = DType::kFloat32});
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].root = static_cast<int64_t>(size) - 1;
    calls[i].rows = rows;
    calls[i].columns = 3;
    calls[i].in_place = in_place;
    calls[i].strided = strided;
    calls[i].seed = i + 1;
  }
  return calls;
}

Ref<Tensor> Floats(std::initializer_list<int64_t> dims) {
  return Tensor::Create(DType::kFloat32, Shape(dims)).value();
}

void AwaitInCall(Communicator& communicator, int64_t sequence) {
  while (communicator.sequence() < sequence) std::this_thread::yield();
}

// ---- Results ----

TEST_P(CollectiveCases, FoldEveryDTypeWithEveryReductionThatItHas) {
  for (const size_t size : kSizes) {
    const auto ranks = Make(size);
    std::vector<ReferenceCall> calls;
    for (const DType dtype : kNumericDTypes) {
      for (const ReduceOp reduction : kReductions) {
        if (!CheckReducible(reduction, dtype).ok()) continue;
        for (const CollectiveOp op : kFolds) {
          calls.push_back({.op = op,
                           .dtype = dtype,
                           .reduction = reduction,
                           .root = static_cast<int64_t>(calls.size() % size),
                           .rows = 3,
                           .columns = 5,
                           .seed = calls.size() + 1});
        }
      }
    }
    ExpectRuns(calls, *ranks);
  }
}

TEST_P(CollectiveCases, MoveEveryDType) {
  for (const size_t size : kSizes) {
    const auto ranks = Make(size);
    std::vector<ReferenceCall> calls;
    for (const DType dtype : kNumericDTypes) {
      for (const Move& move : kMoves) {
        calls.push_back({.op = move.op,
                         .uneven = move.uneven,
                         .dtype = dtype,
                         .root = static_cast<int64_t>(calls.size() % size),
                         .rows = 3,
                         .columns = 5,
                         .seed = calls.size() + 1});
      }
    }
    ExpectRuns(calls, *ranks);
  }
}

TEST_P(CollectiveCases, WorkOnNoRowsOnOneAndOnMany) {
  for (const size_t size : kSizes) {
    const auto ranks = Make(size);
    for (const int64_t rows : {0, 1, 100, 1500, size <= 3 ? 30'001 : 9001}) {
      ExpectRuns(AllOperations(size, rows, false, false), *ranks);
    }
  }
}

TEST_P(CollectiveCases, WorkInPlace) {
  for (const size_t size : kSizes) {
    const auto ranks = Make(size);
    for (const int64_t rows : {0, 1, 1500, 9001}) {
      ExpectRuns(AllOperations(size, rows, true, false), *ranks);
    }
  }
}

TEST_P(CollectiveCases, ReadAndWriteStridedTensors) {
  for (const size_t size : {2, 3}) {
    const auto ranks = Make(size);
    for (const int64_t rows : {1, 9001}) {
      ExpectRuns(AllOperations(size, rows, false, true), *ranks);
      ExpectRuns(AllOperations(size, rows, true, true), *ranks);
    }
  }
}

TEST_P(CollectiveCases, GiveWhatTheDefinitionSaysInAnyOrder) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const size_t size : kSizes) {
    const auto ranks = Make(size);
    std::vector<ReferenceCall> calls;
    while (calls.size() < 120) {
      ReferenceCall call;
      const Move move = kMoves[random() % std::size(kMoves)];
      const bool folds = random() % 2 == 0;
      call.op = folds ? kFolds[random() % std::size(kFolds)] : move.op;
      call.uneven = !folds && move.uneven;
      call.dtype = kNumericDTypes[random() % std::size(kNumericDTypes)];
      call.reduction = kReductions[random() % std::size(kReductions)];
      if (folds && !CheckReducible(call.reduction, call.dtype).ok()) continue;
      constexpr int64_t kRows[] = {0, 1, 2, 7, 64, 1000, 9000};
      call.root = static_cast<int64_t>(random() % size);
      call.rows = kRows[random() % std::size(kRows)];
      call.columns = static_cast<int64_t>(1 + random() % 4);
      call.in_place = random() % 3 == 0;
      call.strided = random() % 4 == 0;
      call.seed = random() % 1000;
      calls.push_back(call);
    }
    ExpectRuns(calls, *ranks);
  }
}

TEST_P(CollectiveCases, CopyWhereAnOutputOverlapsAnInputHalf) {
  const auto ranks = Make(2);
  const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
    Ref<Tensor> memory =
        Tensor::FromSpan<int32_t>(Shape({6}), std::vector<int32_t>{1, 2, 3, 4, 5, 6}).value();
    // Rows 1 to 4 for rows 0 to 3.
    Ref<Tensor> output = memory->Slice(1, 5);
    TUTTI_RETURN_IF_ERROR(
        communicator.AllToAll(*memory->Slice(0, 4), ranks->Hang(), output.get()));
    const std::vector<int32_t> expected = rank == 0 ? std::vector<int32_t>{1, 1, 2, 1, 2, 6}
                                                    : std::vector<int32_t>{1, 3, 4, 3, 4, 6};
    for (size_t i = 0; i < expected.size(); ++i) {
      if (memory->span<int32_t>()[i] != expected[i]) return DataLoss("{}", memory->ToString());
    }
    // The wrong part of its own input.
    return communicator.ReduceScatter(*memory->Slice(0, 4), ReduceOp::kSum, ranks->Hang(),
                                      memory->Slice(1, 3).get());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_P(CollectiveCases, GatherByteStringsAtTheRoot) {
  const auto ranks = Make(3);
  const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
    const std::string text = "from rank " + std::to_string(rank);
    const BytesView views[] = {{text.data(), text.size()}};
    Ref<Tensor> joined;
    TUTTI_RETURN_IF_ERROR(communicator.Gather(*Tensor::FromStrings(Shape({1}), views).value(), 1,
                                              0, ranks->Hang(), &joined));
    if (rank != 1) return joined ? Internal("a result") : OkStatus();
    if (joined->span<BytesView>()[2].text() == "from rank 2") return OkStatus();
    return DataLoss("{}", joined->ToString());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

// ---- Transfers ----

TEST_P(CollectiveCases, SendEveryDTypeAroundARing) {
  for (const size_t size : {2, 3, 8}) {
    const auto ranks = Make(size);
    const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
      const auto last = static_cast<int64_t>(size) - 1;
      for (const int64_t rows : {0, 1, 1000, 100'000}) {
        for (const DType dtype : kNumericDTypes) {
          if (rows == 100'000 && dtype != DType::kFloat32) continue;
          Ref<Tensor> sent = RandomTensor(dtype, rows, 3, 7);
          Ref<Tensor> got = RandomTensor(dtype, rows, 3, 8);
          const int64_t to = rank == last ? 0 : rank + 1;
          const int64_t from = rank == 0 ? last : rank - 1;
          if (rank == 0) TUTTI_RETURN_IF_ERROR(communicator.Send(*sent, to, ranks->Hang()));
          TUTTI_RETURN_IF_ERROR(communicator.Receive(from, ranks->Hang(), got.get()));
          if (rank != 0) TUTTI_RETURN_IF_ERROR(communicator.Send(*got, to, ranks->Hang()));
          if (!got->ContentsEqual(*sent)) return DataLoss("{}", got->ToString());
        }
      }
      return OkStatus();
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_P(CollectiveCases, SendAndReceiveStridedTensors) {
  const auto ranks = Make(2);
  const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
    const Ref<Tensor> sent = RandomTensor(DType::kInt32, 5000, 4, 7, /*strided=*/true);
    if (rank == 0) return communicator.Send(*sent, 1, ranks->Hang());
    Ref<Tensor> got = RandomTensor(DType::kInt32, 5000, 4, 8, /*strided=*/true);
    TUTTI_RETURN_IF_ERROR(communicator.Receive(0, ranks->Hang(), got.get()));
    return got->ContentsEqual(*sent) ? OkStatus() : DataLoss("{}", got->ToString());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

// Rank 0 takes from the others in turn; they send as they like, between calls of all.
TEST_P(CollectiveCases, KeepTheTransfersOfEachPairInOrderAmongTheOtherCalls) {
  const auto ranks = Make(4);
  constexpr int kRounds = 60;
  const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
    for (int32_t round = 0; round < kRounds; ++round) {
      if (rank == 0) {
        for (int64_t i = 0; i < 3; ++i) {
          const int64_t from = 1 + (round + i) % 3;
          Ref<Tensor> number = Tensor::Scalar<int32_t>(-1);
          TUTTI_RETURN_IF_ERROR(communicator.Receive(from, ranks->Hang(), number.get()));
          if (number->item<int32_t>() != 1000 * from + round) {
            return DataLoss("round {}: {} from rank {}", round, number->item<int32_t>(), from);
          }
        }
      } else {
        const auto number = static_cast<int32_t>(1000 * rank + round);
        TUTTI_RETURN_IF_ERROR(
            communicator.Send(*Tensor::Scalar<int32_t>(number), 0, ranks->Hang()));
      }
      if (round % 5 == 0) TUTTI_RETURN_IF_ERROR(communicator.Barrier(ranks->Hang()));
    }
    if (communicator.sequence() != kRounds / 5) return Internal("transfers have been counted");
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_P(CollectiveCases, TransferBetweenTwoWhileTheOthersDoNothing) {
  const auto ranks = Make(3);
  const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
    if (rank == 1) return OkStatus();
    Ref<Tensor> tensor = Floats({100});
    return rank == 0 ? communicator.Send(*tensor, 2, ranks->Hang())
                     : communicator.Receive(0, ranks->Hang(), tensor.get());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

// ---- Mismatches: the same error on all ranks that take part ----

template <typename Body>
void ExpectMismatch(CollectiveRanks& ranks, const std::string& message, Body body) {
  const std::vector<Status> statuses = ranks.Run(body);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_EQ(status.message(), statuses[0].message());
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].Barrier(ranks.Hang()).code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(CollectiveCases, NameBothReductionsOfAReduce) {
  const auto ranks = Make(3);
  ExpectMismatch(*ranks, "rank 1: reduce #1 reduces with MAX, rank 0 with SUM",
                 [&](int64_t rank, Communicator& communicator) {
                   Ref<Tensor> tensor = Floats({100});
                   return communicator.Reduce(*tensor, rank == 1 ? ReduceOp::kMax : ReduceOp::kSum,
                                              0, ranks->Hang(), tensor.get());
                 });
}

TEST_P(CollectiveCases, NameBothShapesOfAReduceScatter) {
  const auto ranks = Make(2);
  ExpectMismatch(*ranks, "rank 1: reduce_scatter #1 got float32[60000], rank 0 sent float32[4]",
                 [&](int64_t rank, Communicator& communicator) {
                   const int64_t rows = rank == 1 ? 30'000 : 2;
                   return communicator.ReduceScatter(*Floats({2 * rows}), ReduceOp::kSum,
                                                     ranks->Hang(), Floats({rows}).get());
                 });
}

TEST_P(CollectiveCases, NameBothRootsOfAScatter) {
  const auto ranks = Make(2);
  ExpectMismatch(*ranks, "rank 1: scatter #1 has root 1, rank 0 has root 0",
                 [&](int64_t rank, Communicator& communicator) {
                   return communicator.Scatter(Floats({4}).get(), rank, ranks->Hang(),
                                               Floats({2}).get());
                 });
}

TEST_P(CollectiveCases, NameBothWholesOfAScatter) {
  const auto ranks = Make(2);
  ExpectMismatch(*ranks,
                 "rank 1: scatter #1 got float32[6], rank 0 sent float32[4]; dtype and shape of "
                 "the whole",
                 [&](int64_t rank, Communicator& communicator) {
                   return communicator.Scatter(Floats({4}).get(), 0, ranks->Hang(),
                                               Floats({rank == 1 ? 3 : 2}).get());
                 });
}

TEST_P(CollectiveCases, NameBothKindsOfAllToAll) {
  const auto ranks = Make(2);
  ExpectMismatch(*ranks, "rank 1: all_to_all #1 has different sizes on the ranks, rank 0 called",
                 [&](int64_t rank, Communicator& communicator) {
                   const int64_t rows[] = {1, 1};
                   Ref<Tensor> output = Floats({2});
                   return rank == 1 ? communicator.AllToAllUneven(*Floats({2}), rows,
                                                                  ranks->Hang(), &output, nullptr)
                                    : communicator.AllToAll(*Floats({2}), ranks->Hang(),
                                                            output.get());
                 });
}

TEST_P(CollectiveCases, NameBothRowsOfAGather) {
  const auto ranks = Make(2);
  ExpectMismatch(*ranks, "rank 1: gather #1 got float32[2,3], rank 0 sent float32[5,4]; dtype and",
                 [&](int64_t rank, Communicator& communicator) {
                   Ref<Tensor> joined;
                   return communicator.Gather(rank == 1 ? *Floats({2, 3}) : *Floats({5, 4}), 0, 0,
                                              ranks->Hang(), &joined);
                 });
}

TEST_P(CollectiveCases, NameBothSidesOfATransfer) {
  for (const bool large : {false, true}) {
    const auto ranks = Make(2);
    const std::string message = large ? "rank 1: receive #1 from rank 0 got a tensor int32[5] to "
                                        "fill, rank 0 sent float32[100000]"
                                      : "rank 1: receive #1 from rank 0 got a tensor int32[5] to "
                                        "fill, rank 0 sent float32[5]";
    ExpectMismatch(*ranks, message, [&](int64_t rank, Communicator& communicator) {
      if (rank == 0) {
        return communicator.Send(*Floats({large ? 100'000 : 5}), 1, ranks->Hang());
      }
      Ref<Tensor> tensor = Tensor::Create(DType::kInt32, Shape({5})).value();
      return communicator.Receive(0, ranks->Hang(), tensor.get());
    });
  }
}

// ---- Arguments that a rank alone can see to be wrong: nobody waits for it ----

template <typename BadCall>
void ExpectRefused(CollectiveRanks& ranks, StatusCode code, const std::string& message,
                   BadCall bad_call) {
  const std::vector<Status> statuses = ranks.Run([&](int64_t rank, Communicator& communicator) {
    return rank == 1 ? bad_call(communicator) : communicator.Barrier(ranks.Hang());
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST_P(CollectiveCases, RefuseRowsThatCannotBeSharedEqually) {
  const std::string rule = "is 7 rows, which 4 ranks cannot share equally; pad it to 8 rows";
  ExpectRefused(*Make(4), StatusCode::kInvalidArgument,
                "reduce_scatter #1: axis 0 of the input float32[7,2] " + rule +
                    ", or use all_reduce",
                [](Communicator& communicator) {
                  return communicator.ReduceScatter(*Floats({7, 2}), ReduceOp::kSum, CallOptions(),
                                                    Floats({2, 2}).get());
                });
  ExpectRefused(*Make(4), StatusCode::kInvalidArgument, rule, [](Communicator& communicator) {
    return communicator.AllToAll(*Floats({7}), CallOptions(), Floats({7}).get());
  });
  ExpectRefused(*Make(4), StatusCode::kInvalidArgument, rule, [](Communicator& communicator) {
    return communicator.Scatter(Floats({7}).get(), 1, CallOptions(), Floats({2}).get());
  });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument, "float32[] has no rows to share",
                [](Communicator& communicator) {
                  return communicator.AllToAll(*Floats({}), CallOptions(), Floats({}).get());
                });
}

TEST_P(CollectiveCases, RefuseOutputsOfAnotherShape) {
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument,
                "the output is float32[3], expected float32[2], one of 2 equal shares of the input "
                "float32[4]",
                [](Communicator& communicator) {
                  return communicator.ReduceScatter(*Floats({4}), ReduceOp::kSum, CallOptions(),
                                                    Floats({3}).get());
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument,
                "the output is float32[5,2], expected float32[4,2] for inputs float32[2,2] of 2 "
                "ranks",
                [](Communicator& communicator) {
                  return communicator.AllGatherInto(*Floats({2, 2}), CallOptions(),
                                                    Floats({5, 2}).get());
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument, "the output is float32[5], the input",
                [](Communicator& communicator) {
                  return communicator.Reduce(*Floats({4}), ReduceOp::kSum, 1, CallOptions(),
                                             Floats({5}).get());
                });
}

TEST_P(CollectiveCases, RefuseRootsPeersAndCountsThatCannotBe) {
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument, "root is 2; pass a rank in [0, 2)",
                [](Communicator& communicator) {
                  Ref<Tensor> joined;
                  return communicator.Gather(*Floats({4}), 2, 0, CallOptions(), &joined);
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument,
                "send #1: the peer is rank -1; pass a rank in [0, 2)",
                [](Communicator& communicator) {
                  return communicator.Send(*Floats({4}), -1, CallOptions());
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument,
                "receive #1: the peer is this rank itself", [](Communicator& communicator) {
                  return communicator.Receive(1, CallOptions(), Floats({4}).get());
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument,
                "the row counts add up to 3, the input float32[4] has 4 rows",
                [](Communicator& communicator) {
                  const int64_t rows[] = {1, 2};
                  Ref<Tensor> output;
                  return communicator.AllToAllUneven(*Floats({4}), rows, CallOptions(), &output,
                                                     nullptr);
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument, "got 3 row counts for 2 ranks",
                [](Communicator& communicator) {
                  const int64_t rows[] = {1, 2, 1};
                  Ref<Tensor> output;
                  return communicator.AllToAllUneven(*Floats({4}), rows, CallOptions(), &output,
                                                     nullptr);
                });
}

TEST_P(CollectiveCases, RefuseOutputsThatCannotBeWritten) {
  static const float numbers[4] = {};
  const auto read_only = [](int64_t rows) {
    return Tensor::View(const_cast<float*>(numbers), DType::kFloat32, Shape({rows}), {}, true,
                        Ref<const RefCounted>());
  };
  ExpectRefused(*Make(2), StatusCode::kFailedPrecondition, "float32[4] is read-only",
                [&](Communicator& communicator) {
                  return communicator.Receive(0, CallOptions(), read_only(4).get());
                });
  ExpectRefused(*Make(2), StatusCode::kFailedPrecondition, "float32[2] is read-only",
                [&](Communicator& communicator) {
                  return communicator.Scatter(nullptr, 0, CallOptions(), read_only(2).get());
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument, "the output tensor is null",
                [&](Communicator& communicator) {
                  return communicator.AllToAll(*Floats({4}), CallOptions(), nullptr);
                });
  ExpectRefused(*Make(2), StatusCode::kInvalidArgument, "bytes tensor",
                [&](Communicator& communicator) {
                  return communicator.Send(*Tensor::Bytes("text"), 0, CallOptions());
                });
}

// ---- Ends in the middle ----

// All wait in a call for the last rank, which never comes but ends the epoch.
template <typename End>
void ExpectEnds(CollectiveRanks& ranks, const ReferenceCall& call, StatusCode code, End end) {
  const auto last = static_cast<int64_t>(ranks.size()) - 1;
  const ReferenceCase reference(call, last + 1);
  std::thread ender([&] {
    for (int64_t rank = 0; rank < last; ++rank) AwaitInCall(ranks[rank], 1);
    end(ranks[last]);
  });
  const std::vector<Status> statuses = ranks.Run([&](int64_t rank, Communicator& communicator) {
    return rank == last ? OkStatus() : reference.Run(rank, communicator, ranks.Hang());
  });
  ender.join();
  for (int64_t rank = 0; rank < last; ++rank) {
    EXPECT_EQ(statuses[rank].code(), code) << call.ToString() << ": " << statuses[rank].ToString();
  }
}

TEST_P(CollectiveCases, EndWhenARankLeavesOrAbortsInsteadOfComing) {
  for (const int64_t rows : {2, 20'000}) {
    for (const ReferenceCall& call : AllOperations(3, rows, false, false)) {
      ExpectEnds(*Make(3), call, StatusCode::kUnavailable, [](Communicator& communicator) {
        EXPECT_TRUE(communicator.Close(CallOptions()).ok());
      });
      ExpectEnds(*Make(3), call, StatusCode::kAborted, [](Communicator& communicator) {
        communicator.Abort(Status(StatusCode::kAborted, "enough"));
      });
    }
  }
}

TEST_P(CollectiveCases, EndAtTheDeadlineAndNameWhoIsMissing) {
  for (const ReferenceCall& call : AllOperations(3, 2, false, false)) {
    const auto ranks = Make(3);
    const ReferenceCase reference(call, 3);
    std::latch both_are_here(2);  // or one misses the other, which came too late
    const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
      if (rank == 2) return OkStatus();
      both_are_here.arrive_and_wait();
      return reference.Run(rank, communicator, ranks->Timeout(100 * kMillisecondNs));
    });
    for (int rank : {0, 1}) {
      EXPECT_EQ(statuses[rank].code(), StatusCode::kDeadlineExceeded) << call.ToString();
      EXPECT_THAT(std::string(statuses[rank].message()), HasSubstr("rank 2"));
    }
  }
}

TEST_P(CollectiveCases, EndATransferWhenThePeerLeavesAbortsOrIsLate) {
  for (const bool sends : {false, true}) {
    const auto transfer = [&](Communicator& communicator, const CallOptions& options) {
      Ref<Tensor> tensor = Floats({100'000});
      return sends ? communicator.Send(*tensor, 1, options)
                   : communicator.Receive(1, options, tensor.get());
    };
    {
      const auto ranks = Make(2);
      const Status status = transfer((*ranks)[0], ranks->Timeout(20 * kMillisecondNs));
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
      EXPECT_EQ((*ranks)[1].Barrier(ranks->Hang()).code(), StatusCode::kDeadlineExceeded);
    }
    {
      const auto ranks = Make(2);
      std::thread leaver([&] { EXPECT_TRUE((*ranks)[1].Close(ranks->Hang()).ok()); });
      const Status status = transfer((*ranks)[0], ranks->Hang());
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
      leaver.join();
    }
    {
      const auto ranks = Make(2);
      std::thread aborter(
          [&] { (*ranks)[1].Abort(Status(StatusCode::kAborted, "no more of this")); });
      const Status status = transfer((*ranks)[0], ranks->Hang());
      EXPECT_EQ(status.code(), StatusCode::kAborted);
      EXPECT_THAT(std::string(status.message()), HasSubstr("no more of this"));
      aborter.join();
    }
    {
      const auto ranks = Make(2);
      const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
      CallOptions options = ranks->Hang();
      options.cancellation = cancellation.get();
      std::thread canceller([&] { cancellation->Cancel(); });
      EXPECT_EQ(transfer((*ranks)[0], options).code(), StatusCode::kCancelled);
      canceller.join();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InProcess, CollectiveCases,
                         testing::Values(CollectiveWorldOf<RankGroup>("threads")),
                         CollectiveWorldName);

}  // namespace
}  // namespace tutti
