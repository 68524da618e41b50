// Calls that an exception leaves, for lack of memory or because the host has thrown while it was
// asked: nobody is left waiting, and nothing that has gone is used. Allocations fail where a test
// says so (scarce_memory_testing.h).

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/real_environment.h"
#include "core/base/scarce_memory_testing.h"
#include "core/collective/communicator/bucket_plan.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/testing/rank_threads.h"
#include "core/collective/testing/shared_rank_testing.h"
#include "core/collective/thread/local_family.h"
#include "core/collective/thread/local_group.h"
#include "core/collective/thread/local_transport.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

// A host that throws when it is asked, once it may.
struct Host {
  std::atomic<bool> throws{true};
  bool is_short_of_memory = true;  // that is what it throws
  std::atomic<int> num_asked{0};

  static bool Poll(void* self) {
    auto* const host = static_cast<Host*>(self);
    host->num_asked.fetch_add(1);
    while (!host->throws.load()) std::this_thread::yield();
    if (host->is_short_of_memory) throw std::bad_alloc();
    throw std::runtime_error("the host's own");
  }
  Ref<Cancellation> Watch() { return MakeRef<Cancellation>(&Poll, this, nullptr); }
};

CallOptions Timeout(int64_t timeout_ns) {
  return CallOptions::WithTimeout(RealClock(), timeout_ns);
}
CallOptions Hang() { return Timeout(60 * kSecondNs); }

// A send or receive of floats, as a transport gets it.
struct TransferCall {
  TransferCall(CollectiveOp op, int64_t peer, const CallOptions& options,
               std::vector<float>* values) {
    call.header.op = op;
    call.header.num_tensors = 1;
    call.header.first = TensorSignature{DType::kFloat32, {static_cast<int64_t>(values->size())}};
    call.sequence = 1;
    call.options = options;
    call.peer = peer;
    memory[0].input = memory[0].output = values->data();
    call.memory = memory;
  }
  CollectiveMemory memory[1];
  CollectiveCall call;
};

class LeftByException : public testing::Test {
 protected:
  ~LeftByException() override { EXPECT_TRUE(environment_->Shutdown(Hang()).ok()); }

  Ref<SharedSegment> Segment() const {
    return SharedSegment::Create(SharedTransport::SegmentBytes(2)).value();
  }
  // Of one segment.
  using SharedPair = std::array<std::unique_ptr<SharedTransport>, 2>;
  SharedPair TransportPair(const char* name) const {
    const Ref<SharedSegment> segment = Segment();
    SharedPair ranks;
    for (size_t rank = 0; rank < 2; ++rank) {
      SharedGroupOptions options;
      options.name = name;
      options.rank = static_cast<int64_t>(rank);
      options.size = 2;
      ranks[rank] = SharedTransport::Create(environment_, segment, options).value();
    }
    return ranks;
  }
  std::unique_ptr<SharedRank> Rank(const Ref<SharedSegment>& segment, int64_t rank) const {
    return std::make_unique<SharedRank>(environment_, segment, rank, 2, false);
  }

  const Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
};

// ---- The end of an epoch ----

TEST_F(LeftByException, ASharedEpochEndsHoweverLittleMemoryThereIs) {
  ForEachShortage([&](int allocations) {
    const Ref<SharedSegment> segment = Segment();
    const auto self = Rank(segment, 0);
    const auto peer = Rank(segment, 1);
    bool was_short = false;
    const Status reason = Aborted("enough").With("host", "one whose name is long enough for it");
    {
      const ScarceMemory scarce(allocations);
      try {
        self->communicator().Abort(reason);
      } catch (const std::bad_alloc&) {
      }
      was_short = ScarceMemory::HasRefused();
    }
    self->communicator().Abort(reason);
    EXPECT_FALSE(self->communicator().epoch_status().ok()) << allocations;
    EXPECT_EQ(peer->communicator().epoch_status().ToString(),
              self->communicator().epoch_status().ToString());
    EXPECT_FALSE(self->communicator().Barrier(Timeout(10 * kMillisecondNs)).ok()) << allocations;
    return was_short && !HasFailure();
  });
}

