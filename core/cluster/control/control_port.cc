#include "core/cluster/control/control_port.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/round_guard.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/cluster/sockets/refusal_log.h"
#include "core/cluster/sockets/socket_address.h"
#include "core/cluster/sockets/spare_descriptor.h"
#include "core/cluster/sockets/unproved_connections.h"

namespace tutti {
namespace {

// What is taken at once before those who are there already are looked after again.
constexpr int kMaxAcceptsPerRound = 16;
// After a new connection could be neither taken nor refused.
constexpr int64_t kAcceptPauseNs = 100 * kMillisecondNs;
// How long the first bytes of a connection may be on their way before it is given away unseen: gRPC
// waits for them as well.
constexpr int64_t kFirstBytesNs = 20 * kMillisecondNs;
constexpr std::string_view kKnock = "TUTTI KNOCK ";
constexpr size_t kFingerprintSize = 16;

// The fingerprint that what has come of a connection knocks with, empty for anything else. It stays
// to be read.
std::string ReadKnock(const FileDescriptor& socket) {
  char bytes[kKnock.size() + kFingerprintSize + 1];
  const ssize_t size = recv(socket.get(), bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
  if (size != static_cast<ssize_t>(sizeof(bytes)) || bytes[sizeof(bytes) - 1] != '\n') return "";
  const std::string_view text(bytes, sizeof(bytes) - 1);
  if (text.substr(0, kKnock.size()) != kKnock) return "";
  const std::string_view fingerprint = text.substr(kKnock.size());
  if (fingerprint.find_first_not_of("0123456789abcdef") != std::string_view::npos) return "";
  return std::string(fingerprint);
}

}  // namespace

struct ControlPort::State {
  // What epoll tells apart: the stop, the listening sockets, connections.
  static constexpr uint64_t kStopId = 0;
  static constexpr uint64_t kFirstListeningId = 1;

  struct Connection {
    FileDescriptor socket;  // a duplicate: gRPC owns another
    std::string peer;
    int64_t until_ns;  // on the environment's clock
    FileDescriptor untaken;  // what is given away; empty when it has been
    int64_t take_ns = kNeverNs;
  };

  State(Environment& env, Options o, std::vector<FileDescriptor> sockets, Taker t)
      : environment(env),
        options(std::move(o)),
        listening(std::move(sockets)),
        taker(std::move(t)),
        next_id(kFirstListeningId + listening.size()),
        refusals(env.log(), env.clock(), options.name + ", the control port") {}

  Status Start();
  Status Watch(const FileDescriptor& socket, uint32_t events, uint64_t id);
  void Work();
  void AcceptSome(const FileDescriptor& socket);
  void Begin(FileDescriptor socket, const SocketAddress& from);
  // Gives a connection away, unless it knocks: then it ends.
  void Take(uint64_t id);
  void TakeUnseen();
  void PauseAccepting(bool pause);
  int MillisecondsToWait();
  void ForgetOld();
  // Under mutex. The socket, so that it is closed without the lock.
  FileDescriptor Forget(uint64_t id);

  Environment& environment;
  const Options options;
  const std::vector<FileDescriptor> listening;
  const Taker taker;
  FileDescriptor poll;
  FileDescriptor stop;
  Thread thread;

  // Of the thread alone.
  uint64_t next_id;
  int64_t accept_again_ns = kNeverNs;  // set while accepting pauses
  SpareDescriptor spare;
  RefusalLog refusals;

