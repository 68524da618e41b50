// What ranks within a process mean to a forked child, which has their memory and none of their
// threads: it takes no mutex that one of those may hold, and ends nothing of its parent's.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/local_team.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// Of a child that exits with what `body` gives.
template <typename Body>
void ExpectGoodChild(Body body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
}

TEST(LocalFork, AChildThatAbortsAndRevokesWhileARankSleepsEndsNothing) {
  RankGroup group(2);
  const auto sum = [&](size_t rank) {
    const Ref<Tensor> tensor = Tensor::Scalar<int64_t>(1);
    const Status status =
        group[rank].AllReduce(*tensor, ReduceOp::kSum, group.Hang(), tensor.get());
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(tensor->item<int64_t>(), 2);
  };
  std::thread first([&] { sum(0); });
  while (group[0].sequence() == 0) std::this_thread::yield();
  ExpectGoodChild([&] {
    for (int i = 0; i < 2; ++i) {
      group[1].Abort(Aborted("of the child alone"));
      group[0].Revoke(Aborted("of the child alone"));
    }
    return group[0].epoch_status().code() != StatusCode::kAborted;
  });
  EXPECT_TRUE(group[1].epoch_status().ok());
  sum(1);
  first.join();
}

TEST(LocalFork, AChildDoesNotLookAtAnEpochThatEndedBefore) {
  RankGroup group(2);
  group[0].Abort(Aborted("of the parent"));
  ExpectGoodChild(
      [&] { return group[1].epoch_status().code() == StatusCode::kFailedPrecondition; });
  EXPECT_EQ(group[1].epoch_status().code(), StatusCode::kAborted);
}

TEST(LocalFork, AChildThatFailsATeamFailsItForNobody) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  {
    const std::vector<Ref<WorkerTeam>> teams = LocalTeam::Create({environment}, {1});
    ExpectGoodChild([&] {
      static_cast<LocalTeam&>(*teams[0]).Fail(Aborted("of the child alone"));
      return teams[0]->failure().code() == StatusCode::kFailedPrecondition;
    });
    EXPECT_TRUE(teams[0]->failure().ok());
  }
  EXPECT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
}

}  // namespace
}  // namespace tutti
