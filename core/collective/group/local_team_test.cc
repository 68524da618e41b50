#include "core/collective/group/local_team.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "core/base/error.h"
#include "core/base/real_environment.h"

namespace tutti {
namespace {

class LocalTeamTest : public testing::Test {
 protected:
  ~LocalTeamTest() override {
    teams_.clear();
    for (const Ref<Environment>& environment : environments_) {
      EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
    }
  }
  void Start(size_t workers) {
    for (size_t i = 0; i < workers; ++i) environments_.push_back(MakeRef<RealEnvironment>());
    teams_ = LocalTeam::Create(environments_, std::vector<int64_t>(workers, 2));
  }
  CallOptions Timeout(int64_t ns) {
    return CallOptions::WithTimeout(environments_[0]->clock(), ns);
  }
  CallOptions Hang() { return Timeout(60 * kSecondNs); }
  std::vector<Status> Run(const std::function<Status(WorkerTeam&)>& body) {
    std::vector<Status> statuses(teams_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < teams_.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(*teams_[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  std::vector<Ref<Environment>> environments_;
  std::vector<Ref<WorkerTeam>> teams_;
};

TEST_F(LocalTeamTest, EveryWorkerGetsWhatAllBrought) {
  Start(3);
  for (const Status& status : Run([&](WorkerTeam& team) {
         EXPECT_EQ(team.num_workers(), 3);
         EXPECT_EQ(team.replicas_on_this_machine(), 6);
         for (int round = 0; round < 50; ++round) {
           TUTTI_ASSIGN_OR_RETURN(
               std::vector<std::string> all,
               team.Exchange(Format("round {}", round),
                             Format("{} of {}", team.worker(), round), Hang()));
           for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], Format("{} of {}", i, round));
         }
         return OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_F(LocalTeamTest, ADeadlineIsToldToThoseWhoWaitAndToThoseWhoComeLater) {
  Start(3);
  const Status late = teams_[0]->Exchange("k", "", Timeout(1)).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.ToString();
  EXPECT_NE(late.message().find("waits for worker 1, worker 2"), std::string::npos)
      << late.ToString();
  for (size_t worker = 1; worker < 3; ++worker) {
    const Status told = teams_[worker]->Exchange("k", "", Hang()).status();
    EXPECT_EQ(told.code(), StatusCode::kCancelled) << told.ToString();
    EXPECT_NE(told.message().find("worker 0 gave up"), std::string::npos) << told.ToString();
  }
}

TEST_F(LocalTeamTest, AWorkerThatHasLeftIsNamed) {
  Start(2);
  std::thread leaver([&] { teams_[1].reset(); });
  const Status status = teams_[0]->Exchange("k", "", Hang()).status();
  leaver.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  ASSERT_NE(status.FindDetail("worker"), nullptr);
  EXPECT_EQ(std::get<int64_t>(status.FindDetail("worker")->value), 1);
}

TEST_F(LocalTeamTest, CommunicatorsReduceAndFailWithTheJob) {
  Start(2);
  const std::vector<Status> statuses = Run([&](WorkerTeam& team) -> Status {
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                           team.CreateCommunicator("group", 3, Hang()));
    EXPECT_EQ(communicator->rank(), team.worker());
    EXPECT_EQ(communicator->epoch(), 3);
    Status status = communicator->Barrier(Hang());
    if (status.ok() && team.worker() == 0) {
      static_cast<LocalTeam&>(team).Fail(Unavailable("worker 7 is gone"));
    }
    if (status.ok()) status = communicator->Barrier(Hang());
    EXPECT_TRUE(communicator->Close(Hang()).ok());
    return status;
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_NE(status.message().find("worker 7 is gone"), std::string::npos) << status.ToString();
  }
  EXPECT_EQ(teams_[1]->failure().code(), StatusCode::kUnavailable);
  EXPECT_EQ(teams_[1]->Exchange("later", "", Hang()).status().code(), StatusCode::kUnavailable);
}

TEST_F(LocalTeamTest, CommunicatorsSplitAndThePartsFailWithTheJob) {
  Start(3);
  const std::vector<Status> statuses = Run([&](WorkerTeam& team) -> Status {
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                           team.CreateCommunicator("group", 1, Hang()));
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> part,
                           communicator->Split(team.worker() / 2, 0, "part", Hang()));
    EXPECT_EQ(part->size(), team.worker() == 2 ? 1 : 2);
    Status status = part->Barrier(Hang());
    TUTTI_RETURN_IF_ERROR(communicator->Barrier(Hang()));
    if (status.ok() && team.worker() == 0) {
      static_cast<LocalTeam&>(team).Fail(Unavailable("worker 7 is gone"));
    }
    while (status.ok()) status = part->epoch_status();
    EXPECT_TRUE(part->Close(Hang()).ok());
    EXPECT_TRUE(communicator->Close(Hang()).ok());
    return status;
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_NE(status.message().find("worker 7 is gone"), std::string::npos) << status.ToString();
  }
}

}  // namespace
}  // namespace tutti
