// How calls over a shared segment fail: on all ranks, with the same words, whoever is at fault, and
// also when a rank is killed in the middle or has filled the segment with nonsense.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/thread.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/shm/shared_layout.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/testing/shared_rank_testing.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Ref<Tensor> Floats(int64_t elements, float value = 1.0f) {
  Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({elements})).value();
  for (float& element : tensor->mutable_span<float>()) element = value;
  return tensor;
}

Status Sum(Communicator& communicator, Tensor* tensor, const CallOptions& options) {
  return communicator.AllReduce(*tensor, ReduceOp::kSum, options, tensor);
}

// ---- Mismatches ----

// Every rank's first call differs; all fail alike, and so does the next one.
void ExpectMismatch(const std::string& message,
                    const std::function<Status(SharedRank& self, const CallOptions&)>& call) {
  for (const bool processes : {true, false}) {
    const std::vector<std::string> reports =
        RunSharedRanks(3, processes, false, [&](SharedRank& self) {
          const Status status = call(self, self.Hang());
          const Status again = self.communicator().Barrier(self.Hang());
          return status.ToString() + (again.ToString() == status.ToString() ? "" : ", then " +
                                                                                 again.ToString());
        });
    EXPECT_THAT(reports[0], AllOf(StartsWith("INVALID_ARGUMENT"), HasSubstr(message),
                                  HasSubstr("rank=1"), HasSubstr("peer=0"),
                                  HasSubstr("sequence=1"), HasSubstr("communicator=shared")));
    EXPECT_THAT(reports, Each(reports[0]));
  }
}

TEST(SharedMismatch, OfOperationsNamesBoth) {
  ExpectMismatch("rank 1: call #1 is barrier, rank 0 called all_reduce",
                 [](SharedRank& self, const CallOptions& options) {
                   if (self.rank() == 1) return self.communicator().Barrier(options);
                   return Sum(self.communicator(), Floats(4).get(), options);
                 });
}

TEST(SharedMismatch, OfShapesNamesBoth) {
  for (const int64_t elements : {4, 1'000'000}) {
    ExpectMismatch(Format("rank 1: all_reduce #1 got float32[{}], rank 0 sent float32[{}]",
                          elements + 1, elements),
                   [elements](SharedRank& self, const CallOptions& options) {
                     return Sum(self.communicator(),
                                Floats(elements + (self.rank() == 1 ? 1 : 0)).get(), options);
                   });
  }
}

TEST(SharedMismatch, OfAlgorithmsNamesBothShapes) {
  // One rank would fold alone, the others in slices.
  ExpectMismatch("rank 1: all_reduce #1 got float32[3], rank 0 sent float32[1000000]",
                 [](SharedRank& self, const CallOptions& options) {
                   return Sum(self.communicator(), Floats(self.rank() == 1 ? 3 : 1'000'000).get(),
                              options);
                 });
}

