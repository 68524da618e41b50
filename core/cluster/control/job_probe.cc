#include "core/cluster/control/job_probe.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/auth/job_certificate.h"
#include "core/cluster/control/control_port.h"
#include "core/cluster/sockets/socket_address.h"
#include "core/cluster/sockets/socket_connect.h"
#include "core/cluster/sockets/socket_wait.h"

namespace tutti {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};
struct FreeShown {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using ShownCertificate = std::unique_ptr<X509, FreeShown>;

// OpenSSL shows the peer's certificate here. Whether it is a good one is decided by
// CheckPeerCertificate, and again by gRPC when it connects.
int KeepCertificate(X509_STORE_CTX* context, void* kept) {
  X509* certificate = X509_STORE_CTX_get0_cert(context);
  if (certificate != nullptr && X509_up_ref(certificate) == 1) {
    static_cast<ShownCertificate*>(kept)->reset(certificate);
  }
  return 1;
}

Status SendPending(Environment& environment, const FileDescriptor& socket, BIO* output,
                   const CallOptions& call, const std::string& what) {
  char buffer[4096];
  for (;;) {
    const int size = BIO_read(output, buffer, sizeof(buffer));
    if (size <= 0) return OkStatus();
    for (int done = 0; done < size;) {
      const ssize_t sent = send(socket.get(), buffer + done, static_cast<size_t>(size - done),
                                MSG_NOSIGNAL);
      if (sent >= 0) {
        done += static_cast<int>(sent);
      } else if (errno == EAGAIN) {
        TUTTI_RETURN_IF_ERROR(WaitForSocket(environment, socket, POLLOUT, call, what));
      } else if (errno != EINTR) {
        return ErrnoStatus(errno, what);
      }
    }
  }
}

Status NoJob(const std::string& peer, std::string_view because) {
  return FailedPrecondition("what listens at {} is no worker of a Tutti job: {}; check the "
                            "address, and whether another program uses the port",
                            peer, because);
}

// The certificate that whatever listens there shows in TLS.
Result<ShownCertificate> ReadCertificate(Environment& environment, const FileDescriptor& socket,
                                    const std::string& peer, const CallOptions& call) {
  const std::string what = "TLS with " + peer;
  ShownCertificate certificate;
  const std::unique_ptr<SSL_CTX, FreeContext> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return Internal("OpenSSL has no TLS");
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context.get(), &KeepCertificate, &certificate);
  const std::unique_ptr<SSL, FreeSession> session(SSL_new(context.get()));
  BIO* input = BIO_new(BIO_s_mem());
  BIO* output = BIO_new(BIO_s_mem());
  if (session == nullptr || input == nullptr || output == nullptr) {
    BIO_free(input);
    BIO_free(output);
    return Status::OutOfMemory();
  }
  SSL_set_bio(session.get(), input, output);  // they are the session's now
  SSL_set_tlsext_host_name(session.get(), JobCertificate::kServerName);
  SSL_set_connect_state(session.get());
  bool answered = false;
  while (certificate == nullptr) {
    ERR_clear_error();
    const int result = SSL_do_handshake(session.get());
    if (certificate != nullptr) break;
    if (result == 1) return NoJob(peer, "it shows no TLS certificate");
    if (SSL_get_error(session.get(), result) != SSL_ERROR_WANT_READ) {
      return NoJob(peer, "it does not speak TLS");
    }
    Status status = SendPending(environment, socket, output, call, what);
    if (status.ok()) status = WaitForSocket(environment, socket, POLLIN, call, what);
    if (status.code() == StatusCode::kDeadlineExceeded) {
      return Unavailable("what listens at {} takes connections and does not answer: it is stopped "
                         "or overloaded, or no worker of a Tutti job",
                         peer);
    }
    if (!status.ok() && status.code() == StatusCode::kCancelled) return status;
    char buffer[4096];
    const ssize_t got =
        status.ok() ? recv(socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT) : 0;
    if (got > 0) {
      answered = true;
      BIO_write(input, buffer, static_cast<int>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      // A worker that is about to end does the same.
      return Unavailable("what listens at {} ended the connection {}: it is about to end, or no "
                         "worker of a Tutti job",
                         peer, answered ? "in the middle of TLS" : "without a word");
    }
  }
  return certificate;
}

// Tells whoever listens there that somebody with another secret has come. In vain where it has
// gone.
void Knock(Environment& environment, const JobSecret& secret, const SocketAddress& address,
           const CallOptions& call) {
  const Result<FileDescriptor> socket = ConnectSocket(environment, address, call);
  if (!socket.ok()) return;
  const std::string knock = ControlPort::KnockOf(secret.Fingerprint());
  [[maybe_unused]] const ssize_t sent =
      send(socket->get(), knock.data(), knock.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Status ProbeOne(Environment& environment, const JobSecret& secret,
                const std::string& authority_pem, const SocketAddress& address,
                const CallOptions& call) {
  const std::string peer = address.ToString();
  const int64_t start_ns = environment.clock().NowNs();
  Result<FileDescriptor> socket = ConnectSocket(environment, address, call);
  if (!socket.ok()) {
    if (socket.status().code() != StatusCode::kDeadlineExceeded) return socket.status();
    return Unavailable("no answer from {} within {}; check that the machine runs and that no "
                       "firewall stands in between",
                       peer, HumanDuration(environment.clock().NowNs() - start_ns));
  }
  TUTTI_ASSIGN_OR_RETURN(const ShownCertificate certificate,
                         ReadCertificate(environment, *socket, peer, call));
  Status status = CheckPeerCertificate(secret, authority_pem, certificate.get(), peer);
  if (status.code() == StatusCode::kUnauthenticated) Knock(environment, secret, address, call);
  return status;
}

}  // namespace

Result<std::string> FindJobPort(Environment& environment, const JobSecret& secret,
                                const std::string& authority_pem, const std::string& address,
                                const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, ResolveAddress(address));
  Clock& clock = environment.clock();
  Status best;
  for (size_t i = 0; i < addresses.size(); ++i) {
    // An address that swallows everything leaves time for the others.
    CallOptions part = call;
    if (!call.deadline.is_infinite()) {
      const int64_t share_ns =
          call.deadline.RemainingNs(clock) / static_cast<int64_t>(addresses.size() - i);
      part.deadline = Deadline::After(clock, share_ns);
    }
    Status status = ProbeOne(environment, secret, authority_pem, addresses[i], part);
    if (status.ok()) return addresses[i].ToString();
    if (status.code() == StatusCode::kCancelled) return status;
    // Something that is there tells more than nothing that is not.
    if (best.ok() || (best.code() == StatusCode::kUnavailable &&
                      status.code() != StatusCode::kUnavailable)) {
      best = std::move(status);
    }
  }
  return best;
}

}  // namespace tutti
