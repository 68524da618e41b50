#include "core/cluster/resolve/host_list.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

constexpr size_t kMaxDigits = 18;
constexpr int64_t kMaxTasksOfHost = 65'536;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct NumberRange {
  uint64_t first;
  uint64_t last;
  size_t width;  // of the first number as it is written
};

// A host's name in parts: texts, and between them ranges of numbers.
struct HostPattern {
  std::string prefix;
  std::vector<std::pair<std::vector<NumberRange>, std::string>> brackets;  // and what follows each
};

class ListReader {
 public:
  ListReader(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Result<std::vector<HostPattern>> ReadHosts() {
    std::vector<HostPattern> patterns;
    do {
      TUTTI_ASSIGN_OR_RETURN(HostPattern pattern, ReadHost());
      patterns.push_back(std::move(pattern));
    } while (Take(','));
    if (at_ != text_.size()) return Wrong("a comma, or the end");
    return patterns;
  }

  Result<std::vector<std::pair<int64_t, uint64_t>>> ReadCounts() {
    std::vector<std::pair<int64_t, uint64_t>> counts;
    do {
      TUTTI_ASSIGN_OR_RETURN(const uint64_t tasks, ReadNumber("a number of tasks"));
      if (tasks < 1 || tasks > uint64_t{kMaxTasksOfHost}) {
        return InvalidArgument("{} is {}: {} tasks on one host; expected 1 to {}", what_,
                               Quote(text_), tasks, kMaxTasksOfHost);
      }
      uint64_t times = 1;
      if (Take('(')) {
        if (!Take('x')) return Wrong("\"(x\" and a number of hosts");
        TUTTI_ASSIGN_OR_RETURN(times, ReadNumber("a number of hosts"));
        if (!Take(')')) return Wrong("\")\"");
      }
      counts.emplace_back(static_cast<int64_t>(tasks), times);
    } while (Take(','));
    if (at_ != text_.size()) return Wrong("a comma, \"(x\" or the end");
    return counts;
  }

 private:
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Status Wrong(std::string_view expected) const {
    return InvalidArgument("{} is {}: expected {} at position {}, found {}", what_, Quote(text_),
                           expected, at_,
                           at_ == text_.size() ? "the end" : Quote(text_.substr(at_, 8)));
  }

  Result<uint64_t> ReadNumber(std::string_view expected) {
    const size_t begin = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    if (at_ == begin || at_ - begin > kMaxDigits) {
      at_ = begin;
      return Wrong(expected);
    }
    return static_cast<uint64_t>(*ParseInt64(text_.substr(begin, at_ - begin)));
  }

  std::string ReadName() {
    const size_t begin = at_;
    while (at_ < text_.size() && std::string_view(",[] \t\n").find(text_[at_]) ==
                                     std::string_view::npos) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<HostPattern> ReadHost() {
    HostPattern pattern;
    const size_t begin = at_;
    pattern.prefix = ReadName();
    while (Take('[')) {
      std::vector<NumberRange> ranges;
      do {
        TUTTI_ASSIGN_OR_RETURN(const NumberRange range, ReadRange());
        ranges.push_back(range);
      } while (Take(','));
      if (!Take(']')) return Wrong("a comma, or \"]\"");
      pattern.brackets.emplace_back(std::move(ranges), ReadName());
    }
    if (at_ == begin) return Wrong("the name of a host");
    return pattern;
  }

  Result<NumberRange> ReadRange() {
    const size_t begin = at_;
    NumberRange range{};
    TUTTI_ASSIGN_OR_RETURN(range.first, ReadNumber("a number"));
    range.width = at_ - begin;
    range.last = range.first;
    if (!Take('-')) return range;
    TUTTI_ASSIGN_OR_RETURN(range.last, ReadNumber("a number"));
    if (range.last < range.first) {
      return InvalidArgument("{} is {}: the range {} ends before it begins", what_, Quote(text_),
                             Quote(text_.substr(begin, at_ - begin)));
    }
    return range;
  }

  const std::string_view text_;
  const std::string_view what_;
  size_t at_ = 0;
};

Status TooMany(std::string_view text, std::string_view what) {
  return InvalidArgument("{} is {}: more than {} hosts", what,
                         Quote(text.substr(0, 64)), kMaxListedHosts);
}

// How many hosts the pattern has; nothing for more than may be.
std::optional<size_t> CountHosts(const HostPattern& pattern) {
  size_t count = 1;
  for (const auto& bracket : pattern.brackets) {
    size_t numbers = 0;
    for (const NumberRange& range : bracket.first) {
      if (range.last - range.first >= kMaxListedHosts) return std::nullopt;
      numbers += static_cast<size_t>(range.last - range.first + 1);
      if (numbers > kMaxListedHosts) return std::nullopt;
    }
    count *= numbers;
    if (count > kMaxListedHosts) return std::nullopt;
  }
  return count;
}

void ExpandPattern(const HostPattern& pattern, size_t bracket, const std::string& begun,
                   std::vector<std::string>* hosts) {
  if (bracket == pattern.brackets.size()) {
    hosts->push_back(begun);
    return;
  }
  for (const NumberRange& range : pattern.brackets[bracket].first) {
    for (uint64_t number = range.first; number <= range.last; ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < range.width) digits.insert(0, range.width - digits.size(), '0');
      ExpandPattern(pattern, bracket + 1, begun + digits + pattern.brackets[bracket].second, hosts);
    }
  }
}

}  // namespace

Result<std::vector<std::string>> ExpandHostList(std::string_view text, std::string_view what) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<HostPattern> patterns,
                         ListReader(Trim(text), what).ReadHosts());
  size_t count = 0;
  for (const HostPattern& pattern : patterns) {
    const std::optional<size_t> own = CountHosts(pattern);
    if (!own || pattern.brackets.size() > kMaxDigits) return TooMany(text, what);
    count += *own;
    if (count > kMaxListedHosts) return TooMany(text, what);
  }
  std::vector<std::string> hosts;
  hosts.reserve(count);
  for (const HostPattern& pattern : patterns) ExpandPattern(pattern, 0, pattern.prefix, &hosts);
  return hosts;
}

Result<std::vector<int64_t>> ExpandTaskCounts(std::string_view text, std::string_view what) {
  TUTTI_ASSIGN_OR_RETURN(const auto counts, ListReader(Trim(text), what).ReadCounts());
  std::vector<int64_t> expanded;
  for (const auto& [tasks, times] : counts) {
    if (times > kMaxListedHosts || expanded.size() + times > kMaxListedHosts) {
      return TooMany(text, what);
    }
    expanded.insert(expanded.end(), static_cast<size_t>(times), tasks);
  }
  return expanded;
}

bool ComesBefore(std::string_view left, std::string_view right) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t l = 0, r = 0;
  while (l < left.size() && r < right.size()) {
    if (is_digit(left[l]) && is_digit(right[r])) {
      const auto run = [&](std::string_view text, size_t* at) {
        const size_t begin = *at;
        while (*at < text.size() && is_digit(text[*at])) ++*at;
        std::string_view digits = text.substr(begin, *at - begin);
        while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
        return digits;
      };
      const std::string_view a = run(left, &l);
      const std::string_view b = run(right, &r);
      if (a.size() != b.size()) return a.size() < b.size();
      if (a != b) return a < b;
      continue;
    }
    if (left[l] != right[r]) return left[l] < right[r];
    ++l;
    ++r;
  }
  if (l == left.size() && r == right.size()) return left < right;
  return l == left.size();
}

}  // namespace tutti
