// A network is a strand, gRPC (grpc_library.h, from the first Listen or Connect on), a table of
// connections (grpc_connection.h), and a thread for each search for a peer (job_probe.h).
// Everything but that search happens on the strand.

#include "core/cluster/control/grpc_control_network.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/round_guard.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/base/wait.h"
#include "core/cluster/auth/job_certificate.h"
#include "core/cluster/control/control_port.h"
#include "core/cluster/control/control_strand.h"
#include "core/cluster/control/grpc_connection.h"
#include "core/cluster/control/grpc_library.h"
#include "core/cluster/control/job_probe.h"
#include "core/cluster/sockets/local_address.h"
#include "core/cluster/sockets/socket_address.h"

namespace tutti {
namespace {

// How long shutdown lets connections end by themselves.
constexpr int64_t kShutdownLingerNs = kSecondNs;
// The search for a peer ends that much before the time for connecting does, so that it is the one
// that tells what is wrong.
constexpr int64_t kProbeMarginNs = 100 * kMillisecondNs;
// To give up when memory has run out: two seconds.
constexpr int kMostTries = 100;

// "127.0.0.1:4711" of gRPC's "ipv4:127.0.0.1:4711" and "ipv6:%5B::1%5D:4711".
std::string PlainAddress(std::string_view uri) {
  std::string text;
  for (size_t i = uri.find(':') + 1; i < uri.size(); ++i) {
    const std::string_view code = uri.substr(i, 3);
    if (code == "%5B" || code == "%5D" || code == "%25") {
      text += code == "%5B" ? '[' : code == "%5D" ? ']' : '%';
      i += 2;
    } else {
      text += uri[i];
    }
  }
  return text;
}

// Sockets that listen at all addresses of `address` that the machine has, at one port.
Result<std::vector<FileDescriptor>> OpenListeningSockets(const std::string& address, int* port) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<SocketAddress> candidates, ResolveAddress(address));
  std::vector<FileDescriptor> sockets;
  Status first;
  for (SocketAddress& candidate : candidates) {
    // Any port of the first address becomes the port of all.
    if (!sockets.empty()) candidate.set_port(*port);
    Result<FileDescriptor> socket = MakeListeningSocket(candidate);
    if (socket.ok()) {
      TUTTI_ASSIGN_OR_RETURN(const SocketAddress bound, LocalSocketAddress(*socket));
      *port = bound.port();
      sockets.push_back(std::move(socket).value());
      continue;
    }
    const StatusDetail* error = socket.status().FindDetail("errno");
    if (error != nullptr && error->value == StatusDetail{"", int64_t{EADDRINUSE}}.value) {
      return socket.status();
    }
    // "localhost" may stand for an IPv6 address that the machine does not have.
    if (first.ok()) first = socket.status();
  }
  if (sockets.empty()) return first;
  return sockets;
}

}  // namespace

struct GrpcControlNetwork::State final : public GrpcSite,
                                         public std::enable_shared_from_this<State> {
  struct Probe {
    Thread thread;
    Ref<Cancellation> cancellation;
  };

  State(Ref<Environment> env, Options o)
      : GrpcSite(env->clock(), &env->log()),
        environment(env),
        options(o),
        rounds(options.name, *environment) {}

  Status EnsureLibrary();
  Status OpenServer(std::vector<FileDescriptor> listening,
                    std::unique_ptr<ControlAcceptor> new_acceptor);
  void RequestCall();
  void OnCall(bool ok);
  void BeginConnect(const Ref<GrpcConnection>& connection, int64_t timeout_ns);
  Status StartProbe(const Ref<GrpcConnection>& connection, int64_t timeout_ns);
  void OnProbed(const Ref<GrpcConnection>& connection, const Result<std::string>& found);
  void Forget(GrpcConnection* connection) override;
  void CancelProbe(GrpcConnection* connection) override;
  // `tell`: handlers learn it.
  void BeginShutdown(const Status& reason, bool tell);
  void GiveUp(const Status& why);
  void StopServer();
  void OnServerDown(bool ok);
  void EndWhenAllHasEnded();

  const Ref<Environment> environment;
  const Options options;
  RoundGuard rounds;  // of the strand
  JobCertificate certificate;
  Thread thread;  // of whoever calls Shutdown

  // All below on the strand.
  std::unique_ptr<GrpcLibrary> library;
  std::unique_ptr<ControlAcceptor> acceptor;
  grpc_server* server = nullptr;
  std::unique_ptr<ControlPort> port;
  bool server_runs = false;
  bool server_stops = false;
  std::map<GrpcConnection*, Ref<GrpcConnection>> connections;
  std::map<GrpcConnection*, Probe> probes;
  bool ending = false;

  // The next call that the server is asked for.
  grpc_call* next_call = nullptr;
  grpc_call_details next_details{};
  grpc_metadata_array next_metadata{};
  MemberTag<State> call_tag{this, &State::OnCall};
  MemberTag<State> server_down_tag{this, &State::OnServerDown};
};

