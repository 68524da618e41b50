#include "core/cluster/grpc_control_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/real_environment.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/cluster/job_certificate.h"
#include "core/cluster/job_probe.h"
#include "core/cluster/socket_address.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

// A TLS client that shows the certificate of a job, or none; true when the server goes on to speak
// HTTP/2 with it.
bool GetsIn(const std::string& address, const JobSecret* secret) {
  const SocketAddress to = ResolveAddress(address)->front();
  FileDescriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.get(), to.get(), to.length), 0);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (secret != nullptr) {
    const JobCertificate own = *JobCertificate::Create(*secret);
    BIO* text = BIO_new_mem_buf(own.certificate_pem.data(), -1);
    X509* certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
    BIO_free(text);
    text = BIO_new_mem_buf(own.private_key_pem.data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
    BIO_free(text);
    EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  const uint8_t protocols[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, protocols, sizeof(protocols));
  SSL* session = SSL_new(context);
  SSL_set_fd(session, socket.get());
  char byte;
  const bool gets_in = SSL_connect(session) == 1 && SSL_read(session, &byte, 1) == 1;
  SSL_free(session);
  SSL_CTX_free(context);
  return gets_in;
}

size_t CountThreads() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

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

std::string Text(const Status& status) { return std::string(status.message()); }

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

TEST_F(GrpcControlNetworkTest, AnAcceptorMayRefuse) {
  const std::string address = Listen(Make(), "127.0.0.1:0", true);
  const Status status = WhyNot(address);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("does not take the connection"));
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
  uint64_t cancelled = 0;
  for (int i = 0; i < 1000; ++i) network->Post([&order, i] { order.push_back(i); });
  cancelled = network->PostAfter(3600 * kSecondNs, [&order] { order.push_back(-1); });
  EXPECT_NE(cancelled, 0u);
  EXPECT_TRUE(network->CancelTimer(cancelled));
  EXPECT_FALSE(network->CancelTimer(cancelled));
  network->PostAfter(2 * kMillisecondNs, [&] {
    order.push_back(2000);
    std::lock_guard<std::mutex> lock(mutex);
    done = true;
    end.notify_all();
  });
  network->PostAfter(kMillisecondNs, [&] { order.push_back(1000); });
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(WaitUntil(lock, end, RealClock(), Bounded(), [&] { return done; }, "timers").ok());
  ASSERT_EQ(order.size(), 1002u);
  for (size_t i = 0; i < order.size() - 1; ++i) EXPECT_EQ(order[i], static_cast<int>(i));
  EXPECT_EQ(order.back(), 2000);
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

TEST_F(GrpcControlNetworkTest, SaysWhenNothingListens) {
  const std::string address = LocalSocketAddress(
      *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front()))->ToString();
  const Status status = WhyNot(address);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("nothing listens at " + address + " (connection refused)"));
}

TEST_F(GrpcControlNetworkTest, SaysWhenTheHostIsUnknown) {
  const Status status = WhyNot("no-such-host.invalid:2222");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("\"no-such-host.invalid\" cannot be found"));
}

TEST_F(GrpcControlNetworkTest, SaysWhenNoAnswerComes) {
  // A queue of connections that is full drops every further one, like a firewall.
  const FileDescriptor full = *MakeStreamSocket(ResolveAddress("127.0.0.1:0")->front());
  const SocketAddress any = ResolveAddress("127.0.0.1:0")->front();
  ASSERT_EQ(bind(full.get(), any.get(), any.length), 0);
  ASSERT_EQ(listen(full.get(), 0), 0);
  const SocketAddress to = *LocalSocketAddress(full);
  std::vector<FileDescriptor> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(*MakeStreamSocket(to));
    connect(waiting.back().get(), to.get(), to.length);
  }
  const Status status = WhyNot(to.ToString(), 50 * kMillisecondNs);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("no answer from " + to.ToString()));
}

TEST_F(GrpcControlNetworkTest, SaysWhenSomethingTakesConnectionsAndIsSilent) {
  const FileDescriptor mute = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  const Status status = WhyNot(LocalSocketAddress(mute)->ToString(), 500 * kMillisecondNs);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), ::testing::AnyOf(HasSubstr("takes connections and does not answer"),
                                             HasSubstr("no answer from")));
}

