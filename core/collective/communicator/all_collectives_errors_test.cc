// How the calls of every transport fail: one that the ranks make differently, one that a rank can
// see to be wrong, and one that a rank leaves, aborts or never comes to. Cases that a transport
// joins by collective_cases_testing.h.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/base/environment.h"
#include "core/base/memory_account.h"
#include "core/collective/testing/all_operations_testing.h"
#include "core/collective/testing/collective_cases_testing.h"
#include "core/collective/testing/collective_reference_testing.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

void AwaitInCall(Communicator& communicator, int64_t sequence) {
  while (communicator.sequence() < sequence) std::this_thread::yield();
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

// A rank knows calls again that it has made before; what has changed is found all the same.
TEST_P(CollectiveCases, NameBothSidesOfAnAllReduceThatOneRankHasMadeBefore) {
  const auto ranks = Make(2);
  ExpectMismatch(*ranks, "rank 1: all_reduce #9 got float32[4], rank 0 sent float32[2,2]",
                 [&](int64_t rank, Communicator& communicator) {
                   for (int i = 0; i < 8; ++i) {
                     Ref<Tensor> tensor = i % 2 == 0 ? Floats({4}) : Floats({2, 2});
                     Status status = communicator.AllReduce(*tensor, ReduceOp::kSum, ranks->Hang(),
                                                            tensor.get());
                     if (!status.ok()) return status;
                   }
                   Ref<Tensor> tensor = rank == 1 ? Floats({4}) : Floats({2, 2});
                   return communicator.AllReduce(*tensor, ReduceOp::kSum, ranks->Hang(),
                                                 tensor.get());
                 });
}

TEST_P(CollectiveCases, RefuseAReadOnlyOutputOfAnAllReduceThatTheyHaveMadeBefore) {
  const auto ranks = Make(2);
  const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
    Ref<Tensor> tensor = Floats({4});
    for (int i = 0; i < 3; ++i) {
      Status status =
          communicator.AllReduce(*tensor, ReduceOp::kSum, ranks->Hang(), tensor.get());
      if (!status.ok()) return status;
    }
    Ref<Tensor> shown = Tensor::View(tensor->mutable_data(), DType::kFloat32, Shape({4}), {},
                                     /*read_only=*/rank == 1, tensor);
    return communicator.AllReduce(*tensor, ReduceOp::kSum, ranks->Hang(), shown.get());
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("float32[4] is read-only"));
  }
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
    // Rank 0 gives up for both of them. It comes when rank 1 waits, or it would miss that one, too;
    // and who waits asks its host.
    std::atomic<bool> waits = false;
    const auto ask = [](void* asked) {
      static_cast<std::atomic<bool>*>(asked)->store(true);
      return false;
    };
    const Ref<Cancellation> host =
        MakeRef<Cancellation>(ask, &waits, Ref<const RefCounted>());
    const std::vector<Status> statuses = ranks->Run([&](int64_t rank, Communicator& communicator) {
      if (rank == 2) return OkStatus();
      if (rank == 0) {
        while (!waits.load()) std::this_thread::yield();
        return reference.Run(rank, communicator, ranks->Timeout(100 * kMillisecondNs));
      }
      CallOptions options = ranks->Hang();
      options.cancellation = host.get();
      Status status = reference.Run(rank, communicator, options);
      waits.store(true);  // should it not have waited at all
      return status;
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

// ---- Results whose size the peers decide ----

using Gatherer = Status (*)(int64_t rank, Communicator& communicator, const CallOptions& call,
                            Ref<Tensor>* result);

Status GatherNumbers(int64_t rank, Communicator& communicator, const CallOptions& call,
                     Ref<Tensor>* result) {
  return communicator.AllGather(*Floats({rank == 1 ? 100'000 : 1}), 0, call, result);
}

Status GatherStrings(int64_t rank, Communicator& communicator, const CallOptions& call,
                     Ref<Tensor>* result) {
  const std::string text(rank == 1 ? 400'000 : 1, 't');
  const BytesView view{text.data(), text.size()};
  const Ref<Tensor> strings = Tensor::FromStrings(Shape({1}), std::span(&view, 1)).value();
  return communicator.AllGather(*strings, 0, call, result);
}

Status ExchangeRows(int64_t rank, Communicator& communicator, const CallOptions& call,
                    Ref<Tensor>* result) {
  const int64_t rows = rank == 1 ? 100'000 : 1;
  const int64_t send_rows[] = {rows, rows};
  return communicator.AllToAllUneven(*Floats({2 * rows}), send_rows, call, result, nullptr);
}

TEST_P(CollectiveCases, ChargeWhatPeersMakeThemAllocate) {
  for (const Gatherer gather : {GatherNumbers, GatherStrings, ExchangeRows}) {
    const auto ranks = Make(2);
    MemoryAccount& account = (*ranks)[0].environment().memory();
    const uint64_t before = account.used_bytes();
    std::vector<Ref<Tensor>> results(2);
    const std::vector<Status> statuses =
        ranks->Run([&](int64_t rank, Communicator& communicator) {
          return gather(rank, communicator, ranks->Hang(), &results[static_cast<size_t>(rank)]);
        });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_GE(account.used_bytes(), before + 400'000);
    results.clear();
    EXPECT_EQ(account.used_bytes(), before);
  }
}

TEST_P(CollectiveCases, RefuseWhatThePeersMakeTooLarge) {
  for (const Gatherer gather : {GatherNumbers, GatherStrings, ExchangeRows}) {
    const auto ranks = Make(2);
    MemoryAccount& account = (*ranks)[0].environment().memory();
    account.set_limit_bytes(account.used_bytes() + 300'000);
    const std::vector<Status> statuses =
        ranks->Run([&](int64_t rank, Communicator& communicator) {
          Ref<Tensor> result;
          return gather(rank, communicator, ranks->Hang(), &result);
        });
    EXPECT_EQ(statuses[0].code(), StatusCode::kResourceExhausted) << statuses[0].ToString();
    EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("limit"));
    EXPECT_FALSE(statuses[1].ok());
    account.set_limit_bytes(0);
  }
}

}  // namespace
}  // namespace tutti
