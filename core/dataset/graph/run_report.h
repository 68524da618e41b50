// RunReport: a plan with what was measured of a run (run_profile.h), what limited it, and what
// would help: the answer to "why is my input slow". A value; as text for people, as JSON, which is
// read again, and as a picture (SVG).
//
// What limits a run is found from its consumer downwards. Where the consumer hardly waited, it is
// the consumer. Else, in an operation that runs on the thread of who asks, whatever took most of
// its time: itself, or one of its inputs, which is looked at next; and in one that has threads of
// its own, its function where its calls were busier than its input, else the input.
#ifndef TUTTI_CORE_DATASET_GRAPH_RUN_REPORT_H_
#define TUTTI_CORE_DATASET_GRAPH_RUN_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/graph/node.h"
#include "core/dataset/graph/run_profile.h"

namespace tutti {

// "batch(batch_size=4): 5 elements of ...", without a line end (dataset.cc).
std::string NodeText(const Node& node);

struct RunReport {
  struct Step {
    std::string label;  // "map 'decode'"
    std::string op;
    std::string text;            // its line of the plan
    std::vector<int64_t> inputs;  // steps behind this one
    bool has_function = false;
    bool calls_host = false;
    bool by_slab = false;
    int64_t parallel_argument = 0;  // num_parallel_calls or num_parallel_reads; -1: AUTOTUNE
    bool has_parallel_reads = false;
    NodeTotals totals;
    int64_t self_ns = 0;     // without its inputs
    int64_t waiting_ns = 0;  // for its inputs
    std::vector<std::string> decisions;

    // Has threads of its own, so that its inputs are not on the consumer's.
    bool runs_ahead() const { return totals.parallelism > 0 || totals.buffer_size >= 0; }
  };

  std::vector<Step> steps;  // from the last operation to the sources, inputs behind
  std::string options;      // "" where none is set
  bool measured = false;
  RunProfile::Totals run;
  int64_t bottleneck = -1;  // a step; -1: the consumer, or nothing is known
  std::string verdict;      // "map: ..."; empty where nothing is known

  // `profile` null: the plan only.
  static RunReport Of(const Node& root, const DatasetOptions& options, const RunProfile* profile);

  bool tells_of_run() const;
  std::string ToText() const;
  std::string ToJson() const;
  std::string ToSvg() const;
  // INVALID_ARGUMENT for what ToJson did not write.
  static Result<RunReport> FromJson(std::string_view json);
  // "text", "json" or "svg"; INVALID_ARGUMENT for another format.
  Result<std::string> As(std::string_view format) const;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_RUN_REPORT_H_
