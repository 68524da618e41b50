#include "capi/tool/selector_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace tutti::tool {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kFitKiB = 1024;

double Margin() { return -std::log(1 - kLeastGain); }

class Fitting {
 public:
  Fitting(const FitMeasurements& measured, const std::vector<SelectorStep>& steps)
      : measured_(measured), steps_(steps) {
    for (const int64_t bytes : measured.sizes) {
      present_.push_back(IndexOf(StepAt(steps, bytes).choice));
    }
  }

  std::vector<SelectorStep> Run() const {
    const size_t num_sizes = measured_.sizes.size();
    const size_t num_candidates = measured_.candidates.size();
    if (num_sizes == 0 || *std::max_element(present_.begin(), present_.end()) >= num_candidates) {
      return steps_;
    }
    const std::vector<size_t> path = Cheapest();
    if (path == present_) return steps_;
    // Below the smallest size and above the largest nothing is known: the borders there stay.
    std::vector<SelectorStep> fitted;
    for (const SelectorStep& step : steps_) {
      if (step.limit < measured_.sizes.front()) Add(step.limit, step.choice, &fitted);
    }
    for (size_t i = 0; i + 1 < num_sizes; ++i) {
      if (path[i] != path[i + 1]) Add(Border(i, path[i], path[i + 1]), ChoiceOf(path[i]), &fitted);
    }
    const SelectorStep& last = StepAt(steps_, measured_.sizes.back());
    Add(std::min(last.limit, measured_.candidates[path.back()].most_bytes),
        ChoiceOf(path.back()), &fitted);
    for (const SelectorStep& step : steps_) {
      if (fitted.back().limit < step.limit) Add(step.limit, step.choice, &fitted);
    }
    return fitted;
  }

 private:
  size_t IndexOf(const SelectorChoice& choice) const {
    size_t i = 0;
    while (i < measured_.candidates.size() && measured_.candidates[i].choice != choice) ++i;
    return i;
  }

  const SelectorChoice& ChoiceOf(size_t candidate) const {
    return measured_.candidates[candidate].choice;
  }

  static void Add(int64_t limit, const SelectorChoice& choice, std::vector<SelectorStep>* steps) {
    if (!steps->empty() && steps->back().choice == choice) {
      steps->back().limit = limit;
    } else {
      steps->push_back({limit, choice});
    }
  }

  struct Gain {
    double gain = -kNever;  // over the present choice, as a logarithm
    bool worth = false;     // large enough and consistent
  };

  Gain GainOver(size_t i, size_t candidate) const {
    // Of what was not measured nothing is known, and nothing is known beside it.
    const std::vector<double>& times = measured_.us[i][candidate];
    const std::vector<double>& present_times = measured_.us[i][present_[i]];
    if (times.empty() || present_times.size() != times.size()) return {};
    if (measured_.sizes[i] > measured_.candidates[candidate].most_bytes) return {};
    std::vector<double> gains;
    size_t faster = 0;
    for (size_t round = 0; round < times.size(); ++round) {
      gains.push_back(std::log(present_times[round] / times[round]));
      if (gains.back() > 0) ++faster;
    }
    const double gain = MedianTime(gains);
    const bool consistent =
        static_cast<double>(faster) >= kConsistent * static_cast<double>(times.size());
    return {gain, consistent && gain >= Margin()};
  }

  // What it costs to have `candidate` at size i instead of the present one.
  double Cost(size_t i, size_t candidate) const {
    if (candidate == present_[i]) return 0;
    const Gain over = GainOver(i, candidate);
    return Margin() - (over.worth ? over.gain : std::min(over.gain, 0.0));
  }

  // A choice for each size. What costs the same as the present one does not replace it.
  std::vector<size_t> Cheapest() const {
    const size_t num_sizes = measured_.sizes.size();
    const size_t num_candidates = measured_.candidates.size();
    std::vector<std::vector<double>> least(num_sizes, std::vector<double>(num_candidates, kNever));
    std::vector<std::vector<size_t>> before(num_sizes, std::vector<size_t>(num_candidates, 0));
    for (size_t i = 0; i < num_sizes; ++i) {
      for (size_t c = 0; c < num_candidates; ++c) {
        double best = i == 0 ? 0 : kNever;
        if (i > 0) {
          // The present one first, and the same one second: others must be cheaper than they.
          for (const size_t from : Order(i - 1, c)) {
            const double cost = least[i - 1][from] + Change(i, from, c);
            if (cost < best - 1e-12) {
              best = cost;
              before[i][c] = from;
            }
          }
        }
        least[i][c] = best + Cost(i, c);
      }
    }
    std::vector<size_t> path(num_sizes);
    size_t end = present_.back();
    for (size_t c = 0; c < num_candidates; ++c) {
      if (least[num_sizes - 1][c] < least[num_sizes - 1][end] - 1e-12) end = c;
    }
    for (size_t i = num_sizes; i-- > 0;) {
      path[i] = end;
      end = before[i][end];
    }
    KeepWhatIsNotWorthIt(&path);
    return path;
  }

