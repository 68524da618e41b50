// The collectives of every transport over one shared segment: as threads that each have the mapping
// (so that a sanitizer sees all of them), and what is special to transfers between processes: a
// killed peer, nonsense in the channel, races of a transfer with the end of the epoch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/seeded_runs_testing.h"
#include "core/base/thread.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/shm/shared_layout.h"
#include "core/collective/testing/checked_fold_testing.h"
#include "core/collective/testing/collective_cases_testing.h"
#include "core/collective/testing/collective_reference_testing.h"
#include "core/collective/testing/shared_rank_testing.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

// Ranks on one mapping, in an environment of their own.
class SharedRankGroup {
 public:
  SharedRankGroup(size_t size, bool spin, bool windows = false)
      : environment_(MakeRef<RealEnvironment>()),
        segment_(SharedSegment::Create(SharedTransport::SegmentBytes(static_cast<int64_t>(size)))
                     .value()) {
    std::vector<SharedWindows> made(size);
    if (windows) made = MakeTestWindows(static_cast<int64_t>(size));
    for (size_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(std::make_unique<SharedRank>(
          environment_, segment_, static_cast<int64_t>(rank), static_cast<int64_t>(size), spin,
          std::move(made[rank])));
    }
  }
  ~SharedRankGroup() {
    ranks_.clear();
    if (!environment_->Shutdown(CallOptions()).ok()) std::abort();
  }

  size_t size() const { return ranks_.size(); }
  Communicator& operator[](size_t rank) { return ranks_[rank]->communicator(); }
  CallOptions Timeout(int64_t timeout_ns) { return ranks_[0]->Timeout(timeout_ns); }
  CallOptions Hang() { return ranks_[0]->Hang(); }

 private:
  const Ref<RealEnvironment> environment_;
  const Ref<SharedSegment> segment_;
  std::vector<std::unique_ptr<SharedRank>> ranks_;
};

INSTANTIATE_TEST_SUITE_P(Shared, CollectiveCases,
                         testing::Values(
                             CollectiveWorldOf<SharedRankGroup>("shared", false, false),
                             CollectiveWorldOf<SharedRankGroup>("sharedspin", true, false),
                             CollectiveWorldOf<SharedRankGroup>("windows", false, true)),
                         CollectiveWorldName);

Ref<Tensor> Floats(int64_t elements, float value = 1.0f) {
  Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({elements})).value();
  for (float& element : tensor->mutable_span<float>()) element = value;
  return tensor;
}

uint64_t Seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

TEST(SharedCollectives, ANanInALargeSumIsFoundInTheFold) {
  ExpectWhoBroughtItIsNamed(
      [] { return CollectiveWorldOf<SharedRankGroup>("shared", false, false).make(3); });
}

// ---- Between processes ----

// Calls of every kind and size in an order that follows from the seed, the same on all ranks.
std::string RunRandomCalls(SharedRank& self, uint64_t seed, int calls) {
  constexpr CollectiveOp kOps[] = {CollectiveOp::kReduce,    CollectiveOp::kReduceScatter,
                                   CollectiveOp::kGather,    CollectiveOp::kScatter,
                                   CollectiveOp::kAllToAll,  CollectiveOp::kAllGather,
                                   CollectiveOp::kAllReduce, CollectiveOp::kBroadcast};
  constexpr int64_t kRows[] = {0, 1, 3, 60, 900, 8000, 50'000};
  std::mt19937_64 random(seed);
  for (int i = 0; i < calls; ++i) {
    ReferenceCall call;
    call.op = kOps[random() % std::size(kOps)];
    call.uneven = call.op == CollectiveOp::kGather ||
                  ((call.op == CollectiveOp::kAllToAll || call.op == CollectiveOp::kAllGather) &&
                   random() % 2 == 0);
    call.root = static_cast<int64_t>(random() % static_cast<uint64_t>(self.size()));
    call.rows = kRows[random() % std::size(kRows)];
    call.columns = static_cast<int64_t>(1 + random() % 3);
    call.in_place = random() % 2 == 0;
    call.memory = static_cast<ReferenceMemory>(random() % 3);
    call.seed = random() % 1000;
    const Status status =
        ReferenceCase(call, self.size()).Run(self.rank(), self.communicator(), self.Hang());
    if (!status.ok()) return call.ToString() + ": " + status.ToString();
  }
  return "";
}

TEST(SharedCollectives, GiveTheSameBetweenProcessesAsTheDefinition) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  for (const int64_t size : {1, 2, 3, 5}) {
    for (const bool spin : {false, true}) {
      EXPECT_THAT(RunSharedRanks(size, true, spin,
                                 [&](SharedRank& self) { return RunRandomCalls(self, seed, 40); }),
                  Each(""));
    }
  }
}

