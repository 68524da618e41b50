// RunReport as JSON and back, and as a picture.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/graph/run_report.h"

namespace tutti {
namespace {

using Json = nlohmann::json;
using Step = RunReport::Step;

constexpr std::string_view kReportFormat = "tutti-explain";
constexpr int64_t kReportVersion = 1;

double SecondsOf(int64_t ns) { return static_cast<double>(ns) * 1e-9; }
int64_t NsOf(const Json& seconds) {
  return static_cast<int64_t>(std::clamp(seconds.get<double>() * 1e9, -1e18, 1e18));
}

// Bytes that are no UTF-8 would make the library throw.
std::string Clean(const std::string& text) {
  const std::string quoted = JsonQuote(text);
  return Json::parse(quoted).get<std::string>();
}

Json JsonOfStep(const Step& step) {
  const NodeTotals& totals = step.totals;
  return {{"label", Clean(step.label)},
          {"op", step.op},
          {"text", Clean(step.text)},
          {"inputs", step.inputs},
          {"has_function", step.has_function},
          {"callback", step.calls_host},
          {"by_slab", step.by_slab},
          {"parallel_argument", step.parallel_argument},
          {"calls", totals.calls},
          {"rows", totals.rows},
          {"failures", totals.failures},
          {"bytes", totals.bytes},
          {"seconds", SecondsOf(totals.ns)},
          {"self_seconds", SecondsOf(step.self_ns)},
          {"input_seconds", SecondsOf(step.waiting_ns)},
          {"function_calls", totals.function_calls},
          {"function_rows", totals.function_rows},
          {"function_seconds", SecondsOf(totals.function_ns)},
          {"function_computing", totals.computing},
          {"work_seconds", SecondsOf(totals.work_ns)},
          {"parallelism", totals.parallelism},
          {"buffer_size", totals.buffer_size},
          {"buffer_fill", totals.buffer_fill},
          {"buffer_empty", totals.buffer_empty},
          {"decisions", step.decisions}};
}

Step StepOfJson(const Json& json, int64_t steps) {
  Step step;
  NodeTotals& totals = step.totals;
  step.label = json.at("label").get<std::string>();
  step.op = json.at("op").get<std::string>();
  step.text = json.at("text").get<std::string>();
  step.inputs = json.at("inputs").get<std::vector<int64_t>>();
  for (const int64_t input : step.inputs) {
    if (input < 0 || input >= steps) throw std::out_of_range("an input that is no step");
  }
  step.has_function = json.at("has_function").get<bool>();
  step.calls_host = json.at("callback").get<bool>();
  step.by_slab = json.at("by_slab").get<bool>();
  step.parallel_argument = json.at("parallel_argument").get<int64_t>();
  totals.calls = json.at("calls").get<int64_t>();
  totals.rows = json.at("rows").get<int64_t>();
  totals.failures = json.at("failures").get<int64_t>();
  totals.bytes = std::clamp(json.at("bytes").get<double>(), 0.0, 1e18);
  totals.ns = NsOf(json.at("seconds"));
  step.self_ns = NsOf(json.at("self_seconds"));
  step.waiting_ns = NsOf(json.at("input_seconds"));
  totals.function_calls = json.at("function_calls").get<int64_t>();
  totals.function_rows = json.at("function_rows").get<int64_t>();
  totals.function_ns = NsOf(json.at("function_seconds"));
  totals.computing = json.at("function_computing").get<double>();
  totals.work_ns = NsOf(json.at("work_seconds"));
  totals.parallelism = json.at("parallelism").get<int64_t>();
  totals.buffer_size = json.at("buffer_size").get<int64_t>();
  totals.buffer_fill = json.at("buffer_fill").get<double>();
  totals.buffer_empty = json.at("buffer_empty").get<double>();
  step.decisions = json.at("decisions").get<std::vector<std::string>>();
  return step;
}

Status NoReport(std::string_view why) {
  return InvalidArgument(
      "explain: this is no report ({}); give what explain wrote as JSON, or a dataset's definition",
      why);
}

std::string XmlText(const std::string& text, size_t most) {
  std::string shown;
  size_t count = 0;
  for (const char c : Clean(text)) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (begins && ++count > most) return shown + "...";
    if (c == '<') {
      shown += "&lt;";
    } else if (c == '>') {
      shown += "&gt;";
    } else if (c == '&') {
      shown += "&amp;";
    } else if (c == '"') {
      shown += "&quot;";
    } else {
      shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return shown;
}

}  // namespace

std::string RunReport::ToJson() const {
  Json all = {{"format", kReportFormat},
              {"version", kReportVersion},
              {"measured", measured},
              {"options", Clean(options)},
              {"turns", run.turns},
              {"rows", run.rows},
              {"seconds", SecondsOf(run.elapsed_ns)},
              {"waited_seconds", SecondsOf(run.waited_ns)},
              {"bottleneck", bottleneck},
              {"verdict", Clean(verdict)},
              {"steps", Json::array()}};
  for (const Step& step : steps) all["steps"].push_back(JsonOfStep(step));
  if (!plan_of.empty()) all["plan_of"] = Clean(plan_of);
  for (const Part& part : parts) {
    all["parts"].push_back({{"name", Clean(part.name)},
                            {"turns", part.run.turns},
                            {"rows", part.run.rows},
                            {"seconds", SecondsOf(part.run.elapsed_ns)},
                            {"waited_seconds", SecondsOf(part.run.waited_ns)},
                            {"verdict", Clean(part.verdict)}});
  }
  return all.dump(1) + "\n";
}

Result<RunReport> RunReport::FromJson(std::string_view json) {
  try {
    const Json all = Json::parse(json);
    if (!all.is_object() || all.value("format", "") != kReportFormat) {
      return NoReport("its format is another");
    }
    if (const auto version = all.at("version").get<int64_t>(); version != kReportVersion) {
      return NoReport(Format("its version is {}, known is {}", version, kReportVersion));
    }
    RunReport report;
    report.measured = all.at("measured").get<bool>();
    report.options = all.at("options").get<std::string>();
    report.run.turns = all.at("turns").get<int64_t>();
    report.run.rows = all.at("rows").get<int64_t>();
    report.run.elapsed_ns = NsOf(all.at("seconds"));
    report.run.waited_ns = NsOf(all.at("waited_seconds"));
    report.bottleneck = all.at("bottleneck").get<int64_t>();
    report.verdict = all.at("verdict").get<std::string>();
    report.plan_of = all.value("plan_of", "");
    for (const Json& one : all.value("parts", Json::array())) {
      Part part;
      part.name = one.at("name").get<std::string>();
      part.run.turns = one.at("turns").get<int64_t>();
      part.run.rows = one.at("rows").get<int64_t>();
      part.run.elapsed_ns = NsOf(one.at("seconds"));
      part.run.waited_ns = NsOf(one.at("waited_seconds"));
      part.verdict = one.at("verdict").get<std::string>();
      report.parts.push_back(std::move(part));
    }
    const Json& steps = all.at("steps");
    for (const Json& step : steps) {
      report.steps.push_back(StepOfJson(step, static_cast<int64_t>(steps.size())));
    }
    return report;
  } catch (const std::exception& error) {
    return NoReport(error.what());
  }
}

// A column of boxes from the sources at the bottom to the consumer at the top, each step one row
// lower than the last one that asks it; the wider a bar, the more of the time was its own.
std::string RunReport::ToSvg() const {
  constexpr int kWidth = 760;
  constexpr int kRow = 64;
  constexpr size_t kMostShown = 200;
  const size_t shown = std::min(steps.size(), kMostShown);
  const int height = static_cast<int>(shown) * kRow + 90;
  std::string svg = Format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      kWidth, height);
  const std::string title =
      measured ? Format("{} rows in {}; the consumer waited {}", run.rows,
                        HumanDuration(run.elapsed_ns), HumanDuration(run.waited_ns))
               : std::string("the plan; nothing was measured");
  svg += Format("<text x=\"20\" y=\"24\" font-size=\"14\">{}</text>\n", XmlText(title, 100));
  const auto top = [](int64_t step) { return 40 + static_cast<int>(step) * kRow; };
  for (size_t i = 0; i < shown; ++i) {
    const Step& step = steps[i];
    const auto index = static_cast<int64_t>(i);
    for (const int64_t input : step.inputs) {
      if (static_cast<size_t>(input) >= shown) continue;
      const int side = input == index + 1 ? 40 : 12;
      svg += Format(
          "<path d=\"M {0} {1} L {0} {2}\" stroke=\"#888888\" stroke-width=\"2\" fill=\"none\"/>\n",
          side, top(input), top(index) + (input > index ? 48 : 0));
    }
    const double share = run.elapsed_ns > 0 ? std::clamp(static_cast<double>(step.self_ns) /
                                                             static_cast<double>(run.elapsed_ns),
                                                         0.0, 1.0)
                                            : 0;
    svg += Format(
        "<rect x=\"20\" y=\"{}\" width=\"{}\" height=\"48\" rx=\"4\" fill=\"#f4f6f8\" "
        "stroke=\"{}\" stroke-width=\"{}\"/>\n",
        top(index), kWidth - 40, index == bottleneck ? "#c0392b" : "#9aa5b1",
        index == bottleneck ? 3 : 1);
    svg += Format("<rect x=\"20\" y=\"{}\" width=\"{:.0f}\" height=\"6\" fill=\"#e67e22\"/>\n",
                  top(index) + 42, share * (kWidth - 40));
    svg += Format("<text x=\"30\" y=\"{}\">{}</text>\n", top(index) + 18, XmlText(step.text, 105));
    if (!measured) continue;
    std::string numbers = Format("{} rows, {} in it, {} for its input", step.totals.rows,
                                 HumanDuration(step.self_ns), HumanDuration(step.waiting_ns));
    if (step.has_function) numbers += step.calls_host ? ", callback" : ", native";
    if (step.totals.parallelism > 0) numbers += Format(", {} at once", step.totals.parallelism);
    if (step.totals.buffer_size >= 0) {
      numbers += Format(", {:.1f} of {} ready", step.totals.buffer_fill, step.totals.buffer_size);
    }
    svg += Format("<text x=\"30\" y=\"{}\" fill=\"#555555\">{}</text>\n", top(index) + 35,
                  XmlText(numbers, 115));
  }
  if (!verdict.empty()) {
    svg += Format("<text x=\"20\" y=\"{}\" fill=\"#c0392b\">{}</text>\n",
                  top(static_cast<int64_t>(shown)) + 16, XmlText("bottleneck: " + verdict, 120));
  }
  return svg + "</svg>\n";
}

}  // namespace tutti
