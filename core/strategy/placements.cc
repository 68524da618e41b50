#include "core/strategy/placements.h"

#include <string>

#include "core/base/environment.h"
#include "core/base/placement_log.h"
#include "core/base/text.h"

namespace tutti {

void LogStrategyPlacement(const Strategy& strategy, std::string_view what,
                          std::string_view reason) {
  std::string devices;
  for (size_t i = 0; i < strategy.num_local_replicas(); ++i) {
    devices += Format("{}replica {} on {}", i == 0 ? "" : ", ",
                      strategy.first_replica() + static_cast<int64_t>(i),
                      strategy.device(i).short_name());
  }
  LogPlacement(strategy.environment().log(), what, devices,
               Format("{} of {}", reason, strategy.name()));
}

}  // namespace tutti
