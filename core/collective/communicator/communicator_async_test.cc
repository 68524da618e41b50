// Asynchronous calls: order, turns of other calls, errors, deadlines, what they hold on to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

using testing::HasSubstr;

constexpr auto kSum = ReduceOp::kSum;

std::string Message(const Status& status) { return std::string(status.message()); }

int64_t IntDetail(const Status& status, const char* key) {
  const StatusDetail* detail = status.FindDetail(key);
  return detail == nullptr ? -1 : std::get<int64_t>(detail->value);
}

Ref<Tensor> Floats(std::vector<float> elements) {
  Ref<Tensor> tensor =
      Tensor::Create(DType::kFloat32, Shape({static_cast<int64_t>(elements.size())})).value();
  std::copy(elements.begin(), elements.end(), static_cast<float*>(tensor->mutable_data()));
  return tensor;
}

std::vector<float> Elements(const Tensor& tensor) {
  const auto* data = static_cast<const float*>(tensor.data());
  return std::vector<float>(data, data + tensor.num_elements());
}

Status Outcome(const Result<Ref<Future>>& future, const CallOptions& patience) {
  TUTTI_RETURN_IF_ERROR(future.status());
  TUTTI_RETURN_IF_ERROR((*future)->Wait(patience));
  Ref<Value> value;
  return (*future)->GetResult(&value);
}

Ref<Tensor> TensorOf(const Result<Ref<Future>>& future, const CallOptions& patience) {
  Ref<Value> value;
  if (!Outcome(future, patience).ok() || !(*future)->GetResult(&value).ok()) return nullptr;
  return value->GetTensor("result").value();
}

