#include "capi/tool/trace_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "capi/tool/chrome_trace.h"
#include "capi/tool/command_line.h"
#include "capi/tool/divergence.h"
#include "capi/tool/flight_group.h"
#include "capi/tool/flight_record.h"
#include "capi/tool/progress_line.h"
#include "capi/tool/run_options.h"
#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

constexpr const char* kTraceUsage = "tutti trace FILE... [-o trace.json]";
constexpr const char* kTraceFooter = R"(
With TUTTI_FLIGHT_RECORDER_DIR=DIR each worker whose collective fails writes what it did last into
DIR/job-.../flight-WORKER.json; the error's message names the file. Give all files of one job,
their directory, or DIR where only one job has failed. ui.perfetto.dev and chrome://tracing show
what this command writes.

The first divergence is the first call of a communicator that its ranks made differently, that some
of them never came to, or that failed. The status is 0 also when there is one.

  tutti trace flights -o trace.json)";

}  // namespace

int TraceCommand(const std::vector<std::string>& words) {
  CLI::App app(
      "Merges the flight records of a job into one timeline and says where its ranks parted.",
      "tutti trace");
  app.footer(kTraceFooter + 1);  // without its first line end
  std::vector<std::string> paths;
  std::string output = "trace.json";
  app.add_option("files", paths, "Flight records, or directories of them")
      ->type_name("FILE...")
      ->required();
  app.add_option("-o,--output", output, "Where the timeline goes (default trace.json)")
      ->type_name("FILE");
  std::string progress_form;
  AddProgressOption(&app, "file", &progress_form);
  if (const std::optional<int> status = ReadWords(app, kTraceUsage, words)) return *status;
  if (progress_form.empty()) progress_form = ProgressOfTerminal(/*prints_at_the_end=*/true);

  std::vector<FlightRecord> records;
  std::optional<ProgressLine> progress;
  std::string error = ReadFlightRecords(paths, &records, [&](size_t read, size_t files) {
    if (progress) {
      progress->Tell(read);
    } else {
      progress.emplace(ProgressFormOf(progress_form), "tutti trace", "files", files);
    }
  });
  if (!error.empty()) {
    progress.reset();
    fmt::print(stderr, "tutti trace: {}\n", error);
    return 1;
  }
  progress->Say("finding where the ranks parted");
  const std::vector<FlightGroup> groups = FindGroups(records);
  const std::vector<int64_t> offsets = AlignClocks(records, groups);
  const std::vector<Divergence> divergences = FindDivergences(records, groups, offsets);
  progress->Say("making the timeline");
  const std::string timeline = MakeChromeTrace(records, offsets, divergences);
  progress.reset();
  error = WriteTextFile(output, timeline);
  if (error.empty()) {
    size_t events = 0;
    for (const FlightRecord& record : records) events += record.events.size();
    fmt::print("{}: {} events of {} {}; open it with ui.perfetto.dev\n", output, events,
               records.size(), records.size() == 1 ? "process" : "processes");
  }
  if (divergences.empty()) fmt::print("no divergence: every call was made alike and succeeded\n");
  for (size_t i = 0; i < divergences.size(); ++i) {
    fmt::print("{}{}\n", i == 0 ? "first divergence: " : "later: ", divergences[i].text);
  }
  if (!error.empty()) {
    // What was found is what people came for; it does not depend on the file.
    std::fflush(stdout);
    fmt::print(stderr, "tutti trace: {}\n", error);
    return 1;
  }
  return 0;
}

}  // namespace tutti::tool
