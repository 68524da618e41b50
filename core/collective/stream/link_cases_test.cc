// What every transport must do, over links of every kind.

#include "core/collective/testing/collective_cases_testing.h"
#include "core/collective/testing/link_ranks.h"

namespace tutti {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Links, CollectiveCases,
    testing::Values(CollectiveWorldOf<LinkRanks>("tcp", LinkKind::kTcp),
                    CollectiveWorldOf<LinkRanks>("rings", LinkKind::kRing),
                    CollectiveWorldOf<LinkRanks>("mixed", LinkKind::kMixed),
                    CollectiveWorldOf<LinkRanks>("chain", LinkKind::kChain)),
    CollectiveWorldName);

}  // namespace
}  // namespace tutti
