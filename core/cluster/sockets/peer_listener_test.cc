#include "core/cluster/sockets/peer_listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/real_environment.h"
#include "core/cluster/sockets/peer_handshake.h"
#include "core/cluster/sockets/socket_address.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CountingLog final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (record.level == LogLevel::kWarning) lines_.emplace_back(record.message);
  }
  std::vector<std::string> lines() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;  // guards all below
  std::vector<std::string> lines_;
};

class PeerListenerTest : public ::testing::Test {
 protected:
  PeerListenerTest() {
    options_.secret = secret_;
    options_.tcp_address = "127.0.0.1:0";
  }
  ~PeerListenerTest() override {
    EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  }

  Ref<PeerListener> Listen() {
    Result<Ref<PeerListener>> listener = PeerListener::Create(environment_, options_);
    EXPECT_TRUE(listener.ok()) << listener.status().ToString();
    return *listener;
  }
  // Nothing takes that long; a hang fails instead of standing still.
  CallOptions Bounded() const {
    return CallOptions::WithTimeout(environment_->clock(), 60 * kSecondNs);
  }
  Result<FileDescriptor> Connect(const std::string& address, const PeerPurpose& purpose) {
    return ConnectPeer(*environment_, secret_, address, purpose, Bounded());
  }
  // A connection that has said nothing yet.
  static FileDescriptor Stranger(const std::string& address, const std::string& from = "") {
    const SocketAddress to = ResolveAddress(address)->front();
    FileDescriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!from.empty()) {
      const SocketAddress own = ResolveAddress(from)->front();
      EXPECT_EQ(bind(socket.get(), own.get(), own.length), 0);
    }
    EXPECT_EQ(connect(socket.get(), to.get(), to.length), 0);
    return socket;
  }
  // Everything until the other side's end.
  static std::string ReadToEnd(const FileDescriptor& socket) {
    std::string all;
    char buffer[4096];
    for (;;) {
      pollfd entry{socket.get(), POLLIN, 0};
      if (poll(&entry, 1, 60'000) <= 0) {
        ADD_FAILURE() << "the connection was not ended";
        return all;
      }
      const ssize_t got = recv(socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got <= 0) return all;
      all.append(buffer, static_cast<size_t>(got));
    }
  }
  // Both ends can talk to each other.
  static void ExpectStream(const FileDescriptor& a, const FileDescriptor& b) {
    for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      ASSERT_EQ(send(from->get(), "x", 1, MSG_NOSIGNAL), 1);
      pollfd entry{to->get(), POLLIN, 0};
      ASSERT_EQ(poll(&entry, 1, 60'000), 1);
      char c = 0;
      ASSERT_EQ(recv(to->get(), &c, 1, 0), 1);
      EXPECT_EQ(c, 'x');
    }
  }

  const JobSecret secret_ = *JobSecret::FromText("0123456789abcdef");
  const JobSecret other_secret_ = *JobSecret::FromText("another-job-secret");
  Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  PeerListener::Options options_;
};

TEST_F(PeerListenerTest, ConnectsWorkersOverBothKindsOfSockets) {
  const Ref<PeerListener> listener = Listen();
  for (const std::string& address : {listener->tcp_address(), listener->local_address()}) {
    const PeerPurpose purpose{"over " + address, 1, 0};
    const Result<FileDescriptor> connected = Connect(address, purpose);
    ASSERT_TRUE(connected.ok()) << connected.status().ToString();
    const Result<FileDescriptor> accepted = listener->Accept(purpose.name, 1, Bounded());
    ASSERT_TRUE(accepted.ok()) << accepted.status().ToString();
    ExpectStream(*connected, *accepted);
    for (const FileDescriptor* socket : {&*connected, &*accepted}) {
      EXPECT_NE(fcntl(socket->get(), F_GETFL) & O_NONBLOCK, 0);
      EXPECT_NE(fcntl(socket->get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
  EXPECT_EQ(listener->num_refused(), 0);
  EXPECT_TRUE(listener->Close(CallOptions::Default()).ok());
}

TEST_F(PeerListenerTest, AWatcherIsToldOfConnectionsAndTakesThemAndLaterOnesAreRefused) {
  const Ref<PeerListener> listener = Listen();
  const std::string& address = listener->local_address();
  const Result<FileDescriptor> early = Connect(address, {"watched", 3, 0});
  ASSERT_TRUE(early.ok()) << early.status().ToString();
  std::mutex mutex;
  std::condition_variable changed;
  int told = 0;
  const auto watcher = [&] {
    std::lock_guard<std::mutex> lock(mutex);
    ++told;
    changed.notify_all();
  };
  const uint64_t replaced = listener->Watch("watched", [] {});
  const uint64_t watch = listener->Watch("watched", watcher);
  const Result<FileDescriptor> late = Connect(address, {"watched", 2, 0});
  const Result<FileDescriptor> other = Connect(address, {"something else", 2, 0});
  ASSERT_TRUE(late.ok()) << late.status().ToString();
  std::vector<std::pair<int64_t, FileDescriptor>> taken;
  while (taken.size() < 2) {
    std::unique_lock<std::mutex> lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return told > 0; }));
    told = 0;
    lock.unlock();
    for (auto& connection : listener->TakeAll("watched")) taken.push_back(std::move(connection));
  }
  std::sort(taken.begin(), taken.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  EXPECT_EQ(taken[0].first, 2);
  ExpectStream(taken[0].second, *late);
  EXPECT_EQ(taken[1].first, 3);
  ExpectStream(taken[1].second, *early);

  // A former watcher ends nothing.
  listener->Unwatch("watched", replaced);
  const Result<FileDescriptor> unseen = Connect(address, {"watched", 4, 0});
  ASSERT_TRUE(unseen.ok()) << unseen.status().ToString();
  listener->Unwatch("watched", watch);
  EXPECT_EQ(ReadToEnd(*unseen), "");
  const Result<FileDescriptor> refused = Connect(address, {"watched", 5, 0});
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition)
      << refused.status().ToString();
  const uint64_t again = listener->Watch("watched", watcher);
  EXPECT_TRUE(Connect(address, {"watched", 5, 0}).ok());
  listener->Unwatch("watched", again);
  EXPECT_TRUE(listener->Accept("something else", 2, Bounded()).ok());
  EXPECT_TRUE(listener->Close(CallOptions::Default()).ok());
}

TEST_F(PeerListenerTest, AWatcherWithoutMemoryIsToldAgainAndThePortGoesOn) {
  environment_->log().set_level(LogLevel::kOff);
  const Ref<PeerListener> listener = Listen();
  std::atomic<int> told{0};
  const uint64_t watch = listener->Watch("watched", [&] {
    if (++told < 3) throw std::bad_alloc();
  });
  const Result<FileDescriptor> first = Connect(listener->local_address(), {"watched", 1, 0});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  const Result<FileDescriptor> second = Connect(listener->local_address(), {"another", 1, 0});
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE(listener->Accept("another", 1, Bounded()).ok());
  EXPECT_EQ(told, 3);
  EXPECT_EQ(listener->TakeAll("watched").size(), 1u);
  listener->Unwatch("watched", watch);
  EXPECT_TRUE(listener->Close(CallOptions::Default()).ok());
}

TEST_F(PeerListenerTest, WhatNobodyHasTakenOrCanTakeAnyMoreIsToldTheLastWords) {
  const Ref<PeerListener> listener = Listen();
  const std::string& address = listener->local_address();
  for (int round = 0; round < 100; ++round) {
    const std::string purpose = "round " + std::to_string(round);
    const uint64_t watch = listener->Watch(purpose, [] {});
    const Result<FileDescriptor> early = Connect(address, {purpose, 1, 0});
    ASSERT_TRUE(early.ok()) << early.status().ToString();
    Result<FileDescriptor> late = Unavailable("not yet");
    std::thread connects([&] { late = Connect(address, {purpose, 2, 0}); });
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    while (listener->num_waiting() == 0) std::this_thread::yield();
    listener->Unwatch(purpose, watch, "farewell");
    connects.join();
    EXPECT_EQ(ReadToEnd(*early), "farewell");
    if (late.ok()) {
      EXPECT_EQ(ReadToEnd(*late), "farewell");
    } else {
      EXPECT_EQ(late.status().code(), StatusCode::kFailedPrecondition) << late.status().ToString();
    }
  }
  EXPECT_EQ(listener->num_waiting(), 0u);
  EXPECT_TRUE(listener->Close(CallOptions::Default()).ok());
}

TEST_F(PeerListenerTest, WhatIsRefusedKeepsNoSocketWheneverItComes) {
  const Ref<PeerListener> listener = Listen();
  const std::string& address = listener->local_address();
  const Result<FileDescriptor> early = Connect(address, {"stage", 1, 0});
  const Result<FileDescriptor> other = Connect(address, {"stages", 1, 0});
  ASSERT_TRUE(early.ok() && other.ok());
  listener->Refuse("stage");
  listener->Refuse("stage");
  EXPECT_EQ(ReadToEnd(*early), "");
  EXPECT_TRUE(listener->Accept("stages", 1, Bounded()).ok());
  EXPECT_EQ(listener->num_waiting(), 0u);

  const Result<FileDescriptor> late = Connect(address, {"stage", 2, 0});
  EXPECT_EQ(late.status().code(), StatusCode::kFailedPrecondition) << late.status().ToString();
  EXPECT_EQ(listener->num_waiting(), 0u);
  const uint64_t watch = listener->Watch("stage", [] {});
  const Result<FileDescriptor> again = Connect(address, {"stage", 1, 0});
  EXPECT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(listener->Accept("stage", 1, Bounded()).ok());
  listener->Unwatch("stage", watch);
  EXPECT_TRUE(listener->Close(Bounded()).ok());
}

TEST_F(PeerListenerTest, AcceptWaitsForItsPurposeAndWorker) {
  const Ref<PeerListener> listener = Listen();
  std::thread other([&] {
    EXPECT_TRUE(listener->Accept("b", 2, Bounded()).ok());
  });
  const FileDescriptor first = *Connect(listener->local_address(), {"a", 1, 0});
  const FileDescriptor second = *Connect(listener->local_address(), {"b", 2, 0});
  other.join();
  EXPECT_TRUE(listener->Accept("a", 1, Bounded()).ok());
  const Result<FileDescriptor> none =
      listener->Accept("a", 2, CallOptions::WithTimeout(environment_->clock(), kMillisecondNs));
  EXPECT_EQ(none.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("the connection \"a\" from worker 2"));
}

TEST_F(PeerListenerTest, AcceptCanBeCancelled) {
  const Ref<PeerListener> listener = Listen();
  Cancellation* cancellation = new Cancellation();
  const Ref<Cancellation> owner = Ref<Cancellation>::Adopt(cancellation);
  std::thread canceller([&] { cancellation->Cancel(); });
  CallOptions call;
  call.cancellation = cancellation;
  EXPECT_EQ(listener->Accept("a", 1, call).status().code(), StatusCode::kCancelled);
  canceller.join();
}

TEST_F(PeerListenerTest, CloseEndsAccept) {
  const Ref<PeerListener> listener = Listen();
  std::thread closer([&] { EXPECT_TRUE(listener->Close(CallOptions::Default()).ok()); });
  const Result<FileDescriptor> none = listener->Accept("a", 1, Bounded());
  EXPECT_EQ(none.status().code(), StatusCode::kFailedPrecondition);
  closer.join();
  const Result<FileDescriptor> late = Connect(listener->tcp_address(), {"a", 1, 0});
  EXPECT_EQ(late.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("nothing listens at 127.0.0.1:"));
}

TEST_F(PeerListenerTest, TheNewerOfTwoEqualConnectionsCounts) {
  const Ref<PeerListener> listener = Listen();
  const FileDescriptor former = *Connect(listener->tcp_address(), {"a", 1, 0});
  const FileDescriptor newer = *Connect(listener->tcp_address(), {"a", 1, 0});
  EXPECT_EQ(ReadToEnd(former), "");
  ExpectStream(newer, *listener->Accept("a", 1, Bounded()));
}

TEST_F(PeerListenerTest, RefusesAnotherSecretAndKeepsItsOwnFingerprint) {
  const Ref<PeerListener> listener = Listen();
  const Result<FileDescriptor> socket = ConnectPeer(
      *environment_, other_secret_, listener->tcp_address(), {"a", 1, 0}, Bounded());
  EXPECT_EQ(socket.status().code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(socket.status().message()), Not(HasSubstr(secret_.Fingerprint())));
  EXPECT_THAT(std::string(socket.status().message()), HasSubstr(other_secret_.Fingerprint()));
  EXPECT_EQ(listener->num_refused(), 1);
}

TEST_F(PeerListenerTest, RefusesAnotherMajorVersionNamingBoth) {
  const Ref<PeerListener> listener = Listen();
  PeerHandshake::Options newer;
  newer.secret = secret_;
  newer.peer = "worker 0";
  newer.major = 7;
  PeerHandshake handshake = PeerHandshake::Connector(newer, {"a", 1, 0}, KernelRandom());
  const FileDescriptor socket = Stranger(listener->tcp_address());
  const std::string hello = handshake.TakeOutput();
  ASSERT_EQ(send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(hello.size()));
  std::string answer = ReadToEnd(socket);
  Status status;
  while (status.ok() && !answer.empty()) {
    const std::string part = answer.substr(0, handshake.wanted());
    answer.erase(0, part.size());
    status = handshake.Consume(part);
  }
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 7.0 of the peer protocol, the "
                                                       "accepting one version 1.0"));
}

