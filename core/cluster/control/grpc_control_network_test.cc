#include "core/cluster/control/grpc_control_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/cluster/sockets/socket_address.h"
#include "core/cluster/testing/grpc_control_network_testing.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Of this process. One that has been joined may still stand there for a moment.
std::set<std::string> Threads() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(entry.path().filename());
  }
  return threads;
}

std::vector<std::string> ThreadsBeside(const std::set<std::string>& known) {
  std::vector<std::string> others;
  for (const std::string& thread : Threads()) {
    if (!known.contains(thread)) others.push_back(thread);
  }
  return others;
}

TEST_F(GrpcControlNetworkTest, CarriesMessagesBothWaysInOrder) {
  const std::string address = Listen(Make());
  const Pair pair = ConnectTo(Make(), address);
  for (int i = 0; i < 200; ++i) {
    pair.connection->Send(Format("to {}", i));
    pair.other->connection->Send(Format("from {}", i));
  }
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->messages.size() == 200; }));
  ASSERT_TRUE(connected_.Await([&] { return pair.entry->messages.size() == 200; }));
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(pair.other->messages[static_cast<size_t>(i)], Format("to {}", i));
    EXPECT_EQ(pair.entry->messages[static_cast<size_t>(i)], Format("from {}", i));
  }
  EXPECT_EQ(pair.connection->peer_address(), address);
  EXPECT_THAT(pair.other->connection->peer_address(), HasSubstr("127.0.0.1:"));
}

TEST_F(GrpcControlNetworkTest, CarriesTheLongestAndTheShortestMessage) {
  const Pair pair = ConnectTo(Make(), Listen(Make()));
  const std::string longest(kMaxControlMessageBytes, 'x');
  pair.connection->Send(longest);
  pair.connection->Send("");
  pair.connection->Send(std::string("\0\xff", 2));
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->messages.size() == 3; }));
  EXPECT_TRUE(pair.other->messages[0] == longest);
  EXPECT_EQ(pair.other->messages[1], "");
  EXPECT_EQ(pair.other->messages[2], std::string("\0\xff", 2));
}

TEST_F(GrpcControlNetworkTest, AMessageThatIsTooLongClosesTheConnection) {
  const Pair pair = ConnectTo(Make(), Listen(Make()));
  pair.connection->Send(std::string(kMaxControlMessageBytes + 1, 'x'));
  ASSERT_TRUE(connected_.Await([&] { return pair.entry->closed; }));
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
  for (const Status& reason : {pair.entry->reason, pair.other->reason}) {
    EXPECT_EQ(reason.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(Text(reason), HasSubstr("4194305 bytes; at most 4194304"));
  }
}

TEST_F(GrpcControlNetworkTest, WhatIsSentAtOnceArrives) {
  const std::string address = Listen(Make());
  Diary::Entry* entry = nullptr;
  Connect(Make(), address, &entry)->Send("early");
  Diary::Entry* const other = AwaitAccepted(0);
  EXPECT_TRUE(accepted_.Await([&] { return other->messages.size() == 1; }));
}

TEST_F(GrpcControlNetworkTest, CloseDeliversWhatWasSentAndTheReason) {
  const std::string address = Listen(Make());
  const Ref<GrpcControlNetwork> network = Make();
  for (const bool connector_closes : {true, false}) {
    const Pair pair = ConnectTo(network, address);
    const Ref<ControlConnection> closer =
        connector_closes ? pair.connection : pair.other->connection;
    for (int i = 0; i < 300; ++i) closer->Send(std::string(1000, 'x'));
    closer->Close(Aborted("worker 3 has had enough"));
    closer->Send("too late");
    ASSERT_TRUE(connected_.Await([&] { return pair.entry->closed; }));
    ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
    for (const Status& reason : {pair.entry->reason, pair.other->reason}) {
      EXPECT_EQ(reason.code(), StatusCode::kAborted);
      EXPECT_EQ(Text(reason), "worker 3 has had enough");
    }
    EXPECT_EQ((connector_closes ? pair.other : pair.entry)->messages.size(), 300u);
    EXPECT_EQ(pair.entry->calls_after_close, 0);
    EXPECT_EQ(pair.other->calls_after_close, 0);
  }
}

TEST_F(GrpcControlNetworkTest, APlainEndIsOk) {
  const Pair pair = ConnectTo(Make(), Listen(Make()));
  pair.connection->Close(OkStatus());
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
  EXPECT_TRUE(pair.other->reason.ok());
}

TEST_F(GrpcControlNetworkTest, BothMayCloseAtOnce) {
  const std::string address = Listen(Make());
  const Ref<GrpcControlNetwork> network = Make();
  for (int i = 0; i < 20; ++i) {
    const Pair pair = ConnectTo(network, address);
    pair.connection->Close(Cancelled("a"));
    pair.other->connection->Close(Cancelled("b"));
    ASSERT_TRUE(connected_.Await([&] { return pair.entry->closed; }));
    ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
  }
}

TEST_F(GrpcControlNetworkTest, ListensAtAllAddressesOfAName) {
  const std::string address = Listen(Make(), "localhost:0");
  EXPECT_THAT(address, ::testing::StartsWith("localhost:"));
  const Pair pair = ConnectTo(Make(), address);
  pair.connection->Send("x");
  EXPECT_TRUE(accepted_.Await([&] { return pair.other->messages.size() == 1; }));
}

TEST_F(GrpcControlNetworkTest, SpeaksIPv6) {
  if (!MakeListeningSocket(ResolveAddress("[::1]:0")->front()).ok()) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  const std::string address = Listen(Make(), "[::1]:0");
  EXPECT_THAT(address, ::testing::StartsWith("[::1]:"));
  const Pair pair = ConnectTo(Make(), address);
  EXPECT_THAT(pair.other->connection->peer_address(), ::testing::StartsWith("[::1]:"));
}

TEST_F(GrpcControlNetworkTest, ProxiesOfTheEnvironmentDoNotMatter) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("grpc_proxy", "http://127.0.0.1:1", 1);
  ConnectTo(Make(), Listen(Make()));
  unsetenv("http_proxy");
  unsetenv("grpc_proxy");
}

