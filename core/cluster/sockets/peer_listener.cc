// One thread does all handshakes, with epoll: each is a small state machine (peer_handshake.h) that
// is fed what its socket has. What has proved itself waits in a table for Accept.

#include "core/cluster/sockets/peer_listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/round_guard.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/base/wait.h"
#include "core/cluster/sockets/peer_handshake.h"
#include "core/cluster/sockets/refusal_log.h"
#include "core/cluster/sockets/socket_address.h"
#include "core/cluster/sockets/spare_descriptor.h"
#include "core/cluster/sockets/unproved_connections.h"

namespace tutti {
namespace {

// Connections that nobody has asked for yet.
constexpr size_t kMaxWaiting = 1024;
// Purposes that somebody is done with, and whose connections are refused; of more, the oldest are
// forgotten, and theirs wait with those that nobody has asked for.
constexpr size_t kMaxFormer = 4096;
// After a new connection could be neither taken nor refused.
constexpr int64_t kAcceptPauseNs = 100 * kMillisecondNs;
// What is taken before those who are there already are served again.
constexpr int kMaxAcceptsPerRound = 16;

Status AddToPoll(const FileDescriptor& poll, const FileDescriptor& socket, uint32_t events,
                 uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(poll.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    return ErrnoStatus(errno, "epoll_ctl");
  }
  return OkStatus();
}

void SetEvents(const FileDescriptor& poll, const FileDescriptor& socket, uint32_t events,
               uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  epoll_ctl(poll.get(), EPOLL_CTL_MOD, socket.get(), &event);
}

Status EnableNoDelay(const FileDescriptor& socket) {
  const int on = 1;
  if (setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return ErrnoStatus(errno, "TCP_NODELAY");
  }
  return OkStatus();
}

// Only this user's processes may use the socket within the machine.
Status CheckPeerUser(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return ErrnoStatus(errno, "SO_PEERCRED");
  }
  if (credentials.uid == geteuid()) return OkStatus();
  return PermissionDenied("the connecting process runs as user {}, the accepting one as user {}; "
                          "all workers of a job on one machine run as the same user",
                          credentials.uid, geteuid());
}

// A few bytes always fit into a fresh socket's buffer.
void SayLastWords(const FileDescriptor& socket, std::string_view words) {
  if (!words.empty()) {
    [[maybe_unused]] const ssize_t sent =
        send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

}  // namespace

struct PeerListener::State {
  // What epoll tells apart; connections follow.
  static constexpr uint64_t kStopId = 0;
  static constexpr uint64_t kTcpId = 1;
  static constexpr uint64_t kLocalId = 2;
  static constexpr uint64_t kFirstConnectionId = 3;

  struct Connection {
    FileDescriptor socket;
    PeerHandshake handshake;
    std::string output;  // not sent yet
    int64_t limit_ns;    // on the environment's clock
  };
  using Key = std::pair<std::string, int64_t>;  // purpose, from

  explicit State(const Options& o) : options(o) {}

  Status Start(Environment& env, PeerListener& listener);
  void Work();
  void OnEvent(uint64_t id);
  void AcceptSome(const FileDescriptor& listening, bool is_local);
  void Begin(FileDescriptor socket, const SocketAddress& from, bool is_local);
  void Serve(uint64_t id);
  // True while the handshake goes on.
  bool Advance(Connection& connection, Status* failure);
  void Flush(Connection& connection);
  void Drop(uint64_t id, const Status& reason);
  void CountRefused();
  void Expire();
  void PauseAccepting(bool pause);
  int MillisecondsToWait() const;
  Status MayWait(const PeerPurpose& purpose);
  // Under mutex.
  void AddFormer(std::string_view purpose, std::string last_words);

  const Options options;
  Environment* environment = nullptr;
  FileDescriptor poll;
  FileDescriptor stop;
  FileDescriptor tcp;
  FileDescriptor local;
  Thread thread;

  // Of the thread "tutti-accept" alone. Ids rise with time, so the first is the oldest.
  std::map<uint64_t, Connection> connections;
  UnprovedConnections unproved;  // the same ones
  SpareDescriptor spare;
  std::optional<RefusalLog> refusals;
  std::optional<RoundGuard> guard;
  uint64_t next_id = kFirstConnectionId;
  int64_t accept_again_ns = kNeverNs;  // set while accepting pauses

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::map<Key, FileDescriptor> waiting;
  struct Watcher {
    uint64_t id = 0;
    std::shared_ptr<const std::function<void()>> arrived;
  };
  std::map<std::string, Watcher> watchers;  // by purpose
  uint64_t next_watch = 1;
  std::map<std::string, std::string, std::less<>> former;  // purposes, and their last words
  std::deque<std::string> former_in_order;                 // the same purposes, oldest first
  int64_t num_refused = 0;
  bool closing = false;
};

Status PeerListener::State::Start(Environment& env, PeerListener& listener) {
  environment = &env;
  refusals.emplace(env.log(), env.clock(),
                   Format("worker {}, the port for tensors", options.worker));
  guard.emplace(Format("worker {}, the port for tensors", options.worker), env);
  TUTTI_RETURN_IF_ERROR(spare.Open());
  poll = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!poll) return ErrnoStatus(errno, "epoll_create1");
  stop = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return ErrnoStatus(errno, "eventfd");
  TUTTI_RETURN_IF_ERROR(AddToPoll(poll, stop, EPOLLIN, kStopId));

  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<SocketAddress> here,
      ResolveAddress(Format("@tutti-{:016x}{:016x}", env.random().Next(), env.random().Next())));
  TUTTI_ASSIGN_OR_RETURN(local, MakeListeningSocket(here.front()));
  TUTTI_RETURN_IF_ERROR(AddToPoll(poll, local, EPOLLIN, kLocalId));
  listener.local_address_ = here.front().ToString();