TEST_F(PeerListenerTest, RefusesAConnectionForAnotherWorker) {
  const Ref<PeerListener> listener = Listen();
  const Result<FileDescriptor> socket = Connect(listener->tcp_address(), {"a", 1, 3});
  EXPECT_EQ(socket.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(socket.status().message()), HasSubstr("this is worker 0"));
}

TEST_F(PeerListenerTest, CutsGarbageOffAndGoesOn) {
  const Ref<PeerListener> listener = Listen();
  const std::string garbage[] = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string(100'000, '\xff'),
      std::string("TUTTIpr1\x01\0\0\0\x01\xff\xff", 15) + std::string(70'000, 'a'),
      std::string("TUTTIpr1\x01\0\0\0\x02\x20\0", 15) + std::string(32, 'p'),
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'x'),
  };
  int64_t sent = 0;
  for (const std::string& address : {listener->tcp_address(), listener->local_address()}) {
    for (const std::string& text : garbage) {
      const FileDescriptor socket = Stranger(address);
      [[maybe_unused]] const ssize_t ignored =
          send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      ReadToEnd(socket);
      ++sent;
    }
  }
  for (int scan = 0; scan < 20; ++scan) Stranger(listener->tcp_address());
  EXPECT_TRUE(Connect(listener->tcp_address(), {"a", 1, 0}).ok());
  EXPECT_TRUE(listener->Accept("a", 1, Bounded()).ok());
  EXPECT_GE(listener->num_refused(), sent);
}

