#include "capi/tool/dump_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tutti::tool {
namespace {

constexpr int64_t kNoReplica = -1;
constexpr int64_t kOutsideOfRuns = -1;

int64_t NumberOr(const DumpJson& event, const char* key, int64_t otherwise) {
  return event.contains(key) && event[key].is_number_integer() ? event[key].get<int64_t>()
                                                               : otherwise;
}

bool IsNotFinite(const DumpJson& event) { return event.value("has_nan_or_infinity", false); }

// The number of a process in the trace: its worker's, and behind all workers of one in no job or
// one whose worker another process was, too.
std::vector<int64_t> TracePids(const DumpJson& processes) {
  int64_t next = 0;
  for (const DumpJson& process : processes) {
    next = std::max(next, NumberOr(process, "worker", -1) + 1);
  }
  std::map<int64_t, bool> taken;
  std::vector<int64_t> pids;
  for (const DumpJson& process : processes) {
    const int64_t worker = NumberOr(process, "worker", -1);
    pids.push_back(worker >= 0 && !std::exchange(taken[worker], true) ? worker : next++);
  }
  return pids;
}

std::string XmlText(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += ' ';
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string StepText(int64_t step) {
  return step == kOutsideOfRuns ? std::string("-") : fmt::format("{}", step);
}

void Add(const StepHealth& more, StepHealth* sum) {
  sum->tensors += more.tensors;
  sum->not_finite += more.not_finite;
  sum->nan += more.nan;
  sum->positive_infinity += more.positive_infinity;
  sum->negative_infinity += more.negative_infinity;
}

}  // namespace

std::string DumpedProcessText(const DumpJson& process) {
  const int64_t worker = NumberOr(process, "worker", -1);
  return fmt::format("{}pid {} on {}", worker < 0 ? "" : fmt::format("worker {}, ", worker),
                     process["pid"].get<int64_t>(), process["host"].get<std::string>());
}

std::string MakeDumpTrace(const DumpJson& dump) {
  DumpJson events = DumpJson::array();
  const std::vector<int64_t> pids = TracePids(dump["processes"]);
  for (size_t i = 0; i < pids.size(); ++i) {
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", pids[i]},
                      {"args", {{"name", DumpedProcessText(dump["processes"][i])}}}});
  }
  const int64_t start = dump["events"].empty() ? 0 : dump["events"][0]["time_us"].get<int64_t>();
  std::map<std::pair<int64_t, int64_t>, bool> named;
  for (const DumpJson& event : dump["events"]) {
    const int64_t pid = pids.at(event["process"].get<size_t>());
    const int64_t replica = NumberOr(event, "replica", kNoReplica);
    const int64_t row = replica + 1;
    if (!std::exchange(named[{pid, row}], true)) {
      events.push_back(
          {{"name", "thread_name"},
           {"ph", "M"},
           {"pid", pid},
           {"tid", row},
           {"args",
            {{"name", replica < 0 ? "no replica" : fmt::format("replica {}", replica)}}}});
    }
    const bool bad = IsNotFinite(event);
    DumpJson traced = {
        {"name", event["op"].get<std::string>() + (bad ? " (not finite)" : "")},
        {"cat", bad ? "not finite" : "tensor"},
        {"ph", "i"},
        {"s", bad ? "p" : "t"},
        {"ts", event["time_us"].get<int64_t>() - start},
        {"pid", pid},
        {"tid", row},
        {"args", event}};
    if (bad) traced["cname"] = "terrible";
    events.push_back(std::move(traced));
  }
  const DumpJson trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump();
}

std::vector<StepHealth> HealthOverSteps(const DumpJson& dump) {
  std::map<int64_t, StepHealth> steps;
  for (const DumpJson& event : dump["events"]) {
    if (!event.contains("has_nan_or_infinity")) continue;
    StepHealth one;
    one.tensors = 1;
    one.not_finite = IsNotFinite(event) ? 1 : 0;
    one.nan = NumberOr(event, "nan", 0);
    one.positive_infinity = NumberOr(event, "positive_infinity", 0);
    one.negative_infinity = NumberOr(event, "negative_infinity", 0);
    const int64_t step = NumberOr(event, "step", kOutsideOfRuns);
    steps[step].step = step;
    Add(one, &steps[step]);
  }
  std::vector<StepHealth> health;
  for (const auto& [step, known] : steps) health.push_back(known);
  return health;
}

