// How calls fail: mismatches, deadlines, cancellation, aborts, peers that leave, refusals.

#include "core/collective/communicator/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "core/base/callback_scope.h"
#include "core/base/disk.h"
#include "core/base/executor.h"
#include "core/base/recorder.h"
#include "core/base/simulated_environment.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string Message(const Status& status) { return std::string(status.message()); }

int64_t IntDetail(const Status& status, const char* key) {
  const StatusDetail* detail = status.FindDetail(key);
  return detail == nullptr ? -1 : std::get<int64_t>(detail->value);
}

Status Sum(Communicator& communicator, Tensor* tensor, const CallOptions& options) {
  return communicator.AllReduce(*tensor, ReduceOp::kSum, options, tensor);
}

Ref<Tensor> Floats(int64_t elements) {
  return Tensor::Create(DType::kFloat32, Shape({elements})).value();
}

// Returns when the rank has begun its call number `sequence`.
void AwaitCall(Communicator& communicator, int64_t sequence) {
  while (communicator.sequence() < sequence) std::this_thread::yield();
}

// ---- Mismatches ----

// Every rank's first call is body(rank, communicator); all must fail alike, and again.
template <typename Body>
void ExpectMismatch(const std::string& message, Body body) {
  RankGroup group(3);
  const std::vector<Status> statuses = group.Run(body);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr(message));
    EXPECT_EQ(IntDetail(status, "rank"), 1);
    EXPECT_EQ(IntDetail(status, "peer"), 0);
    EXPECT_EQ(IntDetail(status, "sequence"), 1);
    EXPECT_EQ(status.rep(), statuses[0].rep()) << "all ranks share one error";
  }
  const std::vector<Status> later = group.Run([&](int64_t, Communicator& communicator) {
    return communicator.Barrier(group.Hang());
  });
  for (const Status& status : later) EXPECT_EQ(status.rep(), statuses[0].rep());
  EXPECT_EQ(group[2].epoch_status().rep(), statuses[0].rep());
}

TEST(CommunicatorMismatch, OfShapesIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: all_reduce #1 got float32[4], rank 0 sent float32[8]",
                 [](int64_t rank, Communicator& communicator) {
                   return Sum(communicator, Floats(rank == 1 ? 4 : 8).get(), CallOptions());
                 });
}

TEST(CommunicatorMismatch, OfSmallAndLargeShapesIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: all_reduce #1 got float32[4], rank 0 sent float32[1000000]",
                 [](int64_t rank, Communicator& communicator) {
                   return Sum(communicator, Floats(rank == 1 ? 4 : 1'000'000).get(), CallOptions());
                 });
}

TEST(CommunicatorMismatch, OfDtypesIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: all_reduce #1 got int64[], rank 0 sent float32[]",
                 [](int64_t rank, Communicator& communicator) {
                   Ref<Tensor> tensor =
                       rank == 1 ? Tensor::Scalar<int64_t>(1) : Tensor::Scalar<float>(1);
                   return Sum(communicator, tensor.get(), CallOptions());
                 });
}

TEST(CommunicatorMismatch, OfReductionsIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: all_reduce #1 reduces with MAX, rank 0 with SUM",
                 [](int64_t rank, Communicator& communicator) {
                   Ref<Tensor> tensor = Floats(100'000);
                   return communicator.AllReduce(*tensor,
                                                 rank == 1 ? ReduceOp::kMax : ReduceOp::kSum,
                                                 CallOptions(), tensor.get());
                 });
}

TEST(CommunicatorMismatch, OfRootsIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: broadcast #1 has root 2, rank 0 has root 0",
                 [](int64_t rank, Communicator& communicator) {
                   return communicator.Broadcast(rank == 1 ? 2 : 0, CallOptions(),
                                                 Floats(100'000).get());
                 });
}

TEST(CommunicatorMismatch, OfOperationsIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: call #1 is barrier, rank 0 called all_gather",
                 [](int64_t rank, Communicator& communicator) {
                   Ref<Tensor> joined;
                   return rank == 1
                              ? communicator.Barrier(CallOptions())
                              : communicator.AllGather(*Floats(2), 0, CallOptions(), &joined);
                 });
}

