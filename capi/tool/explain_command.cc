#include "capi/tool/explain_command.h"

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "capi/tool/c_handles.h"
#include "capi/tool/command_line.h"
#include "capi/tool/run_options.h"
#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

constexpr const char* kExplainUsage = "tutti explain FILE [--json | --svg PICTURE]";
constexpr const char* kExplainFooter = R"(
FILE is a dataset's definition, as serialize gives it, or the report of a run, which explain of an
iterator or a dataset writes as JSON. Of a definition there is the plan: operations, cardinalities,
specs, and which functions are callbacks. Of a run there are rows, bytes and times, too, what was
chosen for AUTOTUNE, and the bottleneck with the change that would help; it is measured where the
option experimental_stats.profile is set.

  tutti explain run.json --svg run.svg)";

// A definition names at most so many functions that nobody here has.
constexpr int kMostFunctions = 10000;

tutti_status* NeverCalled(tutti_context*, const tutti_value*, tutti_value**, void*) {
  return tutti_status_create(TUTTI_UNIMPLEMENTED, "tutti explain calls no functions");
}

using CDataset = std::unique_ptr<tutti_dataset, Releaser<tutti_dataset_release>>;

// The name of the function that a definition asks for; empty where the failure is another one.
std::string MissingFunction(const tutti_status* status) {
  if (tutti_status_get_code(status) != TUTTI_NOT_FOUND) return "";
  for (size_t i = 0; i < tutti_status_get_detail_count(status); ++i) {
    tutti_detail detail = TUTTI_DETAIL_INIT;
    if (CStatus failed{tutti_status_get_detail(status, i, &detail)}) return "";
    if (std::strcmp(detail.key, "function") == 0 && detail.kind == TUTTI_DETAIL_STRING) {
      return std::string(detail.string_value.data, detail.string_value.size);
    }
  }
  return "";
}

// The functions of a program are not here: others take their places, which are never called.
CStatus ReadDefinition(const std::string& bytes, CDataset* dataset) {
  for (int functions = 0;; ++functions) {
    CStatus status(
        tutti_dataset_deserialize(nullptr, bytes.data(), bytes.size(), Out(dataset)));
    const std::string missing = status ? MissingFunction(status.get()) : "";
    if (missing.empty() || functions == kMostFunctions) return status;
    TUTTI_TOOL_RETURN_IF_FAILED(
        tutti_function_register(nullptr, missing.c_str(), {&NeverCalled, nullptr, nullptr},
                                nullptr));
  }
}

CStatus Explain(const std::string& contents, const char* format, std::string* text) {
  CBytes bytes;
  if (contents.find_first_not_of(" \t\r\n") != std::string::npos &&
      contents[contents.find_first_not_of(" \t\r\n")] == '{') {
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_dataset_explain_report(contents.data(), contents.size(),
                                                             format, Out(&bytes)));
  } else {
    CDataset dataset;
    TUTTI_TOOL_RETURN_IF_FAILED(ReadDefinition(contents, &dataset));
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_dataset_explain_as(dataset.get(), format, Out(&bytes)));
  }
  *text = TextOf(bytes);
  return nullptr;
}

}  // namespace

int ExplainCommand(const std::vector<std::string>& words) {
  CLI::App app("The plan of a saved dataset, or the report of a run with its bottleneck.",
               "tutti explain");
  app.footer(kExplainFooter + 1);  // without its first line end
  std::string file, svg;
  bool as_json = false;
  app.add_option("file", file, "A definition, or a report as JSON")->type_name("FILE")->required();
  CLI::Option* const json = app.add_flag("--json", as_json, "As one JSON object");
  app.add_option("--svg", svg, "Where a picture goes")->type_name("PICTURE")->excludes(json);
  if (const std::optional<int> status = ReadWords(app, kExplainUsage, words)) return *status;

  std::string contents, text;
  std::string error = ReadTextFile(file, &contents);
  if (error.empty()) {
    const char* format = !svg.empty() ? "svg" : as_json ? "json" : "text";
    if (const CStatus failed = Explain(contents, format, &text)) {
      error = fmt::format("{}: {}", file, tutti_status_get_message(failed.get()));
    }
  }
  if (error.empty() && !svg.empty()) error = WriteTextFile(svg, text);
  if (!error.empty()) {
    fmt::print(stderr, "tutti explain: {}\n", error);
    return 1;
  }
  if (svg.empty()) fmt::print("{}", text);
  return 0;
}

}  // namespace tutti::tool
