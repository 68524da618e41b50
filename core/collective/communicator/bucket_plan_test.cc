#include "core/collective/communicator/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/callback_scope.h"
#include "core/base/closable.h"
#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/collective/communicator/future.h"
#include "core/collective/testing/rank_threads.h"

namespace tutti {
namespace {

using testing::HasSubstr;

std::string Message(const Status& status) { return std::string(status.message()); }

uint64_t Seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("TUTTI_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

Ref<Tensor> Floats(int64_t elements) {
  return Tensor::Create(DType::kFloat32, Shape({elements})).value();
}

float& At(const Ref<Tensor>& tensor, int64_t i) {
  return static_cast<float*>(tensor->mutable_data())[i];
}

// The gradients of one rank; no two are alike, so that a call with the wrong ones fails.
class Gradients {
 public:
  explicit Gradients(size_t count) {
    for (size_t i = 0; i < count; ++i) tensors_.push_back(Floats(static_cast<int64_t>(i) + 1));
  }
  size_t size() const { return tensors_.size(); }
  const Ref<Tensor>& operator[](size_t i) const { return tensors_[i]; }
  std::vector<Tensor*> pointers() const {
    std::vector<Tensor*> pointers;
    for (const Ref<Tensor>& tensor : tensors_) pointers.push_back(tensor.get());
    return pointers;
  }
  // What the backward pass of a rank writes.
  void Fill(size_t i, int64_t rank, int64_t step) const {
    for (int64_t k = 0; k < tensors_[i]->num_elements(); ++k) {
      At(tensors_[i], k) = Value(i, k, rank, step);
    }
  }
  // How many elements differ from the sum over ranks.
  int64_t CountWrong(int64_t ranks, int64_t step) const {
    int64_t wrong = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      for (int64_t k = 0; k < tensors_[i]->num_elements(); ++k) {
        float sum = 0;
        for (int64_t rank = 0; rank < ranks; ++rank) sum += Value(i, k, rank, step);
        wrong += At(tensors_[i], k) != sum;
      }
    }
    return wrong;
  }

 private:
  static float Value(size_t i, int64_t k, int64_t rank, int64_t step) {
    return static_cast<float>(static_cast<int64_t>(i) * 31 + k * 7 + rank * 1000 + step);
  }

  std::vector<Ref<Tensor>> tensors_;
};

Result<Ref<BucketPlan>> Plan(Communicator& communicator, const Gradients& gradients,
                             int64_t bytes_per_pack = 64) {
  return BucketPlan::Create(Ref<Communicator>::Retain(&communicator), gradients.pointers(),
                            ReduceOp::kSum, bytes_per_pack);
}

TEST(BucketPlanTest, ReducesWhateverTheOrdersInWhichRanksReportGradients) {
  std::mt19937_64 seeds(Seed());
  constexpr size_t kGradients = 40;
  constexpr int64_t kSteps = 5;
  RankGroup group(3);
  std::vector<uint64_t> seed_of = {seeds(), seeds(), seeds()};
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator)
                                                     -> Status {
    std::mt19937_64 random(seed_of[static_cast<size_t>(rank)]);
    const Gradients gradients(kGradients);
    TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan, Plan(communicator, gradients));
    std::vector<size_t> order(kGradients);
    std::iota(order.begin(), order.end(), size_t{0});
    for (int64_t step = 0; step < kSteps; ++step) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) {
        gradients.Fill(i, rank, step);
        TUTTI_RETURN_IF_ERROR(plan->Ready(i));
      }
      TUTTI_RETURN_IF_ERROR(plan->Wait(group.Hang()));
      EXPECT_EQ(gradients.CountWrong(3, step), 0) << "step " << step;
    }
    EXPECT_EQ(plan->num_steps(), kSteps);
    EXPECT_EQ(communicator.sequence(), kSteps * static_cast<int64_t>(plan->buckets().size()));
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(BucketPlanTest, APlanMakesGradientsLikeThoseGivenSideBySide) {
  RankGroup group(2);
  std::vector<Ref<Tensor>> kept(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator)
                                                     -> Status {
    const Ref<Tensor> whole = Floats(24);
    const Ref<Tensor> strided = whole->SliceAxis(0, 0, 5).value();
    const Ref<Tensor> number = Tensor::Scalar<int64_t>(7);
    const std::vector<const Tensor*> like = {strided.get(), number.get(), number.get()};
    TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan,
                           BucketPlan::CreateLike(Ref<Communicator>::Retain(&communicator), like,
                                                  ReduceOp::kSum, 0));
    std::vector<Ref<Tensor>> own;
    for (size_t i = 0; i < like.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, plan->GetTensor(i));
      EXPECT_EQ(tensor->spec(), like[i]->spec());
      own.push_back(std::move(tensor));
    }
    EXPECT_EQ(static_cast<const char*>(own[1]->data()) - static_cast<const char*>(own[0]->data()),
              64);
    EXPECT_EQ(At(own[0], 4), 0);
    for (size_t i = 0; i < like.size(); ++i) {
      if (i == 0) {
        At(own[0], 4) = static_cast<float>(rank + 1);
      } else {
        *static_cast<int64_t*>(own[i]->mutable_data()) = rank + static_cast<int64_t>(i);
      }
      TUTTI_RETURN_IF_ERROR(plan->Ready(i));
    }
    TUTTI_RETURN_IF_ERROR(plan->Wait(group.Hang()));
    EXPECT_EQ(At(own[0], 4), 3);
    EXPECT_EQ(own[1]->item<int64_t>(), 3);
    EXPECT_EQ(own[2]->item<int64_t>(), 5);
    EXPECT_EQ(number->item<int64_t>(), 7);
    EXPECT_THAT(Message(plan->GetTensor(3).status()),
                HasSubstr("tensor 3 is asked for, and the plan has 3"));
    kept[static_cast<size_t>(rank)] = own[2];
    const Ref<Tensor> text = Tensor::Bytes("text");
    const std::vector<const Tensor*> wrong = {number.get(), text.get()};
    EXPECT_THAT(Message(BucketPlan::CreateLike(Ref<Communicator>::Retain(&communicator), wrong,
                                               ReduceOp::kSum, 0)
                            .status()),
                HasSubstr("bucket plan: tensor 1"));
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  for (const Ref<Tensor>& tensor : kept) EXPECT_EQ(tensor->item<int64_t>(), 5);
}

