// What the flight recorder holds of each call, and the record that is written when an epoch fails:
// of what the ranks of this process did last, for whoever asks why. For the communicator's own
// files.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_CALL_RECORD_H_
#define TUTTI_CORE_COLLECTIVE_CALL_CALL_RECORD_H_

#include <cstdint>
#include <string>

#include "core/base/recorder.h"
#include "core/base/status.h"
#include "core/collective/call/transport.h"

namespace tutti {

class Environment;

// `subject` is the rank's of the recorder; `bytes` are those of the rank's tensors.
void RecordCallBegin(Recorder* recorder, int64_t subject, const CollectiveCall& call,
                     int64_t bytes);
// What that records of a collective.
FlightArguments CallBeginRecord(int64_t subject, const CollectiveCall& call, int64_t bytes);
// Which of it is the sequence; all else is the same in all calls with that header.
inline constexpr size_t kFlightSequence = 1;
// Of a known call that has not been recorded yet.
void RecordKnownCall(CollectiveCall* call);
void RecordCallEnd(Recorder* recorder, int64_t subject, const CollectiveCall& call,
                   StatusCode code);

// The status that a call ends with: the first failure of the epoch in this process writes the
// flight record, and every failure's message and detail "flight_record" say where it is.
Status WithFlightRecord(Environment* environment, Transport* transport,
                        const std::string& group_name, Status status);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_CALL_RECORD_H_
