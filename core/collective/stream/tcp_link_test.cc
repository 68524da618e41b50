// What a TCP link asks of its socket, and when it takes its connection for dead: packets are made
// to vanish by a filter on both sockets, which drops whatever arrives.

#include "core/collective/stream/tcp_link.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/collective/testing/link_ranks.h"

namespace tutti {
namespace {

constexpr int64_t kHangNs = 60 * kSecondNs;

int OptionOf(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(getsockopt(socket, level, name, &value, &size), 0);
  return value;
}

tcp_info InfoOf(int socket) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  EXPECT_EQ(getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  return info;
}

void DropWhatArrives(int socket) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {1, &drop};
  ASSERT_EQ(setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
}

// Until the socket takes no more.
void Fill(TcpLink& link) {
  std::vector<char> bytes(1 << 20, 'x');
  const iovec part = {bytes.data(), bytes.size()};
  while (link.TrySend(std::span(&part, 1)) > 0) {
  }
}

int64_t ReceiveSome(TcpLink& link) {
  std::vector<char> bytes(1 << 20);
  const iovec part = {bytes.data(), bytes.size()};
  return link.TryReceive(std::span(&part, 1));
}

// As a rank waits that has more to send. False when there is something to do at once.
bool SleepForAMoment(TcpLink& link) {
  pollfd entry;
  const bool may_sleep = link.PrepareSleep(/*want_read=*/true, /*want_write=*/true, &entry);
  if (may_sleep) poll(&entry, 1, 10);
  link.EndSleep(entry);
  return may_sleep;
}

TEST(TcpLinkTest, AsksForPromptSendingAndForProbesOfAnIdleConnection) {
  SocketPair sockets = MakeTcpPair();
  const int socket = sockets.first.get();
  const TcpLink link(std::move(sockets.first));
  EXPECT_EQ(OptionOf(socket, IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(OptionOf(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
  const int idle_s = OptionOf(socket, IPPROTO_TCP, TCP_KEEPIDLE);
  const int interval_s = OptionOf(socket, IPPROTO_TCP, TCP_KEEPINTVL);
  const int probes = OptionOf(socket, IPPROTO_TCP, TCP_KEEPCNT);
  EXPECT_EQ((idle_s + interval_s * probes) * kSecondNs, FlowWatch::kLimitNs);
  // It would end the connection to a peer that is stopped.
  EXPECT_EQ(OptionOf(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  EXPECT_LE(link.SleepLimitNs(), FlowWatch::kIntervalNs) << "the watch looks while a rank sleeps";
}

TEST(TcpLinkTest, AConnectionWhosePacketsVanishEndsThoughBothSidesHaveDataOnTheWay) {
  SocketPair sockets = MakeTcpPair();
  const int fds[] = {sockets.first.get(), sockets.second.get()};
  TcpLink first(std::move(sockets.first), 100 * kMillisecondNs);
  TcpLink second(std::move(sockets.second), 100 * kMillisecondNs);
  for (const int fd : fds) DropWhatArrives(fd);
  Fill(first);
  Fill(second);
  const int64_t hangs_at_ns = RealClock().NowNs() + kHangNs;
  TcpLink* const links[] = {&first, &second};
  const auto all_ended = [&] {
    return std::all_of(std::begin(links), std::end(links),
                       [](TcpLink* link) { return ReceiveSome(*link) == Link::kClosed; });
  };
  while (!all_ended() && RealClock().NowNs() < hangs_at_ns) {
    for (TcpLink* link : links) SleepForAMoment(*link);
  }
  EXPECT_TRUE(all_ended());
  for (TcpLink* link : links) {
    EXPECT_THAT(link->CloseReason(), testing::HasSubstr("timed out"));
    pollfd entry;
    EXPECT_TRUE(link->PrepareSleep(false, false, &entry)) << "or who waits for others would spin";
    EXPECT_EQ(entry.fd, -1);
  }
}

// The two ends of a connection from one IP address to another; none where there is no such address.
SocketPair Connect(int family, const char* from, const char* to) {
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const auto set = [&](const char* ip) {
    void* const place =
        family == AF_INET
            ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr)
            : static_cast<void*>(&reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr);
    inet_pton(family, ip, place);
  };
  const FileDescriptor listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  FileDescriptor first(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set(from);
  if (bind(first.get(), any, length) != 0) return {};
  set(to);
  socklen_t bound = length;
  if (bind(listener.get(), any, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), any, &bound) != 0 || connect(first.get(), any, bound) != 0) {
    return {};
  }
  FileDescriptor second(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return {std::move(first), std::move(second)};
}

void ExpectNear(SocketPair sockets, bool near) {
  ASSERT_TRUE(sockets.first && sockets.second);
  EXPECT_EQ(TcpLink(std::move(sockets.first)).is_near(), near);
  EXPECT_EQ(TcpLink(std::move(sockets.second)).is_near(), near);
}

TEST(TcpLinkTest, APeerWithTheSameAddressIsNear) {
  ExpectNear(Connect(AF_INET, "127.0.0.1", "127.0.0.1"), true);
  ExpectNear(Connect(AF_INET, "127.0.0.2", "127.0.0.1"), false);
  ExpectNear(MakeUnixPair(), false);
  if (SocketPair sockets = Connect(AF_INET6, "::1", "::1"); sockets.first) {
    ExpectNear(std::move(sockets), true);
  }
}

TEST(TcpLinkTest, APeerThatReadsNothingIsNotTakenForDead) {
  SocketPair sockets = MakeTcpPair();
  const int fd = sockets.first.get();
  TcpLink first(std::move(sockets.first), 20 * kMillisecondNs);
  TcpLink second(std::move(sockets.second));
  Fill(first);
  // Until the closed window has been probed, far beyond the limit.
  const int64_t hangs_at_ns = RealClock().NowNs() + kHangNs;
  while (InfoOf(fd).tcpi_backoff < 1 && RealClock().NowNs() < hangs_at_ns) {
    SleepForAMoment(first);
    Fill(first);
    ASSERT_EQ(ReceiveSome(first), 0) << first.CloseReason();
  }
  // It goes on.
  EXPECT_GT(ReceiveSome(second), 0);
  const iovec part = {const_cast<char*>("x"), 1};
  EXPECT_EQ(second.TrySend(std::span(&part, 1)), 1);
  while (ReceiveSome(first) == 0 && RealClock().NowNs() < hangs_at_ns) SleepForAMoment(first);
  EXPECT_EQ(first.CloseReason(), "its connection closed") << "nothing has broken it";
}

// ---- The judgement ----

constexpr int64_t kLimitNs = 30 * kSecondNs;

FlowWatch::Facts Unanswered(int64_t last_answer_s, uint32_t repeated, uint32_t probes = 0) {
  return {.due = true,
          .repeated = repeated,
          .probes = probes,
          .last_answer_ns = last_answer_s * kSecondNs};
}

TEST(FlowWatchTest, WhatIsRepeatedWithoutAnAnswerForTheLimitIsDead) {
  FlowWatch watch(kLimitNs);
  for (int64_t s = 100; s < 130; ++s) {
    EXPECT_FALSE(watch.IsDead(Unanswered(99, static_cast<uint32_t>(s - 98)), s * kSecondNs)) << s;
  }
  EXPECT_TRUE(watch.IsDead(Unanswered(99, 40), 130 * kSecondNs));
}

TEST(FlowWatchTest, ALongSilenceBeforeTheFirstPacketDoesNotCount) {
  FlowWatch watch(kLimitNs);
  EXPECT_FALSE(watch.IsDead({.last_answer_ns = kSecondNs}, 999 * kSecondNs));
  EXPECT_FALSE(watch.IsDead(Unanswered(1, 0), 1000 * kSecondNs));
  EXPECT_FALSE(watch.IsDead(Unanswered(1, 5), 1002 * kSecondNs));
  EXPECT_TRUE(watch.IsDead(Unanswered(1, 7), 1031 * kSecondNs));
}

TEST(FlowWatchTest, EveryAnswerStartsAnew) {
  FlowWatch watch(kLimitNs);
  // A peer that drops what finds no room acknowledges each repetition, two minutes apart.
  uint32_t repeated = 0;
  for (int64_t answer = 0; answer < 1200; answer += 120) {
    ++repeated;
    for (int64_t s = answer + 1; s < answer + 120; ++s) {
      EXPECT_FALSE(watch.IsDead(Unanswered(answer, repeated), s * kSecondNs)) << s;
    }
  }
}

TEST(FlowWatchTest, AFewRepetitionsProveNothing) {
  FlowWatch watch(kLimitNs);
  EXPECT_FALSE(watch.IsDead(Unanswered(1, 10), 2 * kSecondNs));
  EXPECT_FALSE(watch.IsDead(Unanswered(1, 11), 900 * kSecondNs)) << "this machine was away";
  EXPECT_FALSE(watch.IsDead(Unanswered(1, 11, 1), 900 * kSecondNs));
  EXPECT_TRUE(watch.IsDead(Unanswered(1, 11, 2), 900 * kSecondNs)) << "probes of a closed window";
}

}  // namespace
}  // namespace tutti
