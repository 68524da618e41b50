// Send and receive between the ranks of one process: both orders of arrival on one thread of a
// simulation, what messages say about the peer, and races of arrival with every end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/executor.h"
#include "core/base/seeded_runs_testing.h"
#include "core/base/simulated_environment.h"
#include "core/base/text.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

class SimulatedTransfer : public ::testing::Test {
 protected:
  SimulatedTransfer() {
    Communicator::LocalOptions options;
    options.name = "grads";
    ranks_ = Communicator::CreateLocal(world_.get(), 3, options).value();
  }
  ~SimulatedTransfer() override {
    for (const Ref<Communicator>& rank : ranks_) EXPECT_TRUE(rank->Close(CallOptions()).ok());
    ranks_.clear();
    EXPECT_TRUE(world_->Shutdown(CallOptions()).ok());
  }
  CallOptions Timeout(int64_t seconds) {
    return CallOptions::WithTimeout(world_->clock(), seconds * kSecondNs);
  }
  static Ref<Tensor> Numbers(int64_t elements, float first) {
    Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({elements})).value();
    tensor->mutable_span<float>()[0] = first;
    return tensor;
  }

  const Ref<SimulatedEnvironment> world_ = MakeRef<SimulatedEnvironment>(1);
  std::vector<Ref<Communicator>> ranks_;
};

TEST_F(SimulatedTransfer, MovesTensorsOfAnySizeWhoeverComesFirst) {
  for (const int64_t elements : {1, 1'000'000}) {
    for (const bool sender_first : {true, false}) {
      const Ref<Tensor> sent = Numbers(elements, 7);
      const Ref<Tensor> got = Numbers(elements, 0);
      const auto send = [&] { EXPECT_TRUE(ranks_[0]->Send(*sent, 2, Timeout(10)).ok()); };
      const auto receive = [&] {
        EXPECT_TRUE(ranks_[2]->Receive(0, Timeout(10), got.get()).ok());
      };
      world_->executor().PostAfter(kSecondNs, Task([&] { sender_first ? receive() : send(); }));
      sender_first ? send() : receive();
      EXPECT_EQ(got->span<float>()[0], 7.0f);
    }
  }
}

TEST_F(SimulatedTransfer, SaysInADeadlineErrorWhatThePeerDoes) {
  const Status status = ranks_[0]->Receive(1, Timeout(5), Numbers(4, 0).get());
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "rank 0: receive #1 waited 5 s for rank 1, which is in no call; it has made no call "
            "yet");
  EXPECT_EQ(ranks_[1]->Barrier(Timeout(5)).rep(), status.rep()) << "the error is everybody's";
}

// Each on one thread: found when it cannot go on, not when time is up.
TEST_F(SimulatedTransfer, ATransferWhoseOtherRankIsInACollectiveIsAnErrorAtOnce) {
  for (const bool transfer_first : {true, false}) {
    for (const bool sends : {true, false}) {
      Communicator::LocalOptions options;
      options.name = "pair";
      const std::vector<Ref<Communicator>> pair =
          Communicator::CreateLocal(world_.get(), 2, options).value();
      Status transfer, collective;
      const auto in_transfer = [&] {
        transfer = sends ? pair[0]->Send(*Numbers(4, 0), 1, Timeout(100))
                         : pair[0]->Receive(1, Timeout(100), Numbers(4, 0).get());
      };
      const auto in_collective = [&] { collective = pair[1]->Barrier(Timeout(100)); };
      const int64_t start_ns = world_->clock().NowNs();
      world_->executor().PostAfter(kSecondNs, Task([&] {
                                     transfer_first ? in_collective() : in_transfer();
                                   }));
      transfer_first ? in_transfer() : in_collective();
      EXPECT_LT(world_->clock().NowNs() - start_ns, 2 * kSecondNs);
      EXPECT_EQ(transfer.code(), StatusCode::kInvalidArgument) << transfer.ToString();
      EXPECT_EQ(transfer.message(),
                Format("rank 0: {} #1 {} rank 1, which waits for rank 0 in barrier #1; make the "
                       "calls in an order that both ranks can follow",
                       sends ? "send" : "receive", sends ? "to" : "from"));
      EXPECT_EQ(collective.rep(), transfer.rep());
      for (const Ref<Communicator>& rank : pair) EXPECT_TRUE(rank->Close(CallOptions()).ok());
    }
  }
}

TEST_F(SimulatedTransfer, TwoRanksThatBothSendOrBothReceiveAreToldSoAtOnce) {
  for (const bool sends : {true, false}) {
    Communicator::LocalOptions options;
    options.name = "pair";
    const std::vector<Ref<Communicator>> pair =
        Communicator::CreateLocal(world_.get(), 2, options).value();
    Status statuses[2];
    const auto call = [&](int rank) {
      statuses[rank] = sends ? pair[rank]->Send(*Numbers(4, 0), 1 - rank, Timeout(100))
                             : pair[rank]->Receive(1 - rank, Timeout(100), Numbers(4, 0).get());
    };
    const int64_t start_ns = world_->clock().NowNs();
    world_->executor().PostAfter(kSecondNs, Task([&] { call(0); }));
    call(1);
    EXPECT_LT(world_->clock().NowNs() - start_ns, 2 * kSecondNs);
    EXPECT_EQ(statuses[0].code(), StatusCode::kInvalidArgument) << statuses[0].ToString();
    EXPECT_EQ(statuses[0].message(),
              sends ? "rank 0: send #1 to rank 1, which is in send #1 to rank 0: each waits for "
                      "the other; let one of them receive first"
                    : "rank 0: receive #1 from rank 1, which is in receive #1 from rank 0: each "
                      "waits for the other; let one of them send first");
    EXPECT_EQ(statuses[1].rep(), statuses[0].rep());
    for (const Ref<Communicator>& rank : pair) EXPECT_TRUE(rank->Close(CallOptions()).ok());
  }
}