TEST(BucketPlanTest, GradientsMayBeReportedOnSeveralThreads) {
  std::mt19937_64 random(Seed());
  constexpr size_t kGradients = 60;
  constexpr size_t kThreads = 3;
  RankGroup group(2);
  std::vector<size_t> order(kGradients);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator)
                                                     -> Status {
    const Gradients gradients(kGradients);
    TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan, Plan(communicator, gradients));
    for (int64_t step = 0; step < 3; ++step) {
      std::vector<std::thread> threads;
      std::vector<Status> reported(kThreads);
      for (size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (size_t k = t; k < kGradients && reported[t].ok(); k += kThreads) {
            gradients.Fill(order[k], rank, step);
            reported[t] = plan->Ready(order[k]);
          }
        });
      }
      // Beside them, as a training loop may.
      TUTTI_RETURN_IF_ERROR(plan->Wait(group.Hang()));
      for (std::thread& thread : threads) thread.join();
      for (const Status& status : reported) TUTTI_RETURN_IF_ERROR(status);
      EXPECT_EQ(gradients.CountWrong(2, step), 0) << "step " << step;
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(BucketPlanTest, ABucketGoesWhenItIsCompleteAndThoseBeforeItHaveGone) {
  RankGroup group(1);
  const Gradients gradients(6);  // 4, 8, 12, 16, 20, 24 bytes
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 24).value();
  EXPECT_EQ(std::vector<Pack>(plan->buckets().begin(), plan->buckets().end()),
            (std::vector<Pack>{{0, 3}, {3, 4}, {4, 5}, {5, 6}}));
  for (const size_t i : {5u, 4u, 3u, 2u, 1u}) ASSERT_TRUE(plan->Ready(i).ok());
  EXPECT_EQ(group[0].sequence(), 0);
  ASSERT_TRUE(plan->Ready(0).ok());
  // While nobody waits for the plan.
  while (group[0].sequence() < 4) std::this_thread::yield();
  EXPECT_TRUE(plan->Wait(group.Hang()).ok());
}

