// File descriptors on their way through a Unix socket, where the kernel allows no more of them.

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/real_environment.h"
#include "core/cluster/sockets/peer_listener.h"

namespace tutti {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
    sender = FileDescriptor(ends[0]);
    receiver = FileDescriptor(ends[1]);
  }
  FileDescriptor sender;
  FileDescriptor receiver;
};

// Of this thread, and for good.
void DropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  (void)syscall(SYS_capset, &header, none);
}

// As SendDescriptor sends it, without waiting: 0 or the error.
int SendOne(const FileDescriptor& socket, const FileDescriptor& sent) {
  char text[] = "\x01x";
  iovec part{text, 2};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = sent.get();
  std::memcpy(CMSG_DATA(header), &number, sizeof(number));
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

// A user has as many descriptors under way as a process may have open, all sockets together.
TEST(DescriptorPassing, WhereTheKernelTakesNoMoreDescriptorsTheSenderWaitsForReceivers) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &former), 0);
  const Pair full;
  const Pair other;
  const FileDescriptor sent(eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(full.sender && other.sender && sent);
  rlimit low = former;
  // What is open lies below: there are numbers for what is received.
  low.rlim_cur = static_cast<rlim_t>(sent.get()) + 32;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);

  int filled = 0;
  int refused = 0;
  int num_early = 0;
  Status early;
  Status late;
  std::atomic<bool> may_receive{false};
  std::thread sender([&] {
    DropCapabilities();
    // Receivers of other processes of this user make room, too.
    for (;; ++num_early) {
      while ((refused = SendOne(full.sender, sent)) == 0) ++filled;
      if (refused != ETOOMANYREFS) break;
      early = SendDescriptor(*environment, other.sender, sent, "early",
                             CallOptions::WithTimeout(environment->clock(), 50 * kMillisecondNs));
      if (!early.ok()) break;
    }
    may_receive.store(true);
    may_receive.notify_one();
    if (refused == ETOOMANYREFS) {
      late = SendDescriptor(*environment, other.sender, sent, "late",
                            CallOptions::WithTimeout(environment->clock(), 60 * kSecondNs));
    }
  });
  const CallOptions hang = CallOptions::WithTimeout(environment->clock(), 60 * kSecondNs);
  std::string text;
  may_receive.wait(false);
  for (int i = 0; i < filled; ++i) {
    EXPECT_TRUE(ReceiveDescriptor(*environment, full.receiver, &text, hang).ok());
  }
  sender.join();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &former), 0);
  if (refused == ETOOMANYREFS) {
    EXPECT_EQ(early.code(), StatusCode::kDeadlineExceeded) << early.ToString();
    EXPECT_TRUE(late.ok()) << late.ToString();
    for (int i = 0; i <= num_early; ++i) {
      EXPECT_TRUE(ReceiveDescriptor(*environment, other.receiver, &text, hang).ok());
      EXPECT_EQ(text, i < num_early ? "early" : "late");
    }
  }
  EXPECT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
  if (refused != ETOOMANYREFS) {
    GTEST_SKIP() << "this kernel does not limit descriptors that are under way: "
                 << std::strerror(refused) << " after " << filled;
  }
}

}  // namespace
}  // namespace tutti
