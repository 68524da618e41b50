#include "core/base/placement_log.h"

#include "core/base/log.h"
#include "core/base/text.h"

namespace tutti {

void LogPlacement(Log& log, std::string_view what, std::string_view devices,
                  std::string_view reason) {
  const LogLevel level = log.Enabled(LogLevel::kInfo) ? LogLevel::kInfo : log.level();
  if (level == LogLevel::kOff) return;
  log.Write(level, Format("placement: {}: {} ({})", what, devices, reason));
}

}  // namespace tutti