TEST_F(PeerListenerTest, CutsSilentStrangersOffInTime) {
  options_.handshake_limit_ns = 20 * kMillisecondNs;
  const Ref<PeerListener> listener = Listen();
  const FileDescriptor silent = Stranger(listener->tcp_address());
  const FileDescriptor half = Stranger(listener->tcp_address());
  ASSERT_EQ(send(half.get(), "TUTTIpr1", 8, MSG_NOSIGNAL), 8);
  EXPECT_THAT(ReadToEnd(silent), HasSubstr("the handshake took longer than 20 ms"));
  EXPECT_THAT(ReadToEnd(half), HasSubstr("the handshake took longer than 20 ms"));
  EXPECT_EQ(listener->num_refused(), 2);
}

TEST_F(PeerListenerTest, ManyStrangersKeepNobodyOut) {
  options_.max_handshakes = 16;
  const Ref<PeerListener> listener = Listen();
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(Stranger(listener->tcp_address()));
  std::atomic<bool> stop{false};
  std::thread flood([&] {
    while (!stop) Stranger(listener->tcp_address());
  });
  for (int64_t from = 1; from <= 20; ++from) {
    const Result<FileDescriptor> socket = Connect(listener->tcp_address(), {"a", from, 0});
    ASSERT_TRUE(socket.ok()) << socket.status().ToString();
    EXPECT_TRUE(listener->Accept("a", from, Bounded()).ok());
  }
  stop = true;
  flood.join();
}

