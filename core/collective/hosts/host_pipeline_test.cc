#include "core/collective/hosts/host_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/real_environment.h"
#include "core/base/wait.h"

namespace tutti {
namespace {

constexpr std::chrono::seconds kHang{60};

class HostPipelineTest : public testing::Test {
 protected:
  HostPipelineTest()
      : environment_(
            MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff})) {}
  ~HostPipelineTest() override { EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok()); }

  // Write down what they are called for: of the caller's thread, and of `between`.
  HostPipeline::Stages Recording() {
    HostPipeline::Stages stages;
    stages.first = [this](int64_t chunk) { return Record(&called_, "first", chunk); };
    stages.between = [this](int64_t chunk, Cancellation*) {
      return Record(&between_, "between", chunk);
    };
    stages.last = [this](int64_t chunk) { return Record(&called_, "last", chunk); };
    stages.fail = [](Status error) { return error; };
    return stages;
  }
  static Status Record(std::vector<std::string>* calls, const char* stage, int64_t chunk) {
    calls->push_back(std::string(stage) + " " + std::to_string(chunk));
    return OkStatus();
  }

  const Ref<RealEnvironment> environment_;
  std::vector<std::string> called_;
  std::vector<std::string> between_;
};

TEST_F(HostPipelineTest, StagesRunInOneOrderOnEitherThread) {
  HostPipeline pipeline(*environment_);
  for (int call = 0; call < 2; ++call) {
    called_.clear();
    between_.clear();
    EXPECT_TRUE(pipeline.Run(3, Recording(), nullptr).ok());
    EXPECT_EQ(called_, (std::vector<std::string>{"first 0", "first 1", "last 0", "first 2",
                                                 "last 1", "last 2"}));
    EXPECT_EQ(between_, (std::vector<std::string>{"between 0", "between 1", "between 2"}));
    // Without a thread, too.
    pipeline.Stop();
  }
}

TEST_F(HostPipelineTest, AChunkIsBetweenTheHostsWhileTheNextOneIsInMemory) {
  HostPipeline pipeline(*environment_);
  std::promise<void> next_begins;
  HostPipeline::Stages stages = Recording();
  stages.first = [&](int64_t chunk) {
    if (chunk == 1) next_begins.set_value();
    return OkStatus();
  };
  stages.between = [&](int64_t chunk, Cancellation*) -> Status {
    if (chunk == 0 && next_begins.get_future().wait_for(kHang) != std::future_status::ready) {
      return DeadlineExceeded("the next chunk waits for this one");
    }
    return OkStatus();
  };
  const Status status = pipeline.Run(2, stages, nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(HostPipelineTest, TheFirstErrorOfAStageEndsTheCallAndNotTheNextOne) {
  HostPipeline pipeline(*environment_);
  for (const std::string failing : {"first 0", "first 2", "between 0", "between 1", "between 3",
                                    "last 0", "last 3"}) {
    between_.clear();
    HostPipeline::Stages stages;
    const auto stage = [&](const char* name, int64_t chunk) -> Status {
      if (name == std::string("between")) Record(&between_, name, chunk).rep();
      return failing == std::string(name) + " " + std::to_string(chunk)
                 ? Unavailable("{} has failed", failing)
                 : OkStatus();
    };
    stages.first = [&](int64_t chunk) { return stage("first", chunk); };
    stages.between = [&](int64_t chunk, Cancellation*) { return stage("between", chunk); };
    stages.last = [&](int64_t chunk) { return stage("last", chunk); };
    stages.fail = [](Status error) { return error; };
    EXPECT_EQ(pipeline.Run(4, stages, nullptr).message(), failing + " has failed");
    // What is behind a failed one is left out.
    if (failing.starts_with("between")) {
      EXPECT_EQ(between_.back(), failing);
    }
    between_.clear();
    called_.clear();
    EXPECT_TRUE(pipeline.Run(3, Recording(), nullptr).ok());
    EXPECT_EQ(between_.size(), 3u) << failing;
  }
}

TEST_F(HostPipelineTest, WhoCancelsStopsTheStageThatIsUnderWay) {
  HostPipeline pipeline(*environment_);
  const Ref<Cancellation> watch = MakeRef<Cancellation>();
  HostPipeline::Stages stages = Recording();
  stages.between = [&](int64_t chunk, Cancellation* stop) -> Status {
    if (chunk == 0) return OkStatus();
    EXPECT_EQ(chunk, 1);
    watch->Cancel(Aborted("enough"));
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock<std::mutex> lock(mutex);
    const CallOptions options{Deadline::After(environment_->clock(), 60 * kSecondNs), stop};
    return WaitUntil(lock, never, environment_->clock(), options, [] { return false; },
                     "while it waited for rank 2");
  };
  const Status status = pipeline.Run(5, stages, watch.get());
  EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
  EXPECT_EQ(status.message(), "while it waited for rank 2: enough");
  EXPECT_TRUE(pipeline.Run(5, Recording(), nullptr).ok());
}

TEST_F(HostPipelineTest, AnExceptionLeavesACallWhenTheOtherThreadIsDoneWithIt) {
  HostPipeline pipeline(*environment_);
  for (const bool throws_in_last : {false, true}) {
    // Not on the stack of the call: looked at when that has gone.
    const auto num_ended = std::make_shared<std::atomic<int>>(0);
    std::latch is_between(1);
    HostPipeline::Stages stages = Recording();
    stages.between = [this, num_ended, throws_in_last, &is_between](
                         int64_t chunk, Cancellation* stop) -> Status {
      if (chunk != 1) return OkStatus();
      is_between.count_down();
      std::mutex mutex;
      std::condition_variable never;
      std::unique_lock<std::mutex> lock(mutex);
      const CallOptions options{Deadline::After(environment_->clock(), 60 * kSecondNs), stop};
      Status status = WaitUntil(lock, never, environment_->clock(), options, [] { return false; },
                                "while it waited for rank 2");
      num_ended->fetch_add(1);
      return status;
    };
    const auto leave = [&]() -> Status {
      is_between.wait();
      throw std::bad_alloc();
    };
    stages.first = [&](int64_t chunk) {
      return chunk == 2 && !throws_in_last ? leave() : OkStatus();
    };
    stages.last = [&](int64_t chunk) {
      return chunk == 0 && throws_in_last ? leave() : OkStatus();
    };
    EXPECT_THROW(pipeline.Run(4, stages, nullptr).rep(), std::bad_alloc);
    EXPECT_EQ(num_ended->load(), 1);
    EXPECT_TRUE(pipeline.Run(3, Recording(), nullptr).ok());
  }
}

TEST_F(HostPipelineTest, WhatAStageOnTheOtherThreadThrowsFailsTheCallForAll) {
  HostPipeline pipeline(*environment_);
  HostPipeline::Stages stages = Recording();
  stages.between = [](int64_t chunk, Cancellation*) -> Status {
    if (chunk == 1) throw std::bad_alloc();
    return OkStatus();
  };
  std::atomic<int> num_failed{0};
  stages.fail = [&](Status error) {
    num_failed.fetch_add(1);
    return error;
  };
  EXPECT_EQ(pipeline.Run(4, stages, nullptr).code(), StatusCode::kResourceExhausted);
  EXPECT_GE(num_failed.load(), 1);
  stages.fail = [](Status) -> Status { throw std::bad_alloc(); };
  EXPECT_THROW(pipeline.Run(4, stages, nullptr).rep(), std::bad_alloc);
  EXPECT_TRUE(pipeline.Run(3, Recording(), nullptr).ok());
}

}  // namespace
}  // namespace tutti
