// Flight records for tests, written down call by call.

#ifndef TUTTI_CAPI_TOOL_FLIGHT_TESTING_H_
#define TUTTI_CAPI_TOOL_FLIGHT_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "capi/tool/flight_record.h"

namespace tutti::tool {

// The record of a worker that is one rank of the communicator "c".
class RecordWriter {
 public:
  RecordWriter(int64_t rank, int64_t size, std::string boot = "b") {
    record_.file = "flight-" + std::to_string(rank) + ".json";
    record_.job = "j";
    record_.worker = rank;
    record_.boot = std::move(boot);
    record_.members.push_back({0, "c", rank, size, 1});
    record_.monotonic_ns = record_.wall_ns = 1'000'000;
  }

  // `code` -1: it has not ended.
  RecordWriter& Call(const std::string& name, int64_t begin_ns, int64_t end_ns, int64_t code = 0,
                     int64_t call = 1, int64_t bytes = 32) {
    ++sequence_;
    Add(name, begin_ns, FlightEvent::Phase::kBegin,
        {{"subject", 0}, {"sequence", sequence_}, {"bytes", bytes}, {"dtype", 12}, {"root", -1},
         {"reduction", 1}, {"call", call}});
    if (code >= 0) {
      Add(name, end_ns, FlightEvent::Phase::kEnd,
          {{"subject", 0}, {"sequence", sequence_}, {"code", code}});
    }
    return *this;
  }
  // The calls before were overwritten.
  RecordWriter& Forget(int64_t num_calls) {
    record_.events.clear();
    record_.is_complete = false;
    sequence_ = num_calls;
    return *this;
  }
  RecordWriter& WrittenAt(int64_t monotonic_ns, int64_t wall_ns) {
    record_.monotonic_ns = monotonic_ns;
    record_.wall_ns = wall_ns;
    return *this;
  }

  operator FlightRecord() const { return record_; }

 private:
  void Add(const std::string& name, int64_t time_ns, FlightEvent::Phase phase,
           std::map<std::string, int64_t> arguments) {
    FlightEvent event;
    event.name = name;
    event.time_ns = time_ns;
    event.thread = 100 + record_.worker;
    event.phase = phase;
    event.arguments = std::move(arguments);
    record_.events.push_back(std::move(event));
  }

  FlightRecord record_;
  int64_t sequence_ = 0;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_FLIGHT_TESTING_H_