TEST_F(PeerListenerTest, StrangersFromElsewhereCutNobodyOffWhoseHandshakeTakesLong) {
  options_.max_handshakes = 16;
  options_.handshake_limit_ns = 60 * kSecondNs;
  const Ref<PeerListener> listener = Listen();
  PeerHandshake::Options options;
  options.secret = secret_;
  options.peer = "worker 0";
  PeerHandshake slow = PeerHandshake::Connector(options, {"a", 1, 0}, KernelRandom());
  const FileDescriptor socket = Stranger(listener->tcp_address());
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(Stranger(listener->tcp_address(), "127.0.0.2:0"));
  }
  while (listener->num_refused() < 200 - 15) std::this_thread::yield();
  while (!slow.done()) {
    const std::string out = slow.TakeOutput();
    ASSERT_EQ(send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(out.size()));
    std::string in(slow.wanted(), '\0');
    ASSERT_EQ(recv(socket.get(), in.data(), in.size(), MSG_WAITALL),
              static_cast<ssize_t>(in.size()));
    ASSERT_TRUE(slow.Consume(in).ok());
  }
  EXPECT_TRUE(listener->Accept("a", 1, Bounded()).ok());
}

TEST_F(PeerListenerTest, WithoutDescriptorsItRefusesWithFewWordsAndGoesOn) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors itself, for a pipe";
#endif
  const Ref<CountingLog> log = MakeRef<CountingLog>();
  ASSERT_TRUE(environment_->log().SetSink(log).ok());
  const Ref<PeerListener> listener = Listen();
  const int64_t since_ns = environment_->clock().NowNs();
  const SocketAddress to = ResolveAddress(listener->tcp_address())->front();
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < 50; ++i) {
    sockets.emplace_back(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(sockets.back().get()) + 50;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<FileDescriptor> all;
  do all.emplace_back(eventfd(0, EFD_CLOEXEC));
  while (all.back());
  for (const FileDescriptor& socket : sockets) {
    ASSERT_EQ(connect(socket.get(), to.get(), to.length), 0);
    EXPECT_THAT(ReadToEnd(socket), HasSubstr("worker 0 has no file descriptor left"));
  }
  all.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(Connect(listener->tcp_address(), {"a", 1, 0}).ok());
  EXPECT_TRUE(listener->Accept("a", 1, Bounded()).ok());
  EXPECT_TRUE(listener->Close(Bounded()).ok());
  const std::vector<std::string> lines = log->lines();
  const int64_t periods = (environment_->clock().NowNs() - since_ns) / (10 * kSecondNs);
  EXPECT_LE(static_cast<int64_t>(lines.size()), 1 + periods);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.front(), HasSubstr("worker 0, the port for tensors: "));
  EXPECT_THAT(lines.front(), HasSubstr("Too many open files"));
}

