#include "capi/tool/debug_command.h"

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "capi/tool/command_line.h"
#include "capi/tool/run_options.h"

namespace tutti::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDebugUsage = "tutti debug DIR [--json]";
constexpr const char* kDebugFooter = R"(
DIR is the dump_root of enable_dump_debug_info, of one process or of all workers. Of a dump that
keeps health the first tensor with a NaN or an infinity is named, and where it went from there. What
was not flushed is not there; a file that is cut off is read to its last whole record.

  tutti debug dumps)";

// How many events behind the first that is not finite are shown.
constexpr size_t kShownBehind = 20;

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
  text += fmt::format(", {}, pid {}", event["dtype"].get<std::string>(),
                      process["pid"].get<int64_t>());
  const std::string counts = HealthText(event);
  return counts.empty() ? text : text + ": " + counts;
}

void PrintDump(const Json& dump) {
  for (const Json& process : dump["processes"]) {
    fmt::print("pid {} on {}: {} events, mode {}\n", process["pid"].get<int64_t>(),
               process["host"].get<std::string>(), process["events"].get<size_t>(),
               process["mode"].get<std::string>());
  }
  for (const Json& file : dump["damaged"]) {
    fmt::print("damaged: {}: {}\n", file["file"].get<std::string>(),
               file["reason"].get<std::string>());
  }
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
  if (as_json) {
    fmt::print("{}\n", text);
  } else {
    PrintDump(Json::parse(text));
  }
  return 0;
}

}  // namespace tutti::tool
