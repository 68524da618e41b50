// Whose word a rank has that another one, or it itself, is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/collective/link_faults.h"
#include "core/collective/link_ranks.h"

namespace tutti {
namespace {

using testing::StartsWith;

TEST(LinkBlame, WhoIsToldThatItIsGoneItselfSeesWhoseWordThatIs) {
  std::vector<std::vector<std::unique_ptr<Link>>> links =
      MakeAllLinks(3, LinkKind::kSocketPair);
  links[1][2] = std::make_unique<CutLink>(std::move(links[1][2]), 0);
  LinkRanks ranks(3, std::move(links));
  Status of_0;
  std::thread rank_0([&] { of_0 = ranks[0].Barrier(ranks.Hang()); });
  const Status of_1 = ranks[1].Barrier(ranks.Hang());
  rank_0.join();
  // It has been in no call, and hears of the end of this one from rank 0.
  const Status of_2 = ranks[2].Barrier(ranks.Hang());

  for (const Status& status : std::vector<Status>{of_0, of_1}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                StartsWith("barrier #1: rank 2 (worker 2, pid 4713) is gone"));
  }
  EXPECT_EQ(of_2.code(), StatusCode::kUnavailable) << of_2.ToString();
  EXPECT_THAT(std::string(of_2.message()),
              StartsWith("rank 0 says: barrier #1: rank 2 (worker 2, pid 4713) is gone"));
}

}  // namespace
}  // namespace tutti
