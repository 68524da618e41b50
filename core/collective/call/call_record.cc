#include "core/collective/call/call_record.h"

#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "core/base/environment.h"
#include "core/base/host_data.h"
#include "core/base/log.h"
#include "core/base/recorder.h"
#include "core/base/text.h"

namespace tutti {
namespace {

using FlightNames = std::array<const char*, kFlightArguments>;
// `call` is a hash of what must be equal on all ranks: dtypes and dims, the axis, the hints.
constexpr FlightNames kCallNames = {"subject", "sequence",  "bytes", "dtype",
                                    "root",    "reduction", "call"};
// `algorithm` is a CollectiveAlgorithm, or -1.
constexpr FlightNames kEndNames = {"subject", "sequence", "code", "algorithm"};
// Transfers have numbers of their own, which must not be taken for the group's sequence.
constexpr FlightNames kTransferNames = {"subject", "number", "bytes", "dtype", "peer"};
constexpr FlightNames kTransferEndNames = {"subject", "number", "code", "peer"};

struct FlightEvents {
  FlightEventType begin;
  FlightEventType end;
};
constexpr FlightEvents Collective(const char* name) {
  return {{name, kCallNames}, {name, kEndNames}};
}
constexpr FlightEvents Transfer(const char* name) {
  return {{name, kTransferNames}, {name, kTransferEndNames}};
}
constexpr FlightEvents kFlightEvents[] = {
    Collective("none"),       Collective("all_reduce"),     Collective("broadcast"),
    Collective("all_gather"), Collective("barrier"),        Collective("reduce"),
    Collective("reduce_scatter"), Collective("gather"),     Collective("scatter"),
    Collective("all_to_all"), Transfer("send"),             Transfer("receive"),
};
static_assert(std::size(kFlightEvents) == static_cast<size_t>(kLastCollectiveOp) + 1);

bool HasReduction(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

bool HasRoot(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kGather || op == CollectiveOp::kScatter;
}

// One step of FNV-1a with words in place of bytes; it only has to tell calls apart.
uint64_t Mix(uint64_t hash, uint64_t word) { return (hash ^ word) * 0x100000001b3; }

int64_t HashOfCall(const CallHeader& header) {
  uint64_t hash = Mix(0xcbf29ce484222325, static_cast<uint64_t>(header.axis));
  hash = Mix(hash, header.uneven ? 1 : 0);
  if (header.hints.any()) {
    hash = Mix(hash, static_cast<uint64_t>(header.hints.implementation));
    hash = Mix(hash, static_cast<uint64_t>(header.hints.bytes_per_pack));
  }
  if (header.gpu_op != CollectiveOp::kNone) hash = Mix(hash, 1000);
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const TensorSignature& tensor = header.tensor(i);
    hash = Mix(hash, static_cast<uint64_t>(tensor.dtype));
    hash = Mix(hash, tensor.dims.size());
    for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
      const bool may_differ = header.uneven && axis == static_cast<size_t>(header.axis);
      hash = Mix(hash, may_differ ? 0 : static_cast<uint64_t>(tensor.dims[axis]));
    }
  }
  // 53 bits: whoever reads JSON numbers as doubles reads it whole.
  return static_cast<int64_t>(hash >> 11);
}

// The same failure with more behind its message.
Status WithSuffix(const Status& status, const std::string& suffix) {
  Status longer(status.code(), std::string(status.message()) + suffix);
  for (const StatusDetail& detail : status.details()) {
    longer = std::visit(
        [&](const auto& value) { return std::move(longer).With(detail.key, value); },
        detail.value);
  }
  for (const Status& cause : status.causes()) longer = std::move(longer).WithCause(cause);
  if (status.host_object() != nullptr) {
    longer = std::move(longer).WithHostObject(
        Ref<const HostData>::Retain(status.host_object()));
  }
  return longer;
}

// A record that cannot be written is logged; the call's own error is what counts.
void WriteFlightRecord(Environment* environment, const std::string& group_name) {
  const Result<std::string> path = environment->WriteFlightRecord();
  if (!path.ok()) {
    environment->log().Warning(Format("the flight record of communicator {} was not written: {}",
                                      group_name, path.status().message()));
  } else if (!path->empty()) {
    environment->log().Warning(
        Format("the flight record of communicator {}: {}", group_name, *path));
  }
}

}  // namespace

FlightArguments CallBeginRecord(int64_t subject, const CollectiveCall& call, int64_t bytes) {
  const CallHeader& header = call.header;
  const auto dtype =
      static_cast<int64_t>(header.num_tensors > 0 ? header.first.dtype : DType::kInvalid);
  const int64_t root = HasRoot(header.op) ? header.root : -1;
  const int64_t reduction = HasReduction(header.op) ? static_cast<int64_t>(header.reduction) : 0;
  return {subject, call.sequence, bytes, dtype, root, reduction, HashOfCall(header)};
}

void RecordKnownCall(CollectiveCall* call) {
  if (call->begin_record == nullptr) return;
  call->recorder->Record(kFlightEvents[static_cast<int>(call->header.op)].begin,
                         FlightPhase::kBegin, *call->begin_record);
  call->begin_record = nullptr;
}

void RecordCallBegin(Recorder* recorder, int64_t subject, const CollectiveCall& call,
                     int64_t bytes) {
  const CallHeader& header = call.header;
  const auto dtype = static_cast<int64_t>(header.first.dtype);
  recorder->Record(kFlightEvents[static_cast<int>(header.op)].begin, FlightPhase::kBegin,
                   call.peer >= 0
                       ? FlightArguments{subject, call.sequence, bytes, dtype, call.peer}
                       : CallBeginRecord(subject, call, bytes));
}

void RecordCallEnd(Recorder* recorder, int64_t subject, const CollectiveCall& call,
                   StatusCode code) {
  recorder->Record(kFlightEvents[static_cast<int>(call.header.op)].end, FlightPhase::kEnd,
                   FlightArguments{subject, call.sequence, static_cast<int64_t>(code),
                                   call.peer >= 0 ? call.peer : call.algorithm});
}

Status WithFlightRecord(Environment* environment, Transport* transport,
                        const std::string& group_name, Status status) {
  // Whoever cancels knows why; closing an iterator ends its exchange so.
  if (status.ok() || status.code() == StatusCode::kCancelled) return status;
  if (transport->ClaimFlightRecord()) WriteFlightRecord(environment, group_name);
  const std::string path = environment->recorder().last_path();
  if (path.empty() || status.FindDetail("flight_record") != nullptr) return status;
  return WithSuffix(status, Format("; the flight record is in {}", path))
      .With("flight_record", path);
}

}  // namespace tutti