TEST(BucketPlanTest, TheFirstBucketIsReducedBeforeTheLastGradientIsThere) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator)
                                                     -> Status {
    const Gradients gradients(2);
    TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan, Plan(communicator, gradients, 1));
    gradients.Fill(0, rank, 0);
    TUTTI_RETURN_IF_ERROR(plan->Ready(0));
    // An asynchronous call takes its turn behind the bucket's.
    TUTTI_ASSIGN_OR_RETURN(const Ref<Future> behind, communicator.BarrierAsync(CallOptions()));
    TUTTI_RETURN_IF_ERROR(behind->Wait(group.Hang()));
    EXPECT_EQ(At(gradients[0], 0), 1000.f);
    gradients.Fill(1, rank, 0);
    TUTTI_RETURN_IF_ERROR(plan->Ready(1));
    TUTTI_RETURN_IF_ERROR(plan->Wait(group.Hang()));
    EXPECT_EQ(gradients.CountWrong(2, 0), 0);
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(BucketPlanTest, WithoutASizeBucketsHaveTheUsualOne) {
  RankGroup group(1);
  const Ref<Tensor> large[] = {Floats(1 << 19), Floats(1 << 19), Floats(1)};
  std::vector<Tensor*> tensors;
  for (const Ref<Tensor>& tensor : large) tensors.push_back(tensor.get());
  const Ref<BucketPlan> plan =
      BucketPlan::Create(Ref<Communicator>::Retain(&group[0]), tensors, ReduceOp::kMean, 0).value();
  EXPECT_EQ(plan->buckets().size(), 2u);
}

TEST(BucketPlanTest, APlanOfNothingHasNothingToWaitFor) {
  RankGroup group(1);
  const Ref<BucketPlan> plan = Plan(group[0], Gradients(0)).value();
  EXPECT_TRUE(plan->Wait(group.Hang()).ok());
  EXPECT_EQ(plan->Ready(0).code(), StatusCode::kInvalidArgument);
}

TEST(BucketPlanTest, MistakesOfTheCallerLeaveTheStepAsItIs) {
  RankGroup group(1);
  const Gradients gradients(2);
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 1).value();
  ASSERT_TRUE(plan->Ready(1).ok());
  const Status twice = plan->Ready(1);
  EXPECT_EQ(twice.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(twice), HasSubstr("tensor 1 is ready for the second time in step 1"));
  const Status none = plan->Ready(2);
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(none), HasSubstr("tensor 2 is ready, and the plan has 2"));
  ASSERT_TRUE(plan->Ready(0).ok());
  EXPECT_TRUE(plan->Wait(group.Hang()).ok());
  EXPECT_TRUE(plan->Ready(1).ok());
}

TEST(BucketPlanTest, RefusesTensorsThatItCannotReduceInPlace) {
  RankGroup group(1);
  const auto create = [&](std::vector<Tensor*> tensors, int64_t bytes_per_pack) {
    return BucketPlan::Create(Ref<Communicator>::Retain(&group[0]), tensors, ReduceOp::kSum,
                              bytes_per_pack)
        .status();
  };
  const Ref<Tensor> good = Floats(1);
  const Ref<Tensor> text = Tensor::Create(DType::kBytes, Shape({1})).value();
  EXPECT_THAT(Message(create({good.get(), text.get()}, 0)), HasSubstr("tensor 1"));
  EXPECT_THAT(Message(create({good.get(), nullptr}, 0)), HasSubstr("tensor 1"));
  EXPECT_THAT(Message(create({good.get(), good.get()}, 0)), HasSubstr("twice"));
  EXPECT_THAT(Message(create({good.get()}, -1)), HasSubstr("bytes_per_pack is -1"));
}

TEST(BucketPlanTest, RanksWithOtherGradientsAllGetTheSameError) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator)
                                                     -> Status {
    const Gradients gradients(rank == 0 ? 3 : 4);
    TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan, Plan(communicator, gradients, 1 << 20));
    for (size_t i = 0; i < gradients.size(); ++i) plan->Ready(i).rep();
    const Status status = plan->Wait(group.Hang());
    EXPECT_EQ(plan->Wait(group.Hang()).code(), status.code());
    EXPECT_EQ(plan->Ready(0).code(), status.code());
    return status;
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  }
  EXPECT_EQ(Message(statuses[0]), Message(statuses[1]));
}

