// Writes the inputs from which fuzzing begins: for every target some that reach far into it.
//
//   make_corpus FOLDER
//
// The corpus is committed, so that every build fuzzes from the same; run it again when a format
// changes.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/cluster/membership/membership_messages.h"
#include "core/cluster/sockets/peer_handshake.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/stream/link_frame.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

std::vector<CallHeader> Headers() {
  std::vector<CallHeader> headers;
  for (int op = 1; op <= static_cast<int>(kLastCollectiveOp); ++op) {
    CallHeader header;
    header.op = static_cast<CollectiveOp>(op);
    header.num_tensors = header.op == CollectiveOp::kBarrier ? 0 : op % 3 == 1 ? 3 : 1;
    header.uneven = header.op == CollectiveOp::kGather || header.op == CollectiveOp::kAllGather;
    header.root = op % 2;
    header.first = {DType::kUint8, Dims({16})};
    if (header.num_tensors > 1) {
      header.rest = {{DType::kBfloat16, Dims({4, 0, 2})}, {DType::kFloat64, Dims()}};
    }
    headers.push_back(std::move(header));
  }
  return headers;
}

std::vector<Status> Errors() {
  return {Unavailable("rank 1 has died").With("rank", int64_t{1}).With("op", "all_reduce"),
          Status(StatusCode::kDeadlineExceeded, "too late")
              .With("seconds", 1.5)
              .WithCause(Internal("a cause")),
          InvalidArgument("{}", std::string(3000, 'x'))};
}

void MakeHandshakes(const std::filesystem::path& folder) {
  Corpus corpus(folder, "peer_handshake");
  PeerHandshake::Options options;
  options.secret = JobSecret::FromText("a secret of the fuzz target").value();
  options.peer = "worker 1";
  const auto anybody = [](const PeerPurpose&) { return OkStatus(); };
  FixedRandom random(7);
  PeerHandshake connector = PeerHandshake::Connector(options, {"a group", 1, 0}, random);
  PeerHandshake acceptor = PeerHandshake::Acceptor(options, 0, anybody, random);
  std::string said[2];
  for (int turn = 0; turn < 4; ++turn) {
    for (const int way : {0, 1}) {
      std::string bytes = (way == 0 ? connector : acceptor).TakeOutput();
      said[way] += bytes;
      PeerHandshake& to = way == 0 ? acceptor : connector;
      while (!bytes.empty() && to.wanted() != 0) {
        const std::string part = bytes.substr(0, to.wanted());
        bytes.erase(0, part.size());
        if (!to.Consume(part).ok()) std::abort();
      }
    }
  }
  if (!connector.done() || !acceptor.done()) std::abort();
  corpus.Add(std::string(1, '\0') + said[0]);
  corpus.Add(std::string(1, '\1') + said[1]);
  corpus.Add(std::string(1, '\1') + PeerHandshake::RefusalFrame(Errors()[0]));
  corpus.Add(std::string(1, '\2'));
  for (const uint16_t place : {9, 14, 15, 40, 120, 0x8000 + 9, 0x8000 + 60, 0x8000 + 150}) {
    for (const uint8_t action : {0, 2}) {
      std::string input(1, '\2');
      Put(&input, place);
      Put(&input, action);
      Put(&input, uint8_t{1});
      corpus.Add(input);
    }
  }
}

void MakeFrames(const std::filesystem::path& folder) {
  Corpus corpus(folder, "link_frame");
  for (int kind = 1; kind <= static_cast<int>(kLastFrameKind); ++kind) {
    FrameHeader header;
    header.kind = static_cast<FrameKind>(kind);
    header.epoch = 1;
    header.sequence = 7;
    header.body_bytes = kind == 2 ? 0 : 40;
    header.data_bytes = kind <= 2 ? 64 : 0;
    std::string input(1, kind % 2 == 0 ? '\0' : '\1');
    input.resize(1 + kFrameHeaderBytes);
    EncodeFrameHeader(header, input.data() + 1);
    corpus.Add(input);
  }
  for (const CallHeader& header : Headers()) {
    std::string input(1, '\2');
    AppendCallHeader(header, &input);
    corpus.Add(input);
  }
  for (const Status& status : Errors()) {
    std::string input(1, '\3');
    AppendStatus(status, &input);
    corpus.Add(input);
  }
}

// What the target makes frames of.
void PutFrame(FrameKind kind, uint8_t flags, int8_t sequence, uint16_t argument,
              const std::string& body, uint16_t data_bytes, std::string* input) {
  Put(input, static_cast<uint8_t>(kind));
  Put(input, flags);
  Put(input, int8_t{0});  // the epoch's distance from the right one
  Put(input, static_cast<int8_t>(sequence - 1));
  Put(input, argument);
  Put(input, static_cast<uint16_t>(body.size()));
  Put(input, data_bytes);
  *input += body;
}

