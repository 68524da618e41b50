// A rank that waits for long says once, in the log, where everybody is: over links and over a
// shared segment. The clock of these tests skips seconds when it is told to, so that 30 seconds are
// soon over.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/base/real_environment.h"
#include "core/base/thread.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// Real time, and what was skipped of it.
class SkippingClock final : public Clock {
 public:
  void Skip(int64_t time_ns) { skipped_ns_.fetch_add(time_ns); }

  int64_t NowNs() const override { return RealClock().NowNs() + skipped_ns_.load(); }
  int64_t WallNs() const override { return RealClock().WallNs(); }
  Status Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
              int64_t until_ns) override {
    return RealClock().Wait(lock, condition,
                            until_ns == kNeverNs ? kNeverNs : until_ns - skipped_ns_.load());
  }

 private:
  std::atomic<int64_t> skipped_ns_ = 0;
};

class LineLog final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::lock_guard lock(mutex_);
    lines_.emplace_back(record.message);
    changed_.notify_all();
  }
  // The first line; an empty one when none has come so soon.
  std::string First(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return !lines_.empty(); });
    return lines_.empty() ? "" : lines_.front();
  }
  size_t count() const {
    std::lock_guard lock(mutex_);
    return lines_.size();
  }

 private:
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// The real environment's services but for the clock, and a log that is read.
class SkippingEnvironment final : public Environment {
 public:
  explicit SkippingEnvironment(Ref<RealEnvironment> real)
      : real_(std::move(real)), log_(clock_, LogLevel::kWarning), lines_(MakeRef<LineLog>()) {
    Services services = ServicesOf(*real_);
    services.clock = &clock_;
    services.log = &log_;
    SetServices(services);
    if (!log_.SetSink(lines_).ok()) std::abort();
  }
  Result<Thread> StartThread(std::string_view name, Task task) override {
    return real_->StartThread(name, std::move(task));
  }
  LineLog& lines() { return *lines_; }
  void Skip(int64_t time_ns) { clock_.Skip(time_ns); }

 protected:
  Status OnShutdown(const CallOptions&) override { return OkStatus(); }

 private:
  const Ref<RealEnvironment> real_;
  SkippingClock clock_;
  Log log_;
  const Ref<LineLog> lines_;
};

enum class Between { kTcp, kRings, kSegment };

class LongWaitTest : public testing::TestWithParam<Between> {
 protected:
  LongWaitTest()
      : real_(MakeRef<RealEnvironment>()), environment_(MakeRef<SkippingEnvironment>(real_)) {}
  ~LongWaitTest() override {
    for (const Ref<Communicator>& rank : ranks_) EXPECT_TRUE(rank->Close(CallOptions()).ok());
    ranks_.clear();
    EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
    EXPECT_TRUE(real_->Shutdown(CallOptions()).ok());
  }

  void Start(int64_t size) {
    const auto describe = [](int64_t rank) { return Format("worker {}, pid {}", rank, 47 + rank); };
    std::vector<std::unique_ptr<Transport>> transports(static_cast<size_t>(size));
    if (GetParam() == Between::kSegment) {
      const Ref<SharedSegment> segment =
          SharedSegment::Create(SharedTransport::SegmentBytes(size)).value();
      // Each waits for the others to take their places.
      std::vector<std::thread> threads;
      for (int64_t rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
          SharedGroupOptions options;
          options.name = "far";
          options.rank = rank;
          options.size = size;
          options.describe_peer = describe;
          transports[static_cast<size_t>(rank)] =
              SharedTransport::Create(environment_, segment, options).value();
        });
      }
      for (std::thread& thread : threads) thread.join();
    } else {
      auto links = MakeAllLinks(static_cast<size_t>(size), GetParam() == Between::kTcp
                                                               ? LinkKind::kTcp
                                                               : LinkKind::kRing);
      for (int64_t rank = 0; rank < size; ++rank) {
        LinkTransport::Options options;
        options.name = "far";
        options.rank = rank;
        options.size = size;
        for (int64_t other = 0; other < size; ++other) {
          options.descriptions.push_back(describe(other));
        }
        transports[static_cast<size_t>(rank)] =
            LinkTransport::Create(environment_, options,
                                  std::move(links[static_cast<size_t>(rank)]))
                .value();
      }
    }
    for (int64_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(Communicator::CreateOver(environment_.get(), "far", rank, size, 1,
                                                std::move(transports[static_cast<size_t>(rank)]))
                           .value());
    }
  }

  template <typename Body>
  void Run(Body body) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([this, &body, rank] {
        const Status status = body(rank, *ranks_[rank]);
        EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status.ToString();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const Ref<RealEnvironment> real_;
  const Ref<SkippingEnvironment> environment_;
  std::vector<Ref<Communicator>> ranks_;
};

TEST_P(LongWaitTest, OneLineSaysWhereEverybodyIsAndTheCallGoesOn) {
  Start(2);
  LineLog& lines = environment_->lines();
  std::string line;
  // Sleeps are the kernel's, which knows nothing of clocks that skip; with a cancellation they are
  // short. And who waits asks its host.
  std::atomic<int> asked = 0;
  const auto ask = [](void* count) {
    static_cast<std::atomic<int>*>(count)->fetch_add(1);
    return false;
  };
  const Ref<Cancellation> cancellation =
      MakeRef<Cancellation>(ask, &asked, Ref<const RefCounted>());
  CallOptions short_sleeps;
  short_sleeps.cancellation = cancellation.get();
  Run([&](size_t rank, Communicator& communicator) -> Status {
    TUTTI_RETURN_IF_ERROR(communicator.Barrier(CallOptions()));
    // Rank 1 comes when rank 0 has told of its wait, which may not have begun when its call has.
    if (rank == 1) {
      while (ranks_[0]->sequence() < 2) std::this_thread::yield();
      for (int i = 0; i < 6000 && line.empty(); ++i) {
        environment_->Skip(30 * kSecondNs);
        line = lines.First(std::chrono::milliseconds(10));
      }
      // Nor does it tell it again.
      environment_->Skip(60 * kSecondNs);
      const Deadline hang = Deadline::After(RealClock(), 60 * kSecondNs);
      const int enough = asked.load() + 3;
      while (asked.load() < enough && !hang.Expired(RealClock())) std::this_thread::yield();
    }
    const Ref<Tensor> one = Tensor::Scalar<int64_t>(1);
    TUTTI_RETURN_IF_ERROR(
        communicator.AllReduce(*one, ReduceOp::kSum, short_sleeps, one.get()));
    EXPECT_EQ(one->item<int64_t>(), 2);
    return OkStatus();
  });
  EXPECT_EQ(line,
            "communicator far: rank 0 has waited 30 s in all_reduce #2: rank 0 (worker 0, pid 47): "
            "#2 all_reduce (waits), rank 1 (worker 1, pid 48): #1 barrier");
  EXPECT_EQ(lines.count(), 1u);
}

std::string NameOf(const testing::TestParamInfo<Between>& info) {
  constexpr const char* kNames[] = {"Tcp", "Rings", "Segment"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Transports, LongWaitTest,
                         testing::Values(Between::kTcp, Between::kRings, Between::kSegment),
                         NameOf);

}  // namespace
}  // namespace tutti
