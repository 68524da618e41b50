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
#include <utility>
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

  // One of several runs that a report adds up.
  struct Part {
    std::string name;  // "rank 0"
    RunProfile::Totals run;
    std::string verdict;
  };
  std::vector<Part> parts;  // empty: it is of one run
  std::string plan_of;      // the part whose steps these are, where plans differ

  // `profile` null: the plan only.
  static RunReport Of(const Node& root, const DatasetOptions& options, const RunProfile* profile);
  // Several runs of one plan, such as those of all ranks, by name: what steps did is added up, the
  // run is as long as the longest one, and the bottleneck is that of the run whose consumer waited
  // for most of its time. Where plans differ, the steps are that run's alone. There is one at
  // least.
  static RunReport Sum(std::vector<std::pair<std::string, RunReport>> runs);
  // Elements were asked for ahead of a consumer, who had these numbers. Where it waits and the
  // pipeline is in time, the bottleneck is `between`.
  void SetConsumer(const RunProfile::Totals& consumer, std::string_view between);

  bool tells_of_run() const;
  std::string ToText() const;
  std::string ToJson() const;
  std::string ToSvg() const;
  // INVALID_ARGUMENT for what ToJson did not write.
  static Result<RunReport> FromJson(std::string_view json);
  // "text", "json" or "svg"; INVALID_ARGUMENT for another format.
  Result<std::string> As(std::string_view format) const;

 private:
  // Finds the bottleneck of steps whose times are divided.
  void Judge();
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_RUN_REPORT_H_
