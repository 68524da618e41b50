#include "core/dataset/graph/run_report.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/function/function.h"

namespace tutti {
namespace {

using Step = RunReport::Step;

// A plan has more operations than anybody reads: the rest is left away.
constexpr size_t kMostSteps = 1000;
// The consumer waits for less of the time than that: it is what is slow.
constexpr double kHardlyWaits = 0.1;
// Calls in which threads computed less than that waited for something.
constexpr double kComputes = 0.7;
// Behind one lock one call computes at a time; where other programs have the processor, less.
constexpr double kLeastBehindLock = 0.3;
constexpr double kMostBehindLock = 1.3;
// So many calls are under way where they wait for the lock before they begin.
constexpr double kOneUnderWay = 1.5;
// Where who asks for elements waits for a smaller part of what its consumer waits, it is in time.
constexpr double kReadyInTime = 0.5;

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }
double Share(int64_t part, int64_t whole) {
  return Share(static_cast<double>(part), static_cast<double>(whole));
}

std::string Percent(double share) { return Format("{:.0f} %", share * 100); }

std::string Each(int64_t ns, int64_t rows) { return HumanDuration(rows > 0 ? ns / rows : 0); }

Step StepOf(const Node& node, const RunProfile* profile) {
  Step step;
  step.label = node.label();
  step.op = node.op().name;
  step.text = NodeText(node);
  for (const Ref<Function>& function : node.functions()) {
    step.has_function = true;
    step.calls_host = step.calls_host || function->calls_host();
    step.by_slab = step.by_slab || function->takes_slabs();
  }
  if (const auto* reads = node.attributes().Get<int64_t>("num_parallel_reads")) {
    step.has_parallel_reads = true;
    step.parallel_argument = *reads;
  } else if (const auto* calls = node.attributes().Get<int64_t>("num_parallel_calls")) {
    step.parallel_argument = *calls;
  }
  if (profile == nullptr) return step;
  if (profile->measures()) step.totals = profile->Read(node);
  step.decisions = profile->Decisions(node);
  return step;
}

// The nodes in an order in which each stands before its inputs as they are met; one that comes
// again is told once.
void CollectSteps(const Node& root, const RunProfile* profile, std::vector<Step>* steps) {
  std::unordered_map<const Node*, int64_t> known;
  struct Visit {
    const Node* node;
    int64_t consumer;  // -1: none
  };
  std::vector<Visit> visits = {{&root, -1}};
  while (!visits.empty()) {
    const Visit visit = visits.back();
    visits.pop_back();
    int64_t index = -1;
    if (const auto found = known.find(visit.node); found != known.end()) {
      index = found->second;
    } else if (steps->size() < kMostSteps) {
      index = static_cast<int64_t>(steps->size());
      known.emplace(visit.node, index);
      steps->push_back(StepOf(*visit.node, profile));
      for (size_t i = visit.node->inputs().size(); i-- > 0;) {
        visits.push_back({&visit.node->input(i), index});
      }
    }
    if (index >= 0 && visit.consumer >= 0) {
      (*steps)[static_cast<size_t>(visit.consumer)].inputs.push_back(index);
    }
  }
}

// What limits, and why.
class Search {
 public:
  Search(std::vector<Step>* steps, const RunProfile::Totals& run) : steps_(*steps), run_(run) {}

  void DivideTimes() {
    for (Step& step : steps_) {
      int64_t below = 0;
      for (const int64_t input : step.inputs) below += At(input).totals.ns;
      if (step.totals.parallelism > 0) {
        const int64_t work = std::max(step.totals.function_ns, step.totals.work_ns);
        step.self_ns = std::max<int64_t>(0, work - (step.totals.work_ns > 0 ? below : 0));
      } else if (step.totals.buffer_size < 0) {
        step.self_ns = std::max<int64_t>(0, step.totals.ns - below);
      }
      step.waiting_ns = step.runs_ahead() ? below : std::min(below, step.totals.ns);
    }
  }

  int64_t Bottleneck() const {
    size_t at = 0;
    // Inputs stand anywhere, but a graph has no circles.
    for (size_t turns = 0; turns <= steps_.size(); ++turns) {
      const Step& step = steps_[at];
      int64_t slowest = -1;
      for (const int64_t input : step.inputs) {
        if (slowest < 0 || At(input).totals.ns > At(slowest).totals.ns) slowest = input;
      }
      if (slowest < 0) break;
      const int64_t own =
          step.totals.parallelism > 0 ? step.self_ns / step.totals.parallelism : step.self_ns;
      if (own >= At(slowest).totals.ns) break;
      at = static_cast<size_t>(slowest);
    }
    return static_cast<int64_t>(at);
  }

