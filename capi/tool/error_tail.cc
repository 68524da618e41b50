#include "capi/tool/error_tail.h"

#include <algorithm>
#include <cctype>

namespace tutti::tool {
namespace {

constexpr std::string_view kCodes[] = {
    "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",    "DEADLINE_EXCEEDED",
    "NOT_FOUND",      "ALREADY_EXISTS",    "PERMISSION_DENIED",   "RESOURCE_EXHAUSTED",
    "ABORTED",        "FAILED_PRECONDITION", "OUT_OF_RANGE",      "UNIMPLEMENTED",
    "INTERNAL",       "UNAVAILABLE",       "DATA_LOSS",           "UNAUTHENTICATED"};
constexpr std::string_view kPeerCodes[] = {"UNAVAILABLE", "ABORTED"};
constexpr std::string_view kPeerClasses[] = {"UnavailableError", "AbortedError",
                                             "UnavailableException", "AbortedException"};

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where `word` stands by itself; npos when nowhere.
size_t FindWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsOfWord(text[at - 1])) && (end == text.size() || !IsOfWord(text[end]))) {
      return at;
    }
  }
  return std::string_view::npos;
}

bool HasCode(std::string_view line) {
  return std::any_of(std::begin(kCodes), std::end(kCodes), [&](std::string_view code) {
    const size_t at = FindWord(line, code);
    return at != std::string_view::npos && line.substr(at + code.size()).starts_with(":");
  });
}

// "package.SomeError: text", "SomeException", "KeyboardInterrupt": what a language prints of an
// exception that nobody has caught begins with its class.
bool BeginsWithException(std::string_view line) {
  const size_t end = std::min(line.find_first_of(": "), line.size());
  const std::string_view name = line.substr(0, end);
  if (name.empty() || (end < line.size() && line[end] != ':')) return false;
  const bool is_name = std::all_of(name.begin(), name.end(), [](char c) {
    return IsOfWord(c) || c == '.' || c == '$';
  });
  if (!is_name) return false;
  return name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Interrupt");
}

bool LooksLikeError(std::string_view line) {
  if (line.empty() || line.front() == ' ' || line.front() == '\t') return false;
  return BeginsWithException(line) || line.starts_with("Caused by: ") ||
         line.starts_with("Exception in thread ") || line.starts_with("panic: ") || HasCode(line);
}

}  // namespace

void ErrorTail::Add(std::string_view text) {
  const bool ends = !text.empty() && text.back() == '\n';
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (!text.empty()) {
    if (!is_open_) lines_.emplace_back();
    std::string& line = lines_.back();
    line += text.substr(0, kMostLineBytes - line.size());
    if (lines_.size() > kMostLines) lines_.pop_front();
  }
  is_open_ = !ends && (is_open_ || !text.empty());
}

std::string ErrorTail::LastError() const {
  const auto last = std::find_if(lines_.rbegin(), lines_.rend(), LooksLikeError);
  return last == lines_.rend() ? std::string() : *last;
}

bool IsAboutAPeer(std::string_view error) {
  const auto has = [&](std::string_view word) {
    return FindWord(error, word) != std::string_view::npos;
  };
  return std::any_of(std::begin(kPeerCodes), std::end(kPeerCodes), has) ||
         std::any_of(std::begin(kPeerClasses), std::end(kPeerClasses), has);
}

}  // namespace tutti::tool
