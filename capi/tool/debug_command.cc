#include "capi/tool/debug_command.h"

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "capi/tool/command_line.h"
#include "capi/tool/dump_views.h"
#include "capi/tool/run_options.h"
#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

using Json = DumpJson;

constexpr const char* kDebugUsage = "tutti debug DIR [-o trace.json] [--svg health.svg] [--json]";
constexpr const char* kDebugFooter = R"(
DIR is the dump_root of enable_dump_debug_info, of one process or of all workers. Of a dump that
keeps health the first tensor with a NaN or an infinity is named, where it went from there, and how
many there were in each step. What was not flushed is not there; a file that is cut off is read to
its last whole record. ui.perfetto.dev and chrome://tracing show the timeline.

  tutti debug dumps -o trace.json --svg health.svg)";

// How many events behind the first that is not finite are shown.
constexpr size_t kShownBehind = 20;
constexpr size_t kShownSteps = 20;

std::string HealthText(const Json& event) {
  if (!event.contains("nan")) return event.contains("has_nan_or_infinity") ? "not finite" : "";
  return fmt::format("{} NaN, {} +Inf, {} -Inf among {}", event["nan"].get<int64_t>(),
                     event["positive_infinity"].get<int64_t>(),
                     event["negative_infinity"].get<int64_t>(), event["elements"].get<int64_t>());
}

// "step 3, all_reduce, the input of replica 1, float32, pid 4711: 1 NaN, 0 +Inf, 0 -Inf among 8".
std::string DescribeDumped(const Json& dump, const Json& event) {
  std::string text;
  if (!event["step"].is_null()) text += fmt::format("step {}, ", event["step"].get<int64_t>());
  text += fmt::format("{}, {}", event["op"].get<std::string>(), event["name"].get<std::string>());
  if (!event["replica"].is_null()) {
    text += fmt::format(" of replica {}", event["replica"].get<int64_t>());
  }
  const Json& process = dump["processes"][event["process"].get<size_t>()];
  text += fmt::format(", {}, {}", event["dtype"].get<std::string>(), DumpedProcessText(process));
  const std::string counts = HealthText(event);
  return counts.empty() ? text : text + ": " + counts;
}

void PrintDump(const Json& dump) {
  for (const Json& process : dump["processes"]) {
    fmt::print("{}: {} events, mode {}\n", DumpedProcessText(process),
               process["events"].get<size_t>(), process["mode"].get<std::string>());
  }
  for (const Json& file : dump["damaged"]) {
    fmt::print("damaged: {}: {}\n", file["file"].get<std::string>(),
               file["reason"].get<std::string>());
  }
  fmt::print("{}", HealthTable(HealthOverSteps(dump), kShownSteps));
  const Json& first = dump["first_not_finite"];
  if (first.is_null()) {
    fmt::print("nothing that is not finite\n");
    return;
  }
  fmt::print("first not finite: {}\n", DescribeDumped(dump, first));
  size_t shown = 0;
  bool behind = false;
  for (const Json& event : dump["events"]) {
    if (!behind) {
      behind = event == first;
    } else if (event.value("has_nan_or_infinity", false)) {
      if (++shown > kShownBehind) {
        fmt::print("and more; --json has all\n");
        break;
      }
      fmt::print("then: {}\n", DescribeDumped(dump, event));
    }
  }
}

}  // namespace

int DebugCommand(const std::vector<std::string>& words) {
  CLI::App app("Reads the dumps of tensors of all workers, and says where a NaN came from.",
               "tutti debug");
  app.footer(kDebugFooter + 1);  // without its first line end
  std::string directory;
  bool as_json = false;
  app.add_option("dir", directory, "The directory of the dumps")->type_name("DIR")->required();
  std::string trace, svg;
  app.add_option("-o,--output", trace, "Where a timeline of all events goes")->type_name("FILE");
  app.add_option("--svg", svg, "Where a picture of health over steps goes")->type_name("FILE");
  app.add_flag("--json", as_json, "All events, as a JSON object");
  if (const std::optional<int> status = ReadWords(app, kDebugUsage, words)) return *status;

  tutti_bytes* bytes = nullptr;
  if (tutti_status* status = tutti_debugging_read_dumps(directory.c_str(), &bytes)) {
    fmt::print(stderr, "tutti debug: {}\n", tutti_status_get_message(status));
    tutti_status_release(status);
    return 1;
  }
  const tutti_string_view view = tutti_bytes_get_view(bytes);
  const std::string text(view.data, view.size);
  tutti_bytes_release(bytes);
  const Json dump = Json::parse(text);
  if (as_json) {
    fmt::print("{}\n", text);
  } else {
    PrintDump(dump);
  }
  std::string error;
  if (!trace.empty()) error = WriteTextFile(trace, MakeDumpTrace(dump));
  if (!svg.empty() && error.empty()) {
    error = WriteTextFile(svg, DrawHealth("health of " + directory, HealthOverSteps(dump)));
  }
  if (error.empty()) return 0;
  // What was found is what people came for; it does not depend on the files.
  std::fflush(stdout);
  fmt::print(stderr, "tutti debug: {}\n", error);
  return 1;
}

}  // namespace tutti::tool
