// The parser of call headers in shared memory, which may hold anything when a peer goes astray.
//
// Input: the operation, whether the header is all there, then its bytes. Properties: what was
// parsed is within its bounds, and written again it parses to the same call.

#include <vector>

#include "core/collective/call/shared_header.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  const auto op = static_cast<CollectiveOp>(
      1 + input.Take<uint8_t>() % static_cast<int>(kLastCollectiveOp));
  const bool complete = input.Take<uint8_t>() % 2 == 0;
  const std::string_view text = input.TakeRest();
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()),
                                         text.size());
  (void)HashSharedHeader(bytes);
  size_t whole = 0;
  const Result<CallHeader> parsed = DecodeSharedHeader(op, bytes, complete, &whole);
  if (!parsed.ok()) {
    Require(!parsed.status().message().empty(), "a refusal says why");
    return 0;
  }
  Require(parsed->num_tensors <= text.size(), "tensors are no more than the bytes say");
  Require(parsed->num_tensors <= whole, "a beginning has no more tensors than the whole");
  Require(!complete || parsed->num_tensors == whole, "a whole header has all its tensors");
  for (size_t i = 0; i < parsed->num_tensors; ++i) (void)parsed->tensor(i).ToString();
  std::vector<std::byte> again;
  EncodeSharedHeader(*parsed, &again);
  const Result<CallHeader> second = DecodeSharedHeader(op, again, true, &whole);
  Require(second.ok(), "a header is read again");
  Require(SameCall(*parsed, *second), "a header is read again as it was");
  return 0;
}