TEST_F(SimulatedTransfer, SaysThatThePeerTransfersWithAnother) {
  Status status;
  world_->executor().Post(Task([&] { status = ranks_[0]->Send(*Numbers(4, 0), 1, Timeout(5)); }));
  const Status other = ranks_[1]->Send(*Numbers(4, 0), 2, Timeout(100));
  EXPECT_EQ(status.message(),
            "rank 0: send #1 waited 5 s for rank 1, which is sending to rank 2");
  EXPECT_EQ(other.rep(), status.rep());
}

TEST_F(SimulatedTransfer, SaysOfAMissingRankThatItTransfers) {
  Status status;
  world_->executor().Post(Task([&] { status = ranks_[0]->Barrier(Timeout(5)); }));
  EXPECT_FALSE(ranks_[1]->Send(*Numbers(4, 0), 2, Timeout(100)).ok());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1, which has not called; it has made no call yet; it is sending to "
                        "rank 2"));
}

TEST_F(SimulatedTransfer, SaysThatThePeerHasLeft) {
  EXPECT_TRUE(ranks_[1]->Close(CallOptions()).ok());
  const Status status = ranks_[0]->Send(*Numbers(4, 0), 1, Timeout(5));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "rank 0: send #1 needs rank 1: it has left (closed)");
}

TEST_F(SimulatedTransfer, IsNotInTheWayOfSmallCollectives) {
  // Every rank on one thread: the flat ways of the calls.
  Status statuses[3];
  std::vector<Ref<Tensor>> outputs;
  for (int rank = 0; rank < 3; ++rank) outputs.push_back(Numbers(6, 0));
  for (int rank = 0; rank < 3; ++rank) {
    world_->executor().Post(Task([&, rank] {
      const Ref<Tensor> input = Numbers(6, static_cast<float>(rank + 1));
      Tensor* output = outputs[static_cast<size_t>(rank)].get();
      statuses[rank] = ranks_[rank]->Reduce(*input, ReduceOp::kSum, 1, Timeout(5), output);
    }));
  }
  world_->RunUntilIdle();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(outputs[0]->span<float>()[0], 0.0f);
  EXPECT_EQ(outputs[1]->span<float>()[0], 6.0f);
}

// A transfer that races with an abort succeeds on both sides or fails on both.
TEST(LocalTransfer, SucceedsOnBothSidesOrOnNone) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  SeededRuns runs("races", 300);
  while (runs.Next()) {
    RankGroup group(3);
    const int64_t elements = random() % 2 == 0 ? 8 : 50'000;
    const std::chrono::microseconds delays[3] = {
        std::chrono::microseconds(random() % 100), std::chrono::microseconds(random() % 100),
        std::chrono::microseconds(random() % 100)};
    const bool closes = random() % 2 == 0;
    const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
      // Busy: where others want the core each of many yields would take a time slice.
      const auto begin = std::chrono::steady_clock::now() + delays[rank];
      while (std::chrono::steady_clock::now() < begin) {
      }
      Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({elements})).value();
      if (rank == 2) {
        communicator.Abort(Status(StatusCode::kAborted, "now"));
        return closes ? communicator.Close(group.Hang()) : OkStatus();
      }
      return rank == 0 ? communicator.Send(*tensor, 1, group.Hang())
                       : communicator.Receive(0, group.Hang(), tensor.get());
    });
    EXPECT_EQ(statuses[0].code(), statuses[1].code())
        << statuses[0].ToString() << " and " << statuses[1].ToString();
  }
}

// All pairs at once, each in an order of its own that cannot deadlock.
TEST(LocalTransfer, ServesAllPairsAtOnce) {
  constexpr int64_t kRanks = 6;
  RankGroup group(kRanks);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    for (int32_t round = 0; round < 40; ++round) {
      // In step s the ranks whose numbers add up to s, modulo kRanks, exchange.
      for (int64_t step = 0; step < kRanks; ++step) {
        const int64_t peer = (step - rank + kRanks) % kRanks;
        if (peer == rank) continue;
        Ref<Tensor> sent = Tensor::Scalar<int64_t>(rank * 1000 + round);
        Ref<Tensor> got = Tensor::Scalar<int64_t>(-1);
        if (rank < peer) TUTTI_RETURN_IF_ERROR(communicator.Send(*sent, peer, group.Hang()));
        TUTTI_RETURN_IF_ERROR(communicator.Receive(peer, group.Hang(), got.get()));
        if (rank > peer) TUTTI_RETURN_IF_ERROR(communicator.Send(*sent, peer, group.Hang()));
        if (got->item<int64_t>() != peer * 1000 + round) {
          return Status(StatusCode::kDataLoss, got->ToString());
        }
      }
    }
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

}  // namespace
}  // namespace tutti