TEST(CommunicatorAsync, EveryOperationDoesWhatTheSameCallDoes) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    const auto r = static_cast<float>(rank);
    const CallOptions call = group.Hang();
    const Ref<Tensor> input = Floats({1 + r, 2 + r});
    const Ref<Tensor> sum = Floats({0, 0});
    const Ref<Tensor> many[] = {Floats({r}), Floats({r, 1})};
    const Ref<Tensor> sent = Floats({10 * r, 7});
    const Ref<Tensor> joined = Floats({0, 0, 0, 0});
    const Ref<Tensor> reduced = Floats({0, 0});
    const Ref<Tensor> share = Floats({0});
    const Ref<Tensor> scattered = Floats({0});
    const Ref<Tensor> exchanged = Floats({0, 0});
    const Ref<Tensor> moved = Floats({r});
    const Tensor* many_in[] = {many[0].get(), many[1].get()};
    Tensor* many_out[] = {many[0].get(), many[1].get()};
    std::vector<Result<Ref<Future>>> futures;
    futures.push_back(self.AllReduceAsync(*input, kSum, call, sum.get()));
    futures.push_back(self.AllReduceAsync(many_in, kSum, call, many_out));
    futures.push_back(self.BroadcastAsync(1, call, sent.get()));
    futures.push_back(self.AllGatherIntoAsync(*input, call, joined.get()));
    futures.push_back(self.ReduceAsync(*input, kSum, 1, call, rank == 1 ? reduced.get() : nullptr));
    futures.push_back(self.ReduceScatterAsync(*input, kSum, call, share.get()));
    futures.push_back(
        self.ScatterAsync(rank == 0 ? input.get() : nullptr, 0, call, scattered.get()));
    futures.push_back(self.AllToAllAsync(*input, call, exchanged.get()));
    futures.push_back(rank == 0 ? self.SendAsync(*input, 1, call)
                                : self.ReceiveAsync(0, call, reduced.get()));
    futures.push_back(self.BarrierAsync(call));
    const Result<Ref<Future>> gathered = self.AllGatherAsync(*moved, 0, call);
    const Result<Ref<Future>> at_root = self.GatherAsync(*moved, 0, 0, call);
    // Later ones first.
    TUTTI_RETURN_IF_ERROR(Outcome(at_root, call));
    for (auto it = futures.rbegin(); it != futures.rend(); ++it) {
      TUTTI_RETURN_IF_ERROR(Outcome(*it, call));
    }
    EXPECT_EQ(Elements(*sum), (std::vector<float>{3, 5}));
    EXPECT_EQ(Elements(*many[0]), (std::vector<float>{1}));
    EXPECT_EQ(Elements(*many[1]), (std::vector<float>{1, 2}));
    EXPECT_EQ(Elements(*sent), (std::vector<float>{10, 7}));
    EXPECT_EQ(Elements(*joined), (std::vector<float>{1, 2, 2, 3}));
    EXPECT_EQ(Elements(*reduced),
              rank == 1 ? (std::vector<float>{1, 2}) : (std::vector<float>{0, 0}));
    EXPECT_EQ(Elements(*share), (std::vector<float>{rank == 0 ? 3.0f : 5.0f}));
    EXPECT_EQ(Elements(*scattered), (std::vector<float>{rank == 0 ? 1.0f : 2.0f}));
    EXPECT_EQ(Elements(*exchanged), (std::vector<float>{1 + r, 2 + r}));
    EXPECT_EQ(Elements(*TensorOf(gathered, call)), (std::vector<float>{0, 1}));
    Ref<Value> value;
    TUTTI_RETURN_IF_ERROR((*at_root)->GetResult(&value));
    EXPECT_EQ(value.get() != nullptr, rank == 0);
    EXPECT_EQ(self.sequence(), 11) << "transfers are not counted";
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(CommunicatorAsync, ResultsOfOneCallAreTheInputsOfTheNext) {
  RankGroup group(3);
  const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& self) -> Status {
    const Ref<Tensor> tensor = Floats({1});
    std::vector<Result<Ref<Future>>> futures;
    for (int i = 0; i < 8; ++i) {
      futures.push_back(self.AllReduceAsync(*tensor, kSum, group.Hang(), tensor.get()));
    }
    // A call without a future takes its turn behind them.
    TUTTI_RETURN_IF_ERROR(self.AllReduce(*tensor, kSum, group.Hang(), tensor.get()));
    EXPECT_EQ(Elements(*tensor), (std::vector<float>{19683}));
    for (const auto& future : futures) {
      EXPECT_TRUE((*future)->IsDone());
      TUTTI_RETURN_IF_ERROR(Outcome(future, group.Hang()));
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(CommunicatorAsync, TurnsOfBothKindsKeepTheOrderOfTheCaller) {
  unsigned seed = std::random_device{}();
  if (const char* text = std::getenv("TUTTI_TEST_SEED")) seed = std::strtoul(text, nullptr, 10);
  SCOPED_TRACE(testing::Message() << "TUTTI_TEST_SEED=" << seed);
  RankGroup group(3);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    std::mt19937 own(seed + static_cast<unsigned>(rank));  // which kind is the rank's own choice
    std::vector<Ref<Tensor>> tensors;
    std::vector<Ref<Future>> futures;
    for (int i = 0; i < 300; ++i) {
      tensors.push_back(Floats({static_cast<float>(i)}));
      Tensor* tensor = tensors.back().get();
      if (own() % 3 == 0) {
        TUTTI_RETURN_IF_ERROR(self.AllReduce(*tensor, kSum, group.Hang(), tensor));
      } else {
        TUTTI_ASSIGN_OR_RETURN(Ref<Future> future,
                               self.AllReduceAsync(*tensor, kSum, group.Hang(), tensor));
        if (own() % 4 == 0) TUTTI_RETURN_IF_ERROR(future->Wait(group.Hang()));
        futures.push_back(std::move(future));
      }
    }
    TUTTI_RETURN_IF_ERROR(self.Barrier(group.Hang()));
    for (int i = 0; i < 300; ++i) {
      EXPECT_EQ(Elements(*tensors[static_cast<size_t>(i)])[0], static_cast<float>(3 * i));
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(CommunicatorAsync, WrongArgumentsFailAtIssueAndEndTheEpoch) {
  RankGroup group(2);
  Result<Ref<Future>> first = group[0].BarrierAsync(group.Hang());
  const Ref<Tensor> tensor = Floats({1, 2, 3});
  const Result<Ref<Future>> wrong =
      group[0].ReduceScatterAsync(*tensor, kSum, group.Hang(), tensor.get());
  EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(wrong.status()),
              HasSubstr("rank 0: reduce_scatter #2: axis 0 of the input float32[3] is 3 rows"));
  EXPECT_EQ(IntDetail(wrong.status(), "sequence"), 2);
  // With what was under way and what comes later, on every rank.
  EXPECT_EQ(Outcome(first, group.Hang()).rep(), wrong.status().rep());
  EXPECT_EQ(group[1].Barrier(group.Hang()).rep(), wrong.status().rep());
  EXPECT_EQ(Outcome(group[0].BarrierAsync(group.Hang()), group.Hang()).rep(), wrong.status().rep());
}

TEST(CommunicatorAsync, AnErrorOfADroppedFutureEndsTheEpoch) {
  RankGroup group(2);
  ASSERT_TRUE(group[0].AllReduceAsync(*Floats({1}), kSum, group.Hang(), Floats({0}).get()).ok());
  const Status mismatch = group[1].Barrier(group.Hang());
  EXPECT_EQ(mismatch.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(group[0].Barrier(group.Hang()).rep(), mismatch.rep());
}

TEST(CommunicatorAsync, TheDeadlineCountsFromTheIssueAndAlsoBehindOthers) {
  RankGroup group(2);
  const Result<Ref<Future>> patient = group[0].BarrierAsync(group.Hang());
  const Result<Ref<Future>> hasty = group[0].BarrierAsync(group.Timeout(10 * kMillisecondNs));
  const Status status = Outcome(hasty, group.Hang());
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), HasSubstr("rank 0: barrier: not begun after"));
  EXPECT_EQ(Outcome(patient, group.Hang()).rep(), status.rep());
  EXPECT_EQ(group[1].Barrier(group.Hang()).rep(), status.rep());
}

TEST(CommunicatorAsync, ACallWithoutAFutureDoesNotWaitForItsTurnBeyondItsDeadline) {
  RankGroup group(2);
  const Result<Ref<Future>> patient = group[0].BarrierAsync(group.Hang());
  const Status status = group[0].Barrier(group.Timeout(10 * kMillisecondNs));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status),
              HasSubstr("rank 0: barrier #2, behind asynchronous calls of the rank: not done"));
  EXPECT_EQ(Outcome(patient, group.Hang()).rep(), status.rep());
}