TEST(CommunicatorMismatch, OfGatheredRowsIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: all_gather #1 got float32[2,3], rank 0 sent float32[2,4]",
                 [](int64_t rank, Communicator& communicator) {
                   Ref<Tensor> input =
                       Tensor::Create(DType::kFloat32, Shape({2, rank == 1 ? 3 : 4})).value();
                   Ref<Tensor> joined;
                   return communicator.AllGather(*input, 0, CallOptions(), &joined);
                 });
}

TEST(CommunicatorMismatch, OfListsIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: all_reduce #1 got 1 tensors, rank 0 sent 2",
                 [](int64_t rank, Communicator& communicator) {
                   Ref<Tensor> a = Floats(4);
                   Ref<Tensor> b = Floats(5);
                   const Tensor* inputs[] = {a.get(), b.get()};
                   Tensor* outputs[] = {a.get(), b.get()};
                   const size_t count = rank == 1 ? 1 : 2;
                   return communicator.AllReduce(std::span(inputs, count), ReduceOp::kSum,
                                                 CallOptions(), std::span(outputs, count));
                 });
}

// Longer than what a rank shows of its header.
TEST(CommunicatorMismatch, OfLongListsIsTheSameErrorOnAllRanks) {
  ExpectMismatch("rank 1: all_reduce #1 tensor 39: got float32[6], rank 0 sent float32[5]",
                 [](int64_t rank, Communicator& communicator) {
                   std::vector<Ref<Tensor>> tensors;
                   std::vector<const Tensor*> inputs;
                   std::vector<Tensor*> outputs;
                   for (int64_t i = 0; i < 40; ++i) {
                     tensors.push_back(Floats(rank == 1 && i == 39 ? 6 : 5));
                     inputs.push_back(tensors.back().get());
                     outputs.push_back(tensors.back().get());
                   }
                   return communicator.AllReduce(inputs, ReduceOp::kSum, CallOptions(), outputs);
                 });
}

// ---- Arguments that a rank alone can see to be wrong ----

// Rank 1 passes what it must not; nobody waits for it.
template <typename Body>
void ExpectBadArgument(StatusCode code, const std::string& message, Body bad_call) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    return rank == 1 ? bad_call(communicator) : Sum(communicator, Floats(4).get(), group.Hang());
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(Message(status), StartsWith("rank 1: all_reduce #1: "));
    EXPECT_THAT(Message(status), HasSubstr(message));
    EXPECT_EQ(status.rep(), statuses[0].rep());
  }
}

TEST(CommunicatorArguments, WithAnotherShapeOfOutputFailEveryRank) {
  ExpectBadArgument(StatusCode::kInvalidArgument, "the output is float32[5], the input float32[4]",
                    [](Communicator& communicator) {
                      return communicator.AllReduce(*Floats(4), ReduceOp::kSum, CallOptions(),
                                                    Floats(5).get());
                    });
}

TEST(CommunicatorArguments, WithAReadOnlyOutputFailEveryRank) {
  static const float numbers[4] = {};
  ExpectBadArgument(StatusCode::kFailedPrecondition, "float32[4] is read-only",
                    [](Communicator& communicator) {
                      Ref<Tensor> output =
                          Tensor::View(const_cast<float*>(numbers), DType::kFloat32, Shape({4}), {},
                                       true, Ref<const RefCounted>());
                      return communicator.AllReduce(*Floats(4), ReduceOp::kSum, CallOptions(),
                                                    output.get());
                    });
}

TEST(CommunicatorArguments, WithAReductionThatTheDtypeHasNotFailEveryRank) {
  ExpectBadArgument(StatusCode::kInvalidArgument, "complex64", [](Communicator& communicator) {
    Ref<Tensor> tensor = Tensor::Create(DType::kComplex64, Shape({4})).value();
    return communicator.AllReduce(*tensor, ReduceOp::kMin, CallOptions(), tensor.get());
  });
}

