#include "core/cluster/control/control_port.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/real_environment.h"
#include "core/cluster/sockets/socket_address.h"

namespace tutti {
namespace {

class ControlPortTest : public ::testing::Test {
 protected:
  ControlPortTest() {
    environment_->log().set_level(LogLevel::kOff);
    FileDescriptor socket = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
    to_ = *LocalSocketAddress(socket);
    std::vector<FileDescriptor> listening;
    listening.push_back(std::move(socket));
    ControlPort::Options options{"worker 0", "ffeeddccbbaa9988"};
    options.max_unproved = 16;
    options.watch_ns = 600 * kSecondNs;
    port_ = *ControlPort::Open(*environment_, options, std::move(listening),
                               [this](FileDescriptor taken) {
                                 std::lock_guard<std::mutex> lock(mutex_);
                                 if (failures_ > 0) {
                                   --failures_;
                                   throw std::bad_alloc();
                                 }
                                 taken_.push_back(std::move(taken));
                               });
  }
  ~ControlPortTest() override {
    if (port_ != nullptr) port_->Close();
    EXPECT_TRUE(environment_->Shutdown(CallOptions::Default()).ok());
  }

  FileDescriptor Connect(const std::string& from) const {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SocketAddress own = ResolveAddress(from + ":0")->front();
    EXPECT_EQ(bind(socket.get(), own.get(), own.length), 0);
    EXPECT_EQ(connect(socket.get(), to_.get(), to_.length), 0);
    return socket;
  }
  std::vector<FileDescriptor> ConnectMany(int count, const std::string& from) const {
    std::vector<FileDescriptor> sockets;
    for (int i = 0; i < count; ++i) sockets.push_back(Connect(from));
    return sockets;
  }
  // The first that was taken, as soon as there is one.
  const FileDescriptor& First() {
    for (;; std::this_thread::yield()) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!taken_.empty()) return taken_.front();
    }
  }
  static bool IsOpen(const FileDescriptor& socket) {
    char byte = 0;
    return recv(socket.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  void AwaitCutOff(int64_t count) const {
    while (port_->num_cut_off() < count) std::this_thread::yield();
  }

  Ref<RealEnvironment> environment_ = MakeRef<RealEnvironment>();
  SocketAddress to_;
  std::mutex mutex_;  // guards all below
  int failures_ = 0;  // of the taker
  std::vector<FileDescriptor> taken_ = Reserved();
  std::unique_ptr<ControlPort> port_;

 private:
  // So that references to elements stay good.
  static std::vector<FileDescriptor> Reserved() {
    std::vector<FileDescriptor> sockets;
    sockets.reserve(1000);
    return sockets;
  }
};

TEST_F(ControlPortTest, StrangersFromElsewhereCutNobodyOff) {
  const FileDescriptor slow = Connect("127.0.0.1");
  First();
  const std::vector<FileDescriptor> strangers = ConnectMany(200, "127.0.0.2");
  AwaitCutOff(200 - 15);
  int open = 200;
  while (open > 15) {
    open = 0;
    for (const FileDescriptor& stranger : strangers) open += IsOpen(stranger) ? 1 : 0;
  }
  EXPECT_EQ(open, 15);
  EXPECT_TRUE(IsOpen(slow));
  EXPECT_EQ(port_->num_unproved(), 16u);
}

TEST_F(ControlPortTest, WhoHasProvedItselfIsNotCutOffWhateverComesFromItsAddress) {
  const FileDescriptor worker = Connect("127.0.0.1");
  First();
  port_->HasProved(LocalSocketAddress(worker)->ToString());
  port_->HasProved("127.0.0.1:1");  // nobody
  EXPECT_EQ(port_->num_unproved(), 0u);
  const std::vector<FileDescriptor> strangers = ConnectMany(200, "127.0.0.1");
  AwaitCutOff(200 - 16);
  EXPECT_TRUE(IsOpen(worker));
}

TEST_F(ControlPortTest, WhatHasEndedTakesNoRoom) {
  const FileDescriptor ended = Connect("127.0.0.1");
  ASSERT_EQ(shutdown(First().get(), SHUT_RDWR), 0);
  while (port_->num_unproved() > 0) std::this_thread::yield();
  EXPECT_FALSE(IsOpen(ended));
  EXPECT_EQ(port_->num_cut_off(), 0);
}

TEST_F(ControlPortTest, WhatCannotBeTakenForLackOfMemoryEndsAndThePortGoesOn) {
  environment_->log().set_level(LogLevel::kOff);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    failures_ = 1;
  }
  const FileDescriptor lost = Connect("127.0.0.1");
  const FileDescriptor next = Connect("127.0.0.1");
  EXPECT_TRUE(IsOpen(First()));
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(failures_, 0);
  EXPECT_EQ(taken_.size(), 1u);
}

class KnockLines final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.emplace_back(record.message);
  }
  std::vector<std::string> lines() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;  // guards lines_
  std::vector<std::string> lines_;
};

TEST_F(ControlPortTest, AKnockIsLoggedAndGivenToNobody) {
  const Ref<KnockLines> lines = MakeRef<KnockLines>();
  environment_->log().set_level(LogLevel::kWarning);
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  const auto send_text = [](const FileDescriptor& socket, const std::string& text) {
    EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  };
  const FileDescriptor knocking = Connect("127.0.0.1");
  send_text(knocking, ControlPort::KnockOf("00112233445566aa"));
  while (lines->lines().empty()) std::this_thread::yield();
  EXPECT_NE(lines->lines()[0].find("00112233445566aa, this job's has ffeeddccbbaa9988"),
            std::string::npos);
  EXPECT_EQ(port_->num_unproved(), 0u);
  // What only looks like one, and what says nothing, are a matter of whoever takes connections.
  const FileDescriptor other = Connect("127.0.0.1");
  send_text(other, "TUTTI KNOCK no fingerprint!\n");
  First();
  EXPECT_TRUE(IsOpen(other));
  const FileDescriptor silent = Connect("127.0.0.1");
  while (port_->num_unproved() < 2) std::this_thread::yield();
  EXPECT_TRUE(IsOpen(silent));
  EXPECT_EQ(lines->lines().size(), 1u);
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
}

TEST_F(ControlPortTest, NobodyListensAfterClose) {
  port_->Close();
  port_ = nullptr;
  const FileDescriptor late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(connect(late.get(), to_.get(), to_.length), 0);
  EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace tutti