TEST(SharedMismatch, OfRootsAndAxesNamesBoth) {
  ExpectMismatch("rank 1: broadcast #1 has root 1, rank 0 has root 0",
                 [](SharedRank& self, const CallOptions& options) {
                   Ref<Tensor> tensor = Floats(400'000);
                   return self.communicator().Broadcast(self.rank() == 1 ? 1 : 0, options,
                                                        tensor.get());
                 });
  ExpectMismatch("rank 1: all_gather #1 got float32[2,9], rank 0 sent float32[1,5]",
                 [](SharedRank& self, const CallOptions& options) {
                   const int64_t columns = self.rank() == 1 ? 9 : 5;
                   Ref<Tensor> input =
                       Tensor::Create(DType::kFloat32, Shape({self.rank() + 1, columns})).value();
                   Ref<Tensor> output;
                   return self.communicator().AllGather(*input, 0, options, &output);
                 });
}

// A list so long that its header does not fit into the entry; rank 1 has another tensor at `odd`.
Status SumOfManyTensors(SharedRank& self, size_t count, size_t odd, const CallOptions& options) {
  std::vector<Ref<Tensor>> tensors;
  std::vector<const Tensor*> inputs;
  std::vector<Tensor*> outputs;
  for (size_t i = 0; i < count; ++i) {
    tensors.push_back(Floats(self.rank() == 1 && i == odd ? 2 : 1));
    inputs.push_back(tensors.back().get());
    outputs.push_back(tensors.back().get());
  }
  return self.communicator().AllReduce(inputs, ReduceOp::kSum, options, outputs);
}

TEST(SharedMismatch, InAListTooLongToBeShownIsFound) {
  ExpectMismatch("all_reduce #1 tensor 5: got float32[2], rank 0 sent float32[1]",
                 [](SharedRank& self, const CallOptions& options) {
                   return SumOfManyTensors(self, 5000, 5, options);
                 });
  ExpectMismatch("rank 1: all_reduce #1 got 5001 tensors, rank 0 sent 5000",
                 [](SharedRank& self, const CallOptions& options) {
                   return SumOfManyTensors(self, 5000 + (self.rank() == 1 ? 1 : 0), 9999, options);
                 });
  ExpectMismatch("rank 1: all_reduce #1: its 5000 tensors differ from those of rank 0 after the "
                 "first ",
                 [](SharedRank& self, const CallOptions& options) {
                   return SumOfManyTensors(self, 5000, 4999, options);
                 });
}

// ---- Ends of the epoch ----

TEST(SharedFailure, ADeadlineNamesWhoIsMissing) {
  const std::vector<std::string> reports = RunSharedRanks(3, true, false, [](SharedRank& self) {
    std::string report = self.communicator().Barrier(self.Hang()).ToString() + "; ";
    Ref<Tensor> tensor = Floats(100'000);
    if (self.rank() == 1) {
      // It comes when the others have given up.
      while (self.communicator().epoch_status().ok()) std::this_thread::yield();
      return report + Sum(self.communicator(), tensor.get(), self.Hang()).ToString();
    }
    // Rank 2 may come later than that; it is not the first one that is missing.
    const CallOptions options =
        self.rank() == 0 ? self.Timeout(20 * kMillisecondNs) : self.Hang();
    return report + Sum(self.communicator(), tensor.get(), options).ToString();
  });
  EXPECT_THAT(reports[0],
              AllOf(StartsWith("OK; DEADLINE_EXCEEDED: rank 0: all_reduce #2 waited "),
                    HasSubstr("for rank 1 (worker 1), which has not called; its last call was #1 "
                              "barrier"),
                    HasSubstr("peer=1")));
  EXPECT_THAT(reports, Each(reports[0]));
}

TEST(SharedFailure, ACancellationEndsTheEpochForAll) {
  for (const bool spin : {false, true}) {
    const std::vector<std::string> reports =
        RunSharedRanks(2, true, spin, [](SharedRank& self) -> std::string {
          if (self.rank() == 1) {
            while (self.communicator().epoch_status().ok()) std::this_thread::yield();
            return self.communicator().epoch_status().ToString();
          }
          Ref<Cancellation> cancellation = MakeRef<Cancellation>();
          std::thread canceller([&] {
            while (self.communicator().sequence() == 0) std::this_thread::yield();
            cancellation->Cancel(Cancelled("enough"));
          });
          CallOptions options = self.Hang();
          options.cancellation = cancellation.get();
          const Status status = self.communicator().Barrier(options);
          canceller.join();
          return status.ToString();
        });
    EXPECT_THAT(reports[0], AllOf(StartsWith("CANCELLED: rank 0: while it waited for rank 1"),
                                  HasSubstr("enough")));
    EXPECT_EQ(reports[1], reports[0]);
  }
}

TEST(SharedFailure, APolledCancellationIsAskedWhileTheRankSleeps) {
  const std::vector<std::string> reports =
      RunSharedRanks(2, true, false, [](SharedRank& self) -> std::string {
        if (self.rank() == 1) {
          while (self.communicator().epoch_status().ok()) std::this_thread::yield();
          return self.communicator().epoch_status().ToString();
        }
        int polls = 0;
        const auto poll = [](void* count) { return ++*static_cast<int*>(count) == 3; };
        Ref<Cancellation> cancellation =
            MakeRef<Cancellation>(poll, &polls, Ref<const RefCounted>());
        CallOptions options = self.Hang();
        options.cancellation = cancellation.get();
        return self.communicator().Barrier(options).ToString();
      });
  EXPECT_THAT(reports[0], StartsWith("CANCELLED: rank 0: while it waited for rank 1"));
  EXPECT_EQ(reports[1], reports[0]);
}

TEST(SharedFailure, AnAbortWakesEveryRankOfEveryProcess) {
  for (const bool processes : {true, false}) {
    for (const bool spin : {false, true}) {
      const std::vector<std::string> reports =
          RunSharedRanks(3, processes, spin, [](SharedRank& self) -> std::string {
            if (self.rank() != 1) return self.communicator().Barrier(self.Hang()).ToString();
            self.communicator().Abort(DataLoss("the disk is gone").With("file", "x"));
            return self.communicator().Barrier(self.Hang()).ToString();
          });
      EXPECT_THAT(reports[0], AllOf(StartsWith("DATA_LOSS: the disk is gone"),
                                    HasSubstr("file=x"), HasSubstr("communicator=shared")));
      EXPECT_THAT(reports, Each(reports[0]));
    }
  }
}

TEST(SharedFailure, ARankThatHasLeftFailsWhoNeedsIt) {
  const std::vector<std::string> reports =
      RunSharedRanks(3, true, false, [](SharedRank& self) -> std::string {
        Status status = self.communicator().Barrier(self.Hang());
        if (self.rank() == 2) return status.ToString();
        status = Sum(self.communicator(), Floats(1000).get(), self.Hang());
        return status.ToString();
      });
  EXPECT_EQ(reports[2], "OK");
  EXPECT_THAT(reports[0], AllOf(StartsWith("UNAVAILABLE: rank "),
                                HasSubstr("all_reduce #2 needs rank 2 (worker 2): it has left "
                                          "(closed)"),
                                HasSubstr("peer=2")));
  EXPECT_EQ(reports[1], reports[0]);
}

// ---- Death and standstill ----

// All ranks' process ids, in rank order.
std::vector<int64_t> ProcessIds(SharedRank& self) {
  Ref<Tensor> own = Tensor::Vector<int64_t>({static_cast<int64_t>(getpid())});
  Ref<Tensor> all;
  if (!self.communicator().AllGather(*own, 0, self.Hang(), &all).ok()) return {};
  const std::span<const int64_t> ids = all->span<int64_t>();
  return {ids.begin(), ids.end()};
}

// What the owner of a group does: ends the epoch when the process of rank 1 dies.
Thread WatchRank1(SharedRank& self, pid_t pid) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) std::abort();
  return self.environment()
      .StartThread("watch",
                   [&self, descriptor, pid] {
                     pollfd watched = {descriptor, POLLIN, 0};
                     while (poll(&watched, 1, -1) != 1) {
                     }
                     close(descriptor);
                     self.communicator().Abort(
                         Unavailable("rank 1 (worker 1, pid {}) is gone", pid).With("rank", 1));
                   })
      .value();
}

