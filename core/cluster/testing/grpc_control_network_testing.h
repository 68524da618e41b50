// What the tests of GrpcControlNetwork share: a fixture that makes networks, and handlers that keep
// a diary of what they were told.

#ifndef TUTTI_CORE_CLUSTER_TESTING_GRPC_CONTROL_NETWORK_TESTING_H_
#define TUTTI_CORE_CLUSTER_TESTING_GRPC_CONTROL_NETWORK_TESTING_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/base/wait.h"
#include "core/cluster/control/grpc_control_network.h"
#include "core/cluster/sockets/socket_address.h"

namespace tutti {

// What handlers were told, for the test's thread to wait for.
class Diary {
 public:
  struct Entry {
    bool connected = false;
    bool closed = false;
    int calls_after_close = 0;
    Status reason;
    std::vector<std::string> messages;
    Ref<ControlConnection> connection;  // of accepted ones
  };

  template <typename Change>
  void Write(Entry* entry, Change change) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (entry->closed) ++entry->calls_after_close;
    change(entry);
    changed_.notify_all();
  }
  // False after a minute: something hangs.
  bool Await(const std::function<bool()>& condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    const CallOptions call = CallOptions::WithTimeout(RealClock(), 60 * kSecondNs);
    return WaitUntil(lock, changed_, RealClock(), call, condition, "the test").ok();
  }
  Entry* Add() {
    std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back(std::make_unique<Entry>());
    changed_.notify_all();
    return entries_.back().get();
  }
  // With the lock held, that is, within Await.
  size_t size() const { return entries_.size(); }
  Entry* at(size_t i) const { return entries_[i].get(); }

 private:
  std::mutex mutex_;  // guards all below, and the entries
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

class DiaryHandler final : public ControlHandler {
 public:
  DiaryHandler(Diary* diary, Diary::Entry* entry) : diary_(diary), entry_(entry) {}
  void OnConnected() override {
    diary_->Write(entry_, [](Diary::Entry* entry) { entry->connected = true; });
  }
  void OnMessage(std::string_view message) override {
    diary_->Write(entry_, [&](Diary::Entry* entry) { entry->messages.emplace_back(message); });
  }
  void OnClosed(Status reason) override {
    diary_->Write(entry_, [&](Diary::Entry* entry) {
      entry->closed = true;
      entry->reason = std::move(reason);
    });
  }

 private:
  Diary* const diary_;
  Diary::Entry* const entry_;
};

class DiaryAcceptor final : public ControlAcceptor {
 public:
  DiaryAcceptor(Diary* diary, bool refuses) : diary_(diary), refuses_(refuses) {}
  std::unique_ptr<ControlHandler> OnAccept(Ref<ControlConnection> connection) override {
    if (refuses_) return nullptr;
    Diary::Entry* const entry = diary_->Add();
    diary_->Write(entry, [&](Diary::Entry* e) { e->connection = std::move(connection); });
    return std::make_unique<DiaryHandler>(diary_, entry);
  }

