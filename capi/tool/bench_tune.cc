#include "capi/tool/bench_tune.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "capi/tool/machine_cores.h"
#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

constexpr int64_t kKiB = 1024;
constexpr const char* kSetting = "collective_table";

std::string Describe(tutti_runtime* runtime) {
  CBytes text;
  const CStatus failed(tutti_runtime_describe_collectives(runtime, Out(&text)));
  return failed ? "" : TextOf(text);
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &utc);
  return text.data();
}

std::string AboutMachine() {
  utsname name = {};
  uname(&name);
  const MachineCores cores = ReadMachineCores();
  return fmt::format("{}, {} usable core{}", name.nodename, cores.usable,
                     cores.usable == 1 ? "" : "s");
}

std::string StepText(const SelectorStep& step) {
  return fmt::format("up to {} {}", SelectorSizeText(step.limit), step.choice.ToString());
}

}  // namespace

int TuneWorker::Run() {
  if (CStatus failed = job_.Start()) return BenchJob::Failed("", failed);
  std::vector<CCommunicator> communicators;
  if (CStatus failed = job_.Connect("tune", &communicators)) return BenchJob::Failed("", failed);
  locality_ = tutti_communicator_get_transport(communicators.front().get());
  rank_ = tutti_communicator_get_rank(communicators.front().get());
  if (CStatus failed = ReadTables()) return BenchJob::Failed("", failed);

  std::vector<TuneTask> tasks;
  for (const BenchCollective* collective : options_.tuned) {
    TuneTask task;
    task.place = {collective->name, locality_, options_.workers};
    task.steps = StepsOfTable(present_, task.place);
    task.candidates = CandidatesAt(task.place, task.steps);
    // all_gather makes a tensor each time, which would be measured too.
    const bool gathers = task.place.collective == "all_gather";
    task.subject = {gathers ? FindBenchCollective("all_gather_into") : collective, options_.dtype,
                    options_.op, 1};
    task.sizes = options_.Sizes();
    if (task.candidates.size() < 2) {
      Print(fmt::format("{}: nothing to choose, there is {} only", task.place.collective,
                        task.candidates.empty() ? "one way"
                                                : task.candidates[0].choice.ToString()));
      continue;
    }
    tasks.push_back(std::move(task));
  }
  for (TuneTask& task : tasks) {
    task.seconds = options_.seconds / static_cast<double>(tasks.size());
    if (const int status = Tune(task)) return status;
  }
  return rank_ == 0 ? Conclude() : 0;
}

CStatus TuneWorker::ReadTables() {
  present_ = Describe(job_.runtime());
  CBytes setting;
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_runtime_read_setting(job_.runtime(), kSetting, Out(&setting)));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_runtime_set(job_.runtime(), kSetting, ""));
  built_in_ = Describe(job_.runtime());
  if (present_.size() > built_in_.size()) {
    own_rows_ = present_.substr(0, present_.size() - built_in_.size());
  }
  return CStatus(tutti_runtime_set(job_.runtime(), kSetting, TextOf(setting).c_str()));
}

// The rows stand before all that the present table has of its own.
CStatus TuneWorker::UseRows(const std::string& rows) const {
  return CStatus(
      tutti_runtime_set(job_.runtime(), kSetting, ("rows:" + rows + "\n" + own_rows_).c_str()));
}

bool TuneWorker::Takes(const std::string& rows) const { return UseRows(rows) == nullptr; }

std::vector<FitCandidate> TuneWorker::CandidatesAt(const SelectorPlace& place,
                                                   const std::vector<SelectorStep>& steps) const {
  std::vector<SelectorChoice> choices;
  const auto add = [&](const SelectorChoice& choice) {
    if (std::find(choices.begin(), choices.end(), choice) == choices.end()) {
      choices.push_back(choice);
    }
  };
  for (const SelectorStep& step : steps) add(step.choice);
  for (const std::string& algorithm : AlgorithmsOfTable(present_)) {
    bool has_chunk = false;
    for (int64_t chunk = 4 * kKiB; chunk <= 4096 * kKiB; chunk *= 2) {
      const SelectorChoice choice{algorithm, SelectorSizeText(chunk)};
      if (!Takes(RowsOfSteps(place, {{1, choice}}))) continue;
      has_chunk = true;
      add(choice);
    }
    const SelectorChoice plain{algorithm, ""};
    if (!has_chunk && Takes(RowsOfSteps(place, {{1, plain}}))) add(plain);
  }
  std::vector<FitCandidate> candidates;
  for (const SelectorChoice& choice : choices) {
    FitCandidate candidate{choice, SelectorStep::kAny};
    // The most that it takes, to the byte, when it does not take all.
    if (!Takes(RowsOfSteps(place, {{candidate.most_bytes, choice}}))) {
      int64_t low = 1, high = int64_t{1} << 40;
      while (low + 1 < high) {
        const int64_t middle = low + (high - low) / 2;
        (Takes(RowsOfSteps(place, {{middle, choice}})) ? low : high) = middle;
      }
      candidate.most_bytes = low;
    }
    candidates.push_back(candidate);
  }
  return candidates;
}

