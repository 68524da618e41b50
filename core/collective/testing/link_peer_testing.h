// A rank whose peers are the test itself, which speaks the frames of the protocol by hand.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_LINK_PEER_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_LINK_PEER_TESTING_H_

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/communicator/future.h"
#include "core/collective/stream/link_frame.h"
#include "core/collective/testing/link_ranks.h"
#include "core/collective/testing/no_connector_testing.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {

struct FrameParts {
  FrameHeader header;
  std::string body;
  std::string data;
};

inline std::string Encode(FrameParts frame) {
  frame.header.body_bytes = static_cast<uint32_t>(frame.body.size());
  frame.header.data_bytes = static_cast<uint32_t>(frame.data.size());
  frame.header.body_crc = Crc32c(frame.body.data(), frame.body.size());
  std::string bytes(kFrameHeaderBytes, '\0');
  EncodeFrameHeader(frame.header, bytes.data());
  return bytes + frame.body + frame.data;
}

inline FrameParts CallFrame(const CallHeader& header, int64_t sequence, std::string data = "") {
  FrameParts frame;
  frame.header = {FrameKind::kCall, 1, sequence, data.size(), 0, 0, 0};
  AppendCallHeader(header, &frame.body);
  frame.data = std::move(data);
  return frame;
}

// What a peer says that has come to a send or receive.
inline FrameParts TransferFrame(const CallHeader& header, int64_t number, std::string data = "") {
  FrameParts frame = CallFrame(header, number, std::move(data));
  frame.header.kind = header.op == CollectiveOp::kSend ? FrameKind::kSend : FrameKind::kReceive;
  return frame;
}

inline CallHeader Header(CollectiveOp op, int64_t elements) {
  CallHeader header;
  header.op = op;
  header.uneven = op == CollectiveOp::kAllGather;
  header.num_tensors = op == CollectiveOp::kBarrier ? 0 : 1;
  if (header.num_tensors != 0) header.first = TensorSignature{DType::kUint8, Dims({elements})};
  return header;
}

// Rank 0 of two or more, whose peers are the test itself; `in_tree`: in a group whose calls begin
// with a tree, and whose sums go along a chain.
class Lone {
 public:
  explicit Lone(bool in_tree = false, int64_t news_ns = 0, int64_t size = 2,
                SocketPair (*connect)() = MakeUnixPair, std::vector<std::string> machines = {}) {
    LinkTransport::Options options;
    options.name = "group";
    options.size = size;
    options.workers = {4};
    std::vector<std::unique_ptr<Link>> links(1);
    peers_.resize(1);
    for (int64_t rank = 1; rank < size; ++rank) {
      SocketPair pair = connect();
      links.push_back(std::make_unique<TcpLink>(std::move(pair.first)));
      peers_.push_back(std::move(pair.second));
      options.workers.push_back(4 + 5 * rank);
    }
    options.news_ns = news_ns;
    options.machines = std::move(machines);
    std::unique_ptr<LinkConnector> connector;
    if (in_tree) {
      options.table = SelectorTable::Parse("all_reduce tcp any any chain", "test").value();
      connector = std::make_unique<NoConnector>();
    }
    auto transport = LinkTransport::Create(environment_, options, std::move(links),
                                           std::move(connector)).value();
    transport_ = transport.get();
    rank_ = Communicator::CreateOver(environment_.get(), "group", 0, size, 1, std::move(transport))
                .value();
  }
  ~Lone() {
    for (std::thread& thread : threads_) thread.join();
    EXPECT_TRUE(rank_->Close(CallOptions()).ok());
    rank_.reset();
    EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
  }

