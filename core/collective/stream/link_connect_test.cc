// Links that are made at first use, one at a time: what happens to one that comes too late for the
// call that wanted it, or for a rank that goes. The connector is a test's, so that a link comes
// exactly when the test says.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/group/peer_connector.h"
#include "core/collective/stream/link_dialler.h"
#include "core/collective/stream/link_peer.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

constexpr int64_t kHangNs = 60 * kSecondNs;

CallOptions Hang() { return CallOptions::WithTimeout(RealClock(), kHangNs); }

// What has come by then; false when it does not come.
template <typename Condition>
bool Eventually(Condition condition) {
  const Deadline end = Deadline::After(RealClock(), kHangNs);
  while (!condition()) {
    if (end.Expired(RealClock())) return false;
    std::this_thread::yield();
  }
  return true;
}

// What the test and the connector that a transport owns both know.
class Switchboard {
 public:
  // The link that a Connect to the rank gives, once Answer has been called; none: UNAVAILABLE.
  void Prepare(int64_t rank, std::unique_ptr<Link> link) {
    std::lock_guard<std::mutex> lock(mutex_);
    links_[rank] = std::move(link);
  }
  void Answer() {
    std::lock_guard<std::mutex> lock(mutex_);
    answers_ = true;
    changed_.notify_all();
  }
  // For TakeArrivals. Nobody is told.
  void Arrive(int64_t rank, std::unique_ptr<Link> link) {
    std::lock_guard<std::mutex> lock(mutex_);
    arrivals_.links.emplace_back(rank, std::move(link));
  }
  int64_t num_connects(int64_t rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    return connects_[rank];
  }

  // Of the connector. The handshake is over on the other side: nothing calls the link back.
  Result<std::unique_ptr<Link>> Connect(int64_t rank, Cancellation* stop) {
    const uint64_t listener = stop->AddListener([this] {
      std::lock_guard<std::mutex> lock(mutex_);
      changed_.notify_all();
    });
    std::unique_lock<std::mutex> lock(mutex_);
    ++connects_[rank];
    changed_.wait(lock, [&] { return answers_ || stop->cancelled(); });
    std::unique_ptr<Link> link = std::move(links_[rank]);
    lock.unlock();
    stop->RemoveListener(listener);
    if (!link) return Unavailable("nobody listens");
    return link;
  }
  LinkConnector::Arrivals TakeArrivals() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(arrivals_, {});
  }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool answers_ = false;
  std::map<int64_t, std::unique_ptr<Link>> links_;
  std::map<int64_t, int64_t> connects_;
  LinkConnector::Arrivals arrivals_;
};

class SwitchboardConnector final : public LinkConnector {
 public:
  explicit SwitchboardConnector(std::shared_ptr<Switchboard> board) : board_(std::move(board)) {}
  // What nobody has taken is closed.
  ~SwitchboardConnector() override { board_->TakeArrivals(); }

  Result<std::unique_ptr<Link>> Connect(int64_t rank, const CallOptions& call) override {
    return board_->Connect(rank, call.cancellation);
  }
  Status Ask(int64_t, const CallOptions&) override { return OkStatus(); }
  void Watch(std::function<void()>) override {}
  Arrivals TakeArrivals() override { return board_->TakeArrivals(); }

 private:
  const std::shared_ptr<Switchboard> board_;
};

class LinkConnectTest : public testing::Test {
 protected:
  LinkConnectTest()
      : environment_(
            MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff})),
        board_(std::make_shared<Switchboard>()) {}
  ~LinkConnectTest() override { EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok()); }

  // A rank of four. Its neighbours in the tree hold their ends, and say nothing.
  std::unique_ptr<LinkTransport> MakeRank(int64_t rank) {
    std::vector<std::vector<std::unique_ptr<Link>>> all = MakeTreeLinks(4, LinkKind::kLater);
    LinkTransport::Options options;
    options.name = "group";
    options.rank = rank;
    options.size = 4;
    std::unique_ptr<LinkTransport> transport =
        LinkTransport::Create(environment_, std::move(options),
                              std::move(all[static_cast<size_t>(rank)]),
                              std::make_unique<SwitchboardConnector>(board_))
            .value();
    all_.push_back(std::move(all));
    return transport;
  }

  // What comes over the link until there is a last word, or its end.
  static std::unique_ptr<LinkPeer> ReadAll(int64_t rank, std::unique_ptr<Link> link) {
    auto peer = std::make_unique<LinkPeer>(rank, 1, std::move(link), LinkPeer::Kind::kNoTree);
    EXPECT_TRUE(Eventually([&] {
      bool progress = false;
      EXPECT_TRUE(peer->Receive(0, LinkPeer::Due(), nullptr, &progress).ok());
      return peer->closed() || !peer->error().ok() || !peer->leave_reason().ok();
    }));
    return peer;
  }

  const Ref<RealEnvironment> environment_;
  const std::shared_ptr<Switchboard> board_;
  std::vector<std::vector<std::vector<std::unique_ptr<Link>>>> all_;
};

