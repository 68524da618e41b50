// Calls between ranks whose tensors lie in their windows. That results are right is for the cases
// of every transport and for SharedCollectives; here is what is special: nothing goes through the
// segment, whatever the mixture; views, offsets and lives of tensors; nonsense from a peer.

#include "core/collective/shm/shared_direct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/seeded_runs_testing.h"
#include "core/collective/communicator/bucket_plan.h"
#include "core/collective/shm/shared_layout.h"
#include "core/collective/testing/collective_reference_testing.h"
#include "core/collective/testing/shared_rank_testing.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr CollectiveOp kDirectOps[] = {
    CollectiveOp::kAllReduce, CollectiveOp::kReduce,  CollectiveOp::kReduceScatter,
    CollectiveOp::kAllGather, CollectiveOp::kScatter, CollectiveOp::kAllToAll,
    CollectiveOp::kBroadcast};

// Ranks that are threads, and the segment that they share.
class DirectRanks {
 public:
  explicit DirectRanks(int64_t size, std::vector<SharedWindows> windows = {})
      : environment_(MakeRef<RealEnvironment>()),
        segment_(SharedSegment::Create(SharedTransport::SegmentBytes(size)).value()),
        layout_(segment_->contents(), size) {
    if (windows.empty()) windows = MakeTestWindows(size);
    for (int64_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(std::make_unique<SharedRank>(environment_, segment_, rank, size, false,
                                                    windows[static_cast<size_t>(rank)]));
    }
  }
  ~DirectRanks() { Close(); }

