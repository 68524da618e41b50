#include "core/base/simulated_control_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What one end of a connection was told.
struct Heard {
  bool connected = false;
  std::vector<std::string> messages;
  bool closed = false;
  Status reason;
  Ref<ControlConnection> connection;  // of an accepted one
};

class Ear final : public ControlHandler {
 public:
  explicit Ear(Heard* heard) : heard_(heard) {}
  void OnConnected() override { heard_->connected = true; }
  void OnMessage(std::string_view message) override { heard_->messages.emplace_back(message); }
  void OnClosed(Status reason) override {
    EXPECT_FALSE(std::exchange(heard_->closed, true)) << "told twice";
    heard_->reason = std::move(reason);
    heard_->connection.reset();
  }

 private:
  Heard* const heard_;
};

class Door final : public ControlAcceptor {
 public:
  explicit Door(std::vector<std::unique_ptr<Heard>>* guests) : guests_(guests) {}
  std::unique_ptr<ControlHandler> OnAccept(Ref<ControlConnection> connection) override {
    if (guests_->size() == 2) return nullptr;
    guests_->push_back(std::make_unique<Heard>());
    guests_->back()->connection = std::move(connection);
    return std::make_unique<Ear>(guests_->back().get());
  }

 private:
  std::vector<std::unique_ptr<Heard>>* const guests_;
};

class SimulatedControlNetworkTest : public ::testing::Test {
 protected:
  void Listen() {
    ASSERT_TRUE(b->Listen("b:1", std::make_unique<Door>(&guests)).ok());
  }
  Ref<ControlConnection> Connect(Heard* heard) {
    return a->Connect("b:1", kSecondNs, std::make_unique<Ear>(heard));
  }
  ~SimulatedControlNetworkTest() override {
    // Connections and what was told of them hold on to each other.
    for (const auto& guest : guests) guest->connection.reset();
  }

  const Ref<SimulatedEnvironment> world = MakeRef<SimulatedEnvironment>(5);
  SimulatedWire wire{*world};
  const Ref<SimulatedControlNetwork> a = wire.AddNode("a");
  const Ref<SimulatedControlNetwork> b = wire.AddNode("b");
  std::vector<std::unique_ptr<Heard>> guests;
};

TEST_F(SimulatedControlNetworkTest, DeliversInOrderBothWaysAndClosesAfterWhatWasSent) {
  Listen();
  Heard heard;
  const Ref<ControlConnection> connection = Connect(&heard);
  connection->Send("early");  // before it stands
  world->RunFor(kSecondNs);
  EXPECT_TRUE(heard.connected);
  ASSERT_THAT(guests, SizeIs(1));
  EXPECT_EQ(connection->peer_address(), "b:1");
  EXPECT_EQ(guests[0]->connection->peer_address(), "a");
  std::vector<std::string> sent = {"early"};
  for (int i = 0; i < 100; ++i) {
    sent.push_back(std::to_string(i));
    connection->Send(sent.back());
    guests[0]->connection->Send(sent.back());
  }
  connection->Close(Cancelled("enough"));
  connection->Send("too late");
  world->RunFor(kSecondNs);
  EXPECT_EQ(guests[0]->messages, sent);
  EXPECT_TRUE(heard.closed);
  EXPECT_TRUE(guests[0]->closed);
  EXPECT_EQ(heard.reason.ToString(), "CANCELLED: enough");
  EXPECT_EQ(guests[0]->reason.ToString(), "CANCELLED: enough");
}

TEST_F(SimulatedControlNetworkTest, SaysWhyAConnectionCannotBeMade) {
  Heard nobody;
  (void)Connect(&nobody);
  world->RunFor(2 * kSecondNs);
  EXPECT_EQ(nobody.reason.ToString(), "UNAVAILABLE: nobody listens at b:1");
  Listen();
  EXPECT_EQ(a->Listen("b:1", nullptr).status().code(), StatusCode::kUnavailable);
  Heard silence;
  wire.Cut(*a, *b);
  (void)Connect(&silence);
  world->RunFor(2 * kSecondNs);
  EXPECT_EQ(silence.reason.ToString(), "UNAVAILABLE: no answer from b:1 within 1 s");
  wire.Heal(*a, *b);
  Heard three[3];
  for (Heard& one : three) (void)Connect(&one);
  world->RunFor(2 * kSecondNs);
  int refused = 0;
  for (const Heard& one : three) refused += one.closed ? 1 : 0;
  EXPECT_EQ(refused, 1);
  b->Kill(SimulatedDeath::kSilent);
  Heard dead;
  (void)Connect(&dead);
  world->RunFor(2 * kSecondNs);
  EXPECT_THAT(dead.reason.ToString(), HasSubstr("no answer"));
}

