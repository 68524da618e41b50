#include "capi/tool/bench_tune.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "capi/tool/machine_cores.h"
#include "capi/tool/mapped_memory.h"
#include "capi/tool/progress_line.h"
#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

constexpr int64_t kKiB = 1024;
constexpr const char* kSetting = "collective_table";
constexpr const char* kWindow = "shared_window";
constexpr const char* kHosts = "hosts";
// Of hosts. No row that is built in takes it.
constexpr const char* kFlat = "flat";

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

// What the ranks must do alike, as a number (FNV-1a) that differs where it does.
int64_t NumberOf(const std::vector<TuneTask>& tasks) {
  std::string text;
  for (const TuneTask& task : tasks) {
    text += fmt::format("{} {}\n", task.place.collective, task.place.locality);
    for (const SelectorStep& step : task.steps) text += StepText(step) + "\n";
    for (const FitCandidate& candidate : task.candidates) {
      text += fmt::format("{} {}\n", candidate.choice.ToString(), candidate.most_bytes);
    }
    text += fmt::format("{}\n", fmt::join(task.sizes, " "));
  }
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<int64_t>(hash >> 1);
}

}  // namespace

int TuneWorker::Run() {
  if (CStatus failed = job_.Start()) return BenchJob::Failed("", failed);
  std::vector<CCommunicator> communicators;
  if (CStatus failed = job_.Connect("tune", &communicators)) return BenchJob::Failed("", failed);
  options_.workers = job_.workers();
  if (options_.workers < 2) {
    fmt::print(stderr, "tutti bench: --tune needs two workers at least\n");
    return 1;
  }
  tutti_communicator* const communicator = communicators.front().get();
  locality_ = tutti_communicator_get_transport(communicator);
  rank_ = tutti_communicator_get_rank(communicator);
  if (CStatus failed = FindSecondLocality(communicator, &second_locality_)) {
    return BenchJob::Failed("", failed);
  }
  if (CStatus failed = ReadTables()) return BenchJob::Failed("", failed);

  std::vector<TuneTask> tasks;
  AddTasks(locality_, &tasks);
  if (!second_locality_.empty()) AddTasks(second_locality_, &tasks);
  bool alike = true;
  if (CStatus failed = AreAlike(communicator, tasks, &alike)) return BenchJob::Failed("", failed);
  if (!alike) {
    if (rank_ == 0) {
      fmt::print(stderr,
                 "tutti bench: --tune: the ranks would not measure the same; give all hosts the "
                 "same words and the same TUTTI_COLLECTIVE_TABLE, or none\n");
    }
    return 1;
  }
  {
    ProgressLine progress(rank_ == 0 ? ProgressFormOf(options_.progress) : ProgressForm::kOff,
                          "tutti bench: --tune", "collectives", tasks.size());
    size_t done = 0;
    for (TuneTask& task : tasks) {
      task.seconds = options_.seconds / static_cast<double>(tasks.size());
      if (const int status = Tune(task)) return status;
      progress.Tell(++done);
    }
  }
  return rank_ == 0 ? Conclude() : 0;
}

CStatus TuneWorker::AreAlike(tutti_communicator* communicator, const std::vector<TuneTask>& tasks,
                             bool* alike) {
  if (options_.in_process) return nullptr;
  int64_t least = NumberOf(tasks), most = least;
  TUTTI_TOOL_RETURN_IF_FAILED(FoldNumber(job_.runtime(), communicator, TUTTI_DTYPE_INT64,
                                         TUTTI_REDUCE_MIN, &least));
  TUTTI_TOOL_RETURN_IF_FAILED(FoldNumber(job_.runtime(), communicator, TUTTI_DTYPE_INT64,
                                         TUTTI_REDUCE_MAX, &most));
  *alike = least == most;
  return nullptr;
}

