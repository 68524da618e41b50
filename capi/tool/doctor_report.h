// What `tutti doctor` found: facts about this machine by subject, and problems, each with what to
// do about it.

#ifndef TUTTI_CAPI_TOOL_DOCTOR_REPORT_H_
#define TUTTI_CAPI_TOOL_DOCTOR_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tutti::tool {

using Json = nlohmann::ordered_json;

class DoctorReport {
 public:
  // A subject, in one JSON value for programs and in lines for people.
  void Add(const std::string& subject, Json facts, std::vector<std::string> lines);

  // Something that will hurt; `next_step` says what to do.
  void AddProblem(const std::string& what, const std::string& next_step);
  // The same, and Tutti cannot be used as long as it lasts.
  void AddFatalProblem(const std::string& what, const std::string& next_step);

  bool usable() const { return usable_; }
  // The problems first; subjects may be left out.
  std::string ToText(const std::set<std::string>& left_out) const;
  std::string ToJson() const;

 private:
  struct Subject {
    std::string name;
    Json facts;
    std::vector<std::string> lines;
  };
  struct Problem {
    std::string what;
    std::string next_step;
    bool fatal;
  };
  std::vector<Subject> subjects_;
  std::vector<Problem> problems_;
  bool usable_ = true;
};

// "1.5 GiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DOCTOR_REPORT_H_
