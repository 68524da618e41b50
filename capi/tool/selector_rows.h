// The table of algorithms (`tutti doctor` prints it) as the command sees it: rows of text, which
// the library reads and writes. Steps are what the table says to one collective, between so many
// ranks that reach each other in one way.

#ifndef TUTTI_CAPI_TOOL_SELECTOR_ROWS_H_
#define TUTTI_CAPI_TOOL_SELECTOR_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tool {

struct SelectorChoice {
  std::string algorithm;
  std::string chunk;  // "128KiB"; empty where there is none to choose

  bool operator==(const SelectorChoice&) const = default;
  // "slice_and_share 128KiB".
  std::string ToString() const;
};

struct SelectorStep {
  static constexpr int64_t kAny = INT64_MAX;

  int64_t limit = kAny;  // of the payload's bytes; those of several steps grow
  SelectorChoice choice;

  bool operator==(const SelectorStep&) const = default;
};

// Whose steps they are.
struct SelectorPlace {
  std::string collective;
  std::string locality;
  int64_t ranks = 2;
};

// "64KiB", "any".
std::string SelectorSizeText(int64_t bytes);

// The steps in a table such as tutti_runtime_describe_collectives gives; the last one's limit is
// kAny. Empty when the table says nothing of the place.
std::vector<SelectorStep> StepsOfTable(const std::string& table, const SelectorPlace& place);
// The algorithms that a table names, each once.
std::vector<std::string> AlgorithmsOfTable(const std::string& table);
// Rows that the library reads, a line each.
std::string RowsOfSteps(const SelectorPlace& place, const std::vector<SelectorStep>& steps);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_SELECTOR_ROWS_H_