TEST_F(SimulatedControlNetworkTest, ACutHoldsMessagesUntilItHeals) {
  Listen();
  Heard heard;
  const Ref<ControlConnection> connection = Connect(&heard);
  world->RunFor(kSecondNs);
  wire.Cut(*a, *b);
  connection->Send("1");
  connection->Send("2");
  world->RunFor(kSecondNs);
  EXPECT_THAT(guests[0]->messages, IsEmpty());
  wire.Heal(*a, *b);
  connection->Send("3");
  world->RunFor(kSecondNs);
  EXPECT_THAT(guests[0]->messages, ElementsAre("1", "2", "3"));
}

TEST_F(SimulatedControlNetworkTest, ABrokenConnectionIsToldToBothAndLosesWhatIsInFlight) {
  Listen();
  Heard heard;
  const Ref<ControlConnection> connection = Connect(&heard);
  world->RunFor(kSecondNs);
  connection->Send("lost");
  wire.Break(*a, *b);
  world->RunFor(kSecondNs);
  EXPECT_THAT(guests[0]->messages, IsEmpty());
  EXPECT_EQ(heard.reason.code(), StatusCode::kUnavailable);
  EXPECT_EQ(guests[0]->reason.code(), StatusCode::kUnavailable);
}

TEST_F(SimulatedControlNetworkTest, AFrozenNodeDoesNothingAndThenEverything) {
  Listen();
  Heard heard;
  const Ref<ControlConnection> connection = Connect(&heard);
  world->RunFor(kSecondNs);
  int ticks = 0;
  for (int i = 1; i <= 5; ++i) {
    ASSERT_NE(b->PostAfter(i * kSecondNs, [&] { ++ticks; }), 0u);
    connection->Send("x");
  }
  b->Freeze(10 * kSecondNs);
  world->RunFor(9 * kSecondNs);
  EXPECT_EQ(ticks, 0);
  EXPECT_THAT(guests[0]->messages, IsEmpty());
  world->RunFor(2 * kSecondNs);
  EXPECT_EQ(ticks, 5);
  EXPECT_THAT(guests[0]->messages, SizeIs(5));
}

TEST_F(SimulatedControlNetworkTest, ADeadNodesPeersSeeItsConnectionsBreakOrNothing) {
  for (const SimulatedDeath how : {SimulatedDeath::kBroken, SimulatedDeath::kSilent}) {
    const Ref<SimulatedControlNetwork> node = wire.AddNode("node");
    std::vector<std::unique_ptr<Heard>> callers;
    ASSERT_TRUE(node->Listen("node:1", std::make_unique<Door>(&callers)).ok());
    Heard heard;
    const Ref<ControlConnection> connection =
        a->Connect("node:1", kSecondNs, std::make_unique<Ear>(&heard));
    world->RunFor(kSecondNs);
    bool ran = false;
    ASSERT_TRUE(node->Post([&] { ran = true; }));
    node->Kill(how);
    EXPECT_FALSE(node->Post([&] { ran = true; }));
    EXPECT_EQ(node->PostAfter(0, [&] { ran = true; }), 0u);
    connection->Send("x");
    world->RunFor(kSecondNs);
    EXPECT_FALSE(ran);
    EXPECT_FALSE(callers[0]->closed) << "the dead are not told";
    EXPECT_EQ(heard.closed, how == SimulatedDeath::kBroken);
    callers[0]->connection.reset();
  }
}

TEST_F(SimulatedControlNetworkTest, ShutdownTellsPeersWhyAndCallsNobodyHere) {
  Listen();
  Heard heard;
  const Ref<ControlConnection> connection = Connect(&heard);
  world->RunFor(kSecondNs);
  connection->Send("last words");
  ASSERT_TRUE(a->Shutdown(Aborted("bye"), CallOptions::Default()).ok());
  ASSERT_TRUE(a->Shutdown(Aborted("bye"), CallOptions::Default()).ok());
  world->RunFor(kSecondNs);
  EXPECT_FALSE(heard.closed);
  EXPECT_THAT(guests[0]->messages, ElementsAre("last words"));
  EXPECT_EQ(guests[0]->reason.ToString(), "ABORTED: bye");
}

TEST_F(SimulatedControlNetworkTest, CancelsTimersAndRefusesMessagesThatAreTooLong) {
  bool ran = false;
  const uint64_t timer = a->PostAfter(kSecondNs, [&] { ran = true; });
  EXPECT_TRUE(a->CancelTimer(timer));
  EXPECT_FALSE(a->CancelTimer(timer));
  world->RunFor(2 * kSecondNs);
  EXPECT_FALSE(ran);
  Listen();
  Heard heard;
  const Ref<ControlConnection> connection = Connect(&heard);
  world->RunFor(kSecondNs);
  connection->Send(std::string(kMaxControlMessageBytes + 1, 'x'));
  world->RunFor(kSecondNs);
  EXPECT_EQ(heard.reason.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(guests[0]->reason.code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tutti