  if (!options.tcp_address.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                           ResolveAddress(options.tcp_address));
    TUTTI_ASSIGN_OR_RETURN(tcp, MakeListeningSocket(addresses.front()));
    TUTTI_RETURN_IF_ERROR(AddToPoll(poll, tcp, EPOLLIN, kTcpId));
    TUTTI_ASSIGN_OR_RETURN(const SocketAddress bound, LocalSocketAddress(tcp));
    listener.tcp_address_ = bound.ToString();
  }
  TUTTI_ASSIGN_OR_RETURN(thread, env.StartThread("tutti-accept", [this] { Work(); }));
  return OkStatus();
}

void PeerListener::State::Work() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(poll.get(), events.data(), static_cast<int>(events.size()),
                                 MillisecondsToWait());
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kStopId) return;
      // Without memory a connection ends, and its peer tries again.
      if (!guard->Run([&] { OnEvent(id); }) && connections.erase(id) > 0) unproved.Remove(id);
    }
    // After what has come is served: a process that was stopped for a while cuts nobody off who has
    // answered meanwhile.
    (void)guard->Run([&] {
      Expire();
      refusals->Tick();
    });
  }
}

void PeerListener::State::OnEvent(uint64_t id) {
  if (id == kTcpId) {
    AcceptSome(tcp, false);
  } else if (id == kLocalId) {
    AcceptSome(local, true);
  } else {
    Serve(id);
  }
}

