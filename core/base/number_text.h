// ReadNumber: a number as a text has it, in files and in what users write in byte strings.
//
//   int64_t count;
//   ReadNumber(" +12 ", &count);   // true, 12
//   float x;
//   ReadNumber("1e400", &x);       // true, infinity
//
// Blanks around it do not count. A float is rounded to the nearest, as IEEE 754 has it: one that is
// too large is infinity, one that is too small 0. An integer that does not fit is none. It knows no
// locale.

#ifndef TUTTI_CORE_BASE_NUMBER_TEXT_H_
#define TUTTI_CORE_BASE_NUMBER_TEXT_H_

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tutti {

inline std::string_view WithoutBlanksAround(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// What a decimal number beyond the range of floats is nearest to: infinity or 0, with its sign. Its
// power of ten tells, which is far from 0 then.
template <class T>
T NearestBeyondRange(std::string_view text) {
  const T sign = text.starts_with('-') ? T{-1} : T{1};
  int64_t power = 0;
  bool is_fraction = false;
  bool has_begun = false;  // at a digit other than 0
  const size_t exponent = std::min(text.find_first_of("eE"), text.size());
  for (const char c : text.substr(0, exponent)) {
    if (c == '.') is_fraction = true;
    if (c < '0' || c > '9') continue;
    has_begun = has_begun || c != '0';
    if (has_begun && !is_fraction) ++power;
    if (!has_begun && is_fraction) --power;
  }
  int64_t written = 0;
  bool is_negative = false;
  for (const char c : text.substr(exponent)) {
    if (c == '-') is_negative = true;
    if (c >= '0' && c <= '9') written = std::min<int64_t>(written * 10 + (c - '0'), 1'000'000'000);
  }
  power += is_negative ? -written : written;
  return sign * (power > 0 ? std::numeric_limits<T>::infinity() : T{0});
}

// False, and `value` is anything, where the text is no number of T.
template <class T>
bool ReadNumber(std::string_view text, T* value) {
  text = WithoutBlanksAround(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, *value);
  if (read.ptr != end) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (read.ec == std::errc::result_out_of_range) {
      *value = NearestBeyondRange<T>(text);
      return true;
    }
  }
  return read.ec == std::errc();
}

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_NUMBER_TEXT_H_