TEST_F(LeftByException, ARankThatLeavesSaysSoHoweverLittleMemoryThereIs) {
  ForEachShortage([&](int allocations) {
    SharedPair ranks = TransportPair("leaving");
    const Status reason = Unavailable("it has left, and says so in more than a few words");
    bool was_short = false;
    {
      const ScarceMemory scarce(allocations);
      try {
        ranks[0]->Leave(reason);
      } catch (const std::bad_alloc&) {
      }
      was_short = ScarceMemory::HasRefused();
    }
    EXPECT_TRUE(ranks[1]->HasLeft(0)) << allocations;
    std::vector<float> values(1);
    TransferCall receive(CollectiveOp::kReceive, 0, Hang(), &values);
    EXPECT_EQ(ranks[1]->Execute(&receive.call).code(),
              was_short ? StatusCode::kResourceExhausted : StatusCode::kUnavailable);
    return was_short && !HasFailure();
  });
}

// ---- Ranks that share a segment ----

TEST_F(LeftByException, ARankThatHasGoneIsNotWokenByWhatItWaitedWith) {
  Host host;
  const Ref<Cancellation> watch = host.Watch();
  {
    const Ref<SharedSegment> segment = Segment();
    const auto self = Rank(segment, 0);
    EXPECT_THROW(
        self->communicator().Barrier(CallOptions{Deadline::Infinite(), watch.get()}).rep(),
        std::bad_alloc);
  }
  EXPECT_TRUE(watch->Cancel());
}

TEST_F(LeftByException, AHostThatHasThrownIsAskedAgain) {
  Host host;
  const Ref<Cancellation> watch = host.Watch();
  EXPECT_THROW(watch->PollNow(), std::bad_alloc);
  EXPECT_THROW(watch->PollNow(), std::bad_alloc);
  EXPECT_EQ(host.num_asked.load(), 2);
}

TEST_F(LeftByException, ASendOverASegmentThatHasFailedIsNotReceived) {
  SharedPair ranks = TransportPair("sending");
  Host host;
  const Ref<Cancellation> watch = host.Watch();
  std::vector<float> sent(4, 7.0f);
  TransferCall send(CollectiveOp::kSend, 1, CallOptions{Deadline::Infinite(), watch.get()}, &sent);
  EXPECT_THROW(ranks[0]->Execute(&send.call).rep(), std::bad_alloc);
  std::vector<float> got(4, 1.0f);
  TransferCall receive(CollectiveOp::kReceive, 0, Timeout(10 * kMillisecondNs), &got);
  EXPECT_EQ(ranks[1]->Execute(&receive.call).code(), StatusCode::kDeadlineExceeded);
}

// ---- Ranks of one process ----

class LocalLeftByException : public LeftByException {
 protected:
  void MakeGroup() {
    ranks_.clear();
    const auto family = std::make_shared<LocalFamily>(environment_, 2, nullptr);
    const Ref<LocalGroup> group = family->Make("left", 2, 1);
    for (int64_t rank = 0; rank < 2; ++rank) {
      ranks_.push_back(std::make_unique<LocalTransport>(group, rank, family));
    }
  }

  // So far down the stack that what follows does not overwrite what the call has left there.
  [[gnu::noinline]] static Status ExecuteDeepDown(Transport* rank, CollectiveCall* call) {
    volatile char above[1 << 16];
    above[0] = 0;
    Status status = rank->Execute(call);
    above[1] = above[0];
    return status;
  }

  std::vector<std::unique_ptr<LocalTransport>> ranks_;
};