TEST_F(GrpcControlNetworkTest, TasksAndTimersRunOneAtATimeAndInOrder) {
  const Ref<GrpcControlNetwork> network = Make();
  std::vector<int> order;  // touched on the strand alone, and without a lock
  std::mutex mutex;
  std::condition_variable end;
  bool done = false;
  auto note = [&](int i) {
    order.push_back(i);
    if (order.size() < 1002) return;
    std::lock_guard<std::mutex> lock(mutex);
    done = true;
    end.notify_all();
  };
  for (int i = 0; i < 1000; ++i) network->Post([note, i] { note(i); });
  const uint64_t cancelled = network->PostAfter(3600 * kSecondNs, [note] { note(-1); });
  EXPECT_NE(cancelled, 0u);
  EXPECT_TRUE(network->CancelTimer(cancelled));
  EXPECT_FALSE(network->CancelTimer(cancelled));
  network->PostAfter(2 * kMillisecondNs, [note] { note(2000); });
  network->PostAfter(kMillisecondNs, [note] { note(1000); });
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(WaitUntil(lock, end, RealClock(), Bounded(), [&] { return done; }, "timers").ok());
  ASSERT_EQ(order.size(), 1002u);
  // Timers run among the tasks, each in its own order.
  std::vector<int> tasks;
  std::vector<int> timers;
  for (const int i : order) (i < 1000 ? tasks : timers).push_back(i);
  for (size_t i = 0; i < tasks.size(); ++i) EXPECT_EQ(tasks[i], static_cast<int>(i));
  EXPECT_EQ(timers, (std::vector<int>{1000, 2000}));
}

TEST_F(GrpcControlNetworkTest, ItsThreadsTakeNoSignals) {
  const Pair pair = ConnectTo(Make(), Listen(Make()));
  int seen = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(getpid())) continue;
    std::ifstream file(task.path() / "status");
    std::string name;
    uint64_t blocked = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Name:")) name = line.substr(6);
      if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(7), nullptr, 16);
    }
    if (name == "gmain" || name.empty()) continue;
    ++seen;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE, SIGUSR1}) {
      EXPECT_NE(blocked & (uint64_t{1} << (signal - 1)), 0u) << name << ", signal " << signal;
    }
  }
  EXPECT_GE(seen, 3);
}

TEST_F(GrpcControlNetworkTest, ShutdownDoesNotWaitForAPeerThatIsStopped) {
  const Ref<GrpcControlNetwork> server = Make();
  Relay relay(Listen(server));
  const Ref<GrpcControlNetwork> network = Make();
  const Pair pair = ConnectTo(network, relay.address());
  relay.Hold();
  for (int i = 0; i < 100; ++i) pair.connection->Send(std::string(1000, 'x'));
  for (int i = 0; i < 100; ++i) pair.other->connection->Send(std::string(1000, 'x'));
  EXPECT_TRUE(network->Shutdown(OkStatus(), Bounded()).ok());
  EXPECT_TRUE(server->Shutdown(OkStatus(), Bounded()).ok());
}