// So large that results go past the caches.
TEST(SharedCollectives, MoveAndFoldWhatNoCacheHolds) {
  EXPECT_THAT(RunSharedRanks(2, true, false,
                             [&](SharedRank& self) -> std::string {
                               for (const CollectiveOp op :
                                    {CollectiveOp::kReduce, CollectiveOp::kReduceScatter,
                                     CollectiveOp::kScatter, CollectiveOp::kAllToAll,
                                     CollectiveOp::kAllGather}) {
                                 ReferenceCall call;
                                 call.op = op;
                                 call.root = 1;
                                 call.rows = 2'200'001;
                                 const Status status =
                                     ReferenceCase(call, self.size())
                                         .Run(self.rank(), self.communicator(), self.Hang());
                                 if (!status.ok()) return CollectiveOpName(op);
                               }
                               return "";
                             }),
              Each(""));
}

TEST(SharedCollectives, ServeAsManyRanksAsThereCanBe) {
  SharedRankGroup ranks(kSharedMaxRanks, false);
  const auto size = static_cast<int64_t>(ranks.size());
  std::vector<std::string> reports(ranks.size());
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator& communicator = ranks[static_cast<size_t>(rank)];
      for (const int64_t elements : {size, 20 * size}) {
        Ref<Tensor> input = Floats(elements, static_cast<float>(rank));
        Ref<Tensor> output = Floats(elements, -1.0f);
        Status status = communicator.AllToAll(*input, ranks.Hang(), output.get());
        for (int64_t i = 0; i < elements && status.ok(); ++i) {
          if (output->span<float>()[i] != static_cast<float>(i / (elements / size))) {
            status = DataLoss("all_to_all: {} at {}", output->span<float>()[i], i);
          }
        }
        Ref<Tensor> share = Floats(elements / size);
        if (status.ok()) {
          status = communicator.ReduceScatter(*input, ReduceOp::kSum, ranks.Hang(), share.get());
        }
        const auto sum = static_cast<float>(size * (size - 1) / 2);
        if (status.ok() && share->span<float>()[0] != sum) status = DataLoss("a wrong sum");
        // From the first rank of each pair to the second.
        if (status.ok()) {
          status = rank % 2 == 0 ? communicator.Send(*input, rank + 1, ranks.Hang())
                                 : communicator.Receive(rank - 1, ranks.Hang(), output.get());
        }
        if (status.ok() && rank % 2 == 1 &&
            output->span<float>()[elements - 1] != static_cast<float>(rank - 1)) {
          status = DataLoss("received {}", output->ToString());
        }
        if (!status.ok()) reports[static_cast<size_t>(rank)] = status.ToString();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(reports, Each(""));
}

// ---- Transfers ----

TEST(SharedTransfer, StreamsThroughTheChannelsOfAllPairs) {
  for (const bool spin : {false, true}) {
    const std::vector<std::string> reports =
        RunSharedRanks(4, true, spin, [](SharedRank& self) -> std::string {
          const int64_t size = self.size();
          for (const int64_t elements : {int64_t{1}, int64_t{5000}, int64_t{400'003}}) {
            for (int64_t step = 0; step < 2 * size; ++step) {
              // In this step the ranks whose numbers add up to it exchange.
              const int64_t peer = ((step - self.rank()) % size + size) % size;
              if (peer == self.rank()) continue;
              const Ref<Tensor> sent =
                  RandomTensor(DType::kFloat32, elements, 1,
                               static_cast<uint64_t>(self.rank() * 100 + step));
              const Ref<Tensor> got =
                  RandomTensor(DType::kFloat32, elements, 1, 7);
              Status status;
              if (self.rank() < peer) {
                status = self.communicator().Send(*sent, peer, self.Hang());
              }
              if (status.ok()) status = self.communicator().Receive(peer, self.Hang(), got.get());
              if (status.ok() && self.rank() > peer) {
                status = self.communicator().Send(*sent, peer, self.Hang());
              }
              if (!status.ok()) return status.ToString();
              const Ref<Tensor> expected = RandomTensor(
                  DType::kFloat32, elements, 1, static_cast<uint64_t>(peer * 100 + step));
              if (!got->ContentsEqual(*expected)) return "something else has come";
            }
          }
          return "";
        });
    EXPECT_THAT(reports, Each(""));
  }
}

TEST(SharedTransfer, ADeadlineSaysWhatThePeerDoes) {
  const std::vector<std::string> reports = RunSharedRanks(2, true, false, [](SharedRank& self) {
    std::string report = self.communicator().Barrier(self.Hang()).ToString() + "; ";
    if (self.rank() == 0) {
      return report +
             self.communicator().Send(*Floats(8), 1, self.Timeout(20 * kMillisecondNs)).ToString();
    }
    while (self.communicator().epoch_status().ok()) std::this_thread::yield();
    return report + self.communicator().Receive(0, self.Hang(), Floats(8).get()).ToString();
  });
  EXPECT_THAT(reports[0],
              AllOf(StartsWith("OK; DEADLINE_EXCEEDED: rank 0: send #1 waited "),
                    HasSubstr("for rank 1 (worker 1), which is in no call; its last call was #1 "
                              "barrier"),
                    HasSubstr("peer=1"), HasSubstr("op=send")));
  EXPECT_EQ(reports[1], reports[0]);
}

TEST(SharedTransfer, ADeadlineOfACallOfAllNamesTheTransferThatARankIsIn) {
  // Of all processes: whether rank 1 waits. Who waits asks its host.
  void* const memory = mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const waits = new (memory) std::atomic<bool>(false);
  const auto ask = [](void* asked) {
    static_cast<std::atomic<bool>*>(asked)->store(true);
    return false;
  };
  const std::vector<std::string> reports = RunSharedRanks(3, true, false, [&](SharedRank& self) {
    if (self.rank() == 1) {
      const Ref<Cancellation> host = MakeRef<Cancellation>(ask, waits, Ref<const RefCounted>());
      CallOptions options = self.Hang();
      options.cancellation = host.get();
      return self.communicator().Receive(2, options, Floats(8).get()).ToString();
    }
    if (self.rank() == 2) {
      while (self.communicator().epoch_status().ok()) std::this_thread::yield();
      return self.communicator().epoch_status().ToString();
    }
    while (!waits->load() && self.communicator().epoch_status().ok()) std::this_thread::yield();
    return self.communicator().Barrier(self.Timeout(20 * kMillisecondNs)).ToString();
  });
  EXPECT_THAT(reports[0],
              AllOf(StartsWith("DEADLINE_EXCEEDED: rank 0: barrier #1 waited "),
                    HasSubstr("rank 1 (worker 1), which has not called; it has made no call yet; "
                              "it is receiving from rank 2")));
  EXPECT_THAT(reports, Each(reports[0]));
  munmap(memory, sizeof(std::atomic<bool>));
}

// Without a deadline: the ranks would wait for each other for ever.
TEST(SharedTransfer, ATransferWhoseOtherRankIsInACollectiveIsTheSameErrorOnAll) {
  for (const bool spin : {false, true}) {
    for (const bool sends : {true, false}) {
      for (const int64_t count : {int64_t{8}, int64_t{400'000}}) {
        const std::vector<std::string> reports =
            RunSharedRanks(3, true, spin, [&](SharedRank& self) -> std::string {
              Communicator& communicator = self.communicator();
              const Ref<Tensor> tensor = Floats(count);
              Status status = communicator.Barrier(self.Hang());
              if (!status.ok()) return status.ToString();
              if (self.rank() != 1) {
                return communicator.AllReduce(*tensor, ReduceOp::kSum, self.Hang(), tensor.get())
                    .ToString();
              }
              return (sends ? communicator.Send(*tensor, 0, self.Hang())
                            : communicator.Receive(0, self.Hang(), tensor.get()))
                  .ToString();
            });
        EXPECT_THAT(reports[0],
                    StartsWith(Format("INVALID_ARGUMENT: rank 1: {} #1 {} rank 0, which waits for "
                                      "rank 1 in all_reduce #2; make the calls in an order that "
                                      "both ranks can follow",
                                      sends ? "send" : "receive", sends ? "to" : "from")));
        EXPECT_THAT(reports, Each(reports[0]));
      }
    }
  }
}

TEST(SharedTransfer, TwoRanksThatBothSendOrBothReceiveAreToldSo) {
  for (const bool sends : {true, false}) {
    const std::vector<std::string> reports =
        RunSharedRanks(2, true, false, [&](SharedRank& self) -> std::string {
          Communicator& communicator = self.communicator();
          const Ref<Tensor> tensor = Floats(100);
          // The pair's numbers differ by direction.
          Status status = self.rank() == 0 ? communicator.Send(*tensor, 1, self.Hang())
                                           : communicator.Receive(0, self.Hang(), tensor.get());
          if (!status.ok()) return status.ToString();
          status = sends ? communicator.Send(*tensor, 1 - self.rank(), self.Hang())
                         : communicator.Receive(1 - self.rank(), self.Hang(), tensor.get());
          return std::string(status.message());
        });
    EXPECT_EQ(reports[0],
              sends ? "rank 0: send #2 to rank 1, which is in send #1 to rank 0: each waits for "
                      "the other; let one of them receive first"
                    : "rank 0: receive #1 from rank 1, which is in receive #2 from rank 0: each "
                      "waits for the other; let one of them send first");
    EXPECT_EQ(reports[1], reports[0]);
  }
}

// Sends, receives and calls of all in all orders that can be followed, at every pace.
TEST(SharedTransfer, ARankThatIsAheadIsNoContradiction) {
  const std::vector<std::string> reports =
      RunSharedRanks(3, true, false, [](SharedRank& self) -> std::string {
        std::mt19937_64 own(17 + static_cast<uint64_t>(self.rank()));
        for (int round = 0; round < 300; ++round) {
          const Ref<Tensor> tensor = Floats(round % 10 == 0 ? 400'000 : 10);
          const int64_t from = round % 3;
          const int64_t to = (from + 1 + round / 3 % 2) % 3;
          for (uint64_t i = own() % 4; i > 0; --i) std::this_thread::yield();
          Status status;
          if (round % 4 == 0) {
            status = self.communicator().Broadcast(from, self.Hang(), tensor.get());
          }
          if (status.ok() && self.rank() == from) {
            status = self.communicator().Send(*tensor, to, self.Hang());
          } else if (status.ok() && self.rank() == to) {
            status = self.communicator().Receive(from, self.Hang(), tensor.get());
          }
          if (!status.ok()) return status.ToString();
        }
        return "OK";
      });
  EXPECT_THAT(reports, Each(std::string("OK")));
}

TEST(SharedTransfer, APeerThatHasLeftIsNamed) {
  const std::vector<std::string> reports =
      RunSharedRanks(2, true, false, [](SharedRank& self) -> std::string {
        if (self.rank() == 1) return "";
        return self.communicator().Receive(1, self.Hang(), Floats(8).get()).ToString();
      });
  EXPECT_THAT(reports[0], AllOf(StartsWith("UNAVAILABLE: rank 0: receive #1 needs rank 1 "
                                           "(worker 1): it has left (closed)"),
                                HasSubstr("peer=1")));
}

// Ends the epoch when the process of rank 1 dies, as the owner of a group does.
Thread WatchRank1(SharedRank& self, pid_t pid) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) std::abort();
  return self.environment()
      .StartThread("watch",
                   [&self, descriptor] {
                     pollfd watched = {descriptor, POLLIN, 0};
                     while (poll(&watched, 1, -1) != 1) {
                     }
                     close(descriptor);
                     self.communicator().Abort(Unavailable("rank 1 is gone"));
                   })
      .value();
}

// Rank 1 is killed while `body` repeats a call.
void KillInTheMiddle(int64_t size, bool spin, size_t after,
                     const std::function<Status(SharedRank& self)>& body) {
  SharedRankProcesses ranks(size, spin, [&](SharedRank& self) -> std::string {
    Ref<Tensor> pids;
    Status status = self.communicator().AllGather(
        *Tensor::Vector<int64_t>({static_cast<int64_t>(getpid())}), 0, self.Hang(), &pids);
    if (!status.ok()) return status.ToString();
    Thread watch;
    if (self.rank() != 1) watch = WatchRank1(self, static_cast<pid_t>(pids->span<int64_t>()[1]));
    while (status.ok()) {
      status = body(self);
      if (status.ok() && self.rank() == 1) SharedRankProcesses::Report(".");
    }
    if (watch.joinable() && !watch.Join(self.Hang()).ok()) return "the watch hangs";
    return status.ToString();
  });
  EXPECT_EQ(ranks.Read(1, after).size(), after);
  kill(ranks.pid(1), SIGKILL);
  for (int64_t rank = 0; rank < size; ++rank) {
    EXPECT_THAT(ranks.Finish(rank), HasSubstr(rank == 1 ? "<killed by signal 9>"
                                                        : "UNAVAILABLE: rank 1 is gone"));
  }
}

TEST(SharedTransfer, AKilledPeerEndsIt) {
  for (const int64_t elements : {2, 600'000}) {
    for (const bool spin : {false, true}) {
      for (const int64_t sender : {0, 1}) {
        KillInTheMiddle(2, spin, 7, [&](SharedRank& self) {
          Ref<Tensor> tensor = Floats(elements);
          return self.rank() == sender
                     ? self.communicator().Send(*tensor, 1 - sender, self.Hang())
                     : self.communicator().Receive(sender, self.Hang(), tensor.get());
        });
      }
    }
  }
}

TEST(SharedCollectives, AKilledRankEndsTheWaitingOfTheOthers) {
  for (const int64_t rows : {2, 50'000}) {
    for (const CollectiveOp op :
         {CollectiveOp::kReduce, CollectiveOp::kReduceScatter, CollectiveOp::kGather,
          CollectiveOp::kScatter, CollectiveOp::kAllToAll, CollectiveOp::kAllGather}) {
      ReferenceCall call;
      call.op = op;
      call.uneven = op == CollectiveOp::kGather;
      call.rows = rows;
      call.root = 1;
      const ReferenceCase reference(call, 3);
      KillInTheMiddle(3, rows == 2, 5, [&](SharedRank& self) {
        return reference.Run(self.rank(), self.communicator(), self.Hang());
      });
    }
  }
}

TEST(SharedTransfer, SucceedsOnBothSidesOrOnNone) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  SeededRuns runs("races", 200);
  while (runs.Next()) {
    SharedRankGroup ranks(3, random() % 2 == 0);
    const int64_t elements = random() % 2 == 0 ? 8 : 50'000;
    const std::chrono::microseconds delays[3] = {
        std::chrono::microseconds(random() % 100), std::chrono::microseconds(random() % 100),
        std::chrono::microseconds(random() % 100)};
    Status statuses[3];
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        // Busy: where others want the core each of many yields would take a time slice.
        const auto begin = std::chrono::steady_clock::now() + delays[rank];
        while (std::chrono::steady_clock::now() < begin) {
        }
        Communicator& communicator = ranks[static_cast<size_t>(rank)];
        Ref<Tensor> tensor = Floats(elements);
        if (rank == 0) statuses[0] = communicator.Send(*tensor, 1, ranks.Hang());
        if (rank == 1) statuses[1] = communicator.Receive(0, ranks.Hang(), tensor.get());
        if (rank == 2) communicator.Abort(Aborted("now"));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(statuses[0].code(), statuses[1].code())
        << statuses[0].ToString() << " and " << statuses[1].ToString();
  }
}

// ---- Nonsense: rank 0 of two in this process; the test writes what rank 1 would. ----

class SharedTransferNonsense : public testing::Test {
 protected:
  SharedTransferNonsense()
      : environment_(MakeRef<RealEnvironment>()),
        segment_(SharedSegment::Create(SharedTransport::SegmentBytes(2)).value()),
        layout_(segment_->contents(), 2),
        self_(std::make_unique<SharedRank>(environment_, segment_, 0, 2, false)) {}
  ~SharedTransferNonsense() override {
    self_.reset();
    EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
  }
  Status Receive() {
    return self_->communicator().Receive(1, self_->Timeout(20 * kMillisecondNs),
                                         Floats(400'000).get());
  }
  // Rank 1 "sends" floats.
  void ShowHeader() {
    CallHeader header;
    header.op = CollectiveOp::kSend;
    header.num_tensors = 1;
    header.first = {DType::kFloat32, {400'000}};
    std::vector<std::byte> bytes;
    EncodeSharedHeader(header, &bytes);
    SharedChannel& channel = layout_.channel(1, 0);
    std::memcpy(channel.header, bytes.data(), bytes.size());
    channel.header_bytes = static_cast<uint32_t>(bytes.size());
  }

  const Ref<RealEnvironment> environment_;
  const Ref<SharedSegment> segment_;
  const SharedLayout layout_;
  std::unique_ptr<SharedRank> self_;
};

TEST_F(SharedTransferNonsense, InAHeaderIsAnError) {
  layout_.channel(1, 0).header_bytes = 0xffffffff;
  layout_.channel(1, 0).sent.store(1);
  const Status status = Receive();
  EXPECT_EQ(status.code(), StatusCode::kInternal) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (worker 1): receive #1"));
}

TEST_F(SharedTransferNonsense, InTheCountsIsAnError) {
  ShowHeader();
  layout_.channel(1, 0).written.store(1000);
  layout_.channel(1, 0).settled.store(17);
  layout_.channel(1, 0).sent.store(1);
  EXPECT_EQ(Receive().code(), StatusCode::kInternal);
}

// No nonsense: a sender that stands still after its first chunk.
TEST_F(SharedTransferNonsense, ADeadlineInTheMiddleNamesTheSender) {
  ShowHeader();
  layout_.slot(1).transfer.store(SharedTransferWord::Make(0, true));
  layout_.channel(1, 0).written.store(1);
  layout_.channel(1, 0).sent.store(1);
  const Status status = Receive();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("for rank 1 (worker 1), which is sending to rank 0"));
}

// Rank 1 shows row counts that cannot be.
class SharedNonsenseRows : public SharedTransferNonsense,
                           public testing::WithParamInterface<std::vector<int64_t>> {};

INSTANTIATE_TEST_SUITE_P(All, SharedNonsenseRows,
                         testing::Values(std::vector<int64_t>{4, -1, 5},
                                         std::vector<int64_t>{4, int64_t{1} << 62, 0},
                                         std::vector<int64_t>{4, 0, -7}));

TEST_P(SharedNonsenseRows, AreAnError) {
  CallHeader header;
  header.op = CollectiveOp::kAllToAll;
  header.uneven = true;
  header.num_tensors = 1;
  header.first = {DType::kFloat32, {4}};
  std::vector<std::byte> bytes;
  EncodeSharedHeader(header, &bytes);
  SharedEntry& entry = layout_.entry(1, 1);
  entry.call.store(SharedCallWord::Make(1, CollectiveOp::kAllToAll));
  entry.header_bytes = static_cast<uint32_t>(bytes.size());
  std::memcpy(entry.room, bytes.data(), bytes.size());
  std::memcpy(reinterpret_cast<std::byte*>(&entry) + 32, GetParam().data(),
              GetParam().size() * sizeof(int64_t));
  entry.progress.store(1);
  const int64_t rows[] = {2, 2};
  Ref<Tensor> output;
  const Status status = self_->communicator().AllToAllUneven(
      *Floats(4), rows, self_->Timeout(20 * kMillisecondNs), &output, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInternal) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (worker 1)"));
}

}  // namespace
}  // namespace tutti
