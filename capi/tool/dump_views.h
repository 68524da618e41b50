// What a dump looks like: a timeline in the trace event format, which ui.perfetto.dev and
// chrome://tracing show as they do that of `tutti trace`, and the health of tensors over steps as
// text and as an SVG file. A dump is the JSON of tutti_debugging_read_dumps.
#ifndef TUTTI_CAPI_TOOL_DUMP_VIEWS_H_
#define TUTTI_CAPI_TOOL_DUMP_VIEWS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::tool {

using DumpJson = nlohmann::ordered_json;

// "worker 1, pid 4711 on host", "pid 4711 on host" of a process that was in no job.
std::string DumpedProcessText(const DumpJson& process);

// A process for each of the dump's, by its worker's number where it has one, a row for each replica
// and one for what belongs to none. Times are microseconds since the first event. Events that are
// not finite are named so, and have what is known in their arguments.
std::string MakeDumpTrace(const DumpJson& dump);

// What is known of the tensors of one step. Counts of elements are 0 where the mode does not keep
// them.
struct StepHealth {
  int64_t step = -1;  // -1: outside of runs
  int64_t tensors = 0;
  int64_t not_finite = 0;  // of these
  int64_t nan = 0;
  int64_t positive_infinity = 0;
  int64_t negative_infinity = 0;
};
// Of the events that have health, in the order of steps.
std::vector<StepHealth> HealthOverSteps(const DumpJson& dump);

// A table with a line for each step, of which at most `lines` are shown: those about the first step
// that is not finite. "" where no health was kept.
std::string HealthTable(const std::vector<StepHealth>& health, size_t lines);

// A bar for each step, as high as it has tensors, of which those that are not finite are red; steps
// share bars where there are more than fit. `title` stands above it.
std::string DrawHealth(const std::string& title, const std::vector<StepHealth>& health);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DUMP_VIEWS_H_
