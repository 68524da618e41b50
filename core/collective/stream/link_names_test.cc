// What messages call the ranks of a group that is a part of a larger one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/stream/link_frame.h"
#include "core/collective/testing/link_faults.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

const std::vector<int64_t> kNames = {1, 5, 9, 13, 17, 21};

Ref<Tensor> Filled(int64_t count) {
  Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({count})).value();
  for (float& element : tensor->mutable_span<float>()) element = 1;
  return tensor;
}

TEST(LinkNamesTest, AChainIsOfTheRanksAsTheyAreCalled) {
  struct Case {
    size_t from;
    int64_t misses;  // what is lost on the way to it
    const char* said;
  };
  for (const Case& lost : {Case{2, 3, "segments of what ranks 1, 5, 9 have folded are here"},
                           Case{1, 0, "of the result, which comes from rank 21, are here"}}) {
    SCOPED_TRACE(lost.said);
    std::vector<std::vector<std::unique_ptr<Link>>> ends =
        MakeTreeLinks(kNames.size(), LinkKind::kChain);
    std::unique_ptr<Link>& end = ends[lost.from][static_cast<size_t>(lost.misses)];
    end = std::make_unique<MuteLink>(std::move(end), 100'000);
    LinkRanks links(kNames.size(), std::move(ends), /*spin=*/false, LinkKind::kChain, kNames);
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          const Ref<Tensor> tensor = Filled(100'000);
          const bool misses = rank == lost.misses;
          return communicator.AllReduce(*tensor, ReduceOp::kSum,
                                        misses ? links.Timeout(3 * kSecondNs) : links.Hang(),
                                        tensor.get());
        });
    const Status& status = statuses[static_cast<size_t>(lost.misses)];
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(lost.said));
  }
}

// Gives the segments that it sends a wrong number.
class MiscountingLink final : public LinkOver {
 public:
  using LinkOver::LinkOver;

  int64_t TrySend(std::span<const iovec> parts) override {
    std::vector<iovec> sent(parts.begin(), parts.end());
    std::string head(static_cast<const char*>(sent[0].iov_base), sent[0].iov_len);
    FrameHeader header;
    if (head.size() >= kFrameHeaderBytes && DecodeFrameHeader(head.data(), 1, &header).ok() &&
        header.kind == FrameKind::kData) {
      header.argument = 77;
      EncodeFrameHeader(header, head.data());
    }
    sent[0].iov_base = head.data();
    return link_->TrySend(sent);
  }
};

TEST(LinkNamesTest, WhoSendsWhatItMustNotIsCalledByItsName) {
  std::vector<std::vector<std::unique_ptr<Link>>> ends =
      MakeTreeLinks(kNames.size(), LinkKind::kChain);
  ends[2][3] = std::make_unique<MiscountingLink>(std::move(ends[2][3]));
  LinkRanks links(kNames.size(), std::move(ends), /*spin=*/false, LinkKind::kChain, kNames);
  for (const Status& status : links.Run([&](int64_t, Communicator& communicator) {
         const Ref<Tensor> all = Filled(60'000);
         const Status status =
             communicator.AllGatherInto(*Filled(10'000), links.Hang(), all.get());
         // The one who sends it may have all it needs before it hears of that.
         return status.ok() ? communicator.Barrier(links.Hang()) : status;
       })) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 13: all_gather #1: rank 9 sent segment 77 on the way around; "
                          "segment 0 of rank 9 is due"));
    const StatusDetail* const peer = status.FindDetail("peer");
    ASSERT_NE(peer, nullptr);
    EXPECT_EQ(std::get<int64_t>(peer->value), 9);
  }
}

}  // namespace
}  // namespace tutti
