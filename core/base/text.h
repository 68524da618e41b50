// Text helpers: formatting (fmt's syntax), joining, quoting, parsing of numbers and durations, and
// the search for the name that a user probably meant. Include this from .cc files.

#ifndef TUTTI_CORE_BASE_TEXT_H_
#define TUTTI_CORE_BASE_TEXT_H_

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

template <typename... Args>
std::string Format(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::vformat(format, fmt::make_format_args(args...));
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator);
// Joins anything with begin() and end() whose elements fmt can print.
template <typename Range>
std::string JoinAll(const Range& range, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& element : range) {
    if (!first) text += separator;
    first = false;
    text += Format("{}", element);
  }
  return text;
}
// Empty text gives no parts; otherwise one part more than there are separators.
std::vector<std::string> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
// "text" in double quotes, with C escapes for what does not print.
std::string Quote(std::string_view text);
// The same as a JSON string; bytes that are no UTF-8 become U+FFFD.
std::string JsonQuote(std::string_view text);
// Whether it is UTF-8, and nothing in it controls a terminal but newlines and tabs.
bool IsReadable(std::string_view text);

// The whole text must be the number.
std::optional<int64_t> ParseInt64(std::string_view text);
std::optional<double> ParseDouble(std::string_view text);
// "250ms", "2s", "1.5s", "10us", "100ns", "3m", "1h", in nanoseconds; a bare number counts seconds.
std::optional<int64_t> ParseDuration(std::string_view text);
// "512", "64K", "1.5G", "2GiB" in bytes (powers of 1024).
std::optional<int64_t> ParseBytes(std::string_view text);
// 1, true, yes, on / 0, false, no, off in any case.
std::optional<bool> ParseBool(std::string_view text);

// "1.5 MiB".
std::string HumanBytes(uint64_t bytes);
// "1.5 s", "20 ms".
std::string HumanDuration(int64_t nanoseconds);

// The candidate nearest to `name` (edit distance, at most a third of its length), or empty: for
// "did you mean".
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_TEXT_H_