TEST(CommunicatorArguments, OfAListAreNamedByPosition) {
  ExpectBadArgument(StatusCode::kInvalidArgument, "tensor 1: the output tensor is null",
                    [](Communicator& communicator) {
                      Ref<Tensor> tensor = Floats(4);
                      const Tensor* inputs[] = {tensor.get(), tensor.get()};
                      Tensor* outputs[] = {tensor.get(), nullptr};
                      return communicator.AllReduce(inputs, ReduceOp::kSum, CallOptions(), outputs);
                    });
}

TEST(CommunicatorArguments, OfAListMustComeInPairs) {
  ExpectBadArgument(StatusCode::kInvalidArgument, "got 1 inputs and 0 outputs",
                    [](Communicator& communicator) {
                      Ref<Tensor> tensor = Floats(4);
                      const Tensor* inputs[] = {tensor.get()};
                      return communicator.AllReduce(inputs, ReduceOp::kSum, CallOptions(), {});
                    });
}

TEST(CommunicatorArguments, OfCreationMustNameAtLeastOneRank) {
  Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  EXPECT_EQ(Communicator::CreateLocal(environment.get(), 0).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Communicator::CreateLocal(environment.get(), 5000).status().code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(environment->Shutdown(CallOptions()).ok());
  EXPECT_EQ(Communicator::CreateLocal(environment.get(), 2).status().code(),
            StatusCode::kFailedPrecondition);
}

// ---- Deadlines, in virtual time ----

class SimulatedRanks : public testing::Test {
 protected:
  void SetUp() override {
    Communicator::LocalOptions options;
    options.name = "grads";
    options.epoch = 4;
    ranks_ = Communicator::CreateLocal(world_.get(), 3, options).value();
  }
  void TearDown() override {
    for (const Ref<Communicator>& rank : ranks_) EXPECT_TRUE(rank->Close(CallOptions()).ok());
    ranks_.clear();
    EXPECT_TRUE(world_->Shutdown(CallOptions()).ok());
  }
  // All ranks meet: each waits on the stack of the one before.
  void Meet() {
    for (int rank : {1, 2}) {
      world_->executor().Post(
          Task([this, rank] { EXPECT_TRUE(ranks_[rank]->Barrier(CallOptions()).ok()); }));
    }
    EXPECT_TRUE(ranks_[0]->Barrier(CallOptions()).ok());
  }
  CallOptions Timeout(int64_t seconds) {
    return CallOptions::WithTimeout(world_->clock(), seconds * kSecondNs);
  }

  const Ref<SimulatedEnvironment> world_ = MakeRef<SimulatedEnvironment>(1);
  std::vector<Ref<Communicator>> ranks_;
};

TEST_F(SimulatedRanks, MeetOnOneThread) {
  Meet();
  Meet();
  EXPECT_EQ(ranks_[2]->sequence(), 2);
  EXPECT_EQ(ranks_[2]->epoch(), 4);
  EXPECT_EQ(ranks_[2]->size(), 3);
  EXPECT_EQ(ranks_[2]->rank(), 2);
  EXPECT_EQ(ranks_[2]->name(), "grads");
}

TEST_F(SimulatedRanks, SayInADeadlineErrorWhatTheMissingDidLast) {
  Meet();
  Ref<Tensor> tensor = Floats(4);
  const Status status = Sum(*ranks_[0], tensor.get(), Timeout(5));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(status),
            "rank 0: all_reduce #2 waited 5 s for rank 1, which has not called; its last call was "
            "#1 barrier, and for rank 2, which has not called; its last call was #1 barrier");
  EXPECT_EQ(IntDetail(status, "rank"), 0);
  EXPECT_EQ(IntDetail(status, "peer"), 1);
  EXPECT_EQ(IntDetail(status, "sequence"), 2);
  EXPECT_EQ(IntDetail(status, "epoch"), 4);
  // The error is everybody's, from now on.
  EXPECT_EQ(ranks_[1]->Barrier(CallOptions()).rep(), status.rep());
}