TEST_F(GrpcControlNetworkTest, ShutdownTellsThePeersAndCallsNoHandler) {
  const Ref<GrpcControlNetwork> server = Make();
  const std::string address = Listen(server);
  const Ref<GrpcControlNetwork> network = Make();
  const Pair pair = ConnectTo(network, address);
  for (int i = 0; i < 100; ++i) pair.connection->Send("last words");
  ASSERT_TRUE(network->Shutdown(Cancelled("worker 7 says goodbye"), Bounded()).ok());
  EXPECT_FALSE(pair.entry->closed);
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
  EXPECT_EQ(Text(pair.other->reason), "worker 7 says goodbye");
  EXPECT_EQ(pair.other->messages.size(), 100u);
  // What comes later is refused, and harmless.
  EXPECT_FALSE(network->Post([] {}));
  EXPECT_EQ(network->PostAfter(0, [] {}), 0u);
  pair.connection->Send("x");
  pair.connection->Close(OkStatus());
  Diary::Entry* late = nullptr;
  Connect(network, address, &late);
  EXPECT_FALSE(network->Listen("127.0.0.1:0", nullptr).ok());
  EXPECT_TRUE(network->Shutdown(OkStatus(), Bounded()).ok());
  EXPECT_FALSE(late->closed);
}

TEST_F(GrpcControlNetworkTest, ATaskThatThrowsEndsTheChannelAtBothEndsAndNotTheProcess) {
  environment_->log().set_level(LogLevel::kOff);
  const Ref<GrpcControlNetwork> server = Make();
  const Ref<GrpcControlNetwork> network = Make();
  const Pair pair = ConnectTo(network, Listen(server));
  EXPECT_TRUE(network->Post([] { throw std::bad_alloc(); }));
  ASSERT_TRUE(connected_.Await([&] { return pair.entry->closed; }));
  EXPECT_EQ(pair.entry->reason.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(pair.entry->reason), HasSubstr("worker 7: the control channel was given up"));
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
  EXPECT_THAT(Text(pair.other->reason), HasSubstr("worker 7: the control channel was given up"));
  EXPECT_FALSE(network->Post([] {}));
  EXPECT_TRUE(network->Shutdown(OkStatus(), Bounded()).ok());
  // Another one of the process works on.
  EXPECT_TRUE(server->Post([] {}));
}

TEST_F(GrpcControlNetworkTest, ShutdownEndsAttemptsToConnect) {
  const FileDescriptor mute = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  const Ref<GrpcControlNetwork> network = Make();
  Diary::Entry* entry = nullptr;
  Connect(network, LocalSocketAddress(mute)->ToString(), &entry, kNeverNs);
  EXPECT_TRUE(network->Shutdown(OkStatus(), Bounded()).ok());
  EXPECT_FALSE(entry->closed);
}

TEST_F(GrpcControlNetworkTest, CannotBeShutDownOnItsStrand) {
  const Ref<GrpcControlNetwork> network = Make();
  std::mutex mutex;
  std::condition_variable end;
  Status shutdown;
  Status listening;
  bool done = false;
  network->Post([&] {
    Status one = network->Shutdown(OkStatus(), CallOptions::Default());
    Status two = network->Listen("127.0.0.1:0", nullptr).status();
    std::lock_guard<std::mutex> lock(mutex);
    shutdown = std::move(one);
    listening = std::move(two);
    done = true;
    end.notify_all();
  });
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(WaitUntil(lock, end, RealClock(), Bounded(), [&] { return done; }, "the task").ok());
  EXPECT_EQ(shutdown.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(listening.code(), StatusCode::kFailedPrecondition);
}

TEST_F(GrpcControlNetworkTest, LeavesNoThreadBehindAndWorksAgain) {
  // A sanitizer starts a thread of its own together with the first one of ours.
  std::thread([] {}).join();
  const std::set<std::string> before = Threads();
  for (int round = 0; round < 3; ++round) {
    const Pair pair = ConnectTo(Make(), Listen(Make()));
    pair.connection->Send("x");
    ASSERT_TRUE(accepted_.Await([&] { return pair.other->messages.size() == 1; }));
    EXPECT_THAT(ThreadsBeside(before), Not(IsEmpty()));
    for (const Ref<GrpcControlNetwork>& network : networks_) {
      EXPECT_TRUE(network->Shutdown(OkStatus(), Bounded()).ok());
    }
    networks_.clear();
    const Deadline limit = Deadline::After(RealClock(), 60 * kSecondNs);
    while (!ThreadsBeside(before).empty() && !limit.Expired(RealClock())) {
      std::this_thread::yield();
    }
    EXPECT_THAT(ThreadsBeside(before), IsEmpty());
  }
}

}  // namespace
}  // namespace tutti
