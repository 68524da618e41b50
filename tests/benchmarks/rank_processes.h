// Ranks as processes of this machine: memory that they share, sockets between them, and their ends.

#ifndef TUTTI_TESTS_BENCHMARKS_RANK_PROCESSES_H_
#define TUTTI_TESTS_BENCHMARKS_RANK_PROCESSES_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file_descriptor.h"

namespace tutti {

[[noreturn]] inline void Die(const std::string& what) {
  std::fprintf(stderr, "all_reduce: %s\n", what.c_str());
  std::_Exit(1);
}

// `bytes` of zeros that processes forked off later share.
inline void* SharedZeros(size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Die("no memory");
  return memory;
}

// A pair of connected TCP sockets over loopback.
inline std::pair<FileDescriptor, FileDescriptor> ConnectedPair() {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), name, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), name, &length) != 0) {
    Die("no listening socket");
  }
  FileDescriptor one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(one.get(), name, length) != 0) Die("no connection");
  FileDescriptor other(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!other) Die("no accepted connection");
  const int on = 1;  // nothing waits for an acknowledgement
  if (setsockopt(one.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      setsockopt(other.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    Die("no TCP_NODELAY");
  }
  return {std::move(one), std::move(other)};
}

// Of `ranks` ranks the sockets between each two, by rank and peer.
inline std::vector<std::vector<FileDescriptor>> ConnectedRanks(int ranks) {
  std::vector<std::vector<FileDescriptor>> sockets(static_cast<size_t>(ranks));
  for (auto& row : sockets) row.resize(static_cast<size_t>(ranks));
  for (size_t a = 0; a < sockets.size(); ++a) {
    for (size_t b = a + 1; b < sockets.size(); ++b) {
      std::pair<FileDescriptor, FileDescriptor> pair = ConnectedPair();
      sockets[a][b] = std::move(pair.first);
      sockets[b][a] = std::move(pair.second);
    }
  }
  return sockets;
}

// Forks `count` processes; true when all of them end well. They die with this one.
template <typename Body>
bool RunProcesses(int count, Body body) {
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid < 0) Die("no process");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(i);
      std::fflush(stdout);
      std::_Exit(0);
    }
    pids.push_back(pid);
  }
  bool good = true;
  for (size_t ended = 0; ended < pids.size(); ++ended) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) {
      // The others would wait for it.
      if (good) {
        for (const pid_t pid : pids) kill(pid, SIGKILL);
      }
      good = false;
    }
  }
  return good;
}

}  // namespace tutti

#endif  // TUTTI_TESTS_BENCHMARKS_RANK_PROCESSES_H_
