#include "capi/tool/failure_report.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tutti::tool {
namespace {

using std::chrono::milliseconds;

WorkerStory Exited(int worker, int code) {
  return {worker, 4710 + worker, milliseconds(12'340), {false, code, false}, false, false, ""};
}

WorkerStory Killed(int worker, int signal) {
  return {worker, 4710 + worker, milliseconds(12'340), {true, signal, false}, false, false, ""};
}

TEST(FailureReport, NamesTheFirstToDieAndTheOthersByFate) {
  EXPECT_EQ(DescribeFailure({Killed(1, SIGKILL), Exited(2, 1), Exited(0, 1), Exited(3, 0)}),
            "worker 1 (pid 4711) was killed by SIGKILL (9) after 12.3 s; workers 0 and 2 then "
            "exited with 1; worker 3 then exited with 0");
}

TEST(FailureReport, AWorkerThatWasDoneBeforeIsNoFailure) {
  const std::vector<WorkerStory> stories = {Exited(0, 0), Exited(4, 0), Exited(1, 3)};
  EXPECT_EQ(FirstFailure(stories), &stories[2]);
  EXPECT_EQ(DescribeFailure(stories),
            "worker 1 (pid 4711) exited with 3 after 12.3 s; workers 0 and 4 had exited with 0 "
            "before");
}

TEST(FailureReport, ThereIsNoneWhenAllSucceeded) {
  EXPECT_EQ(FirstFailure({Exited(0, 0), Exited(1, 0)}), nullptr);
}

TEST(FailureReport, TellsWhatTheCommandDidFromWhatHappened) {
  WorkerStory ended = Killed(1, SIGTERM), killed = Killed(2, SIGKILL), crashed = Killed(3, SIGSEGV);
  ended.asked_to_end = true;
  killed.asked_to_end = killed.killed = true;
  crashed.asked_to_end = true;
  crashed.end.dumped_core = true;
  EXPECT_EQ(DescribeFailure({Exited(0, 9), ended, crashed, killed}),
            "worker 0 (pid 4710) exited with 9 after 12.3 s; worker 1 was ended by SIGTERM; worker "
            "3 was killed by SIGSEGV (11) and dumped core; worker 2 did not end when asked to and "
            "was killed");
}

TEST(FailureReport, AWorkerThatLostAPeerIsNotToBlameThoughItDiedFirst) {
  WorkerStory lost = Exited(0, 1), cause = Exited(1, 3), also_lost = Exited(2, 1);
  lost.error = also_lost.error = "tutti.errors.UnavailableError: all_reduce #3 needs rank 1";
  cause.error = "ValueError: no rows";
  const std::vector<WorkerStory> stories = {lost, cause, also_lost};
  EXPECT_EQ(FirstFailure(stories), &stories[1]);
  EXPECT_EQ(DescribeFailure(stories),
            "worker 1 (pid 4711) exited with 3 after 12.3 s: ValueError: no rows; worker 0 had "
            "exited with 1 before, for want of a peer; worker 2 then exited with 1");
  // Nor is who is killed for it by the command; then the first one stands for all.
  cause.asked_to_end = true;
  const std::vector<WorkerStory> ended = {lost, cause};
  EXPECT_EQ(FirstFailure(ended), &ended[0]);
}

TEST(FailureReport, QuotesWhatAWorkerSaidUnlessASignalCameFromOutside) {
  WorkerStory killed = Killed(1, SIGKILL), aborted = Killed(0, SIGABRT);
  killed.error = aborted.error = "INTERNAL: a message";
  EXPECT_EQ(DescribeFailure({killed}),
            "worker 1 (pid 4711) was killed by SIGKILL (9) after 12.3 s");
  EXPECT_EQ(DescribeFailure({aborted}),
            "worker 0 (pid 4710) was killed by SIGABRT (6) after 12.3 s: INTERNAL: a message");
}

TEST(FailureReport, SaysThatTheFirstDumpedCore) {
  WorkerStory crashed = Killed(0, SIGABRT);
  crashed.end.dumped_core = true;
  EXPECT_EQ(DescribeFailure({crashed}),
            "worker 0 (pid 4710) was killed by SIGABRT (6) and dumped core after 12.3 s");
  EXPECT_EQ(crashed.end.exit_status(), 134);
}

TEST(FailureReport, ListsManyWorkersInTheirOrder) {
  EXPECT_EQ(DescribeFailure({Exited(2, 1), Exited(3, 1), Exited(0, 1), Exited(1, 1)}),
            "worker 2 (pid 4712) exited with 1 after 12.3 s; workers 0, 1 and 3 then exited with "
            "1");
}

}  // namespace
}  // namespace tutti::tool
