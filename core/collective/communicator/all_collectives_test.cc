// What the calls of every transport give: the cases that a transport joins by
// collective_cases_testing.h, and the ranks of one process as the first that does.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/seeded_runs_testing.h"
#include "core/collective/testing/all_operations_testing.h"
#include "core/collective/testing/collective_cases_testing.h"
#include "core/collective/testing/collective_reference_testing.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CollectiveCases);

namespace {

constexpr DType kNumericDTypes[] = {
    DType::kBool,    DType::kInt8,     DType::kInt16,   DType::kInt32,     DType::kInt64,
    DType::kUint8,   DType::kUint16,   DType::kUint32,  DType::kUint64,    DType::kFloat16,
    DType::kBfloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
constexpr ReduceOp kReductions[] = {ReduceOp::kSum,    ReduceOp::kMean,  ReduceOp::kMin,
                                    ReduceOp::kMax,    ReduceOp::kProd,  ReduceOp::kBitAnd,
                                    ReduceOp::kBitOr, ReduceOp::kBitXor};
// The numbers of ranks. Large worlds of threads take long under sanitizers, where fewer are tried.
std::vector<size_t> Sizes() {
  if (TestScale() < kOrdinaryScale) return {1, 2, 3, 5};
  return {1, 2, 3, 4, 5, 8};
}

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

// ---- Results ----

TEST_P(CollectiveCases, FoldEveryDTypeWithEveryReductionThatItHas) {
  for (const size_t size : Sizes()) {
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
  for (const size_t size : Sizes()) {
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
  for (const size_t size : Sizes()) {
    const auto ranks = Make(size);
    for (const int64_t rows : {0, 1, 100, 1500, size <= 3 ? 30'001 : 9001}) {
      ExpectRuns(AllOperations(size, rows, false, false), *ranks);
    }
  }
}

TEST_P(CollectiveCases, WorkInPlace) {
  for (const size_t size : Sizes()) {
    const auto ranks = Make(size);
    for (const int64_t rows : {0, 1, 1500, 9001}) {
      ExpectRuns(AllOperations(size, rows, true, false), *ranks);
    }
  }
}

// Calls that come again and again, more kinds than a rank knows at a time, in memory that is now in
// place, now apart, now overlapping by half, now strided.
TEST_P(CollectiveCases, SumAgainWhatTheyHaveSummedBefore) {
  constexpr int64_t kElements[] = {0, 1, 2, 3, 16, 17, 100, 256, 1000, 3000, 30'000};
  const auto ranks = Make(2);
  const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
    for (int round = 0; round < 6; ++round) {
      for (const int64_t elements : kElements) {
        for (const ReduceOp reduction : {ReduceOp::kSum, ReduceOp::kMax}) {
          Ref<Tensor> memory =
              Tensor::Create(DType::kFloat32, Shape({3 * elements + 4})).value();
          const int way = round % 4;
          Ref<Tensor> input = memory->Slice(0, elements);
          const std::array<int64_t, 1> count = {elements};
          const std::array<int64_t, 1> step = {2};
          Ref<Tensor> output = way == 0   ? input
                               : way == 1 ? memory->Slice(elements, 2 * elements)
                               : way == 2 ? memory->Slice(elements / 2, elements / 2 + elements)
                                          : memory->SliceGeneral(count, count, step).value();
          for (int64_t i = 0; i < elements; ++i) {
            input->mutable_span<float>()[static_cast<size_t>(i)] =
                static_cast<float>(i + round + (rank == 0 ? 1 : 0));
          }
          Status status = communicator.AllReduce(*input, reduction, ranks->Hang(), output.get());
          if (!status.ok()) return status;
          for (int64_t i = 0; i < elements; ++i) {
            const auto mine = static_cast<float>(i + round);
            const float expected = reduction == ReduceOp::kSum ? 2 * mine + 1 : mine + 1;
            const float found = *static_cast<const float*>(output->ElementAt(i));
            if (found != expected) {
              return InvalidArgument("round {}: element {} of {} is {}, expected {}", round, i,
                                     elements, found, expected);
            }
          }
        }
      }
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
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
  const size_t wanted = TestScale() < kOrdinaryScale ? 40 : 120;
  for (const size_t size : Sizes()) {
    const auto ranks = Make(size);
    std::vector<ReferenceCall> calls;
    while (calls.size() < wanted) {
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

INSTANTIATE_TEST_SUITE_P(InProcess, CollectiveCases,
                         testing::Values(CollectiveWorldOf<RankGroup>("threads")),
                         CollectiveWorldName);

}  // namespace
}  // namespace tutti
