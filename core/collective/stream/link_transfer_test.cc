// Transfers over links that cannot happen: ranks that wait for each other in different calls, a
// peer that dies, gives up, or is slow. Both ranks get the same error, and nobody hangs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/collective/testing/collective_reference_testing.h"
#include "core/collective/testing/link_faults.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

uint64_t Seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

Ref<Tensor> Zeros(int64_t count) { return Tensor::Create(DType::kFloat32, Shape({count})).value(); }

class LinkTransferTest : public testing::TestWithParam<LinkKind> {};

void ExpectSameError(const std::vector<Status>& statuses, const std::string& message) {
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_EQ(status.message(), message);
  }
}

TEST_P(LinkTransferTest, ATransferWhoseOtherRankIsInACollectiveIsTheSameErrorOnAll) {
  for (const bool sends : {true, false}) {
    for (const int64_t count : {int64_t{5}, int64_t{200'000}}) {
      LinkRanks links(3, GetParam());
      const std::vector<Status> statuses =
          links.Run([&](int64_t rank, Communicator& communicator) -> Status {
            const Ref<Tensor> tensor = Zeros(count);
            TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
            if (rank != 1) {
              return communicator.AllReduce(*tensor, ReduceOp::kSum, links.Hang(), tensor.get());
            }
            return sends ? communicator.Send(*tensor, 0, links.Hang())
                         : communicator.Receive(0, links.Hang(), tensor.get());
          });
      ExpectSameError(statuses,
                      Format("rank 1: {} #1 {} rank 0, which waits for rank 1 in all_reduce #2; "
                             "make the calls in an order that both ranks can follow",
                             sends ? "send" : "receive", sends ? "to" : "from"));
    }
  }
}

TEST_P(LinkTransferTest, TwoRanksThatBothSendOrBothReceiveAreToldSo) {
  for (const bool sends : {true, false}) {
    LinkRanks links(2, GetParam());
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          const Ref<Tensor> tensor = Zeros(100);
          // The pair's numbers differ by direction.
          TUTTI_RETURN_IF_ERROR(rank == 0
                                    ? communicator.Send(*tensor, 1, links.Hang())
                                    : communicator.Receive(0, links.Hang(), tensor.get()));
          return sends ? communicator.Send(*tensor, 1 - rank, links.Hang())
                       : communicator.Receive(1 - rank, links.Hang(), tensor.get());
        });
    ExpectSameError(statuses,
                    sends ? "rank 0: send #2 to rank 1, which is in send #1 to rank 0: each waits "
                            "for the other; let one of them receive first"
                          : "rank 0: receive #1 from rank 1, which is in receive #2 from rank 0: "
                            "each waits for the other; let one of them send first");
  }
}

