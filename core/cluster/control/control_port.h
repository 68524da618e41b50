// ControlPort: the listening sockets of the control channel, and the thread that accepts there
// ("tutti-port"). gRPC's own acceptor would close a port for good at the first moment in which the
// process has no file descriptor left, and sets no limit to those who never prove themselves.
//
// What is accepted goes on to gRPC at once, which asks for the proof (TLS) within five seconds; the
// port keeps a duplicate of the socket until the proof has come or the connection has ended. There
// are only so many without a proof at a time: unproved_connections.h has who is cut off then.
//
// A worker that finds another secret at this address says so by a knock, so that both sides hear of
// the mistake: a line in clear on a connection of its own, with its secret's fingerprint. Hence the
// port looks at the first bytes of a connection before it gives it away, and waits for them for a
// moment only. Whoever knocks gets no further than a line of the log in ten seconds.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_CONTROL_PORT_H_
#define TUTTI_CORE_CLUSTER_CONTROL_CONTROL_PORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file_descriptor.h"
#include "core/base/status.h"

namespace tutti {

class Environment;

class ControlPort {
 public:
  struct Options {
    std::string name;  // for messages: "worker 0"
    std::string fingerprint;  // of the job's secret
    size_t max_unproved = 128;
    // Who takes them ends, before that, those who have proved nothing: what has stayed so long is
    // nothing to watch any more.
    int64_t watch_ns = 10 * kSecondNs;
  };
  // Takes the next connection over, on the port's thread.
  using Taker = std::function<void(FileDescriptor socket)>;

  // What a worker with a secret of this fingerprint, 16 hexadecimal digits, knocks with.
  static std::string KnockOf(const std::string& fingerprint);

  // `listening` are non-blocking.
  static Result<std::unique_ptr<ControlPort>> Open(Environment& environment, Options options,
                                                   std::vector<FileDescriptor> listening,
                                                   Taker taker);
  // It must have been closed.
  ~ControlPort();

  // The connection from there ("127.0.0.1:4711") has proved that it belongs to the job. Any thread.
  void HasProved(const std::string& peer);
  // The taker is not called any more, nobody listens. Waits for the thread.
  void Close();

  // For tests.
  size_t num_unproved() const;
  int64_t num_cut_off() const;

 private:
  struct State;
  explicit ControlPort(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_CONTROL_PORT_H_
