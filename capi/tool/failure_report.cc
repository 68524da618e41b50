#include "capi/tool/failure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <csignal>

#include "capi/tool/error_tail.h"
#include "capi/tool/signal_inlet.h"

namespace tutti::tool {
namespace {

std::string DescribeEnd(const WorkerStory& story) {
  if (!story.end.by_signal) return fmt::format("exited with {}", story.end.value);
  if (story.killed && story.end.value == SIGKILL) {
    return "did not end when asked to and was killed";
  }
  if (story.asked_to_end && story.end.value == SIGTERM) return "was ended by SIGTERM";
  return fmt::format("was killed by {} ({}){}", SignalName(story.end.value), story.end.value,
                     story.end.dumped_core ? " and dumped core" : "");
}

// "worker 3", "workers 0, 1 and 2".
std::string NameWorkers(const std::string& noun, std::vector<int> workers) {
  std::sort(workers.begin(), workers.end());
  std::string text = noun + (workers.size() == 1 ? " " : "s ");
  for (size_t i = 0; i < workers.size(); ++i) {
    if (i > 0) text += i + 1 == workers.size() ? " and " : ", ";
    text += std::to_string(workers[i]);
  }
  return text;
}

// What the command ends did not fail of itself, whatever it said.
bool FailedOfItself(const WorkerStory& story) {
  return story.end.failed() && !story.asked_to_end && !story.killed && !IsAboutAPeer(story.error);
}

// A signal from outside has nothing to do with what the worker said last; SIGABRT has.
bool ExplainsItself(const WorkerStory& story) {
  return !story.error.empty() && (!story.end.by_signal || story.end.value == SIGABRT);
}

}  // namespace

const WorkerStory* FirstFailure(const std::vector<WorkerStory>& in_order_of_death) {
  const WorkerStory* first = nullptr;
  for (const WorkerStory& story : in_order_of_death) {
    if (FailedOfItself(story)) return &story;
    if (story.end.failed() && first == nullptr) first = &story;
  }
  return first;
}

std::string DescribeFailure(const std::vector<WorkerStory>& in_order_of_death) {
  const WorkerStory* first = FirstFailure(in_order_of_death);
  assert(first != nullptr && "somebody failed");
  std::string text = fmt::format("{} {} (pid {}) {} after {}", first->noun, first->worker,
                                 first->pid, DescribeEnd(*first), FormatDuration(first->lifetime));
  if (ExplainsItself(*first)) text += ": " + first->error;

  // The others, those with the same fate together.
  struct Group {
    std::string fate;
    std::vector<int> workers;
  };
  std::vector<Group> groups;
  for (const WorkerStory& story : in_order_of_death) {
    if (&story == first) continue;
    const std::string end = DescribeEnd(story);
    const bool lost_a_peer = story.end.failed() && IsAboutAPeer(story.error);
    const std::string fate = &story < first ? "had " + end + " before" +
                                                  (lost_a_peer ? ", for want of a peer" : "")
                             : story.asked_to_end || story.killed ? end
                                                                  : "then " + end;
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Group& group) { return group.fate == fate; });
    if (same != groups.end()) {
      same->workers.push_back(story.worker);
    } else {
      groups.push_back({fate, {story.worker}});
    }
  }
  for (const Group& group : groups) {
    text += fmt::format("; {} {}", NameWorkers(first->noun, group.workers), group.fate);
  }
  return text;
}

}  // namespace tutti::tool