// What once was waited behind for ever.
void MakeFoundPeers(Corpus* corpus) {
  std::string input(1, '\0');
  PutFrame(FrameKind::kData, 0, 1, 0, "", 0, &input);  // of a call that the peer has not made
  corpus->Add(input);
  input = std::string(1, '\5');
  PutFrame(FrameKind::kSendData, 0, 1, 0, "", 0, &input);  // of a send to which it has not come
  corpus->Add(input);
}

// Groups whose calls begin with a tree: the peer's word, or that of rank 0, its header where the
// payload does not go along, and the payload.
void MakeTreePeers(Corpus* corpus) {
  constexpr uint8_t kLarge = 8, kTree = 16, kUpper = 32, kChain = 64;
  for (const uint8_t group : {uint8_t{kTree}, uint8_t{kTree | kUpper}, uint8_t{kTree | kChain},
                              uint8_t{kTree | kUpper | kChain}}) {
    for (const uint8_t which : {0, 1, 2, 3, 7, 0 | kLarge, 2 | kLarge, 7 | kLarge}) {
      constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast,
                                       CollectiveOp::kAllGather, CollectiveOp::kBarrier};
      const bool is_chain = (group & kChain) != 0;
      const uint16_t count = (which & kLarge) == 0 ? 16 : 8000;
      CallHeader header;
      header.op = which % 8 == 7 ? CollectiveOp::kReduceScatter : kOps[which % 8];
      header.num_tensors = header.op == CollectiveOp::kBarrier ? 0 : 1;
      header.uneven = header.op == CollectiveOp::kAllGather;
      header.root = header.op == CollectiveOp::kBroadcast ? 1 : 0;
      header.reduction =
          which % 8 == 0 || which % 8 == 7 ? ReduceOp::kMax : ReduceOp::kSum;
      if (header.num_tensors != 0) header.first = {DType::kUint8, Dims({count})};
      std::string body;
      AppendCallHeader(header, &body);
      const bool goes_along = !is_chain && header.op == CollectiveOp::kAllReduce;
      std::string input(1, static_cast<char>(group | which));
      PutFrame(FrameKind::kRoster, 0, 1, 0, body.substr(0, 1) + "11", 0, &input);
      PutFrame(FrameKind::kTree, 0, 1, static_cast<uint16_t>(body.size()), body,
               goes_along ? count : 0, &input);
      if (!goes_along) {
        PutFrame(FrameKind::kCall, 0, 1, count, body, 0, &input);
        // Rows and bytes of what goes around, and what little goes along, are all 'd'.
        if (header.uneven) PutFrame(FrameKind::kData, 0, 1, 0, "", 16, &input);
        const uint16_t share = header.op == CollectiveOp::kReduceScatter ? count / 2 : count;
        const uint16_t first = std::min<uint16_t>(share, is_chain && share == 8000 ? 4032 : share);
        PutFrame(FrameKind::kData, 0, 1, 0, "", first, &input);
        PutFrame(FrameKind::kData, 0, 1, 1, "", share == first ? share : share - first, &input);
      }
      corpus->Add(input);
    }
  }
}

