// Send and receive between the ranks of one process: both orders of arrival on one thread of a
// simulation, what messages say about the peer, and races of arrival with every end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/executor.h"
#include "core/base/simulated_environment.h"
#include "core/collective/communicator.h"
#include "core/collective/rank_threads.h"
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
  Status status;
  world_->executor().Post(
      Task([&] { status = ranks_[0]->Receive(1, Timeout(5), Numbers(4, 0).get()); }));
  const Status in_call = ranks_[1]->Barrier(Timeout(100));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "rank 0: receive #1 waited 5 s for rank 1, which is in barrier #1");
  EXPECT_EQ(in_call.rep(), status.rep()) << "the error is everybody's";
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
  for (int round = 0; round < 300; ++round) {
    RankGroup group(3);
    const int64_t elements = random() % 2 == 0 ? 8 : 50'000;
    const int spins[3] = {static_cast<int>(random() % 200), static_cast<int>(random() % 200),
                          static_cast<int>(random() % 200)};
    const bool closes = random() % 2 == 0;
    const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
      for (int i = 0; i < spins[rank]; ++i) std::this_thread::yield();
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