TEST_F(LocalLeftByException, ATransferThatIsLeftWaitsForNobodyAndNobodyFindsIt) {
  for (const bool is_send : {true, false}) {
    MakeGroup();
    Host host;
    const Ref<Cancellation> watch = host.Watch();
    std::vector<float> values(1 << 20, 7.0f);
    TransferCall left(is_send ? CollectiveOp::kSend : CollectiveOp::kReceive, 1,
                      CallOptions{Deadline::Infinite(), watch.get()}, &values);
    EXPECT_THROW(ExecuteDeepDown(ranks_[0].get(), &left.call).rep(), std::bad_alloc);
    std::vector<float> theirs(1 << 20, 1.0f);
    TransferCall late(is_send ? CollectiveOp::kReceive : CollectiveOp::kSend, 0,
                      Timeout(10 * kMillisecondNs), &theirs);
    EXPECT_EQ(ranks_[1]->Execute(&late.call).code(), StatusCode::kDeadlineExceeded);
    EXPECT_EQ(values.front(), 7.0f);
    EXPECT_EQ(theirs.front(), 1.0f);
  }
}

TEST_F(LocalLeftByException, ATransferThatIsLeftLetsThePeerFinishWhatItHasInItsHands) {
  MakeGroup();
  Host host;
  host.throws.store(false);
  const Ref<Cancellation> watch = host.Watch();
  std::vector<float> got(1 << 20, 1.0f);
  std::thread peer([&] {
    while (host.num_asked.load() == 0) std::this_thread::yield();
    TransferCall receive(CollectiveOp::kReceive, 0, Hang(), &got);
    // About when the peer has it.
    host.throws.store(true);
    ranks_[1]->Execute(&receive.call).rep();
  });
  {
    auto sent = std::make_unique<std::vector<float>>(1 << 20, 7.0f);
    TransferCall send(CollectiveOp::kSend, 1, CallOptions{Deadline::Infinite(), watch.get()},
                      sent.get());
    EXPECT_THROW(ranks_[0]->Execute(&send.call).rep(), std::bad_alloc);
    ranks_[0]->Fail(Aborted("left")).rep();
  }
  peer.join();
  // Nothing but what was sent, or not sent at all.
  EXPECT_EQ(got.front(), got.back());
}

TEST_F(LocalLeftByException, WhoCannotSayHowATransferDiffersLetsThePeerGo) {
  ForEachShortage([&](int allocations) {
    MakeGroup();
    std::vector<float> four(4);
    std::vector<float> five(5);
    // The peer waits: it asks its host.
    std::atomic<bool> waits{false};
    const Ref<Cancellation> watch = MakeRef<Cancellation>(
        [](void* flag) {
          static_cast<std::atomic<bool>*>(flag)->store(true);
          return false;
        },
        &waits, nullptr);
    Status theirs;
    std::thread peer([&] {
      TransferCall receive(CollectiveOp::kReceive, 0,
                           CallOptions{Deadline::Infinite(), watch.get()}, &four);
      theirs = ranks_[1]->Execute(&receive.call);
    });
    while (!waits.load()) std::this_thread::yield();
    TransferCall send(CollectiveOp::kSend, 1, Hang(), &five);
    bool was_short = false;
    Status own;
    {
      const ScarceMemory scarce(allocations);
      own = ranks_[0]->Execute(&send.call);
      was_short = ScarceMemory::HasRefused();
    }
    peer.join();
    EXPECT_EQ(own.code(),
              was_short ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument);
    EXPECT_EQ(theirs.rep(), own.rep());
    return was_short && !HasFailure();
  });
}

TEST_F(LocalLeftByException, AHostsExceptionWaitsUntilNobodyUsesItsTensors) {
  RankGroup group(2);
  const Shape shape({1 << 20});
  const Ref<Tensor> mine = Tensor::Create(DType::kFloat32, shape).value();
  Status theirs;
  Host host;
  host.throws.store(false);
  host.is_short_of_memory = false;
  const Ref<Cancellation> watch = host.Watch();
  std::atomic<bool> has_come{false};
  std::thread peer([&] {
    while (host.num_asked.load() == 0) std::this_thread::yield();
    has_come.store(true);
    const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, shape).value();
    theirs = group[1].AllReduce(*tensor, ReduceOp::kSum, group.Hang(), tensor.get());
  });
  std::thread release([&] {
    while (!has_come.load()) std::this_thread::yield();
    // Most of the time the peer has found everybody there by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    host.throws.store(true);
  });
  EXPECT_THROW(group[0]
                   .AllReduce(*mine, ReduceOp::kSum, CallOptions{Deadline::Infinite(), watch.get()},
                              mine.get())
                   .rep(),
               std::runtime_error);
  release.join();
  peer.join();
  // Its slice was missing.
  EXPECT_EQ(theirs.code(), StatusCode::kAborted) << theirs.ToString();
  EXPECT_EQ(group[1].epoch_status().code(), StatusCode::kAborted);
}

