// How asynchronous calls end that never begin, and calls that an exception leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/executor.h"
#include "core/base/real_environment.h"
#include "core/base/thread.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/collective/testing/rank_threads.h"
#include "core/collective/thread/local_family.h"
#include "core/collective/thread/local_group.h"
#include "core/collective/thread/local_transport.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

using testing::HasSubstr;

CallOptions Hang() { return CallOptions::WithTimeout(RealClock(), 60 * kSecondNs); }

// INTERNAL when it is not done before any hang.
Status Outcome(const Result<Ref<Future>>& future) {
  TUTTI_RETURN_IF_ERROR(future.status());
  if (!(*future)->Wait(Hang()).ok()) return Status(StatusCode::kInternal, "it hangs");
  Ref<Value> value;
  return (*future)->GetResult(&value);
}

// Timers that strike when the test says so, and cannot be cancelled: their tasks have started, as
// it were, but not come far.
class HeldTimers final : public Executor {
 public:
  explicit HeldTimers(Executor& real) : real_(real) {}
  bool Post(Task&& task) override { return real_.Post(std::move(task)); }
  uint64_t PostAfter(int64_t, Task&& task) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    return ++num_timers_;
  }
  bool CancelTimer(uint64_t) override { return false; }

  size_t Strike() {
    std::vector<Task> tasks;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      tasks.swap(tasks_);
    }
    for (Task& task : tasks) task();
    return tasks.size();
  }

 private:
  Executor& real_;
  std::mutex mutex_;  // guards all below
  std::vector<Task> tasks_;
  uint64_t num_timers_ = 0;
};

class HeldEnvironment final : public Environment {
 public:
  HeldEnvironment() : timers_(MakeRef<HeldTimers>(real_->executor())) {
    Services services = ServicesOf(*real_);
    services.executor = timers_.get();
    SetServices(services);
  }
  Result<Thread> StartThread(std::string_view name, Task task) override {
    return real_->StartThread(name, std::move(task));
  }
  HeldTimers& timers() { return *timers_; }

 protected:
  Status OnShutdown(const CallOptions& options) override { return real_->Shutdown(options); }

 private:
  const Ref<RealEnvironment> real_ = MakeRef<RealEnvironment>();
  const Ref<HeldTimers> timers_;
};

class HeldTimersTest : public testing::Test {
 protected:
  ~HeldTimersTest() override {
    for (const Ref<Communicator>& rank : ranks_) EXPECT_TRUE(rank->Close(Hang()).ok());
    ranks_.clear();
    environment_->timers().Strike();
    EXPECT_TRUE(environment_->Shutdown(Hang()).ok());
  }

  const Ref<HeldEnvironment> environment_ = MakeRef<HeldEnvironment>();
  std::vector<Ref<Communicator>> ranks_ =
      Communicator::CreateLocal(environment_.get(), 2).value();
};

TEST_F(HeldTimersTest, TheDeadlineIsWatchedBehindACallerThatWaitsForItsTurn) {
  Communicator& self = *ranks_[0];
  const Result<Ref<Future>> first = self.BarrierAsync(Hang());
  // The caller may wait for ever; it asks the host once it has its place.
  std::atomic<bool> waits{false};
  const Ref<Cancellation> polled = MakeRef<Cancellation>(
      [](void* flag) {
        static_cast<std::atomic<bool>*>(flag)->store(true);
        return false;
      },
      &waits, nullptr);
  Status caller_status;
  std::thread caller(
      [&] { caller_status = self.Barrier(CallOptions{Deadline::Infinite(), polled.get()}); });
  while (!waits.load()) std::this_thread::yield();
  // Later than the first call's deadline, but not than the caller's.
  const Result<Ref<Future>> last =
      self.BarrierAsync(CallOptions::WithTimeout(RealClock(), 3600 * kSecondNs));
  EXPECT_EQ(environment_->timers().Strike(), 1u);
  EXPECT_EQ(self.epoch_status().code(), StatusCode::kDeadlineExceeded);
  self.Abort(OkStatus());
  caller.join();
  EXPECT_EQ(Outcome(last).rep(), self.epoch_status().rep());
  EXPECT_EQ(Outcome(first).rep(), self.epoch_status().rep());
  EXPECT_EQ(caller_status.rep(), self.epoch_status().rep());
}

