// DeviceSpec: a possibly partial description of where something lives.
//
//   TUTTI_ASSIGN_OR_RETURN(DeviceSpec spec, DeviceSpec::Parse("/job:worker/task:1/device:cpu:0"));
//   spec.ToString()                                       // "/job:worker/task:1/device:CPU:0"
//   DeviceSpec inner = outer.MergedWith(spec);            // what `spec` says wins
//
// Fields are job, replica, task, device type and device index, each optional. A value type.
#ifndef TUTTI_CORE_DEVICE_DEVICE_SPEC_H_
#define TUTTI_CORE_DEVICE_DEVICE_SPEC_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

struct DeviceSpec {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> device_type;  // "CPU", "GPU", "TPU"; Parse turns it to upper case
  std::optional<int> device_index;

  // Reads "/job:J/replica:R/task:T/device:TYPE:I", any of the parts, in any order, "*" for an index
  // that may be any; the short forms "/TYPE:I", "TYPE:I" and "/TYPE" of CPU, GPU and TPU; and ""
  // for nothing at all. INVALID_ARGUMENT names the part that is wrong, with the nearest word, and a
  // part that comes twice.
  static Result<DeviceSpec> Parse(std::string_view text);

  // Specs of nested scopes, outermost first: inner fields win.
  static Result<DeviceSpec> ParseNested(std::span<const std::string> scopes);

  // This spec overridden by every field that `inner` has.
  DeviceSpec MergedWith(const DeviceSpec& inner) const;

  // "/job:ps/replica:0/task:1/device:GPU:0", with the fields that are there; a type without an
  // index is "/device:GPU:*".
  std::string ToString() const;

  friend bool operator==(const DeviceSpec& a, const DeviceSpec& b) = default;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_DEVICE_SPEC_H_