TEST(BucketPlanTest, ADeadlineNamesGradientsThatAreMissingHereAndEndsTheStepOfAll) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator)
                                                     -> Status {
    const Gradients gradients(8);
    TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan, Plan(communicator, gradients, 1));
    for (size_t i = 0; i < (rank == 0 ? 2u : 8u); ++i) TUTTI_RETURN_IF_ERROR(plan->Ready(i));
    return plan->Wait(rank == 0 ? group.Timeout(20 * kMillisecondNs) : group.Hang());
  });
  EXPECT_EQ(statuses[0].code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(statuses[0]), HasSubstr("tensors that are not ready: 2, 3, 4, 5, 2 more"));
  EXPECT_EQ(statuses[1].code(), StatusCode::kDeadlineExceeded) << statuses[1].ToString();
}

TEST(BucketPlanTest, ADeadlineEndsBucketsThatAPeerDoesNotJoin) {
  RankGroup group(2);
  const Gradients gradients(4);
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 1).value();
  for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(plan->Ready(i).ok());
  while (group[0].sequence() < 1) std::this_thread::yield();
  const Status status = plan->Wait(group.Timeout(20 * kMillisecondNs));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_THAT(Message(status), HasSubstr("rank 1"));
  EXPECT_EQ(group[1].epoch_status().code(), StatusCode::kDeadlineExceeded);
}

TEST(BucketPlanTest, ACancelledWaitEndsTheStep) {
  RankGroup group(2);
  const Gradients gradients(2);
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 1).value();
  for (size_t i = 0; i < 2; ++i) ASSERT_TRUE(plan->Ready(i).ok());
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  std::thread other([&] { cancellation->Cancel(); });
  const Status status = plan->Wait(CallOptions{Deadline::Infinite(), cancellation.get()});
  other.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
  EXPECT_FALSE(group[1].epoch_status().ok());
}

TEST(BucketPlanTest, APeerThatLeavesEndsTheWait) {
  RankGroup group(2);
  const Gradients gradients(2);
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 1).value();
  ASSERT_TRUE(plan->Ready(0).ok());
  std::thread other([&] { EXPECT_TRUE(group[1].Close(group.Hang()).ok()); });
  for (size_t i = 1; i < 2; ++i) plan->Ready(i).rep();
  const Status status = plan->Wait(group.Hang());
  other.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
}

TEST(BucketPlanTest, AfterCloseGradientsAreRefusedAndTheWaitSaysSo) {
  RankGroup group(1);
  const Gradients gradients(2);
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 1).value();
  ASSERT_TRUE(group[0].Close(group.Hang()).ok());
  EXPECT_EQ(plan->Ready(0).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(plan->Wait(group.Hang()).code(), StatusCode::kFailedPrecondition);
}

// What has been launched uses the gradients until the step of all has ended.
TEST(BucketPlanTest, ABucketThatCannotBeLaunchedEndsTheStepOfAll) {
  RankGroup group(2);
  const Gradients gradients(2);
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 1).value();
  ASSERT_TRUE(plan->Ready(0).ok());
  while (group[0].sequence() < 1) std::this_thread::yield();
  Status refused;
  {
    const CallbackScope scope(CallbackClass::kDataset);
    refused = plan->Ready(1);
  }
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(group[1].epoch_status().code(), refused.code()) << group[1].epoch_status().ToString();
  EXPECT_EQ(plan->Wait(group.Hang()).ToString(), refused.ToString());
  EXPECT_EQ(plan->Wait(group.Hang()).ToString(), refused.ToString());
  const Ref<Tensor> theirs = Floats(1);
  EXPECT_FALSE(
      group[1].AllReduce(*theirs, ReduceOp::kSum, group.Hang(), theirs.get()).ok());
}

// Is closed before what was registered earlier, and holds the shutdown up.
class HoldsShutdown final : public Closable {
 public:
  explicit HoldsShutdown(Ref<Environment> environment)
      : Closable(std::move(environment), "hold") {}
  void LetGo() { may_go_.count_down(); }

