#include "core/cluster/control/grpc_library.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <mutex>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/control_channel.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/round_guard.h"
#include "core/cluster/control/control_strand.h"
#include "core/cluster/control/grpc_connection.h"

namespace tutti {
namespace {

// A frame's first byte and then some.
constexpr int kMaxFrameBytes = static_cast<int>(kMaxControlMessageBytes) + 1024;
constexpr int kServerHandshakeMs = 5000;
constexpr int kUnreadLimitMs = 20'000;

// gRPC is one for the whole process, and what it leaves to others to clean up ends a moment after
// its shutdown. So that nothing of it runs when the last network has ended, that one waits, unless
// gRPC has another user, who was there first.
std::atomic<int> running_libraries{0};
std::atomic<bool> has_other_users{false};
constexpr int64_t kCleanUpLimitNs = kSecondNs;

void Discard(gpr_log_func_args*) {}

// gRPC writes to standard error what strangers do to a server. Statuses say what matters; who wants
// its lines too sets GRPC_VERBOSITY.
void KeepQuiet() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(&Discard);
  });
}

// What gRPC opens while it starts (an epoll instance, event counters), and some to spare.
constexpr int kDescriptorsToStart = 16;

Status CheckDescriptors() {
  std::vector<FileDescriptor> opened;
  for (int i = 0; i < kDescriptorsToStart; ++i) {
    opened.emplace_back(eventfd(0, EFD_CLOEXEC));
    if (opened.back()) continue;
    return ErrnoStatus(errno, "eventfd")
        .WithPrefix(Format("the control channel (gRPC) needs {} file descriptors to start, and "
                           "only {} can be had; allow this process more open files (`ulimit -n`)",
                           kDescriptorsToStart, i));
  }
  return OkStatus();
}

grpc_arg IntegerArgument(const char* key, int value) {
  grpc_arg argument{};
  argument.type = GRPC_ARG_INTEGER;
  argument.key = const_cast<char*>(key);
  argument.value.integer = value;
  return argument;
}

grpc_arg TextArgument(const char* key, const char* value) {
  grpc_arg argument{};
  argument.type = GRPC_ARG_STRING;
  argument.key = const_cast<char*>(key);
  argument.value.string = const_cast<char*>(value);
  return argument;
}

}  // namespace

Result<std::unique_ptr<GrpcLibrary>> GrpcLibrary::Start(Environment& environment,
                                                        ControlStrand& strand,
                                                        const JobCertificate& certificate) {
  TUTTI_RETURN_IF_ERROR(CheckDescriptors());
  KeepQuiet();
  if (running_libraries.fetch_add(1) == 0) has_other_users = grpc_is_initialized() != 0;
  std::unique_ptr<GrpcLibrary> library(new GrpcLibrary());
  grpc_init();
  grpc_completion_queue* const queue = grpc_completion_queue_create_for_next(nullptr);
  library->queue_ = queue;
  grpc_ssl_pem_key_cert_pair pair{certificate.private_key_pem.c_str(),
                                  certificate.certificate_pem.c_str()};
  library->channel_credentials_ =
      grpc_ssl_credentials_create_ex(certificate.authority_pem.c_str(), &pair, nullptr, nullptr);
  library->server_credentials_ = grpc_ssl_server_credentials_create_ex(
      certificate.authority_pem.c_str(), &pair, 1,
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, nullptr);
  // What gRPC has done becomes an event on the strand.
  Result<Thread> thread = environment.StartThread("tutti-grpc", [queue, &strand, &environment] {
    RoundGuard guard("control", environment);
    for (;;) {
      const grpc_event event =
          grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr);
      if (event.type == GRPC_QUEUE_SHUTDOWN) return;
      if (event.type != GRPC_OP_COMPLETE) continue;
      GrpcTag* const tag = GrpcTag::TakeBack(event.tag);
      // Whoever waits for it would wait in vain.
      while (!guard.Run([&] {
        strand.PostEvent([tag, ok = event.success != 0] { tag->OnDone(ok); });
      })) {
      }
    }
  });
  if (!thread.ok()) {
    library->Stop();
    return std::move(thread).status();
  }
  library->thread_ = std::move(thread).value();
  return library;
}

void GrpcLibrary::Stop() {
  if (queue_ == nullptr) return;
  grpc_completion_queue_shutdown(queue_);
  if (thread_.joinable()) {
    // It ends with the queue, which has nothing left to wait for.
    [[maybe_unused]] const Status joined = thread_.Join(CallOptions::Default());
  } else {
    grpc_completion_queue_next(queue_, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr);
  }
  grpc_completion_queue_destroy(std::exchange(queue_, nullptr));
  if (channel_credentials_ != nullptr) grpc_channel_credentials_release(channel_credentials_);
  if (server_credentials_ != nullptr) grpc_server_credentials_release(server_credentials_);
  grpc_shutdown_blocking();
  if (running_libraries.fetch_sub(1) > 1 || has_other_users) return;
  const Deadline limit = Deadline::After(RealClock(), kCleanUpLimitNs);
  while (running_libraries == 0 && grpc_is_initialized() != 0 && !limit.Expired(RealClock())) {
    const timespec pause{0, kMillisecondNs};
    nanosleep(&pause, nullptr);
  }
}