TEST_F(HeldTimersTest, NoTimerIsSetBehindCallsThatEndEarlierOnceCallersAreDone) {
  Communicator& self = *ranks_[0];
  const Deadline end = Hang().deadline;
  const Result<Ref<Future>> first = self.BarrierAsync(CallOptions{end, nullptr});
  std::thread peer([&] {
    EXPECT_TRUE(ranks_[1]->Barrier(Hang()).ok());
    EXPECT_TRUE(ranks_[1]->Barrier(Hang()).ok());
  });
  EXPECT_TRUE(self.Barrier(Hang()).ok());
  peer.join();
  const Result<Ref<Future>> second = self.BarrierAsync(CallOptions{end, nullptr});
  const Result<Ref<Future>> third = self.BarrierAsync(CallOptions{end, nullptr});
  const Result<Ref<Future>> fourth =
      self.BarrierAsync(CallOptions{Deadline::At(end.time_ns() + 1), nullptr});
  EXPECT_EQ(environment_->timers().Strike(), 0u);
}

TEST_F(HeldTimersTest, ATimerThatStrikesWhenItsCallHasBegunEndsNothing) {
  const Result<Ref<Future>> patient = ranks_[0]->BarrierAsync(CallOptions());
  const Result<Ref<Future>> hasty = ranks_[0]->BarrierAsync(Hang());
  ASSERT_TRUE(ranks_[1]->Barrier(Hang()).ok());
  ASSERT_TRUE(ranks_[1]->Barrier(Hang()).ok());
  EXPECT_TRUE(Outcome(patient).ok());
  EXPECT_TRUE(Outcome(hasty).ok());
  EXPECT_EQ(environment_->timers().Strike(), 1u);
  EXPECT_TRUE(ranks_[0]->epoch_status().ok()) << ranks_[0]->epoch_status().ToString();
}

TEST(CommunicatorAsyncEnds, ACallThatIsCancelledBeforeItIsIssuedBehindOthersEnds) {
  RankGroup group(2);
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  const Result<Ref<Future>> first = group[0].BarrierAsync(group.Hang());
  cancellation->Cancel();
  const Result<Ref<Future>> second =
      group[0].BarrierAsync(CallOptions{Deadline::Infinite(), cancellation.get()});
  const Status status = Outcome(second);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(Outcome(first).rep(), status.rep());
  EXPECT_EQ(group[1].Barrier(group.Hang()).rep(), status.rep());
}

TEST(CommunicatorAsyncEnds, WhoeverElseCallsAtOnceTheDeadlineHolds) {
  for (int round = 0; round < 200; ++round) {
    RankGroup group(2);
    std::barrier both(2);
    Status other;
    std::thread patient([&] {
      both.arrive_and_wait();
      if (round % 2 == 0) {
        other = group[0].Barrier(CallOptions());
      } else {
        other = Outcome(group[0].BarrierAsync(CallOptions()));
      }
    });
    both.arrive_and_wait();
    const Result<Ref<Future>> hasty = group[0].BarrierAsync(group.Timeout(kMillisecondNs));
    const Status status = Outcome(hasty);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    group[0].Abort(OkStatus());
    patient.join();
    EXPECT_EQ(other.rep(), group[0].epoch_status().rep()) << other.ToString();
    if (HasFailure()) break;
  }
}

// Runs out of memory in the next call, when it is told to.
class ThrowingTransport final : public Transport {
 public:
  ThrowingTransport(std::unique_ptr<Transport> inner, std::shared_ptr<std::atomic<bool>> throws)
      : inner_(std::move(inner)), throws_(std::move(throws)) {}
  const char* name() const override { return inner_->name(); }
  Status Execute(CollectiveCall* call) override {
    if (throws_->exchange(false)) throw std::bad_alloc();
    return inner_->Execute(call);
  }
  Status Fail(Status error) override { return inner_->Fail(std::move(error)); }
  Status failure() const override { return inner_->failure(); }
  bool ClaimFlightRecord() override { return inner_->ClaimFlightRecord(); }
  void Leave(Status reason) override { inner_->Leave(std::move(reason)); }

 private:
  const std::unique_ptr<Transport> inner_;
  const std::shared_ptr<std::atomic<bool>> throws_;
};

class ThrowingTest : public testing::Test {
 protected:
  ThrowingTest() {
    const auto family = std::make_shared<LocalFamily>(environment_, 2, nullptr);
    const Ref<LocalGroup> group = family->Make("throwing", 2, 1);
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::unique_ptr<Transport> transport = std::make_unique<LocalTransport>(group, rank, family);
      if (rank == 0) {
        transport = std::make_unique<ThrowingTransport>(std::move(transport), throws_);
      }
      ranks_.push_back(Communicator::CreateOver(environment_.get(), "throwing", rank, 2, 1,
                                                std::move(transport))
                           .value());
    }
  }
  ~ThrowingTest() override {
    for (const Ref<Communicator>& rank : ranks_) EXPECT_TRUE(rank->Close(Hang()).ok());
    ranks_.clear();
    EXPECT_TRUE(environment_->Shutdown(Hang()).ok());
  }
  void ExpectEnded(const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0: barrier was left in the middle"));
    EXPECT_EQ(status.rep(), ranks_[0]->epoch_status().rep());
  }

  const Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  const std::shared_ptr<std::atomic<bool>> throws_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<Ref<Communicator>> ranks_;
};

