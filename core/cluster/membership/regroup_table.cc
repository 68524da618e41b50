#include "core/cluster/membership/regroup_table.h"

#include <algorithm>

#include "core/base/error.h"

namespace tutti {

RegroupTable::RegroupTable(int64_t num_workers)
    : present_(static_cast<size_t>(num_workers), uint64_t{0}),
      departures_(static_cast<size_t>(num_workers)) {}

bool RegroupTable::IsPresent(const MemberId& member) const {
  const auto index = static_cast<size_t>(member.worker);
  return member.worker >= 0 && index < present_.size() && present_[index] == member.arrival;
}

std::vector<MemberId> RegroupTable::Expected(const Key& key) const {
  const auto& [name, all, among] = key;
  std::vector<MemberId> expected;
  if (among.empty()) {
    for (size_t i = 0; i < present_.size(); ++i) {
      if (present_[i].has_value()) expected.push_back({static_cast<int64_t>(i), *present_[i]});
    }
    return expected;
  }
  const std::set<int64_t>* const resigned = WhoResigned(key);
  for (const MemberId& member : among) {
    if (!IsPresent(member)) continue;
    if (resigned == nullptr || resigned->count(member.worker) == 0) expected.push_back(member);
  }
  return expected;
}

const std::set<int64_t>* RegroupTable::WhoResigned(const Key& key) const {
  const auto& [name, all, among] = key;
  if (all || among.empty()) return nullptr;
  const auto it = resigned_.find(name);
  return it != resigned_.end() ? &it->second.workers : nullptr;
}

bool RegroupTable::IsOver(const Resigned& resigned) const {
  return std::none_of(resigned.among.begin(), resigned.among.end(), [&](const MemberId& member) {
    return IsPresent(member) && resigned.workers.count(member.worker) == 0;
  });
}

Status RegroupTable::CheckAllPresent(const Key& key) const {
  const auto& [name, all, among] = key;
  if (!all) return OkStatus();
  for (const MemberId& member : among) {
    if (IsPresent(member)) continue;
    const auto index = static_cast<size_t>(member.worker);
    const Status departure =
        index < departures_.size() && !departures_[index].ok()
            ? departures_[index]
            : BlameWorker(member.worker,
                          Format("the process that was worker {} is gone", member.worker));
    return departure.WithPrefix(Format("regrouping {}", Quote(name)));
  }
  return OkStatus();
}

std::optional<RegroupTable::Answer> RegroupTable::CompleteIfAllCame(Rounds::iterator round) {
  const auto& [name, all, among] = round->first;
  Round& state = round->second;
  const std::vector<MemberId> expected = Expected(round->first);
  if (among.empty() && static_cast<int64_t>(expected.size()) < state.at_least) return std::nullopt;
  for (const MemberId& member : expected) {
    if (state.brought.count(member.worker) == 0) return std::nullopt;
  }
  Answer answer;
  const auto resigned = all ? resigned_.end() : resigned_.find(name);
  if (!all) {
    int64_t& epoch = epochs_[name];
    epoch = std::max(epoch, state.epoch) + 1;
    answer.epoch = epoch;
  }
  for (const MemberId& member : expected) {
    Brought& brought = state.brought.at(member.worker);
    answer.to.emplace_back(member.worker, brought.id);
    answer.members.push_back(member);
    answer.parts.push_back(std::move(brought.part));
    if (resigned != resigned_.end()) resigned->second.workers.erase(member.worker);
  }
  if (resigned != resigned_.end() && resigned->second.workers.empty()) resigned_.erase(resigned);
  open_.erase(round);
  return answer;
}

RegroupTable::Answer RegroupTable::Fail(const Round& round, int64_t but, Status failure) {
  Answer answer;
  for (const auto& [worker, brought] : round.brought) {
    if (worker != but) answer.to.emplace_back(worker, brought.id);
  }
  answer.failure = std::move(failure);
  return answer;
}

bool RegroupTable::AllHeard(const Rounds::value_type& round) {
  const std::vector<MemberId>& among = std::get<2>(round.first);
  return std::all_of(among.begin(), among.end(), [&](const MemberId& member) {
    return round.second.heard.count(member.worker) > 0;
  });
}

Result<std::optional<RegroupTable::Answer>> RegroupTable::Bring(int64_t worker, RegroupPart part) {
  const auto refuse = [&](Status failure) {
    Answer answer;
    answer.to.emplace_back(worker, part.id);
    answer.failure = std::move(failure);
    return std::optional<Answer>(std::move(answer));
  };
  const auto index = static_cast<size_t>(worker);
  const bool takes_part =
      part.among.empty() ||
      std::any_of(part.among.begin(), part.among.end(), [&](const MemberId& member) {
        return member.worker == worker && IsPresent(member);
      });
  if (index >= present_.size() || !takes_part || (part.all && part.among.empty())) {
    return refuse(InvalidArgument("regrouping {}: worker {} is not among those who take part",
                                  Quote(part.name), worker));
  }
  const Key key{part.name, part.all, part.among};
  if (Status status = CheckAllPresent(key); !status.ok()) return refuse(std::move(status));
  // It comes after all.
  if (WhoResigned(key) != nullptr) resigned_.at(part.name).workers.erase(worker);
  auto it = open_.find(key);
  if (it == open_.end()) {
    if (open_.size() >= kMaxOpen) {
      return refuse(ResourceExhausted(
          "regrouping {}: {} regroupings are open already that not all workers have come to",
          Quote(part.name), open_.size()));
    }
    if (!part.all && epochs_.size() >= kMaxNames && epochs_.count(part.name) == 0) {
      return refuse(ResourceExhausted(
          "regrouping {}: workers have regrouped under {} names already; use names again",
          Quote(part.name), epochs_.size()));
    }
    it = open_.emplace(key, Round{}).first;
  }
  Round& round = it->second;
  if (!round.failure.ok()) {
    round.heard.insert(worker);
    std::optional<Answer> answer = refuse(round.failure);
    if (AllHeard(*it)) open_.erase(it);
    return answer;
  }
  round.at_least = std::max(round.at_least, part.at_least);
  round.epoch = std::max(round.epoch, part.epoch);
  if (!round.brought.emplace(worker, Brought{part.id, std::move(part.part)}).second) {
    return InvalidArgument("regrouping {}: worker {} brings its part a second time",
                           Quote(part.name), worker);
  }
  return CompleteIfAllCame(it);
}

std::optional<RegroupTable::Answer> RegroupTable::Withdraw(int64_t worker, uint64_t id,
                                                           const Status& failure) {
  for (auto it = open_.begin(); it != open_.end(); ++it) {
    Round& round = it->second;
    const auto brought = round.brought.find(worker);
    if (brought == round.brought.end() || brought->second.id != id) continue;
    const auto& [name, all, among] = it->first;
    Answer answer =
        Fail(round, worker, failure.WithPrefix(Format("regrouping {}", Quote(name))));
    if (!all) {
      open_.erase(it);
      return answer;
    }
    round.failure = answer.failure;
    for (const auto& [who, part] : round.brought) round.heard.insert(who);
    round.brought.clear();
    if (AllHeard(*it)) open_.erase(it);
    return answer;
  }
  return std::nullopt;
}

std::vector<RegroupTable::Answer> RegroupTable::Resign(int64_t worker,
                                                       const Resignation& resignation) {
  const auto& [name, among, epoch] = resignation;
  const bool is_member = std::any_of(among.begin(), among.end(), [&](const MemberId& member) {
    return member.worker == worker && IsPresent(member);
  });
  const auto latest = epochs_.find(name);
  if (!is_member || (latest != epochs_.end() && latest->second > epoch)) return {};
  if (resigned_.size() >= kMaxNames && resigned_.count(name) == 0) return {};
  std::vector<Rounds::iterator> rounds;
  for (auto it = open_.lower_bound(Key{name, false, {}});
       it != open_.end() && std::get<std::string>(it->first) == name; ++it) {
    const auto& [same_name, all, list] = it->first;
    if (all || list.empty()) continue;
    if (it->second.brought.count(worker) > 0) return {};  // it comes after all
    rounds.push_back(it);
  }
  Resigned& resigned = resigned_[name];
  resigned.among = among;
  resigned.workers.insert(worker);
  if (IsOver(resigned)) resigned_.erase(name);
  std::vector<Answer> answers;
  for (const Rounds::iterator round : rounds) {
    std::optional<Answer> answer = CompleteIfAllCame(round);
    if (answer.has_value()) answers.push_back(std::move(*answer));
  }
  return answers;
}

RegroupTable::Awaited RegroupTable::WhoIsMissing(int64_t worker, uint64_t id) const {
  Awaited awaited;
  for (const auto& [key, round] : open_) {
    const auto own = round.brought.find(worker);
    if (own == round.brought.end() || own->second.id != id) continue;
    const std::vector<MemberId> expected = Expected(key);
    for (const MemberId& member : expected) {
      if (round.brought.count(member.worker) == 0) awaited.workers.push_back(member.worker);
    }
    awaited.more = std::max<int64_t>(0, round.at_least - static_cast<int64_t>(expected.size()));
    break;
  }
  return awaited;
}

std::vector<RegroupTable::Answer> RegroupTable::Leave(int64_t worker, const Status& departure) {
  const auto index = static_cast<size_t>(worker);
  present_[index].reset();
  departures_[index] = departure;
  std::erase_if(resigned_, [&](const auto& entry) { return IsOver(entry.second); });
  std::vector<Answer> answers;
  for (auto it = open_.begin(); it != open_.end();) {
    const auto next = std::next(it);
    it->second.brought.erase(worker);
    if (Status status = CheckAllPresent(it->first); !status.ok()) {
      // Whoever comes later fails because somebody is not there.
      if (it->second.failure.ok()) answers.push_back(Fail(it->second, worker, std::move(status)));
      open_.erase(it);
    } else if (it->second.brought.empty() && it->second.failure.ok()) {
      open_.erase(it);
    } else if (it->second.failure.ok()) {
      std::optional<Answer> answer = CompleteIfAllCame(it);
      if (answer.has_value()) answers.push_back(std::move(*answer));
    }
    it = next;
  }
  return answers;
}

void RegroupTable::Arrive(const MemberId& member) {
  const auto index = static_cast<size_t>(member.worker);
  present_[index] = member.arrival;
  departures_[index] = OkStatus();
}

}  // namespace tutti