Status GrpcControlNetwork::State::EnsureLibrary() {
  if (library != nullptr) return OkStatus();
  Result<std::unique_ptr<GrpcLibrary>> started =
      GrpcLibrary::Start(*environment, strand, certificate);
  if (!started.ok()) return std::move(started).status().WithPrefix(options.name);
  library = std::move(started).value();
  return OkStatus();
}

Status GrpcControlNetwork::State::OpenServer(std::vector<FileDescriptor> listening,
                                             std::unique_ptr<ControlAcceptor> new_acceptor) {
  if (ending || server != nullptr) {
    return FailedPrecondition("{} listens already, or has been shut down", options.name);
  }
  TUTTI_RETURN_IF_ERROR(EnsureLibrary());
  TUTTI_ASSIGN_OR_RETURN(const GrpcLibrary::Server made, library->MakeServer());
  server = made.server;
  grpc_server_start(server);
  server_runs = true;
  acceptor = std::move(new_acceptor);
  RequestCall();
  Result<std::unique_ptr<ControlPort>> opened = ControlPort::Open(
      *environment, {options.name, options.secret.Fingerprint()}, std::move(listening),
      [taker = made.taker](FileDescriptor s) { GrpcLibrary::GiveTo(taker, std::move(s)); });
  if (!opened.ok()) {
    StopServer();
    return std::move(opened).status().WithPrefix(options.name + " cannot listen");
  }
  port = std::move(opened).value();
  return OkStatus();
}

void GrpcControlNetwork::State::RequestCall() {
  grpc_call_details_init(&next_details);
  grpc_metadata_array_init(&next_metadata);
  const grpc_call_error error =
      grpc_server_request_call(server, &next_call, &next_details, &next_metadata, library->queue(),
                               library->queue(), call_tag.HandOver());
  assert(error == GRPC_CALL_OK);
  (void)error;
}

void GrpcControlNetwork::State::OnCall(bool ok) {
  grpc_call* const call = std::exchange(next_call, nullptr);
  const bool is_ours = grpc_slice_str_cmp(next_details.method, GrpcLibrary::kMethod) == 0;
  grpc_call_details_destroy(&next_details);
  grpc_metadata_array_destroy(&next_metadata);
  if (!ok) return;  // the server has been shut down
  char* const uri = grpc_call_get_peer(call);
  const std::string peer = PlainAddress(uri);
  gpr_free(uri);
  if (port != nullptr) port->HasProved(peer);
  if (!ending) RequestCall();
  if (ending || !is_ours) {
    grpc_call_cancel_with_status(
        call, ending ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_UNIMPLEMENTED, "", nullptr);
    grpc_call_unref(call);
    return;
  }
  const Ref<GrpcConnection> connection =
      MakeRef<GrpcConnection>(shared_from_this(), GrpcConnection::Side::kAcceptor, peer, nullptr);
  connections.emplace(connection.get(), connection);
  connection->StartAcceptor(call, acceptor->OnAccept(connection));
}

void GrpcControlNetwork::State::BeginConnect(const Ref<GrpcConnection>& connection,
                                             int64_t timeout_ns) {
  if (ending) return;
  connections.emplace(connection.get(), connection);
  connection->LimitConnecting(timeout_ns);
  Status status = StartProbe(connection, timeout_ns);
  if (!status.ok()) connection->CloseNow(std::move(status), true);
}