TEST_F(SimulatedRanks, SucceedPastADeadlineWhenNobodyIsMissing) {
  for (int rank : {0, 1}) {
    world_->executor().Post(
        Task([this, rank] { EXPECT_TRUE(ranks_[rank]->Barrier(CallOptions()).ok()); }));
  }
  Status last;
  world_->executor().PostAfter(kSecondNs, Task([&] {
                                 last = ranks_[2]->Barrier(
                                     CallOptions{Deadline::At(0), nullptr});
                               }));
  world_->RunUntilIdle();
  EXPECT_TRUE(last.ok()) << last.ToString();
}

TEST_F(SimulatedRanks, LogOnceWhereEverybodyIsWhenAWaitIsLong) {
  Meet();
  EXPECT_FALSE(ranks_[0]->Barrier(Timeout(200)).ok());
  const std::string line =
      "communicator grads: rank 0 has waited 30 s in barrier #2: rank 0: #2 barrier (waits), rank "
      "1: #1 barrier, rank 2: #1 barrier";
  const std::string& trace = world_->trace();
  const size_t first = trace.find(line);
  ASSERT_NE(first, std::string::npos) << trace;
  EXPECT_EQ(trace.find("has waited", first + line.size()), std::string::npos) << trace;
}

TEST_F(SimulatedRanks, RefuseCallsThatWouldShareMemory) {
  const Status status = Sum(*ranks_[0], Floats(1'000'000).get(), CallOptions());
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
}

TEST_F(SimulatedRanks, FailTheOneThatNeedsAPeerThatLeft) {
  Meet();
  world_->executor().PostAfter(
      3 * kSecondNs, Task([this] { EXPECT_TRUE(ranks_[1]->Close(CallOptions()).ok()); }));
  const Status status = ranks_[0]->Barrier(CallOptions());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Message(status), "rank 0: barrier #2 needs rank 1: it has left (closed)");
  EXPECT_EQ(IntDetail(status, "peer"), 1);
  EXPECT_EQ(ranks_[2]->Barrier(CallOptions()).rep(), status.rep());
}

// ---- Ends that come from outside ----

TEST(Communicator, EndsAWaitThatIsCancelledOnEveryRank) {
  RankGroup group(3);
  Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  std::thread canceller([&] {
    AwaitCall(group[0], 1);
    AwaitCall(group[1], 1);
    cancellation->Cancel();
  });
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    if (rank == 2) return OkStatus();
    CallOptions options = group.Hang();
    if (rank == 0) options.cancellation = cancellation.get();
    return Sum(communicator, Floats(1'000'000).get(), options);
  });
  canceller.join();
  for (int rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::kCancelled);
    EXPECT_THAT(Message(statuses[rank]), HasSubstr("rank 2, which has not called"));
    EXPECT_EQ(statuses[rank].rep(), statuses[0].rep());
  }
  EXPECT_EQ(group[2].Barrier(group.Hang()).rep(), statuses[0].rep());
}

TEST(Communicator, EndsAWaitWhenThePolledHostSaysSo) {
  RankGroup group(2);
  Ref<Cancellation> cancellation = MakeRef<Cancellation>(
      [](void*) { return true; }, nullptr, Ref<const RefCounted>());
  CallOptions options = group.Hang();
  options.cancellation = cancellation.get();
  EXPECT_EQ(group[0].Barrier(options).code(), StatusCode::kCancelled);
}

TEST(Communicator, AbortsTheCallsOfEveryRankWithTheReasonGiven) {
  RankGroup group(3);
  std::thread aborter([&] {
    AwaitCall(group[0], 1);
    group[2].Abort(Status(StatusCode::kAborted, "learning rate exploded"));
    group[2].Abort(Status(StatusCode::kInternal, "too late to matter"));
  });
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    if (rank == 2) return OkStatus();
    return communicator.Barrier(group.Hang());
  });
  aborter.join();
  for (int rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::kAborted);
    EXPECT_EQ(Message(statuses[rank]), "learning rate exploded");
  }
  EXPECT_EQ(group[2].Barrier(group.Hang()).message(), "learning rate exploded");
}

