#include "capi/tool/flight_group.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

namespace tutti::tool {
namespace {

// Where a rank's calls are collected, by the number that its record's events name it by.
using Members = std::map<int64_t, FlightGroup::Rank*>;

void CollectCalls(const FlightRecord& record, const Members& members) {
  for (const FlightEvent& event : record.events) {
    const int64_t sequence = event.Argument("sequence");
    const auto member = members.find(event.Argument("subject"));
    if (sequence < 1 || member == members.end()) continue;
    FlightCall& call = member->second->calls[sequence];
    if (event.phase == FlightEvent::Phase::kBegin) call.begin = &event;
    if (event.phase == FlightEvent::Phase::kEnd) call.end = &event;
  }
  for (const auto& [number, rank] : members) {
    std::erase_if(rank->calls, [](const auto& item) {
      return item.second.begin == nullptr && item.second.end == nullptr;
    });
  }
}

// Bounds of what to add to the times of `other` to have them on the clock of `first`.
struct Bounds {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

bool Synchronizes(const FlightCall& call) {
  return call.name() == "all_reduce" || call.name() == "barrier" || call.name() == "all_gather";
}

void Narrow(const FlightCall& first, const FlightCall& other, Bounds* bounds) {
  for (const FlightCall* call : {&first, &other}) {
    if (call->begin == nullptr || call->end == nullptr || call->failed()) return;
  }
  if (!Synchronizes(first) || first.name() != other.name()) return;
  bounds->least = std::max(bounds->least, first.begin->time_ns - other.end->time_ns);
  bounds->most = std::min(bounds->most, first.end->time_ns - other.begin->time_ns);
}

Bounds BoundsBetween(size_t first, size_t other, const std::vector<FlightGroup>& groups) {
  Bounds bounds;
  for (const FlightGroup& group : groups) {
    const FlightGroup::Rank *of_first = nullptr, *of_other = nullptr;
    for (const auto& [rank, calls] : group.ranks) {
      if (calls.record == first) of_first = &calls;
      if (calls.record == other) of_other = &calls;
    }
    if (group.is_local || of_first == nullptr || of_other == nullptr) continue;
    for (const auto& [sequence, call] : of_first->calls) {
      const auto same = of_other->calls.find(sequence);
      if (same != of_other->calls.end()) Narrow(call, same->second, &bounds);
    }
  }
  return bounds;
}

}  // namespace

std::vector<FlightGroup> FindGroups(const std::vector<FlightRecord>& records) {
  using Made = std::tuple<std::string, int64_t, int64_t>;  // name, epoch, which part
  // Also how often it was made, and for groups within one process the record's place.
  using Key = std::tuple<Made, size_t, size_t>;
  constexpr size_t kShared = std::numeric_limits<size_t>::max();
  std::map<Key, FlightGroup> groups;
  for (size_t i = 0; i < records.size(); ++i) {
    const FlightRecord& record = records[i];
    const auto made_of = [](const FlightMember& member) {
      return Made{member.name, member.epoch, member.group};
    };
    std::map<Made, std::set<int64_t>> ranks_of;
    for (const FlightMember& member : record.members) ranks_of[made_of(member)].insert(member.rank);
    std::map<std::pair<Made, int64_t>, size_t> times_made;
    Members members;
    for (const FlightMember& member : record.members) {
      const Made made = made_of(member);
      const bool is_local = member.size == 1 || ranks_of[made].size() > 1;
      const size_t times = times_made[{made, member.rank}]++;
      FlightGroup& group = groups[{made, times, is_local ? i : kShared}];
      group.name = member.name;
      group.epoch = member.epoch;
      group.color = member.color;
      group.size = member.size;
      group.is_local = is_local;
      FlightGroup::Rank& rank = group.ranks[member.rank];
      rank.record = i;
      members[member.number] = &rank;
    }
    CollectCalls(record, members);
  }
  std::vector<FlightGroup> found;
  for (auto& [key, group] : groups) found.push_back(std::move(group));
  return found;
}

std::vector<int64_t> AlignClocks(const std::vector<FlightRecord>& records,
                                 const std::vector<FlightGroup>& groups) {
  std::vector<int64_t> offsets(records.size(), 0);
  for (size_t i = 1; i < records.size(); ++i) {
    const FlightRecord &first = records[0], &other = records[i];
    if (!first.boot.empty() && first.boot == other.boot) continue;
    const int64_t guess =
        (other.wall_ns - other.monotonic_ns) - (first.wall_ns - first.monotonic_ns);
    const Bounds bounds = BoundsBetween(0, i, groups);
    const bool bounded = bounds.least != std::numeric_limits<int64_t>::min() &&
                         bounds.most != std::numeric_limits<int64_t>::max();
    const bool fits = guess >= bounds.least && guess <= bounds.most;
    offsets[i] = fits || !bounded ? guess : bounds.least + (bounds.most - bounds.least) / 2;
  }
  return offsets;
}

}  // namespace tutti::tool