TEST_F(PeerListenerTest, ARecordedConnectionDoesNotGetIn) {
  const Ref<PeerListener> listener = Listen();
  // A relay between a good worker and the listener records what the worker says.
  PeerHandshake::Options options;
  options.secret = secret_;
  options.peer = "worker 0";
  PeerHandshake good = PeerHandshake::Connector(options, {"a", 1, 0}, KernelRandom());
  const FileDescriptor socket = Stranger(listener->tcp_address());
  std::string recorded;
  while (!good.done()) {
    const std::string out = good.TakeOutput();
    recorded += out;
    ASSERT_EQ(send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(out.size()));
    std::string in(good.wanted(), '\0');
    ASSERT_EQ(recv(socket.get(), in.data(), in.size(), MSG_WAITALL),
              static_cast<ssize_t>(in.size()));
    ASSERT_TRUE(good.Consume(in).ok());
  }
  ASSERT_TRUE(listener->Accept("a", 1, Bounded()).ok());

  const FileDescriptor replay = Stranger(listener->tcp_address());
  ASSERT_EQ(send(replay.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(recorded.size()));
  EXPECT_THAT(ReadToEnd(replay), HasSubstr("does not know the job secret"));
  EXPECT_EQ(listener->num_refused(), 1);
}

TEST_F(PeerListenerTest, RefusesAnotherUserOfTheMachine) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Ref<PeerListener> listener = Listen();
  const SocketAddress to = ResolveAddress(listener->local_address())->front();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    // Async-signal-safe calls only: the parent has threads.
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setuid(65534) != 0 || connect(fd, to.get(), to.length) != 0) _exit(1);
    char buffer[512];
    const ssize_t got = recv(fd, buffer, sizeof(buffer), MSG_WAITALL);
    _exit(got > 0 && write(ends[1], buffer, static_cast<size_t>(got)) == got ? 0 : 2);
  }
  close(ends[1]);
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  std::string text(512, '\0');
  const ssize_t got = read(ends[0], text.data(), text.size());
  close(ends[0]);
  ASSERT_GT(got, 0);
  EXPECT_THAT(text.substr(0, static_cast<size_t>(got)), HasSubstr("runs as user 65534"));
  EXPECT_EQ(listener->num_refused(), 1);
}