 private:
  Status OnClose(const CallOptions&) override {
    may_go_.wait();
    return OkStatus();
  }
  std::latch may_go_{1};
};

TEST(BucketPlanTest, WaitReturnsWhenTheCallsHaveEndedAlsoDuringAShutdown) {
  RankGroup group(2);
  const Gradients gradients(1);
  const Ref<BucketPlan> plan = Plan(group[0], gradients, 1).value();
  ASSERT_TRUE(plan->Ready(0).ok());
  const Ref<HoldsShutdown> hold =
      MakeRef<HoldsShutdown>(Ref<Environment>::Retain(&group.environment()));
  ASSERT_TRUE(hold->Register().ok());
  std::thread shutdown([&] { EXPECT_TRUE(group.environment().Shutdown(CallOptions()).ok()); });
  while (!group.environment().is_shut_down()) std::this_thread::yield();
  EXPECT_FALSE(plan->Wait(group.Hang()).ok());
  // The call has ended, and with it the epoch: nobody reads the gradient any more.
  EXPECT_FALSE(group[1].epoch_status().ok());
  hold->LetGo();
  shutdown.join();
}

TEST(BucketPlanTest, ADroppedPlanLeavesItsCallsAlone) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator)
                                                     -> Status {
    const Gradients gradients(3);
    {
      TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan, Plan(communicator, gradients, 1));
      for (size_t i = 0; i < 3; ++i) {
        gradients.Fill(i, rank, 0);
        TUTTI_RETURN_IF_ERROR(plan->Ready(i));
      }
    }
    TUTTI_RETURN_IF_ERROR(communicator.Barrier(group.Hang()));
    EXPECT_EQ(gradients.CountWrong(2, 0), 0);
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

class WarningLines final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.emplace_back(record.message);
    come_.notify_all();
  }
  std::string First() {
    std::unique_lock<std::mutex> lock(mutex_);
    come_.wait(lock, [this] { return !lines_.empty(); });
    return lines_.front();
  }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable come_;
  std::vector<std::string> lines_;
};

TEST(BucketPlan, AWaitForATensorThatNobodyReportsNamesIt) {
  const Ref<WarningLines> lines = MakeRef<WarningLines>();
  RankGroup group(1);
  Communicator& rank = group[0];
  ASSERT_TRUE(group.environment().log().SetSink(lines).ok());
  const Gradients gradients(3);
  const Ref<BucketPlan> plan =
      BucketPlan::Create(Ref<Communicator>::Retain(&rank), gradients.pointers(), ReduceOp::kSum,
                         1, {"layer2.weight", "layer2.bias", "layer1.weight"})
          .value();
  EXPECT_EQ(plan->ToString(), "bucket plan of 3 tensors (SUM) in 3 buckets, 0 steps");
  plan->SetWaitWarning(kMillisecondNs);
  ASSERT_TRUE(plan->Ready(0).ok());
  ASSERT_TRUE(plan->Ready(2).ok());
  std::thread late([&] {
    EXPECT_THAT(lines->First(),
                testing::AllOf(HasSubstr("bucket plan: step 1 has waited for"),
                               HasSubstr("tensors that are not ready: 1 (layer2.bias);")));
    EXPECT_TRUE(plan->Ready(1).ok());
  });
  const Status waited = plan->Wait(CallOptions());
  late.join();
  EXPECT_TRUE(waited.ok()) << waited.ToString();
  EXPECT_EQ(plan->num_steps(), 1);
  ASSERT_TRUE(plan->Ready(1).ok());
  EXPECT_THAT(Message(plan->Ready(1)), HasSubstr("tensor 1 (layer2.bias) is ready for the second"));
  EXPECT_THAT(Message(BucketPlan::Create(Ref<Communicator>::Retain(&rank), gradients.pointers(),
                                         ReduceOp::kSum, 1, {"one"})
                          .status()),
              HasSubstr("1 names for 3 tensors"));
  ASSERT_TRUE(group.environment().log().SetSink(nullptr).ok());
}

}  // namespace
}  // namespace tutti