  std::string Verdict(int64_t bottleneck) const {
    const Step& step = At(bottleneck);
    const std::string advice = Advice(step);
    return Format("{}: {}", step.label, advice);
  }

 private:
  const Step& At(int64_t index) const { return steps_[static_cast<size_t>(index)]; }

  std::string Advice(const Step& step) const {
    if (step.totals.function_calls > 0 && !step.inputs.empty()) return OfFunction(step);
    if (step.has_parallel_reads || step.inputs.empty()) return OfSource(step);
    const std::string time = Format("takes {} of the {} that the run took itself",
                                    HumanDuration(step.self_ns), HumanDuration(run_.elapsed_ns));
    if (step.totals.parallelism > 0) {
      return Format("{}, on {} threads: {}", time, step.totals.parallelism,
                    step.parallel_argument > 0 ? "more num_parallel_calls would help, or AUTOTUNE"
                                               : "what it reads, or its datasets do, is slow");
    }
    if (step.parallel_argument == 0 && step.op == "interleave") {
      return time + ": with num_parallel_calls=AUTOTUNE its datasets would be read at once";
    }
    return time + (HasPrefetch() ? ": less work for it would help"
                                 : ": a prefetch behind it would do that beside the consumer");
  }

  std::string OfSource(const Step& step) const {
    const int64_t rows = step.totals.rows;
    const std::string slow =
        Format("the source is what is slow, {} an element", Each(step.totals.ns, rows));
    if (step.has_parallel_reads) {
      if (step.parallel_argument == 0 || step.parallel_argument == 1) {
        return slow + ": with num_parallel_reads=AUTOTUNE several files would be read at once";
      }
      return Format("{}, on {} threads: more num_parallel_reads, or faster storage", slow,
                    step.totals.parallelism);
    }
    if (step.has_function || step.op == "from_generator") {
      return slow + ": it calls the program for each; a cache, or interleave of several such "
                    "sources with num_parallel_calls, would help";
    }
    return slow + (HasPrefetch() ? ": a cache, or elements that are smaller, would help"
                                 : ": a prefetch at the end would read beside the consumer");
  }

  std::string OfFunction(const Step& step) const {
    const NodeTotals& totals = step.totals;
    const std::string each = Each(totals.function_ns, totals.function_rows);
    const char* native = "as an expression it would be native";
    const std::string what =
        Format("calls {} per {}: {} each", step.calls_host ? "the program" : "a native function",
               step.by_slab ? "slab" : "row", each);
    if (totals.parallelism > 1) {
      // How many of the calls were computing at once, on average.
      const double computing = Share(static_cast<double>(totals.function_ns) * totals.computing,
                                     static_cast<double>(run_.elapsed_ns));
      const double calling = Share(totals.function_ns, run_.elapsed_ns);
      if (step.calls_host && computing > kLeastBehindLock && computing < kMostBehindLock &&
          (totals.computing < kComputes || calling < kOneUnderWay)) {
        return Format(
            "{}, and its {} calls take turns: on average {:.1f} are under way and {:.1f} compute, "
            "as behind one lock (Python's, or the function's own); {}, and so could a function by "
            "slab make fewer calls",
            what, totals.parallelism, calling, computing, native);
      }
      // What a call waits for is not known: a lock whose next owner is late looks as I/O does.
      return Format(
          "{}, {} at once: {}{}", what, totals.parallelism,
          totals.computing < kComputes
              ? Format("on average {:.1f} are under way and {:.1f} compute, the others wait: for "
                       "I/O, where more num_parallel_calls would help, or for a lock or a "
                       "processor, where they would not",
                       calling, computing)
              : "they compute all the time; more cores, or less to compute, would help",
          step.calls_host ? Format("; {}", native) : std::string());
    }
    const char* parallel = step.by_slab || step.op != "map"
                               ? ""
                               : ", and num_parallel_calls=AUTOTUNE would make several at once";
    if (!step.calls_host) return what + parallel;
    return Format("{}; {}{}", what, native, parallel);
  }

  bool HasPrefetch() const {
    return std::any_of(steps_.begin(), steps_.end(),
                       [](const Step& step) { return step.op == "prefetch"; });
  }