std::string HealthTable(const std::vector<StepHealth>& health, size_t lines) {
  if (health.empty()) return "";
  const auto bad = std::find_if(health.begin(), health.end(),
                                [](const StepHealth& step) { return step.not_finite > 0; });
  // As many before the first that is not finite as fit, and it in the middle where there are more.
  size_t first = 0;
  if (bad != health.end() && health.size() > lines) {
    const auto at = static_cast<size_t>(bad - health.begin());
    first = std::min(at > lines / 2 ? at - lines / 2 : 0, health.size() - lines);
  }
  const size_t end = std::min(health.size(), first + lines);
  std::string table = "  step  tensors  not finite        NaN       +Inf       -Inf\n";
  for (size_t i = first; i < end; ++i) {
    const StepHealth& step = health[i];
    table += fmt::format("{:>6} {:>8} {:>11} {:>10} {:>10} {:>10}\n", StepText(step.step),
                         step.tensors, step.not_finite, step.nan, step.positive_infinity,
                         step.negative_infinity);
  }
  if (end - first < health.size()) {
    table += fmt::format("of {} steps; --json has all events\n", health.size());
  }
  return table;
}

std::string DrawHealth(const std::string& title, const std::vector<StepHealth>& health) {
  constexpr size_t kMostBars = 300;
  constexpr double kLeft = 70, kTop = 50, kWidth = 720, kHeight = 240;
  const size_t per_bar = std::max<size_t>(1, (health.size() + kMostBars - 1) / kMostBars);
  std::vector<std::pair<std::string, StepHealth>> bars;
  for (size_t i = 0; i < health.size(); i += per_bar) {
    const size_t last = std::min(health.size(), i + per_bar) - 1;
    StepHealth sum;
    for (size_t j = i; j <= last; ++j) Add(health[j], &sum);
    std::string steps = StepText(health[i].step);
    if (last > i) steps += " to " + StepText(health[last].step);
    bars.emplace_back(std::move(steps), sum);
  }
  int64_t most = 1;
  for (const auto& [steps, sum] : bars) most = std::max(most, sum.tensors);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"15\">{3}</text>\n"
      "<text x=\"{2}\" y=\"41\" fill=\"#555\">tensors by step; red: with a NaN or an "
      "infinity</text>\n",
      kLeft + kWidth + 30, kTop + kHeight + 45, kLeft, XmlText(title));
  const double bottom = kTop + kHeight;
  const double pitch = kWidth / static_cast<double>(std::max<size_t>(1, bars.size()));
  const double scale = kHeight / static_cast<double>(most);
  const auto draw = [&](size_t at, int64_t from, int64_t count, const char* color,
                        const std::string& tip) {
    if (count == 0) return;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\">"
        "<title>{}</title></rect>\n",
        kLeft + static_cast<double>(at) * pitch, bottom - static_cast<double>(from + count) * scale,
        std::max(0.5, pitch * 0.8), static_cast<double>(count) * scale, color, XmlText(tip));
  };
  for (size_t i = 0; i < bars.size(); ++i) {
    const auto& [steps, sum] = bars[i];
    const std::string tip = fmt::format(
        "step {}: {} of {} tensors not finite; {} NaN, {} +Inf, {} -Inf", steps, sum.not_finite,
        sum.tensors, sum.nan, sum.positive_infinity, sum.negative_infinity);
    draw(i, 0, sum.not_finite, "#c62828", tip);
    draw(i, sum.not_finite, sum.tensors - sum.not_finite, "#90a4ae", tip);
  }
  svg += fmt::format(
      "<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"black\"/>\n"
      "<text x=\"{4}\" y=\"{5}\" text-anchor=\"end\">{6}</text>\n"
      "<text x=\"{4}\" y=\"{2}\" text-anchor=\"end\">0</text>\n",
      kLeft, kTop, bottom, kLeft + kWidth, kLeft - 8, kTop + 10, most);
  if (!bars.empty()) {
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\">step {}</text>\n"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">step {}</text>\n",
        kLeft, bottom + 20, StepText(health.front().step), kLeft + kWidth, bottom + 20,
        StepText(health.back().step));
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::tool
