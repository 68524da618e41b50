#include "capi/tool/bench_tuner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace tutti::tool {
namespace {

constexpr int64_t kTunedRounds = 16;
constexpr int64_t kLeastRounds = 6;
constexpr int64_t kMostCalls = 2000;
constexpr int kTunedProbes = 3;
constexpr size_t kWarmUps = 3;
// Of the time for a collective; the rest is for the second look.
constexpr double kFirstLook = 0.7;

double TunerNowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

size_t IndexOf(const TuneTask& task, const SelectorChoice& choice) {
  size_t i = 0;
  while (task.candidates[i].choice != choice) ++i;
  return i;
}

// Every fourth one first, then those between: whenever the time is over, the whole range has been
// looked at.
std::vector<int64_t> FromCoarseToFine(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> order;
  for (size_t stride = 4; stride > 0; stride /= 2) {
    for (size_t i = stride - 1; i < sizes.size(); i += stride) {
      if (std::find(order.begin(), order.end(), sizes[i]) == order.end()) {
        order.push_back(sizes[i]);
      }
    }
  }
  return order;
}

}  // namespace

int64_t BytesOfPayload(const SelectorPlace& place, int64_t payload) {
  const bool by_links = place.locality == "tcp" || place.locality == "mixed";
  // The payload is what one rank brings of the joined tensor, or gets of it.
  const bool is_share = place.collective == "all_gather" || place.collective == "gather" ||
                        (place.collective == "reduce_scatter" && by_links);
  return is_share ? payload * place.ranks : payload;
}

BenchTuner::BenchTuner(const TuneTask& task, tutti_runtime* runtime,
                       const std::vector<tutti_communicator*>& communicators)
    : task_(task) {
  for (tutti_communicator* communicator : communicators) {
    calls_.emplace_back(task.subject, runtime, communicator);
  }
}

CStatus BenchTuner::Run(TuneOutcome* outcome) {
  for (BenchCalls& calls : calls_) TUTTI_TOOL_RETURN_IF_FAILED(calls.Begin());
  const double begin = TunerNowUs();
  const double budget_us = task_.seconds * 1e6;
  std::vector<size_t> everything(task_.candidates.size());
  for (size_t i = 0; i < everything.size(); ++i) everything[i] = i;
  FitMeasurements all;
  all.candidates = task_.candidates;
  const double of_size = kFirstLook * budget_us / static_cast<double>(task_.sizes.size());
  for (const int64_t payload : FromCoarseToFine(task_.sizes)) {
    // Calls take what they take: when the time is over the remaining sizes stay as they are.
    int64_t goes_on = all.sizes.empty() || TunerNowUs() - begin < budget_us;
    TUTTI_TOOL_RETURN_IF_FAILED(Base().AgreeOnNumberOfRank0(&goes_on));
    if (goes_on == 0) break;
    std::vector<size_t> possible;
    for (const size_t i : everything) {
      if (payload <= task_.candidates[i].most_bytes) possible.push_back(i);
    }
    std::vector<std::vector<double>> us(task_.candidates.size());
    TUTTI_TOOL_RETURN_IF_FAILED(Measure(payload, possible, of_size, &us));
    const auto place = std::lower_bound(all.sizes.begin(), all.sizes.end(), payload);
    all.us.insert(all.us.begin() + (place - all.sizes.begin()), std::move(us));
    all.sizes.insert(place, payload);
  }

  const std::vector<SelectorStep> fitted =
      IsRank0() ? FitSteps(all, task_.steps) : std::vector<SelectorStep>();
  FitMeasurements confirmed;
  confirmed.candidates = task_.candidates;
  const double left_us = std::max(budget_us - (TunerNowUs() - begin), (1 - kFirstLook) * budget_us);
  for (const int64_t payload : all.sizes) {
    int64_t found = -1;
    if (IsRank0()) {
      const SelectorChoice& choice = StepAt(fitted, payload).choice;
      if (choice != StepAt(task_.steps, payload).choice) {
        found = static_cast<int64_t>(IndexOf(task_, choice));
      }
    }
    TUTTI_TOOL_RETURN_IF_FAILED(Base().AgreeOnNumberOfRank0(&found));
    if (found < 0) continue;
    const size_t present = IndexOf(task_, StepAt(task_.steps, payload).choice);
    confirmed.sizes.push_back(payload);
    TUTTI_TOOL_RETURN_IF_FAILED(
        Measure(payload, {present, static_cast<size_t>(found)},
                left_us / static_cast<double>(all.sizes.size()),
                &confirmed.us.emplace_back(task_.candidates.size())));
  }
  TUTTI_TOOL_RETURN_IF_FAILED(Base().Fold(TUTTI_DTYPE_INT64, TUTTI_REDUCE_SUM, &wrong_));
  if (!IsRank0()) return nullptr;

  // Where there was a second look it alone counts.
  FitMeasurements decisive = all;
  for (size_t i = 0; i < confirmed.sizes.size(); ++i) {
    const auto at = std::find(all.sizes.begin(), all.sizes.end(), confirmed.sizes[i]);
    decisive.us[static_cast<size_t>(at - all.sizes.begin())] = confirmed.us[i];
  }
  // Elsewhere the first look has decided for what holds now.
  for (size_t i = 0; i < all.sizes.size(); ++i) {
    const SelectorChoice& present = StepAt(task_.steps, all.sizes[i]).choice;
    if (StepAt(fitted, all.sizes[i]).choice != present) continue;
    for (size_t c = 0; c < decisive.us[i].size(); ++c) {
      if (task_.candidates[c].choice != present) decisive.us[i][c].clear();
    }
  }
  outcome->steps = confirmed.sizes.empty() ? task_.steps : FitSteps(decisive, task_.steps);
  outcome->all = std::move(all);
  outcome->confirmed = std::move(confirmed);
  outcome->wrong = wrong_;
  return nullptr;
}