TEST_F(ThrowingTest, ACallThatAnExceptionLeavesEndsItsPeersToo) {
  throws_->store(true);
  Status peer_status;
  std::thread peer([&] { peer_status = ranks_[1]->Barrier(Hang()); });
  EXPECT_THROW(ranks_[0]->Barrier(Hang()).rep(), std::bad_alloc);
  peer.join();
  ExpectEnded(peer_status);
  ExpectEnded(ranks_[0]->Barrier(Hang()));
}

TEST_F(ThrowingTest, AnAsynchronousCallThatAnExceptionLeavesIsDoneAndSoAreThoseBehindIt) {
  // Waited for at once, time after time, calls run on the threads of who waits.
  std::thread peer([&] {
    for (int i = 0; i < 40; ++i) EXPECT_TRUE(ranks_[1]->Barrier(Hang()).ok());
    ExpectEnded(ranks_[1]->Barrier(Hang()));
  });
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(Outcome(ranks_[0]->BarrierAsync(Hang())).ok());
  throws_->store(true);
  const Result<Ref<Future>> left = ranks_[0]->BarrierAsync(Hang());
  const Result<Ref<Future>> behind = ranks_[0]->BarrierAsync(Hang());
  ExpectEnded(Outcome(left));
  ExpectEnded(Outcome(behind));
  peer.join();
  ExpectEnded(ranks_[0]->Barrier(Hang()));
}

TEST(CommunicatorEnds, ARootThatHasNoRoomForWhatItGathersLetsItsPeersGo) {
  RankGroup group(2);
  // More strings than any process can join, though they are all the same one.
  BytesView text;
  const int64_t strides[] = {0};
  const Ref<Tensor> huge = Tensor::View(&text, DType::kBytes, Shape({int64_t{1} << 59}), strides,
                                        /*read_only=*/true, nullptr);
  const Ref<Tensor> one =
      Tensor::View(&text, DType::kBytes, Shape({1}), {}, /*read_only=*/true, nullptr);
  std::thread peer([&] {
    EXPECT_TRUE(group[1].Gather(*one, 0, 0, group.Hang(), nullptr).ok());
    EXPECT_EQ(group[1].Barrier(group.Hang()).code(), StatusCode::kResourceExhausted);
  });
  Ref<Tensor> joined;
  EXPECT_THROW(group[0].Gather(*huge, 0, 0, group.Hang(), &joined).rep(), std::length_error);
  peer.join();
  EXPECT_EQ(group[0].Barrier(group.Hang()).code(), StatusCode::kResourceExhausted);
}

TEST(CommunicatorEnds, WhoRunsOutOfMemoryWhileItWaitsGoesWithThePeersOrEndsThem) {
  RankGroup group(2);
  constexpr int64_t kElements = 1 << 20;  // shared, not copied
  Ref<Tensor> tensors[2];
  for (Ref<Tensor>& tensor : tensors) {
    tensor = Tensor::Create(DType::kFloat32, Shape({kElements})).value();
  }
  struct Host {
    std::atomic<bool> asked{false};
    Communicator* peer;
  } host;
  host.peer = &group[1];
  const Ref<Cancellation> polled = MakeRef<Cancellation>(
      [](void* user_data) -> bool {
        auto* const self = static_cast<Host*>(user_data);
        self->asked.store(true);
        // Mostly the peer has found that both are here when this one gives up.
        while (self->peer->sequence() == 0) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        throw std::bad_alloc();
      },
      &host, nullptr);
  Status peer_status;
  std::thread peer([&] {
    while (!host.asked.load()) std::this_thread::yield();
    peer_status =
        group[1].AllReduce(*tensors[1], ReduceOp::kSum, group.Hang(), tensors[1].get());
  });
  const CallOptions options{Deadline::Infinite(), polled.get()};
  const Status status =
      group[0].AllReduce(*tensors[0], ReduceOp::kSum, options, tensors[0].get());
  peer.join();
  EXPECT_EQ(status.rep(), peer_status.rep()) << status.ToString() << peer_status.ToString();
  EXPECT_EQ(group[0].epoch_status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(group[1].Barrier(group.Hang()).rep(), group[0].epoch_status().rep());
}

}  // namespace
}  // namespace tutti