void KillInTheMiddle(int64_t bytes, bool spin, size_t after) {
  SharedRankProcesses ranks(3, spin, [&](SharedRank& self) -> std::string {
    const std::vector<int64_t> pids = ProcessIds(self);
    if (pids.size() != 3) return "no process ids";
    Thread watch;
    if (self.rank() != 1) watch = WatchRank1(self, static_cast<pid_t>(pids[1]));
    Ref<Tensor> tensor = Floats(bytes / 4);
    Ref<Tensor> sum = Floats(bytes / 4);
    Status status;
    while (status.ok()) {
      status = self.communicator().AllReduce(*tensor, ReduceOp::kSum, self.Hang(), sum.get());
      if (status.ok() && self.rank() == 1) SharedRankProcesses::Report(".");
    }
    if (watch.joinable() && !watch.Join(self.Hang()).ok()) return "the watch hangs";
    return status.ToString();
  });
  EXPECT_EQ(ranks.Read(1, after).size(), after);
  kill(ranks.pid(1), SIGKILL);
  const std::string error = ranks.Finish(0);
  EXPECT_THAT(error, AllOf(StartsWith("UNAVAILABLE: rank 1 (worker 1, pid"),
                           HasSubstr("is gone"), HasSubstr("rank=1")));
  EXPECT_EQ(ranks.Finish(2), error);
  EXPECT_THAT(ranks.Finish(1), HasSubstr("<killed by signal 9>"));
}

TEST(SharedFailure, AKilledRankEndsTheWaitingOfTheOthers) {
  KillInTheMiddle(8, false, 50);
  KillInTheMiddle(8, true, 50);
  for (size_t after = 1; after < 12; after += 3) KillInTheMiddle(1 << 20, false, after);
  for (size_t after = 1; after < 12; after += 3) KillInTheMiddle(3 << 20, true, after);
}

