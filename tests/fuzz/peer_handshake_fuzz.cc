// Two workers that shake hands, and somebody between them who may change what they say.
//
// Input: a mode, then for 0 and 1 what a stranger says to an acceptor or a connector; for others
// changes to the bytes on their way: where (16 bits; the highest says to whom), what to do, a byte.
//
// Properties: nobody asks for more than a message may have; and a side that got anything else than
// what the other one sent is never done, nor is anybody done when a greeting was changed.

#include <algorithm>
#include <string>
#include <vector>

#include "core/cluster/sockets/peer_handshake.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

PeerHandshake::Options OptionsFor(const char* peer) {
  PeerHandshake::Options options;
  static const JobSecret secret = JobSecret::FromText("a secret of the fuzz target").value();
  options.secret = secret;
  options.peer = peer;
  return options;
}

Status Anybody(const PeerPurpose&) { return OkStatus(); }

// Gives it all it wants of `bytes`, in portions of `step` bytes at most.
Status Feed(PeerHandshake* to, std::string_view* bytes, size_t step) {
  while (!bytes->empty() && to->wanted() > 0) {
    Require(to->wanted() <= PeerHandshake::kHeaderBytes + PeerHandshake::kMaxBodyBytes,
            "a handshake wants no more than a message");
    const std::string_view part = bytes->substr(0, std::min(step, to->wanted()));
    bytes->remove_prefix(part.size());
    const Status status = to->Consume(part);
    if (!status.ok()) {
      Require(to->wanted() == 0 && !to->done(), "a failure ends a handshake");
      Require(!status.message().empty(), "a failure says why");
      return status;
    }
  }
  return OkStatus();
}

void Stranger(PeerHandshake to, std::string_view bytes) {
  to.TakeOutput();
  const size_t step = bytes.empty() ? 1 : 1 + static_cast<uint8_t>(bytes[0]);
  (void)Feed(&to, &bytes, step);
  Require(
      to.TakeOutput().size() <= 2 * (PeerHandshake::kHeaderBytes + PeerHandshake::kMaxBodyBytes),
      "an answer is no longer than two messages");
}

struct Change {
  bool to_connector = false;
  size_t place = 0;
  uint8_t action = 0;  // 0: flip the bits of `value`, 1: put it in, 2: take a byte out, 3: cut off
  uint8_t value = 0;
};

// What gets there of `bytes`, which begin at `begin` of the stream.
std::string Changed(const std::string& bytes, bool to_connector, size_t begin,
                    const std::vector<Change>& changes) {
  std::string result = bytes;
  for (const Change& change : changes) {
    if (change.to_connector != to_connector || change.place < begin ||
        change.place - begin >= result.size()) {
      continue;
    }
    const size_t at = change.place - begin;
    switch (change.action % 4) {
      case 0: result[at] = static_cast<char>(result[at] ^ change.value); break;
      case 1: result.insert(at, 1, static_cast<char>(change.value)); break;
      case 2: result.erase(at, 1); break;
      case 3: result.resize(at); break;
    }
  }
  return result;
}

void Between(FuzzInput input) {
  std::vector<Change> changes;
  while (!input.empty() && changes.size() < 8) {
    const auto place = input.Take<uint16_t>();
    Change change;
    change.to_connector = (place & 0x8000) != 0;
    change.place = place & 0x3ff;
    change.action = input.Take<uint8_t>();
    change.value = input.Take<uint8_t>();
    changes.push_back(change);
  }
  FixedRandom random(7);
  PeerHandshake connector =
      PeerHandshake::Connector(OptionsFor("worker 0"), {"a group", 1, 0}, random);
  PeerHandshake acceptor = PeerHandshake::Acceptor(OptionsFor("worker 1"), 0, &Anybody, random);
  std::string sent[2];  // to the acceptor, to the connector
  std::string came[2];
  size_t taken[2] = {0, 0};
  for (int turn = 0; turn < 8; ++turn) {
    for (const int way : {0, 1}) {
      const std::string bytes = (way == 0 ? connector : acceptor).TakeOutput();
      came[way] += Changed(bytes, way == 1, sent[way].size(), changes);
      sent[way] += bytes;
      std::string_view rest = std::string_view(came[way]).substr(taken[way]);
      (void)Feed(way == 0 ? &acceptor : &connector, &rest, 1 << 20);
      taken[way] = came[way].size() - rest.size();
    }
  }
  const auto intact = [&](int way) {
    return came[way].substr(0, taken[way]) == sent[way].substr(0, taken[way]);
  };
  Require(!acceptor.done() || intact(0), "an acceptor lets in only who said just that");
  Require(!connector.done() || intact(1), "a connector believes only who said just that");
  Require(!connector.done() || acceptor.done(), "no connector is done before the acceptor");
  if (came[0] == sent[0] && came[1] == sent[1]) {
    Require(acceptor.done() && connector.done(), "members of a job come together");
    Require(acceptor.purpose().name == "a group", "the purpose arrives");
  }
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  FixedRandom random(7);
  switch (input.Take<uint8_t>() % 3) {
    case 0:
      Stranger(PeerHandshake::Acceptor(OptionsFor("a stranger"), 0, &Anybody, random),
               input.TakeRest());
      break;
    case 1:
      Stranger(PeerHandshake::Connector(OptionsFor("a stranger"), {"a group", 1, 0}, random),
               input.TakeRest());
      break;
    default: Between(input);
  }
  return 0;
}