// ---- The next epoch ----

TEST(RenewalLeftByException, AShrinkThatAHostLeavesCanBeCalledAgain) {
  RankGroup group(2);
  group[0].Abort(Aborted("enough"));
  Host host;
  const Ref<Cancellation> watch = host.Watch();
  EXPECT_THROW((void)group[0].Shrink(CallOptions{Deadline::Infinite(), watch.get()}),
               std::bad_alloc);
  for (const Status& status : group.Run([&](int64_t, Communicator& self) -> Status {
         TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> next, self.Shrink(group.Hang()));
         EXPECT_EQ(next->size(), 2);
         return next->Close(group.Hang());
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(RenewalLeftByException, ThoseWhoCountedOnARankThatLeftAreTold) {
  RankGroup group(2);
  group[0].Abort(Aborted("enough"));
  Host host;
  host.throws.store(false);
  const Ref<Cancellation> watch = host.Watch();
  Status theirs;
  std::thread peer([&] {
    while (host.num_asked.load() == 0) std::this_thread::yield();
    const Ref<Communicator> next = group[1].Shrink(group.Hang()).value();
    EXPECT_EQ(next->size(), 2);
    host.throws.store(true);
    theirs = next->Barrier(group.Hang());
    const Result<Ref<Communicator>> alone = next->Shrink(group.Hang());
    ASSERT_TRUE(alone.ok()) << alone.status().ToString();
    EXPECT_EQ((*alone)->size(), 1);
    EXPECT_TRUE((*alone)->Close(group.Hang()).ok());
    EXPECT_TRUE(next->Close(group.Hang()).ok());
  });
  EXPECT_THROW((void)group[0].Shrink(CallOptions{Deadline::Infinite(), watch.get()}),
               std::bad_alloc);
  peer.join();
  EXPECT_EQ(theirs.code(), StatusCode::kResourceExhausted) << theirs.ToString();
}

// ---- Starting, cancelling ----

TEST(StartLeftByException, AWorkerThatCannotBeStartedKeepsNobodyFromClosing) {
  ForEachShortage([&](int allocations) {
    RankGroup group(1);
    bool was_short = false;
    {
      const ScarceMemory scarce(allocations);
      try {
        (void)group[0].BarrierAsync(CallOptions());
      } catch (const std::bad_alloc&) {
      }
      was_short = ScarceMemory::HasRefused();
    }
    EXPECT_TRUE(group[0].Close(group.Hang()).ok()) << allocations;
    return was_short && !HasFailure();
  });
}

TEST_F(LeftByException, ARankThatGetsNoCommunicatorHasLeft) {
  ForEachShortage([&](int allocations) {
    SharedPair ranks = TransportPair("making");
    bool was_short = false;
    Result<Ref<Communicator>> made = Status::OutOfMemory();
    {
      const ScarceMemory scarce(allocations);
      try {
        made = Communicator::CreateOver(environment_.get(), "making", 0, 2, 1, std::move(ranks[0]));
      } catch (const std::bad_alloc&) {
      }
      was_short = ScarceMemory::HasRefused();
    }
    EXPECT_EQ(ranks[1]->HasLeft(0), was_short) << allocations;
    EXPECT_EQ(made.ok(), !was_short);
    if (made.ok()) {
      EXPECT_TRUE((*made)->Close(Hang()).ok());
    }
    return was_short && !HasFailure();
  });
}

TEST_F(LeftByException, AListenerThatThrowsKeepsNobodyFromHearing) {
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  const uint64_t first = cancellation->AddListener([] { throw std::bad_alloc(); });
  bool heard = false;
  const uint64_t second = cancellation->AddListener([&] { heard = true; });
  EXPECT_THROW(cancellation->Cancel(), std::bad_alloc);
  EXPECT_TRUE(cancellation->cancelled());
  EXPECT_TRUE(heard);
  std::thread([&] {
    cancellation->RemoveListener(first);
    cancellation->RemoveListener(second);
  }).join();
}

TEST(QueueLeftByException, ACallThatIsCancelledBeforeItsTurnEndsWithItsEpoch) {
  ForEachShortage([&](int allocations) {
    RankGroup group(2);
    const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    const Ref<Future> first = group[0].BarrierAsync(group.Hang()).value();
    const Ref<Future> second =
        group[0].BarrierAsync(CallOptions{Deadline::Infinite(), cancellation.get()}).value();
    bool was_short = false;
    {
      const ScarceMemory scarce(allocations);
      try {
        cancellation->Cancel();
      } catch (const std::bad_alloc&) {
      }
      was_short = ScarceMemory::HasRefused();
    }
    if (!cancellation->cancelled()) cancellation->Cancel();
    const StatusCode code =
        was_short ? StatusCode::kResourceExhausted : StatusCode::kCancelled;
    for (const Ref<Future>& future : {first, second}) {
      EXPECT_TRUE(future->Wait(group.Hang()).ok());
      Ref<Value> none;
      const Status ended = future->GetResult(&none);
      EXPECT_FALSE(ended.ok());
      EXPECT_TRUE(ended.code() == code || ended.code() == StatusCode::kCancelled)
          << allocations << ": " << ended.ToString();
    }
    return was_short && !HasFailure();
  });
}

// ---- Buckets ----

class BucketPlanLeftByException : public testing::Test {
 protected:
  Ref<BucketPlan> Plan(RankGroup& group) {
    Tensor* const tensors[] = {tensor_.get()};
    return BucketPlan::Create(Ref<Communicator>::Retain(&group[0]), tensors, ReduceOp::kSum, 0)
        .value();
  }
  const Ref<Tensor> tensor_ = Tensor::Create(DType::kFloat32, Shape({1})).value();
};

TEST_F(BucketPlanLeftByException, ABucketThatCannotBeLaunchedEndsTheStepForAll) {
  ForEachShortage([&](int allocations) {
    RankGroup group(2);
    const Ref<BucketPlan> plan = Plan(group);
    // The thread of asynchronous calls begins with the first of them.
    const Result<Ref<Future>> first = group[0].BarrierAsync(group.Hang());
    EXPECT_TRUE(group[1].Barrier(group.Hang()).ok());
    EXPECT_TRUE((*first)->Wait(group.Hang()).ok());
    Status theirs;
    std::thread peer([&] {
      const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({1})).value();
      theirs = group[1].AllReduce(*tensor, ReduceOp::kSum, group.Hang(), tensor.get());
    });
    bool was_short = false;
    {
      const ScarceMemory scarce(allocations);
      try {
        plan->Ready(0).rep();
      } catch (const std::bad_alloc&) {
      }
      was_short = ScarceMemory::HasRefused();
    }
    const Status own = plan->Wait(group.Hang());
    peer.join();
    EXPECT_EQ(own.ok(), !was_short) << own.ToString();
    EXPECT_EQ(own.code(), theirs.code()) << theirs.ToString();
    return was_short && !HasFailure();
  });
}

TEST_F(BucketPlanLeftByException, AWaitThatAHostLeavesEndsTheStepForAll) {
  RankGroup group(2);
  const Ref<BucketPlan> plan = Plan(group);
  Host host;
  const Ref<Cancellation> watch = host.Watch();
  EXPECT_THROW(plan->Wait(CallOptions{Deadline::Infinite(), watch.get()}).rep(), std::bad_alloc);
  EXPECT_EQ(plan->Wait(group.Hang()).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(group[1].epoch_status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tutti
