#include "capi/tool/duration.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace tutti::tool {

std::optional<Milliseconds> ParseDuration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  double unit_ms = 0;
  if (text == "ms") {
    unit_ms = 1;
  } else if (text == "s" || text.empty()) {
    unit_ms = 1e3;
  } else if (text == "m" || text == "min") {
    unit_ms = 60e3;
  } else if (text == "h") {
    unit_ms = 3600e3;
  } else {
    return std::nullopt;
  }
  const double ms = number * unit_ms;
  if (ms > 10 * 365 * 24 * 3600e3) return std::nullopt;
  return Milliseconds(std::llround(ms));
}

std::string FormatDuration(Clock::duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(seconds);
  if (whole < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

}  // namespace tutti::tool