  std::vector<Step>& steps_;
  const RunProfile::Totals& run_;
};

// With its part of the run; of threads of a node's own it may be more than all of it.
std::string TimeOf(int64_t ns, const RunProfile::Totals& run) {
  if (run.elapsed_ns <= 0) return HumanDuration(ns);
  return Format("{} ({})", HumanDuration(ns), Percent(Share(ns, run.elapsed_ns)));
}

std::string StepNumbers(const Step& step, const RunProfile::Totals& run) {
  const NodeTotals& totals = step.totals;
  std::string text = Format("{} rows", totals.rows);
  if (totals.bytes > 0) {
    text += Format(", about {}", HumanBytes(static_cast<uint64_t>(totals.bytes)));
  }
  if (totals.failures > 0) text += Format(", {} failed", totals.failures);
  text += Format("; {} in it", TimeOf(step.self_ns, run));
  if (!step.inputs.empty()) text += Format(", {} for its input", TimeOf(step.waiting_ns, run));
  if (step.runs_ahead()) text += Format(", {} waited for it", TimeOf(totals.ns, run));
  if (totals.function_calls > 0) {
    text += Format("; {} {} calls, {} a row", totals.function_calls,
                   step.calls_host ? "callback" : "native",
                   Each(totals.function_ns, totals.function_rows));
  }
  if (totals.parallelism > 0) text += Format("; {} at once", totals.parallelism);
  if (totals.buffer_size >= 0) {
    text += Format("; buffer: {:.1f} of {} ready, found empty {} of the times", totals.buffer_fill,
                   totals.buffer_size, Percent(totals.buffer_empty));
  }
  return text;
}

}  // namespace

void RunReport::Judge() {
  bottleneck = -1;
  verdict.clear();
  if (run.turns < 2 || run.elapsed_ns <= 0 || steps.empty()) return;
  const double waits = Share(run.waited_ns, run.elapsed_ns);
  if (waits < kHardlyWaits) {
    verdict = Format(
        "the consumer: it is slower than the pipeline, for which it waits {} of the time; here is "
        "nothing to gain, but in what is done with the elements",
        Percent(waits));
    return;
  }
  const Search search(&steps, run);
  bottleneck = search.Bottleneck();
  verdict = search.Verdict(bottleneck);
}

RunReport RunReport::Of(const Node& root, const DatasetOptions& options,
                        const RunProfile* profile) {
  RunReport report;
  CollectSteps(root, profile, &report.steps);
  if (!options.empty()) report.options = options.Explain();
  report.measured = profile != nullptr && profile->measures();
  if (!report.measured) return report;
  report.run = profile->ReadTotals();
  Search(&report.steps, report.run).DivideTimes();
  report.Judge();
  return report;
}

void RunReport::SetConsumer(const RunProfile::Totals& consumer, std::string_view between) {
  if (!measured) return;
  const RunProfile::Totals own = std::exchange(run, consumer);
  Judge();
  const double waits = Share(run.waited_ns, run.elapsed_ns);
  if (bottleneck < 0 || waits < kHardlyWaits || own.turns < 2) return;
  const double asked = Share(own.waited_ns, run.elapsed_ns);
  if (asked >= waits * kReadyInTime) return;
  bottleneck = -1;
  verdict = Format("{}; the consumer waits {} of the time, and this pipeline takes {}", between,
                   Percent(waits), Percent(asked));
}

namespace {

bool HaveOnePlan(const RunReport& one, const RunReport& other) {
  return std::equal(one.steps.begin(), one.steps.end(), other.steps.begin(), other.steps.end(),
                    [](const Step& a, const Step& b) {
                      return a.op == b.op && a.inputs == b.inputs;
                    });
}

// What a report says that was read may be anything.
void Add(int64_t more, int64_t* sum) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = std::numeric_limits<int64_t>::max();
}

// Sums; what is an average weighs as much as what it is of.
void AddTotals(const NodeTotals& more, NodeTotals* sum) {
  const auto mean = [](double a, double of_a, double b, double of_b) {
    return of_a + of_b > 0 ? (a * of_a + b * of_b) / (of_a + of_b) : 0.0;
  };
  sum->computing = mean(sum->computing, static_cast<double>(sum->function_ns), more.computing,
                        static_cast<double>(more.function_ns));
  const auto calls = static_cast<double>(sum->calls);
  const auto more_calls = static_cast<double>(more.calls);
  sum->buffer_fill = mean(sum->buffer_fill, calls, more.buffer_fill, more_calls);
  sum->buffer_empty = mean(sum->buffer_empty, calls, more.buffer_empty, more_calls);
  Add(more.calls, &sum->calls);
  Add(more.rows, &sum->rows);
  Add(more.failures, &sum->failures);
  Add(more.ns, &sum->ns);
  sum->bytes += more.bytes;
  Add(more.function_calls, &sum->function_calls);
  Add(more.function_rows, &sum->function_rows);
  Add(more.function_ns, &sum->function_ns);
  Add(more.work_ns, &sum->work_ns);
  sum->parallelism = std::max(sum->parallelism, more.parallelism);
  sum->buffer_size = std::max(sum->buffer_size, more.buffer_size);
}

}  // namespace