Status GrpcControlNetwork::State::StartProbe(const Ref<GrpcConnection>& connection,
                                             int64_t timeout_ns) {
  Probe probe;
  probe.cancellation = MakeRef<Cancellation>();
  int64_t limit_ns = timeout_ns;
  if (limit_ns != kNeverNs) limit_ns -= std::min(kProbeMarginNs, limit_ns / 10);
  struct Search {
    std::shared_ptr<State> self;
    Ref<GrpcConnection> connection;
    Result<std::string> found;
  };
  const auto begun =
      std::make_shared<Search>(Search{shared_from_this(), connection, Status::OutOfMemory()});
  auto search = [search = begun, cancellation = probe.cancellation,
                 deadline = Deadline::After(environment->clock(), limit_ns)] {
    State& state = *search->self;
    RoundGuard guard(state.options.name, *state.environment);
    (void)guard.Run([&] {
      search->found =
          FindJobPort(*state.environment, state.options.secret, state.certificate.authority_pem,
                      search->connection->peer_address(),
                      CallOptions{deadline, cancellation.get()});
    });
    // Nothing is left on this thread: the strand joins it.
    while (!guard.Run([&] {
      state.strand.PostEvent([search] {
        const std::shared_ptr<State> self = std::move(search->self);
        self->OnProbed(std::exchange(search->connection, nullptr), search->found);
      });
    })) {
    }
  };
  TUTTI_ASSIGN_OR_RETURN(probe.thread,
                         environment->StartThread("tutti-probe", Task(std::move(search))));
  connection->BeginWork();
  probes.emplace(connection.get(), std::move(probe));
  return OkStatus();
}

void GrpcControlNetwork::State::OnProbed(const Ref<GrpcConnection>& connection,
                                         const Result<std::string>& found) {
  const auto probe = probes.find(connection.get());
  // It has posted this, and ends.
  [[maybe_unused]] const Status joined = probe->second.thread.Join(CallOptions::Default());
  probes.erase(probe);
  if (!connection->closed()) {
    Status status = found.ok() ? EnsureLibrary() : found.status();
    if (status.ok()) {
      grpc_channel* const channel = library->MakeChannel(*found);
      connection->StartConnector(channel, library->MakeCall(channel));
    } else {
      connection->CloseNow(std::move(status), true);
    }
  }
  connection->EndWork();
  EndWhenAllHasEnded();
}

void GrpcControlNetwork::State::CancelProbe(GrpcConnection* connection) {
  const auto probe = probes.find(connection);
  if (probe != probes.end()) probe->second.cancellation->Cancel();
}

void GrpcControlNetwork::State::Forget(GrpcConnection* connection) {
  const auto found = connections.find(connection);
  if (found == connections.end()) return;
  const Ref<GrpcConnection> last = std::move(found->second);
  connections.erase(found);
  EndWhenAllHasEnded();
}

void GrpcControlNetwork::State::BeginShutdown(const Status& reason, bool tell) {
  ending = true;
  std::vector<Ref<GrpcConnection>> all;
  for (const auto& [raw, connection] : connections) all.push_back(connection);
  for (const Ref<GrpcConnection>& connection : all) connection->CloseNow(reason, tell);
  StopServer();
  strand.PostEventAfter(kShutdownLingerNs, [this] {
    for (const auto& [raw, connection] : connections) connection->Cancel();
    if (server_runs) grpc_server_cancel_all_calls(server);
  });
  EndWhenAllHasEnded();
}

// After a task that has thrown nobody knows what was left out: half a protocol would keep others
// waiting, a connection that ends is an error at both ends.
void GrpcControlNetwork::State::GiveUp(const Status& why) {
  for (int i = 0; i < kMostTries; ++i) {
    const bool begun = rounds.Run([&] {
      strand.CloseDoor();
      BeginShutdown(why.WithPrefix(options.name + ": the control channel was given up"), true);
    });
    if (begun) return;
  }
}

void GrpcControlNetwork::State::StopServer() {
  if (!server_runs || std::exchange(server_stops, true)) return;
  // Nothing may be given to a server that is about to end.
  if (port != nullptr) port->Close();
  port.reset();
  grpc_server_shutdown_and_notify(server, library->queue(), server_down_tag.HandOver());
}

void GrpcControlNetwork::State::OnServerDown(bool) {
  server_runs = false;
  server_stops = false;
  grpc_server_destroy(std::exchange(server, nullptr));
  acceptor.reset();
  EndWhenAllHasEnded();
}

void GrpcControlNetwork::State::EndWhenAllHasEnded() {
  if (!ending || !connections.empty() || !probes.empty() || server_runs) return;
  if (library != nullptr) library->Stop();
  library.reset();
  strand.Stop();
}

GrpcControlNetwork::GrpcControlNetwork(std::shared_ptr<State> state) : state_(std::move(state)) {}