// The state of the main thread of a process: 'R', 'S', ...
char StateOf(pid_t pid) {
  std::ifstream file(Format("/proc/{}/task/{}/stat", pid, pid));
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

TEST(SharedFailure, AStoppedRankGoesOnWithTheRightResult) {
  int enough[2];  // closed by this process when it has seen enough
  ASSERT_EQ(pipe2(enough, O_CLOEXEC | O_NONBLOCK), 0);
  SharedRankProcesses ranks(2, true, [&](SharedRank& self) -> std::string {
    close(enough[1]);
    Ref<Tensor> input = Floats(300'000);
    Ref<Tensor> sum = Floats(300'000, 0.0f);
    for (int call = 0;; ++call) {
      const std::span<float> elements = input->mutable_span<float>();
      std::fill(elements.begin(), elements.end(), static_cast<float>(call * 10 + self.rank()));
      char byte = 0;
      const bool last = self.rank() == 1 && read(enough[0], &byte, 1) == 0;
      elements[0] = last ? -1.0f : 0.0f;
      const Status status =
          self.communicator().AllReduce(*input, ReduceOp::kSum, self.Hang(), sum.get());
      if (!status.ok()) return status.ToString();
      const std::span<const float> sums = sum->span<float>();
      for (float element : sums.subspan(1)) {
        if (element != static_cast<float>(call * 20 + 1)) return "a wrong sum";
      }
      if (sums[0] != 0.0f) return "";
      if (self.rank() == 1) SharedRankProcesses::Report(".");
    }
  });
  close(enough[0]);
  for (int stop = 0; stop < 10; ++stop) {
    EXPECT_EQ(ranks.Read(1, 5), ".....");
    kill(ranks.pid(1), SIGSTOP);
    int status = 0;
    ASSERT_EQ(waitpid(ranks.pid(1), &status, WUNTRACED), ranks.pid(1));
    ASSERT_TRUE(WIFSTOPPED(status));
    // Until the other one sleeps, because it waits.
    while (StateOf(ranks.pid(0)) != 'S') std::this_thread::yield();
    kill(ranks.pid(1), SIGCONT);
  }
  close(enough[1]);
  EXPECT_EQ(ranks.Finish(0), "");
  EXPECT_EQ(ranks.Finish(1).find_first_not_of('.'), std::string::npos);
}

// ---- A segment full of nonsense ----

// Rank 0 of two in this process; the test writes what rank 1 would.
class SharedNonsense : public testing::Test {
 protected:
  static constexpr int64_t kSize = 2;

  SharedNonsense()
      : environment_(MakeRef<RealEnvironment>()),
        segment_(SharedSegment::Create(SharedTransport::SegmentBytes(kSize)).value()),
        layout_(segment_->contents(), kSize),
        self_(std::make_unique<SharedRank>(environment_, segment_, 0, kSize, false)) {}
  ~SharedNonsense() override {
    self_.reset();
    EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
  }

  // Rank 1 "arrives" in call #1.
  template <typename Header = std::vector<int>>
  void Arrive(uint64_t call_word, const Header& header) {
    SharedEntry& entry = layout_.entry(1, 1);
    entry.call.store(call_word);
    entry.header_bytes = static_cast<uint32_t>(header.size());
    for (size_t i = 0; i < header.size(); ++i) entry.room[i] = static_cast<std::byte>(header[i]);
    entry.progress.store(1);
  }
  static uint64_t Word(uint64_t sequence, CollectiveOp op) {
    return sequence << 5 | static_cast<uint64_t>(op);
  }
  Status AllGather(const Tensor& input) {
    Ref<Tensor> output;
    return self_->communicator().AllGather(input, 0, self_->Hang(), &output);
  }

  const Ref<RealEnvironment> environment_;
  const Ref<SharedSegment> segment_;
  const SharedLayout layout_;
  std::unique_ptr<SharedRank> self_;
};

// No nonsense yet: a rank that comes and then stands still.
TEST_F(SharedNonsense, ADeadlineInTheMiddleOfACallNamesWhoStandsStill) {
  CallHeader header;
  header.op = CollectiveOp::kAllReduce;
  header.num_tensors = 1;
  header.first = {DType::kFloat32, {1'000'000}};
  std::vector<std::byte> bytes;
  EncodeSharedHeader(header, &bytes);
  Arrive(Word(1, CollectiveOp::kAllReduce), bytes);
  const Status status =
      Sum(self_->communicator(), Floats(1'000'000).get(), self_->Timeout(20 * kMillisecondNs));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("for rank 1 (worker 1), which is in the call but has not done its part"));
}

TEST_F(SharedNonsense, InACallsNumberIsAnError) {
  Arrive(Word(7, CollectiveOp::kBarrier), {1, 0, 0, 0});
  const Status status = self_->communicator().Barrier(self_->Hang());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: call #1: it is in call #7"));
}

TEST_F(SharedNonsense, InAHeaderIsAnError) {
  Arrive(Word(1, CollectiveOp::kAllReduce), {1, 0, 0, 1, 99, 99, 99});
  const Status status = Sum(self_->communicator(), Floats(4).get(), self_->Hang());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no header of all_reduce"));
}

TEST_F(SharedNonsense, InAHeadersLengthIsAnError) {
  Arrive(Word(1, CollectiveOp::kAllReduce), {1, 0, 0, 1, 12, 1, 4});
  layout_.entry(1, 1).header_bytes = 0xffffffff;
  const Status status = Sum(self_->communicator(), Floats(4).get(), self_->Hang());
  EXPECT_FALSE(status.ok());
}

class SharedNonsenseParts : public SharedNonsense,
                            public testing::WithParamInterface<std::array<int64_t, 2>> {};

INSTANTIATE_TEST_SUITE_P(All, SharedNonsenseParts,
                         testing::Values(std::array<int64_t, 2>{-1, 4},
                                         std::array<int64_t, 2>{1, 5},
                                         std::array<int64_t, 2>{int64_t{1} << 62,
                                                                int64_t{1} << 62},
                                         std::array<int64_t, 2>{4, -16}));

TEST_P(SharedNonsenseParts, AreAnError) {
  const std::array<int64_t, 2> part = GetParam();
  Arrive(Word(1, CollectiveOp::kAllGather),
         {1, 0, 1, 1, static_cast<int>(DType::kFloat32), 1, 0});
  std::memcpy(reinterpret_cast<std::byte*>(&layout_.entry(1, 1)) + 32, part.data(), sizeof(part));
  const Status status = AllGather(*Floats(4));
  EXPECT_EQ(status.code(), StatusCode::kInternal) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (worker 1)"));
}

TEST_F(SharedNonsense, InByteStringsIsAnError) {
  const std::vector<int> header = {1, 0, 1, 1, static_cast<int>(DType::kBytes), 1, 0};
  Arrive(Word(1, CollectiveOp::kAllGather), header);
  // One string of 100 bytes, in a part of 12.
  const int64_t part[] = {1, 12, 100};
  std::memcpy(reinterpret_cast<std::byte*>(&layout_.entry(1, 1)) + 32, part, sizeof(part));
  const Status status = AllGather(*Tensor::FromStrings(Shape({0}), {}).value());
  EXPECT_EQ(status.code(), StatusCode::kInternal) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("holds no byte strings"));
}

TEST_F(SharedNonsense, InTheFailureIsAnError) {
  layout_.slot(1).failure.bytes = 0xffffffff;
  layout_.control().failed_rank_plus_one.store(2);
  EXPECT_EQ(self_->communicator().Barrier(self_->Hang()).code(), StatusCode::kDataLoss);
}

TEST_F(SharedNonsense, InTheFailedRankIsAnError) {
  layout_.control().failed_rank_plus_one.store(777);
  EXPECT_EQ(self_->communicator().Barrier(self_->Hang()).code(), StatusCode::kInternal);
}

// A rank that died while it wrote its error has not announced it: the next error counts.
TEST_F(SharedNonsense, OfARankThatDiedWhileItFailedIsNeverRead) {
  std::memset(layout_.slot(1).failure.text, 'x', sizeof(layout_.slot(1).failure.text));
  layout_.slot(1).failure.bytes = 5;
  EXPECT_TRUE(self_->communicator().epoch_status().ok());
  self_->communicator().Abort(Unavailable("rank 1 is gone"));
  EXPECT_EQ(self_->communicator().Barrier(self_->Hang()).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tutti
