// Placement lines of what a strategy has on its devices (base/placement_log.h).
#ifndef TUTTI_CORE_STRATEGY_PLACEMENTS_H_
#define TUTTI_CORE_STRATEGY_PLACEMENTS_H_

#include <string_view>

#include "core/strategy/strategy.h"

namespace tutti {

// "placement: WHAT: replica 0 on CPU:0, replica 1 on CPU:1 (REASON of STRATEGY)", where placements
// are logged.
void LogStrategyPlacement(const Strategy& strategy, std::string_view what,
                          std::string_view reason);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_PLACEMENTS_H_