TEST(Communicator, AbortsWithoutAReasonAsAborted) {
  RankGroup group(1);
  group[0].Abort(OkStatus());
  EXPECT_EQ(group[0].Barrier(group.Hang()).code(), StatusCode::kAborted);
}

TEST(Communicator, LetsAPeerLeaveWithoutHurtingTheCallsThatAreDone) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    for (int i = 0; i < 100; ++i) TUTTI_RETURN_IF_ERROR(communicator.Barrier(group.Hang()));
    return rank == 0 ? communicator.Close(group.Hang()) : OkStatus();
  });
  EXPECT_THAT(statuses, testing::Each(testing::Property(&Status::ok, true)));
  EXPECT_TRUE(group[1].epoch_status().ok());
  EXPECT_EQ(group[1].Barrier(group.Hang()).code(), StatusCode::kUnavailable);
}

TEST(Communicator, TakesADroppedHandleForOneThatLeft) {
  RankGroup group(2);
  std::thread dropper([&] {
    AwaitCall(group[0], 1);
    group.Drop(1);
  });
  EXPECT_EQ(group[0].Barrier(group.Hang()).code(), StatusCode::kUnavailable);
  dropper.join();
}

TEST(Communicator, FailsItsOwnWaitingCallWhenItIsClosed) {
  RankGroup group(3);
  std::thread closer([&] {
    AwaitCall(group[0], 1);
    EXPECT_TRUE(group[0].Close(group.Hang()).ok());
  });
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    if (rank == 2) return OkStatus();
    return Sum(communicator, Floats(100'000).get(), group.Hang());
  });
  closer.join();
  for (int rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(statuses[rank]), StartsWith("rank 0 has left (closed) in the middle"));
  }
  const Status after = group[0].Barrier(group.Hang());
  EXPECT_EQ(after.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(after), HasSubstr("after close"));
}

TEST(Communicator, EndsWaitsWhenItsEnvironmentShutsDown) {
  RankGroup group(2);
  std::thread stopper([&] {
    AwaitCall(group[0], 1);
    EXPECT_TRUE(group.environment().Shutdown(group.Hang()).ok());
  });
  EXPECT_EQ(group[0].Barrier(group.Hang()).code(), StatusCode::kUnavailable);
  stopper.join();
  EXPECT_EQ(group[1].Barrier(group.Hang()).code(), StatusCode::kFailedPrecondition);
}

// ---- Refusals, which end nothing ----

TEST(Communicator, RefusesASecondCallOfARankWhileOneRuns) {
  RankGroup group(2);
  Status first;
  std::thread waiter([&] { first = group[0].Barrier(group.Hang()); });
  AwaitCall(group[0], 1);
  const Status second = group[0].Barrier(group.Hang());
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(second), HasSubstr("rank 0: barrier while another call of the same rank"));
  EXPECT_TRUE(group[1].Barrier(group.Hang()).ok());
  waiter.join();
  EXPECT_TRUE(first.ok()) << first.ToString();
}

TEST(Communicator, RefusesCallsFromCallbacksThatMayNotBlock) {
  RankGroup group(1);
  for (CallbackClass callback : {CallbackClass::kDataset, CallbackClass::kNotification}) {
    CallbackScope scope(callback);
    EXPECT_EQ(group[0].Barrier(group.Hang()).code(), StatusCode::kFailedPrecondition);
  }
  for (CallbackClass callback : {CallbackClass::kReplica, CallbackClass::kCrossReplica}) {
    CallbackScope scope(callback);
    EXPECT_TRUE(group[0].Barrier(group.Hang()).ok());
  }
  EXPECT_EQ(group[0].sequence(), 2);
}