int PeerListener::State::MillisecondsToWait() const {
  int64_t next_ns = std::min(accept_again_ns, refusals->due_ns());
  // All have the same time, so the oldest one's limit is the first.
  if (!connections.empty()) next_ns = std::min(next_ns, connections.begin()->second.limit_ns);
  if (next_ns == kNeverNs) return -1;
  const int64_t wait_ns = std::max<int64_t>(0, next_ns - environment->clock().NowNs());
  return static_cast<int>(std::min<int64_t>(wait_ns / kMillisecondNs + 1, 60'000));
}

void PeerListener::State::PauseAccepting(bool pause) {
  accept_again_ns = pause ? environment->clock().NowNs() + kAcceptPauseNs : kNeverNs;
  const uint32_t events = pause ? 0u : uint32_t{EPOLLIN};
  SetEvents(poll, local, events, kLocalId);
  if (tcp) SetEvents(poll, tcp, events, kTcpId);
}

void PeerListener::State::AcceptSome(const FileDescriptor& listening, bool is_local) {
  for (int i = 0; i < kMaxAcceptsPerRound; ++i) {
    FileDescriptor socket;
    SocketAddress from;
    const std::string refusal = PeerHandshake::RefusalFrame(
        ResourceExhausted("worker {} has no file descriptor left", options.worker));
    switch (spare.Accept(listening, refusal, &socket, &from)) {
      case SpareDescriptor::Outcome::kTaken:
        Begin(std::move(socket), from, is_local);
        break;
      case SpareDescriptor::Outcome::kNone: return;
      case SpareDescriptor::Outcome::kRefused:
        refusals->CountWithoutDescriptor(errno);
        CountRefused();
        break;
      case SpareDescriptor::Outcome::kFailed:
        refusals->CountWithoutDescriptor(errno);
        PauseAccepting(true);
        return;
    }
  }
}

void PeerListener::State::Begin(FileDescriptor socket, const SocketAddress& from, bool is_local) {
  const uint64_t id = next_id++;
  PeerHandshake::Options handshake;
  handshake.secret = options.secret;
  handshake.peer = is_local ? "a process of this machine" : from.ToString();
  auto check = [this](const PeerPurpose& purpose) { return MayWait(purpose); };
  const Deadline limit = Deadline::After(environment->clock(), options.handshake_limit_ns);
  const auto [entry, inserted] = connections.emplace(
      id, Connection{std::move(socket),
                     PeerHandshake::Acceptor(handshake, options.worker, check,
                                             environment->random()),
                     std::string(), limit.time_ns()});
  unproved.Add(id, from);
  Status status = is_local ? CheckPeerUser(entry->second.socket)
                           : EnableNoDelay(entry->second.socket);
  if (status.ok()) status = AddToPoll(poll, entry->second.socket, EPOLLIN, id);
  if (!status.ok()) {
    entry->second.output = PeerHandshake::RefusalFrame(status);
    Drop(id, status);
    return;
  }
  if (connections.size() <= options.max_handshakes) return;
  const uint64_t dropped = unproved.ChooseOneToDrop(environment->random());
  const Status crowded = ResourceExhausted(
      "too many connections are being made at once ({}); try again", options.max_handshakes);
  connections.at(dropped).output += PeerHandshake::RefusalFrame(crowded);
  refusals->CountCrowded(options.max_handshakes);
  Drop(dropped, crowded);
}

// Called when the peer has proved that it is one.
Status PeerListener::State::MayWait(const PeerPurpose& purpose) {
  std::lock_guard<std::mutex> lock(mutex);
  if (closing) return Unavailable("worker {} is about to end", options.worker);
  if (former.contains(purpose.name)) {
    return FailedPrecondition("worker {} is done with {}", options.worker, Quote(purpose.name));
  }
  if (waiting.size() >= kMaxWaiting && !waiting.contains({purpose.name, purpose.from})) {
    return ResourceExhausted("{} connections wait at worker {} and nobody takes them", kMaxWaiting,
                             options.worker);
  }
  return OkStatus();
}

void PeerListener::State::AddFormer(std::string_view purpose, std::string last_words) {
  if (!former.emplace(purpose, std::move(last_words)).second) return;
  former_in_order.emplace_back(purpose);
  if (former_in_order.size() <= kMaxFormer) return;
  former.erase(former_in_order.front());
  former_in_order.pop_front();
}

void PeerListener::State::Serve(uint64_t id) {
  const auto entry = connections.find(id);
  if (entry == connections.end()) return;  // dropped since the event was there
  Connection& connection = entry->second;
  Status failure;
  if (Advance(connection, &failure)) return;
  if (!failure.ok()) {
    Drop(id, failure);
    return;
  }
  epoll_ctl(poll.get(), EPOLL_CTL_DEL, connection.socket.get(), nullptr);
  const PeerPurpose purpose = connection.handshake.purpose();
  FileDescriptor socket = std::move(connection.socket);
  connections.erase(entry);
  unproved.Remove(id);
  FileDescriptor earlier;  // closed after the lock is released
  std::string last_words;
  bool is_done_with = false;
  std::shared_ptr<const std::function<void()>> arrived;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = former.find(purpose.name); found != former.end()) {
      is_done_with = true;
      last_words = found->second;
    } else {
      // A peer that gave up and tried again: the newer connection is the one it holds.
      FileDescriptor& place = waiting[{purpose.name, purpose.from}];
      earlier = std::exchange(place, std::move(socket));
      changed.notify_all();
      const auto watcher = watchers.find(purpose.name);
      if (watcher != watchers.end()) arrived = watcher->second.arrived;
    }
  }
  // Done with while it was about to say that it is ready.
  if (is_done_with) SayLastWords(socket, last_words);
  // Whoever watches would wait in vain, were it not told.
  while (arrived && !guard->Run([&] { (*arrived)(); })) {
    std::lock_guard<std::mutex> lock(mutex);
    if (closing) return;
  }
}