TEST_F(GrpcControlNetworkTest, SaysWhenNoJobListensThere) {
  const FileDescriptor server = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  std::atomic<bool> stop{false};
  std::thread answers([&] {
    while (!stop) {
      pollfd entry{server.get(), POLLIN, 0};
      if (poll(&entry, 1, 5) != 1) continue;
      const FileDescriptor client(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char request[1024];
      if (recv(client.get(), request, sizeof(request), 0) <= 0) continue;
      const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
      send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  });
  const Status status = WhyNot(LocalSocketAddress(server)->ToString());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("is no worker of a Tutti job: it does not speak TLS"));
  stop = true;
  answers.join();
}

TEST_F(GrpcControlNetworkTest, NamesBothSecretsOfTwoJobs) {
  const std::string address = Listen(Make(other_secret_));
  const Status status = WhyNot(address);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr("the worker at " + address + " belongs to the job with the secret "
                              "fingerprint " + other_secret_.Fingerprint()),
                    HasSubstr("this process has " + secret_.Fingerprint()),
                    HasSubstr("set TUTTI_JOB_SECRET")));
}

TEST_F(GrpcControlNetworkTest, StrangersGetNothingAndDisturbNobody) {
  ::testing::internal::CaptureStderr();
  const std::string address = Listen(Make());
  const Pair pair = ConnectTo(Make(), address);
  const SocketAddress to = ResolveAddress(address)->front();
  const std::string garbage[] = {
      "", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(100'000, '\xff'),
      std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(100, '\0'),
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'x'),
  };
  std::vector<FileDescriptor> strangers;
  for (int round = 0; round < 5; ++round) {
    for (const std::string& text : garbage) {
      FileDescriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(connect(socket.get(), to.get(), to.length), 0);
      send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      // Some hang up, some stay.
      if (round % 2 == 0) strangers.push_back(std::move(socket));
    }
  }
  EXPECT_FALSE(GetsIn(address, nullptr));
  EXPECT_FALSE(GetsIn(address, &other_secret_));
  EXPECT_TRUE(GetsIn(address, &secret_));  // or the two above would prove nothing

  pair.connection->Send("still here");
  EXPECT_TRUE(accepted_.Await([&] { return pair.other->messages.size() == 1; }));
  ConnectTo(Make(), address);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(GrpcControlNetworkTest, SaysWhenThePortIsInUse) {
  const std::string address = Listen(Make());
  const Result<std::string> second =
      Make()->Listen(address, std::make_unique<DiaryAcceptor>(&accepted_, false));
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(second.status()),
              AllOf(HasSubstr("worker 7 cannot listen at " + address),
                    HasSubstr("at 127.0.0.1 is in use by another process; stop that one")));
  const Result<std::string> elsewhere =
      Make()->Listen("192.0.2.1:0", std::make_unique<DiaryAcceptor>(&accepted_, false));
  EXPECT_EQ(elsewhere.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(elsewhere.status()), HasSubstr("192.0.2.1 is not an address of this machine"));
}

TEST_F(GrpcControlNetworkTest, ABrokenConnectionIsToldToBothSides) {
  Relay relay(Listen(Make()));
  const Pair pair = ConnectTo(Make(), relay.address());
  relay.Cut();
  ASSERT_TRUE(connected_.Await([&] { return pair.entry->closed; }));
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
  EXPECT_EQ(pair.entry->reason.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(pair.entry->reason), HasSubstr("the connection to " + relay.address() + " broke"));
  EXPECT_EQ(pair.other->reason.code(), StatusCode::kUnavailable);
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
  const size_t before = CountThreads();
  for (int round = 0; round < 3; ++round) {
    const Pair pair = ConnectTo(Make(), Listen(Make()));
    pair.connection->Send("x");
    ASSERT_TRUE(accepted_.Await([&] { return pair.other->messages.size() == 1; }));
    EXPECT_GT(CountThreads(), before);
    for (const Ref<GrpcControlNetwork>& network : networks_) {
      EXPECT_TRUE(network->Shutdown(OkStatus(), Bounded()).ok());
    }
    networks_.clear();
    // A thread that has been joined may still stand in /proc for a moment.
    const Deadline limit = Deadline::After(RealClock(), 60 * kSecondNs);
    while (CountThreads() > before && !limit.Expired(RealClock())) std::this_thread::yield();
    EXPECT_EQ(CountThreads(), before);
  }
}

}  // namespace
}  // namespace tutti
