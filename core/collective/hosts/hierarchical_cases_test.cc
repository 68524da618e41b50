// What every transport must do, over several hosts: of two ranks each, with one rank over, and with
// the ranks of two hosts in turn. With the bits that all transports have in common; what a group
// may do that is not reproducible stands in hierarchical_transport_test.cc.

#include <string>
#include <vector>

#include "core/collective/testing/collective_cases_testing.h"
#include "core/collective/testing/hierarchical_ranks_testing.h"

namespace tutti {
namespace {

enum class Spread { kPairs, kAlternating };

std::vector<std::string> Machines(size_t size, Spread spread) {
  std::vector<std::string> machines;
  for (size_t rank = 0; rank < size; ++rank) {
    size_t machine = 0;
    switch (spread) {
      case Spread::kPairs: machine = rank / 2; break;
      case Spread::kAlternating: machine = rank % 2; break;
    }
    machines.push_back(std::string(1, static_cast<char>('a' + machine)));
  }
  return machines;
}

class SpreadRanks : public HierarchicalRanks {
 public:
  SpreadRanks(size_t size, Spread spread)
      : HierarchicalRanks(Machines(size, spread),
                          SelectorTable::Reproducible(*SelectorTable::BuiltIn())) {}
};

INSTANTIATE_TEST_SUITE_P(
    Hosts, CollectiveCases,
    testing::Values(CollectiveWorldOf<SpreadRanks>("pairs", Spread::kPairs),
                    CollectiveWorldOf<SpreadRanks>("alternating", Spread::kAlternating)),
    CollectiveWorldName);

}  // namespace
}  // namespace tutti