CStatus TuneWorker::FindSecondLocality(tutti_communicator* communicator, std::string* locality) {
  if (options_.in_process) {
    Print("rows of shared_window and hosts stay: ranks of one process follow neither");
    return nullptr;
  }
  constexpr int64_t kElements = 1;
  CTensor tensor;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_communicator_create_tensor(
      communicator, TUTTI_DTYPE_FLOAT32, 1, &kElements, Out(&tensor)));
  int64_t mapped = MappedMemory::OfThisProcess().Holds(tutti_tensor_get_data(tensor.get()),
                                                       tutti_tensor_get_byte_size(tensor.get()));
  TUTTI_TOOL_RETURN_IF_FAILED(FoldNumber(job_.runtime(), communicator, TUTTI_DTYPE_INT64,
                                         TUTTI_REDUCE_MIN, &mapped));
  if (mapped != 0) {
    *locality = kWindow;
  } else {
    Print("rows of shared_window stay: these ranks map no memory of each other's for tensors");
  }
  if (locality_ == "mixed" && job_.hosts().MayBeJoined()) {
    *locality = kHosts;
  } else {
    Print(job_.hosts().count == 1 ? "rows of hosts stay: all ranks are on one host; started with "
                                    "--join on several it measures those too"
                                  : "rows of hosts stay: no two ranks of a host share memory");
  }
  return nullptr;
}

void TuneWorker::AddTasks(const std::string& locality, std::vector<TuneTask>* tasks) const {
  for (const BenchCollective* collective : options_.tuned) {
    TuneTask task;
    task.place = {collective->name, locality, options_.workers};
    task.steps = StepsOfTable(present_, task.place);
    task.candidates = CandidatesAt(task.place, task.steps);
    // all_gather makes a tensor each time, which would be measured too.
    const bool gathers = task.place.collective == "all_gather";
    task.subject = {gathers ? FindBenchCollective("all_gather_into") : collective, options_.dtype,
                    options_.op, 1, locality == kWindow};
    task.sizes = options_.Sizes();
    if (task.candidates.size() < 2) {
      // Of a second locality most collectives have no rows.
      if (locality != locality_) continue;
      Print(fmt::format("{}: nothing to choose, there is {} only", task.place.collective,
                        task.candidates.empty() ? "one way"
                                                : task.candidates[0].choice.ToString()));
      continue;
    }
    tasks->push_back(std::move(task));
  }
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

// The rows stand before all that has been found, and that the present table has of its own. Where
// ranks differ rank 0's hold, which alone knows what has been found.
CStatus TuneWorker::UseRows(const std::string& rows) const {
  return CStatus(tutti_runtime_set(job_.runtime(), kSetting,
                                   ("rows:" + rows + "\n" + rows_ + own_rows_).c_str()));
}

std::string TuneWorker::FlatRows(const SelectorPlace& place) const {
  if (second_locality_ != kHosts || place.locality == second_locality_) return "";
  const std::string rows = RowsOfSteps({place.collective, second_locality_, place.ranks},
                                       {{SelectorStep::kAny, {kFlat, ""}}});
  return Takes(rows) ? rows : "";
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
  std::vector<std::string> algorithms = AlgorithmsOfTable(present_);
  algorithms.push_back(kFlat);
  for (const std::string& algorithm : algorithms) {
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
  const std::string flat_rows = FlatRows(task.place);
  for (size_t i = 0; i < task.candidates.size(); ++i) {
    const FitCandidate& candidate = task.candidates[i];
    CStatus failed = UseRows(
        RowsOfSteps(task.place, {{candidate.most_bytes, candidate.choice}}) + flat_rows);
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
      second_locality_.empty() ? locality_ : locality_ + " and " + second_locality_,
      options_.workers);
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
    // They took long to find.
    fmt::print("{}", text);
    std::fflush(stdout);
    fmt::print(stderr, "tutti bench: {}; the rows are on stdout\n", error);
    return 1;
  }
  Print(fmt::format("{} says so: TUTTI_COLLECTIVE_TABLE={}", options_.tune, options_.tune));
  return 0;
}

}  // namespace tutti::tool