TEST(Communicator, RecordsEveryCallWithItsEnd) {
  RankGroup group(1);
  ASSERT_TRUE(Sum(group[0], Floats(4).get(), group.Hang()).ok());
  group[0].Abort(OkStatus());
  ASSERT_FALSE(group[0].Barrier(group.Hang()).ok());
  std::vector<std::string> lines;
  for (const FlightEvent& event : group.environment().recorder().Snapshot()) {
    std::string line =
        std::string(event.type->name) + (event.phase == FlightPhase::kBegin ? " begin" : " end");
    for (size_t i = 0; i < kFlightArguments && event.type->argument_names[i] != nullptr; ++i) {
      const std::string name = event.type->argument_names[i];
      if (name != "call") line += " " + name + " " + std::to_string(event.arguments[i]);
    }
    lines.push_back(line);
  }
  EXPECT_THAT(lines, testing::ElementsAre(
                         "all_reduce begin subject 0 sequence 1 bytes 16 dtype 12 root -1 "
                         "reduction 1",
                         "all_reduce end subject 0 sequence 1 code 0 algorithm 0",
                         "barrier begin subject 0 sequence 2 bytes 0 dtype 0 root -1 reduction 0",
                         "barrier end subject 0 sequence 2 code 10 algorithm -1"));
  EXPECT_THAT(group.environment().recorder().ToJson(),
              HasSubstr("\"kind\":\"communicator\",\"name\":\"communicator\",\"rank\":0,\"size\":1,"
                        "\"epoch\":1}"));
}

TEST(Communicator, RecordsCallsThatDifferAsDifferentAndEqualOnesAsEqual) {
  RankGroup group(1);
  const auto hash_of_last_call = [&] {
    const std::vector<FlightEvent> events = group.environment().recorder().Snapshot();
    return events[events.size() - 2].arguments[6];
  };
  const auto hash_of = [&](const Tensor& tensor) {
    Ref<Tensor> output = *Tensor::Create(tensor.dtype(), tensor.shape());
    EXPECT_TRUE(
        group[0].AllReduce(tensor, ReduceOp::kSum, group.Hang(), output.get()).ok());
    return hash_of_last_call();
  };
  const Ref<Tensor> flat = *Tensor::Create(DType::kFloat32, Shape({8}));
  const Ref<Tensor> square = *Tensor::Create(DType::kFloat32, Shape({4, 2}));
  const Ref<Tensor> integers = *Tensor::Create(DType::kInt32, Shape({8}));
  EXPECT_EQ(hash_of(*flat), hash_of(*flat));
  EXPECT_NE(hash_of(*flat), hash_of(*square));
  EXPECT_NE(hash_of(*flat), hash_of(*integers));
  // Along its axis an all_gather's sizes may differ between ranks.
  Ref<Tensor> joined;
  const auto hash_of_gather = [&](const Shape& shape) {
    const Ref<Tensor> tensor = *Tensor::Create(DType::kFloat32, shape);
    EXPECT_TRUE(group[0].AllGather(*tensor, 0, group.Hang(), &joined).ok());
    return hash_of_last_call();
  };
  EXPECT_EQ(hash_of_gather(Shape({4, 2})), hash_of_gather(Shape({5, 2})));
  EXPECT_NE(hash_of_gather(Shape({4, 2})), hash_of_gather(Shape({4, 3})));
}

TEST(Communicator, WritesOneFlightRecordWhenItsEpochFails) {
  const std::string folder = testing::TempDir() + "flight-" + std::to_string(getpid());
  RankGroup group(3);
  group.environment().SetFlightRecordDirectory(folder);
  group[0].Abort(OkStatus());
  const std::string path = folder + "/process-" + std::to_string(getpid()) + "/flight-0.json";
  for (int64_t rank = 0; rank < 3; ++rank) {
    const Status status = group[rank].Barrier(group.Hang());
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()),
                testing::EndsWith("; the flight record is in " + path));
    ASSERT_NE(status.FindDetail("flight_record"), nullptr);
    EXPECT_EQ(std::get<std::string>(status.FindDetail("flight_record")->value), path);
    EXPECT_EQ(std::get<std::string>(status.FindDetail("communicator")->value), "communicator");
  }
  // Nobody else may read it.
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::string own = path.substr(0, path.rfind('/'));
  ASSERT_EQ(stat(own.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_THAT(*group.environment().disk().ReadFile(path), HasSubstr("\"barrier\""));
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(rmdir(own.c_str()), 0);
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

}  // namespace
}  // namespace tutti
