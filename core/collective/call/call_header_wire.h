// Call headers and statuses as bytes, for ranks that are in other processes. What is parsed may
// come from a rank that went astray: every number is checked before it is used.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_CALL_HEADER_WIRE_H_
#define TUTTI_CORE_COLLECTIVE_CALL_CALL_HEADER_WIRE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/collective/call/call_header.h"

namespace tutti {

// A header beyond it is refused where the call is made: some 30000 tensors.
inline constexpr size_t kMaxCallHeaderBytes = size_t{1} << 20;
// Longer messages and lists of details and causes are cut.
inline constexpr size_t kMaxStatusBytes = size_t{8} << 10;

void AppendCallHeader(const CallHeader& header, std::string* out);
// DATA_LOSS for bytes that are no header. Shapes are valid: no dim is negative, and their elements
// and bytes can be counted.
Result<CallHeader> ParseCallHeader(std::string_view bytes);

// Code, message and details; of the causes their text. A host object stays behind.
void AppendStatus(const Status& status, std::string* out);
// What was appended, which is never OK; DATA_LOSS for other bytes.
Status ParseStatus(std::string_view bytes);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_CALL_HEADER_WIRE_H_