TEST_F(LinkConnectTest, ARankWhoseNewLinkNobodyHasTakenYetIsNotDialledAgain) {
  SwitchboardConnector connector(board_);
  std::atomic<int> outcomes = 0;
  const std::unique_ptr<LinkDialler> dialler =
      LinkDialler::Start(*environment_, connector, [&] { ++outcomes; }).value();
  board_->Prepare(1, MakeLinks(LinkKind::kSocketPair).first);
  board_->Answer();
  dialler->Dial(1, /*wish=*/false);
  ASSERT_TRUE(Eventually([&] { return outcomes == 1; }));
  dialler->Dial(1, /*wish=*/false);
  EXPECT_EQ(dialler->TakeOutcomes().size(), 1u);
  EXPECT_TRUE(dialler->idle());
  EXPECT_EQ(board_->num_connects(1), 1);
}

TEST_F(LinkConnectTest, WhatIsBeingTriedIsEndedAloneWhenTheRestIsGivenUp) {
  SwitchboardConnector connector(board_);
  const std::unique_ptr<LinkDialler> dialler =
      LinkDialler::Start(*environment_, connector, [] {}).value();
  dialler->Dial(1, /*wish=*/false);
  ASSERT_TRUE(Eventually([&] { return board_->num_connects(1) == 1; }));
  dialler->Dial(0, /*wish=*/false);
  dialler->GiveUpRest();
  board_->Answer();
  std::vector<LinkDialler::Outcome> outcomes;
  ASSERT_TRUE(Eventually([&] {
    outcomes = dialler->TakeOutcomes();
    return !outcomes.empty();
  }));
  EXPECT_TRUE(dialler->idle());
  EXPECT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].rank, 1);
  EXPECT_EQ(outcomes[0].link.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(board_->num_connects(1), 1);
  EXPECT_EQ(board_->num_connects(0), 0);
}

// Ranks 1 and 2 of four are no neighbours.
TEST_F(LinkConnectTest, WhoseLinkIsDoneAfterTheCallHasFailedIsToldWhy) {
  auto [ours, theirs] = MakeLinks(LinkKind::kSocketPair);
  board_->Prepare(1, std::move(ours));
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  const Ref<Communicator> communicator =
      Communicator::CreateOver(environment_.get(), "group", 2, 4, 1,
                               MakeRank(2))
          .value();
  CallOptions options = Hang();
  options.cancellation = cancellation.get();
  const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({10})).value();
  Status status;
  std::thread receives([&] { status = communicator->Receive(1, options, tensor.get()); });
  EXPECT_TRUE(Eventually([&] { return board_->num_connects(1) == 1; }));
  cancellation->Cancel();
  receives.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
  board_->Answer();
  const std::unique_ptr<LinkPeer> peer = ReadAll(2, std::move(theirs));
  EXPECT_EQ(peer->error().code(), StatusCode::kCancelled) << peer->error().ToString();
  EXPECT_FALSE(peer->gone());
  EXPECT_TRUE(communicator->Close(Hang()).ok());
}

TEST_F(LinkConnectTest, WhoseLinkIsBeingMadeAsTheRankGoesHearsItsLastWords) {
  auto [ours, theirs] = MakeLinks(LinkKind::kSocketPair);
  board_->Prepare(1, std::move(ours));
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  Ref<Communicator> communicator =
      Communicator::CreateOver(environment_.get(), "group", 2, 4, 1, MakeRank(2)).value();
  CallOptions options = Hang();
  options.cancellation = cancellation.get();
  const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({10})).value();
  Status status;
  std::thread receives([&] { status = communicator->Receive(1, options, tensor.get()); });
  EXPECT_TRUE(Eventually([&] { return board_->num_connects(1) == 1; }));
  cancellation->Cancel();
  receives.join();
  // The peer has its end; here the link is there once the dialler is told to stop.
  EXPECT_TRUE(communicator->Close(Hang()).ok());
  communicator.reset();
  const std::unique_ptr<LinkPeer> peer = ReadAll(2, std::move(theirs));
  EXPECT_EQ(peer->error().code(), StatusCode::kCancelled) << peer->error().ToString();
  EXPECT_FALSE(peer->gone());
}