  std::mutex mutex;  // guards all below
  std::map<uint64_t, Connection> connections;  // ids rise with time, so the first is the oldest
  std::unordered_map<std::string, uint64_t> by_peer;
  UnprovedConnections unproved;
  int64_t num_cut_off = 0;
};

Status ControlPort::State::Watch(const FileDescriptor& socket, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(poll.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0) return OkStatus();
  return ErrnoStatus(errno, "epoll_ctl");
}

Status ControlPort::State::Start() {
  TUTTI_RETURN_IF_ERROR(spare.Open());
  poll = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!poll) return ErrnoStatus(errno, "epoll_create1");
  stop = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return ErrnoStatus(errno, "eventfd");
  TUTTI_RETURN_IF_ERROR(Watch(stop, EPOLLIN, kStopId));
  for (size_t i = 0; i < listening.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(Watch(listening[i], EPOLLIN, kFirstListeningId + i));
  }
  TUTTI_ASSIGN_OR_RETURN(thread, environment.StartThread("tutti-port", [this] { Work(); }));
  return OkStatus();
}

void ControlPort::State::Work() {
  RoundGuard guard(options.name + ", the control port", environment);
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(poll.get(), events.data(), static_cast<int>(events.size()),
                                 MillisecondsToWait());
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kStopId) return;
      if (id < kFirstListeningId + listening.size()) {
        // Without memory what came is closed, and its peer tries again.
        (void)guard.Run([&] { AcceptSome(listening[id - kFirstListeningId]); });
      } else if ((events[static_cast<size_t>(i)].events & EPOLLIN) != 0) {
        (void)guard.Run([&] { Take(id); });
      } else {
        // It has ended, in both directions: nothing else of it is asked for.
        FileDescriptor ended;
        std::lock_guard<std::mutex> lock(mutex);
        ended = Forget(id);
      }
    }
    (void)guard.Run([&] {
      if (environment.clock().NowNs() >= accept_again_ns) PauseAccepting(false);
      TakeUnseen();
      ForgetOld();
      refusals.Tick();
    });
  }
}

int ControlPort::State::MillisecondsToWait() {
  int64_t next_ns = std::min(accept_again_ns, refusals.due_ns());
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!connections.empty()) next_ns = std::min(next_ns, connections.begin()->second.until_ns);
    for (const auto& [id, connection] : connections) {
      if (connection.untaken) next_ns = std::min(next_ns, connection.take_ns);
    }
  }
  if (next_ns == kNeverNs) return -1;
  const int64_t wait_ns = std::max<int64_t>(0, next_ns - environment.clock().NowNs());
  return static_cast<int>(std::min<int64_t>(wait_ns / kMillisecondNs + 1, 60'000));
}

void ControlPort::State::PauseAccepting(bool pause) {
  accept_again_ns = pause ? environment.clock().NowNs() + kAcceptPauseNs : kNeverNs;
  for (size_t i = 0; i < listening.size(); ++i) {
    epoll_event event{};
    event.events = pause ? 0u : uint32_t{EPOLLIN};
    event.data.u64 = kFirstListeningId + i;
    epoll_ctl(poll.get(), EPOLL_CTL_MOD, listening[i].get(), &event);
  }
}

void ControlPort::State::AcceptSome(const FileDescriptor& socket) {
  for (int i = 0; i < kMaxAcceptsPerRound; ++i) {
    FileDescriptor accepted;
    SocketAddress from;
    // It would not understand a text: it waits for TLS.
    switch (spare.Accept(socket, {}, &accepted, &from)) {
      case SpareDescriptor::Outcome::kTaken:
        Begin(std::move(accepted), from);
        break;
      case SpareDescriptor::Outcome::kNone: return;
      case SpareDescriptor::Outcome::kRefused:
        refusals.CountWithoutDescriptor(errno);
        break;
      case SpareDescriptor::Outcome::kFailed:
        refusals.CountWithoutDescriptor(errno);
        PauseAccepting(true);
        return;
    }
  }
}

void ControlPort::State::Begin(FileDescriptor socket, const SocketAddress& from) {
  Connection connection{FileDescriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)), from.ToString(),
                        environment.clock().NowNs() + options.watch_ns, FileDescriptor(),
                        environment.clock().NowNs() + kFirstBytesNs};
  if (!connection.socket) {
    refusals.CountWithoutDescriptor(errno);
    return;
  }
  const uint64_t id = next_id++;
  // An end in both directions is always told.
  if (const Status status = Watch(connection.socket, EPOLLIN, id); !status.ok()) {
    refusals.CountWithoutDescriptor(errno);
    return;
  }
  connection.untaken = std::move(socket);
  FileDescriptor cut_off;
  {
    std::lock_guard<std::mutex> lock(mutex);
    const std::string peer = connection.peer;
    connections.emplace(id, std::move(connection));
    struct Undo {
      State* state;
      uint64_t id;
      ~Undo() {
        if (state != nullptr) (void)state->Forget(id);
      }
    } undo{this, id};
    unproved.Add(id, from);
    by_peer[peer] = id;
    undo.state = nullptr;
    if (connections.size() > options.max_unproved) {
      const uint64_t dropped = unproved.ChooseOneToDrop(environment.random());
      cut_off = Forget(dropped);
      shutdown(cut_off.get(), SHUT_RDWR);  // whoever has it in hand sees the end, too
      ++num_cut_off;
    }
  }
  if (cut_off) refusals.CountCrowded(options.max_unproved);
}