  // Fewer borders alone are no reason: sizes in a row of which none gains enough stay as they are.
  void KeepWhatIsNotWorthIt(std::vector<size_t>* path) const {
    for (size_t begin = 0; begin < path->size();) {
      size_t end = begin;
      bool worth = false;
      while (end < path->size() && (*path)[end] != present_[end]) {
        worth = worth || GainOver(end, (*path)[end]).worth;
        ++end;
      }
      if (!worth) std::copy_n(present_.begin() + begin, end - begin, path->begin() + begin);
      begin = end + 1;
    }
  }

  std::vector<size_t> Order(size_t i, size_t candidate) const {
    std::vector<size_t> order = {present_[i], candidate};
    for (size_t c = 0; c < measured_.candidates.size(); ++c) {
      if (c != present_[i] && c != candidate) order.push_back(c);
    }
    return order;
  }

  // A border costs, and each of the present ones pays for one.
  double Change(size_t i, size_t from, size_t to) const {
    const bool present_border = present_[i - 1] != present_[i];
    return Margin() * ((from != to ? 1 : 0) - (present_border ? 1 : 0));
  }

  // The largest payload of `low` where `high` takes over between sizes i and i + 1.
  int64_t Border(size_t i, size_t low, size_t high) const {
    const int64_t from = measured_.sizes[i];
    const int64_t to = measured_.sizes[i + 1];
    for (size_t s = 0; s + 1 < steps_.size(); ++s) {
      if (steps_[s].limit >= from && steps_[s].limit < to && steps_[s].choice == ChoiceOf(low) &&
          steps_[s + 1].choice == ChoiceOf(high)) {
        return steps_[s].limit;
      }
    }
    const int64_t most = std::min(to - 1, measured_.candidates[low].most_bytes);
    const std::optional<double> gain_from = GainOf(i, low, high);
    const std::optional<double> gain_to = GainOf(i + 1, low, high);
    if (!gain_from || !gain_to) return most;
    // Where the curves cross, both axes logarithmic. By the gain at both ends: at `from` the lower
    // one is faster, at `to` the higher one, or both differ little.
    const double span = *gain_to - *gain_from;
    const double place = span > 1e-9 ? std::clamp(-*gain_from / span, 0.0, 1.0) : 0;
    const double ratio = static_cast<double>(to) / static_cast<double>(from);
    const auto bytes =
        static_cast<int64_t>(static_cast<double>(from) * std::pow(ratio, place) + 0.5);
    const int64_t unit = bytes >= 4 * kFitKiB ? kFitKiB : 64;
    const int64_t highest = std::max(from, std::min((to - 1) / unit * unit, most));
    return std::clamp(bytes / unit * unit, from, highest);
  }

  // How much less `high` takes, as a logarithm.
  std::optional<double> GainOf(size_t i, size_t low, size_t high) const {
    const auto& us = measured_.us[i];
    if (us[low].empty() || us[high].empty()) return std::nullopt;
    return std::log(MedianTime(us[low]) / MedianTime(us[high]));
  }

  const FitMeasurements& measured_;
  const std::vector<SelectorStep>& steps_;
  std::vector<size_t> present_;  // by size
};

}  // namespace

double MedianTime(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const size_t middle = times.size() / 2;
  return times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
}

const SelectorStep& StepAt(const std::vector<SelectorStep>& steps, int64_t bytes) {
  for (const SelectorStep& step : steps) {
    if (bytes <= step.limit) return step;
  }
  return steps.back();
}

std::vector<SelectorStep> FitSteps(const FitMeasurements& measured,
                                   const std::vector<SelectorStep>& steps) {
  return steps.empty() ? steps : Fitting(measured, steps).Run();
}

}  // namespace tutti::tool