TEST_F(LinkConnectTest, WhoseLinkComesAsTheRankGoesHearsTheGoodbye) {
  std::unique_ptr<LinkTransport> transport = MakeRank(1);
  transport->Leave(Unavailable("it has left (closed)"));
  auto [ours, theirs] = MakeLinks(LinkKind::kSocketPair);
  board_->Arrive(2, std::move(ours));
  transport.reset();
  const std::unique_ptr<LinkPeer> peer = ReadAll(1, std::move(theirs));
  EXPECT_EQ(peer->leave_reason().code(), StatusCode::kUnavailable);
  EXPECT_EQ(peer->leave_reason().message(), "it has left (closed)");
  EXPECT_FALSE(peer->gone());
}

// Links that come after the rank has looked for the last time.
TEST(LinkLateTest, WhoseHandshakeIsUnderWayAsTheRankGoesIsNotToldOfADeath) {
  for (int round = 0; round < 30; ++round) {
    LinkRanks links(4, LinkKind::kLater);
    const Ref<Tensor> sent = Tensor::Create(DType::kFloat32, Shape({10})).value();
    Status status;
    std::thread sends([&] { status = links[2].Send(*sent, 1, links.Hang()); });
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    links.Drop(1);
    sends.join();
    EXPECT_FALSE(status.ok());
    const std::string message(status.message());
    // Rank 1 is done with the group, or has left it.
    EXPECT_TRUE(message.find("needs rank 1") != message.npos) << status.ToString();
    EXPECT_TRUE(message.find("is gone") == message.npos) << status.ToString();
  }
}

TEST(LinkLateTest, ALinkThatNobodyHasTakenIsToldTheLastWordsOfTheConnector) {
  const Ref<RealEnvironment> environment =
      MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff});
  PeerConnectorOptions options;
  options.label = "group";
  options.secret = JobSecret::Generate().value();
  std::vector<Ref<PeerListener>> listeners;
  for (int64_t worker : {0, 1}) {
    PeerListener::Options listens;
    listens.secret = options.secret;
    listens.worker = worker;
    listeners.push_back(PeerListener::Create(environment, listens).value());
    options.peers.push_back({worker, listeners.back()->local_address()});
  }
  std::vector<std::unique_ptr<LinkConnector>> connectors;
  for (size_t rank : {size_t{0}, size_t{1}}) {
    PeerConnectorOptions own = options;
    own.rank = static_cast<int64_t>(rank);
    own.listener = listeners[rank];
    connectors.push_back(MakePeerConnector(environment, std::move(own)));
    connectors.back()->Watch([] {});
  }
  std::unique_ptr<Link> link = connectors[1]->Connect(0, Hang()).value();
  std::string body;
  AppendStatus(Unavailable("it has left (closed)"), &body);
  connectors[0]->SetLastWords(LinkPeer::FrameOf(FrameKind::kGoodbye, 1, 7, body));
  connectors[0].reset();
  LinkPeer peer(0, 1, std::move(link), LinkPeer::Kind::kNoTree);
  EXPECT_TRUE(Eventually([&] {
    bool progress = false;
    EXPECT_TRUE(peer.Receive(0, LinkPeer::Due(), nullptr, &progress).ok());
    return peer.closed();
  }));
  EXPECT_FALSE(peer.gone());
  EXPECT_EQ(peer.leave_reason().message(), "it has left (closed)");
  EXPECT_EQ(peer.leave_sequence(), 7);
  connectors.clear();
  for (const Ref<PeerListener>& listener : listeners) EXPECT_TRUE(listener->Close(Hang()).ok());
  EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
}

// Rank 3 of twelve has no other neighbour than rank 2, so that it links itself to rank 1.
TEST(LinkOrphanTest, ARankWhoseParentHasLeftWhileItWaitsGetsOneNewParent) {
  LinkRanks links(12, LinkKind::kLater);
  ASSERT_EQ(LinkTree::ParentOf(3), 2);
  const Ref<Tensor> received = Tensor::Create(DType::kFloat32, Shape({10})).value();
  Status status;
  std::thread waits([&] { status = links[3].Receive(7, links.Hang(), received.get()); });
  const int64_t before = links.transport(1).num_links();
  links.Drop(2);
  EXPECT_TRUE(Eventually([&] { return links.transport(1).num_links() > before; }));
  const Ref<Tensor> sent = Tensor::Create(DType::kFloat32, Shape({10})).value();
  const Status sending = links[7].Send(*sent, 3, links.Hang());
  waits.join();
  EXPECT_TRUE(sending.ok()) << sending.ToString();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(links.transport(1).num_links(), before + 1);
}

}  // namespace
}  // namespace tutti