  void Close() {
    ranks_.clear();
    if (!environment_->Shutdown(CallOptions()).ok()) std::abort();
  }
  std::vector<Status> Run(const std::function<Status(SharedRank& self)>& body) {
    std::vector<Status> statuses(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(*ranks_[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  void ExpectOk(const std::function<Status(SharedRank& self)>& body) {
    for (const Status& status : Run(body)) EXPECT_TRUE(status.ok()) << status.ToString();
  }
  // Whether payloads have come through the segment, behind `places`, which say where long lists of
  // tensors lie.
  bool SegmentIsTouched(size_t places = 0) const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (int parity : {0, 1}) {
        const std::byte* const block = layout_.block(static_cast<int64_t>(rank), parity);
        for (size_t i = places; i < SharedLayout::kBlockBytes; ++i) {
          if (block[i] != std::byte{0}) return true;
        }
      }
    }
    return false;
  }
  SharedRank& operator[](size_t rank) { return *ranks_[rank]; }
  const SharedLayout& layout() const { return layout_; }

 private:
  const Ref<RealEnvironment> environment_;
  const Ref<SharedSegment> segment_;
  const SharedLayout layout_;
  std::vector<std::unique_ptr<SharedRank>> ranks_;
};

Ref<Tensor> Made(SharedRank& self, int64_t elements, float value) {
  Ref<Tensor> tensor =
      self.communicator().CreateTensor(DType::kFloat32, Shape({elements})).value();
  for (float& element : tensor->mutable_span<float>()) element = value;
  return tensor;
}

Status ExpectAll(const Tensor& tensor, float value) {
  for (float element : tensor.span<float>()) {
    if (element != value) return DataLoss("found {}, expected {}", element, value);
  }
  return OkStatus();
}

ReferenceCall LargeCall(CollectiveOp op) {
  ReferenceCall call;
  call.op = op;
  call.root = 1;
  call.rows = 50'001;
  return call;
}

TEST(SharedDirect, NothingGoesThroughTheSegment) {
  for (const int64_t size : {2, 3}) {
    for (const CollectiveOp op : kDirectOps) {
      for (const bool in_place : {false, true}) {
        for (const bool shifted : {false, true}) {
          DirectRanks ranks(size);
          // Two ranks exchange by the table what more of them read from the root.
          if (op == CollectiveOp::kBroadcast && size == 2) continue;
          ReferenceCall call = LargeCall(op);
          call.in_place = in_place;
          call.shifted = shifted;
          const ReferenceCase reference(call, size);
          ranks.ExpectOk([&](SharedRank& self) {
            return reference.Run(self.rank(), self.communicator(), self.Hang());
          });
          EXPECT_FALSE(ranks.SegmentIsTouched()) << call.ToString() << " of " << size;
        }
      }
    }
  }
}

TEST(SharedDirect, AMixtureGoesThroughTheSegmentAndThenDirectlyAgain) {
  for (const CollectiveOp op : kDirectOps) {
    DirectRanks ranks(3);
    for (const ReferenceMemory memory :
         {ReferenceMemory::kMixed, ReferenceMemory::kOfCommunicator, ReferenceMemory::kElsewhere,
          ReferenceMemory::kMixed, ReferenceMemory::kMixed, ReferenceMemory::kOfCommunicator}) {
      ReferenceCall call = LargeCall(op);
      call.memory = memory;
      const ReferenceCase reference(call, 3);
      ranks.ExpectOk([&](SharedRank& self) {
        return reference.Run(self.rank(), self.communicator(), self.Hang());
      });
    }
    EXPECT_TRUE(ranks.SegmentIsTouched());
  }
}

TEST(SharedDirect, OneRankThatCannotReadWindowsMakesAllGoThroughTheSegment) {
  std::vector<SharedWindows> windows = MakeTestWindows(2);
  windows[1] = SharedWindows();
  DirectRanks ranks(2, windows);
  for (const CollectiveOp op : kDirectOps) {
    const ReferenceCase reference(LargeCall(op), 2);
    ranks.ExpectOk([&](SharedRank& self) {
      return reference.Run(self.rank(), self.communicator(), self.Hang());
    });
  }
  EXPECT_TRUE(ranks.SegmentIsTouched());
}

// In place on some ranks, into other tensors on the others; `elsewhere`: those lie in no window.
void ExpectSumsWhereSomeReplaceTheirInputs(DirectRanks& ranks, int64_t elements, bool elsewhere) {
  ranks.ExpectOk([&](SharedRank& self) {
    const auto own = static_cast<float>(self.rank() + 1);
    const Ref<Tensor> input = Made(self, elements, own);
    Ref<Tensor> output = input;
    if (self.rank() == 1) {
      output = elsewhere ? Tensor::Create(DType::kFloat32, Shape({elements})).value()
                         : Made(self, elements, -1);
    }
    TUTTI_RETURN_IF_ERROR(self.communicator().AllReduce(*input, ReduceOp::kSum, self.Hang(),
                                                        output.get()));
    TUTTI_RETURN_IF_ERROR(ExpectAll(*output, 6));
    return output == input ? OkStatus() : ExpectAll(*input, own);
  });
}

TEST(SharedDirect, SomeRanksMayReplaceTheirInputs) {
  DirectRanks ranks(3);
  for (const int64_t elements : {100'000, 2'500'001, 70'003}) {
    ExpectSumsWhereSomeReplaceTheirInputs(ranks, elements, false);
  }
  EXPECT_FALSE(ranks.SegmentIsTouched());
  ExpectSumsWhereSomeReplaceTheirInputs(ranks, 100'000, true);
  EXPECT_TRUE(ranks.SegmentIsTouched());
  ExpectSumsWhereSomeReplaceTheirInputs(ranks, 100'000, false);
}

TEST(SharedDirect, OutputsMayLieElsewhere) {
  DirectRanks ranks(3);
  for (const int64_t elements : {50'000, 2'500'001, 90'000}) {
    ranks.ExpectOk([&](SharedRank& self) {
      const Ref<Tensor> input = Made(self, elements, static_cast<float>(self.rank() + 1));
      const Ref<Tensor> output = Tensor::Create(DType::kFloat32, Shape({elements})).value();
      TUTTI_RETURN_IF_ERROR(self.communicator().AllReduce(*input, ReduceOp::kSum, self.Hang(),
                                                          output.get()));
      TUTTI_RETURN_IF_ERROR(ExpectAll(*output, 6));
      return ExpectAll(*input, static_cast<float>(self.rank() + 1));
    });
  }
  EXPECT_FALSE(ranks.SegmentIsTouched());
}

// Of two ranks, in one call. Tensor i is i + rank before.
Status SumMany(SharedRank& self, const std::vector<Ref<Tensor>>& tensors,
               const std::vector<Ref<Tensor>>& sums) {
  std::vector<const Tensor*> inputs;
  std::vector<Tensor*> outputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (float& element : tensors[i]->mutable_span<float>()) {
      element = static_cast<float>(static_cast<int64_t>(i) + self.rank());
    }
    inputs.push_back(tensors[i].get());
    outputs.push_back(sums[i].get());
  }
  TUTTI_RETURN_IF_ERROR(
      self.communicator().AllReduce(inputs, ReduceOp::kSum, self.Hang(), outputs));
  for (size_t i = 0; i < sums.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(ExpectAll(*sums[i], static_cast<float>(2 * i + 1)));
  }
  return OkStatus();
}

TEST(SharedDirect, ManyTensorsInOneCallMayLieAnywhereInTheWindows) {
  DirectRanks ranks(2);
  ranks.ExpectOk([](SharedRank& self) {
    std::vector<Ref<Tensor>> tensors;
    std::vector<Ref<Tensor>> sums;
    for (int64_t i = 0; i < 1000; ++i) {
      // Other holes on every rank.
      if (i % 3 == self.rank()) Made(self, 40 * i + 1, -1);
      const Ref<Tensor> hole = Made(self, (7 * i + 100 * self.rank()) % 500 + 1, -1);
      tensors.push_back(Made(self, i % 200, static_cast<float>(i + self.rank())));
      sums.push_back(Made(self, i % 200, -1));
    }
    for (int call = 0; call < 4; ++call) {
      TUTTI_RETURN_IF_ERROR(SumMany(self, tensors, call < 2 ? sums : tensors));
    }
    return OkStatus();
  });
  EXPECT_FALSE(ranks.SegmentIsTouched(1000 * 2 * sizeof(uint64_t)));
}

// Rank 0 says where its tensors lie, in more words than go with its entry, while rank 1 copies its
// own into the segment.
TEST(SharedDirect, ManyTensorsOfAMixtureAreNotWrittenOver) {
  DirectRanks ranks(2);
  ranks.ExpectOk([](SharedRank& self) {
    std::vector<Ref<Tensor>> tensors;
    std::vector<Ref<Tensor>> sums;
    for (int64_t i = 0; i < 600; ++i) {
      tensors.push_back(self.rank() == 0
                            ? Made(self, 12, 0)
                            : Tensor::Create(DType::kFloat32, Shape({12})).value());
      sums.push_back(Made(self, 12, 0));
    }
    for (int call = 0; call < 8; ++call) {
      TUTTI_RETURN_IF_ERROR(SumMany(self, tensors, sums));
    }
    return OkStatus();
  });
  EXPECT_TRUE(ranks.SegmentIsTouched());
}

// Of these elements the first three lie without a gap, and the others behind gaps, or none at all.
TEST(SharedDirect, AllBucketsOfAPlanWithTensorsOfItsOwnAreReducedWhereTheyLie) {
  DirectRanks ranks(2);
  ranks.ExpectOk([](SharedRank& self) {
    const std::vector<int64_t> elements = {100'000, 4096, 200'000, 33, 0, 150'000, 17, 80'000};
    std::vector<Ref<Tensor>> like;
    std::vector<const Tensor*> pointers;
    for (const int64_t count : elements) {
      like.push_back(Tensor::Create(DType::kFloat32, Shape({count})).value());
      pointers.push_back(like.back().get());
    }
    const Ref<Communicator> communicator = Ref<Communicator>::Retain(&self.communicator());
    TUTTI_ASSIGN_OR_RETURN(const Ref<BucketPlan> plan,
                           BucketPlan::CreateLike(communicator, pointers, ReduceOp::kSum,
                                                  int64_t{1} << 20));
    EXPECT_EQ(plan->buckets().size(), 3u);
    for (int step = 1; step <= 2; ++step) {
      for (size_t i = 0; i < elements.size(); ++i) {
        TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> gradient, plan->GetTensor(i));
        for (float& element : gradient->mutable_span<float>()) {
          element = static_cast<float>(step * (static_cast<int64_t>(i) + 10 * self.rank()));
        }
        TUTTI_RETURN_IF_ERROR(plan->Ready(i));
      }
      TUTTI_RETURN_IF_ERROR(plan->Wait(self.Hang()));
      for (size_t i = 0; i < elements.size(); ++i) {
        TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> gradient, plan->GetTensor(i));
        TUTTI_RETURN_IF_ERROR(
            ExpectAll(*gradient, static_cast<float>(step) * (2 * static_cast<float>(i) + 10)));
      }
    }
    return OkStatus();
  });
  EXPECT_FALSE(ranks.SegmentIsTouched());
}

TEST(SharedDirect, ATensorOutlivesItsCommunicator) {
  std::vector<Ref<Tensor>> tensors(2);
  {
    DirectRanks ranks(2);
    ranks.ExpectOk([&](SharedRank& self) {
      Ref<Tensor>& tensor = tensors[static_cast<size_t>(self.rank())];
      tensor = Made(self, 100'000, 1);
      return self.communicator().AllReduce(*tensor, ReduceOp::kSum, self.Hang(), tensor.get());
    });
  }
  for (const Ref<Tensor>& tensor : tensors) {
    EXPECT_TRUE(ExpectAll(*tensor, 2).ok());
    for (float& element : tensor->mutable_span<float>()) element = 5;
    EXPECT_TRUE(ExpectAll(*tensor, 5).ok());
  }
}

TEST(SharedDirect, TensorsOfOneGroupServeAnotherOneWithTheSameWindows) {
  const std::vector<SharedWindows> windows = MakeTestWindows(3);
  DirectRanks all(3, windows);
  // Ranks 2 and 0 of it, in this order.
  SharedWindows second = windows[2];
  SharedWindows first = windows[0];
  second.of_ranks = first.of_ranks = {windows[0].of_ranks[2], windows[0].of_ranks[0]};
  DirectRanks part(2, {second, first});
  std::vector<Ref<Tensor>> tensors(3);
  all.ExpectOk([&](SharedRank& self) {
    tensors[static_cast<size_t>(self.rank())] = Made(self, 100'000, 1);
    return OkStatus();
  });
  part.ExpectOk([&](SharedRank& self) {
    const Tensor& tensor = *tensors[self.rank() == 0 ? 2 : 0];
    const Ref<Tensor> sum = Tensor::Create(DType::kFloat32, Shape({100'000})).value();
    TUTTI_RETURN_IF_ERROR(
        self.communicator().AllReduce(tensor, ReduceOp::kSum, self.Hang(), sum.get()));
    return ExpectAll(*sum, 2);
  });
  EXPECT_FALSE(part.SegmentIsTouched());
}

TEST(SharedDirect, MismatchesAreTheSameAsElsewhere) {
  DirectRanks ranks(2);
  const std::vector<Status> statuses = ranks.Run([](SharedRank& self) {
    const Ref<Tensor> tensor = Made(self, 100'000 + self.rank(), 1);
    const Ref<Tensor> sum = Made(self, 100'000 + self.rank(), 0);
    return self.communicator().AllReduce(*tensor, ReduceOp::kSum, self.Hang(), sum.get());
  });
  EXPECT_THAT(statuses[0].ToString(),
              HasSubstr("rank 1: all_reduce #1 got float32[100001], rank 0 sent float32[100000]"));
  EXPECT_EQ(statuses[1].ToString(), statuses[0].ToString());
}

TEST(SharedDirect, ADeadlineInAMixtureNamesWhoIsMissing) {
  DirectRanks ranks(3);
  const std::vector<Status> statuses = ranks.Run([](SharedRank& self) -> Status {
    if (self.rank() == 2) return OkStatus();
    const Ref<Tensor> tensor =
        self.rank() == 0 ? Made(self, 100'000, 1)
                         : Tensor::Create(DType::kFloat32, Shape({100'000})).value();
    const Ref<Tensor> sum = Tensor::Create(DType::kFloat32, Shape({100'000})).value();
    return self.communicator().AllReduce(*tensor, ReduceOp::kSum,
                                         self.Timeout(20 * kMillisecondNs), sum.get());
  });
  EXPECT_THAT(statuses[0].ToString(), AllOf(StartsWith("DEADLINE_EXCEEDED"), HasSubstr("rank 2")));
  EXPECT_EQ(statuses[1].ToString(), statuses[0].ToString());
}

// A rank says what cannot be of its tensor: of what it reduces, or replaces it with.
void ExpectNonsenseIsFound(uint64_t offset, bool of_output = false) {
  const std::vector<SharedWindows> windows = MakeTestWindows(2);
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<SharedSegment> segment =
      SharedSegment::Create(SharedTransport::SegmentBytes(2)).value();
  const SharedLayout layout(segment->contents(), 2);
  layout.slot(1).reads_windows.store(1);
  Status status;
  {
    SharedRank self(environment, segment, 0, 2, false, windows[0]);
    std::thread caller([&] {
      const Ref<Tensor> tensor = Made(self, 100'000, 1);
      const Ref<Tensor> sum = of_output ? tensor : Made(self, 100'000, 0);
      status = self.communicator().AllReduce(*tensor, ReduceOp::kSum, self.Hang(), sum.get());
    });
    SharedEntry& mine = layout.entry(0, 1);
    SharedEntry& theirs = layout.entry(1, 1);
    while (mine.progress.load() == 0) std::this_thread::yield();
    theirs.call.store(mine.call.load());
    theirs.header_bytes = mine.header_bytes;
    theirs.window = mine.window;
    std::memcpy(theirs.room, mine.room, sizeof(mine.room));
    // Its first place, of the input and the output, stands behind the header.
    const size_t behind = (24 + mine.header_bytes + 15) / 16 * 16 - 24 + (of_output ? 8 : 0);
    std::memcpy(theirs.room + behind, &offset, sizeof(offset));
    theirs.progress.store(mine.progress.load());
    caller.join();
  }
  EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
  EXPECT_THAT(status.ToString(),
              AllOf(StartsWith("INTERNAL"), HasSubstr("rank 1"), HasSubstr("all_reduce #1"),
                    HasSubstr("its tensor cannot lie in its window where it says")));
}

TEST(SharedDirect, NonsenseFromAPeerEndsTheEpoch) {
  ExpectNonsenseIsFound(kTestWindowBytes - 4);
  ExpectNonsenseIsFound(UINT64_MAX);
  ExpectNonsenseIsFound(3);
  ExpectNonsenseIsFound(kTestWindowBytes - 4, true);
  ExpectNonsenseIsFound(UINT64_MAX, true);
}

// One is killed at any moment of direct calls; the other's tensors stay as its own calls left them.
TEST(SharedDirect, AKilledRankEndsTheWaitingOfTheOthersAndItsMemoryStaysReadable) {
  for (size_t after = 1; after < 12; after += 2) {
    SharedRankProcesses ranks(2, after % 4 == 1, [](SharedRank& self) -> std::string {
      const Ref<Tensor> own = Tensor::Vector<int64_t>({static_cast<int64_t>(getpid())});
      Ref<Tensor> pids;
      Status status = self.communicator().AllGather(*own, 0, self.Hang(), &pids);
      if (!status.ok()) return status.ToString();
      const Ref<Tensor> tensor = Made(self, 400'000, 1);
      const Ref<Tensor> output = Made(self, 400'000, 0);
      std::thread watch;
      if (self.rank() == 0) {
        const auto pid = static_cast<pid_t>(pids->span<int64_t>()[1]);
        const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
        if (descriptor < 0) std::abort();
        watch = std::thread([&self, descriptor] {
          pollfd watched = {descriptor, POLLIN, 0};
          while (poll(&watched, 1, -1) != 1) {
          }
          close(descriptor);
          self.communicator().Abort(Unavailable("rank 1 is gone"));
        });
      }
      for (int call = 0; status.ok(); ++call) {
        Tensor* const result = call % 2 == 0 ? tensor.get() : output.get();
        status = self.communicator().AllReduce(*tensor, ReduceOp::kMax, self.Hang(), result);
        if (status.ok() && self.rank() == 1) SharedRankProcesses::Report(".");
      }
      if (watch.joinable()) watch.join();
      const Status left = ExpectAll(*tensor, 1);
      return status.ToString() + (left.ok() ? "" : left.ToString());
    });
    EXPECT_EQ(ranks.Read(1, after).size(), after);
    kill(ranks.pid(1), SIGKILL);
    EXPECT_THAT(ranks.Finish(1), HasSubstr("<killed by signal 9>"));
    EXPECT_THAT(ranks.Finish(0), AllOf(StartsWith("UNAVAILABLE: rank 1 is gone"),
                                       Not(HasSubstr("found"))));
  }
}

// Rank 0 of three in this process; the test writes what the others would, while rank 0 waits for
// them: they have done all that the call needs of them, and then one has given it up. What rank 0
// reads of them after that may be anything, since their tensors are their callers' again.
class GivenUpByOthers {
 public:
  explicit GivenUpByOthers(const ReferenceCall& call)
      : windows_(MakeTestWindows(3)),
        environment_(MakeRef<RealEnvironment>()),
        segment_(SharedSegment::Create(SharedTransport::SegmentBytes(3)).value()),
        layout_(segment_->contents(), 3),
        reference_(call, 3) {
    for (int64_t peer : {1, 2}) layout_.slot(peer).reads_windows.store(1);
    self_ = std::make_unique<SharedRank>(environment_, segment_, 0, 3, false, windows_[0]);
  }
  ~GivenUpByOthers() {
    self_.reset();
    EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
  }
  Status Run() {
    const auto come = [](void* test) {
      static_cast<GivenUpByOthers*>(test)->Come();
      return false;
    };
    const auto polled = MakeRef<Cancellation>(come, this, nullptr);
    CallOptions options = self_->Hang();
    options.cancellation = polled.get();
    return reference_.Run(0, self_->communicator(), options);
  }

 private:
  void Come() {
    if (come_) return;
    come_ = true;
    const SharedEntry& mine = layout_.entry(0, 1);
    for (int64_t peer : {1, 2}) {
      SharedEntry& theirs = layout_.entry(peer, 1);
      theirs.call.store(mine.call.load());
      theirs.header_bytes = mine.header_bytes;
      // Who only reads from the root has shown none.
      theirs.window = mine.window != 0 ? mine.window : 1;
      std::memcpy(theirs.room, mine.room, sizeof(mine.room));
      theirs.progress.store(mine.progress.load() + 1000);
    }
    self_->communicator().Abort(Aborted("rank 1 has given up"));
  }

  const std::vector<SharedWindows> windows_;
  const Ref<RealEnvironment> environment_;
  const Ref<SharedSegment> segment_;
  const SharedLayout layout_;
  const ReferenceCase reference_;
  std::unique_ptr<SharedRank> self_;
  bool come_ = false;
};

TEST(SharedDirect, WhatIsReadOfARankThatHasGivenUpIsNoResult) {
  for (const CollectiveOp op : kDirectOps) {
    for (const bool in_place : {false, true}) {
      ReferenceCall call = LargeCall(op);
      call.in_place = in_place;
      // Rank 0 reads: of a reduce it is the root, of moves from a root it is not.
      call.root = op == CollectiveOp::kReduce ? 0 : 1;
      const Status status = GivenUpByOthers(call).Run();
      EXPECT_THAT(status.ToString(), StartsWith("ABORTED: rank 1 has given up")) << call.ToString();
    }
  }
}

// Ranks write their tensors as soon as their call has failed, and one ends the epoch at any moment.
TEST(SharedDirect, EveryResultIsRightWhenARankGivesUpAtAnyMoment) {
  const char* const given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  SeededRuns runs("races", 60);
  while (runs.Next()) {
    const CollectiveOp op = kDirectOps[runs.number() % std::size(kDirectOps)];
    const int64_t delay_ns = static_cast<int64_t>(random() % 2'000'000);
    ReferenceCall call = LargeCall(op);
    call.in_place = random() % 2 == 0;
    const ReferenceCase reference(call, 3);
    SharedRankProcesses ranks(3, false, [&](SharedRank& self) -> std::string {
      Thread gives_up;
      if (self.rank() == 0) {
        gives_up = self.environment()
                       .StartThread("gives_up",
                                    [&] {
                                      const Clock& clock = self.environment().clock();
                                      const int64_t end_ns = clock.NowNs() + delay_ns;
                                      while (clock.NowNs() < end_ns) std::this_thread::yield();
                                      self.communicator().Abort(Aborted("given up"));
                                    })
                       .value();
      }
      Status status;
      while (status.ok()) status = reference.Run(self.rank(), self.communicator(), self.Hang());
      // Takes the memory that the failed call has let go, and writes it.
      for (int i = 0; i < 4; ++i) Made(self, 200'000, 7);
      if (gives_up.joinable() && !gives_up.Join(self.Hang()).ok()) return "the thread hangs";
      return status.ToString();
    });
    for (int64_t rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(ranks.Finish(rank), StartsWith("ABORTED: given up")) << call.ToString();
    }
  }
}

}  // namespace
}  // namespace tutti