void ControlPort::State::Take(uint64_t id) {
  FileDescriptor taken;
  FileDescriptor knocking;
  std::string peer;
  std::string fingerprint;
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = connections.find(id);
    if (found == connections.end() || !found->second.untaken) return;
    Connection& connection = found->second;
    fingerprint = ReadKnock(connection.socket);
    taken = std::move(connection.untaken);
    if (!fingerprint.empty()) {
      peer = connection.peer;
      knocking = Forget(id);
    } else {
      epoll_event event{};
      event.data.u64 = id;
      epoll_ctl(poll.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
    }
  }
  if (fingerprint.empty()) return taker(std::move(taken));
  refusals.CountOtherSecret(peer, fingerprint, options.fingerprint);
}

void ControlPort::State::TakeUnseen() {
  std::vector<uint64_t> unseen;
  const int64_t now_ns = environment.clock().NowNs();
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [id, connection] : connections) {
      if (connection.untaken && connection.take_ns <= now_ns) unseen.push_back(id);
    }
  }
  for (const uint64_t id : unseen) Take(id);
}

FileDescriptor ControlPort::State::Forget(uint64_t id) {
  const auto found = connections.find(id);
  if (found == connections.end()) return FileDescriptor();
  FileDescriptor socket = std::move(found->second.socket);
  // Closing does not do that: gRPC's descriptor keeps the connection open.
  epoll_ctl(poll.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  const auto peer = by_peer.find(found->second.peer);
  if (peer != by_peer.end() && peer->second == id) by_peer.erase(peer);
  unproved.Remove(id);
  connections.erase(found);
  return socket;
}

void ControlPort::State::ForgetOld() {
  const int64_t now_ns = environment.clock().NowNs();
  std::vector<FileDescriptor> old;
  std::lock_guard<std::mutex> lock(mutex);
  while (!connections.empty() && connections.begin()->second.until_ns <= now_ns) {
    old.reserve(old.size() + 1);
    old.push_back(Forget(connections.begin()->first));
  }
}

std::string ControlPort::KnockOf(const std::string& fingerprint) {
  return std::string(kKnock) + fingerprint + "\n";
}

ControlPort::ControlPort(std::unique_ptr<State> state) : state_(std::move(state)) {}

ControlPort::~ControlPort() { assert(!state_->thread.joinable()); }

Result<std::unique_ptr<ControlPort>> ControlPort::Open(Environment& environment, Options options,
                                                       std::vector<FileDescriptor> listening,
                                                       Taker taker) {
  auto state = std::make_unique<State>(environment, std::move(options), std::move(listening),
                                       std::move(taker));
  TUTTI_RETURN_IF_ERROR(state->Start());
  return std::unique_ptr<ControlPort>(new ControlPort(std::move(state)));
}

void ControlPort::HasProved(const std::string& peer) {
  FileDescriptor proved;
  std::lock_guard<std::mutex> lock(state_->mutex);
  const auto found = state_->by_peer.find(peer);
  if (found != state_->by_peer.end()) proved = state_->Forget(found->second);
}

void ControlPort::Close() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(state_->stop.get(), &one, sizeof(one));
  [[maybe_unused]] const Status joined = state_->thread.Join(CallOptions::Default());
}

size_t ControlPort::num_unproved() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->connections.size();
}

int64_t ControlPort::num_cut_off() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->num_cut_off;
}

}  // namespace tutti