bool PeerListener::State::Advance(Connection& connection, Status* failure) {
  PeerHandshake& handshake = connection.handshake;
  char buffer[PeerHandshake::kHeaderBytes + PeerHandshake::kMaxBodyBytes];
  while (handshake.wanted() > 0) {
    const ssize_t got = recv(connection.socket.get(), buffer,
                             std::min(handshake.wanted(), sizeof(buffer)), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      *failure = got == 0 ? Unavailable("it ended the connection during the handshake")
                          : ErrnoStatus(errno, "recv");
      return false;
    }
    *failure = handshake.Consume(std::string_view(buffer, static_cast<size_t>(got)));
    connection.output += handshake.TakeOutput();
    if (!failure->ok()) return false;
  }
  Flush(connection);
  return !handshake.done() || !connection.output.empty();
}

// A handshake's few hundred bytes always fit into a fresh socket's buffer; should they not, the
// peer runs into its time limit.
void PeerListener::State::Flush(Connection& connection) {
  while (!connection.output.empty()) {
    const ssize_t sent = send(connection.socket.get(), connection.output.data(),
                              connection.output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    connection.output.erase(0, static_cast<size_t>(sent));
  }
}

void PeerListener::State::CountRefused() {
  std::lock_guard<std::mutex> lock(mutex);
  ++num_refused;
}

void PeerListener::State::Drop(uint64_t id, const Status& reason) {
  CountRefused();  // before the stranger can know
  const auto entry = connections.find(id);
  SayFarewell(entry->second.socket, entry->second.output);
  if (environment->log().Enabled(LogLevel::kDebug)) {
    environment->log().Debug(Format("worker {}: a connection was refused: {}", options.worker,
                                    reason.ToString()));
  }
  connections.erase(entry);
  unproved.Remove(id);
}

void PeerListener::State::Expire() {
  const int64_t now_ns = environment->clock().NowNs();
  if (now_ns >= accept_again_ns) PauseAccepting(false);
  while (!connections.empty() && connections.begin()->second.limit_ns <= now_ns) {
    const Status late = DeadlineExceeded("the handshake took longer than {}",
                                         HumanDuration(options.handshake_limit_ns));
    connections.begin()->second.output += PeerHandshake::RefusalFrame(late);
    Drop(connections.begin()->first, late);
  }
}

PeerListener::PeerListener(Ref<Environment> environment, const Options& options)
    : Closable(std::move(environment), Format("peer listener of worker {}", options.worker)),
      state_(std::make_unique<State>(options)) {}

PeerListener::~PeerListener() {
  // A forked child has the object and not the thread; what it holds is left alone.
  if (environment().LeftBehindByFork()) state_->thread.Abandon();
}

Result<Ref<PeerListener>> PeerListener::Create(Ref<Environment> environment,
                                               const Options& options) {
  if (options.secret.empty()) return InvalidArgument("a peer listener needs the job secret");
  Ref<PeerListener> listener = MakeRef<PeerListener>(std::move(environment), options);
  TUTTI_RETURN_IF_ERROR(listener->Register());
  Status status = listener->StartUnlessClosed(
      [&] { return listener->state_->Start(listener->environment(), *listener); });
  if (!status.ok()) return std::move(status).WithPrefix(listener->closable_name());
  return listener;
}

Result<FileDescriptor> PeerListener::Accept(std::string_view purpose, int64_t from,
                                            const CallOptions& call) {
  const State::Key key(purpose, from);
  std::unique_lock<std::mutex> lock(state_->mutex);
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, state_->changed, environment().clock(), call,
      [&] { return state_->closing || state_->waiting.contains(key); },
      Format("the connection {} from worker {}", Quote(purpose), from)));
  const auto found = state_->waiting.find(key);
  if (found == state_->waiting.end()) {
    return FailedPrecondition("the connection {} from worker {} cannot come any more: {} has been "
                              "closed",
                              Quote(purpose), from, closable_name());
  }
  FileDescriptor socket = std::move(found->second);
  state_->waiting.erase(found);
  return socket;
}