 private:
  Diary* const diary_;
  const bool refuses_;
};

// A TCP relay before a server: it can hold what passes, and cut the wire.
class Relay {
 public:
  explicit Relay(const std::string& to) : to_(ResolveAddress(to)->front()) {
    listening_ = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
    thread_ = std::thread([this] { Work(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  std::string address() const { return LocalSocketAddress(listening_)->ToString(); }
  void Hold() { hold_ = true; }
  void Cut() { cut_ = true; }

 private:
  void Work() {
    std::vector<std::pair<FileDescriptor, FileDescriptor>> pairs;
    while (!stop_) {
      std::vector<pollfd> entries{{listening_.get(), POLLIN, 0}};
      for (const auto& [a, b] : pairs) {
        entries.push_back({a.get(), POLLIN, 0});
        entries.push_back({b.get(), POLLIN, 0});
      }
      if (hold_) entries.clear();
      poll(entries.data(), entries.size(), 5);
      if (cut_) pairs.clear();
      if (cut_ || hold_) continue;
      for (auto& [a, b] : pairs) {
        Move(a, b);
        Move(b, a);
      }
      FileDescriptor accepted(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!accepted) continue;
      FileDescriptor onward(::socket(to_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(onward.get(), to_.get(), to_.length) != 0) continue;
      pairs.emplace_back(std::move(accepted), std::move(onward));
    }
  }
  static void Move(const FileDescriptor& from, const FileDescriptor& to) {
    char buffer[65536];
    const ssize_t got = recv(from.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got == 0) shutdown(to.get(), SHUT_WR);
    if (got > 0) send(to.get(), buffer, static_cast<size_t>(got), MSG_NOSIGNAL);
  }

  const SocketAddress to_;
  FileDescriptor listening_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> hold_{false};
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

class GrpcControlNetworkTest : public ::testing::Test {
 protected:
  ~GrpcControlNetworkTest() override {
    for (const Ref<GrpcControlNetwork>& network : networks_) {
      EXPECT_TRUE(network->Shutdown(OkStatus(), Bounded()).ok());
    }
    EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  }

  CallOptions Bounded() const {
    return CallOptions::WithTimeout(environment_->clock(), 60 * kSecondNs);
  }
  Ref<GrpcControlNetwork> Make(const JobSecret& secret) {
    Result<Ref<GrpcControlNetwork>> network =
        GrpcControlNetwork::Create(environment_, {secret, "worker 7"});
    EXPECT_TRUE(network.ok()) << network.status().ToString();
    networks_.push_back(*network);
    return *network;
  }
  Ref<GrpcControlNetwork> Make() { return Make(secret_); }
  std::string Listen(const Ref<GrpcControlNetwork>& network, const std::string& address,
                     bool refuses = false) {
    const Result<std::string> bound =
        network->Listen(address, std::make_unique<DiaryAcceptor>(&accepted_, refuses));
    EXPECT_TRUE(bound.ok()) << bound.status().ToString();
    return bound.ok() ? *bound : "";
  }
  std::string Listen(const Ref<GrpcControlNetwork>& network) {
    return Listen(network, "127.0.0.1:0");
  }
  Ref<ControlConnection> Connect(const Ref<GrpcControlNetwork>& network,
                                 const std::string& address, Diary::Entry** entry,
                                 int64_t timeout_ns = 60 * kSecondNs) {
    *entry = connected_.Add();
    return network->Connect(address, timeout_ns,
                            std::make_unique<DiaryHandler>(&connected_, *entry));
  }
  // Why a connection to `address` does not come about.
  Status WhyNot(const std::string& address, int64_t timeout_ns = 60 * kSecondNs) {
    Diary::Entry* entry = nullptr;
    Connect(Make(), address, &entry, timeout_ns);
    EXPECT_TRUE(connected_.Await([&] { return entry->closed; }));
    EXPECT_FALSE(entry->connected);
    return entry->reason;
  }
  Diary::Entry* AwaitAccepted(size_t index) {
    EXPECT_TRUE(accepted_.Await(
        [&] { return accepted_.size() > index && accepted_.at(index)->connection != nullptr; }));
    return accepted_.at(index);
  }
  // A connection and its other end.
  struct Pair {
    Ref<ControlConnection> connection;
    Diary::Entry* entry = nullptr;
    Diary::Entry* other = nullptr;
  };
  Pair ConnectTo(const Ref<GrpcControlNetwork>& network, const std::string& address) {
    Pair pair;
    pair.connection = Connect(network, address, &pair.entry);
    pair.other = AwaitAccepted(num_accepted_++);
    EXPECT_TRUE(connected_.Await([&] { return pair.entry->connected || pair.entry->closed; }));
    EXPECT_TRUE(pair.entry->connected) << pair.entry->reason.ToString();
    return pair;
  }

  const JobSecret secret_ = *JobSecret::FromText("0123456789abcdef");
  const JobSecret other_secret_ = *JobSecret::FromText("another-job-secret");
  Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  Diary accepted_;
  Diary connected_;
  size_t num_accepted_ = 0;
  std::vector<Ref<GrpcControlNetwork>> networks_;
};

inline std::string Text(const Status& status) { return std::string(status.message()); }

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_TESTING_GRPC_CONTROL_NETWORK_TESTING_H_
