// The messages of the membership protocol, as they come off the wire.
//
// Input: who reads it, then the message. Property: a message that was accepted is accepted when it
// is written again, and then written the same once more.

#include <string>

#include "core/cluster/membership/membership_messages.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

template <typename Message>
void ReadAndWrite(std::string_view bytes) {
  Message message;
  const Status status = Decode(bytes, &message);
  if (!status.ok()) {
    Require(!status.message().empty(), "a refusal says why");
    return;
  }
  const std::string again = Encode(message);
  Message second;
  Require(Decode(again, &second).ok(), "a message is read again");
  Require(second.index() == message.index(), "a message keeps its kind");
  Require(Encode(second) == again, "a message is written the same once more");
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  if (input.Take<uint8_t>() % 2 == 0) {
    ReadAndWrite<MessageToCoordinator>(input.TakeRest());
  } else {
    ReadAndWrite<MessageToMember>(input.TakeRest());
  }
  return 0;
}
