// A rank in a call, whose peer sends frames of its own making and then ends its side of the link.
//
// Input: the call that the rank makes, and in what group; then frames: kind, flags, epoch,
// sequence, argument, sizes of body and data, and as many bytes. Checksums are right, so that what
// lies behind them is reached, unless a flag says otherwise. Property: the call ends, whatever
// came.

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/real_environment.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/stream/link_frame.h"
#include "core/collective/testing/link_ranks.h"
#include "core/collective/testing/no_connector_testing.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr int64_t kHangNs = 20 * kSecondNs;
// A peer may announce a tensor of any size; what does not fit into this is refused.
constexpr uint64_t kMemoryBytes = uint64_t{256} << 20;
enum Flag : uint8_t { kWrongChecksum = 1, kWrongBodyChecksum = 2, kWrongSize = 4, kCutOff = 8 };

Ref<RealEnvironment>& SharedEnvironment() {
  static Ref<RealEnvironment> environment =
      MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff,
                                                      .memory_limit_bytes = kMemoryBytes});
  return environment;
}

std::string Frames(FuzzInput* input) {
  std::string stream;
  while (!input->empty() && stream.size() < (64 << 10)) {
    FrameHeader header;
    header.kind = static_cast<FrameKind>(input->Take<uint8_t>());
    const auto flags = input->Take<uint8_t>();
    header.epoch = 1 + input->Take<int8_t>();
    header.sequence = 1 + input->Take<int8_t>();
    header.argument = input->Take<uint16_t>();
    const size_t body_bytes = input->Take<uint16_t>() % 2048;
    const size_t data_bytes = input->Take<uint16_t>() % 8192;
    const std::string_view body = input->TakeBytes(body_bytes);
    const std::string data(data_bytes, 'd');  // tensor elements: any bytes are as good
    header.body_bytes = static_cast<uint32_t>(body.size());
    header.data_bytes = static_cast<uint32_t>(data.size());
    if ((flags & kWrongSize) != 0) header.data_bytes = input->Take<uint32_t>();
    header.body_crc = Crc32c(body.data(), body.size());
    if ((flags & kWrongBodyChecksum) != 0) header.body_crc ^= 1;
    std::string head(kFrameHeaderBytes, '\0');
    EncodeFrameHeader(header, head.data());
    if ((flags & kWrongChecksum) != 0) head[input->Take<uint8_t>() % kFrameHeaderBytes] ^= 1;
    stream += head;
    stream += body;
    stream += data;
    if ((flags & kCutOff) != 0) {
      stream.resize(stream.size() - input->Take<uint16_t>() % stream.size());
      break;
    }
  }
  return stream;
}

Ref<Tensor> Bytes(int64_t count) { return Tensor::Create(DType::kUint8, Shape({count})).value(); }

// The first byte: one of eight calls, and
enum Group : uint8_t {
  kLarge = 8,
  kTree = 16,   // as of many ranks, whose calls begin with a tree
  kUpper = 32,  // this rank is the upper one
  kChain = 64,  // payloads go along the chain, or around the ring
};

std::shared_ptr<const SelectorTable> TableFor(uint8_t which) {
  static const auto tree = SelectorTable::Parse(
      "all_reduce tcp any 64KiB tree; broadcast tcp any any tree; all_gather tcp any 64KiB tree",
      "tree").value();
  static const auto chain = SelectorTable::Parse(
      "all_reduce tcp any any chain 4KiB; broadcast tcp any any tree; "
      "reduce_scatter tcp any any chain 4KiB; all_gather tcp any any ring",
      "chain").value();
  return (which & kChain) != 0 ? chain : (which & kTree) != 0 ? tree : nullptr;
}

Status MakeCall(uint8_t which, int64_t peer, Communicator& rank, const CallOptions& options) {
  // Of groups over a tree no segment is larger than what the frames here carry.
  const int64_t large = (which & kTree) != 0 ? 8000 : 100'000;
  const int64_t count = (which & kLarge) != 0 ? large : 16;
  const Ref<Tensor> input = Bytes(count);
  Ref<Tensor> output;
  switch (which % 8) {
    case 0: return rank.AllReduce(*input, ReduceOp::kMax, options, input.get());
    case 1: return rank.Broadcast(1, options, input.get());
    case 2: return rank.AllGather(*input, 0, options, &output);
    case 3: return rank.Barrier(options);
    case 4: return rank.Send(*input, peer, options);
    case 5: return rank.Receive(peer, options, input.get());
    case 6: {
      const int64_t rows[] = {count / 2, count - count / 2};
      return rank.AllToAllUneven(*input, rows, options, &output, nullptr);
    }
    default: return rank.ReduceScatter(*input, ReduceOp::kMax, options, Bytes(count / 2).get());
  }
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  const auto which = input.Take<uint8_t>();
  SocketPair pair = MakeUnixPair();
  const int64_t own = (which & kUpper) != 0 ? 1 : 0;
  std::vector<std::unique_ptr<Link>> links(2);
  links[static_cast<size_t>(1 - own)] = std::make_unique<TcpLink>(std::move(pair.first));
  LinkTransport::Options options;
  options.name = "group";
  options.rank = own;
  options.size = 2;
  options.table = TableFor(which);
  std::unique_ptr<LinkConnector> connector;
  if ((which & kTree) != 0) connector = std::make_unique<NoConnector>();  // both are neighbours
  const Ref<Communicator> rank =
      Communicator::CreateOver(SharedEnvironment().get(), "group", own, 2, 1,
                               LinkTransport::Create(SharedEnvironment(), options,
                                                     std::move(links), std::move(connector))
                                   .value())
          .value();
  const std::string stream = Frames(&input);
  for (size_t sent = 0; sent < stream.size();) {
    const ssize_t n = send(pair.second.get(), stream.data() + sent, stream.size() - sent,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  shutdown(pair.second.get(), SHUT_WR);
  const Clock& clock = SharedEnvironment()->clock();
  const int64_t hangs_at_ns = clock.NowNs() + kHangNs;
  (void)MakeCall(which, 1 - own, *rank, CallOptions::WithTimeout(clock, kHangNs));
  Require(clock.NowNs() < hangs_at_ns, "a call ends when the peer has ended its side");
  Require(rank->Close(CallOptions::WithTimeout(clock, kHangNs)).ok(), "a rank can be closed");
  return 0;
}
