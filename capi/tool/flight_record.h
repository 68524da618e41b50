// A flight record as the library writes it when a collective fails (core/base/recorder.h): what one
// process did last.

#ifndef TUTTI_CAPI_TOOL_FLIGHT_RECORD_H_
#define TUTTI_CAPI_TOOL_FLIGHT_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tutti::tool {

// A rank of a communicator.
struct FlightMember {
  int64_t number = 0;  // how events name it
  std::string name;
  int64_t rank = 0;
  int64_t size = 1;
  int64_t epoch = 1;
  // Of a part of another communicator: which one, the same number on all of its ranks and another
  // one for every other part, whatever their names; and its color in the split.
  int64_t group = 0;
  int64_t color = -1;
};

struct FlightEvent {
  enum class Phase { kInstant, kBegin, kEnd };

  int64_t time_ns = 0;
  int64_t thread = 0;
  std::string name;
  Phase phase = Phase::kInstant;
  std::map<std::string, int64_t> arguments;

  // What is not there is -1.
  int64_t Argument(const std::string& key) const {
    const auto found = arguments.find(key);
    return found == arguments.end() ? -1 : found->second;
  }
};

struct FlightRecord {
  std::string file;
  std::string job;
  int64_t worker = 0;
  std::string host;
  std::string boot;
  int64_t pid = 0;
  int64_t wall_ns = 0;       // when it was written, by both clocks
  int64_t monotonic_ns = 0;  // the clock of the events
  bool is_complete = true;   // no earlier event has been overwritten
  std::vector<FlightMember> members;
  std::vector<FlightEvent> events;  // oldest first

  // "worker 1", or "process 4711" outside of a job.
  std::string Who() const;
};

// What is wrong with the text of `record->file`, or "" when the record is filled.
std::string ParseFlightRecord(const std::string& text, FlightRecord* record);

// The records of one job, by worker. `paths` are files, or directories with flight-*.json in them,
// or with the directory job-* of one job.
// Gives what is wrong: a file that cannot be read, is none, or is of another job or the same worker
// as another one.
// `told` hears how many of how many files are read, and is called before the first one, too; or
// null.
using FilesRead = std::function<void(size_t read, size_t files)>;
std::string ReadFlightRecords(const std::vector<std::string>& paths,
                              std::vector<FlightRecord>* records, const FilesRead& told = nullptr);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_FLIGHT_RECORD_H_