CStatus BenchTuner::MakeSets(const BenchCalls::Counts& counts, const std::vector<size_t>& wanted) {
  sets_.clear();
  sets_.resize(calls_.size());
  for (const size_t i : wanted) {
    std::vector<TensorSet>& sets = SetsOf(i);
    if (!sets.empty()) continue;
    sets.resize(Base().NumSets(counts));
    for (TensorSet& set : sets) {
      TUTTI_TOOL_RETURN_IF_FAILED(calls_[i].MakeSet(counts, false, &set));
      TUTTI_TOOL_RETURN_IF_FAILED(calls_[i].Fill(counts, &set));
    }
  }
  return nullptr;
}

CStatus BenchTuner::WarmUp(const BenchCalls::Counts& counts, const std::vector<size_t>& wanted) {
  for (const size_t i : wanted) {
    std::vector<TensorSet>& sets = SetsOf(i);
    for (TensorSet& set : sets) TUTTI_TOOL_RETURN_IF_FAILED(calls_[i].Call(&set));
    for (size_t n = sets.size(); n < kWarmUps; ++n) {
      TUTTI_TOOL_RETURN_IF_FAILED(calls_[i].Call(&sets.front()));
    }
    TUTTI_TOOL_RETURN_IF_FAILED(calls_[i].Fill(counts, &sets.front()));
    TUTTI_TOOL_RETURN_IF_FAILED(calls_[i].Call(&sets.front()));
    wrong_ += calls_[i].CountWrong(counts, sets.front());
  }
  return nullptr;
}

// Until all ranks are done: of some collectives one rank has more to do than others.
CStatus BenchTuner::TimeCalls(size_t candidate, int64_t count, double* us) {
  BenchCalls& calls = calls_[candidate];
  std::vector<TensorSet>& sets = SetsOf(candidate);
  TUTTI_TOOL_RETURN_IF_FAILED(calls.Barrier());
  const double begin = TunerNowUs();
  for (int64_t i = 0; i < count; ++i) {
    TensorSet& set = sets[static_cast<size_t>(i) % sets.size()];
    // As whoever computes what is summed, and needs the sum, does: where peers have read or written
    // the lines themselves, and not a copy, that takes longer.
    TUTTI_TOOL_RETURN_IF_FAILED(calls.WriteInputsAnew(&set));
    TUTTI_TOOL_RETURN_IF_FAILED(calls.Call(&set));
    TUTTI_TOOL_RETURN_IF_FAILED(calls.ReadOutputs(set));
  }
  TUTTI_TOOL_RETURN_IF_FAILED(calls.Barrier());
  *us = (TunerNowUs() - begin) / static_cast<double>(count);
  return nullptr;
}

CStatus BenchTuner::Measure(int64_t payload, const std::vector<size_t>& wanted, double budget_us,
                            std::vector<std::vector<double>>* us) {
  const BenchCalls::Counts counts =
      Base().CountsOf(BytesOfPayload(task_.place, payload));
  TUTTI_TOOL_RETURN_IF_FAILED(MakeSets(counts, wanted));
  TUTTI_TOOL_RETURN_IF_FAILED(WarmUp(counts, wanted));
  // As many calls as fit into each one's part of the time; the best of a few probes, which other
  // work on the machine may have hit.
  const double begin = TunerNowUs();
  std::vector<int64_t> num_calls(us->size(), 0);
  for (const size_t i : wanted) {
    double each = std::numeric_limits<double>::max();
    for (int probe = 0; probe < kTunedProbes; ++probe) {
      double once = 0;
      TUTTI_TOOL_RETURN_IF_FAILED(TimeCalls(i, 2, &once));
      each = std::min(each, once);
    }
    const double part = budget_us / static_cast<double>(kTunedRounds * std::ssize(wanted));
    num_calls[i] = std::clamp(static_cast<int64_t>(part / each), int64_t{1}, kMostCalls);
    TUTTI_TOOL_RETURN_IF_FAILED(Base().AgreeOnNumberOfRank0(&num_calls[i]));
  }
  for (int64_t round = 0; round < kTunedRounds; ++round) {
    if (round >= kLeastRounds && round % 2 == 0) {
      int64_t goes_on = TunerNowUs() - begin < 1.5 * budget_us;
      TUTTI_TOOL_RETURN_IF_FAILED(Base().AgreeOnNumberOfRank0(&goes_on));
      if (goes_on == 0) break;
    }
    for (size_t n = 0; n < wanted.size(); ++n) {
      const size_t i = wanted[round % 2 == 0 ? n : wanted.size() - 1 - n];
      double each = 0;
      TUTTI_TOOL_RETURN_IF_FAILED(TimeCalls(i, num_calls[i], &each));
      (*us)[i].push_back(each);
    }
  }
  return nullptr;
}

}  // namespace tutti::tool
