#include "core/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// The number before one of `units`, times its factor, when the product is in [0, 2^63).
template <size_t N>
std::optional<int64_t> ParseWithUnit(std::string_view text, const Unit (&units)[N]) {
  text = Trim(text);
  size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) ||
                                  text[digits] == '.')) {
    ++digits;
  }
  const std::optional<double> number = ParseDouble(text.substr(0, digits));
  if (!number) return std::nullopt;
  const std::string_view unit = Trim(text.substr(digits));
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    const double product = *number * known.factor;
    if (!(product < 9223372036854775808.0)) return std::nullopt;
    // Whole numbers stay exact beyond 2^53.
    if (const auto whole = ParseInt64(text.substr(0, digits)); whole && known.factor >= 1) {
      return *whole * static_cast<int64_t>(known.factor);
    }
    return static_cast<int64_t>(std::llround(product));
  }
  return std::nullopt;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// The length of the UTF-8 sequence at the start of `text`, 0 when it is malformed.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  size_t length = 0;
  uint32_t code = 0;
  uint32_t minimum = 0;
  if (lead < 0x80) return 1;
  if ((lead & 0xe0) == 0xc0) {
    length = 2, code = lead & 0x1f, minimum = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    length = 3, code = lead & 0x0f, minimum = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    length = 4, code = lead & 0x07, minimum = 0x10000;
  }
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = (code << 6) | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < minimum || code > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  return JoinAll(parts, separator);
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const unsigned char c : text) {
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\r': quoted += "\\r"; break;
      case '\t': quoted += "\\t"; break;
      default:
        if (c < 0x20 || c == 0x7f) {
          quoted += Format("\\x{:02x}", c);
        } else {
          quoted += static_cast<char>(c);
        }
    }
  }
  return quoted + "\"";
}

std::string JsonQuote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    const size_t length = Utf8Length(text);
    if (length == 0) {
      quoted += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f) {
      quoted += Format("\\u{:04x}", c);
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return quoted + "\"";
}

bool IsReadable(std::string_view text) {
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const size_t length = Utf8Length(text);
    if (length == 0 || c == 0x7f || (c < 0x20 && c != '\n' && c != '\t')) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::optional<int64_t> ParseInt64(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseDouble(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseDuration(std::string_view text) {
  static constexpr Unit kUnits[] = {{"ns", 1},   {"us", 1e3}, {"ms", 1e6},    {"s", 1e9},
                                    {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {"", 1e9}};
  return ParseWithUnit(text, kUnits);
}

std::optional<int64_t> ParseBytes(std::string_view text) {
  static constexpr double k = 1024;
  static constexpr Unit kUnits[] = {{"", 1},
                                    {"B", 1},
                                    {"K", k},
                                    {"KiB", k},
                                    {"M", k * k},
                                    {"MiB", k * k},
                                    {"G", k * k * k},
                                    {"GiB", k * k * k},
                                    {"T", k * k * k * k},
                                    {"TiB", k * k * k * k}};
  return ParseWithUnit(text, kUnits);
}

std::optional<bool> ParseBool(std::string_view text) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (EqualsIgnoringCase(text, yes)) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (EqualsIgnoringCase(text, no)) return false;
  }
  return std::nullopt;
}

std::string HumanBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return Format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return Format("{:.4g} {}", value, kUnits[unit]);
}

std::string HumanDuration(int64_t nanoseconds) {
  const double ns = static_cast<double>(nanoseconds);
  const double magnitude = std::fabs(ns);
  if (magnitude < 1e3) return Format("{} ns", nanoseconds);
  if (magnitude < 1e6) return Format("{:.4g} us", ns / 1e3);
  if (magnitude < 1e9) return Format("{:.4g} ms", ns / 1e6);
  return Format("{:.6g} s", ns / 1e9);
}

std::string NearestName(std::string_view name, const std::vector<std::string>& candidates) {
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  std::string best;
  std::vector<size_t> row;
  for (const std::string& candidate : candidates) {
    // Levenshtein, one row at a time.
    row.resize(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t substituted = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace tutti