TEST(CommunicatorAsync, ACancellationEndsACallThatWaitsBehindOthers) {
  RankGroup group(2);
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  const Result<Ref<Future>> first = group[0].BarrierAsync(group.Hang());
  const Result<Ref<Future>> second =
      group[0].BarrierAsync(CallOptions{Deadline::Infinite(), cancellation.get()});
  cancellation->Cancel();
  EXPECT_EQ(Outcome(second, group.Hang()).code(), StatusCode::kCancelled);
  EXPECT_EQ(Outcome(first, group.Hang()).code(), StatusCode::kCancelled);
}

TEST(CommunicatorAsync, WhoGivesUpWaitingLeavesTheCallAlone) {
  RankGroup group(2);
  const Result<Ref<Future>> barrier = group[0].BarrierAsync(group.Hang());
  EXPECT_EQ((*barrier)->Wait(group.Timeout(0)).code(), StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(group[1].Barrier(group.Hang()).ok());
  EXPECT_TRUE(Outcome(barrier, group.Hang()).ok());
}

TEST(CommunicatorAsync, AbortEndsWhatIsUnderWay) {
  RankGroup group(2);
  std::vector<Result<Ref<Future>>> futures;
  for (int i = 0; i < 5; ++i) futures.push_back(group[0].BarrierAsync(group.Hang()));
  group[1].Abort(OkStatus());
  for (const auto& future : futures) {
    EXPECT_EQ(Outcome(future, group.Hang()).rep(), group[1].epoch_status().rep());
  }
}

TEST(CommunicatorAsync, CloseEndsWhatIsUnderWay) {
  RankGroup group(2);
  std::vector<Result<Ref<Future>>> futures;
  for (int i = 0; i < 5; ++i) futures.push_back(group[0].BarrierAsync(group.Hang()));
  ASSERT_TRUE(group[0].Close(group.Hang()).ok());
  for (const auto& future : futures) {
    EXPECT_TRUE((*future)->IsDone());
    EXPECT_EQ(Outcome(future, group.Hang()).code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(group[0].BarrierAsync(group.Hang()).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(group[1].Barrier(group.Hang()).code(), StatusCode::kUnavailable);
}

TEST(CommunicatorAsync, ARankThatIsDroppedIsClosedWithItsCalls) {
  RankGroup group(2);
  const Result<Ref<Future>> barrier = group[0].BarrierAsync(group.Hang());
  group.Drop(0);
  EXPECT_EQ(Outcome(barrier, group.Hang()).code(), StatusCode::kUnavailable);
}

TEST(CommunicatorAsync, TensorsAreHeldUntilTheCallIsDoneAndNotLonger) {
  RankGroup group(2);
  const Ref<Tensor> held = Floats({1});
  const Result<Ref<Future>> future = group[0].AllReduceAsync(*held, kSum, group.Hang(), held.get());
  EXPECT_FALSE(held->IsUnique());
  const Ref<Tensor> other = Floats({2});
  ASSERT_TRUE(group[1].AllReduce(*other, kSum, group.Hang(), other.get()).ok());
  ASSERT_TRUE(Outcome(future, group.Hang()).ok());
  EXPECT_TRUE(held->IsUnique());
  EXPECT_EQ(Elements(*held), (std::vector<float>{3}));
}

TEST(CommunicatorAsync, OneCallerAtATimeTakesItsTurn) {
  RankGroup group(2);
  const Result<Ref<Future>> first = group[0].BarrierAsync(group.Hang());
  // Two callers come while a call is under way: one waits for its turn, the other is refused.
  Status statuses[2];
  std::thread one([&] { statuses[0] = group[0].Barrier(group.Hang()); });
  std::thread two([&] { statuses[1] = group[0].Barrier(group.Hang()); });
  ASSERT_TRUE(group[1].Barrier(group.Hang()).ok());
  EXPECT_TRUE(Outcome(first, group.Hang()).ok());
  ASSERT_TRUE(group[1].Barrier(group.Hang()).ok());
  // The second barrier of rank 1 needs one caller; the other one came too late or was refused.
  group[1].Abort(OkStatus());
  one.join();
  two.join();
  const Status& other = statuses[statuses[0].ok() ? 1 : 0];
  EXPECT_NE(statuses[0].ok(), statuses[1].ok());
  EXPECT_TRUE(other.code() == StatusCode::kFailedPrecondition ||
              other.code() == StatusCode::kAborted)
      << other.ToString();
}

TEST(CommunicatorAsync, ManyThreadsMayIssue) {
  RankGroup group(2);
  constexpr int kThreads = 4;
  constexpr int kCalls = 100;
  const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& self) -> Status {
    std::vector<std::vector<Result<Ref<Future>>>> futures(kThreads);
    std::vector<std::thread> threads;
    for (auto& own : futures) {
      threads.emplace_back([&] {
        for (int i = 0; i < kCalls; ++i) own.push_back(self.BarrierAsync(group.Hang()));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& own : futures) {
      for (const auto& future : own) TUTTI_RETURN_IF_ERROR(Outcome(future, group.Hang()));
    }
    EXPECT_EQ(self.sequence(), kThreads * kCalls);
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

// Bursts of calls whose futures are waited for at once, until the ranks' workers leave the calls to
// those who wait.
Status WaitPromptly(RankGroup& group, Communicator& self) {
  for (int burst = 0; burst < 20; ++burst) {
    std::vector<Ref<Future>> futures;
    for (int i = 0; i < 4; ++i) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Future> future, self.BarrierAsync(group.Hang()));
      futures.push_back(std::move(future));
    }
    for (const Ref<Future>& future : futures) TUTTI_RETURN_IF_ERROR(future->Wait(CallOptions()));
  }
  return OkStatus();
}

void ExpectPromptWaits(RankGroup& group) {
  for (const Status& status : group.Run([&](int64_t, Communicator& self) {
         return WaitPromptly(group, self);
       })) {
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(CommunicatorAsync, CallsThatNobodyWaitsForRunAllTheSame) {
  RankGroup group(2);
  ExpectPromptWaits(group);
  const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& self) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Future> future, self.BarrierAsync(group.Hang()));
    while (!future->IsDone()) std::this_thread::yield();
    Ref<Value> none;
    return future->GetResult(&none);
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(CommunicatorAsync, WhoMayNotWaitLongLeavesTheCallToOthers) {
  RankGroup group(2);
  ExpectPromptWaits(group);
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  const Result<Ref<Future>> barrier = group[0].BarrierAsync(CallOptions());
  EXPECT_EQ((*barrier)->Wait(group.Timeout(20 * kMillisecondNs)).code(),
            StatusCode::kDeadlineExceeded);
  std::thread interrupts([&] { cancellation->Cancel(); });
  EXPECT_EQ((*barrier)->Wait(CallOptions{Deadline::Infinite(), cancellation.get()}).code(),
            StatusCode::kCancelled);
  interrupts.join();
  EXPECT_FALSE((*barrier)->IsDone());
  ASSERT_TRUE(group[1].Barrier(group.Hang()).ok());
  EXPECT_TRUE(Outcome(barrier, group.Hang()).ok());
}

TEST(CommunicatorAsync, WhoHelpsIsEndedWithTheCallItRuns) {
  for (const char* how : {"abort", "close", "deadline"}) {
    SCOPED_TRACE(how);
    RankGroup group(2);
    ExpectPromptWaits(group);
    const bool is_deadline = how == std::string("deadline");
    const CallOptions call = is_deadline ? group.Timeout(20 * kMillisecondNs) : group.Hang();
    std::vector<Result<Ref<Future>>> futures;
    for (int i = 0; i < 3; ++i) futures.push_back(group[0].BarrierAsync(call));
    std::thread ends([&] {
      if (how == std::string("abort")) group[1].Abort(OkStatus());
      if (how == std::string("close")) {
        EXPECT_TRUE(group[0].Close(group.Hang()).ok());
      }
    });
    const StatusCode expected = is_deadline                   ? StatusCode::kDeadlineExceeded
                                : how == std::string("abort") ? StatusCode::kAborted
                                                              : StatusCode::kUnavailable;
    for (const auto& future : futures) {
      EXPECT_EQ(Outcome(future, CallOptions()).code(), expected);
    }
    ends.join();
  }
}

TEST(CommunicatorAsync, HoweverTheyAreWaitedForCallsKeepTheirOrder) {
  unsigned seed = std::random_device{}();
  if (const char* text = std::getenv("TUTTI_TEST_SEED")) seed = std::strtoul(text, nullptr, 10);
  SCOPED_TRACE(testing::Message() << "TUTTI_TEST_SEED=" << seed);
  RankGroup group(2);
  const Ref<Cancellation> never = MakeRef<Cancellation>();
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& self) -> Status {
    std::mt19937 same(seed);
    std::mt19937 own(seed + 1 + static_cast<unsigned>(rank));
    for (int burst = 0; burst < 100; ++burst) {
      std::vector<Ref<Tensor>> tensors;
      std::vector<Ref<Future>> futures;
      const auto calls = static_cast<size_t>(1 + same() % 12);
      for (size_t i = 0; i < calls; ++i) {
        tensors.push_back(Floats({static_cast<float>(i)}));
        Tensor* tensor = tensors.back().get();
        TUTTI_ASSIGN_OR_RETURN(Ref<Future> future,
                               self.AllReduceAsync(*tensor, kSum, group.Hang(), tensor));
        futures.push_back(std::move(future));
      }
      // Some rounds wait for few of them, or for none, and leave the rest to the barrier.
      std::shuffle(futures.begin(), futures.end(), own);
      if (own() % 3 == 0) futures.resize(own() % futures.size());
      const bool in_background = own() % 4 == 0;
      const auto wait = [&] {
        for (const Ref<Future>& future : futures) {
          CallOptions patience = group.Hang();
          if (own() % 2 == 0) patience.cancellation = never.get();
          EXPECT_TRUE(future->Wait(patience).ok());
        }
      };
      if (in_background) {
        std::thread(wait).join();
      } else {
        wait();
      }
      TUTTI_RETURN_IF_ERROR(self.Barrier(group.Hang()));
      for (size_t i = 0; i < calls; ++i) {
        EXPECT_EQ(Elements(*tensors[i])[0], static_cast<float>(2 * i));
      }
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

}  // namespace
}  // namespace tutti
