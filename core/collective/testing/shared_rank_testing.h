// For tests and benchmarks: ranks over one shared segment, as processes or as threads.
//
// A rank runs a body that reports a text; an empty one means that all went well. Processes are
// forked by the test's main thread, before anybody starts a thread, and cannot outlive an alarm.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_SHARED_RANK_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_SHARED_RANK_TESTING_H_

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/real_environment.h"
#include "core/base/ref.h"
#include "core/base/text.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/window_passing.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_transport.h"

namespace tutti {

// What a rank's body works with.
class SharedRank {
 public:
  SharedRank(Ref<RealEnvironment> environment, Ref<SharedSegment> segment, int64_t rank,
             int64_t size, bool spin, SharedWindows windows = SharedWindows())
      : environment_(std::move(environment)), rank_(rank), size_(size) {
    SharedGroupOptions options;
    options.name = "shared";
    options.rank = rank;
    options.size = size;
    options.spin = spin;
    options.windows = std::move(windows);
    options.table = AllWays();
    options.describe_peer = [](int64_t peer) { return "worker " + std::to_string(peer); };
    communicator_ =
        Communicator::CreateOver(
            environment_.get(), "shared", rank, size, options.epoch,
            SharedTransport::Create(environment_, std::move(segment), options).value())
            .value();
  }
  ~SharedRank() {
    if (communicator_ && !communicator_->Close(CallOptions()).ok()) std::abort();
  }

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  RealEnvironment& environment() { return *environment_; }
  Communicator& communicator() { return *communicator_; }
  // A limit that only a hang can reach.
  CallOptions Hang() { return Timeout(60 * kSecondNs); }
  CallOptions Timeout(int64_t timeout_ns) {
    return CallOptions::WithTimeout(environment_->clock(), timeout_ns);
  }

  // By which a few ranks take each way of an all_reduce, by the size of the payload.
  static std::shared_ptr<const SelectorTable> AllWays() {
    return SelectorTable::Parse("all_reduce shared_window 1-3 16KiB  staged\n"
                                "all_reduce shared_window 1-3 256KiB direct\n"
                                "all_reduce shared_window 1-3 any    slice_and_share",
                                "tests")
        .value();
  }

 private:
  const Ref<RealEnvironment> environment_;
  const int64_t rank_;
  const int64_t size_;
  Ref<Communicator> communicator_;
};

using SharedRankBody = std::function<std::string(SharedRank& self)>;

inline constexpr size_t kTestWindowBytes = size_t{256} << 20;

// The windows of ranks in one process, which read them through the mappings that write them (so
// that a sanitizer sees both).
inline std::vector<SharedWindows> MakeTestWindows(int64_t size) {
  std::vector<SharedWindows> windows(static_cast<size_t>(size));
  std::vector<Ref<SharedWindowView>> views;
  for (SharedWindows& of_rank : windows) {
    of_rank.own = SharedWindow::Create(kTestWindowBytes, nullptr).value();
    views.push_back(SharedWindowView::Of(of_rank.own));
  }
  for (SharedWindows& of_rank : windows) of_rank.of_ranks = views;
  return windows;
}

// One forked process per rank.
class SharedRankProcesses {
 public:
  static constexpr unsigned kAlarmSeconds = 200;