GrpcLibrary::~GrpcLibrary() { assert(queue_ == nullptr); }

grpc_channel* GrpcLibrary::MakeChannel(const std::string& address) {
  grpc_arg arguments[] = {
      TextArgument(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, JobCertificate::kServerName),
      IntegerArgument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMaxFrameBytes),
      IntegerArgument(GRPC_ARG_ENABLE_RETRIES, 0),
      IntegerArgument(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
      IntegerArgument(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
      // What the peer's kernel does not take within 20 seconds ends the connection, as gRPC has it
      // on servers; no keepalive goes with it (one in 24 days), the channel's users have their own.
      IntegerArgument(GRPC_ARG_KEEPALIVE_TIME_MS, std::numeric_limits<int>::max() - 1),
      IntegerArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kUnreadLimitMs),
      // Each connection is one of its own, with no memory of failed ones before.
      IntegerArgument(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
  };
  const grpc_channel_args all{sizeof(arguments) / sizeof(arguments[0]), arguments};
  // The address is numeric: nothing is to be looked up.
  std::string target = address.front() == '[' ? "ipv6:" : "ipv4:";
  for (const char c : address) {
    if (c == '%') {
      target += "%25";
    } else {
      target += c;
    }
  }
  return grpc_channel_create(target.c_str(), channel_credentials_, &all);
}

grpc_call* GrpcLibrary::MakeCall(grpc_channel* channel) {
  return grpc_channel_create_call(channel, nullptr, GRPC_PROPAGATE_DEFAULTS, queue_,
                                  grpc_slice_from_static_string(kMethod), nullptr,
                                  gpr_inf_future(GPR_CLOCK_REALTIME), nullptr);
}

Result<GrpcLibrary::Server> GrpcLibrary::MakeServer() {
  static constexpr char kExternal[] = "external:tutti";
  static constexpr grpc_arg_pointer_vtable kBorrowed{
      [](void* pointer) { return pointer; }, [](void*) {},
      [](void* a, void* b) { return a == b ? 0 : std::less<void*>()(a, b) ? -1 : 1; }};
  Server made;
  grpc_arg taker{};  // gRPC writes it when the port is added, and does not look at it later
  taker.type = GRPC_ARG_POINTER;
  taker.key = const_cast<char*>(kExternal);
  taker.value.pointer.p = &made.taker;
  taker.value.pointer.vtable = &kBorrowed;
  grpc_arg arguments[] = {
      taker,
      IntegerArgument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMaxFrameBytes),
      IntegerArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kServerHandshakeMs),
      IntegerArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1),
  };
  const grpc_channel_args all{sizeof(arguments) / sizeof(arguments[0]), arguments};
  made.server = grpc_server_create(&all, nullptr);
  grpc_server_register_completion_queue(made.server, queue_, nullptr);
  // The number of the port, which is none: the taker is what tells.
  grpc_server_add_http2_port(made.server, kExternal, server_credentials_);
  if (made.taker == nullptr) {
    grpc_server_destroy(made.server);
    return Internal("gRPC {} makes no server for connections that were accepted for it; build with "
                    "a version that does (1.27 and later)",
                    grpc_version_string());
  }
  if (Status known = CheckTaker(made.taker); !known.ok()) {
    grpc_server_destroy(made.server);
    return known;
  }
  return made;
}

Status GrpcLibrary::CheckTaker(const GrpcConnectionTaker* taker) {
  // As gRPC has named it since 1.27.
  constexpr std::string_view kKnown = "ExternalConnectionHandler";
  // The Itanium C++ ABI has the type before the first function; null without run-time types.
  const auto* const table = *reinterpret_cast<const std::type_info* const* const*>(taker);
  const std::type_info* const type = table[-1];
  if (type == nullptr || std::string_view(type->name()).find(kKnown) != std::string_view::npos) {
    return OkStatus();
  }
  return Internal("gRPC {} takes connections that were accepted for it by a class that this "
                  "version of Tutti does not know ({}; expected {}); use a version of gRPC that "
                  "Tutti was tested with, or a newer Tutti",
                  grpc_version_string(), type->name(), kKnown);
}

// The object is of a class in gRPC's library, of which this one is a copy.
[[gnu::no_sanitize("vptr")]] void GrpcLibrary::GiveTo(GrpcConnectionTaker* taker,
                                                      FileDescriptor socket) {
  const int limit_ms = kUnreadLimitMs;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
  taker->Take(-1, socket.Release(), nullptr);
}

}  // namespace tutti
