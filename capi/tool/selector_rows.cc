#include "capi/tool/selector_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "capi/tool/bench_options.h"

namespace tutti::tool {
namespace {

constexpr int64_t kKi = 1024;

std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "any", "4", "2-4" or "2-".
bool RanksFit(std::string_view text, int64_t ranks) {
  if (text == "any") return true;
  const size_t dash = text.find('-');
  const std::optional<int64_t> least = NumberOf(text.substr(0, dash));
  if (!least) return false;
  if (dash == std::string_view::npos) return ranks == *least;
  if (dash + 1 == text.size()) return ranks >= *least;
  const std::optional<int64_t> most = NumberOf(text.substr(dash + 1));
  return most && ranks >= *least && ranks <= *most;
}

// "any", "64KiB", "64KiB/ranks" or "64KiB/peers", as a group of that size has it.
std::optional<int64_t> LimitOf(const std::string& text, int64_t ranks) {
  if (text == "any") return SelectorStep::kAny;
  const size_t slash = text.find('/');
  const std::optional<int64_t> bytes = ParseByteSize(text.substr(0, slash));
  if (!bytes || slash == std::string::npos) return bytes;
  return *bytes / std::max<int64_t>(text.substr(slash) == "/ranks" ? ranks : ranks - 1, 1);
}

std::vector<std::vector<std::string>> WordsOfRows(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream rest(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; rest >> word;) words.push_back(word);
    if (words.size() >= 5) rows.push_back(std::move(words));
  }
  return rows;
}

}  // namespace

std::string SelectorChoice::ToString() const {
  return chunk.empty() ? algorithm : algorithm + " " + chunk;
}

std::string SelectorSizeText(int64_t bytes) {
  if (bytes == SelectorStep::kAny) return "any";
  if (bytes > 0 && bytes % (kKi * kKi) == 0) return fmt::format("{}MiB", bytes / (kKi * kKi));
  if (bytes > 0 && bytes % kKi == 0) return fmt::format("{}KiB", bytes / kKi);
  return fmt::format("{}", bytes);
}

std::vector<SelectorStep> StepsOfTable(const std::string& table, const SelectorPlace& place) {
  std::vector<SelectorStep> steps;
  for (const std::vector<std::string>& words : WordsOfRows(table)) {
    if (words[0] != place.collective || words[1] != place.locality ||
        !RanksFit(words[2], place.ranks)) {
      continue;
    }
    const std::optional<int64_t> limit = LimitOf(words[3], place.ranks);
    // An earlier row holds for whatever is not more than its limit.
    if (!limit || (!steps.empty() && *limit <= steps.back().limit)) continue;
    const SelectorChoice choice{words[4], words.size() > 5 ? words[5] : ""};
    if (!steps.empty() && steps.back().choice == choice) {
      steps.back().limit = *limit;
    } else {
      steps.push_back({*limit, choice});
    }
  }
  return steps;
}

std::vector<std::string> AlgorithmsOfTable(const std::string& table) {
  std::vector<std::string> names;
  for (const std::vector<std::string>& words : WordsOfRows(table)) {
    if (std::find(names.begin(), names.end(), words[4]) == names.end()) names.push_back(words[4]);
  }
  return names;
}

std::string RowsOfSteps(const SelectorPlace& place, const std::vector<SelectorStep>& steps) {
  std::string rows;
  for (const SelectorStep& step : steps) {
    rows += fmt::format("{:<14} {:<13} {:<5} {:<11} {}\n", place.collective, place.locality,
                        place.ranks, SelectorSizeText(step.limit), step.choice.ToString());
  }
  return rows;
}

}  // namespace tutti::tool
