// Authenticated byte streams between two workers of a job, for the data transports: TCP between
// machines, Unix sockets in the abstract namespace (no file names) within one.
//
//   // worker 1                                             // worker 0
//   socket = ConnectPeer(env, secret, info.local_address,   socket = listener->Accept(
//                        {"group 7", 1, 0}, call);              "group 7", /*from=*/1, call);
//
// Both sides prove that they know the job secret before anything else is said (peer_handshake.h).
// Whoever cannot, or sends something else, is told why, counted, and cut off; it costs the job one
// short-lived connection: handshakes have a time limit of their own, and only so many are in
// progress at a time (unproved_connections.h has who goes). A peer that has to go with strangers
// from its own address tries again by itself.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_PEER_LISTENER_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_PEER_LISTENER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/closable.h"
#include "core/base/file_descriptor.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/auth/job_secret.h"

namespace tutti {

class Environment;

// What a connection is for. Both sides say it and must say the same.
struct PeerPurpose {
  std::string name;  // at most 256 bytes: "group 7 epoch 2", unique per connection and pair
  int64_t from = 0;  // the worker that connects
  int64_t to = 0;    // the worker that accepts
};

class PeerListener final : public Closable {
 public:
  struct Options {
    JobSecret secret;
    int64_t worker = 0;       // the one that accepts
    std::string tcp_address;  // "10.0.0.2:0"; empty: no TCP
    // Who has not proved itself within this time is cut off, and one of those who are about to
    // when there are more of them than this.
    int64_t handshake_limit_ns = 5 * kSecondNs;
    size_t max_handshakes = 64;
  };
  static Result<Ref<PeerListener>> Create(Ref<Environment> environment, const Options& options);

  const std::string& tcp_address() const { return tcp_address_; }      // with the port; or empty
  const std::string& local_address() const { return local_address_; }  // "@tutti-<random>"

  // Waits for the connection with this purpose. It is non-blocking, close-on-exec; TCP has
  // TCP_NODELAY.
  Result<FileDescriptor> Accept(std::string_view purpose, int64_t from, const CallOptions& call);

  // For connections that come when others want them: `arrived` is called, on the accepting thread,
  // when one with this purpose is there to be taken, and at once if one is; it must not block.
  // Gives an id for Unwatch. One watcher at a time for a purpose; a new one takes its place.
  uint64_t Watch(std::string_view purpose, std::function<void()> arrived);
  // All of them, with the workers that they come from. Never waits.
  std::vector<std::pair<int64_t, FileDescriptor>> TakeAll(std::string_view purpose);
  // Closes those that nobody has taken, and refuses more of them (FAILED_PRECONDITION) until
  // somebody watches again. A call of `arrived` may be on its way still. Nothing happens where
  // another watcher has come since. The peer may hold its end of one already: `last_words`, a few
  // bytes, are said over it before it is closed.
  void Unwatch(std::string_view purpose, uint64_t watch, std::string last_words = std::string());

  // Closes what nobody has taken of this purpose, and refuses more of it (FAILED_PRECONDITION)
  // until somebody watches it: for connections that had to come by now.
  void Refuse(std::string_view purpose);

  // How many connections wait for somebody to take them.
  size_t num_waiting() const;
  // How many connections were cut off because they did not know the secret or spoke otherwise.
  int64_t num_refused() const;

 private:
  struct State;
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  PeerListener(Ref<Environment> environment, const Options& options);
  ~PeerListener() override;
  Status OnClose(const CallOptions& options) override;

  std::string tcp_address_;
  std::string local_address_;
  std::unique_ptr<State> state_;
};

// Connects to a peer's tcp_address or local_address. UNAVAILABLE when it cannot be reached (saying
// whether nothing listens there, or no answer comes), UNAUTHENTICATED for another secret,
// INVALID_ARGUMENT for another major version (naming both). A listener that has no room is asked
// again until the call's deadline; without one until `retry_limit_ns` have passed, and then it is
// UNAVAILABLE.
inline constexpr int64_t kPeerRetryLimitNs = 60 * kSecondNs;
Result<FileDescriptor> ConnectPeer(Environment& environment, const JobSecret& secret,
                                   const std::string& address, const PeerPurpose& purpose,
                                   const CallOptions& call,
                                   int64_t retry_limit_ns = kPeerRetryLimitNs);

// Passes a file descriptor over a Unix socket from ConnectPeer or Accept, with a few bytes (1 to
// 64) that say what it is.
Status SendDescriptor(Environment& environment, const FileDescriptor& socket,
                      const FileDescriptor& sent, std::string_view bytes, const CallOptions& call);
Result<FileDescriptor> ReceiveDescriptor(Environment& environment, const FileDescriptor& socket,
                                         std::string* bytes, const CallOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_PEER_LISTENER_H_
