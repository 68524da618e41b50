#include "capi/tool/chrome_trace.h"

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace tutti::tool {
namespace {

using nlohmann::json;

class TraceMaker {
 public:
  TraceMaker(const std::vector<FlightRecord>& records, const std::vector<int64_t>& offsets)
      : records_(records), offsets_(offsets) {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < records.size(); ++i) {
      for (const FlightEvent& event : records[i].events) {
        first = std::min(first, event.time_ns + offsets[i]);
      }
    }
    start_ns_ = first;
  }

  json Make(const std::vector<Divergence>& divergences) {
    for (size_t i = 0; i < records_.size(); ++i) AddRecord(i);
    bool is_first = true;
    for (const Divergence& divergence : divergences) {
      events_.push_back({{"name", (is_first ? "first divergence: " : "divergence: ") +
                                      divergence.text},
                         {"cat", "divergence"},
                         {"ph", "i"},
                         {"s", "g"},
                         {"ts", Microseconds(divergence.time_ns)},
                         {"pid", PidOf(divergence.record)},
                         {"tid", divergence.thread}});
      is_first = false;
    }
    return {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events_)}};
  }

 private:
  // The worker, which people know, and not the process, whose number another host may use too.
  int64_t PidOf(size_t record) const {
    return records_[record].job.empty() ? static_cast<int64_t>(record) : records_[record].worker;
  }

  double Microseconds(int64_t time_ns) const {
    return static_cast<double>(time_ns - start_ns_) * 1e-3;
  }

  void AddName(const char* what, size_t record, int64_t thread, const std::string& name) {
    events_.push_back({{"name", what},
                       {"ph", "M"},
                       {"pid", PidOf(record)},
                       {"tid", thread},
                       {"args", {{"name", name}}}});
  }

  void AddRecord(size_t i) {
    const FlightRecord& record = records_[i];
    const std::string host = record.host.empty() ? "" : " on " + record.host;
    AddName("process_name", i, 0, fmt::format("{} (pid {}{})", record.Who(), record.pid, host));
    std::map<int64_t, const FlightMember*> members;
    for (const FlightMember& member : record.members) members[member.number] = &member;
    std::map<int64_t, int> open;  // by thread: begins without their end
    for (const FlightEvent& event : record.events) {
      if (!open.contains(event.thread)) {
        AddName("thread_name", i, event.thread, fmt::format("thread {}", event.thread));
      }
      int& depth = open[event.thread];
      if (event.phase == FlightEvent::Phase::kBegin) ++depth;
      if (event.phase == FlightEvent::Phase::kEnd && depth-- == 0) {
        depth = 0;
        continue;
      }
      AddEvent(i, event, members);
    }
  }

  void AddEvent(size_t record, const FlightEvent& event,
                const std::map<int64_t, const FlightMember*>& members) {
    json arguments = json::object();
    for (const auto& [key, value] : event.arguments) {
      if (key == "code") {
        arguments[key] = tutti_code_get_name(static_cast<tutti_code>(value));
      } else if (key == "dtype" && value > 0) {
        arguments[key] = tutti_dtype_get_name(static_cast<tutti_dtype>(value));
      } else if (key != "call" && key != "subject") {
        arguments[key] = value;
      }
    }
    const auto member = members.find(event.Argument("subject"));
    if (member != members.end()) {
      arguments["communicator"] = member->second->name;
      if (member->second->color >= 0) arguments["color"] = member->second->color;
      arguments["epoch"] = member->second->epoch;
      arguments["rank"] = member->second->rank;
    }
    const int64_t sequence = event.Argument("sequence");
    constexpr const char* kPhases[] = {"i", "B", "E"};
    events_.push_back(
        {{"name", sequence > 0 ? fmt::format("{} #{}", event.name, sequence) : event.name},
         {"cat", member != members.end() ? "collective" : "event"},
         {"ph", kPhases[static_cast<int>(event.phase)]},
         {"ts", Microseconds(event.time_ns + offsets_[record])},
         {"pid", PidOf(record)},
         {"tid", event.thread},
         {"args", std::move(arguments)}});
    if (event.phase == FlightEvent::Phase::kInstant) events_.back()["s"] = "t";
  }

  const std::vector<FlightRecord>& records_;
  const std::vector<int64_t>& offsets_;
  int64_t start_ns_ = 0;
  json events_ = json::array();
};

}  // namespace

std::string MakeChromeTrace(const std::vector<FlightRecord>& records,
                            const std::vector<int64_t>& offsets,
                            const std::vector<Divergence>& divergences) {
  return TraceMaker(records, offsets).Make(divergences).dump(
             -1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::tool