TEST_P(LinkTransferTest, ARankThatIsAheadIsNoContradiction) {
  LinkRanks links(3, GetParam());
  for (const Status& status : links.Run([&](int64_t rank, Communicator& communicator) -> Status {
         std::mt19937_64 own(Seed() + static_cast<uint64_t>(rank));
         for (int round = 0; round < 200; ++round) {
           const Ref<Tensor> tensor = Zeros(round % 10 == 0 ? 40'000 : 10);
           const int64_t from = round % 3;
           const int64_t to = (from + 1 + round / 3 % 2) % 3;
           for (uint64_t i = own() % 4; i > 0; --i) std::this_thread::yield();
           if (round % 4 == 0) {
             TUTTI_RETURN_IF_ERROR(communicator.Broadcast(from, links.Hang(), tensor.get()));
           }
           if (rank == from) {
             TUTTI_RETURN_IF_ERROR(communicator.Send(*tensor, to, links.Hang()));
           } else if (rank == to) {
             TUTTI_RETURN_IF_ERROR(communicator.Receive(from, links.Hang(), tensor.get()));
           }
         }
         return OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_P(LinkTransferTest, WhoComesAfterTheOtherHasGivenUpFailsToo) {
  for (const bool sends : {true, false}) {
    for (const int64_t count : {int64_t{5}, int64_t{200'000}}) {
      LinkRanks links(2, GetParam());
      const Ref<Tensor> tensor = Zeros(count);
      const auto transfer = [&](bool send, size_t rank, const CallOptions& options) {
        const auto peer = static_cast<int64_t>(1 - rank);
        return send ? links[rank].Send(*tensor, peer, options)
                    : links[rank].Receive(peer, options, tensor.get());
      };
      const Status first = transfer(sends, 0, links.Timeout(5 * kMillisecondNs));
      EXPECT_EQ(first.code(), StatusCode::kDeadlineExceeded) << first.ToString();
      EXPECT_THAT(std::string(first.message()),
                  HasSubstr("for rank 1 (worker 1, pid 4712), which has not called"));
      EXPECT_EQ(transfer(!sends, 1, links.Hang()).message(), first.message());
    }
  }
}

// Rank 1 dies after it has sent so many bytes, before, in or after a transfer or another call.
TEST_P(LinkTransferTest, APeerThatDiesAnywhereIsNamed) {
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(Seed()));
  std::vector<size_t> cuts;
  for (size_t cut = 0; cut < 420; cut += 13) cuts.push_back(cut);
  std::mt19937_64 random(Seed());
  for (int i = 0; i < 40; ++i) cuts.push_back(random() % 900'000);
  int failures = 0;
  for (const size_t cut : cuts) {
    SCOPED_TRACE(Format("cut after {} bytes", cut));
    auto all = MakeAllLinks(2, GetParam());
    all[1][0] = std::make_unique<CutLink>(std::move(all[1][0]), cut);
    LinkRanks links(2, std::move(all));
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          const Ref<Tensor> small = Zeros(3);
          const Ref<Tensor> large = Zeros(100'000);
          for (Tensor* tensor : {small.get(), large.get(), small.get()}) {
            for (const int64_t from : {int64_t{1}, int64_t{0}}) {
              TUTTI_RETURN_IF_ERROR(rank == from
                                        ? communicator.Send(*tensor, 1 - rank, links.Hang())
                                        : communicator.Receive(from, links.Hang(), tensor));
            }
          }
          return communicator.ReduceScatter(*large, ReduceOp::kSum, links.Hang(),
                                            Zeros(50'000).get());
        });
    if (statuses[0].ok()) continue;
    ++failures;
    EXPECT_EQ(statuses[0].code(), StatusCode::kUnavailable) << statuses[0].ToString();
    EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("is gone: "));
  }
  EXPECT_GT(failures, 40);
}

TEST_P(LinkTransferTest, CrumbsOfFramesAddUpInEveryCall) {
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(Seed()));
  auto all = MakeAllLinks(3, GetParam());
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      all[a][b] = std::make_unique<ChoppyLink>(std::move(all[a][b]), Seed() + 3 * a + b, 30'000);
    }
  }
  LinkRanks links(3, std::move(all));
  std::vector<ReferenceCase> cases;
  for (const CollectiveOp op :
       {CollectiveOp::kReduce, CollectiveOp::kReduceScatter, CollectiveOp::kScatter,
        CollectiveOp::kGather, CollectiveOp::kAllToAll, CollectiveOp::kAllGather}) {
    for (const int64_t rows : {10, 120'000}) {
      for (const int64_t root : {0, 2}) {
        ReferenceCall call;
        call.op = op;
        call.uneven = op == CollectiveOp::kGather || (op == CollectiveOp::kAllToAll && root == 2);
        call.root = root;
        call.rows = rows;
        call.in_place = op == CollectiveOp::kReduceScatter && root == 2;
        cases.emplace_back(call, 3);
      }
    }
  }
  const CallOptions options = links.Hang();
  for (const Status& status : links.Run([&](int64_t rank, Communicator& communicator) -> Status {
         for (const ReferenceCase& one : cases) {
           TUTTI_RETURN_IF_ERROR(one.Run(rank, communicator, options));
         }
         const Ref<Tensor> sent = RandomTensor(DType::kFloat32, 90'000, 1, 3);
         const Ref<Tensor> got = RandomTensor(DType::kFloat32, 90'000, 1, 4);
         if (rank == 1) return communicator.Send(*sent, 2, options);
         if (rank == 0) return OkStatus();
         TUTTI_RETURN_IF_ERROR(communicator.Receive(1, options, got.get()));
         return got->ContentsEqual(*sent) ? OkStatus() : DataLoss("other contents");
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

std::string NameOf(const testing::TestParamInfo<LinkKind>& info) {
  constexpr const char* kNames[] = {"SocketPair", "Tcp", "Ring", "Mixed", "Later", "Chain"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkTransferTest,
                         testing::Values(LinkKind::kSocketPair, LinkKind::kTcp, LinkKind::kRing,
                                         LinkKind::kMixed, LinkKind::kLater),
                         NameOf);

}  // namespace
}  // namespace tutti