  SharedRankProcesses(int64_t size, bool spin, const SharedRankBody& body) {
    const Ref<SharedSegment> segment =
        SharedSegment::Create(SharedTransport::SegmentBytes(size)).value();
    // From rank 0 to each other: by them windows are passed.
    std::vector<FileDescriptor> sockets(static_cast<size_t>(size));
    std::vector<FileDescriptor> others(static_cast<size_t>(size));
    for (size_t rank = 1; rank < sockets.size(); ++rank) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        std::abort();
      }
      sockets[rank] = FileDescriptor(pair[0]);
      others[rank] = FileDescriptor(pair[1]);
    }
    for (int64_t rank = 0; rank < size; ++rank) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
      const pid_t pid = fork();
      if (pid < 0) std::abort();
      if (pid == 0) {
        close(ends[0]);
        const auto pass = [&](RealEnvironment& environment) {
          return PassWindows(environment, rank, sockets, others[static_cast<size_t>(rank)]);
        };
        RunRank(segment->descriptor(), rank, size, spin, pass, body, ends[1]);
      }
      close(ends[1]);
      pids_.push_back(pid);
      reports_.push_back(ends[0]);
    }
  }
  ~SharedRankProcesses() {
    for (size_t i = 0; i < pids_.size(); ++i) Finish(static_cast<int64_t>(i));
  }
  SharedRankProcesses(const SharedRankProcesses&) = delete;
  SharedRankProcesses& operator=(const SharedRankProcesses&) = delete;

  pid_t pid(int64_t rank) const { return pids_[static_cast<size_t>(rank)]; }

  // The next `count` bytes that a rank has written to its report; less at its end.
  std::string Read(int64_t rank, size_t count) {
    std::string text(count, '\0');
    size_t got = 0;
    while (got < count) {
      const ssize_t n = read(reports_[static_cast<size_t>(rank)], text.data() + got, count - got);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    text.resize(got);
    return text;
  }
  // What the rank reported, and how it ended when not by itself. Waits for its end.
  std::string Finish(int64_t rank) {
    pid_t& pid = pids_[static_cast<size_t>(rank)];
    if (pid < 0) return "";
    std::string report;
    while (true) {
      const std::string more = Read(rank, 4096);
      report += more;
      if (more.size() < 4096) break;
    }
    close(reports_[static_cast<size_t>(rank)]);
    int status = 0;
    if (waitpid(pid, &status, 0) != pid) report += "<cannot be waited for>";
    pid = -1;
    if (WIFSIGNALED(status)) report += Format("<killed by signal {}>", WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
      report += Format("<exit status {}>", WEXITSTATUS(status));
    }
    return report;
  }

  // From within a body: writes to the report before its end.
  static void Report(std::string_view text) {
    if (write(report_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(3);
  }

 private:
  static SharedWindows PassWindows(RealEnvironment& environment, int64_t rank,
                                   const std::vector<FileDescriptor>& sockets,
                                   const FileDescriptor& to_first) {
    SharedWindows windows;
    windows.own = SharedWindow::Create(kTestWindowBytes, &environment.memory()).value();
    const auto size = static_cast<int64_t>(sockets.size());
    const CallOptions call = CallOptions::WithTimeout(environment.clock(), 60 * kSecondNs);
    const Status passed =
        rank == 0 ? HandOutWindows(environment, sockets, call, &windows)
                  : TakeWindows(environment, to_first, rank, size, call, &windows);
    if (!passed.ok() || !windows.complete()) _exit(5);
    return windows;
  }

  template <typename Pass>
  [[noreturn]] static void RunRank(int descriptor, int64_t rank, int64_t size, bool spin,
                                   const Pass& pass, const SharedRankBody& body, int report) {
    alarm(kAlarmSeconds);
    report_ = report;
    {
      Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
      Ref<SharedSegment> segment = SharedSegment::Attach(FileDescriptor(dup(descriptor))).value();
      std::string text;
      {
        SharedRank self(environment, std::move(segment), rank, size, spin, pass(*environment));
        text = body(self);
      }
      if (!environment->Shutdown(CallOptions()).ok()) _exit(4);
      Report(text);
    }
    _exit(0);
  }

  static inline int report_ = -1;
  std::vector<pid_t> pids_;
  std::vector<int> reports_;
};

// Runs a body per rank; the reports in rank order.
inline std::vector<std::string> RunSharedRanks(int64_t size, bool processes, bool spin,
                                               const SharedRankBody& body) {
  std::vector<std::string> reports(static_cast<size_t>(size));
  if (processes) {
    SharedRankProcesses ranks(size, spin, body);
    for (int64_t rank = 0; rank < size; ++rank) {
      reports[static_cast<size_t>(rank)] = ranks.Finish(rank);
    }
    return reports;
  }
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<SharedSegment> segment =
      SharedSegment::Create(SharedTransport::SegmentBytes(size)).value();
  const std::vector<SharedWindows> windows = MakeTestWindows(size);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      SharedRank self(environment, segment, rank, size, spin,
                      windows[static_cast<size_t>(rank)]);
      reports[static_cast<size_t>(rank)] = body(self);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!environment->Shutdown(CallOptions()).ok()) std::abort();
  return reports;
}

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_SHARED_RANK_TESTING_H_
