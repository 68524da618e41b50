// ConnectPeer: the connecting side of peer_listener.h.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/sockets/peer_handshake.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/cluster/sockets/socket_address.h"
#include "core/cluster/sockets/socket_connect.h"
#include "core/cluster/sockets/socket_wait.h"

namespace tutti {
namespace {

// An acceptor that has not answered by then is none: a worker that is stopped for a while is waited
// for, something else that happens to listen there is not waited for for ever.
constexpr int64_t kAnswerLimitNs = 30 * kSecondNs;
// Who is told to stop when it has proved itself hears what the acceptor says to that, if it comes
// by then: the acceptor may hold the connection already, and would take its end for this side's
// death.
constexpr int64_t kLastAnswerNs = 1 * kSecondNs;
// Before another try where the acceptor had too many at once.
constexpr int64_t kRetryPauseNs = 10 * kMillisecondNs;

Status SendAll(Environment& environment, const FileDescriptor& socket, std::string_view bytes,
               const CallOptions& call, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      TUTTI_RETURN_IF_ERROR(WaitForSocket(environment, socket, POLLOUT, call, what));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return OkStatus();  // why may still be readable
    } else if (errno != EINTR) {
      return Unavailable("{}: {}", what, ErrnoStatus(errno, "send").message());
    }
  }
  return OkStatus();
}

Status ShakeHands(Environment& environment, const FileDescriptor& socket, PeerHandshake& handshake,
                  const CallOptions& call, const std::string& peer) {
  const std::string what = "the handshake with " + peer;
  char buffer[PeerHandshake::kHeaderBytes + PeerHandshake::kMaxBodyBytes];
  while (!handshake.done()) {
    TUTTI_RETURN_IF_ERROR(SendAll(environment, socket, handshake.TakeOutput(), call, what));
    const ssize_t got =
        recv(socket.get(), buffer, std::min(handshake.wanted(), sizeof(buffer)), 0);
    if (got > 0) {
      TUTTI_RETURN_IF_ERROR(
          handshake.Consume(std::string_view(buffer, static_cast<size_t>(got))));
    } else if (got < 0 && errno == EAGAIN) {
      Status status = WaitForSocket(environment, socket, POLLIN, call, what);
      if (!status.ok() && handshake.proved() && call.cancellation != nullptr &&
          call.cancellation->cancelled()) {
        const Deadline last = Deadline::After(environment.clock(), kLastAnswerNs);
        const CallOptions rest{Deadline::Earlier(last, call.deadline), nullptr};
        if (WaitForSocket(environment, socket, POLLIN, rest, what).ok()) continue;
      }
      TUTTI_RETURN_IF_ERROR(std::move(status));
    } else if (got == 0 || errno != EINTR) {
      return Unavailable("{} ended the connection during the handshake{}", peer,
                         got == 0 ? "" : ": " + std::string(ErrnoStatus(errno, "recv").message()));
    }
  }
  return OkStatus();
}

Result<FileDescriptor> TryOnce(Environment& environment, const JobSecret& secret,
                               const std::vector<SocketAddress>& addresses,
                               const PeerPurpose& purpose, const CallOptions& call) {
  Status first;
  for (const SocketAddress& address : addresses) {
    Result<FileDescriptor> socket = ConnectSocket(environment, address, call);
    if (!socket.ok()) {
      if (socket.status().code() != StatusCode::kUnavailable) return socket;
      if (first.ok()) first = std::move(socket).status();
      continue;
    }
    PeerHandshake::Options options;
    options.secret = secret;
    options.peer = address.ToString();
    PeerHandshake handshake = PeerHandshake::Connector(options, purpose, environment.random());
    const Deadline limit = Deadline::After(environment.clock(), kAnswerLimitNs);
    const CallOptions limited{Deadline::Earlier(limit, call.deadline), call.cancellation};
    Status status = ShakeHands(environment, *socket, handshake, limited, options.peer);
    if (status.ok()) return socket;
    if (status.code() == StatusCode::kDeadlineExceeded && limit.Expired(environment.clock()) &&
        !call.deadline.Expired(environment.clock())) {
      return Unavailable("{} does not answer: it took the connection and said nothing for {}",
                         options.peer, HumanDuration(kAnswerLimitNs));
    }
    return status;
  }
  return first;
}

}  // namespace

Result<FileDescriptor> ConnectPeer(Environment& environment, const JobSecret& secret,
                                   const std::string& address, const PeerPurpose& purpose,
                                   const CallOptions& call, int64_t retry_limit_ns) {
  const std::string what =
      Format("the connection {} to worker {}", Quote(purpose.name), purpose.to);
  if (secret.empty()) return InvalidArgument("{} needs the job secret", what);
  if (purpose.name.size() > PeerHandshake::kMaxPurposeBytes) {
    return InvalidArgument("{} has a name of {} bytes; at most {} are possible", what,
                           purpose.name.size(), PeerHandshake::kMaxPurposeBytes);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, ResolveAddress(address));
  // A call with a deadline says itself how long it waits.
  const Deadline enough = call.deadline.is_infinite()
                              ? Deadline::After(environment.clock(), retry_limit_ns)
                              : Deadline::Infinite();
  for (int64_t attempts = 1;; ++attempts) {
    Result<FileDescriptor> socket = TryOnce(environment, secret, addresses, purpose, call);
    if (socket.ok()) return socket;
    // The acceptor had no time or no room for it.
    const StatusCode code = socket.status().code();
    const bool again = code == StatusCode::kResourceExhausted ||
                       (code == StatusCode::kDeadlineExceeded &&
                        !call.deadline.Expired(environment.clock()));
    if (!again) return std::move(socket).status().WithPrefix(what);
    const auto and_last = [&] {
      return Format("; {} has refused {} attempts, the last one with: {}", address, attempts,
                    socket.status().message());
    };
    if (enough.Expired(environment.clock())) {
      return Unavailable("{}: given up after {}{}; see whether it is worker {} that listens there, "
                         "and give a timeout to wait longer",
                         what, HumanDuration(retry_limit_ns), and_last(), purpose.to)
          .WithCause(socket.status());
    }
    const Status paused = Pause(environment, kRetryPauseNs, call, what);
    if (!paused.ok()) {
      return Status(paused.code(), std::string(paused.message()) + and_last())
          .WithCause(socket.status());
    }
  }
}

}  // namespace tutti