GrpcControlNetwork::~GrpcControlNetwork() {
  if (!state_->environment->LeftBehindByFork()) return;
  // A forked child has none of the threads, and gRPC is not usable in it: what it holds is left
  // alone.
  state_->thread.Abandon();
  [[maybe_unused]] auto* left_behind = new std::shared_ptr<State>(std::move(state_));
}

Result<Ref<GrpcControlNetwork>> GrpcControlNetwork::Create(Ref<Environment> environment,
                                                           Options options) {
  if (options.secret.empty()) return InvalidArgument("{} needs the job secret", options.name);
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable(options.name));
  auto state = std::make_shared<State>(environment, std::move(options));
  TUTTI_ASSIGN_OR_RETURN(state->certificate, JobCertificate::Create(state->options.secret));
  state->strand.OnException([raw = state.get()](const Status& why) { raw->GiveUp(why); });
  // The thread keeps the state: what a connection posts finds its strand.
  TUTTI_ASSIGN_OR_RETURN(state->thread, environment->StartThread(
                                            "tutti-control", [state] { state->strand.Run(); }));
  return MakeRef<GrpcControlNetwork>(std::move(state));
}

Result<std::string> GrpcControlNetwork::Listen(const std::string& address,
                                               std::unique_ptr<ControlAcceptor> acceptor) {
  if (state_->strand.IsCurrent()) {
    return FailedPrecondition("{}: Listen waits for the strand and cannot be called on it",
                              state_->options.name);
  }
  TUTTI_ASSIGN_OR_RETURN(const HostPort parts, SplitHostPort(address));
  int port = 0;
  Result<std::vector<FileDescriptor>> listening = OpenListeningSockets(address, &port);
  if (!listening.ok()) {
    return listening.status().WithPrefix(
        Format("{} cannot listen at {}", state_->options.name, address));
  }
  struct Answer {
    std::mutex mutex;  // guards all below
    std::condition_variable come;
    bool done = false;
    Status result;
  };
  auto answer = std::make_shared<Answer>();
  const bool posted = state_->strand.Post(
      [state = state_, answer, listening = std::move(listening).value(),
       acceptor = std::move(acceptor)]() mutable {
        Status result = state->OpenServer(std::move(listening), std::move(acceptor));
        std::lock_guard<std::mutex> lock(answer->mutex);
        answer->result = std::move(result);
        answer->done = true;
        answer->come.notify_all();
      });
  if (!posted) {
    return FailedPrecondition("{} has been shut down and cannot listen", state_->options.name);
  }
  std::unique_lock<std::mutex> lock(answer->mutex);
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, answer->come, state_->environment->clock(), CallOptions::Default(),
      [&] { return answer->done; }, "listening at " + address));
  TUTTI_RETURN_IF_ERROR(answer->result);
  return JoinHostPort(parts.host, port);
}

Ref<ControlConnection> GrpcControlNetwork::Connect(const std::string& address, int64_t timeout_ns,
                                                   std::unique_ptr<ControlHandler> handler) {
  Ref<GrpcConnection> connection = MakeRef<GrpcConnection>(
      state_, GrpcConnection::Side::kConnector, address, std::move(handler));
  state_->strand.Post([state = state_, connection, timeout_ns] {
    state->BeginConnect(connection, timeout_ns);
  });
  return connection;
}

bool GrpcControlNetwork::Post(Task&& task) { return state_->strand.Post(std::move(task)); }

uint64_t GrpcControlNetwork::PostAfter(int64_t delay_ns, Task&& task) {
  return state_->strand.PostAfter(delay_ns, std::move(task));
}

bool GrpcControlNetwork::CancelTimer(uint64_t timer) { return state_->strand.CancelTimer(timer); }

Status GrpcControlNetwork::Shutdown(Status reason, const CallOptions& options) {
  if (state_->environment->LeftBehindByFork()) {
    return state_->environment->CheckUsable("shutdown of " + state_->options.name);
  }
  if (state_->strand.IsCurrent()) {
    return FailedPrecondition("{} cannot be shut down on its own strand", state_->options.name);
  }
  if (state_->strand.CloseDoor()) {
    state_->strand.PostEvent(
        [state = state_.get(), why = std::move(reason)] { state->BeginShutdown(why, false); });
  }
  return state_->thread.Join(options);
}

}  // namespace tutti