RunReport RunReport::Sum(std::vector<std::pair<std::string, RunReport>> runs) {
  const auto waits = [](const std::pair<std::string, RunReport>& one) {
    return Share(one.second.run.waited_ns, one.second.run.elapsed_ns);
  };
  const auto slowest = std::max_element(
      runs.begin(), runs.end(),
      [&](const auto& one, const auto& other) { return waits(one) < waits(other); });
  RunReport sum = slowest->second;
  if (runs.size() == 1) return sum;
  const bool one_plan = std::all_of(runs.begin(), runs.end(), [&](const auto& one) {
    return HaveOnePlan(one.second, slowest->second);
  });
  sum.parts.clear();
  sum.run = {};
  sum.measured = false;
  for (auto& [name, report] : runs) {
    sum.measured = sum.measured || report.measured;
    Add(report.run.turns, &sum.run.turns);
    Add(report.run.rows, &sum.run.rows);
    sum.run.elapsed_ns = std::max(sum.run.elapsed_ns, report.run.elapsed_ns);
    sum.run.waited_ns = std::max(sum.run.waited_ns, report.run.waited_ns);
    for (size_t i = 0; one_plan && &report != &slowest->second && i < sum.steps.size(); ++i) {
      AddTotals(report.steps[i].totals, &sum.steps[i].totals);
      Add(report.steps[i].self_ns, &sum.steps[i].self_ns);
      Add(report.steps[i].waiting_ns, &sum.steps[i].waiting_ns);
    }
    if (report.parts.empty()) {
      sum.parts.push_back({name, report.run, report.verdict});
    } else {
      for (const Part& part : report.parts) {
        sum.parts.push_back({Format("{}, {}", name, part.name), part.run, part.verdict});
      }
    }
  }
  if (!sum.verdict.empty()) sum.verdict = Format("{}: {}", slowest->first, sum.verdict);
  if (!one_plan) sum.plan_of = slowest->first;
  return sum;
}

bool RunReport::tells_of_run() const {
  return (measured && run.turns > 0) ||
         std::any_of(steps.begin(), steps.end(),
                     [](const Step& step) { return !step.decisions.empty(); });
}

std::string RunReport::ToText() const {
  std::string text;
  struct Line {
    int64_t step;
    int64_t depth;
  };
  std::vector<bool> told(steps.size(), false);
  std::vector<Line> lines;
  if (!steps.empty()) lines.push_back({0, 0});
  while (!lines.empty()) {
    const Line line = lines.back();
    lines.pop_back();
    const auto index = static_cast<size_t>(line.step);
    const Step& step = steps[index];
    const std::string indent(static_cast<size_t>(line.depth) * 2, ' ');
    text += indent + step.text;
    if (line.step == bottleneck) text += "  <== the bottleneck";
    if (told[index]) {
      text += " (as above)\n";
      continue;
    }
    told[index] = true;
    text += "\n";
    if (measured) text += Format("{}    {}\n", indent, StepNumbers(step, run));
    if (!step.decisions.empty()) {
      text += Format("{}    chosen: {}\n", indent, Join(step.decisions, "; "));
    }
    for (size_t i = step.inputs.size(); i-- > 0;) lines.push_back({step.inputs[i], line.depth + 1});
  }
  if (!options.empty()) text += Format("options: {}\n", options);
  if (measured) {
    text += Format("run: {} rows in {}, of which the consumer waited {}\n", run.rows,
                   HumanDuration(run.elapsed_ns), TimeOf(run.waited_ns, run));
    for (const Part& part : parts) {
      text += Format("  {}: {} rows in {}, waited {}{}\n", part.name, part.run.rows,
                     HumanDuration(part.run.elapsed_ns), TimeOf(part.run.waited_ns, part.run),
                     part.verdict.empty() ? "" : "; " + part.verdict);
    }
    if (!plan_of.empty()) text += Format("plans differ; above is that of {}\n", plan_of);
    if (!verdict.empty()) text += Format("bottleneck: {}\n", verdict);
  }
  return text;
}

Result<std::string> RunReport::As(std::string_view format) const {
  if (format == "text") return ToText();
  if (format == "json") return ToJson();
  if (format == "svg") return ToSvg();
  return InvalidArgument("explain: the format is '{}'; the formats are text, json and svg", format);
}

}  // namespace tutti
