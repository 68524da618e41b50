#include "capi/tool/doctor_report.h"

#include <fmt/format.h>

#include <utility>

namespace tutti::tool {

void DoctorReport::Add(const std::string& subject, Json facts, std::vector<std::string> lines) {
  subjects_.push_back({subject, std::move(facts), std::move(lines)});
}

void DoctorReport::AddProblem(const std::string& what, const std::string& next_step) {
  problems_.push_back({what, next_step, false});
}

void DoctorReport::AddFatalProblem(const std::string& what, const std::string& next_step) {
  problems_.push_back({what, next_step, true});
  usable_ = false;
}

std::string DoctorReport::ToText(const std::set<std::string>& left_out) const {
  std::string text;
  if (problems_.empty()) {
    text = "no problems found\n";
  } else {
    text = problems_.size() == 1 ? "1 problem:\n" : fmt::format("{} problems:\n",
                                                                problems_.size());
  }
  for (const Problem& problem : problems_) {
    text += fmt::format("- {}{}:\n  {}\n", problem.fatal ? "Tutti cannot be used: " : "",
                        problem.what, problem.next_step);
  }
  text += "\n";
  for (const Subject& subject : subjects_) {
    if (left_out.contains(subject.name)) continue;
    std::string label = subject.name;
    for (const std::string& line : subject.lines) {
      text += fmt::format("{:<14} {}\n", label, line);
      label.clear();
    }
  }
  return text;
}

std::string DoctorReport::ToJson() const {
  Json json = Json::object();
  for (const Subject& subject : subjects_) json[subject.name] = subject.facts;
  json["problems"] = Json::array();
  for (const Problem& problem : problems_) {
    json["problems"].push_back(
        {{"what", problem.what}, {"next_step", problem.next_step}, {"fatal", problem.fatal}});
  }
  json["usable"] = usable_;
  // Names and variables may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

}  // namespace tutti::tool