void MakePeers(const std::filesystem::path& folder) {
  Corpus corpus(folder, "link_peer");
  const CollectiveOp ops[] = {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast,
                              CollectiveOp::kAllGather, CollectiveOp::kBarrier,
                              CollectiveOp::kReceive,   CollectiveOp::kSend,
                              CollectiveOp::kAllToAll,  CollectiveOp::kReduceScatter};
  for (uint8_t which = 0; which < 16; ++which) {
    const CollectiveOp op = ops[which % 8];
    const uint16_t count = which < 8 ? 16 : 34464;  // the low bits of 100'000
    CallHeader header;
    header.op = op;
    header.num_tensors = op == CollectiveOp::kBarrier ? 0 : 1;
    header.uneven = op == CollectiveOp::kAllGather || op == CollectiveOp::kAllToAll;
    header.root = op == CollectiveOp::kBroadcast ? 1 : 0;
    header.reduction = which % 8 == 0 || which % 8 == 7 ? ReduceOp::kMax : ReduceOp::kSum;
    header.first = {DType::kUint8, Dims({which < 8 ? 16 : 100'000})};
    std::string body;
    if (header.num_tensors == 0) header.first = {};
    AppendCallHeader(header, &body);
    const FrameKind kind = op == CollectiveOp::kSend      ? FrameKind::kSend
                           : op == CollectiveOp::kReceive ? FrameKind::kReceive
                                                          : FrameKind::kCall;
    const uint16_t data = kind == FrameKind::kReceive || count != 16 ? 0 : 16;
    std::string input(1, static_cast<char>(which));
    PutFrame(kind, 0, 1, data, body, data, &input);
    corpus.Add(input);
    PutFrame(kind == FrameKind::kCall ? FrameKind::kData : FrameKind::kSendData, 0, 1, 0, "", 4096,
             &input);
    corpus.Add(input);
    std::string error;
    AppendStatus(Errors()[which % 2], &error);
    PutFrame(which % 2 == 0 ? FrameKind::kError : FrameKind::kGoodbye, 0, 1, 0, error, 0, &input);
    corpus.Add(input);
  }
  MakeFoundPeers(&corpus);
  MakeTreePeers(&corpus);
}

void MakeSharedHeaders(const std::filesystem::path& folder) {
  Corpus corpus(folder, "shared_header");
  for (const CallHeader& header : Headers()) {
    std::vector<std::byte> bytes;
    EncodeSharedHeader(header, &bytes);
    std::string input(1, static_cast<char>(static_cast<int>(header.op) - 1));
    input += '\0';
    input.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    corpus.Add(input);
    input[1] = '\1';
    input.resize(input.size() - bytes.size() / 3);
    corpus.Add(input);
  }
}

// A message as the target takes it: a descriptor of a kind and size, and "window" or "none".
void PutWindow(uint8_t kind, uint32_t size, uint8_t text, std::string* input) {
  Put(input, kind);
  Put(input, size);
  Put(input, text);
}

void PutPlace(uint8_t rank, uint64_t offset, uint64_t bytes, std::string* input) {
  Put(input, rank);
  Put(input, offset);
  Put(input, bytes);
  Put(input, uint8_t{0});  // taken as they are
}

void MakeWindows(const std::filesystem::path& folder) {
  Corpus corpus(folder, "window_passing");
  for (const uint8_t shape : {0, 1, 2}) {
    const int ranks = 2 + shape / 2;
    const int peers = shape % 2 == 0 ? ranks - 1 : 1;
    // Windows, and no windows of each kind in the last place.
    for (uint8_t kind = 0; kind < 8; ++kind) {
      std::string input(1, static_cast<char>(shape));
      for (int peer = 0; peer < peers; ++peer) {
        const int messages = shape % 2 == 0 ? 1 : ranks;
        Put(&input, static_cast<uint8_t>(messages));
        for (int i = 0; i < messages; ++i) {
          const bool is_last = peer + 1 == peers && i + 1 == messages;
          PutWindow(is_last ? kind : 0, 5, is_last && kind == 5 ? 1 : 0, &input);
        }
      }
      for (uint8_t rank = 0; rank < ranks; ++rank) {
        PutPlace(rank, 4096, 4096, &input);
        PutPlace(rank, 4097, 4096, &input);
        PutPlace(rank, 6 * 4096, 0, &input);
        PutPlace(rank, UINT64_MAX - 7, 16, &input);
      }
      corpus.Add(input);
    }
  }
}

WorkerInfo Worker(int64_t number) {
  WorkerInfo info;
  info.worker = number;
  info.task = "worker " + std::to_string(number);
  info.num_replicas = 2;
  info.usable_cores = 2;
  info.pid = 4711;
  info.host = "host";
  info.boot_id = "boot";
  info.tcp_address = "127.0.0.1:2222";
  info.local_address = "@tutti-1";
  info.build = "tutti";
  return info;
}

void MakeMessages(const std::filesystem::path& folder) {
  Corpus corpus(folder, "membership");
  const Status error = Errors()[1];
  Hello hello;
  hello.incarnation = 9;
  hello.tasks = {"worker 0", "worker 1"};
  hello.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
  hello.info = Worker(1);
  RegroupPart regroup{.id = 3, .name = "group", .among = {{0, 1}, {1, 2}}, .part = "part"};
  const Note note{"topic", {0, 1}, {{1, 1}}, "content"};
  const MessageToCoordinator to_coordinator[] = {
      hello, Heartbeat{}, ExchangePart{"key", "part"}, ExchangeWithdrawal{"key", error},
      Suspicion{1, "silent", 2}, JobAbort{error, true}, Goodbye{}, Goodbye{error}, regroup,
      RegroupWithdrawal{3, error}, note, Resignation{"group", {{0, 1}, {1, 2}}, 4}};
  for (const MessageToCoordinator& message : to_coordinator) {
    corpus.Add(std::string(1, '\0') + Encode(message));
  }
  Welcome welcome;
  welcome.workers = {Worker(0), Worker(1)};
  welcome.silence_limit_ns = 1;
  welcome.heartbeat_interval_ns = 1;
  welcome.newcomers = {{1, 3}};
  welcome.absent = {{1, error}};
  const MessageToMember to_member[] = {
      Refusal{error}, Gathering{"worker 1", error}, welcome, Heartbeat{},
      ExchangeResult{"key", {"a", "b"}, true}, ExchangeFailure{"key", error}, JobFailure{error},
      Departure{1, error}, Arrival{Worker(1), 4}, RegroupResult{3, 2, {{0, 1}}, {"part"}, true},
      RegroupFailure{3, error}, note};
  for (const MessageToMember& message : to_member) {
    corpus.Add(std::string(1, '\1') + Encode(message));
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  tutti::MakeHandshakes(argv[1]);
  tutti::MakeFrames(argv[1]);
  tutti::MakePeers(argv[1]);
  tutti::MakeSharedHeaders(argv[1]);
  tutti::MakeWindows(argv[1]);
  tutti::MakeMessages(argv[1]);
  tutti::MakeDatasetCorpus(argv[1]);
  return 0;
}