TEST_F(PeerListenerTest, SaysWhenThePortIsInUse) {
  const Ref<PeerListener> listener = Listen();
  options_.tcp_address = listener->tcp_address();
  const Result<Ref<PeerListener>> second = PeerListener::Create(environment_, options_);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("is in use by another process"));
  options_.tcp_address = "192.0.2.1:0";  // of the documentation's network
  EXPECT_THAT(std::string(PeerListener::Create(environment_, options_).status().message()),
              HasSubstr("192.0.2.1 is not an address of this machine"));
}

TEST_F(PeerListenerTest, ConnectingCanBeCancelledAndHasADeadline) {
  // Something that takes connections and never answers.
  const FileDescriptor mute = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  const std::string address = LocalSocketAddress(mute)->ToString();
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  std::thread canceller([&] { cancellation->Cancel(); });
  CallOptions call;
  call.cancellation = cancellation.get();
  EXPECT_EQ(ConnectPeer(*environment_, secret_, address, {"a", 1, 0}, call).status().code(),
            StatusCode::kCancelled);
  canceller.join();
  const CallOptions brief = CallOptions::WithTimeout(environment_->clock(), kMillisecondNs);
  const Result<FileDescriptor> late =
      ConnectPeer(*environment_, secret_, address, {"a", 1, 0}, brief);
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("the handshake with " + address));
}