uint64_t PeerListener::Watch(std::string_view purpose, std::function<void()> arrived) {
  const std::string name(purpose);
  const auto watcher = std::make_shared<const std::function<void()>>(std::move(arrived));
  uint64_t id = 0;
  bool is_there = false;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->former.erase(name) > 0) std::erase(state_->former_in_order, name);
    id = state_->next_watch++;
    state_->watchers[name] = State::Watcher{id, watcher};
    const auto first = state_->waiting.lower_bound({name, INT64_MIN});
    is_there = first != state_->waiting.end() && first->first.first == name;
  }
  if (is_there) (*watcher)();
  return id;
}

std::vector<std::pair<int64_t, FileDescriptor>> PeerListener::TakeAll(std::string_view purpose) {
  std::vector<std::pair<int64_t, FileDescriptor>> taken;
  std::lock_guard<std::mutex> lock(state_->mutex);
  auto next = state_->waiting.lower_bound({std::string(purpose), INT64_MIN});
  while (next != state_->waiting.end() && next->first.first == purpose) {
    taken.emplace_back(next->first.second, std::move(next->second));
    next = state_->waiting.erase(next);
  }
  return taken;
}

void PeerListener::Unwatch(std::string_view purpose, uint64_t watch, std::string last_words) {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    const auto found = state_->watchers.find(std::string(purpose));
    if (found == state_->watchers.end() || found->second.id != watch) return;
    state_->watchers.erase(found);
    state_->AddFormer(purpose, last_words);
  }
  for (const auto& [from, socket] : TakeAll(purpose)) SayLastWords(socket, last_words);
}

void PeerListener::Refuse(std::string_view purpose) {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->AddFormer(purpose, std::string());
  }
  TakeAll(purpose);
}

size_t PeerListener::num_waiting() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->waiting.size();
}

int64_t PeerListener::num_refused() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->num_refused;
}

Status PeerListener::OnClose(const CallOptions& options) {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->closing = true;
    state_->changed.notify_all();
  }
  if (state_->stop) {
    const uint64_t one = 1;
    if (write(state_->stop.get(), &one, sizeof(one)) < 0 && errno != EAGAIN) {
      return ErrnoStatus(errno, "eventfd");
    }
  }
  TUTTI_RETURN_IF_ERROR(state_->thread.Join(options));
  state_->connections.clear();
  state_->tcp.Reset();
  state_->local.Reset();
  std::map<State::Key, FileDescriptor> waiting;
  std::lock_guard<std::mutex> lock(state_->mutex);
  waiting.swap(state_->waiting);
  return OkStatus();
}

}  // namespace tutti