  void Say(const std::string& bytes, size_t peer = 1) {
    ASSERT_EQ(send(peers_[peer].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // More than there is room for at once, as the rank takes it.
  void SayAtLength(const std::string& bytes, size_t peer = 1) {
    const int socket = peers_[peer].get();
    size_t said = 0;
    while (said < bytes.size()) {
      pollfd entry{socket, POLLOUT, 0};
      ASSERT_EQ(poll(&entry, 1, 60'000), 1) << said << " bytes were taken";
      const ssize_t more = send(socket, bytes.data() + said, bytes.size() - said, MSG_NOSIGNAL);
      ASSERT_GT(more, 0);
      said += static_cast<size_t>(more);
    }
  }
  // Whether the kernel has handed on all that was said: it lies where the rank reads.
  bool HasArrived(size_t peer = 1) const {
    int left = 0;
    return ioctl(peers_[peer].get(), SIOCOUTQ, &left) == 0 && left == 0;
  }
  void HangUp(size_t peer = 1) { peers_[peer].Reset(); }
  // So many bytes of what the rank says.
  std::string Hear(size_t bytes, size_t peer = 1) {
    std::string heard(bytes, '\0');
    size_t got = 0;
    while (got < bytes) {
      pollfd entry{peers_[peer].get(), POLLIN, 0};
      if (poll(&entry, 1, 60'000) != 1) return "";
      const ssize_t more = recv(peers_[peer].get(), heard.data() + got, bytes - got, 0);
      if (more <= 0) return "";
      got += static_cast<size_t>(more);
    }
    return heard;
  }
  // The next frame of what it says, without its contents; of no kind where it is not one.
  FrameHeader HearFrame(size_t peer = 1) {
    FrameHeader header;
    const std::string bytes = Hear(kFrameHeaderBytes, peer);
    if (bytes.empty() || !DecodeFrameHeader(bytes.data(), 1, &header).ok()) return FrameHeader();
    const size_t rest = header.body_bytes + header.data_bytes;
    return Hear(rest, peer).size() == rest ? header : FrameHeader();
  }
  // Whether it says no more for so long.
  bool IsSilent(int64_t ns, size_t peer = 1) {
    pollfd entry{peers_[peer].get(), POLLIN, 0};
    return poll(&entry, 1, static_cast<int>(ns / kMillisecondNs)) == 0;
  }
  CallOptions Hang() { return CallOptions::WithTimeout(environment_->clock(), 60 * kSecondNs); }
  CallOptions Timeout(int64_t ns) { return CallOptions::WithTimeout(environment_->clock(), ns); }
  Communicator& rank() { return *rank_; }
  LinkTransport& transport() { return *transport_; }
  void After(int64_t ns, std::function<void()> act) {
    threads_.emplace_back([ns, act = std::move(act)] {
      std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
      act();
    });
  }
  int64_t NowNs() const { return environment_->clock().NowNs(); }
  Status Barrier() { return rank_->Barrier(Hang()); }
  // Of a tensor with so many bytes, from or to rank 1.
  Status Receive(int64_t bytes) {
    const Ref<Tensor> tensor = Tensor::Create(DType::kUint8, Shape({bytes})).value();
    return rank_->Receive(1, Hang(), tensor.get());
  }
  Status Send(int64_t bytes) {
    return rank_->Send(*Tensor::Create(DType::kUint8, Shape({bytes})).value(), 1, Hang());
  }
  Status AllReduce(int64_t bytes) { return AllReduce(bytes, Hang()); }
  Status AllReduce(int64_t bytes, const CallOptions& options) {
    const Ref<Tensor> tensor = Tensor::Create(DType::kUint8, Shape({bytes})).value();
    return rank_->AllReduce(*tensor, ReduceOp::kSum, options, tensor.get());
  }
  Status AllReduceAsync(int64_t bytes) {
    const Ref<Tensor> tensor = Tensor::Create(DType::kUint8, Shape({bytes})).value();
    const Ref<Future> future =
        rank_->AllReduceAsync(*tensor, ReduceOp::kSum, Hang(), tensor.get()).value();
    if (!future->Wait(Hang()).ok()) return Internal("it hangs");
    Ref<Value> none;
    return future->GetResult(&none);
  }

 private:
  const Ref<RealEnvironment> environment_ =
      MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff});
  std::vector<FileDescriptor> peers_;  // by rank; the rank's own is none
  LinkTransport* transport_ = nullptr;
  Ref<Communicator> rank_;
  std::vector<std::thread> threads_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_LINK_PEER_TESTING_H_
