// The parsers of what comes over links: frame headers, call headers, statuses.
//
// Input: which parser, then its bytes. 1 is a frame header with the checksum that belongs to it, so
// that what lies behind the checksum is reached.
//
// Properties: what was parsed is within its bounds, and written again it parses to the same.

#include <string>

#include "core/base/crc32c.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/stream/link_frame.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr int64_t kEpoch = 1;

// Groups over a tree say more at once than others do.
size_t MostBodyBytes(FrameKind kind) {
  if (kind == FrameKind::kTree) return kMaxCallHeaderBytes + kMaxOtherHeaderBytes;
  return kind == FrameKind::kRoster ? kMaxRosterBytes : kMaxCallHeaderBytes;
}

void Frame(FuzzInput input, bool with_checksum) {
  std::string bytes(input.TakeBytes(kFrameHeaderBytes));
  bytes.resize(kFrameHeaderBytes);
  if (with_checksum) {
    const size_t checked = kFrameHeaderBytes - sizeof(uint32_t);
    const uint32_t checksum = Crc32c(bytes.data(), checked);
    std::memcpy(bytes.data() + checked, &checksum, sizeof(checksum));
  }
  FrameHeader header;
  const Status status = DecodeFrameHeader(bytes.data(), kEpoch, &header);
  if (!status.ok()) {
    Require(!status.message().empty(), "a refusal says why");
    return;
  }
  Require(header.kind >= FrameKind::kCall && header.kind <= kLastFrameKind, "the kind is known");
  Require(header.epoch == kEpoch, "the epoch is this one");
  Require(header.body_bytes <= MostBodyBytes(header.kind), "a body is bounded");
  Require(header.data_bytes <= kMaxFrameDataBytes, "data is bounded");
  char again[kFrameHeaderBytes];
  EncodeFrameHeader(header, again);
  FrameHeader second;
  Require(DecodeFrameHeader(again, kEpoch, &second).ok(), "a header is read again");
  Require(second.kind == header.kind && second.sequence == header.sequence &&
              second.argument == header.argument && second.body_bytes == header.body_bytes &&
              second.data_bytes == header.data_bytes && second.body_crc == header.body_crc,
          "a header is read again as it was");
}

void Call(std::string_view bytes) {
  const Result<CallHeader> parsed = ParseCallHeader(bytes);
  if (!parsed.ok()) return;
  Require(parsed->num_tensors <= bytes.size(), "tensors are no more than the bytes say");
  for (size_t i = 0; i < parsed->num_tensors; ++i) {
    Require(parsed->tensor(i).num_elements() >= 0, "elements can be counted");
    (void)parsed->tensor(i).ToString();
  }
  std::string again;
  AppendCallHeader(*parsed, &again);
  Require(again == bytes, "a call header has one form");
  Require(SameCall(*parsed, ParseCallHeader(again).value()), "a call is the same as itself");
}

void Error(std::string_view bytes) {
  const Status status = ParseStatus(bytes);
  Require(!status.ok(), "what is parsed as an error is one");
  std::string again;
  AppendStatus(status, &again);
  Require(again.size() <= kMaxStatusBytes, "an error is bounded");
  const Status second = ParseStatus(again);
  Require(second.code() == status.code(), "an error keeps its code");
  (void)second.ToString();
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  switch (input.Take<uint8_t>() % 4) {
    case 0: Frame(input, false); break;
    case 1: Frame(input, true); break;
    case 2: Call(input.TakeRest()); break;
    default: Error(input.TakeRest());
  }
  return 0;
}