TEST_F(PeerListenerTest, AListenerThatNeverHasRoomIsNotAskedForEver) {
  const FileDescriptor full = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  const std::string address = LocalSocketAddress(full)->ToString();
  std::atomic<bool> stop{false};
  std::thread refuses([&] {
    const std::string refusal = PeerHandshake::RefusalFrame(ResourceExhausted("come back later"));
    while (!stop) {
      pollfd entry{full.get(), POLLIN, 0};
      if (poll(&entry, 1, 5) != 1) continue;
      const FileDescriptor client(accept4(full.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char hello[1024];
      if (recv(client.get(), hello, sizeof(hello), 0) <= 0) continue;
      send(client.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL);
    }
  });
  const Status given_up = ConnectPeer(*environment_, secret_, address, {"a", 1, 0}, CallOptions(),
                                      50 * kMillisecondNs)
                              .status();
  EXPECT_EQ(given_up.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(given_up.message()),
              AllOf(HasSubstr("the connection \"a\" to worker 0: given up after 50 ms; " + address +
                              " has refused "),
                    HasSubstr("the last one with: "), HasSubstr("come back later"),
                    HasSubstr("give a timeout to wait longer")));
  // A deadline counts alone, and the error names who has refused all the time.
  const CallOptions brief = CallOptions::WithTimeout(environment_->clock(), 100 * kMillisecondNs);
  const Status late =
      ConnectPeer(*environment_, secret_, address, {"a", 1, 0}, brief, 0).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  stop = true;
  refuses.join();
}

// Once it has proved itself the acceptor may hold the connection, and take its end for a death.
TEST_F(PeerListenerTest, WhoIsToldToStopBehindItsProofTakesTheConnectionIfItComes) {
  struct Caller {
    std::atomic<bool> stop{false};
    std::atomic<bool> stopped{false};
    std::atomic<bool> answered{false};
    static bool Ask(void* self) {
      auto& caller = *static_cast<Caller*>(self);
      if (!caller.stop) return false;
      caller.stopped = true;
      caller.stopped.notify_all();
      // However late the answer, it is told to stop before it has looked for it.
      caller.answered.wait(false);
      return true;
    }
  } caller;
  const FileDescriptor listening = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  const std::string address = LocalSocketAddress(listening)->ToString();
  const Ref<Cancellation> cancellation =
      MakeRef<Cancellation>(&Caller::Ask, &caller, Ref<const RefCounted>());
  CallOptions call = Bounded();
  call.cancellation = cancellation.get();
  Result<FileDescriptor> connected = Unavailable("not yet");
  std::thread connects(
      [&] { connected = ConnectPeer(*environment_, secret_, address, {"a", 1, 0}, call); });
  pollfd entry{listening.get(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 60'000), 1);
  const FileDescriptor accepted(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  PeerHandshake::Options options;
  options.secret = secret_;
  PeerHandshake handshake = PeerHandshake::Acceptor(options, 0, nullptr, environment_->random());
  std::string answer;
  while (!handshake.done()) {
    answer = handshake.TakeOutput();
    ASSERT_EQ(send(accepted.get(), answer.data(), answer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(answer.size()));
    char buffer[PeerHandshake::kHeaderBytes + PeerHandshake::kMaxBodyBytes];
    const ssize_t got = recv(accepted.get(), buffer, handshake.wanted(), 0);
    ASSERT_GT(got, 0);
    ASSERT_TRUE(handshake.Consume(std::string_view(buffer, static_cast<size_t>(got))).ok());
  }
  caller.stop = true;
  caller.stopped.wait(false);
  answer = handshake.TakeOutput();
  EXPECT_EQ(send(accepted.get(), answer.data(), answer.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(answer.size()));
  caller.answered = true;
  caller.answered.notify_all();
  connects.join();
  EXPECT_TRUE(connected.ok()) << connected.status().ToString();
}

TEST_F(PeerListenerTest, PassesFileDescriptors) {
  const Ref<PeerListener> listener = Listen();
  const FileDescriptor sender = *Connect(listener->local_address(), {"a", 1, 0});
  const FileDescriptor receiver = *listener->Accept("a", 1, Bounded());
  const FileDescriptor memory(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), 4096), 0);
  // What goes before and after in the stream stays apart.
  ASSERT_EQ(send(sender.get(), "before", 6, 0), 6);
  ASSERT_TRUE(SendDescriptor(*environment_, sender, memory, "segment", Bounded()).ok());
  ASSERT_TRUE(SendDescriptor(*environment_, sender, memory, "again", Bounded()).ok());
  ASSERT_EQ(send(sender.get(), "after", 5, 0), 5);
  char text[6];
  ASSERT_EQ(recv(receiver.get(), text, 6, MSG_WAITALL), 6);
  std::string bytes;
  for (const char* expected : {"segment", "again"}) {
    const Result<FileDescriptor> passed =
        ReceiveDescriptor(*environment_, receiver, &bytes, Bounded());
    ASSERT_TRUE(passed.ok()) << passed.status().ToString();
    EXPECT_EQ(bytes, expected);
    EXPECT_NE(fcntl(passed->get(), F_GETFD) & FD_CLOEXEC, 0);
    struct stat a;
    struct stat b;
    ASSERT_EQ(fstat(passed->get(), &a), 0);
    ASSERT_EQ(fstat(memory.get(), &b), 0);
    EXPECT_EQ(a.st_ino, b.st_ino);
  }
  ASSERT_EQ(recv(receiver.get(), text, 5, MSG_WAITALL), 5);
  EXPECT_EQ(std::string(text, 5), "after");
}

TEST_F(PeerListenerTest, SaysWhenNoFileDescriptorCame) {
  const Ref<PeerListener> listener = Listen();
  FileDescriptor sender = *Connect(listener->local_address(), {"a", 1, 0});
  const FileDescriptor receiver = *listener->Accept("a", 1, Bounded());
  std::string bytes;
  ASSERT_EQ(send(sender.get(), "\x03" "abc", 4, 0), 4);
  EXPECT_EQ(ReceiveDescriptor(*environment_, receiver, &bytes, Bounded()).status().code(),
            StatusCode::kDataLoss);
  sender.Reset();
  EXPECT_EQ(ReceiveDescriptor(*environment_, receiver, &bytes, Bounded()).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(SendDescriptor(*environment_, receiver, receiver, "x", Bounded()).code(),
            StatusCode::kUnavailable);
  EXPECT_FALSE(SendDescriptor(*environment_, receiver, receiver, "", Bounded()).ok());
}

TEST_F(PeerListenerTest, WorksAgainAfterShutdown) {
  for (int round = 0; round < 3; ++round) {
    const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
    const Ref<PeerListener> listener = *PeerListener::Create(environment, options_);
    EXPECT_TRUE(Connect(listener->tcp_address(), {"a", 1, 0}).ok());
    EXPECT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
    EXPECT_TRUE(listener->closed());
  }
}

}  // namespace
}  // namespace tutti
