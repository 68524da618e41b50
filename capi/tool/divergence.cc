#include "capi/tool/divergence.h"

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace tutti::tool {
namespace {

constexpr const char* kReductions[] = {"",    "SUM",  "MEAN", "MIN", "MAX",
                                       "PROD", "BAND", "BOR",  "BXOR"};

// "rank 2", "ranks 0, 1 and 3".
std::string NameRanks(const std::vector<int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

// "all_reduce (float32, 32 bytes, SUM)".
std::string Describe(const FlightCall& call) {
  if (call.begin == nullptr) return call.name();
  std::string details;
  const auto add = [&](const std::string& detail) {
    details += (details.empty() ? "" : ", ") + detail;
  };
  const int64_t dtype = call.begin->Argument("dtype");
  const int64_t reduction = call.begin->Argument("reduction");
  const int64_t root = call.begin->Argument("root");
  if (dtype > 0) {
    add(tutti_dtype_get_name(static_cast<tutti_dtype>(dtype)));
    add(fmt::format("{} bytes", call.begin->Argument("bytes")));
  }
  if (reduction > 0 && static_cast<size_t>(reduction) < std::size(kReductions)) {
    add(kReductions[reduction]);
  }
  if (root >= 0) add(fmt::format("root {}", root));
  return details.empty() ? call.name() : fmt::format("{} ({})", call.name(), details);
}

// What must be equal on all ranks; bytes need not be.
auto SignatureOf(const FlightCall& call) {
  return std::tuple(call.name(), call.begin->Argument("reduction"), call.begin->Argument("root"),
                    call.begin->Argument("call"));
}

std::string CodeName(const FlightCall& call) {
  return tutti_code_get_name(static_cast<tutti_code>(call.end->Argument("code")));
}

std::string TextOf(int64_t ns) {
  const double ms = static_cast<double>(ns) * 1e-6;
  return ms < 1000 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.1f} s", ms * 1e-3);
}

// One group, call by call.
class GroupReader {
 public:
  GroupReader(const std::vector<FlightRecord>& records, const FlightGroup& group,
              const std::vector<int64_t>& offsets)
      : records_(records), group_(group), offsets_(offsets) {}

  std::optional<Divergence> Read() const {
    int64_t first = 1;
    std::set<int64_t> recorded;
    for (const auto& [number, rank] : group_.ranks) {
      if (rank.calls.empty()) continue;
      for (const auto& [sequence, call] : rank.calls) recorded.insert(sequence);
      // What came before may have been overwritten.
      if (!records_[rank.record].is_complete) first = std::max(first, rank.calls.begin()->first);
    }
    for (auto sequence = recorded.lower_bound(first); sequence != recorded.end(); ++sequence) {
      if (std::optional<Divergence> found = ReadCall(*sequence)) return found;
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    int64_t rank;
    const FlightGroup::Rank* of;
    const FlightCall* call;
  };

  int64_t TimeOf(const Entry& entry, const FlightEvent& event) const {
    return event.time_ns + offsets_[entry.of->record];
  }
  int64_t EntryTime(const Entry& entry) const {
    return TimeOf(entry, entry.call->begin != nullptr ? *entry.call->begin : *entry.call->end);
  }

  std::optional<Divergence> ReadCall(int64_t sequence) const {
    std::vector<Entry> entered;
    for (const auto& [number, rank] : group_.ranks) {
      const auto call = rank.calls.find(sequence);
      if (call != rank.calls.end()) entered.push_back({number, &rank, &call->second});
    }
    std::string text = Differing(sequence, entered);
    if (text.empty()) text = Absent(sequence, entered);
    if (text.empty()) text = Failed(sequence, entered);
    if (text.empty()) return std::nullopt;
    const auto first = std::min_element(
        entered.begin(), entered.end(),
        [this](const Entry& a, const Entry& b) { return EntryTime(a) < EntryTime(b); });
    const FlightCall& call = *first->call;
    return Divergence{EntryTime(*first), first->of->record,
                      (call.begin != nullptr ? call.begin : call.end)->thread,
                      fmt::format("communicator \"{}\"{}, epoch {}{}: {}", group_.name,
                                  group_.color < 0 ? "" : fmt::format(" of color {}", group_.color),
                                  group_.epoch,
                                  group_.is_local
                                      ? " of " + records_[first->of->record].Who()
                                      : "",
                                  text)};
  }

  // Ranks that called something else.
  std::string Differing(int64_t sequence, const std::vector<Entry>& entered) const {
    const Entry* reference = nullptr;
    bool differs = false;
    std::vector<std::pair<std::string, std::vector<int64_t>>> sides;
    for (const Entry& entry : entered) {
      if (entry.call->begin == nullptr) continue;
      if (reference == nullptr) reference = &entry;
      differs |= SignatureOf(*entry.call) != SignatureOf(*reference->call);
      std::string side = Describe(*entry.call);
      if (SignatureOf(*entry.call) != SignatureOf(*reference->call) &&
          side == Describe(*reference->call)) {
        side += " of other dims";
      }
      const auto same = std::find_if(sides.begin(), sides.end(),
                                     [&](const auto& known) { return known.first == side; });
      if (same != sides.end()) {
        same->second.push_back(entry.rank);
      } else {
        sides.push_back({side, {entry.rank}});
      }
    }
    if (!differs) return "";
    std::string text = fmt::format("the ranks made different calls as #{}: ", sequence);
    for (size_t i = 0; i < sides.size(); ++i) {
      text += fmt::format("{}{} {}", i > 0 ? "; " : "", NameRanks(sides[i].second), sides[i].first);
    }
    return text;
  }

  // Ranks that never came, although their records go on for longer than the others' had come.
  std::string Absent(int64_t sequence, const std::vector<Entry>& entered) const {
    int64_t first_entry = std::numeric_limits<int64_t>::max();
    std::vector<int64_t> came;
    for (const Entry& entry : entered) {
      first_entry = std::min(first_entry, EntryTime(entry));
      came.push_back(entry.rank);
    }
    std::vector<int64_t> absent;
    std::string last_calls;
    for (const auto& [number, rank] : group_.ranks) {
      if (rank.calls.contains(sequence)) continue;
      const FlightRecord& record = records_[rank.record];
      if (record.monotonic_ns + offsets_[rank.record] < first_entry) continue;
      // A recorder that has forgotten things may have forgotten all of the rank's calls.
      if (rank.calls.empty() && !record.is_complete) continue;
      absent.push_back(number);
      last_calls += "; ";
      if (rank.calls.empty()) {
        last_calls += fmt::format("rank {} has made no call", number);
      } else {
        const auto& [last, call] = *rank.calls.rbegin();
        last_calls +=
            fmt::format("the last call of rank {} was #{} {}{}", number, last, call.name(),
                        call.end == nullptr ? ", which it has not left"
                        : call.failed()     ? ", which failed with " + CodeName(call)
                                            : "");
      }
    }
    if (absent.empty()) return "";
    return fmt::format("{} stopped before #{} {}, which {} entered{}", NameRanks(absent), sequence,
                       Describe(*entered.front().call), NameRanks(came), last_calls);
  }

  // A call that all made alike, as far as is known, and that failed all the same.
  std::string Failed(int64_t sequence, const std::vector<Entry>& entered) const {
    const Entry* first = nullptr;
    for (const Entry& entry : entered) {
      if (!entry.call->failed()) continue;
      if (first == nullptr || TimeOf(entry, *entry.call->end) < TimeOf(*first, *first->call->end)) {
        first = &entry;
      }
    }
    if (first == nullptr) return "";
    std::string text = fmt::format(
        "#{} {} failed first on rank {}{}, with {}", sequence, Describe(*first->call), first->rank,
        first->call->begin == nullptr ? ", which refused its arguments" : "",
        CodeName(*first->call));
    const int64_t failed_at = TimeOf(*first, *first->call->end);
    for (const Entry& entry : entered) {
      if (entry.call->begin == nullptr) continue;
      const int64_t late_by = TimeOf(entry, *entry.call->begin) - failed_at;
      if (late_by <= 0) continue;
      text += fmt::format("; rank {} came {} after that", entry.rank, TextOf(late_by));
    }
    std::vector<int64_t> without_record;
    for (int64_t rank = 0; rank < group_.size; ++rank) {
      if (!group_.ranks.contains(rank)) without_record.push_back(rank);
    }
    if (!without_record.empty()) {
      text += fmt::format("; {} left no record: killed or hanging, or not among these files",
                          NameRanks(without_record));
    }
    return text;
  }

  const std::vector<FlightRecord>& records_;
  const FlightGroup& group_;
  const std::vector<int64_t>& offsets_;
};

}  // namespace

std::vector<Divergence> FindDivergences(const std::vector<FlightRecord>& records,
                                        const std::vector<FlightGroup>& groups,
                                        const std::vector<int64_t>& offsets) {
  std::vector<Divergence> found;
  for (const FlightGroup& group : groups) {
    if (auto divergence = GroupReader(records, group, offsets).Read()) {
      found.push_back(std::move(*divergence));
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Divergence& a, const Divergence& b) {
    return a.time_ns < b.time_ns;
  });
  return found;
}

}  // namespace tutti::tool