int TuneWorker::Tune(const TuneTask& task) {
  // A communicator for each choice, which makes no other.
  std::vector<std::vector<CCommunicator>> communicators(task.candidates.size());
  for (size_t i = 0; i < task.candidates.size(); ++i) {
    const FitCandidate& candidate = task.candidates[i];
    CStatus failed =
        UseRows(RowsOfSteps(task.place, {{candidate.most_bytes, candidate.choice}}));
    if (!failed) failed = job_.Connect(fmt::format("tune {}", i), &communicators[i]);
    if (failed) return BenchJob::Failed("", failed);
  }
  TuneOutcome outcome;
  const int status = job_.OnRanks([&](size_t place) {
    std::vector<tutti_communicator*> of_rank;
    for (const auto& ranks : communicators) of_rank.push_back(ranks[place].get());
    const int64_t rank = tutti_communicator_get_rank(of_rank.front());
    if (job_.BindsRanks()) job_.BindRank(rank);
    TuneOutcome others;
    CStatus failed =
        BenchTuner(task, job_.runtime(), of_rank).Run(rank == 0 ? &outcome : &others);
    return failed ? BenchJob::Failed(fmt::format("rank {}: ", rank), failed) : 0;
  });
  if (status != 0 || rank_ != 0) return status;
  if (outcome.wrong != 0) {
    fmt::print(stderr, "tutti bench: {}: {} elements came out wrong; nothing is written\n",
               task.place.collective, outcome.wrong);
    return 1;
  }
  Report(task, outcome);
  const std::vector<SelectorStep> built_in = StepsOfTable(built_in_, task.place);
  if (outcome.steps != built_in) rows_ += RowsOfSteps(task.place, outcome.steps);
  return 0;
}

void TuneWorker::Report(const TuneTask& task, const TuneOutcome& outcome) {
  const std::vector<int64_t>& sizes = outcome.all.sizes;
  Print(fmt::format("{} over {}, {} ranks: {} choices, {} of {} payloads, up to {}",
                    task.place.collective, task.place.locality, task.place.ranks,
                    task.candidates.size(), sizes.size(), task.sizes.size(),
                    SelectorSizeText(sizes.back())));
  for (const SelectorStep& step : task.steps) Print("  before: " + StepText(step));
  if (outcome.steps == task.steps) {
    Print("  after:  the same");
    return;
  }
  for (const SelectorStep& step : outcome.steps) Print("  after:  " + StepText(step));
  const FitMeasurements& confirmed = outcome.confirmed;
  for (size_t i = 0; i < confirmed.sizes.size(); ++i) {
    const int64_t payload = confirmed.sizes[i];
    const SelectorChoice& before = StepAt(task.steps, payload).choice;
    const SelectorChoice& after = StepAt(outcome.steps, payload).choice;
    if (before == after) continue;
    const auto time_of = [&](const SelectorChoice& choice) {
      for (size_t c = 0; c < confirmed.candidates.size(); ++c) {
        if (confirmed.candidates[c].choice == choice && !confirmed.us[i][c].empty()) {
          return MedianTime(confirmed.us[i][c]);
        }
      }
      return std::nan("");
    };
    Print(fmt::format("    {:>8}: {:.2f} us by {}, {:.2f} us by {}", SelectorSizeText(payload),
                      time_of(before), before.ToString(), time_of(after), after.ToString()));
  }
}

// Comments of the table's form, so that what goes to stdout is a table too.
void TuneWorker::Print(const std::string& line) const {
  if (rank_ != 0) return;
  fmt::print("# {}\n", line);
  std::fflush(stdout);
}

int TuneWorker::Conclude() const {
  std::string names;
  for (const BenchCollective* collective : options_.tuned) {
    names += (names.empty() ? "" : ", ") + std::string(collective->name);
  }
  std::string text = fmt::format(
      "# tutti bench --tune, {}: {}; {} over {} between {} ranks\n", Today(), AboutMachine(), names,
      locality_, options_.workers);
  if (rows_.empty()) text += "# what is built in is the best here\n";
  text += rows_;
  if (!own_rows_.empty()) text += "# of the table that was in use\n" + own_rows_;
  if (options_.tune == "-") {
    fmt::print("{}", text);
    std::fflush(stdout);
    return 0;
  }
  const std::string error = WriteTextFile(options_.tune, text);
  if (!error.empty()) {
    fmt::print(stderr, "tutti bench: {}\n", error);
    return 1;
  }
  Print(fmt::format("{} says so: TUTTI_COLLECTIVE_TABLE={}", options_.tune, options_.tune));
  return 0;
}

}  // namespace tutti::tool
